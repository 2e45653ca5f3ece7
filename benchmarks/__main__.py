"""Every figure in turn; exit code 1 when one is missed."""

from __future__ import annotations

import sys

from . import fusion, models, search_speed, start_up, warm_store
from ._figures import publish

results = [
    publish("start_up", start_up.figures()),
    publish("search_speed", search_speed.figures()),
    publish("warm_store", warm_store.figures()),
    models.main([]) == 0,
    fusion.main([]) == 0,
]
sys.exit(not all(results))

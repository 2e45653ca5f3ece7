"""A model's tuning tasks, for exchange with other programs' records."""

from __future__ import annotations

from ..fusion import plan as make_plan
from ..graph import from_model
from ..kernels import lower, lower_greedy
from ..models import Model
from ..tuning import Task, make_tasks
from ._planning import plan_for
from ._settings import Settings


def tasks_of(model: Model, settings: Settings) -> list[Task]:
    """The kernels of `unfused`, of `greedy`, which are what TVM's own pipeline makes, and of the predicted plan."""
    graph = from_model(model)
    unfused = make_plan(graph, settings.target, rules=(), planner="unfused")
    variants = {
        "unfused": lower(model, unfused, "unfused"),
        "greedy": lower_greedy(model),
        "planned": lower(model, plan_for(model, graph, settings), "planned"),
    }
    return make_tasks(variants, settings.target)

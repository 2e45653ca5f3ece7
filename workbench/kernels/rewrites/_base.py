"""The interface of all rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..program import Operation

# Takes a group's operations in order and the variables of them that are read outside the group or returned; gives
# other operations that compute the same values into the same variables. Raises KernelError when it does not apply.
Rewrite = Callable[[Sequence[Operation], frozenset[Any]], list[Operation]]

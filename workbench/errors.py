"""Every error that the workbench raises on purpose, under one base class.

::

    WorkbenchError                      exit code 1
    ├── InputError                      exit code 2: what was given cannot be used
    │   ├── ModelError                  a missing, broken or NaN-carrying model
    │   │   ├── UnsupportedOperator     names the operator and the node that has it
    │   │   └── SymbolicShapeError      names the symbol that needs a size
    │   ├── TargetError                 an unknown target, or one that this machine lacks
    │   ├── RuleError                   a rule file that cannot be loaded, or a rule that fails
    │   ├── PlanError                   a plan that does not belong to the model
    │   │   └── IllegalGroup            a set of nodes that cannot be one kernel
    │   ├── CostModelError              a cost model that cannot be read, or too few kernels to learn from
    │   └── BudgetError                 a budget that allows nothing
    ├── SetupError                      exit code 2: a package or a linker is missing or of a wrong version
    ├── StoreError                      exit code 2: read-only, full, broken, or written by a newer version
    ├── KernelError                     a group that cannot be lowered, scheduled, built or run
    └── CheckError                      nothing was measured, or a result is wrong

A message says what was given, what was expected and what to do next, on one line.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base class; ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class InputError(WorkbenchError):
    """What the caller gave cannot be used."""

    exit_code = 2


class ModelError(InputError):
    """A model that is missing, broken, or carries NaN or infinite weights."""


class UnsupportedOperator(ModelError):
    """An operator that no importer or lowering knows; names the operator and its node."""

    def __init__(self, operator: str, node: str, source: str) -> None:
        self.operator, self.node, self.source = operator, node, source
        super().__init__(
            f"{source}: operator '{operator}' at node '{node}' is not supported; "
            "replace it, or export the model without it"
        )


class SymbolicShapeError(ModelError):
    """A dimension that is still a symbol; ``--batch`` (``batch=``) binds the batch symbol."""

    def __init__(self, symbol: str, source: str, advice: str = "give a size with --batch N") -> None:
        self.symbol, self.source = symbol, source
        super().__init__(f"{source}: dimension '{symbol}' has no size; {advice}")


class TargetError(InputError):
    """A target that is unknown, or that needs what this machine lacks."""


class RuleError(InputError):
    """A rule file that cannot be loaded, or a rule that raised."""


class PlanError(InputError):
    """A plan document that is broken or belongs to another model."""


class IllegalGroup(PlanError):
    """A set of nodes that cannot become one kernel.

    ``category`` is one of ``workbench.fusion.categories.CATEGORIES``; ``detail`` names the nodes.
    """

    def __init__(self, category: str, detail: str) -> None:
        self.category, self.detail = category, detail
        super().__init__(f"{category}: {detail}")


class CostModelError(InputError):
    """A cost model that is broken or of another version, or too few measured kernels to learn one from."""


class BudgetError(InputError):
    """A budget that allows no trial at all."""


class SetupError(WorkbenchError):
    """A package, a linker or a combination of versions with which TVM cannot work."""

    exit_code = 2


class StoreError(WorkbenchError):
    """The store cannot be read or written."""

    exit_code = 2


class KernelError(WorkbenchError):
    """A group cannot be lowered, scheduled, built or run."""


class CheckError(WorkbenchError):
    """Nothing was measured, or a result is wrong."""

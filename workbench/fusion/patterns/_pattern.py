"""What a pattern can be made of: frozen objects, and the functions that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType

from ...errors import RuleError
from ...graph import Graph
from ..matching import Match

Shape = tuple[int, ...]
Predicate = Callable[[object], bool]
Finder = Callable[[Graph], Iterable[Match]]
COMMUTATIVE = frozenset(
    "add multiply maximum minimum equal not_equal logical_and logical_or logical_xor bitwise_and bitwise_or "
    "bitwise_xor".split()
)


@dataclass(frozen=True)
class Pattern:
    """Matches a value of a graph by what produces it."""


@dataclass(frozen=True)
class Anything(Pattern):
    name: str | None = None


@dataclass(frozen=True)
class Constant(Pattern):
    name: str | None = None
    value: float | None = None
    shape: Callable[[Shape], bool] | None = None


@dataclass(frozen=True)
class Here(Pattern):
    """Stands in a step for what the step leads to."""


@dataclass(frozen=True, eq=False)
class Op(Pattern):
    names: tuple[str, ...] = ()
    inputs: tuple[Pattern, ...] | None = None  # None: whatever they are
    rest: bool = False  # whether operands behind ``inputs`` may be anything
    through: Pattern | None = None  # what some operand must match; only where inputs is None
    attrs: Mapping[str, object] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    shape: Callable[[Shape], bool] | None = None
    kinds: tuple[str, ...] = ()
    name: str | None = None
    item: int | None = None

    def leading_to(self, inner: Pattern) -> Op:
        """This step with ``inner`` in the place of HERE; some operand where the step does not say which."""
        if self.inputs is None:
            return replace(self, through=inner)
        inputs = tuple(inner if isinstance(p, Here) else p for p in self.inputs)
        return replace(self, inputs=inputs)


@dataclass(frozen=True, eq=False)
class OneOf(Pattern):
    choices: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Repeat(Pattern):
    step: Op
    inner: Pattern
    least: int
    most: int

    def rest(self) -> Pattern:
        """What the first step leads to."""
        return replace(self, least=max(0, self.least - 1), most=self.most - 1) if self.most > 1 else self.inner


@dataclass(frozen=True, eq=False)
class Bind(Pattern):
    name: str
    inner: Pattern


@dataclass(frozen=True, eq=False)
class Producers(Pattern):
    step: Op
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class Region(Pattern):
    finder: Finder
    inner: Pattern


HERE = Here()


def op(
    *names: str,
    inputs: Sequence[Pattern | EllipsisType] | None = None,
    attrs: Mapping[str, object] | None = None,
    dtype: str | Sequence[str] = (),
    rank: int | Sequence[int] = (),
    shape: Callable[[Shape], bool] | None = None,
    kind: str | Sequence[str] = (),
    name: str | None = None,
    item: int | None = None,
) -> Op:
    """The result of an operator: one of ``names`` (any where there are none) of one of the ``kind``s.

    ``inputs``: patterns of all operands, ``...`` at the end for further ones; None leaves them open. ``attrs``: what
    attributes must be, a value or a predicate; ``axis`` and ``axes`` count from either end. ``dtype``, ``rank`` and
    ``shape`` (a predicate on the extents) are the result's. ``name`` binds the result, ``item`` says which result of
    several. Raises RuleError for ``...`` elsewhere than at the end.

    >>> op("nn.softmax", attrs={"axis": -1}, dtype="float32", rank=[3, 4], shape=lambda s: s[-1] <= 4096).ranks
    (3, 4)
    """
    given = tuple(inputs or ())
    if ... in given[:-1]:
        raise RuleError(f"pattern {'/'.join(names) or 'op'}: '...' may only be the last of inputs")
    rest = given[-1:] == (...,)
    operands = tuple(one for one in given if isinstance(one, Pattern))
    if len(operands) + rest != len(given):
        raise RuleError(f"pattern {'/'.join(names) or 'op'}: inputs must be patterns, such as anything() or op(...)")
    return Op(
        names=names,
        inputs=None if inputs is None else operands,
        rest=rest,
        attrs=dict(attrs or {}),
        dtypes=_strings(dtype),
        ranks=(rank,) if isinstance(rank, int) else tuple(rank),
        shape=shape,
        kinds=_strings(kind),
        name=name,
        item=item,
    )


def anything(name: str | None = None) -> Anything:
    """Any value; under a name, the same value wherever the name stands."""
    return Anything(name)


def constant(
    name: str | None = None, value: float | None = None, shape: Callable[[Shape], bool] | None = None
) -> Constant:
    """A constant; with ``value``, one number, equal to the digits that frameworks write out (0.02 %)."""
    return Constant(name, value, shape)


def one_of(*choices: Pattern) -> OneOf:
    """The first of several patterns that matches."""
    return OneOf(choices)


def optional(step: Op, inner: Pattern) -> Repeat:
    """``inner``, with or without ``step`` behind it."""
    return Repeat(step, inner, 0, 1)


def repeat(step: Op, inner: Pattern, min: int = 0, max: int = 8) -> Repeat:
    """``inner`` with ``min`` to ``max`` steps in a row behind it, as many as there are. RuleError for other counts."""
    if not 0 <= min <= max or max < 1:
        raise RuleError(f"pattern repeat: min {min} and max {max} do not fit; give 0 <= min <= max, 1 <= max")
    return Repeat(step, inner, min, max)


def bind(name: str, inner: Pattern) -> Bind:
    """``inner``, whose value has a name from now on."""
    return Bind(name, inner)


def producers(step: Op, min: int = 0, max: int = 12) -> Producers:
    """All producers of a value that are like ``step``, as far back as nothing else reads them.

    Each has the value's own shape; together they may be a tree, not only a chain.
    """
    return Producers(step, min, max)


def region(finder: Finder, inner: Pattern) -> Region:
    """The output of what a Python function finds (``matching.gelus``), computed from what ``inner`` matches."""
    return Region(finder, inner)


def _strings(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)

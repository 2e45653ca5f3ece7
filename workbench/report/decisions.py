"""A plan's decision in words: its times with intervals, the ratio, and its factors one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from . import format as fmt

FORMS = ("fused", "partial", "unfused")
PLACES = {"kernel": "kernels alone", "model": "inside the model"}  # where a time was measured


class FactorsLike(Protocol):
    """``fusion.plan.Factors``, or the same as ``run.json`` has it."""

    @property
    def bytes_saved(self) -> int: ...
    @property
    def launches_saved(self) -> int: ...
    @property
    def intensity_before(self) -> float | None: ...
    @property
    def intensity_after(self) -> float | None: ...
    @property
    def recompute(self) -> float | None: ...
    @property
    def parallelism(self) -> int: ...
    @property
    def pressure(self) -> float | None: ...
    @property
    def recomputed_flops(self) -> float | None: ...
    @property
    def level(self) -> str: ...
    @property
    def bound_before(self) -> str: ...
    @property
    def bound_after(self) -> str: ...
    @property
    def compile_s(self) -> float | None: ...
    @property
    def arguments(self) -> int: ...


def times(given: Mapping[str, float] | None, ranges: Mapping[str, Sequence[float]] | None = None) -> list[str]:
    """One line a form, in the order in which they are compared: "fused 12.1 ms [11.9, 12.4]"."""
    known = given or {}
    order = [*(form for form in FORMS if form in known), *(form for form in known if form not in FORMS)]
    return [f"{form} {_time(known[form], (ranges or {}).get(form))}" for form in order]


def _time(us: float, bounds: Sequence[float] | None) -> str:
    if not bounds:
        return fmt.time(us)
    size, _ = fmt.unit_of(us)
    return f"{fmt.time(us)} [{fmt.significant(bounds[0] / size)}, {fmt.significant(bounds[1] / size)}]"


def ratio(given: Mapping[str, float] | None) -> float | None:
    """The faster of the partial and the unfused form over the fused one; above 1: fused is faster. None: unknown."""
    known = given or {}
    apart = [known[form] for form in FORMS[1:] if form in known]
    return min(apart) / known["fused"] if apart and known.get("fused") else None


def ratio_text(given: Mapping[str, float] | None) -> str:
    """The ratio as "1.27x", or a dash."""
    value = ratio(given)
    return fmt.NONE if value is None else f"{value:.2f}x"


def factor_rows(factors: FactorsLike) -> list[tuple[str, str]]:
    """Every factor as a name and a text; what a plan of an older release does not know is left out."""
    rows = [
        ("saves", f"{fmt.size(factors.bytes_saved)} between kernels, {_launches(factors.launches_saved)}"),
        ("intensity", f"{fmt.number(factors.intensity_before)} -> {fmt.number(factors.intensity_after)} FLOP/byte"),
    ]
    if factors.bound_before and factors.bound_after:
        rows.append(("bound by", _change(factors.bound_before, factors.bound_after)))
    if factors.level:
        rows.append(("arguments in", factors.level))
    rows.append(("recompute", _recompute(factors)))
    rows.append(("parallelism", fmt.count(factors.parallelism, "outer iteration")))
    rows.append(("registers", f"{fmt.number(factors.pressure)} of the vector registers live"))
    if factors.arguments:
        rows.append(("signature", fmt.count(factors.arguments, "tensor")))
    if factors.compile_s:
        rows.append(("compiles in", f"{factors.compile_s:.2f} s (estimated)"))
    return rows


def _launches(saved: int) -> str:
    return fmt.count(saved, "launch", "launches")


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _recompute(factors: FactorsLike) -> str:
    if (factors.recompute or 1.0) <= 1.0 and not factors.recomputed_flops:
        return "nothing is computed twice"
    again = f", {_flops(factors.recomputed_flops)} again in all" if factors.recomputed_flops else ""
    return f"factor {fmt.number(factors.recompute)}{again}"


def _flops(count: float) -> str:
    for scale, name in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if count >= scale:
            return f"{fmt.significant(count / scale)} {name}"
    return f"{count:.0f} FLOP"

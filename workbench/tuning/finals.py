"""The last step of a search: its fastest trials against the default, checked again and timed side by side.

A search times a candidate once, at some moment of a drifting machine, and looks at many: the fastest of them is in part
the luckiest. So the few fastest are timed again, interleaved with the winner of earlier searches and with the untuned
default, and the default stays unless something beats it beyond the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..stats import Interval, median, paired_ratio
from ..store.record import Record, ScheduleSpec
from .runners._base import RunResult
from .storage import schedule_key, standing, trials_of

FINALISTS = 4
WITHIN = 1.3  # of the fastest trial's time; what was slower does not become the fastest by timing it again
ROUNDS = 11
SAME = 0.005  # nobody can tell so small a difference from the machine's, whatever the interval says
DRIFT = 0.1  # of the default's time between the search's first trial and its last that is worth a word


@dataclass(frozen=True)
class Verdict:
    """``winner``: position of the contender that was chosen; None when none worked.

    ``gain``: the default's time over the winner's, interleaved; None when the default is the winner or failed.
    ``tied``: positions of those that cannot be told from the fastest, the winner included.
    """

    winner: int | None
    gain: Interval | None = None
    tied: tuple[int, ...] = ()


def contenders(records: Sequence[Record], default: ScheduleSpec) -> list[ScheduleSpec]:
    """The default, the winner of before, and the fastest trials in the order of their measurement."""
    found = standing(records)
    incumbent = [record.schedule for record in found if record.stage == "winner"]
    trials = [record for record in found if record.stage == "search" and record.schedule.kind != "default"]
    limit = WITHIN * min((record.median_s for record in trials), default=0.0)
    ranked = sorted((record for record in trials if record.median_s <= limit), key=lambda record: record.median_s)
    fastest = list(dict.fromkeys(schedule_key(record.schedule) for record in ranked))[:FINALISTS]
    picked = [record.schedule for record in trials if schedule_key(record.schedule) in fastest]
    return list({schedule_key(spec): spec for spec in (default, *incumbent, *picked)}.values())


def needed(records: Sequence[Record]) -> bool:
    """Whether something is there that no finals have looked at: a trial that is faster than the last winner."""
    found = standing(records)
    best = min(found, key=lambda record: record.median_s, default=None)
    return best is not None and best.stage != "winner" and any(one.schedule.kind != "default" for one in found)


def decide(results: Sequence[RunResult]) -> Verdict:
    """Chooses among contenders in the order of :func:`contenders`, the default first.

    Those whose interval against the fastest reaches one, or nearly, are tied with it, and of these the first is
    chosen, so that noise does not decide. But the default is beaten only by what is faster beyond the interval.
    """
    good = [index for index, result in enumerate(results) if result.status == "ok"]
    if not good:
        return Verdict(None)
    fastest = min(good, key=lambda index: (median(results[index].seconds), index))
    tied = tuple(index for index in good if index == fastest or _ratio(results, index, fastest).low <= 1.0 + SAME)
    if tied[0] == 0:
        return Verdict(0, None, tied)
    if 0 not in good:
        return Verdict(tied[0], None, tied)
    beats = [index for index in tied if index == fastest or _ratio(results, 0, index).low > 1.0]
    return Verdict(beats[0], _ratio(results, 0, beats[0]), tied)


def drift(records: Sequence[Record], seconds: Sequence[float]) -> float | None:
    """The default's time now over that of its first trial; None where that is unknown."""
    first = next((one for one in trials_of(records) if one.schedule.kind == "default" and one.status == "ok"), None)
    return None if first is None or not seconds else median(seconds) / first.median_s


def words(verdict: Verdict, drift: float | None) -> str:
    """What people should know of the finals beside the winner's time; "" for nothing."""
    said = []
    if verdict.winner == 0:
        said.append("nothing beat the default schedule beyond the interval")
    if drift is not None and abs(drift - 1) > DRIFT:
        said.append(f"the machine drifted: the default took {drift:.2f} times as long in the end as at the start")
    return "; ".join(said)


def _ratio(results: Sequence[RunResult], top: int, bottom: int) -> Interval:
    """Of times in the same rounds; of medians, without an interval, where one was too slow for more than one call."""
    a, b = results[top].seconds, results[bottom].seconds
    if len(a) == len(b):
        return paired_ratio(a, b)
    ratio = median(a) / median(b)
    return Interval(ratio, ratio, ratio, min(len(a), len(b)))

"""Interleaved timing on a made-up machine, whose clock only moves when something runs on it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from workbench.measure.timing import SLOW_ROUNDS, time_interleaved
from workbench.stats import median, paired_ratio, relative_half_width


class Machine:
    """``speed(now)`` scales every call's time: 1 is nominal. Noise is multiplicative, seeded."""

    def __init__(self, speed: Callable[[float], float] = lambda now: 1.0, noise: float = 0.0) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self._speed, self._noise, self._rng = speed, noise, np.random.default_rng(0)

    def clock(self) -> float:
        return self.now

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def call() -> None:
            self.calls.append(name)
            self.now += seconds * self._speed(self.now) * self._rng.lognormal(0.0, self._noise)

        return call


def test_seconds_per_call_whatever_a_sample_holds() -> None:
    machine = Machine()
    calls = {"a": machine.work("a", 1e-4), "b": machine.work("b", 0.03)}
    timings = time_interleaved(calls, seconds=5, clock=machine.clock)
    assert timings.inner == {"a": 100, "b": 1}
    assert timings.samples["a"] == pytest.approx([1e-4] * len(timings.samples["a"]))
    assert timings.samples["b"] == pytest.approx([0.03] * len(timings.samples["b"]))
    assert timings.stopped == "tight"
    assert len(timings.samples["a"]) == 5
    assert timings.seconds == pytest.approx(machine.now)


def test_a_against_a_gives_a_ratio_interval_that_holds_one() -> None:
    machine = Machine(noise=0.05)
    calls = {"a": machine.work("a", 0.01), "b": machine.work("b", 0.01)}
    timings = time_interleaved(calls, seconds=20, target_half_width=0.0, clock=machine.clock)
    ratio = paired_ratio(*timings.paired("a", "b"))
    assert timings.stopped == "time"
    assert ratio.n > 100
    assert ratio.low <= 1 <= ratio.high
    assert relative_half_width(ratio) < 0.03


def test_a_drift_of_the_machine_cancels_in_the_ratio() -> None:
    """The machine slows down to a third; measured one after the other the two would seem far apart."""

    def speed(now: float) -> float:
        return 1 + now / 5

    machine = Machine(speed, noise=0.01)
    calls = {"a": machine.work("a", 0.02), "b": machine.work("b", 0.01)}
    timings = time_interleaved(calls, seconds=10, target_half_width=0.0, clock=machine.clock)
    ratio = paired_ratio(*timings.paired("a", "b"))
    assert ratio.low < 2 < ratio.high
    assert relative_half_width(ratio) < 0.02
    half = len(timings.samples["a"]) // 2
    assert median(timings.samples["a"][half:]) > 1.3 * median(timings.samples["a"][:half])


def test_every_round_has_each_once_in_an_order_that_changes() -> None:
    machine = Machine()
    names = ("a", "b", "c")
    calls = {name: machine.work(name, 0.02) for name in names}
    time_interleaved(calls, seconds=3, target_half_width=-1.0, clock=machine.clock, seed=3)
    rounds = [tuple(machine.calls[i : i + 3]) for i in range(2 * 3, len(machine.calls), 3)]
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) == 6


def test_equal_seeds_give_equal_orders() -> None:
    def order(seed: int) -> list[str]:
        machine = Machine()
        calls = {name: machine.work(name, 0.02) for name in "abcd"}
        time_interleaved(calls, seconds=2, target_half_width=-1.0, clock=machine.clock, seed=seed)
        return machine.calls

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_warm_up_rounds_are_not_samples() -> None:
    machine = Machine()
    spent = iter([9.0, 5.0, 4.0, 3.0])  # two calls to calibrate, two rounds to warm up

    def cold() -> None:
        machine.now += next(spent, 0.5)

    timings = time_interleaved({"a": cold}, seconds=1000, clock=machine.clock)
    assert set(timings.samples["a"]) == {0.5}


def test_slow_callables_take_part_in_few_rounds_and_hold_nobody_up() -> None:
    machine = Machine(noise=0.02)
    calls = {"fast": machine.work("fast", 0.01), "slow": machine.work("slow", 2.0)}
    timings = time_interleaved(calls, seconds=10, target_half_width=0.0, clock=machine.clock, slow=frozenset({"slow"}))
    assert len(timings.samples["slow"]) == SLOW_ROUNDS
    assert len(timings.samples["fast"]) > 50
    first, second = timings.paired("slow", "fast")
    assert len(first) == len(second) == SLOW_ROUNDS
    assert paired_ratio(first, second).median == pytest.approx(200, rel=0.1)


def test_what_would_use_up_the_time_is_slow_without_being_named() -> None:
    machine = Machine(noise=0.02)
    calls = {"fast": machine.work("fast", 0.01), "slow": machine.work("slow", 4.0)}
    timings = time_interleaved(calls, seconds=10, target_half_width=0.0, clock=machine.clock)
    assert len(timings.samples["slow"]) == SLOW_ROUNDS
    assert machine.calls.count("slow") == SLOW_ROUNDS + 1


def test_a_slow_callable_alone_still_gets_its_rounds() -> None:
    machine = Machine()
    timings = time_interleaved({"slow": machine.work("slow", 30.0)}, seconds=1, clock=machine.clock)
    assert len(timings.samples["slow"]) >= SLOW_ROUNDS


def test_rounds_are_limited() -> None:
    machine = Machine(noise=0.5)
    calls = {"a": machine.work("a", 0.02)}
    timings = time_interleaved(calls, seconds=1e9, max_rounds=40, target_half_width=0.0, clock=machine.clock)
    assert timings.stopped == "rounds"
    assert timings.rounds["a"] == tuple(range(40))


@pytest.mark.parametrize("good_calls", [0, 1, 7])
def test_a_callable_that_raises_leaves_and_the_others_go_on(good_calls: int) -> None:
    machine = Machine()
    works = machine.work("bad", 0.02)

    def bad() -> None:
        if machine.calls.count("bad") == good_calls:
            raise RuntimeError("no more")
        works()

    timings = time_interleaved({"bad": bad, "good": machine.work("good", 0.02)}, seconds=2, clock=machine.clock)
    assert list(timings.samples) == ["good"]
    assert len(timings.samples["good"]) >= 5
    assert str(timings.failed["bad"]) == "no more"


def test_nothing_to_time() -> None:
    machine = Machine()
    timings = time_interleaved({}, seconds=1, clock=machine.clock)
    assert timings.samples == {}


def test_the_collector_rests_meanwhile_and_works_again_afterwards() -> None:
    machine = Machine()
    states: list[bool] = []
    work = machine.work("a", 0.02)

    def call() -> None:
        states.append(gc.isenabled())
        work()

    time_interleaved({"a": call}, seconds=1, clock=machine.clock)
    assert set(states) == {False}
    assert gc.isenabled()


def test_an_interrupt_keeps_the_samples_taken_before_it() -> None:
    machine = Machine(noise=0.05)

    def interrupted() -> None:
        machine.work("b", 0.01)()
        if machine.calls.count("b") > 30:
            raise KeyboardInterrupt

    calls = {"a": machine.work("a", 0.01), "b": interrupted}
    timings = time_interleaved(calls, seconds=1000, target_half_width=0.0, clock=machine.clock)
    assert timings.stopped == "interrupted"
    assert median(timings.samples["a"]) == pytest.approx(0.01, rel=0.05)
    assert 20 < len(timings.samples["b"]) <= 30


def test_an_interrupt_before_anything_was_sampled_is_one() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_interleaved({"a": interrupted}, seconds=1)

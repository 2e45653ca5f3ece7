"""Ctrl-C and SIGTERM around calls that no exception may cross."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from workbench.tuning.interrupt import InterruptGuard, held_back


def press(times: int, steps: list[int]) -> None:
    """Ctrl-C so many times inside a block that holds them back; ``steps`` has those after which the block went on."""
    with held_back():
        for number in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            steps.append(number)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    steps: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        press(1, steps)
    assert steps == [0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_goes_through_at_once() -> None:
    steps: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        press(3, steps)
    assert steps == [0]


def test_the_guard_around_it_hears_of_the_interrupt() -> None:
    with InterruptGuard() as guard, pytest.raises(KeyboardInterrupt):
        press(1, [])
    assert guard.interrupted


def test_nothing_happens_without_a_signal_or_in_another_thread() -> None:
    done = []

    def work() -> None:
        with held_back():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with held_back():
        done.append(True)
    assert done == [True, True]

"""What the parent and its worker processes say to each other; plain picklable data, TVM objects as their JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from ..kernels.kernel import Kernel, PackedArgument
from ..kernels.workload import Workload
from ..store.record import MeasureSettings, ScheduleSpec, Status
from ..targets import Target


@dataclass(frozen=True)
class TaskMessage:
    """A workload for the build workers. ``workload.module`` is None: it travels as ``module``, TVM's JSON."""

    key: str
    workload: Workload
    module: str
    target: Target


@dataclass(frozen=True)
class BuildRequest:
    """``module``: the scheduled module as TVM's JSON, or None when the worker applies ``schedule`` itself."""

    key: str
    schedule: ScheduleSpec
    module: str | None
    library: Path


@dataclass(frozen=True)
class BuildAnswer:
    """The kernel, linked into the asked library, or why there is none."""

    kernel: Kernel | None
    status: Status
    error: str


@dataclass(frozen=True)
class ArgumentFiles:
    """A task's inputs and expected outputs as ``.npy`` files in one folder, written once by the parent.

    ``inputs`` are the workload's arguments without the outputs, in order. ``reference`` are the outputs in float64,
    ``native`` those of NumPy in the workload's own dtypes.
    """

    inputs: tuple[Path, ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype
    reference: tuple[Path, ...]
    native: tuple[Path, ...]


@dataclass(frozen=True)
class RunRequest:
    """``hopeless_s``: a candidate whose single call takes longer than this is timed by that one call."""

    key: str
    library: Path
    symbol: str
    packed: tuple[PackedArgument, ...]
    settings: MeasureSettings
    hopeless_s: float
    files: ArgumentFiles


@dataclass(frozen=True)
class Contender:
    """A built candidate that is timed against others."""

    library: Path
    symbol: str
    packed: tuple[PackedArgument, ...]


@dataclass(frozen=True)
class CompareRequest:
    """``files``: several sets of inputs and expected outputs; the first is the one that is timed."""

    key: str
    contenders: tuple[Contender, ...]
    settings: MeasureSettings
    rounds: int
    hopeless_ratio: float
    files: tuple[ArgumentFiles, ...]


@dataclass(frozen=True)
class CompareAnswer:
    """One answer a contender, in order; those that worked have one second a round."""

    answers: tuple[RunAnswer, ...]


@dataclass(frozen=True)
class RunAnswer:
    """Seconds per repeat, or why there are none."""

    status: Status
    seconds: tuple[float, ...]
    error: str
    max_error: float | None


def portable(workload: Workload) -> Workload:
    """The workload without TVM objects and without the group's graph, whose constants may be large."""
    return dataclasses.replace(workload, module=None, graph=None)

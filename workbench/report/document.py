"""The parts of ``run.json``: immutable, with units in the names, and without NaN or infinity.

Times of what was measured are microseconds (``_us``), times of the job itself seconds (``_s``). A number that does
not exist, or that is not finite, is ``null``; the text beside it says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of every part: frozen, finite, and tolerant of fields that a later release of the same schema adds."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="ignore", populate_by_name=True)


class IntervalUs(Part):
    """A median with its 95 % bootstrap interval over ``n`` samples, in microseconds."""

    median: float
    low: float
    high: float
    n: int


class IntervalRatio(Part):
    """A ratio of medians with its 95 % bootstrap interval; above 1: faster than what it is compared with."""

    median: float
    low: float
    high: float


class TensorPart(Part):
    """Name, shape and dtype of a model's input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class CheckPart(Part):
    """How the imported program compared with its source framework; ``ok`` is null where that was not possible."""

    framework: str = "none"
    ok: bool | None = None
    max_abs_error: float | None = None
    message: str = ""


class ModelPart(Part):
    """The model of a run."""

    name: str
    source: str
    fingerprint: str
    inputs: tuple[TensorPart, ...]
    outputs: tuple[TensorPart, ...] = ()
    check: CheckPart = CheckPart()


class TargetPart(Part):
    """The device. ``peak_*`` are what shares are shares of; ``nominal_*`` what the data sheet promises."""

    kind: str
    device: str
    cores: int
    threads: int
    llvm: str | None = None
    cuda: str | None = None
    peak_gflops: float
    peak_gbps: float
    peaks_measured: bool = False
    nominal_gflops: float | None = None
    nominal_gbps: float | None = None
    mcpu: str = ""
    features: tuple[str, ...] = ()
    vector_bits: int = 0
    launch_us: float | None = None
    exact_math: bool = False
    key: str = ""


class EnvironmentPart(Part):
    """Versions and the machine's state when the run began; more fields may be given and are kept."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="allow")

    tvm: str = ""
    tvm_ffi: str = ""
    xgboost: str = ""
    numpy: str = ""
    python: str = ""
    os: str = ""
    load_at_start: float | None = None
    affinity: tuple[int, ...] = ()


class BudgetPart(Part):
    """What the search was allowed to spend; null: no limit of that kind."""

    trials: int | None = None
    trials_per_task: int | None = None
    minutes: float | None = None
    until: float | None = None  # per cent that a minute had to be worth
    seed: int = 0
    strategy: str = ""


class GroupPart(Part):
    """A group of the plan."""

    id: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule: str
    kind: str
    reason: str
    predicted_us: float | None = None
    workload: str | None = None
    rewrite: str | None = None


class FactorsPart(Part):
    """What a decision rests on; intensities are FLOP per byte.

    Fields with a default are unknown in runs of older releases.
    """

    bytes_saved: int
    launches_saved: int
    intensity_before: float | None
    intensity_after: float | None
    recompute: float | None
    parallelism: int
    pressure: float | None
    recomputed_flops: float | None = None
    level: str = ""
    bound_before: str = ""
    bound_after: str = ""
    compile_s: float | None = None
    arguments: int = 0


class DecisionPart(Part):
    """Why a boundary was fused or left. ``category``: one of ``workbench.fusion.CATEGORIES``.

    ``*_range_us``: low and high of the times that have an interval, under the same names ("fused", "partial",
    "unfused"). ``expected``: the verdict of the prediction alone. ``measured_in``: "kernel" (each on its own), "model".
    ``predicted_us`` is for inside the model; ``beside_us``: the part of it that kernels on their own do not have.
    """

    boundary: str
    rule: str
    verdict: str
    predicted_us: Mapping[str, float] = {}
    measured_us: Mapping[str, float] | None = None
    factors: FactorsPart | None = None
    reason: str
    nodes: tuple[str, ...] = ()
    category: str = ""
    predicted_range_us: Mapping[str, tuple[float, float]] = {}
    measured_range_us: Mapping[str, tuple[float, float]] = {}
    expected: str | None = None
    measured_in: str = ""
    beside_us: Mapping[str, float] = {}


class ScoresPart(Part):
    """How far predictions were from measurements: relative errors, and Spearman's rank correlation."""

    kernels: int
    median_error: float
    rank_correlation: float


class PredictionsPart(Part):
    """How good the cost model was that the plan rests on.

    ``here``: on the kernels that this run measured, some of which a learned model may have been trained on.
    ``held_out`` and ``held_out_analytic``: the learned and the analytic model on groups that neither was trained on.
    """

    model: str
    here: ScoresPart | None = None
    held_out: ScoresPart | None = None
    held_out_analytic: ScoresPart | None = None
    warning: str = ""


class PlanPart(Part):
    """The plan that the variant ``planned`` follows. ``path``: its document, relative to the run folder."""

    path: str | None = None
    planner: str = ""
    objective: str = ""
    cost_model: str = ""
    search: str = ""
    predictions: PredictionsPart | None = None
    rules: tuple[str, ...] = ()
    groups: tuple[GroupPart, ...] = ()
    decisions: tuple[DecisionPart, ...] = ()


class TrialPart(Part):
    """One trial of a search; ``median_us`` is null unless ``status`` is "ok"."""

    trial: int
    elapsed_s: float
    status: str
    median_us: float | None = None


class TaskPart(Part):
    """A tuned workload. ``low_us`` and ``high_us`` are the least and the greatest of the best trial's repeats.

    ``schedule_source``: "search: NAME", "library: NAME" or "default". ``schedule_id`` identifies the schedule itself.
    """

    workload: str
    ops: tuple[str, ...]
    shapes: str = ""
    weight: int = 1
    variants: tuple[str, ...] = ()
    trials: int = 0
    failed: Mapping[str, int] = {}
    best_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    default_us: float | None = None
    gflops: float | None = None
    schedule_source: str = "default"
    schedule_id: str = ""
    cached: bool = False
    model_rank_correlation: float | None = None
    note: str = ""
    history: tuple[TrialPart, ...] = ()


class VariantPart(Part):
    """A way to run the whole model. ``latency_us`` is null when it is wrong or failed: no speed is claimed then."""

    name: str
    tuned: bool
    kernels: int
    intermediate_bytes: int
    latency_us: IntervalUs | None = None
    ratio_to_unfused: IntervalRatio | None = None
    ratio_to_greedy: IntervalRatio | None = None
    peak_fraction: float | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    error_ratio: float | None = None
    correct: bool = False
    status: str = "ok"
    message: str = ""
    samples_us: tuple[float, ...] = ()


class GroupMeasured(Part):
    """One kernel's time inside the whole model. ``peak_fraction`` is of the roofline at this intensity."""

    variant: str
    id: str
    latency_us: float
    share: float
    gflops: float | None
    gbps: float | None
    arithmetic_intensity: float | None
    bound: str
    peak_fraction: float | None
    ops: tuple[str, ...] = ()
    workload: str | None = None


class CachePart(Part):
    """How many kernels came out of the kernel cache, and how many had to be built."""

    hits: int = 0
    builds: int = 0

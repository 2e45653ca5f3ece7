"""Runs for the tests of the report: an encoder layer's operators, shapes and FLOPs with times of a plausible size.

Made from the stages' own dataclasses and put together by ``build_run``, as the main job does. Only the times are
invented: seeded noise around figures that a two-core CPU reaches.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from workbench.fusion.plan import Decision, Factors, FusionPlan, Group
from workbench.graph import Graph
from workbench.kernels.workload import KernelCall, LoweredModel, Workload
from workbench.measure.measurement import Correctness, GroupTime, VariantMeasurement
from workbench.models import ImportCheck, Model, TensorSpec
from workbench.report.assemble import build_run
from workbench.report.run import Run
from workbench.stats import Interval
from workbench.store.record import MeasureSettings, Record, ScheduleSpec
from workbench.targets import Target
from workbench.targets.target import Caches
from workbench.tuning.task import Budget, Task, TaskResult, TuneResult

TVM = "0.27.0.post1"
F32 = 4
TOKENS, WIDTH, HIDDEN, HEADS = 256, 512, 2048, 8

TARGET = Target(
    kind="llvm",
    device="AMD EPYC 7763 64-Core Processor",
    mcpu="znver3",
    features=("avx2", "fma"),
    vector_bits=256,
    cores=2,
    threads=2,
    caches=Caches(l1=32 << 10, l2=512 << 10, l3=32 << 20),
    llvm="22.1.5",
    peak_gflops=208.0,
    peak_gbps=40.0,
)
MEASURED = TARGET.with_peaks(195.3, 29.7)

GEMM = 2.0 * TOKENS * WIDTH * WIDTH
ACTIVATION = TOKENS * WIDTH * F32
SQUARE = WIDTH * WIDTH * F32

# id, rule, kind, nodes (id: operator), FLOP, bytes, planned microseconds, shapes, schedule
GROUPS: tuple[tuple[str, str, str, dict[str, str], float, int, float, str, str], ...] = (
    ("g0", "parallel_matmuls", "horizontal",
     {"lv0": "matmul", "lv1": "add", "lv2": "matmul", "lv3": "add", "lv4": "matmul", "lv5": "add"},
     3 * GEMM, 4 * ACTIVATION + 3 * SQUARE, 2410.0, "1x256x512, 512x512 ×3 -> 1x256x512 ×3", "library:several_matmuls"),
    ("g1", "attention", "vertical",
     {"lv9": "matmul", "lv10": "multiply", "lv11": "nn.softmax", "lv12": "matmul"},
     4.0 * HEADS * TOKENS * TOKENS * 64, 4 * ACTIVATION, 1270.0, "1x8x256x64 ×3 -> 1x8x256x64", "library:attention"),
    ("g2", "bias_activation", "vertical", {"lv14": "matmul", "lv15": "add"},
     GEMM, 2 * ACTIVATION + SQUARE, 842.0, "1x256x512, 512x512 -> 1x256x512", "trace:evolutionary"),
    ("g3", "residual_norm", "vertical", {"lv16": "add", "lv17": "nn.layer_norm"},
     8.0 * TOKENS * WIDTH, 3 * ACTIVATION, 61.0, "1x256x512 ×2 -> 1x256x512", "trace:evolutionary"),
    ("g4", "gelu", "vertical", {"lv18": "matmul", "lv19": "add", "lv20": "nn.gelu"},
     4 * GEMM, ACTIVATION + 4 * SQUARE + 4 * ACTIVATION, 3660.0, "1x256x512, 512x2048 -> 1x256x2048",
     "trace:evolutionary"),
    ("g5", "bias_activation", "vertical", {"lv21": "matmul", "lv22": "add"},
     4 * GEMM, ACTIVATION + 4 * SQUARE + 4 * ACTIVATION, 3540.0, "1x256x2048, 2048x512 -> 1x256x512",
     "trace:evolutionary"),
    ("g6", "residual_norm", "vertical", {"lv23": "add", "lv24": "nn.layer_norm"},
     8.0 * TOKENS * WIDTH, 3 * ACTIVATION, 63.0, "1x256x512 ×2 -> 1x256x512", "trace:evolutionary"),
    ("g7", "single", "single", {"lv6": "reshape"}, 0.0, 2 * ACTIVATION, 118.0, "1x256x512 -> 1x8x256x64", "default:"),
)  # fmt: skip

GRAPH = Graph(name="encoder", nodes=(), values={}, inputs=("x",), outputs=("lv24",), fingerprint="f" * 64)


@dataclasses.dataclass(frozen=True, eq=False)
class SampleWorkload(Workload):
    """A workload whose shapes are given, since there is no tensor program to read them from."""

    text: str = ""

    @property
    def shapes(self) -> str:
        return self.text


def model(name: str = "encoder") -> Model:
    spec = TensorSpec("x", (1, TOKENS, WIDTH), "float32")
    check = ImportCheck("none", None, None, "a built-in model: there is no source framework to compare with")
    return Model(name, name, None, (spec,), (spec,), "f" * 64, check)  # type: ignore[arg-type]


def workload_key(group: str) -> str:
    """Equal groups (the two residual norms) share a workload."""
    return {"g6": "g3"}.get(group, group).encode().hex().ljust(64, "0")


def decided(
    boundary: str,
    rule: str,
    verdict: Any,
    category: str,
    predicted: dict[str, float],
    factors: Factors | None,
    reason: str,
    measured: dict[str, float] | None = None,
    expected: Any = None,
) -> Decision:
    """A decision whose predictions are within a factor of 1.5 and whose measurements within 2 %."""
    return Decision(
        boundary, rule, verdict, predicted, measured, factors, reason,
        nodes=() if "->" in boundary else tuple(boundary.split("+")),
        kind="" if "->" in boundary else "vertical",
        category=category,
        predicted_range_us={name: (us / 1.5, us * 1.5) for name, us in predicted.items()},
        measured_range_us={name: (us * 0.98, us * 1.02) for name, us in (measured or {}).items()},
        expected=expected,
        measured_in="kernel" if measured else "",
    )  # fmt: skip


def plan() -> FusionPlan:
    groups = tuple(
        Group(
            id=name,
            nodes=tuple(nodes),
            ops=tuple(nodes.values()),
            rule=rule,
            kind=kind,
            reason="on its own: no rule proposes it"
            if rule == "single"
            else f"{rule}: the inner tensors stay in cache",
            predicted_us=0.8 * us,
        )
        for name, rule, kind, nodes, _, _, us, _, _ in GROUPS
    )
    factors = Factors(2 * ACTIVATION, 2, 15.2, 61.7, 1.0, 256, 0.6, 0.0, "L3", "memory", "compute", 0.11, 5)
    thin = Factors(ACTIVATION, 2, 61.7, 64.0, 512.0, 4, 2.2, 3.2e9, "memory", "compute", "compute", 0.14, 7)
    decisions = (
        decided(
            "lv18+lv19+lv20", "gelu", "fuse", "fused", {"fused": 2928.0, "unfused": 3710.0}, factors,
            "saves 2 launches and 1.05 MB that are written and read again", expected="fuse",
        ),
        decided(
            "lv9+lv10+lv11+lv12", "attention", "fuse", "fused",
            {"fused": 1016.0, "unfused": 2390.0, "partial": 1800.0}, factors,
            "the score matrix (2.1 MB) never reaches memory", expected="fuse",
        ),
        decided(
            "lv21+lv22+lv23+lv24", "residual_norm", "split", "measured slower",
            {"fused": 3500.0, "unfused": 3603.0}, thin,
            "refused: the norm needs whole rows, which leaves 4 independent iterations for the matmul",
            {"fused": 4400.0, "unfused": 3603.0, "partial": 3590.0}, expected="tie",
        ),
        decided(
            "lv5->lv6", "", "tie", "tie", {"fused": 118.2, "unfused": 118.0}, None,
            "left: reshape feeds attention with another layout",
        ),
    )  # fmt: skip
    return FusionPlan(GRAPH, TARGET.key, "predict", groups, decisions, rules=("gelu", "attention", "residual_norm"))


def workloads() -> dict[str, Workload]:
    spec = TensorSpec("x", (1, TOKENS, WIDTH), "float32")
    found: dict[str, Workload] = {}
    for name, _, _, nodes, flops, size, _, shapes, _ in GROUPS:
        key = workload_key(name)
        found.setdefault(
            key,
            SampleWorkload(key, None, (spec, spec), 1, (), tuple(nodes.values()), flops, size, None, shapes),  # type: ignore[arg-type]
        )
    return found


def lowered() -> dict[str, LoweredModel]:
    """``planned``: a call a group; ``unfused``: a call a node; ``greedy``: matmuls with their epilogues."""
    planned = tuple(
        KernelCall(name, f"fused_{name}", workload_key(name), tuple(nodes.values()), tuple(nodes))
        for name, _, _, nodes, *_ in GROUPS
    )
    unfused = tuple(
        KernelCall(f"u_{node}", node, f"{node}".encode().hex().ljust(64, "0"), (op,), (node,))
        for _, _, _, nodes, *_ in GROUPS
        for node, op in nodes.items()
    )
    greedy = tuple(
        KernelCall(f"fused_{index}", f"fused_{index}", f"{index:064x}", ops, ()) for index, ops in enumerate(op_pairs())
    )
    none: Any = None
    return {
        "planned": LoweredModel("planned", none, workloads(), planned, 6 * ACTIVATION),
        "unfused": LoweredModel("unfused", none, {}, unfused, 31 * ACTIVATION),
        "greedy": LoweredModel("greedy", none, {}, greedy, 17 * ACTIVATION),
    }


def op_pairs() -> list[tuple[str, ...]]:
    pairs: list[tuple[str, ...]] = []
    for _, _, _, nodes, *_ in GROUPS:
        ops = list(nodes.values())
        pairs += [tuple(ops[at : at + 2]) for at in range(0, len(ops), 2)]
    return pairs


def record(key: str, trial: int, seconds: float, status: str = "ok", spec: ScheduleSpec | None = None) -> Record:
    spec = spec or ScheduleSpec("trace", "evolutionary", [["split", trial]])
    times = (seconds, seconds * 1.01, seconds * 1.03) if status == "ok" else ()
    return Record(
        key, TARGET.key, TVM, spec, status, times, MeasureSettings(threads=2),  # type: ignore[arg-type]
        error="" if status == "ok" else "timed out after 10 s", strategy="evolutionary", trial=trial,
        elapsed_s=0.9 * (trial + 1),
    )  # fmt: skip


def tune(seed: int = 0, cached: bool = False, schedule_seed: int = 0) -> TuneResult:
    """Searches that fall off as real ones do: a first sixth of failures, then ever rarer improvements."""
    random = np.random.default_rng(seed)
    results = []
    for name, _, _, _, _, _, us, _, schedule in GROUPS:
        if name == "g6":
            continue
        key = workload_key(name)
        source, _, entry = schedule.partition(":")
        task = Task(workloads()[key], TARGET, 2 if name == "g3" else 1, ("planned",))
        if source == "default":
            results.append(TaskResult(task, None, (), us * 1e-6, {}, False, None, "nothing to tune: moves data only"))
            continue
        records = []
        for trial in range(0 if cached else 64):
            worse = 1 + 2.4 * float(random.exponential()) * np.exp(-trial / 25)
            status = "timeout" if random.random() < 0.04 else "build_error" if random.random() < 0.05 else "ok"
            spec = ScheduleSpec("library", entry, {"tile": trial}) if source == "library" else None
            records.append(record(key, trial, us * 1e-6 * worse, status, spec))
        good = [one for one in records if one.status == "ok"]
        kind: Any = source
        best = record(key, 64, us * 1e-6, spec=ScheduleSpec(kind, entry, {"tile": 8 + schedule_seed}))
        failed: dict[str, int] = {}
        for one in records:
            if one.status != "ok":
                failed[one.status] = failed.get(one.status, 0) + 1
        records += [] if cached else [best]
        correlation = None if cached or source == "library" else 0.87
        results.append(
            TaskResult(task, best, tuple(records), us * 7.3e-6, failed, cached, correlation, "", len(records))
        )
        assert cached or good
    trials = sum(len(result.records) for result in results)
    return TuneResult(tuple(results), 0.0 if cached else 281.4, trials, True)


def interval(samples: np.ndarray) -> Interval:
    """Median and a normal approximation of its interval: enough for a picture."""
    median = float(np.median(samples))
    half = 1.96 * 1.2533 * float(np.std(samples)) / len(samples) ** 0.5
    return Interval(median, median - half, median + half, len(samples))


SCORES = HEADS * TOKENS * TOKENS * F32
SCORE_FLOPS = 2.0 * HEADS * TOKENS * TOKENS * (WIDTH // HEADS)
BIG = TOKENS * HIDDEN * F32
# FLOP and bytes of each node on its own
WORK: dict[str, tuple[float, int]] = {
    **{f"lv{n}": (GEMM, 2 * ACTIVATION + SQUARE) for n in (0, 2, 4, 14)},
    **{f"lv{n}": (ACTIVATION / F32, 2 * ACTIVATION) for n in (1, 3, 5, 15, 22)},
    "lv6": (0.0, 2 * ACTIVATION),
    "lv9": (SCORE_FLOPS, 2 * ACTIVATION + SCORES),
    "lv10": (SCORES / F32, 2 * SCORES),
    "lv11": (5.0 * SCORES / F32, 2 * SCORES),
    "lv12": (SCORE_FLOPS, 2 * ACTIVATION + SCORES),
    **{f"lv{n}": (ACTIVATION / F32, 3 * ACTIVATION) for n in (16, 23)},
    **{f"lv{n}": (7.0 * ACTIVATION / F32, 2 * ACTIVATION) for n in (17, 24)},
    "lv18": (4 * GEMM, ACTIVATION + 4 * SQUARE + BIG),
    "lv19": (BIG / F32, 2 * BIG),
    "lv20": (12.0 * BIG / F32, 2 * BIG),
    "lv21": (4 * GEMM, ACTIVATION + 4 * SQUARE + BIG),
}


def call_work(variant: str) -> list[tuple[str, float, float]]:
    """Call, FLOP and bytes: a group's first and last traffic, its nodes' arithmetic."""
    nodes = [node for _, _, _, names, *_ in GROUPS for node in names]
    if variant == "unfused":
        parts = [[node] for node in nodes]
    elif variant == "planned":
        parts = [list(names) for _, _, _, names, *_ in GROUPS]
    else:
        parts = [list(names)[at : at + 2] for _, _, _, names, *_ in GROUPS for at in range(0, len(names), 2)]
    calls = lowered()[variant].calls
    work = []
    for call, part in zip(calls, parts, strict=True):
        flops = sum(WORK[node][0] for node in part)
        traffic = max(WORK[node][1] for node in part) + 0.1 * sum(WORK[node][1] for node in part[1:])
        work.append((call.group, flops, traffic))
    return work


def groups_of(variant: str, total_s: float) -> tuple[GroupTime, ...]:
    """Kernel times of a variant: its work at plausible rates, scaled to 97 % of the whole."""
    work = call_work(variant.removesuffix("-untuned"))
    weights = [3e-6 + max(flops / 150e9, traffic / 18e9) for _, flops, traffic in work]
    if variant == "planned":
        weights = [us for *_, us, _, _ in GROUPS]
    times = []
    for (group, flops, traffic), weight in zip(work, weights, strict=True):
        share = weight / sum(weights)
        latency = share * total_s * 0.97
        intensity = flops / traffic
        rate, bandwidth = flops / latency / 1e9, traffic / latency / 1e9
        bound = "compute" if intensity > MEASURED.peak_gflops / MEASURED.peak_gbps else "memory"
        roof = min(MEASURED.peak_gflops, MEASURED.peak_gbps * intensity)
        fraction = rate / roof if roof else bandwidth / MEASURED.peak_gbps
        times.append(GroupTime(group, latency, share, rate, bandwidth, intensity, bound, fraction))
    return tuple(times)


def measurement(
    name: str,
    ms: float,
    unfused_ms: float = 17.2,
    *,
    status: str = "ok",
    seed: int = 0,
    count: int = 25,
    noise: float = 0.015,
) -> VariantMeasurement:
    """A variant around ``ms`` milliseconds; ``status`` "wrong" or "failed" has no times, as in a real run."""
    random = np.random.default_rng([seed, sum(name.encode())])
    samples = ms * 1e-3 * (1 + noise * np.abs(random.standard_normal(count)))
    base = name.removesuffix("-untuned")
    call_count, inner = len(lowered()[base].calls), lowered()[base].intermediate_bytes
    ratio = unfused_ms * 1e-3 * 1.01 / float(np.median(samples))
    if name == "unfused":
        ratio = 1.0
    spread = 0.0 if name == "unfused" else 0.02 * ratio
    right = Correctness(True, 2.4e-6, 3.1e-6, 1.3, "numpy float64")
    if status == "wrong":
        right = Correctness(
            False, 0.31, float("nan"), float("inf"), "numpy float64",
            "output 0 differs from numpy float64 by 0.31 at [0, 3, 17]: 130000 times NumPy's own float32 error",
        )  # fmt: skip
    ok = status == "ok"
    return VariantMeasurement(
        name=name,
        tuned=not name.endswith("-untuned"),
        kernels=call_count,
        intermediate_bytes=inner,
        correctness=right,
        latency=interval(samples) if ok else None,
        ratio_to_unfused=Interval(ratio, ratio - spread, ratio + spread, count) if ok else None,
        groups=groups_of(name, float(np.median(samples))) if ok else (),
        samples=tuple(float(sample) for sample in samples) if ok else (),
        status=status,
        error="kernel fused_g4: out of memory" if status == "failed" else "",
    )


def measurements(seed: int = 0, **changes: Any) -> tuple[VariantMeasurement, ...]:
    """The four usual variants. ``planned=13.0`` sets a time in ms, ``planned="wrong"`` a status."""
    times: dict[str, float] = {"unfused": 17.2, "greedy": 14.9, "planned": 12.1, "unfused-untuned": 96.0}
    found = []
    for name, ms in times.items():
        change = changes.get(name.replace("-", "_"), ms)
        status = change if isinstance(change, str) else "ok"
        found.append(measurement(name, ms if isinstance(change, str) else change, status=status, seed=seed))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Cache:
    hits: int
    builds: int


ENVIRONMENT = {
    "tvm": TVM,
    "tvm_ffi": "0.1.14.post1",
    "xgboost": "3.2.0",
    "numpy": "2.3.1",
    "python": "3.11.2",
    "os": "Linux 6.1.0",
    "load_at_start": 0.12,
    "affinity": [0, 1],
}


def sample_run(seed: int = 0, variants: dict[str, Any] | None = None, **changes: Any) -> Run:
    """An encoder's run. ``variants``: see ``measurements``; ``changes``: other arguments of ``build_run``."""
    arguments: dict[str, Any] = {
        "model": model(),
        "plan": plan(),
        "target": MEASURED,
        "nominal": TARGET,
        "tune": tune(seed),
        "measurements": measurements(seed, **(variants or {})),
        "lowered": lowered(),
        "budget": Budget(None, 64, 5.0, 0),
        "strategy": "evolutionary",
        "environment": ENVIRONMENT,
        "command": "workbench run encoder --minutes 5 --trials-per-task 64",
        "timings": {
            "import": 1.2, "plan": 0.3, "tune": 281.4, "compile": 4.1, "check": 0.9, "measure": 20.6, "report": 1.8,
        },
        "reference": "numpy float64",
        "cache": Cache(hits=0, builds=24),
        "notes": ("g7 cannot be tuned: it only moves data",),
        "plan_svg": PLAN_SVG,
        "created": "2026-11-29T12:00:00+00:00",
    }  # fmt: skip
    arguments.update(changes)
    return build_run(**arguments)


PLAN_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="60" viewBox="0 0 240 60">'
    '<rect x="2" y="2" width="236" height="56" fill="none" stroke="#0072B2"/>'
    '<text x="12" y="36" font-size="14">g0: matmul ×3</text></svg>'
)

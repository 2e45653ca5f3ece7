"""Writes the measured kernels that the committed cost models learn from, and trains the models.

python scripts/group_dataset.py                          the data of tuning_logs/, then all models
python scripts/group_dataset.py --store DIR --name NAME  the data of a store's kernels on this machine, then all models
python scripts/group_dataset.py --train-only             all models

Beside ``NAME.model.json.gz`` lie its kernels, ``NAME.data.jsonl.gz``, and the machine they were measured on,
``NAME.target.json``. For the logs, every built-in model is lowered unfused, as planned and as TVM's FuseOps partitions
it, which gives workload keys and their groups; these, and the groups that the logs hold themselves, are joined with the
best records. Groups that were in the data before stay, since a plan of today may not make them any more. A store for
``--store`` should hold built-in models only (``workbench run NAME --store DIR``): what the cases of the benchmark
measure has to stay unseen.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import tuning_logs
from workbench import api
from workbench.fusion import plan
from workbench.fusion.cost_models import LearnedCostModel, Sample
from workbench.fusion.cost_models.choice import PRETRAINED
from workbench.fusion.cost_models.samples import read_samples, sample, stored_samples, write_samples
from workbench.graph import Graph, from_model
from workbench.graph.serialise import from_json, to_json
from workbench.kernels import lower, lower_greedy
from workbench.measure import probe
from workbench.models import builtin_models
from workbench.store import Record, Store
from workbench.store.exchange import read_records
from workbench.targets import Caches, Target, resolve
from workbench.tvm_seam import tvm_version

LOGGED = "epyc_znver4_2_threads"
# Where the committed records come from. Caches are AMD's figures for these processors (EPYC 9004); peaks are what the
# best of the recorded kernels reach: 233 GFLOP/s of a matmul, 54 GB/s of an elementwise chain over 50 MB.
CACHES = Caches(32 << 10, 1 << 20, 32 << 20)
PEAKS = (240.0, 55.0)


def main() -> None:
    """See the module's first lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-only", action="store_true", help="keep all data")
    parser.add_argument("--store", type=Path, help="folder of a store whose kernels on this machine become data")
    parser.add_argument("--name", help="of the data, such as intel_avx512_2_threads")
    options = parser.parse_args()
    if (options.store is None) != (options.name is None):
        parser.error("--store and --name go together")
    PRETRAINED.mkdir(exist_ok=True)
    if options.store is not None:
        target = measured_target()
        with Store(options.store) as store:
            write(options.name, stored_samples(store, target.key, tvm_version()), target)
    elif not options.train_only:
        best = best_records()
        write(LOGGED, measured_groups(best), target_of(next(iter(best.values()))))
    for path in sorted(PRETRAINED.glob("*.data.jsonl.gz")):
        name = path.name.removesuffix(".data.jsonl.gz")
        model = LearnedCostModel.train(read_samples(path), recorded_target(name))
        model.save(PRETRAINED / f"{name}.model.json.gz")
        print(name, json.dumps(model.evaluation.to_json(), indent=1))


# Data


def write(name: str, samples: Iterable[Sample], target: Target) -> None:
    """Writes kernels beside those that the data hold already, and the machine."""
    path = PRETRAINED / f"{name}.data.jsonl.gz"
    found = {_key(one): one for one in samples}
    for old in read_samples(path) if path.exists() else ():
        found.setdefault(_key(old), old)
    (PRETRAINED / f"{name}.target.json").write_text(json.dumps(dataclasses.asdict(target), indent=1) + "\n")
    print(f"{path.name}: {write_samples(path, [found[key] for key in sorted(found)])} kernels")


def measured_target() -> Target:
    """This machine."""
    target = resolve("llvm")
    peaks = probe(target)
    return target.with_peaks(peaks.gflops, peaks.gbps)


def recorded_target(name: str) -> Target:
    """The machine that ``write`` kept under a name."""
    document = json.loads((PRETRAINED / f"{name}.target.json").read_text())
    return Target(**document | {"caches": Caches(**document["caches"]), "features": tuple(document["features"])})


# The committed logs


def best_records() -> dict[str, Record]:
    """Workload key -> its fastest record in the committed logs, in order of key."""
    found = [record for path in tuning_logs.paths() for record in read_records(path)[0] if record.status == "ok"]
    slowest_first = sorted(found, key=lambda record: (record.workload, -record.median_s))
    return {record.workload: record for record in slowest_first}


def measured_groups(best: dict[str, Record]) -> list[Sample]:
    """The groups of the built-in models' variants, and of the logs, that have a record."""
    graphs = {key: from_json(group) for path in tuning_logs.paths() for key, group in read_records(path)[1].items()}
    for name in builtin_models():
        graphs |= groups_of(name)
        print(f"{name}: {len(graphs.keys() & best.keys())} kernels so far", flush=True)
    return [sample(graph, best[key]) for key, graph in graphs.items() if key in best]


def groups_of(name: str) -> dict[str, Graph]:
    """Workload key -> group, of the variants of a built-in model."""
    model, target = api.load(name), resolve("llvm")
    graph = from_model(model)
    variants = [
        lower(model, plan(graph, target, rules=(), planner="unfused"), "unfused"),
        lower(model, plan(graph, target), "planned"),
        lower_greedy(model),
    ]
    workloads = {key: workload.graph for lowered in variants for key, workload in lowered.workloads.items()}
    return {key: group for key, group in workloads.items() if group is not None}


def target_of(record: Record) -> Target:
    """The machine of the committed logs, of which a record has the key only."""
    kind, device, mcpu, features, cores, llvm, _ = record.target.split("/")
    count, _, threads = cores.removeprefix("c").partition("t")
    return Target(
        kind, device, mcpu, tuple(features.split("+")), 512, int(count), int(threads), CACHES,
        llvm.removeprefix("llvm"), *PEAKS, peaks_measured=True,
    )  # fmt: skip


def _key(one: Sample) -> str:
    return json.dumps(to_json(one.graph), sort_keys=True)


if __name__ == "__main__":
    main()

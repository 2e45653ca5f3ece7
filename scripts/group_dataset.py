"""Writes the measured kernels that the committed cost model learns from, and trains it.

python scripts/group_dataset.py [--train-only]

Lowers every built-in model unfused, as planned and as TVM's FuseOps partitions it, which gives workload keys and their
groups; joins these, and the groups that the logs hold themselves, with the best records of ``tuning_logs/``. Groups
that were in the data before stay, since a plan of today may not make them any more.
"""

from __future__ import annotations

import argparse
import json

import tuning_logs
from workbench import api
from workbench.fusion import plan
from workbench.fusion.cost_models import LearnedCostModel, Sample
from workbench.fusion.cost_models.choice import PRETRAINED
from workbench.fusion.cost_models.samples import read_samples, sample, write_samples
from workbench.graph import Graph, from_model
from workbench.graph.serialise import from_json, to_json
from workbench.kernels import lower, lower_greedy
from workbench.models import builtin_models
from workbench.store import Record
from workbench.store.exchange import read_records
from workbench.targets import Caches, Target, resolve

NAME = "epyc_znver4_2_threads"
# Where the committed records come from. Caches are AMD's figures for these processors (EPYC 9004); peaks are what the
# best of the recorded kernels reach: 233 GFLOP/s of a matmul, 54 GB/s of an elementwise chain over 50 MB.
CACHES = Caches(32 << 10, 1 << 20, 32 << 20)
PEAKS = (240.0, 55.0)


def main() -> None:
    """See the module's first lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-only", action="store_true", help="keep the data, train the model anew")
    options = parser.parse_args()
    best = best_records()
    data = PRETRAINED / f"{NAME}.data.jsonl.gz"
    if not options.train_only:
        PRETRAINED.mkdir(exist_ok=True)
        found = measured_groups(best)
        for old in read_samples(data) if data.exists() else ():
            found.setdefault(_key(old), old)
        print(f"{data.name}: {write_samples(data, [found[key] for key in sorted(found)])} kernels")
    model = LearnedCostModel.train(read_samples(data), target_of(next(iter(best.values()))))
    model.save(PRETRAINED / f"{NAME}.model.json.gz")
    print(json.dumps(model.evaluation.to_json(), indent=1))


def best_records() -> dict[str, Record]:
    """Workload key -> its fastest record in the committed logs, in order of key."""
    found = [record for path in tuning_logs.paths() for record in read_records(path)[0] if record.status == "ok"]
    slowest_first = sorted(found, key=lambda record: (record.workload, -record.median_s))
    return {record.workload: record for record in slowest_first}


def measured_groups(best: dict[str, Record]) -> dict[tuple[str, float], Sample]:
    """The groups of the built-in models' variants, and of the logs, that have a record."""
    graphs = {key: from_json(group) for path in tuning_logs.paths() for key, group in read_records(path)[1].items()}
    for name in builtin_models():
        graphs |= groups_of(name)
        print(f"{name}: {len(graphs.keys() & best.keys())} kernels so far", flush=True)
    made = [sample(graph, best[key]) for key, graph in graphs.items() if key in best]
    return {_key(one): one for one in made}


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


def _key(one: Sample) -> tuple[str, float]:
    return json.dumps(to_json(one.graph), sort_keys=True), one.seconds


if __name__ == "__main__":
    main()

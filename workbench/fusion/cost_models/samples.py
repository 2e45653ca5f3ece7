"""What a cost model learns from: measured kernels with their groups, of a store or of a file."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CostModelError, PlanError
from ...graph import Graph
from ...graph.serialise import from_json, to_json
from ..matching import is_view

if TYPE_CHECKING:
    from ...store import Record, Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Sample:
    """A tuned kernel: what it computes, and its seconds as measured: least, median and most of its best trial."""

    graph: Graph
    seconds: float
    low: float
    high: float

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes of the group."""
        return tuple(node.id for node in self.graph.nodes)

    @property
    def operators(self) -> str:
        """The operator sequence: ``nn.conv2d+add+nn.relu``."""
        return "+".join(node.op for node in self.graph.nodes)


def stored_samples(store: Store, target: str, tvm: str) -> list[Sample]:
    """The best record of every kernel that the store has measured on the target and whose group it knows.

    In order of workload key; groups that cannot be read are left out, with a warning.
    """
    records = store.best_records(target, tvm)
    groups = store.groups([record.workload for record in records])
    samples = []
    for record in records:
        try:
            graph = from_json(groups[record.workload])
        except PlanError as error:
            log.warning("workload %s is left out of the cost model: %s", record.workload[:12], error)
            continue
        if not is_view(graph, (node.id for node in graph.nodes)):
            samples.append(sample(graph, record))
    return samples


def sample(graph: Graph, record: Record) -> Sample:
    """A sample of a group and its best record."""
    return Sample(graph, record.median_s, min(record.seconds), max(record.seconds))


def write_samples(path: Path, samples: Iterable[Sample]) -> int:
    """One JSON line a sample, compressed; equal samples make an equal file. Returns how many."""
    lines = [
        json.dumps(
            {
                "ops": one.operators,
                "seconds": one.seconds,
                "low": one.low,
                "high": one.high,
                "group": to_json(one.graph),
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        for one in samples
    ]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return len(lines)


def read_samples(path: Path) -> list[Sample]:
    """The samples of a file of :func:`write_samples`. Raises CostModelError when it cannot be read."""
    try:
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        return [Sample(from_json(one["group"]), one["seconds"], one["low"], one["high"]) for one in lines]
    except (OSError, ValueError, KeyError, TypeError, PlanError, EOFError) as error:
        raise CostModelError(f"{path} holds no measured kernels: {type(error).__name__}: {error}") from error

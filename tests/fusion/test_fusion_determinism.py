"""One plan for one graph, whatever the seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
from fusion_graphs import TARGET, Net
from workbench.fusion import Evidence, Measured, builtin_rules, plan
from test_fusion_random_graphs import reckless

net = Net()
x, h = net.input("x", 32, 32), net.input("y", 32, 32)
for i in range(6):
    a = net.op("add", net.op("matmul", h, net.const(32, 32)), net.const(32))
    b = net.op("add", net.op("matmul", h, net.const(32, 32)), net.const(32))
    g = net.op("multiply", net.op("nn.silu", a), b)
    s = net.op("add", g, h)
    n = net.op("nn.layer_norm", s, net.const(32), net.const(32), axes=(-1,))
    t = net.op("exp", net.op("sum", n, axis=(1,), keepdims=True))
    h = net.op("add", net.op("multiply", t, n), net.op("permute_dims", s, axes=(1, 0)))
graph = net.graph(h)
made = plan(graph, TARGET, rules=(reckless, *builtin_rules()))
measured = {frozenset((n.id,)): 1e-6 * (i % 7 + 1) for i, n in enumerate(graph.nodes)}
measured |= {frozenset(g.nodes): 2e-6 * (i % 5 + 1) for i, g in enumerate(made.groups)}
known = {nodes: Measured(seconds, seconds, seconds) for nodes, seconds in measured.items()}
again = plan(graph, TARGET, rules=(reckless, *builtin_rules()), evidence=Evidence(known))
document = [made.to_json(), again.to_json()]
for part in document:
    part["model"] = None
print(json.dumps(document))
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_plans_do_not_depend_on_the_hash_seed(seed: str):
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1])])

    def run(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("0") == run(seed)


def test_planning_needs_no_tvm():
    code = "import sys, workbench.fusion; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Large graphs for timing the planner, made without TVM: ``python -m benchmarks.synthetic_graphs 500``.

A transformer-like layer after the other: attention with its projections, SwiGLU, an elementwise web whose values have
several readers, and a thin gate that is broadcast. The same number of operators gives the same graph.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain, count, islice

from workbench.fusion import plan
from workbench.fusion.cost_models import choose
from workbench.graph import Graph
from workbench.graph.text import from_text
from workbench.targets import resolve

ROWS, DIM, HEADS, INNER = 64, 64, 4, 256
HEAD = DIM // HEADS

SHAPES = {
    "wide": (ROWS, DIM),
    "inner": (ROWS, INNER),
    "thin": (ROWS, 1),
    "split": (ROWS, HEADS, HEAD),
    "heads": (HEADS, ROWS, HEAD),
    "keys": (HEADS, HEAD, ROWS),
    "scores": (HEADS, ROWS, ROWS),
}
WEIGHTS = {
    "wq": (DIM, DIM), "wk": (DIM, DIM), "wv": (DIM, DIM), "wo": (DIM, DIM), "gate": (DIM, INNER), "up": (DIM, INNER),
    "down": (INNER, DIM), "bq": (DIM,), "bk": (DIM,), "bv": (DIM,), "bo": (DIM,), "scale": (DIM,), "shift": (DIM,),
}  # fmt: skip

# result | shape | operator. A name ending in a prime is the layer's own; h is the layer before.
LAYER = """
n'  | wide   | nn.layer_norm(h, scale', shift'){axes=[-1], epsilon=1e-5}
q0' | wide   | matmul(n', wq')
q1' | wide   | add(q0', bq')
q2' | split  | reshape(q1'){shape=(64, 4, 16)}
q'  | heads  | permute_dims(q2'){axes=(1, 0, 2)}
k0' | wide   | matmul(n', wk')
k1' | wide   | add(k0', bk')
k2' | split  | reshape(k1'){shape=(64, 4, 16)}
k'  | keys   | permute_dims(k2'){axes=(1, 2, 0)}
v0' | wide   | matmul(n', wv')
v1' | wide   | add(v0', bv')
v2' | split  | reshape(v1'){shape=(64, 4, 16)}
v'  | heads  | permute_dims(v2'){axes=(1, 0, 2)}
s0' | scores | matmul(q', k')
s1' | scores | multiply(s0', 0.25)
s2' | scores | add(s1', mask)
s'  | scores | nn.softmax(s2'){axis=-1}
o0' | heads  | matmul(s', v')
o1' | split  | permute_dims(o0'){axes=(1, 0, 2)}
o2' | wide   | reshape(o1'){shape=(64, 64)}
o3' | wide   | matmul(o2', wo')
o4' | wide   | add(o3', bo')
r'  | wide   | add(h, o4')
m'  | wide   | nn.layer_norm(r', scale', shift'){axes=[-1], epsilon=1e-5}
g0' | inner  | matmul(m', gate')
g1' | inner  | nn.silu(g0')
u'  | inner  | matmul(m', up')
g'  | inner  | multiply(g1', u')
d'  | wide   | matmul(g', down')
e0' | wide   | add(r', d')
e1' | wide   | tanh(e0')
e2' | wide   | multiply(e0', e1')
e3' | wide   | subtract(e1', r')
e4' | wide   | maximum(e2', e3')
e5' | wide   | multiply(e4', e0')
t0' | thin   | sum(e5'){axis=[1], keepdims=True}
t1' | thin   | exp(t0')
t2' | thin   | add(t1', 1.0)
t3' | thin   | divide(t1', t2')
h'  | wide   | multiply(e4', t3')
"""


def graph_of(operators: int) -> Graph:
    """The first ``operators`` operators of as many layers as they take; what nothing reads is an output."""
    lines = list(islice(chain.from_iterable(_layer(index) for index in count()), operators))
    layers = 1 + (operators - 1) // (LAYER.count("\n") - 1)
    inputs = [_typed("x", SHAPES["wide"]), _typed("mask", SHAPES["scores"])]
    weights = [_typed(f"{name}.{i}", shape) + " = const" for i in range(layers) for name, shape in WEIGHTS.items()]
    text = "\n".join([*inputs, *weights, *lines])
    made = [line.partition(":")[0] for line in lines]
    read = {name.strip() for line in lines for name in line.partition("(")[2].partition(")")[0].split(",")}
    outputs = ", ".join(name for name in made if name not in read)
    return from_text(f"{text}\nreturn {outputs}\n", f"synthetic_{operators}")


def _layer(index: int) -> Iterator[str]:
    before = "x" if index == 0 else f"h.{index - 1}"
    for line in LAYER.strip().splitlines():
        name, shape, call = (part.strip().replace("'", f".{index}") for part in line.split("|"))
        yield f"{_typed(name, SHAPES[shape])} = {call.replace('(h,', f'({before},')}"


def _typed(name: str, shape: tuple[int, ...]) -> str:
    return f"{name}: float32[{', '.join(map(str, shape))}]"


def main() -> None:
    """Seconds of one planning with the cost model that comes for this machine, and a digest of the plan's document."""
    graph, target = graph_of(int(sys.argv[1])), resolve("llvm")
    model = choose(target, None)
    begin = time.perf_counter()
    made = plan(graph, target, cost_model=model)
    seconds = time.perf_counter() - begin
    digest = hashlib.sha256(json.dumps(made.to_json()).encode()).hexdigest()
    found = {"groups": len(made.groups), "search": made.search, "cost_model": made.cost_model}
    print(json.dumps({"seconds": seconds, "plan": digest, **found}))


if __name__ == "__main__":
    main()

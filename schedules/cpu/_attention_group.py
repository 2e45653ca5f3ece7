"""Finds attention in a group's graph, however it is spelled: ``softmax(f(q @ k)) @ v`` with layout operators around.

The four tensors are described by expressions of index variables: ``q[batch, query, depth]`` may stand for
``x[b, query, h * 64 + depth] * 0.125`` where the group splits heads by a reshape and a transpose. Whatever composes
index by index is found; nothing depends on names or on one order of operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.graph import Graph, Node
from workbench.tvm_seam import tvm

from .._expressions import LAYOUT, Evaluator, Expr, Index, Read, Unsupported, broadcast_index, permutation

tirx = tvm.tirx
MAX_HEAD = 256
_FORWARD = frozenset({"reshape", "flatten", "expand_dims", "squeeze", "permute_dims"})


@dataclass(frozen=True, eq=False)
class Attention:
    """Extents, index variables, and the tensors as expressions of them.

    ``batch``: variables of all dimensions but the last two of ``softmax(..) @ v``. ``tail`` is what softmax takes, an
    expression of ``score`` (an element of q @ k), ``query``, ``key`` and ``batch``. ``place``: where the output holds
    element [batch, query, column].
    """

    batch_shape: tuple[int, ...]
    queries: int
    keys: int
    depth: int  # of q and k
    columns: int  # of v
    batch: tuple[Expr, ...]
    query: Expr
    key: Expr
    inner: Expr  # in [0, depth)
    column: Expr
    score: Expr
    q: Expr
    k: Expr
    v: Expr
    tail: Expr
    place: Index

    @property
    def batches(self) -> int:
        return math.prod(self.batch_shape)


def find_attention(graph: Graph, arguments: Sequence[str], read: Read) -> Attention:
    """The attention that the graph computes; ``read(name, index)`` gives an argument's element. Raises Unsupported."""
    softmax, weighted = _softmax_and_weighted(graph)
    left, right = (graph.values[name] for name in weighted.inputs)
    shape = graph.values[weighted.outputs[0]].shape
    if min(len(left.shape), len(right.shape)) < 2 or any(v.dtype != "float32" for v in (left, right)):
        raise Unsupported("softmax(..) @ v must be of float32 matrices")
    *batch_shape, queries, columns = shape
    keys = left.shape[-1]
    batch = tuple(tirx.Var(f"batch{dim}", "int32") for dim in range(len(batch_shape)))
    query, key, column = (tirx.Var(name, "int32") for name in ("query", "key", "column"))
    ranges = {**dict(zip(batch, batch_shape, strict=True)), query: queries, key: keys, column: columns}

    def argument(name: str, index: Index) -> Expr | None:
        return read(name, broadcast_index(graph.values[name].shape, index)) if name in arguments else None

    at_softmax = _index_at(graph, ranges, softmax.outputs[0], left.name, (*batch, query, key), (query, key))
    scores, at_scores, score, tail = _tail(graph, ranges, softmax, at_softmax, argument, (query, key))
    depth = graph.values[scores.inputs[0]].shape[-1]
    if max(depth, columns) > MAX_HEAD or math.prod(shape) * keys * depth == 0:
        raise Unsupported(f"head sizes {depth} and {columns}; at most {MAX_HEAD} fit")
    inner = tirx.Var("inner", "int32")
    evaluator = Evaluator(graph, {**ranges, inner: depth}, argument)

    def operand(name: str, index: Index) -> Expr:
        return evaluator.evaluate(name, broadcast_index(graph.values[name].shape, index))

    return Attention(
        batch_shape=tuple(batch_shape),
        queries=queries,
        keys=keys,
        depth=depth,
        columns=columns,
        batch=batch,
        query=query,
        key=key,
        inner=inner,
        column=column,
        score=score,
        q=operand(scores.inputs[0], (*at_scores[:-2], query, inner)),
        k=operand(scores.inputs[1], (*at_scores[:-2], inner, key)),
        v=operand(weighted.inputs[1], (*batch, key, column)),
        tail=tail,
        place=_place(graph, evaluator, weighted, (*batch, query, column)),
    )


def _softmax_and_weighted(graph: Graph) -> tuple[Node, Node]:
    softmaxes = [node for node in graph.nodes if node.op == "nn.softmax"]
    matmuls = [node for node in graph.nodes if node.op == "matmul"]
    if len(softmaxes) != 1 or len(matmuls) != 2 or len(graph.outputs) != 1:
        raise Unsupported("attention has one softmax, two matmuls and one output")
    softmax = softmaxes[0]
    rank = len(graph.values[softmax.outputs[0]].shape)
    if softmax.attrs.get("axis", -1) not in (-1, rank - 1):
        raise Unsupported("softmax must run over the last axis")
    for matmul in matmuls:
        name = matmul.inputs[0]
        node = graph.producer(name)
        while node is not None and node.op in LAYOUT:
            name = node.inputs[0]
            node = graph.producer(name)
        if name == softmax.outputs[0]:
            return softmax, matmul
    raise Unsupported("no matmul takes the softmax")


def _index_at(
    graph: Graph, ranges: dict[Expr, int], target: str, name: str, index: Index, last: tuple[Expr, Expr]
) -> Index:
    """The index at which ``target`` is read for the element of ``name``, through layout operators alone."""
    found: list[Index] = []
    marker = tirx.Var("marker", "float32")

    def leaf(value: str, at: Index) -> Expr | None:
        if value != target:
            return None
        found.append(at)
        return marker

    evaluator = Evaluator(graph, ranges, leaf)
    expr = evaluator.evaluate(name, broadcast_index(graph.values[name].shape, index))
    if not expr.same_as(marker):
        raise Unsupported("something changes the weights between softmax and the matmul with v")
    _require_last(evaluator, found[0], last)
    return found[0]


def _tail(
    graph: Graph,
    ranges: dict[Expr, int],
    softmax: Node,
    index: Index,
    argument: Callable[[str, Index], Expr | None],
    last: tuple[Expr, Expr],
) -> tuple[Node, Index, Expr, Expr]:
    """(the matmul of q and k, its index, the variable that stands for its element, softmax's input)."""
    found: list[tuple[Node, Index]] = []
    score = tirx.Var("score", "float32")

    def leaf(value: str, at: Index) -> Expr | None:
        node = graph.producer(value)
        if node is None or node.op != "matmul":
            return argument(value, at)
        found.append((node, at))
        return score

    evaluator = Evaluator(graph, ranges, leaf)
    tail = evaluator.evaluate(softmax.inputs[0], index)
    if not found:
        raise Unsupported("softmax takes no matmul's result")
    node, at = found[0]
    _require_last(evaluator, at, last)
    for _, other in found[1:]:
        if not all(evaluator.same(a, b) for a, b in zip(at, other, strict=True)):
            raise Unsupported("softmax takes different elements of the scores")
    return node, at, score, tail


def _require_last(evaluator: Evaluator, index: Index, last: tuple[Expr, Expr]) -> None:
    if len(index) < 2 or not all(evaluator.same(a, b) for a, b in zip(index[-2:], last, strict=True)):
        raise Unsupported("queries and keys are not the last two dimensions of the scores")


def _place(graph: Graph, evaluator: Evaluator, weighted: Node, index: Index) -> Index:
    """Where the group's output holds the element of ``softmax(..) @ v`` at ``index``."""
    name = weighted.outputs[0]
    while not graph.is_output(name):
        users = graph.users(name)
        if len(users) != 1 or users[0].op not in _FORWARD:
            raise Unsupported("the result of attention goes through more than layout operators")
        node = users[0]
        source, shape = graph.values[name].shape, graph.values[node.outputs[0]].shape
        if node.op == "permute_dims":
            index = tuple(index[axis] for axis in permutation(node, len(source)))
        else:
            index = evaluator.renamed(source, shape, index)
        name = node.outputs[0]
    return index

"""Graphs of Relax functions: nodes, values, costs, neighbours and subgraphs."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.errors import ModelError, PlanError, SymbolicShapeError
from workbench.graph import Graph, Value, dtype_bytes, from_function, from_model
from workbench.tvm_seam import relax, tvm

R = relax.op


def tensor(name: str, shape, dtype: str = "float32"):
    return relax.Var(name, relax.TensorType(shape, dtype))


def const(*shape: int, dtype: str = "float32"):
    return relax.const(np.random.default_rng(0).standard_normal(shape).astype(dtype), dtype)


def build(params, body) -> tvm.IRModule:
    """``body(emit)`` returns what the function returns."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(body(builder.emit))
        builder.emit_func_output(out)
    return builder.get()


def graph_of(params, body) -> Graph:
    module = build(params, body)
    return from_model(SimpleNamespace(module=module, name="g", source="here", fingerprint="f00d"))


@pytest.fixture(scope="module")
def network() -> Graph:
    """conv, batch norm, split, concat, scalar add, clip, slice; the concat and the slice are outputs."""
    x = tensor("x", (1, 4, 8, 8))

    def body(emit):
        conv = emit(R.nn.conv2d(x, const(8, 2, 3, 3), padding=1, groups=2))
        norm = emit(R.nn.batch_norm(conv, *[const(8)] * 4, axis=1, training=False))
        y = emit(norm[0])
        parts = emit(R.split(y, 2, 1))
        joined = emit(R.concat([parts[0], parts[1], y], 1))
        clipped = emit(R.clip(emit(R.add(joined, relax.const(1.0, "float32"))), 0, 6))
        return relax.Tuple([joined, emit(R.strided_slice(clipped, [1], [0], [4]))])

    return graph_of([x], body)


def test_nodes_are_the_operators_in_order(network: Graph) -> None:
    assert [node.op for node in network.nodes] == [
        "nn.conv2d", "nn.batch_norm", "split", "concat", "add", "clip", "strided_slice",
    ]  # fmt: skip
    assert [node.kind for node in network.nodes] == [
        "contraction", "broadcast", "injective", "injective", "elementwise", "elementwise", "injective",
    ]  # fmt: skip
    assert network.name == "g"
    assert network.fingerprint == "f00d"
    assert network.inputs == ("x",)


def test_items_of_a_tuple_belong_to_the_node_that_made_it(network: Graph) -> None:
    norm, split = network.nodes[1], network.nodes[2]
    assert norm.attrs["tuple_items"] == (0,)
    assert len(norm.outputs) == 1
    assert norm.bindings[0] == norm.id
    assert norm.outputs[0] == norm.bindings[1]
    assert split.attrs["tuple_items"] == (0, 1)
    assert split.bindings == (split.id, *split.outputs)
    assert network.nodes[3].inputs == (*split.outputs, norm.outputs[0])


def test_attributes_are_plain_python_values(network: Graph) -> None:
    conv, clip, part = network.nodes[0], network.nodes[5], network.nodes[6]
    assert conv.attrs["padding"] == (1, 1, 1, 1)
    assert conv.attrs["groups"] == 2
    assert conv.attrs["out_dtype"] is None
    assert (clip.attrs["min"], clip.attrs["max"]) == (0, 6)
    assert (part.attrs["axes"], part.attrs["begin"], part.attrs["end"]) == ((1,), (0,), (4,))
    for node in network.nodes:
        for value in node.attrs.values():
            assert value is None or type(value) in (int, float, str, bool, tuple)


def test_constants_are_read_only_and_appear_once(network: Graph) -> None:
    constants = [v for v in network.values.values() if v.is_constant]
    assert sorted(v.shape for v in constants) == [(), (8,), (8, 2, 3, 3)]  # batch norm's four are one constant
    scalar = network.values[network.nodes[4].inputs[1]]
    assert scalar.shape == ()
    assert float(scalar.data) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        constants[0].data[...] = 0
    with pytest.raises(TypeError):
        network.values["x"] = constants[0]  # type: ignore[index]


def test_costs(network: Graph) -> None:
    conv = network.nodes[0]
    assert conv.flops == 2 * (8 * 8 * 8) * (2 * 3 * 3)
    assert conv.space.spatial == (1, 8, 8, 8)
    assert conv.space.reduction == (2, 3, 3)
    assert conv.space.points == 8 * 8 * 8 * 18
    assert network.nodes[4].flops == 16 * 64
    assert network.nodes[3].flops == 0
    assert network.flops == sum(n.flops for n in network.nodes)


@pytest.mark.parametrize(
    ("shapes", "expression", "flops", "spatial", "reduction"),
    [
        ([(3, 4, 5), (5, 6)], R.matmul, 2 * 3 * 4 * 6 * 5, (3, 4, 6), (5,)),
        ([(3, 4)], lambda x: R.sum(x, 1), 12, (3,), (4,)),
        ([(3, 4)], lambda x: R.mean(x), 12, (), (3, 4)),
        ([(2, 6, 6, 3), (3, 3, 3, 5)],
         lambda x, w: R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"), 2 * 2 * 16 * 5 * 27,
         (2, 4, 4, 5), (3, 3, 3)),
        ([(1, 3, 4, 4), (3, 2, 2, 2)], lambda x, w: R.nn.conv2d_transpose(x, w, 2), 2 * 48 * 8, (1, 2, 8, 8),
         (3, 2, 2)),
        ([(1, 2, 6, 6)], lambda x: R.nn.max_pool2d(x, 2, 2), 18 * 4, (1, 2, 3, 3), (2, 2)),
        ([(4, 8)], lambda x: R.nn.softmax(x, -1), None, (4,), (8,)),
        ([(4, 8)], lambda x: R.reshape(x, (32,)), 0, (32,), ()),
        ([(2, 3, 4), (4, 5)], lambda a, b: R.einsum([a, b], "bij,jk->bki"), 2 * 2 * 3 * 4 * 5, (2, 5, 3), (4,)),
    ],
)  # fmt: skip
def test_cost_of_an_operator(shapes, expression, flops, spatial, reduction) -> None:
    params = [tensor(f"x{i}", s) for i, s in enumerate(shapes)]
    (node,) = graph_of(params, lambda emit: emit(expression(*params))).nodes
    if flops is not None:
        assert node.flops == flops
    assert node.space.spatial == spatial
    assert node.space.reduction == reduction


def test_elementary_functions_cost_more_than_arithmetic() -> None:
    x = tensor("x", (8,))
    exp, add = graph_of([x], lambda emit: emit(R.add(emit(R.exp(x)), x))).nodes
    assert exp.flops > 5 * add.flops > 0


def test_a_binary_operator_broadcasts_only_where_shapes_differ() -> None:
    x, y = tensor("x", (4, 8)), tensor("y", (8,))

    def body(emit):
        return emit(R.multiply(emit(R.add(x, y)), emit(R.multiply(x, relax.const(2.0, "float32")))))

    assert [n.kind for n in graph_of([x, y], body).nodes] == ["broadcast", "elementwise", "elementwise"]


def test_neighbours(network: Graph) -> None:
    conv, norm, split, concat, *_ = network.nodes
    assert network.producer("x") is None
    assert network.producer(conv.id) is conv
    assert network.users(norm.outputs[0]) == (split, concat)
    assert network.predecessors(concat.id) == (split, norm)
    assert network.successors(norm.id) == (split, concat)
    assert network.users(network.outputs[1]) == ()
    assert network.is_output(concat.id)
    with pytest.raises(PlanError, match="no node 'nowhere'"):
        network.node("nowhere")


def test_group_boundaries(network: Graph) -> None:
    _conv, norm, split, concat, add, clip, _part = network.nodes
    group = frozenset([concat.id, add.id, clip.id])
    assert network.order(group) == (concat.id, add.id, clip.id)
    inputs = network.group_inputs(group)
    assert inputs[:3] == (*split.outputs, norm.outputs[0])
    assert network.values[inputs[3]].is_constant  # constants come last
    assert network.group_outputs(group) == (concat.id, clip.id)
    assert network.group_outputs(frozenset([add.id, clip.id])) == (clip.id,)


def test_subgraph(network: Graph) -> None:
    _conv, norm, _split, concat, add, *_ = network.nodes
    part = network.subgraph([add.id, concat.id])
    assert [n.id for n in part.nodes] == [concat.id, add.id]
    assert part.inputs == concat.inputs
    assert all(part.values[name].producer is None for name in part.inputs)
    assert part.values[add.inputs[1]].is_constant
    assert part.outputs == (concat.id, add.id)
    assert norm.id not in part.values
    assert part.producer(concat.inputs[0]) is None


def test_describe_names_every_node(network: Graph) -> None:
    text = network.describe()
    assert len(text.splitlines()) == 1 + len(network.inputs) + len(network.nodes) + 1
    for node in network.nodes:
        assert f"= {node.op}(" in text


def test_a_tuple_used_as_a_whole() -> None:
    x = tensor("x", (4, 6))

    def body(emit):
        parts = emit(R.split(x, 3, 1))
        return emit(R.concat(parts, 0))

    split, concat = graph_of([x], body).nodes
    assert len(split.outputs) == 3
    assert concat.inputs == split.outputs


def test_a_groups_function_with_aliases_and_parameters_for_constants() -> None:
    x, w = tensor("x", (4, 6)), tensor("c0", (6, 5))
    y, z = relax.DataflowVar("lv", relax.TensorType((4, 5), "float32")), relax.Var("gv", None)
    builder = relax.BlockBuilder()
    call = builder.normalize(R.matmul(x, w))
    result = builder.normalize(relax.Tuple([y, x]))
    z = relax.Var("gv", result.ty)
    block = relax.DataflowBlock([relax.VarBinding(y, call), relax.VarBinding(z, result)])
    func = relax.Function([x, w], relax.SeqExpr([block], z), result.ty).with_attr("Primitive", True)
    graph = from_function(func, "group", "ab")
    assert [n.id for n in graph.nodes] == ["lv"]
    assert graph.inputs == ("x", "c0")
    assert graph.outputs == ("lv", "x")
    assert graph.fingerprint == "ab"


def test_a_users_tensor_program() -> None:
    x = tensor("x", (4, 6))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_te(lambda t: tvm.topi.multiply(t, 2.0), x, primfunc_name_hint="twice")
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    (node,) = from_model(SimpleNamespace(module=builder.get(), name="g", source="s", fingerprint="")).nodes
    assert node.op == "call_tir:twice"
    assert node.kind == "opaque"
    assert node.attrs["function"] == "twice"
    assert isinstance(node.attrs["prim_func"], tvm.tirx.PrimFunc)
    assert node.flops == 24
    assert node.inputs == ("x",)


def test_an_unknown_operator_is_opaque() -> None:
    x = tensor("x", (1, 2, 3))
    (node,) = graph_of([x], lambda emit: emit(R.image.affine_grid(x, (4, 5)))).nodes
    assert node.kind == "opaque"
    assert node.op == "image.affine_grid"


def test_a_symbolic_dimension_is_named() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    with pytest.raises(SymbolicShapeError, match="'n'"):
        graph_of([x], lambda emit: emit(R.exp(x)))


def test_an_unknown_shape_is_refused() -> None:
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=2))
    with pytest.raises(ModelError, match="shape"):
        graph_of([x], lambda emit: emit(R.exp(x)))


def test_bytes() -> None:
    assert [dtype_bytes(d) for d in ("float32", "float16", "bfloat16", "int8", "bool", "int64", "float8_e4m3fn")] == [
        4, 2, 2, 1, 1, 8, 1,
    ]  # fmt: skip
    assert Value("x", (3, 4), "float16").bytes == 24
    assert Value("x", (), "int64").bytes == 8
    assert Value("x", (0, 4), "float32").bytes == 0


def test_thousands_of_nodes_are_indexed_once() -> None:
    """Neighbour queries look up maps: a chain's answers stay those of its program order."""
    x = tensor("x", (4,))

    def body(emit):
        y = x
        for i in range(1500):
            y = emit(R.exp(y) if i % 2 else R.add(y, x))
        return y

    graph = graph_of([x], body)
    assert len(graph.nodes) == 1500
    assert graph.predecessors(graph.nodes[700].id) == (graph.nodes[699],)
    assert len(graph.users("x")) == 750
    assert graph._users is graph._users
    assert math.isclose(graph.flops, 750 * 4 + 750 * graph.nodes[1].flops)


def test_importing_the_graph_does_not_import_tvm() -> None:
    code = "import sys, workbench.graph; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

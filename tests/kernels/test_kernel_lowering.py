"""Groups, their workloads and keys; what is refused."""

from __future__ import annotations

import pytest
from kernel_models import constant, model_of, plan_of, tensor, variants

from workbench.errors import IllegalGroup, PlanError, UnsupportedOperator
from workbench.graph import from_model
from workbench.kernels import lower, lower_greedy
from workbench.models import zoo
from workbench.tvm_seam import relax

R = relax.op


def chain(emit, x):
    return emit(R.tanh(emit(R.multiply(emit(R.exp(x)), x))))


def test_groups_that_need_each_other_are_refused() -> None:
    model = model_of(
        [tensor("x", (4, 4))],
        lambda emit, x: emit(R.add(emit(R.tanh(a := emit(R.exp(x)))), emit(R.sqrt(a)))),
    )
    graph = from_model(model)
    ids = {node.op: node.id for node in graph.nodes}
    with pytest.raises(IllegalGroup, match="cycle"):
        lower(model, plan_of(graph, [ids["exp"], ids["add"]]), "planned")
    assert len(lower(model, plan_of(graph, [ids["exp"], ids["tanh"]]), "planned").calls) == 3


def test_a_node_in_two_groups_or_in_none_is_refused() -> None:
    from dataclasses import replace

    model = model_of([tensor("x", (4, 4))], chain)
    graph = from_model(model)
    ids = [node.id for node in graph.nodes]
    overlapping = plan_of(graph, ids[:2], ids[1:])
    with pytest.raises(IllegalGroup, match="overlap"):
        lower(model, overlapping, "planned")
    whole = plan_of(graph, ids[:2])
    with pytest.raises(IllegalGroup, match="not covered"):
        lower(model, replace(whole, groups=whole.groups[:1]), "planned")
    unknown = replace(whole, groups=(replace(whole.groups[0], nodes=(*ids[:2], "nowhere")), *whole.groups[1:]))
    with pytest.raises(IllegalGroup, match="nowhere"):
        lower(model, unknown, "planned")


def test_an_unknown_rewrite_is_refused() -> None:
    model = model_of([tensor("x", (4, 4))], chain)
    graph = from_model(model)
    with pytest.raises(PlanError, match="fold_batchnorm"):
        lower(model, plan_of(graph, [graph.nodes[0].id], rewrite="unheard_of"), "planned")


def test_layers_that_differ_in_weights_only_are_one_task() -> None:
    """Two dense layers of 64 with different constants: one workload, called twice."""

    def body(emit, x):
        first = emit(R.matmul(x, constant((64, 64), 1)))
        return emit(R.matmul(first, constant((64, 64), 2)))

    model = model_of([tensor("x", (64, 64))], body)
    for lowered in variants(model).values():
        if lowered.name != "joined":
            assert len(lowered.workloads) == 1
            assert [call.workload for call in lowered.calls] == [next(iter(lowered.workloads))] * 2


def test_a_key_counts_structure_only() -> None:
    def keys(name: str, op, seed: int = 0, width: int = 8) -> set[str]:
        model = model_of(
            [tensor(name, (4, 8))], lambda emit, x: emit(op(emit(R.matmul(x, constant((8, width), seed)))))
        )
        return set(variants(model)["joined"].workloads)

    base = keys("x", R.nn.relu)
    assert keys("another_name", R.nn.relu, seed=5) == base
    assert keys("x", R.exp) != base
    assert keys("x", R.nn.relu, width=16) != base


def test_a_constant_operand_makes_another_workload_than_an_input() -> None:
    with_weights = model_of([tensor("x", (8, 8))], lambda emit, x: emit(R.matmul(x, constant((8, 8)))))
    without = model_of([tensor("x", (8, 8)), tensor("y", (8, 8))], lambda emit, x, y: emit(R.matmul(x, y)))
    [first], [second] = (variants(model)["unfused"].workloads.values() for model in (with_weights, without))
    assert first.key != second.key
    assert (first.layout_free, second.layout_free) == ((1,), ())


def test_arguments_are_inputs_then_constants_then_outputs() -> None:
    model = model_of(
        [tensor("x", (4, 8))], lambda emit, x: emit(R.add(constant((4, 6)), emit(R.matmul(x, constant((8, 6))))))
    )
    [workload] = variants(model)["joined"].workloads.values()
    assert [spec.shape for spec in workload.args] == [(4, 8), (8, 6), (4, 6), (4, 6)]
    assert workload.layout_free == (1, 2)
    assert workload.graph is not None
    shapes = [workload.graph.values[name].shape for name in workload.graph.inputs]
    assert shapes == [spec.shape for spec in workload.args[:3]]
    assert workload.ops == ("matmul", "add")
    assert workload.label == "matmul+add"
    assert workload.shapes == "4x8, 8x6, 4x6 -> 4x6"
    assert workload.bytes == 4 * (32 + 48 + 24 + 24)


def test_planned_and_greedy_share_keys_where_they_make_the_same_kernel() -> None:
    model = zoo.build("bias_gelu", rows=8, inner=16, outer=16)
    lowered = variants(model)
    assert set(lowered["joined"].workloads) == set(lowered["greedy"].workloads)
    [call] = lowered["greedy"].calls
    assert call.nodes == tuple(node.id for node in from_model(model).nodes)
    assert lowered["greedy"].workloads[call.workload].graph is not None


def test_layer_norms_of_different_values_are_one_workload() -> None:
    """TVM names the blocks of a layer norm after the variable that it reads."""

    def body(emit, x):
        gamma, beta = constant((8,), 1), constant((8,), 2)
        first = emit(R.nn.layer_norm(x, gamma, beta, axes=[-1]))
        return emit(R.nn.layer_norm(first, gamma, beta, axes=[-1]))

    model = model_of([tensor("some_input", (4, 8))], body)
    assert len(lower_greedy(model).workloads) == 1
    assert set(lower_greedy(model).workloads) == set(variants(model)["unfused"].workloads)


def test_intermediate_bytes_count_every_write_and_read_between_kernels() -> None:
    def body(emit, x):
        a = emit(R.exp(x))
        return emit(R.add(emit(R.tanh(a)), a))

    model = model_of([tensor("x", (4, 8))], body)
    size = 4 * 8 * 4
    lowered = variants(model)
    # exp's result: written, read by tanh and by add; tanh's: written, read by add.
    assert lowered["unfused"].intermediate_bytes == 5 * size
    assert lowered["joined"].intermediate_bytes == 0


def test_an_operator_without_a_tensor_program_is_named() -> None:
    from dataclasses import replace

    model = model_of([tensor("x", (4, 8))], chain)
    foreign = relax.BlockBuilder()
    x = tensor("x", (4, 8))
    with foreign.function("main", [x]):
        with foreign.dataflow():
            packed = relax.op.call_dps_packed("somewhere", relax.Tuple([x]), relax.TensorType([4, 8], "float32"))
            result = foreign.emit_output(packed)
        foreign.emit_func_output(result)
    broken = replace(model, module=foreign.get())
    graph = from_model(broken)
    with pytest.raises(UnsupportedOperator, match="call_dps_packed"):
        lower(broken, plan_of(graph), "unfused")
    with pytest.raises(UnsupportedOperator, match="call_dps_packed"):
        lower_greedy(broken)


def test_an_operator_that_tvm_cannot_legalise_is_named_with_its_node() -> None:
    def body(emit, x):
        return emit(R.ewise_fma(emit(R.exp(x)), x, x))

    model = model_of([tensor("x", (4, 8))], body)
    graph = from_model(model)
    node = next(node.id for node in graph.nodes if node.op == "ewise_fma")
    for lowering in (lambda: lower(model, plan_of(graph), "unfused"), lambda: lower_greedy(model)):
        with pytest.raises(UnsupportedOperator) as caught:
            lowering()
        assert (caught.value.operator, caught.value.node) == ("ewise_fma", node)


def test_inputs_keep_their_names() -> None:
    model = model_of([tensor("first", (4, 8)), tensor("second", (4, 8))], lambda emit, x, y: emit(R.add(x, y)))
    for lowered in variants(model).values():
        assert [parameter.name for parameter in lowered.module["main"].params] == ["first", "second"]


def test_equal_calls_of_different_tensor_programs_are_told_apart() -> None:
    def body(emit, x):
        return emit(R.nn.softmax(emit(R.nn.softmax(x, axis=0)), axis=1))

    model = model_of([tensor("x", (8, 8))], body)
    assert len(lower_greedy(model).workloads) == 2
    assert set(lower_greedy(model).workloads) == set(variants(model)["unfused"].workloads)


def test_greedy_knows_the_nodes_of_a_normalisation_that_tvm_takes_apart() -> None:
    model = zoo.build("conv_bn_relu", channels=4, size=6)
    lowered = lower_greedy(model)
    [call] = lowered.calls
    assert call.ops == ("nn.conv2d", "nn.batch_norm", "nn.relu")
    assert call.nodes == tuple(node.id for node in from_model(model).nodes)
    folded = [argument.value.numpy().shape for argument in _arguments(lowered)[2:]]
    assert folded == [(1, 4, 1, 1)] * 4, "mean, deviation, gamma and beta are folded, as TVM does"


def _arguments(lowered) -> list:
    return list(lowered.module["main"].body.blocks[0].bindings[0].value.args[1].fields)


def test_two_groups_that_depend_on_each_other_are_refused() -> None:
    def body(emit, x, y):
        a, b = emit(R.exp(x)), emit(R.exp(y))
        return relax.Tuple([emit(R.add(a, emit(R.tanh(b)))), emit(R.add(b, emit(R.tanh(a))))])

    model = model_of([tensor("x", (4, 4)), tensor("y", (4, 4))], body)
    graph = from_model(model)
    first, second, tanh_b, add_a, tanh_a, add_b = (node.id for node in graph.nodes)
    groups = [[first, tanh_b, add_a], [second, tanh_a, add_b]]
    with pytest.raises(IllegalGroup, match="cycle"):
        lower(model, plan_of(graph, *groups), "planned")

"""The canonical form: what is dropped, what is joined, what stays, what is refused."""

# TVMScript only looks like Python: its assignments and branches are bindings.
# ruff: noqa: F841, RET504, SIM108

from __future__ import annotations

import numpy as np
import pytest
from imported import bindings, operators, run_tvm
from tvm import te
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from workbench.errors import ModelError, SymbolicShapeError, UnsupportedOperator
from workbench.models import load
from workbench.tvm_seam import GenericConst, relax, tvm


@I.ir_module
class MatchCastAlias:
    """left = match_cast of src: TVM's unfused build once returned right + right here."""

    @R.function
    def main(x: R.Tensor((5, 8), "float32")):
        src = R.add(x, R.const(0.25, "float32"))
        left = R.match_cast(src, R.Tensor((5, 8), "float32"))
        right = R.add(x, R.const(0.125, "float32"))
        out = R.add(left, right)
        return out


@I.ir_module
class Clutter:
    """A private helper called ``fused``, nested tuples, dropout, reshapes to and fro, dead code, aliases."""

    @R.function(private=True)
    def fused(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        y = R.add(x, x)
        return y

    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        cls = Clutter
        with R.dataflow():
            a = cls.fused(x)
            b = R.exp(a)
            packed = (a, b)
            nested = (packed, a)
            c = nested[0][0]
            d = R.multiply(c, c)
            e = R.nn.dropout(d, rate=0.5)
            f = e[0]
            g = R.reshape(f, R.shape([16]))
            h = R.reshape(g, R.shape([4, 4]))
            i = R.reshape(g, R.shape([2, 8]))
            j = R.broadcast_to(h, R.shape([4, 4]))
            k = R.astype(j, dtype="float32")
            unused = R.nonzero(x)
            m = R.permute_dims(k, axes=[0, 1])
            n = R.strided_slice(m, axes=[0], begin=[0], end=[9223372036854775807])
            o = R.expand_dims(n, axis=0)
            p = R.squeeze(o, axis=[0])
            out = ((p, i), b)
            R.output(out)
        return out


def test_match_cast_to_the_same_shape_is_the_value_itself() -> None:
    model = load(MatchCastAlias)
    assert operators(model) == ["add", "add", "add"]
    (x,) = model.example_inputs()
    np.testing.assert_allclose(run_tvm(model, [x])[0], (x + 0.25) + (x + 0.125), rtol=1e-6)


def test_only_operators_that_do_something_remain() -> None:
    model = load(Clutter)
    assert operators(model) == ["add", "exp", "multiply", "reshape"]
    assert all(isinstance(b.value, relax.Call) for b in bindings(model))
    relax.analysis.well_formed(model.module)
    (x,) = model.example_inputs()
    square = (x + x) ** 2
    for got, wanted in zip(run_tvm(model, [x]), [square, square.reshape(2, 8), np.exp(x + x)], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert [spec.shape for spec in model.outputs] == [(4, 4), (2, 8), (4, 4)]


def test_names_come_from_operators_and_are_unique() -> None:
    names = [b.var.name for b in bindings(load("encoder"))]
    assert names[:4] == ["matmul", "add", "reshape", "permute_dims"]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_every_output_is_bound_to_a_variable_that_leaves_the_dataflow_block() -> None:
    model = load("qkv")
    outputs = {spec.name for spec in model.outputs}
    for binding in bindings(model):
        assert isinstance(binding.var, relax.DataflowVar) != (binding.var.name in outputs)


def test_constants_are_folded_and_batch_norm_is_not() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, 4)).astype("float32")
    scale = relax.const(np.ones(6, "float32"))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            transposed = builder.emit(relax.op.permute_dims(relax.const(weight)))
            doubled = builder.emit(relax.op.multiply(transposed, relax.const(2.0, "float32")))
            product = builder.emit(relax.op.matmul(x, doubled))
            norm = builder.emit(relax.op.nn.batch_norm(product, scale, scale, scale, scale, axis=1, training=False))
            out = builder.emit_output(builder.emit(norm[0]))
        builder.emit_func_output(out)
    model = load(builder.get())
    assert operators(model) == ["matmul", "nn.batch_norm"]
    constant = bindings(model)[0].value.args[1]
    assert isinstance(constant, GenericConst)
    np.testing.assert_allclose(constant.value.numpy(), weight.T * 2.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int64"])
def test_dtypes_are_kept_through_folding(dtype: str) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            ones = builder.emit(relax.op.ones((3, 2), dtype))
            doubled = builder.emit(relax.op.add(ones, ones))
            out = builder.emit_output(relax.op.multiply(x, builder.emit(relax.op.permute_dims(doubled))))
        builder.emit_func_output(out)
    model = load(builder.get())
    assert operators(model) == ["multiply"]
    assert model.outputs[0].dtype == dtype
    constant = bindings(model)[0].value.args[1].value.numpy()
    assert constant.dtype.name == dtype
    assert (constant.astype("float64") == 2.0).all()


def test_an_item_taken_twice_is_bound_once() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16, 32), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=0))
            first, again, second = builder.emit(parts[0]), builder.emit(parts[0]), builder.emit(parts[1])
            out = builder.emit_output(relax.Tuple([builder.emit(relax.op.add(first, again)), second]))
        builder.emit_func_output(out)
    model = load(builder.get())
    assert [b.var.name for b in bindings(model)] == ["split", "split_item0", "split_item1", "add"]
    (x_value,) = model.example_inputs()
    total, rest = run_tvm(model, [x_value])
    np.testing.assert_array_equal(total, 2 * x_value[:8])
    np.testing.assert_array_equal(rest, x_value[8:])


def test_the_module_that_was_given_stays_as_it_was() -> None:
    before = Clutter.script()
    load(Clutter)
    assert Clutter.script() == before


@I.ir_module
class SymbolicImage:
    """Height and width are symbols: TVM's fused pipeline aborts the process on it."""

    @R.function
    def main(
        x: R.Tensor((1, 3, "h", "w"), "float32"),
        w1: R.Tensor((8, 3, 3, 3), "float32"),
        w2: R.Tensor((8, 8, 3, 3), "float32"),
        b: R.Tensor((1, 8, 1, 1), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w1, strides=(2, 2), padding=(1, 1))
            z = R.nn.conv2d(y, w2, padding=(1, 1))
            out = R.add(z, b)
            R.output(out)
        return out


@I.ir_module
class SymbolicBatch:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            out = R.reshape(a, R.shape([T.int64(4) * n]))  # noqa: F821
            R.output(out)
        return out


def test_symbolic_height_and_width_are_named_and_refused() -> None:
    with pytest.raises(SymbolicShapeError, match="'h' has no size; it is axis 2 of input 'x'") as caught:
        load(SymbolicImage, batch=1)
    assert caught.value.symbol == "h"
    assert caught.value.exit_code == 2


def test_a_symbolic_batch_is_bound() -> None:
    with pytest.raises(SymbolicShapeError, match="'n' has no size; give a size with --batch N"):
        load(SymbolicBatch)
    model = load(SymbolicBatch, batch=3)
    assert [spec.shape for spec in model.inputs] == [(3, 4), (3, 4)]
    assert model.outputs[0].shape == (12,)
    x, y = model.example_inputs()
    np.testing.assert_allclose(run_tvm(model, [x, y])[0], (x + y).reshape(-1), rtol=1e-6)


def test_a_tensor_program_of_symbolic_size_is_refused_even_when_the_batch_is_bound() -> None:
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.call_te(lambda t: te.compute(t.shape, lambda *i: t(*i) + 1.0, "inc"), x))
        builder.emit_func_output(out)
    with pytest.raises(SymbolicShapeError, match=r"tensor program '.*': dimension 'n' .* fixed size"):
        load(builder.get(), batch=3)


def _module(emit: object, shape: tuple[int, ...] = (4, 4), dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(emit(builder, x))
        builder.emit_func_output(out)
    return builder.get()


def test_what_cannot_be_a_model_is_refused_with_the_node_that_is_to_blame() -> None:
    with pytest.raises(UnsupportedOperator, match=r"nonzero.*depends on data") as caught:
        load(_module(lambda b, x: relax.op.sum(b.emit(relax.op.nonzero(x)))))
    assert caught.value.node
    with pytest.raises(ModelError, match="no operator is left"):
        load(_module(lambda b, x: x))
    ones = relax.const(np.ones(4, "float32"))
    with pytest.raises(ModelError, match=r"batch_norm at node .* training form"):
        load(_module(lambda b, x: b.emit(relax.op.nn.batch_norm(x, ones, ones, ones, ones, axis=1))[0]))
    with pytest.raises(ModelError, match="running statistics"):
        load(_module(lambda b, x: b.emit(relax.op.nn.batch_norm(x, *[ones] * 4, axis=1, training=False))[1]))
    with pytest.raises(UnsupportedOperator, match="call_dps_packed"):
        load(
            _module(
                lambda b, x: relax.op.call_dps_packed("elsewhere", (x,), out_ty=relax.TensorType((4, 4), "float32"))
            )
        )


def test_control_flow_and_modules_without_main_are_refused() -> None:
    @I.ir_module
    class Conditional:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4, 4), "float32")):
            if c:
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            return y

    @I.ir_module
    class Nameless:
        @R.function
        def forward(x: R.Tensor((4, 4), "float32")):
            return x

    @I.ir_module
    class Shapeless:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            y = R.add(x, x)
            return y

    with pytest.raises(ModelError, match=r"input 'x' is a .* without a shape; give it one"):
        load(Shapeless)
    with pytest.raises(UnsupportedOperator, match="'if' at node 'y'"):
        load(Conditional)
    with pytest.raises(ModelError, match="no function 'main', only forward"):
        load(Nameless)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_named(value: float) -> None:
    weight = np.ones((4, 4), "float32")
    weight[1, 2] = value
    kind = "NaN" if np.isnan(value) else "infinite values"
    with pytest.raises(ModelError, match=rf"constant 0 of node matmul' \[4, 4\] holds {kind} \(1 of 16"):
        load(_module(lambda b, x: relax.op.matmul(x, relax.const(weight))))


def test_masks_and_limits_may_be_infinite() -> None:
    mask = np.triu(np.full((4, 4), -np.inf, "float32"), k=1)
    assert operators(load(_module(lambda b, x: relax.op.add(x, relax.const(mask))))) == ["add"]
    limit = relax.const(np.array(np.inf, "float32"))
    assert operators(load(_module(lambda b, x: relax.op.minimum(x, limit)))) == ["minimum"]

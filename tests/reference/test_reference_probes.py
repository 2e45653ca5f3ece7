"""Probes: what they are made of, and that those which cannot judge a kernel are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.reference import probe_references
from workbench.reference.probes import ODD
from workbench.tvm_seam import tvm

te, topi = tvm.te, tvm.topi


def program(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")})


def test_another_draw_zeros_and_odd_values() -> None:
    a, b = te.placeholder((8, 16), name="a"), te.placeholder((16, 4), name="b")
    drawn, zeros, odd = probe_references(program(a, b, topi.nn.relu(topi.matmul(a, b))))
    assert all(array.any() for array in drawn.inputs)
    assert not any(array.any() for array in (*zeros.inputs, *zeros.reference64))
    assert set(np.unique(odd.inputs[0])) <= set(np.array(ODD, "float32"))
    for probe in (drawn, zeros, odd):
        left, right = (array.astype("float64") for array in probe.inputs)
        np.testing.assert_allclose(probe.reference64[0], np.maximum(left @ right, 0), rtol=1e-12)
        assert probe.native[0].dtype == np.float32


def test_integers_keep_their_values() -> None:
    data, index = te.placeholder((5, 3), name="data"), te.placeholder((7,), "int32", name="index")
    probes = probe_references(program(data, index, topi.take(data, index, axis=0)))
    assert len(probes) == 3
    for probe in probes:
        assert (probe.inputs[1] < 5).all()
        np.testing.assert_array_equal(probe.reference64[0], probe.inputs[0][probe.inputs[1]])


def test_a_probe_whose_outputs_are_not_finite_is_left_out() -> None:
    """1 / x of zero: right kernels may differ in what they make of infinities."""
    x = te.placeholder((32,), name="x")
    probes = probe_references(program(x, te.compute((32,), lambda i: 1.0 / x[i])))
    assert len(probes) == 1


def test_a_program_that_cannot_be_evaluated_has_no_probes() -> None:
    x = te.placeholder((4,), name="x")
    foreign = te.compute((4,), lambda i: tvm.tirx.call_extern("float32", "somebodys_function", x[i]))
    assert probe_references(program(x, foreign)) == []

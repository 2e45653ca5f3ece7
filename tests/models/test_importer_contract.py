"""What every importer must hold to: it alone accepts its sources, and it gives a model in canonical form."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from imported import bindings
from onnx import TensorProto, helper
from torch import nn
from tvm import te

from workbench.models import Model, load
from workbench.models._base import Request
from workbench.models._load import importers
from workbench.tvm_seam import relax, tvm

SCRIPT = """
from tvm import te
def make():
    a = te.placeholder((2, 3), name="a")
    return te.compute((2, 3), lambda i, j: a[i, j] * 2.0, name="out")
"""


def _onnx(folder: Path) -> str:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [helper.make_node("Identity", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    onnx.save(proto, str(folder / "net.onnx"))
    return str(folder / "net.onnx")


def _pt2(folder: Path) -> str:
    torch.export.save(torch.export.export(nn.ReLU(), (torch.randn(2, 3),)), str(folder / "net.pt2"))
    return str(folder / "net.pt2")


def _script(folder: Path) -> str:
    (folder / "script.py").write_text(SCRIPT)
    return f"{folder}/script.py:make"


def _module(folder: Path) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(x))
            out = builder.emit_output(relax.Tuple([y, y]))
        builder.emit_func_output(out)
    return builder.get()


def _expression(folder: Path) -> list[te.Tensor]:
    a = te.placeholder((2, 3), name="a")
    return [te.compute((2, 3), lambda i, j: a[i, j] + 1.0, name="plus")]


SOURCES: dict[str, Callable[[Path], object]] = {
    "BuiltinImporter": lambda folder: "bias_gelu",
    "OnnxImporter": _onnx,
    "TorchImporter": _pt2,
    "TorchImporter of a module": lambda folder: nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.ReLU()),
    "ScriptImporter": _script,
    "ModuleImporter": _module,
    "TensorExpressionImporter": _expression,
}


def _load(name: str, folder: Path) -> Model:
    source = SOURCES[name](folder)
    return load(source, args=(torch.randn(2, 3),) if isinstance(source, nn.Module) else None)


def test_every_importer_has_a_source_here() -> None:
    assert {type(importer).__name__ for importer in importers()} == {name.split()[0] for name in SOURCES}
    assert all(importer.kind for importer in importers())


@pytest.mark.parametrize("name", SOURCES)
def test_one_importer_accepts_the_source(name: str, tmp_path: Path) -> None:
    request = Request(SOURCES[name](tmp_path))
    assert [type(i).__name__ for i in importers() if i.accepts(request)] == [name.split()[0]]


@pytest.mark.parametrize("name", SOURCES)
def test_the_model_is_in_canonical_form(name: str, tmp_path: Path) -> None:
    model = _load(name, tmp_path)
    relax.analysis.well_formed(model.module)
    assert all(isinstance(b.value, relax.Call | relax.TupleGetItem) for b in bindings(model))
    names = [b.var.name for b in bindings(model)] + [spec.name for spec in model.inputs]
    assert len(set(names)) == len(names)
    assert all(n.isidentifier() for n in names)
    assert set(model.operator_counts()).isdisjoint({"nn.dropout", "squeeze", "flatten", "expand_dims"})
    for gvar, func in model.module.functions_items():
        assert (gvar.name_hint == "main") == isinstance(func, relax.Function)
        assert gvar.name_hint == "main" or "global_symbol" not in func.attrs


@pytest.mark.parametrize("name", SOURCES)
def test_the_model_describes_itself(name: str, tmp_path: Path) -> None:
    model = _load(name, tmp_path)
    assert re.fullmatch(r"[0-9a-f]{64}", model.fingerprint)
    assert model.fingerprint == _load(name, tmp_path).fingerprint or name == "TorchImporter of a module"
    assert [a.shape for a in model.example_inputs()] == [s.shape for s in model.inputs]
    assert model.check.ok is None
    assert (model.source_run is None) == (model.check.framework == "none") == (model.framework == "none")
    if model.source_run is not None:
        outputs = model.source_run(model.example_inputs())
        assert [(a.shape, a.dtype) for a in outputs] == [(s.shape, np.dtype(s.dtype)) for s in model.outputs]


@pytest.mark.parametrize("name", SOURCES)
def test_a_name_may_be_given(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](tmp_path)
    args = (torch.randn(2, 3),) if isinstance(source, nn.Module) else None
    assert load(source, args=args, name="mine").name == "mine"

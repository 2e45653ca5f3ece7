"""One clear error line, a non-zero exit code, and nothing measured is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from workbench.targets.llvm import host_features

DATABASE = "store.sqlite"


def _onnx_model(path: Path, *, op: str = "Relu", weight: float = 1.0, batch: int | str = 2) -> Path:
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, 4])
    w = onnx.numpy_helper.from_array(np.full((4, 4), weight, "float32"), "w")
    domain = "" if op == "Relu" else "custom.domain"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="first")]
    nodes.append(helper.make_node(op, ["m"], ["y"], name="second", domain=domain))
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def _refused(done: object, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert len(done.error_lines) == 1, done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.error_lines[0], done.error_lines[0]


def test_missing_file(cli: Callable) -> None:
    _refused(cli("run", "nowhere.onnx"), 2, "nowhere.onnx")


def test_unknown_model_name_suggests_the_built_in_ones(cli: Callable) -> None:
    _refused(cli("plan", "encodr"), 2, "encodr", "encoder")


def test_broken_file(cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    _refused(cli("run", tmp_path / "broken.onnx"), 2, "broken.onnx")
    (tmp_path / "broken.pt2").write_bytes(b"not a program")
    _refused(cli("run", tmp_path / "broken.pt2"), 2, "broken.pt2")


def test_unsupported_operator_is_named_with_its_node(cli: Callable, tmp_path: Path) -> None:
    path = _onnx_model(tmp_path / "odd.onnx", op="Frobnicate")
    _refused(cli("run", path), 2, "Frobnicate", "second")


def test_nan_in_weights(cli: Callable, tmp_path: Path) -> None:
    path = _onnx_model(tmp_path / "nan.onnx", weight=float("nan"))
    _refused(cli("run", path), 2, "NaN")


def test_symbolic_batch_needs_a_size(cli: Callable, tmp_path: Path) -> None:
    path = _onnx_model(tmp_path / "symbolic.onnx", batch="rows")
    _refused(cli("plan", path), 2, "rows", "--batch")
    assert cli("plan", path, "--batch", 3, "--store", tmp_path / "store").code == 0


def test_unknown_target(cli: Callable) -> None:
    _refused(cli("run", "gelu", "--target", "quantum"), 2, "quantum", "llvm")


def test_target_with_features_that_this_machine_lacks(cli: Callable) -> None:
    name, feature = ("sapphirerapids", "amx") if "sse4a" in host_features() else ("znver4", "sse4a")  # Intel's, AMD's
    _refused(cli("run", "gelu", "--target", f"llvm:{name}"), 2, name, feature)


def test_gpu_target_without_a_gpu(cli: Callable) -> None:
    _refused(cli("run", "gelu", "--target", "cuda"), 2, "cuda")


def test_too_many_threads(cli: Callable) -> None:
    _refused(cli("run", "gelu", "--threads", 4096), 2, "4096")


@pytest.mark.parametrize("option", ["--trials", "--trials-per-task", "--minutes"])
def test_a_budget_of_nothing(cli: Callable, option: str, tmp_path: Path) -> None:
    _refused(cli("run", "gelu", option, 0, "--store", tmp_path / "store"), 2, f"{option} 0")


def test_store_that_cannot_be_made(cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    _refused(cli("run", "gelu", "--store", tmp_path / "file" / "store"), 2, "store")


def test_store_of_a_newer_version(cli: Callable, small_model: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert cli("cache", "--store", store).code == 0
    with sqlite3.connect(store / DATABASE) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema'")
    _refused(cli("run", small_model, "--store", store), 2, "999", "newer")


def test_rules_file_that_is_missing_or_raises(cli: Callable, tmp_path: Path) -> None:
    _refused(cli("plan", "gelu", "--rules", tmp_path / "none.py"), 2, "none.py")
    (tmp_path / "bad.py").write_text("raise RuntimeError('no luck')")
    _refused(cli("plan", "gelu", "--rules", tmp_path / "bad.py"), 2, "bad.py", "no luck")


def test_plan_of_another_model(cli: Callable, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert cli("plan", "gelu", "--store", store, "-o", tmp_path / "plan.json").code == 0
    _refused(cli("run", "swiglu", "--store", store, "--plan", tmp_path / "plan.json"), 2, "plan")


def test_compare_without_a_run(cli: Callable, tmp_path: Path) -> None:
    _refused(cli("compare", tmp_path, tmp_path), 2, "run.json")


def test_no_linker(cli: Callable, small_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    _refused(cli("run", small_model, "--store", tmp_path / "store"), 2, "linker")


def test_debug_shows_the_traceback(cli: Callable) -> None:
    done = cli("run", "nowhere.onnx", "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert len(done.error_lines) == 1


def test_two_runs_on_one_store_at_once(small_model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workbench", "run", small_model, "--trials-per-task", "2"]
    command += ["--measure-seconds", "1", "--store", str(tmp_path / "store")]
    running = [
        subprocess.Popen([*command, "--out", str(tmp_path / name)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for process in running:
        _, error = process.communicate(timeout=240)
        assert process.returncode == 0, error.decode()
    assert (tmp_path / "a" / "report.html").exists()
    assert (tmp_path / "b" / "report.html").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupt_keeps_what_was_measured_and_writes_the_report(
    small_model: str, tmp_path: Path, number: signal.Signals
) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "workbench", "run", small_model, "--trials-per-task", "2000"]
    command += ["--measure-seconds", "1", "--store", str(store), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while _measured(store) < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
    before = _measured(store)
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=120)
    document = json.loads((tmp_path / "out" / "run.json").read_text())
    assert not document["complete"]
    assert "interrupted" in document["incomplete_reason"]
    assert process.returncode == 0, error.decode()
    assert _measured(store) >= before >= 4
    assert "incomplete" in (tmp_path / "out" / "report.html").read_text().lower()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupt_before_anything_was_measured_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import os\n"
        "from workbench import api, cli\n"
        f"api.load = lambda *args, **kwargs: os.kill(os.getpid(), {int(number)})\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code, "run", "gelu", "--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["error: interrupted; what was measured is in the store"]


def _measured(store: Path) -> int:
    try:
        with sqlite3.connect(f"file:{store / DATABASE}?mode=ro", uri=True, timeout=5) as connection:
            return connection.execute("SELECT count(*) FROM records WHERE status = 'ok'").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


@pytest.mark.parametrize("option", [("--minutes", "inf"), ("--seed", "-1"), ("--measure-seconds", "inf")])
def test_numbers_that_mean_nothing(cli: Callable, option: tuple[str, str], tmp_path: Path) -> None:
    _refused(cli("run", "gelu", *option, "--store", tmp_path / "store"), 2, option[0])


def test_a_rewrite_that_is_no_name(cli: Callable, small_model: str, tmp_path: Path) -> None:
    path, store = tmp_path / "plan.json", tmp_path / "store"
    assert cli("plan", small_model, "-o", path, "--store", store).code == 0
    document = json.loads(path.read_text())
    document["groups"][0]["rewrite"] = {"of": 1}
    path.write_text(json.dumps(document))
    _refused(cli("compile", small_model, "--plan", path, "-o", tmp_path / "x.so", "--store", store), 2, "rewrite")


def test_library_in_a_folder_that_is_not_there(cli: Callable, small_model: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _refused(cli("compile", small_model, "-o", tmp_path / "no" / "x.so", "--store", store), 2, "x.so", "no folder")
    _refused(cli("compile", small_model, "-o", tmp_path, "--store", store), 2, "is a folder")


def test_files_that_exit(cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import sys\ndef make():\n    sys.exit(0)\n")
    _refused(cli("plan", f"{tmp_path / 'leaves.py'}:make"), 2, "leaves.py", "SystemExit")
    (tmp_path / "rules.py").write_text("raise SystemExit(0)")
    _refused(cli("plan", "gelu", "--rules", tmp_path / "rules.py"), 2, "rules.py", "SystemExit")


def test_out_folder_that_cannot_be_is_refused_before_anything_is_tuned(
    cli: Callable, small_model: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = tmp_path / "store"
    _refused(cli("run", small_model, "--out", tmp_path / "file", "--store", store), 2, "file", "--out")
    assert _measured(store) == 0
    assert (tmp_path / "file").read_text() == "in the way"


def test_logs_without_one_readable_record(cli: Callable, tmp_path: Path) -> None:
    (tmp_path / "logs.jsonl").write_text("not a record\nnor this\n")
    _refused(cli("cache", "--store", tmp_path / "store", "--import", tmp_path / "logs.jsonl"), 2, "logs.jsonl")

"""The seam: versions are checked before TVM is loaded, and TVM's threads are what was asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from workbench import tvm_seam
from workbench.errors import SetupError


def test_the_installed_versions_work() -> None:
    tvm_seam.check_versions()


@pytest.mark.parametrize(
    ("package", "found"),
    [("apache-tvm-ffi", "0.1.15.post1"), ("apache-tvm", "0.28.0"), ("xgboost", "4.0.1")],
)
def test_a_wrong_version_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, package: str, found: str) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: found if name == package else real(name))
    with pytest.raises(SetupError, match=rf"{package} {found} .*pip install"):
        tvm_seam.check_versions()


def test_a_missing_package_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(SetupError, match="apache-tvm is not installed; run"):
        tvm_seam.check_versions()


def test_a_wrong_ffi_ends_the_command_with_one_line_before_tvm_is_loaded(tmp_path: object) -> None:
    """In a process of its own: loading the pair would crash it."""
    code = (
        "import sys\n"
        "from importlib import metadata\n"
        "real = metadata.version\n"
        "metadata.version = lambda name: '0.1.15.post2' if name == 'apache-tvm-ffi' else real(name)\n"
        "sys.argv = ['workbench', 'plan', 'gelu']\n"
        "from workbench.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print('tvm' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: apache-tvm-ffi 0.1.15.post2 does not work")
    assert done.stderr.count("\n") == 1
    assert done.stdout.strip() == "False"


def test_threads_of_a_fresh_process_are_all_cores_and_can_shrink_but_not_grow() -> None:
    code = (
        "import os\n"
        "from workbench import tvm_seam\n"
        "from workbench.errors import SetupError\n"
        "count = len(os.sched_getaffinity(0))\n"
        "tvm_seam.use_threads(count)\n"
        "tvm_seam.use_threads(1)\n"
        "tvm_seam.use_threads(count)\n"
        "try:\n"
        "    tvm_seam.use_threads(count + 1)\n"
        "except SetupError as error:\n"
        "    print(error)\n"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "start the process with TVM_NUM_THREADS=" in done.stdout


def test_a_narrow_thread_pool_leaves_the_process_its_cores() -> None:
    program = (
        "import os\n"
        "from workbench.targets import resolve\n"
        "from workbench.tvm_seam import use_threads\n"
        "before = os.sched_getaffinity(0), resolve('llvm').key\n"
        "use_threads(1)\n"
        "assert (os.sched_getaffinity(0), resolve('llvm').key) == before\n"
        "use_threads(len(before[0]))\n"  # and may be widened again
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_timing_keeps_its_thread_off_the_workers_cores_and_gives_them_back() -> None:
    code = (
        "import os\n"
        "from workbench import tvm_seam\n"
        "allowed = os.sched_getaffinity(0)\n"
        "tvm_seam.use_threads(len(allowed))\n"
        "with tvm_seam.own_core():\n"
        "    inside = os.sched_getaffinity(0)\n"
        "    tasks = [int(task) for task in os.listdir('/proc/self/task')]\n"
        "    pinned = [os.sched_getaffinity(task) for task in tasks if task != os.getpid()]\n"
        "workers = [cores for cores in pinned if len(cores) == 1]\n"
        "print(len(workers) == len(allowed) - 1, all(not inside & cores for cores in workers) or len(allowed) == 1)\n"
        "print(os.sched_getaffinity(0) == allowed)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


def test_pytorch_is_not_loaded_with_tvm_and_can_be_used_later() -> None:
    """It would cost every process and worker two seconds and 200 MB for nothing."""
    code = (
        "import sys\n"
        "import workbench as wb\n"
        "model = wb.load('gelu')\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'torch'))\n"
        "import torch\n"
        "print(wb.load(torch.nn.ReLU(), args=(torch.zeros(2, 3),)).framework)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "pytorch"]


def test_pytorch_that_somebody_has_loaded_stays_loaded() -> None:
    code = "import torch, sys\nfrom workbench import tvm_seam\nprint(sys.modules['torch'] is torch)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr

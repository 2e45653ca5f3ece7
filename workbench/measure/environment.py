"""The software and the state of the machine that a measurement was taken in."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from .. import __version__

_PACKAGES = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "xgboost": "xgboost", "numpy": "numpy"}
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def environment() -> dict[str, object]:
    """Versions, operating system, load average over the last minute, usable CPUs and the clock governor.

    Call it before the work begins: ``load_at_start`` is to tell what else the machine was doing. What the operating
    system does not tell is empty, or None for the load.
    """
    return {
        "workbench": __version__,
        **{name: _version(package) for name, package in _PACKAGES.items()},
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_at_start": _load(),
        "affinity": _affinity(),
        "governor": _governor(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _governor() -> str:
    try:
        return _GOVERNOR.read_text(encoding="ascii").strip()
    except OSError:
        return ""

"""What the operating system says about this machine's CPU; nothing of TVM or LLVM here."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .target import Caches

# Used where the operating system does not tell: an ordinary desktop core of the last ten years.
DEFAULT_CACHES = Caches(l1=32 << 10, l2=512 << 10, l3=8 << 20)
DEFAULT_CLOCK_HZ = 2.5e9

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Host:
    """This machine: CPU model, physical cores that this process may use, clock in hertz, data caches."""

    device: str
    cores: int
    clock_hz: float
    caches: Caches


def describe_host(root: Path = Path("/")) -> Host:
    """Reads ``/proc`` and ``/sys`` (Linux) or ``sysctl`` (macOS); defaults where neither tells.

    ``root`` is the folder that holds ``proc`` and ``sys``: a test gives one of its own.
    """
    if platform.system() == "Darwin" and root == Path("/"):
        return _describe_mac()
    info = _read(root / "proc/cpuinfo")
    cpus = _usable_cpus(root)
    cores = min(_physical_cores(cpus, root), _cgroup_cores(root))
    return Host(_model_name(info), cores, _clock(info, root), _caches(root, min(cpus)))


def _model_name(info: str) -> str:
    """x86 has "model name"; ARM kernels give "Model", "Hardware" or only the part numbers."""
    for field in ("model name", "Model", "Hardware", "cpu model", "uarch"):
        if found := re.search(rf"^{field}\s*:\s*(\S.*)$", info, re.MULTILINE):
            return " ".join(found[1].split())
    part = re.search(r"^CPU part\s*:\s*(\S+)", info, re.MULTILINE)
    maker = re.search(r"^CPU implementer\s*:\s*(\S+)", info, re.MULTILINE)
    if part and maker:
        return f"{platform.machine()} implementer {maker[1]} part {part[1]}"
    return platform.processor() or platform.machine() or "unknown CPU"


def _usable_cpus(root: Path) -> frozenset[int]:
    """Logical CPUs that the scheduler may give this process."""
    if root == Path("/") and hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    online = _read(root / "sys/devices/system/cpu/online")
    return _cpu_list(online) or frozenset(range(os.cpu_count() or 1))


def _cpu_list(text: str) -> frozenset[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}, the kernel's notation."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _physical_cores(cpus: Iterable[int], root: Path) -> int:
    """Hyper-threads of one core count once: a second one adds no multiply-add unit."""
    cores = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = _read(topology / "thread_siblings_list") or _read(topology / "core_cpus_list")
        cores.add(min(_cpu_list(siblings) or {cpu}))
    return max(1, len(cores))


def _cgroup_cores(root: Path) -> int:
    """Whole cores that the control group's CPU quota pays for (version 2, then version 1); many when unlimited."""
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").strip().partition(" ")
    if not quota:
        quota = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
        period = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return 1 << 20
    return max(1, int(quota) // int(period))


def _clock(info: str, root: Path) -> float:
    highest = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if highest.isdigit():
        return int(highest) * 1e3
    megahertz = [float(value) for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", info, re.MULTILINE)]
    return max(megahertz, default=0.0) * 1e6 or DEFAULT_CLOCK_HZ


def _caches(root: Path, cpu: int) -> Caches:
    sizes: dict[str, int] = {}
    for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        level, kind = _read(index / "level").strip(), _read(index / "type").strip()
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size").strip())
        if size and kind in ("Data", "Unified"):
            sizes[level] = int(size[1]) * _UNITS[size[2]]
    return Caches(
        l1=sizes.get("1", DEFAULT_CACHES.l1),
        l2=sizes.get("2", DEFAULT_CACHES.l2),
        l3=sizes.get("3", sizes.get("2", DEFAULT_CACHES.l2) if sizes else DEFAULT_CACHES.l3),
    )


def _describe_mac() -> Host:
    def number(*names: str) -> int:
        values = (_sysctl(name) for name in names)
        return next((int(value) for value in values if value.isdigit() and int(value)), 0)

    l2 = number("hw.perflevel0.l2cachesize", "hw.l2cachesize") or DEFAULT_CACHES.l2
    return Host(
        device=_sysctl("machdep.cpu.brand_string") or platform.machine(),
        cores=number("hw.perflevel0.physicalcpu", "hw.physicalcpu") or os.cpu_count() or 1,
        clock_hz=float(number("hw.cpufrequency_max", "hw.cpufrequency")) or DEFAULT_CLOCK_HZ,
        caches=Caches(
            l1=number("hw.perflevel0.l1dcachesize", "hw.l1dcachesize") or DEFAULT_CACHES.l1,
            l2=l2,
            l3=number("hw.l3cachesize") or l2,  # Apple's cores share their L2 and have no L3 that is told of
        ),
    )


def _sysctl(name: str) -> str:
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _read(path: Path) -> str:
    """A small file's text; "" where the kernel does not have it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

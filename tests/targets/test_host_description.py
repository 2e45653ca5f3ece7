"""Reading /proc and /sys, on made-up machines."""

from __future__ import annotations

from pathlib import Path

from workbench.targets.host import DEFAULT_CACHES, DEFAULT_CLOCK_HZ, describe_host


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _x86(root: Path) -> Path:
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some  CPU @ 3GHz\ncpu MHz\t\t: 1200.5\n",
        f"{cpu}/online": "0-3\n",
        f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3000000\n",
    }
    for index in range(4):  # two cores of two hyper-threads: 0 with 2, 1 with 3
        files[f"{cpu}/cpu{index}/topology/thread_siblings_list"] = f"{index % 2},{index % 2 + 2}\n"
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "36M")]
    ):
        files |= {
            f"{cpu}/cpu0/cache/index{index}/level": level,
            f"{cpu}/cpu0/cache/index{index}/type": kind,
            f"{cpu}/cpu0/cache/index{index}/size": size,
        }
    return _write(root, files)


def test_hyper_threads_count_once_and_caches_are_data_caches(tmp_path: Path) -> None:
    host = describe_host(_x86(tmp_path))
    assert host.device == "Some CPU @ 3GHz"
    assert host.cores == 2
    assert host.clock_hz == 3e9
    assert (host.caches.l1, host.caches.l2, host.caches.l3) == (48 << 10, 2 << 20, 36 << 20)


def test_container_quota_limits_the_cores(tmp_path: Path) -> None:
    root = _x86(tmp_path)
    _write(root, {"sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert describe_host(root).cores == 1
    _write(root, {"sys/fs/cgroup/cpu.max": "max 100000\n"})
    assert describe_host(root).cores == 2


def test_container_quota_of_the_first_version(tmp_path: Path) -> None:
    root = _x86(tmp_path)
    quota = {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}
    _write(root, quota)
    assert describe_host(root).cores == 1
    _write(root, quota | {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"})
    assert describe_host(root).cores == 2


def test_arm_without_a_model_name(tmp_path: Path) -> None:
    text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    host = describe_host(_write(tmp_path, {"proc/cpuinfo": text, "sys/devices/system/cpu/online": "0-7"}))
    assert host.device.endswith("implementer 0x41 part 0xd40")
    assert host.cores == 8


def test_nothing_told_gives_defaults(tmp_path: Path) -> None:
    host = describe_host(tmp_path)
    assert host.cores >= 1
    assert host.device
    assert host.clock_hz == DEFAULT_CLOCK_HZ
    assert host.caches == DEFAULT_CACHES

"""``workbench database`` on a real model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def test_records_go_out_to_metaschedule_and_come_back(cli: Callable, tmp_path: Path) -> None:
    model = ["bias_gelu"]
    tuned = cli(
        "tune", *model, "--trials-per-task", "3", "--strategy", "random", "--store", tmp_path / "store", "--json"
    )
    assert tuned.code == 0, tuned.err
    out = tmp_path / "database"
    written = cli("database", "export", *model, out, "--store", tmp_path / "store", "--json")
    assert written.code == 0, written.err
    document = json.loads(written.out)
    assert document["written"] > 0
    assert sorted(path.name for path in out.iterdir()) == ["database_tuning_record.json", "database_workload.json"]
    taken = cli("database", "import", *model, out, "--store", tmp_path / "other")
    assert taken.code == 0, taken.err
    assert f"{document['written']} records added" in taken.out
    again = cli("database", "export", *model, out, "--store", tmp_path / "store")
    assert (again.code, again.out) == (2, "")
    assert "exists; give a folder without a database" in again.err
    missing = cli("database", "import", *model, tmp_path / "nowhere", "--store", tmp_path / "other")
    assert missing.code == 2
    assert "is no MetaSchedule database" in missing.err


def test_a_strategy_and_a_per_cent_that_are_none_are_refused(cli: Callable, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    wrong = cli("tune", "gelu", "--strategy", "luck", *store)
    assert wrong.code == 2
    assert "strategy 'luck' is not known; give one of auto, metaschedule" in wrong.err
    none = cli("run", "gelu", "--until", "0", *store)
    assert none.code == 2
    assert "--until 0 allows no trial" in none.err

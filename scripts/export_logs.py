"""Writes ``tuning_logs/MODEL.jsonl.gz`` from run folders: the best records of each run's workloads.

python scripts/export_logs.py STORE RUN_FOLDER...
"""

from __future__ import annotations

import sys
from pathlib import Path

import tuning_logs
from workbench.report import Run
from workbench.store import Store

BEST_OF_EACH = 16  # enough to start a search from; the rest of a search says little more


def main() -> None:
    """See the module's first lines."""
    store, *folders = map(Path, sys.argv[1:])
    with Store(store) as opened:
        for folder in folders:
            run = Run.from_json(folder)
            path = Path(tuning_logs.__file__).with_name(f"{run.model.name}.jsonl.gz")
            workloads = {task.workload for task in run.tasks}
            count = opened.export_records(
                path, target=run.target.key, workloads=sorted(workloads), per_workload=BEST_OF_EACH
            )
            print(f"{path.name}: {count} records of {len(workloads)} workloads")


if __name__ == "__main__":
    main()

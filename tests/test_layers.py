"""The shape of the package: data flows one way, and TVM is reached through one seam."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "workbench"
STAGES = ["models", "graph", "reference", "fusion", "kernels", "tuning", "measure", "report"]
EVERYWHERE = {"errors", "stats", "targets", "store", "tvm_seam"}
# The two faces and the main job join the stages; nothing imports them but each other.
TOP = {"api", "job", "faces", "cli", "notebook", "__init__", "__main__"}
FILES = sorted(PACKAGE.rglob("*.py"))


def _imports(path: Path) -> list[tuple[str, bool]]:
    """(dotted module relative to workbench, only for type checking) of every import of this package."""
    tree = ast.parse(path.read_text())
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    here = path.relative_to(PACKAGE).with_suffix("").parts
    package = here[:-1]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found += [(".".join((*base, name)), id(node) in guarded) for name in names]
            elif node.module and node.module.split(".")[0] == "workbench":
                found.append((node.module.removeprefix("workbench").lstrip("."), id(node) in guarded))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_stage_imports_only_stages_to_its_left(path: Path) -> None:
    stage = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for module, for_types in _imports(path):
        other = module.split(".")[0]
        if for_types or other in ("", "__version__", stage) or stage in TOP:
            continue
        allowed = EVERYWHERE if stage in EVERYWHERE else EVERYWHERE | set(STAGES[: STAGES.index(stage)])
        assert other in allowed, f"{path.relative_to(PACKAGE)} imports workbench.{module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_tvm_is_imported_through_the_seam(path: Path) -> None:
    if path.name == "tvm_seam.py":
        return
    tree = ast.parse(path.read_text())
    lines = path.read_text().splitlines()
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name == "tvm" and "TYPE_CHECKING" not in "\n".join(lines[max(0, node.lineno - 12) : node.lineno]):
                raise AssertionError(f"{path.relative_to(PACKAGE)}:{node.lineno} imports tvm past the seam")


def test_importing_the_package_and_its_command_line_loads_neither_tvm_nor_plots() -> None:
    code = (
        "import sys, workbench, workbench.cli\n"
        "print([m for m in ('tvm', 'matplotlib', 'pandas', 'sqlalchemy', 'xgboost') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented() -> None:
    import workbench

    for name in workbench.__all__:
        value = getattr(workbench, name)
        if name != "__version__":
            assert (value.__doc__ or "").strip(), f"workbench.{name} has no docstring"
    with pytest.raises(AttributeError, match="nonsense"):
        workbench.nonsense  # noqa: B018

"""``workbench costmodel``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Debug, ExactMath, Json, StorePath, TargetName, Threads, print_json, show

if TYPE_CHECKING:
    from rich.table import Table

    from ..fusion.cost_models import LearnedCostModel
    from ..store import Store
    from ..targets import Target

costmodel = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="The learned model of kernel times: train it on what the store has measured, and see how good it is.",
)
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Also write the model to this file.", show_default=False)]
FEATURES_SHOWN = 12


@costmodel.command("train")
def train(
    store: StorePath = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    out: Out = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Train on every kernel that the store has measured on this target; plans use the model from then on.

    Example: workbench costmodel train -o mine.json
    """
    from ..fusion.cost_models.choice import train_on

    with _opened(store) as opened:
        model = train_on(opened, _target(target, threads, exact_math, opened))
    if out is not None:
        model.save(out)
    _print(model, f"trained on {opened.path}", as_json)


@costmodel.command("show")
def show_model(
    store: StorePath = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the model that plans are made with: its errors on held-out groups, and what it looks at.

    Example: workbench costmodel show
    """
    from ..fusion.cost_models import LearnedCostModel

    with _opened(store) as opened:
        wanted = _target(target, threads, exact_math, opened)
        model, source = _in_use(wanted, opened)
    if isinstance(model, LearnedCostModel):
        _print(model, source, as_json)
    elif as_json:
        print_json({"model": "analytic", "source": source})
    else:
        show(f"analytic model: {source}")


@costmodel.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it: .json, or .json.gz.")],
    store: StorePath = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    debug: Debug = False,
) -> None:
    """Write the model that plans are made with to a file.

    Example: workbench costmodel export mine.json
    """
    from ..errors import CostModelError
    from ..fusion.cost_models import LearnedCostModel

    with _opened(store) as opened:
        model, source = _in_use(_target(target, threads, exact_math, opened), opened)
    if not isinstance(model, LearnedCostModel):
        raise CostModelError(f"there is no learned model to export: {source}; tune more models first")
    model.save(file)
    show(f"{file}: {source}")


def _opened(path: Path | None) -> Store:
    from ..store import Store

    return Store(path)


def _target(name: str, threads: int | None, exact_math: bool, store: Store) -> Target:
    from ..targets import resolve

    target = resolve(name, threads=threads, exact_math=exact_math)
    known = store.peaks(target.key)
    return target if known is None else target.with_peaks(*known)


def _in_use(target: Target, store: Store) -> tuple[object, str]:
    """The model, and where it comes from."""
    from ..fusion.cost_models import LearnedCostModel, choose
    from ..fusion.cost_models.choice import trained
    from ..fusion.cost_models.learned import MINIMUM
    from ..tvm_seam import tvm_version

    model, own = choose(target, store), trained(target, store)
    measured = store.measured_groups(target.key, tvm_version())
    enough = f"{measured} kernels measured on this target in {store.path} (a model of its own takes {MINIMUM})"
    if not isinstance(model, LearnedCostModel):
        return model, enough
    if own is not None and model.to_json() == own.to_json():
        return model, f"trained on {own.kernels} of the {measured} kernels measured on this target in {store.path}"
    return model, f"comes with the workbench, from {model.target['device']} {model.target['mcpu']}; {enough}"


def _print(model: LearnedCostModel, source: str, as_json: bool) -> None:
    evaluation = model.evaluation
    if as_json:
        document: dict[str, Any] = {
            "model": model.name,
            "source": source,
            "target": dict(model.target),
            "evaluation": evaluation.to_json(),
            "importances": model.importances(),
        }
        print_json(document)
        return
    show(
        f"learned model: {source}",
        f"{evaluation.kernels} kernels of {evaluation.sequences} operator sequences",
        "",
        f"on held-out groups ({evaluation.folds} folds; kernels of one operator sequence share a fold):",
        _scores_table(model),
        f"measured within the predicted bounds: {evaluation.coverage:.0%} (promised: 80%)",
        "",
        f"what the trees split on, by what it gained (the first {FEATURES_SHOWN} features):",
        _importance_table(model),
    )
    if evaluation.warning:
        show("", f"warning: {evaluation.warning}")


def _scores_table(model: LearnedCostModel) -> Table:
    evaluation = model.evaluation
    table = _table()
    table.add_column("model")
    for heading in ("median error", "90th percentile", "rank correlation"):
        table.add_column(heading, justify="right")
    for name, scores in (("learned", evaluation.learned), ("analytic", evaluation.analytic)):
        table.add_row(name, f"{scores.median_error:.0%}", f"{scores.p90_error:.0%}", f"{scores.rank_correlation:.3f}")
    return table


def _importance_table(model: LearnedCostModel) -> Table:
    table = _table()
    table.add_column("feature")
    table.add_column("share", justify="right")
    for name, share in list(model.importances().items())[:FEATURES_SHOWN]:
        table.add_row(name, f"{share:.1%}")
    return table


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), header_style="bold")

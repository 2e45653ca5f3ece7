"""``workbench rules``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Debug, Json, RulesPath, print_json, show

if TYPE_CHECKING:
    from ..fusion import Rule


def rules(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show this rule's example.", show_default=False)
    ] = None,
    rules: RulesPath = None,
    examples: Annotated[bool, typer.Option("--examples", help="Show the example of every rule.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the fusion rules; with a NAME, what the rule makes of its example.

    Example: workbench rules residual_norm
    """
    from ..fusion import builtin_rules, load_rules

    known = (*(load_rules(rules) if rules is not None else ()), *builtin_rules())
    chosen = known if name is None else _named(name, known)
    if as_json:
        print_json([_document(rule) for rule in chosen])
    elif name is None and not examples:
        show(_table(chosen))
    else:
        show(*_examples(chosen))


def _named(name: str, known: tuple[Rule, ...]) -> tuple[Rule, ...]:
    from ..errors import InputError

    found = tuple(rule for rule in known if rule.name == name)
    if not found:
        raise InputError(f"no rule is named '{name}'; there are {', '.join(rule.name for rule in known)}")
    return found


def _document(rule: Rule) -> dict[str, Any]:
    from dataclasses import asdict

    from ..fusion.rules import example_of

    return {"name": rule.name, "kind": rule.kind, "summary": rule.summary, **asdict(example_of(rule))}


def _table(chosen: tuple[Rule, ...]) -> Any:
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("rule", "kind", "what it makes one kernel"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "what it makes one kernel")
    for rule in chosen:
        table.add_row(rule.name, rule.kind, rule.summary)
    return table


def _examples(chosen: tuple[Rule, ...]) -> list[Any]:
    from rich.text import Text

    from ..fusion.rules import example_of

    shown: list[Any] = []
    for rule in chosen:
        shown += [Text(f"{rule.name} ({rule.kind}): {rule.summary}", style="bold"), Text(str(example_of(rule)))]
    return shown

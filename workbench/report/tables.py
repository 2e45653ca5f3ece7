"""What all tables for a terminal are made of: rich tables without rules, columns, and text taken literally."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import format as fmt

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def new_table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), header_style="bold", expand=False, show_edge=False)


def columns(table: Table, *headings: str, right: bool = True) -> None:
    for heading in headings:
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)


def operators(ops: tuple[str, ...], width: int, more: str = "") -> Text:
    """Operators over as many lines as they need, broken after a ``+``."""
    return text(fmt.broken(fmt.operators(ops) + more, width))


def text(words: str, style: str = "") -> Text:
    """Text that rich takes literally: an interval in brackets is not markup."""
    from rich.text import Text

    return Text(words, style=style)

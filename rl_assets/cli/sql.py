"""`sql`: a query over everything kept."""

import datetime
import math
import re
from typing import Any

import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from rl_assets.core.digest import short
from rl_assets.core.errors import UsageError
from rl_assets.graph.lab import SCHEMAS
from rl_assets.graph.project import Project
from rl_assets.store.objects import ObjectStore
from rl_assets.store.views import VIEWS, open_views

MAX_CHARACTERS = 500
"""Of a value on the terminal; `--json` has all of it."""

DIGEST = re.compile(r"[0-9a-f]{64}")
"""Shortened in tables, as people read them."""

MAX_WIDTH = 100_000
"""Wider than any terminal: to measure how wide a table wants to be."""


def query(project: Project, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows.

    Raises:
        UsageError: the statement is not one SELECT, or DuckDB refuses it.
    """
    home = project.home
    connection = open_views(ObjectStore(home.store_url, home.store_sync), home.cache, SCHEMAS)
    try:
        statements = connection.extract_statements(statement)
        # DuckDB may write where it may read, so what may be asked is limited to questions.
        if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
            raise UsageError("sql answers one SELECT statement, and this is not one")
        result = connection.execute(statements[0])
        return [column[0] for column in result.description or []], result.fetchall()
    except duckdb.Error as error:
        views = ", ".join([*VIEWS, "steps"])
        raise UsageError(f"{str(error).splitlines()[0]} (views: {views}, each also as …_history)") from None


def as_json(columns: list[str], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """One object a row."""
    return [{name: _plain(value) for name, value in zip(columns, row, strict=True)} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def show(columns: list[str], rows: list[tuple[Any, ...]], console: Console) -> None:
    """A table, or where it is wider than the terminal one line a value; values are shown as data, without markup."""
    for headers in (columns, [column.replace("_", "_\n") for column in columns]):
        table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for header in headers:
            table.add_column(Text(header), no_wrap=True)
        for row in rows:
            table.add_row(*(_cell(value, shortened=True) for value in row))
        if Measurement.get(console, console.options.update(max_width=MAX_WIDTH), table).maximum <= console.width:
            console.print(table)
            return
    longest = max(len(column) for column in columns)
    for number, row in enumerate(rows):
        console.rule(str(number), align="left", style="dim")
        for column, value in zip(columns, row, strict=True):
            console.print(Text.assemble((column.ljust(longest), "bold"), "  ", _cell(value)), soft_wrap=True)


def _cell(value: Any, shortened: bool = False) -> Text:
    if value is None:
        return Text("")
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    if shortened and DIGEST.fullmatch(text):
        text = short(text)
    return Text("".join(character if character.isprintable() else " " for character in text)[:MAX_CHARACTERS])

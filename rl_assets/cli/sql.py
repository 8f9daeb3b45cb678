"""`sql`: a query over everything kept."""

import datetime
import math
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rl_assets.core.errors import UsageError
from rl_assets.graph.lab import SCHEMAS
from rl_assets.graph.project import Project
from rl_assets.store.objects import ObjectStore
from rl_assets.store.views import VIEWS, open_views


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
    """A table; values are shown as data, without markup."""
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(Text(column))
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return Text("".join(character if character.isprintable() else " " for character in text)[:500])

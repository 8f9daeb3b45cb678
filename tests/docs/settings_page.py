"""docs/settings.md, written from the settings' own fields and docstrings."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rl_assets.graph.experiment import ExperimentSettings
from rl_assets.rewards.rubric import Evidence, Rubric

HEAD = """\
# Settings

Written from the code by `python -m tests.docs.regenerate`; a test compares the two. An unknown key, a wrong type or a value
out of bounds is refused in one line that names file and field, before anything runs.

## defs.yaml

An experiment is a folder with a `defs.yaml` of `type: rl_assets.AgenticRL`; the folder's name is the experiment's, of letters,
digits and underscores. Everything below stands under `attributes`. On the command line, `--set worlds.count=5` takes the
place of what the file says for that command.
"""

FILES = """\
## Files beside defs.yaml

| file | meaning |
| --- | --- |
| `rubric.yaml` | the rubric; `rubric` in `defs.yaml` may name another |
| `worlds/<world>/…` | files that replace or join those of one world, in Harbor's layout: `worlds/world_1/tests/expected.txt` \
changes how `world_1` is verified, `worlds/world_1/environment/documents/extra.txt` what an agent finds in it |

## Environment variables

| variable | default | meaning |
| --- | --- | --- |
| `RL_ASSETS_HOME` | `.rl_assets/` in the project | where all state lives |
| `RL_ASSETS_STORE` | `store/` in the home | the store: a folder, or the URL of an object store such as `s3://bucket/prefix` |
| `RL_ASSETS_STORE_SYNC` | off | `1`: a write to a local store returns only after the disk has it |
| `DAGSTER_HOME` | `dagster/` in the home | Dagster's instance |
"""


def settings_page() -> str:
    """The page as it should be."""
    parts = [HEAD, *_tables(ExperimentSettings, ""), "## rubric.yaml\n", _doc(Rubric) + "\n", *_tables(Rubric, ""), FILES]
    return "\n".join(parts)


def _tables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """A table of a model's own fields, then those of the models in it."""
    docs = field_docs(model)
    inner: list[tuple[str, type[BaseModel]]] = []
    rows = []
    for name, info in model.model_fields.items():
        nested = _nested(info.annotation)
        if nested is not None:
            inner.append((f"{prefix}{name}", nested))
            continue
        default = "required" if info.is_required() else _shown(info.get_default(call_default_factory=True))
        meaning = docs[name] + _allowed(info)
        rows.append(f"| `{prefix}{name}` | {default} | {meaning} |")
    if rows:
        yield "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"
    for path, nested in inner:
        many = "[]" if get_origin(model.model_fields[path.removeprefix(prefix)].annotation) is tuple else ""
        yield f"### {path}{many}\n"
        yield _doc(nested) + "\n"
        yield from _tables(nested, f"{path}{many}.")


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstring under each field."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    docs = {}
    for node, following in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign | ast.Assign)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            assert isinstance(target, ast.Name)
            docs[target.id] = " ".join(str(following.value.value).split())
    return docs


def _doc(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _nested(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _nested(argument))), None)


def _shown(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "none"
    if isinstance(value, tuple | list):
        return f"`[{', '.join(str(entry) for entry in value)}]`"
    return f"`{value}`" if value != "" else "empty"


def _allowed(info: Any) -> str:
    kinds = [info.annotation, *get_args(info.annotation)]
    for kind in kinds:
        if get_origin(kind) is Literal and len(get_args(kind)) > 1:
            return f" One of {', '.join(f'`{choice}`' for choice in get_args(kind))}."
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            docs = field_docs(Evidence)
            return " Any of " + "; ".join(f"`{entry}`: {docs[entry.name].rstrip('.').lower()}" for entry in kind) + "."
    signs = {"ge": "at least", "gt": "more than", "le": "at most"}
    bounds = [
        f"{words} {getattr(limit, sign):,.10g}"
        for limit in info.metadata
        for sign, words in signs.items()
        if getattr(limit, sign, None) is not None
    ]
    return f" ({', '.join(bounds)})" if bounds else ""

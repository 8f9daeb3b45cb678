"""`fork`: a new experiment from an old one with changed inputs; what did not change is recovered from the journal."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from rl_assets.cli.train import rubric_text
from rl_assets.core.errors import UsageError
from rl_assets.graph.experiment import experiment_name
from rl_assets.graph.names import pool_name
from rl_assets.graph.project import Project, open_instance, set_field
from rl_assets.graph.runs import set_pool_limit

OWN_RUBRIC = "rubric.yaml"
"""The file of a fork's new rubric, in its folder."""


def fork(project: Project, parent: str, name: str, rubric: Path | None, overrides: dict[str, Any]) -> Path:
    """Write the new experiment's folder beside its parent's; nothing of the parent is touched.

    Raises:
        UsageError: the new name is taken or is no name, the parent is unknown, or the changed settings are not right.
    """
    source = project.experiment(parent)
    folder = source.folder.parent / name
    if folder.name != name:
        raise UsageError(f"{name!r}: an experiment's name is letters, digits and underscores")
    experiment_name(folder)
    if folder.exists() or name in project.experiment_folders():
        raise UsageError(f"{folder}: there already; choose another name")
    text = (source.folder / "defs.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    attributes = document.setdefault("attributes", {}) or {}
    for field, value in {**overrides, "parent": parent}.items():
        set_field(attributes, field, value)
    document["attributes"] = attributes
    changed = project.experiment(parent, overrides)  # says what is wrong with the overrides, before anything is written
    new_rubric = rubric_text(rubric or changed.rubric_path)
    if rubric is not None:
        attributes["rubric"] = OWN_RUBRIC  # the parent's may lie outside its folder, and is shared then
    partial = folder.with_name(f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source.folder, partial)
    (partial / "defs.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    if rubric is not None:
        (partial / OWN_RUBRIC).write_text(new_rubric, encoding="utf-8")
    partial.rename(folder)
    set_pool_limit(open_instance(project.home), pool_name(name))
    return folder

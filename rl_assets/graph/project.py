"""Finds the project one stands in, its experiments, and Dagster's instance for it."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster.components.resolved.context import ResolutionContext
from filelock import FileLock

from rl_assets.core.errors import ConfigError, UsageError
from rl_assets.core.home import Home
from rl_assets.core.model import parse_settings
from rl_assets.graph.experiment import Experiment, ExperimentSettings, experiment_name
from rl_assets.rewards.rubric import load_yaml

COMPONENT_TYPES = ("rl_assets.AgenticRL", "rl_assets.graph.component.AgenticRL")
"""How `defs.yaml` may name the component."""

_TYPE_LINE = re.compile(rf"^type:\s*[\"']?({'|'.join(map(re.escape, COMPONENT_TYPES))})[\"']?\s*(#.*)?$", re.MULTILINE)
"""A search of the text, so that a file that is not valid YAML is found, and complained of, all the same."""

DAGSTER_YAML = """\
# Written by rl-assets. Each experiment's steps run one at a time, in order: its pool is limited to 1.
concurrency:
  runs:
    max_concurrent_runs: 10
  pools:
    default_limit: 1
    granularity: run
# A run whose process died before it could say who it is would hold its pool for ever.
run_monitoring:
  enabled: true
  start_timeout_seconds: 120
telemetry:
  enabled: false
nux:
  enabled: false
"""


@dataclass(frozen=True)
class Project:
    """A `dg` project: its root, and the folder of its definitions."""

    root: Path
    defs_folder: Path

    @classmethod
    def find(cls, start: Path) -> "Project":
        """The project that a folder lies in.

        Raises:
            UsageError: there is none, or its definitions are not where its settings say.
        """
        for folder in (start.absolute(), *start.absolute().parents):
            settings = _dg_settings(folder)
            if settings is not None:
                return cls(folder, _defs_folder(folder, settings))
        raise UsageError(f"{start.absolute()}: not in a dg project (no pyproject.toml with [tool.dg.project] here or above)")

    @property
    def home(self) -> Home:
        """Where its state lives."""
        return Home.from_environment(self.root)

    def experiment_folders(self) -> dict[str, Path]:
        """The experiments' folders by name, sorted."""
        folders = {}
        for path in sorted(self.defs_folder.rglob("defs.yaml")):
            hidden = any(part.startswith(".") for part in path.relative_to(self.defs_folder).parts)
            if not hidden and _TYPE_LINE.search(path.read_text(encoding="utf-8", errors="replace")):
                folders[path.parent.name] = path.parent
        return folders

    def experiment(self, name: str, overrides: Mapping[str, Any] | None = None) -> Experiment:
        """An experiment by name.

        Args:
            name: its folder's name.
            overrides: settings to take instead of those in the file, by dotted name.

        Raises:
            UsageError: there is no such experiment.
            ConfigError: its file is not right; one line naming file and field.
        """
        folders = self.experiment_folders()
        if name not in folders:
            known = ", ".join(folders) or f"none; `dg scaffold defs rl_assets.AgenticRL {name}` makes one"
            raise UsageError(f"no experiment {name!r} in {self.defs_folder} (experiments: {known})")
        folder = folders[name]
        attributes = read_attributes(folder / "defs.yaml")
        settings = parse_settings(ExperimentSettings, attributes, str(folder / "defs.yaml"))
        if overrides:
            for field, value in overrides.items():
                set_field(attributes, field, value)
            settings = parse_settings(ExperimentSettings, attributes, f"--set {' '.join(overrides)}")
        return Experiment(experiment_name(folder), settings, folder, self.root)


def read_attributes(path: Path) -> dict[str, Any]:
    """The attributes in a `defs.yaml`, with templates resolved.

    Raises:
        ConfigError: the file is not right.
    """
    document = load_yaml(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a mapping with type and attributes")
    attributes = document.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise ConfigError(f"{path}: attributes: not a mapping")
    try:
        resolved = ResolutionContext.default().resolve_value(attributes)
    except Exception as error:
        raise ConfigError(f"{path}: a template cannot be resolved: {str(error).splitlines()[0]}") from None
    return dict(resolved)


def set_field(attributes: dict[str, Any], field: str, value: Any) -> None:
    """Set a setting by its dotted name, in place."""
    *parents, last = field.split(".")
    at = attributes
    for parent in parents:
        inner = at.get(parent)
        at[parent] = dict(inner) if isinstance(inner, dict) else {}
        at = at[parent]
    at[last] = value


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """`key=value` pairs; values are YAML, so numbers, lists and true are what they look like.

    Raises:
        UsageError: a pair has no `=` or its value is not YAML.
    """
    overrides = {}
    for pair in pairs:
        field, equals, text = pair.partition("=")
        if not equals or not field:
            raise UsageError(f"--set {pair}: give key=value")
        try:
            overrides[field] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UsageError(f"--set {pair}: the value is not YAML") from None
    return overrides


def open_instance(home: Home) -> dg.DagsterInstance:
    """Dagster's instance for a home, made with the settings that the loop needs when it is not there yet."""
    folder = home.dagster
    home.locks.mkdir(parents=True, exist_ok=True)
    # Two processes that made the databases at once would get in each other's way.
    with FileLock(home.locks / "instance.lock"):
        if not (folder / "dagster.yaml").exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / "dagster.yaml.partial"
            partial.write_text(DAGSTER_YAML, encoding="utf-8")
            partial.replace(folder / "dagster.yaml")
        instance = dg.DagsterInstance.from_config(str(folder))
        instance.event_log_storage.get_maximum_record_id()  # opens, and so makes, what is opened lazily
        return instance


def _dg_settings(folder: Path) -> dict[str, Any] | None:
    for name, path in (("pyproject.toml", ("tool", "dg", "project")), ("dg.toml", ("project",))):
        file = folder / name
        if not file.is_file():
            continue
        try:
            settings: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from None
        for part in path:
            settings = settings.get(part) if isinstance(settings, dict) else None
        if isinstance(settings, dict) and "root_module" in settings:
            return settings
    return None


def _defs_folder(root: Path, settings: Mapping[str, Any]) -> Path:
    module = str(settings.get("defs_module") or f"{settings['root_module']}.defs")
    relative = Path(*module.split("."))
    for base in (root / "src", root):
        if (base / relative).is_dir():
            return base / relative
    raise UsageError(f"{root}: the definitions folder {relative} of [tool.dg.project] is not there")

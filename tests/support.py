"""What the tests share: a project of their own, the command line in it, and Dagster's log of it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from rl_assets.graph.build import build_experiment
from rl_assets.graph.lab import Lab
from rl_assets.graph.project import Project, open_instance
from rl_assets.graph.scaffold import QUICKSTART

REPOSITORY = Path(__file__).parent.parent

PYPROJECT = """\
[project]
name = "elsewhere"
version = "0.0.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "elsewhere"
code_location_target_module = "definitions"
code_location_name = "elsewhere"
"""


@dataclass
class Workplace:
    """A dg project in a folder of its own, with the quickstart in it."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Workplace":
        """Write the project."""
        defs = root / "elsewhere" / "defs"
        defs.mkdir(parents=True)
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "elsewhere" / "__init__.py").touch()
        (defs / "__init__.py").touch()
        shutil.copy(REPOSITORY / "definitions.py", root)
        place = cls(root)
        place.add("quickstart")
        return place

    def copy(self, root: Path) -> "Workplace":
        """The same project, with all of its state, in another folder."""
        shutil.copytree(self.root, root)
        return Workplace(root)

    def folder(self, experiment: str = "quickstart") -> Path:
        """Of an experiment."""
        return self.root / "elsewhere" / "defs" / experiment

    def add(self, experiment: str, **settings: Any) -> Path:
        """Add an experiment: the quickstart with some settings changed (by dotted name, with __ for the dot)."""
        folder = self.folder(experiment)
        folder.mkdir()
        for name in ("defs.yaml", "rubric.yaml"):
            shutil.copy(QUICKSTART / name, folder)
        self.set(experiment, **settings)
        return folder

    def set(self, experiment: str = "quickstart", **settings: Any) -> None:
        """Change settings in an experiment's defs.yaml."""
        path = self.folder(experiment) / "defs.yaml"
        document = yaml.safe_load(path.read_text())
        for name, value in settings.items():
            at = document["attributes"]
            *parents, last = name.split("__")
            for parent in parents:
                at = at.setdefault(parent, {})
            at[last] = value
        path.write_text(yaml.safe_dump(document, sort_keys=False))

    def rubric(self, experiment: str = "quickstart") -> dict[str, Any]:
        """The rubric file's content."""
        return yaml.safe_load((self.folder(experiment) / "rubric.yaml").read_text())

    def set_rubric(self, rubric: dict[str, Any], experiment: str = "quickstart") -> None:
        """Replace the rubric file."""
        (self.folder(experiment) / "rubric.yaml").write_text(yaml.safe_dump(rubric, sort_keys=False))

    def edit_criterion(self, name: str, experiment: str = "quickstart", **fields: Any) -> None:
        """Change fields of one criterion in the rubric file."""
        rubric = self.rubric(experiment)
        next(entry for entry in rubric["criteria"] if entry["name"] == name).update(fields)
        self.set_rubric(rubric, experiment)

    @property
    def home(self) -> Path:
        """Where the project's state lives."""
        return self.root / ".rl_assets"

    def environment(self, **extra: str) -> dict[str, str]:
        """For processes in this project: nothing of the tests' own settings."""
        dropped = ("RL_ASSETS_HOME", "RL_ASSETS_STORE", "RL_ASSETS_STORE_SYNC", "DAGSTER_HOME", "MAKELEVEL", "MAKEFLAGS")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        return {**kept, **extra}

    def command(self, *arguments: str) -> list[str]:
        """The command line of `rl-assets` in this environment."""
        return [sys.executable, "-m", "rl_assets.cli.main", *arguments]

    def run(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `rl-assets` as a process; with `check`, it must exit 0."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=300,
        )
        if check:
            assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, **environment: str) -> Any:
        """Run `rl-assets … --json` as a process, and read what it prints."""
        return json.loads(self.run(*arguments, "--json", **environment).stdout)

    def lab(self, experiment: str = "quickstart", **overrides: Any) -> Lab:
        """A lab of an experiment, with settings changed (by dotted name, with __ for the dot)."""
        project = Project.find(self.root)
        return Lab(project.experiment(experiment, {k.replace("__", "."): v for k, v in overrides.items()}), project.home)

    def definitions(self, experiment: str = "quickstart", **overrides: Any) -> dg.Definitions:
        """The definitions of one experiment."""
        return build_experiment(self.lab(experiment, **overrides))

    def instance(self) -> dg.DagsterInstance:
        """The project's Dagster instance."""
        return open_instance(Project.find(self.root).home)

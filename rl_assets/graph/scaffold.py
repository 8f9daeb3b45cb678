"""Writes a new experiment into a project: what `dg scaffold defs rl_assets.AgenticRL NAME` and `rl-assets fork` make."""

from pathlib import Path
from typing import Any

from dagster.components.scaffold.scaffold import Scaffolder, ScaffoldRequest

from rl_assets.graph.experiment import experiment_name

QUICKSTART = Path(__file__).parent.parent / "defs" / "quickstart"
"""The experiment that a new one starts as."""


class ExperimentScaffolder(Scaffolder[Any]):
    """A new experiment is the quickstart under another name, to be edited."""

    def scaffold(self, request: ScaffoldRequest[Any]) -> None:
        """Write `defs.yaml` and the rubric."""
        experiment_name(request.target_path)
        request.target_path.mkdir(parents=True, exist_ok=True)
        for name in ("defs.yaml", "rubric.yaml"):
            (request.target_path / name).write_text((QUICKSTART / name).read_text(encoding="utf-8"), encoding="utf-8")

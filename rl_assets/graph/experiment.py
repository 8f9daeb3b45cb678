"""An experiment: its settings, its name, and where its files are."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from rl_assets.core.digest import digest, short
from rl_assets.core.errors import ConfigError
from rl_assets.core.model import Frozen, parse_settings
from rl_assets.rewards.rubric import SEMANTICS as RUBRIC_SEMANTICS
from rl_assets.rewards.rubric import Rubric, load_rubric
from rl_assets.rewards.settings import Judging
from rl_assets.rewards.verifier import SEMANTICS as VERIFIER_SEMANTICS
from rl_assets.trajectories.agent import Agent, DocumentReader
from rl_assets.trajectories.settings import Faults, Rollouts
from rl_assets.trajectories.trial import SEMANTICS as TRIAL_SEMANTICS
from rl_assets.weights.bandit import BanditTrainer
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import Trainer
from rl_assets.worlds.documents import SEMANTICS as WORLD_SEMANTICS
from rl_assets.worlds.documents import build_documents
from rl_assets.worlds.settings import DocumentWorlds
from rl_assets.worlds.world import World

NAME_PATTERN = r"^[A-Za-z0-9_]+$"
"""Of experiments' names: they become part of asset keys, job names and paths."""


class ExperimentSettings(Frozen):
    """What `defs.yaml` says under `attributes`."""

    steps: int = Field(default=3, ge=1, le=9999)
    """Training steps; each is a partition."""
    seed: int = 0
    """Of worlds and trials."""
    worlds: DocumentWorlds = DocumentWorlds()
    rollouts: Rollouts = Rollouts()
    judging: Judging = Judging()
    policy: BanditPolicy = BanditPolicy()
    rubric: str = "rubric.yaml"
    """The rubric's file, relative to `defs.yaml`."""
    on_rubric_change: Literal["nothing", "rewards", "relearn"] = "relearn"
    """What the running automation does when the rubric changes: nothing, score again, or score and train again."""
    parent: str | None = None
    """The experiment that this one was forked from."""
    faults: Faults = Faults()
    """What is made to go wrong, on purpose."""


def experiment_name(folder: Path) -> str:
    """The name of an experiment, from its folder.

    Raises:
        ConfigError: it cannot be part of asset keys and job names.
    """
    if not re.fullmatch(NAME_PATTERN, folder.name):
        raise ConfigError(f"{folder}: an experiment's name is letters, digits and underscores")
    return folder.name


@dataclass(frozen=True)
class Experiment:
    """Settings with a name and a place."""

    name: str
    settings: ExperimentSettings
    folder: Path
    """Where `defs.yaml` lies."""
    project: Path
    """The project's root; `worlds.source` is relative to it."""

    def with_faults(self, **faults: object) -> "Experiment":
        """The same experiment, with more made to go wrong; ConfigError when a value is out of bounds."""
        merged = parse_settings(Faults, self.settings.faults.model_dump() | faults, "faults")
        return replace(self, settings=self.settings.model_copy(update={"faults": merged}))

    @property
    def rubric_path(self) -> Path:
        """The rubric's file."""
        return self.folder / self.settings.rubric

    def rubric(self) -> Rubric:
        """The rubric as it is on disk now; ConfigError when it is not right."""
        return load_rubric(self.rubric_path)

    def world(self, name: str) -> World:
        """A world as its sources are now; ConfigError when they are not right."""
        overlay = self.folder / "worlds" / name
        return build_documents(self.settings.worlds, name, self.settings.seed, self.project, overlay)

    def agent(self) -> Agent:
        """What acts in the worlds."""
        return DocumentReader(self.settings.rollouts.max_turns, self.settings.rollouts.tool_latency_s)

    def trainer(self) -> Trainer:
        """What makes the next weights."""
        return BanditTrainer(self.settings.policy)

    def code_versions(self) -> dict[str, str]:
        """By asset, the digest of the settings and semantics that its data depends on and no upstream asset shows."""
        settings = self.settings
        # Which worlds a step uses. Neither the resolver nor the plan can see from versions that a step lost or gained one.
        schedule = [settings.worlds.count, settings.worlds.per_step]
        meanings: dict[str, list[object]] = {
            "worlds": [WORLD_SEMANTICS, settings.seed, settings.worlds.model_dump(exclude={"count", "per_step"})],
            "trajectories": [TRIAL_SEMANTICS, settings.seed, settings.rollouts.samples, schedule, self.agent().identity],
            "rewards": [RUBRIC_SEMANTICS, VERIFIER_SEMANTICS, schedule],
            "weights": [self.trainer().identity, schedule],
        }
        return {asset: short(digest("code", 1, meaning)) for asset, meaning in meanings.items()}

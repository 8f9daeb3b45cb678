"""What is kept of a step, in numbers."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rl_assets.graph.lab import Lab
from rl_assets.store.tables import current_version, read_table
from rl_assets.trajectories.trial import Outcome


@dataclass(frozen=True)
class StepSummary:
    """The current version of each of a step's tables."""

    step: int
    trials: int
    failed: int
    """Trials without a result."""
    unscored: int
    mean_reward: float | None
    """Over scored trials."""
    mean_turns: float | None
    """Over trials with a result."""
    weights_digest: str | None


def summarize_step(lab: Lab, step: int) -> StepSummary:
    """Reads the few columns that it needs."""
    outcomes, turns = _columns(lab, "trajectories", step, ["outcome", "n_turns"])
    (rewards,) = _columns(lab, "rewards", step, ["reward"])
    ended = [count for outcome, count in zip(outcomes, turns, strict=True) if Outcome(outcome).is_result]
    scored = [reward for reward in rewards if reward is not None]
    weights = current_version(lab.store, lab.table("weights", step))
    return StepSummary(
        step=step,
        trials=len(outcomes),
        failed=len(outcomes) - len(ended),
        unscored=len(rewards) - len(scored),
        mean_reward=fmean(scored) if scored else None,
        mean_turns=fmean(ended) if ended else None,
        weights_digest=weights.data_version if weights else None,
    )


def _columns(lab: Lab, asset: str, step: int, names: list[str]) -> list[list[Any]]:
    version = current_version(lab.store, lab.table(asset, step))
    if version is None:
        return [[] for _ in names]
    table = read_table(lab.store, version.ref, version.file, names)
    return [table[name].to_pylist() for name in names]

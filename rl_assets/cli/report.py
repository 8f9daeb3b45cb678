"""What a command did: a row per step, and a receipt."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from rl_assets.core.digest import short
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import step_key
from rl_assets.graph.summary import StepSummary, summarize_step
from rl_assets.rewards.scoring import Reward
from rl_assets.store.tables import current_version
from rl_assets.trajectories.trial import Trial


@dataclass(frozen=True)
class Report:
    """The answer to `train` and `rejudge`."""

    experiment: str
    weights_digest: str | None
    steps: list[StepSummary]
    receipt: dict[str, int | float]

    def as_json(self) -> dict[str, object]:
        """The documented JSON document."""
        return asdict(self)

    def show(self, console: Console) -> None:
        """A table and a receipt."""
        table = Table(title=self.experiment, title_justify="left", header_style="bold")
        for column in ("step", "trials", "failed", "unscored", "mean reward", "mean turns", "weights"):
            table.add_column(column, justify="left" if column == "weights" else "right")
        for row in self.steps:
            table.add_row(
                step_key(row.step),
                str(row.trials),
                str(row.failed),
                str(row.unscored),
                _number(row.mean_reward, 3),
                _number(row.mean_turns, 2),
                short(row.weights_digest or ""),
            )
        console.print(table)
        receipt = self.receipt
        console.print(
            f"trials: {receipt['trials_run']} run, {receipt['trials_recovered']} recovered, {receipt['trials_failed']} failed"
            f" · judge calls: {receipt['judge_calls']} made, {receipt['judge_calls_recovered']} recovered"
            f" · updates: {receipt['updates_run']} run, {receipt['updates_recovered']} recovered"
            f" · {receipt['elapsed_s']:.1f} s · ${receipt['cost_usd']:.2f}",
            highlight=False,
            soft_wrap=True,
        )


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def kept_trials(lab: Lab, step: int) -> list[Trial]:
    """The current trials of a step; none when it was never sampled."""
    version = current_version(lab.store, lab.table("trajectories", step))
    return [] if version is None else lab.trials(step, version.file)


def kept_rewards(lab: Lab, step: int) -> list[Reward]:
    """The current rewards of a step; none when it was never scored."""
    version = current_version(lab.store, lab.table("rewards", step))
    return [] if version is None else lab.rewards(step, version.file)


def count_recovered(lab: Lab, step: int, assets: Sequence[str]) -> None:
    """Count as recovered what is kept of a step's assets that need no work."""
    if "trajectories" in assets:
        for trial in kept_trials(lab, step):
            kept = lab.tally.trials_recovered if trial.outcome.is_result else lab.tally.trials_failed
            kept.add(trial.key)
    if "rewards" in assets:
        for reward in kept_rewards(lab, step):
            lab.tally.verdicts_recovered.update(score.verdict.key for score in reward.scores if score.verdict)
    version = current_version(lab.store, lab.table("weights", step))
    if "weights" in assets and version is not None:
        lab.tally.updates_recovered.add(version.file)


def build_report(lab: Lab, steps: list[int], started: float) -> Report:
    """The report of a command that began at a moment of the monotonic clock."""
    rows = [summarize_step(lab, step) for step in steps]
    receipt = lab.tally.snapshot() | {"elapsed_s": round(time.monotonic() - started, 3)}
    return Report(lab.experiment.name, rows[-1].weights_digest if rows else None, rows, receipt)

"""`show`: one trial as a conversation, with its score and why."""

from rich.console import Console
from rich.text import Text

from rl_assets.cli.report import kept_rewards, kept_trials
from rl_assets.core.errors import UsageError
from rl_assets.graph.lab import Lab
from rl_assets.rewards.scoring import Reward
from rl_assets.trajectories.trial import Trial

MAX_CHARACTERS = 600
"""Of a tool's output on a terminal; `--json` has all of it."""


def find_trial(lab: Lab, wanted: str) -> tuple[Trial, Reward | None]:
    """A trial by its id (`0001/world_0/0000`, or `1/world_0/0`) or key, and its reward if it was scored.

    Raises:
        UsageError: there is none.
    """
    parts = wanted.split("/")
    if len(parts) == 3 and parts[0].isdigit() and parts[2].isdigit():
        steps = [int(parts[0])] if int(parts[0]) < lab.lineage.steps else []
        wanted = f"{int(parts[0]):04d}/{parts[1]}/{int(parts[2]):04d}"
    else:
        steps = list(range(lab.lineage.steps))
    for step in steps:
        for trial in kept_trials(lab, step):
            if wanted in (trial.id, trial.key):
                return trial, next((reward for reward in kept_rewards(lab, step) if reward.trial_id == trial.id), None)
    raise UsageError(f"no trial {wanted!r} in {lab.experiment.name}; a trial is step/world/sample, such as 0/world_0/0")


def as_json(trial: Trial, reward: Reward | None) -> dict[str, object]:
    """Everything that is kept of the trial."""
    return {"trial": trial.model_dump(mode="json"), "reward": reward.model_dump(mode="json") if reward else None}


def show(trial: Trial, reward: Reward | None, console: Console) -> None:
    """The trial as a conversation. What it produced is shown as data: no markup, no control characters."""
    console.print(_line(f"{trial.id}  {trial.outcome}", "bold"), soft_wrap=True)
    if trial.error:
        console.print(_line(trial.error, "red"), soft_wrap=True)
    for turn in trial.turns:
        console.print(_line(f"\n{turn.turn + 1}. {turn.tool} {turn.argument}", "cyan"), soft_wrap=True)
        if turn.output:
            cut = turn.output[:MAX_CHARACTERS] + (" …" if len(turn.output) > MAX_CHARACTERS else "")
            console.print(_line(cut.strip(), "dim"), soft_wrap=True)
    if trial.files:
        console.print(_line(f"\nleft behind: {', '.join(trial.files)}", ""), soft_wrap=True)
    if reward is None:
        console.print("not scored yet")
        return
    console.print()
    for score in reward.scores:
        value = "unscored" if score.score is None else f"{score.score:.4f}"
        why = score.failed_because or (score.verdict.reason if score.verdict else "from the verifier")
        console.print(_line(f"{score.criterion}: {value} x {score.weight:g}  ({why})", ""), soft_wrap=True)
    total = f"reward {reward.reward:.4f}" if reward.reward is not None else f"unscored: {reward.unscored_because}"
    console.print(_line(total, "bold"), soft_wrap=True)


def _line(text: str, style: str) -> Text:
    printable = "".join(character for character in text if character == "\n" or character.isprintable())
    return Text(printable, style=style)

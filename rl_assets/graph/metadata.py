"""What a materialization shows a person: numbers, a table, a curve."""

import base64
import io
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg

from rl_assets.core.digest import short
from rl_assets.graph.event_log import INPUTS_METADATA
from rl_assets.rewards.advantages import has_signal
from rl_assets.rewards.scoring import Reward
from rl_assets.trajectories.trial import Trial

MAX_ROWS = 50
"""Of a table of trials."""

MAX_CELL = 200
"""Characters of a cell of it."""

_ESCAPES = {character: f"\\{character}" for character in "\\`*_[]|#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def provenance(inputs: Mapping[str, Mapping[str, str]]) -> dict[str, dg.MetadataValue]:
    """What a materialization was made from."""
    return {INPUTS_METADATA: dg.MetadataValue.json({asset: dict(versions) for asset, versions in inputs.items()})}


def trials_metadata(trials: Sequence[Trial]) -> dict[str, dg.MetadataValue]:
    """Counts, outcomes and a table of a step's trials."""
    ended = [trial for trial in trials if trial.outcome.is_result]
    outcomes = Counter(str(trial.outcome) for trial in trials)
    metadata: dict[str, dg.MetadataValue] = {
        "trials": dg.MetadataValue.int(len(trials)),
        "failed": dg.MetadataValue.int(len(trials) - len(ended)),
        "outcomes": dg.MetadataValue.json(dict(sorted(outcomes.items()))),
        "table": dg.MetadataValue.md(
            _markdown(
                ["trial", "outcome", "turns", "attempts", "left behind", "error"],
                [
                    [trial.id, trial.outcome, len(trial.turns), trial.attempts, ", ".join(trial.files), trial.error or ""]
                    for trial in trials
                ],
            )
        ),
    }
    if ended:
        metadata["mean_turns"] = dg.MetadataValue.float(statistics.fmean(len(trial.turns) for trial in ended))
    return metadata


def rewards_metadata(rewards: Sequence[Reward], rubric_digest: str) -> dict[str, dg.MetadataValue]:
    """Counts, means by criterion and a table of a step's rewards."""
    scored = [reward for reward in rewards if reward.reward is not None]
    metadata: dict[str, dg.MetadataValue] = {
        "trials": dg.MetadataValue.int(len(rewards)),
        "unscored": dg.MetadataValue.int(len(rewards) - len(scored)),
        "groups_without_signal": dg.MetadataValue.int(groups_without_signal(rewards)[0]),
        "rubric": dg.MetadataValue.text(short(rubric_digest)),
        "cost_usd": dg.MetadataValue.float(
            math.fsum(score.verdict.cost_usd for reward in rewards for score in reward.scores if score.verdict)
        ),
        "table": dg.MetadataValue.md(_rewards_table(rewards)),
    }
    if scored:
        metadata["mean_reward"] = dg.MetadataValue.float(statistics.fmean(reward.reward or 0.0 for reward in scored))
    names = sorted({score.criterion for reward in rewards for score in reward.scores})
    for name in names:
        values = [score.score for reward in rewards for score in reward.scores if score.criterion == name]
        present = [value for value in values if value is not None]
        if present:
            metadata[f"mean_{name}"] = dg.MetadataValue.float(statistics.fmean(present))
    return metadata


def groups_without_signal(rewards: Sequence[Reward]) -> tuple[int, int]:
    """How many groups have no signal, and how many there are."""
    groups: dict[str, list[float | None]] = {}
    for reward in rewards:
        groups.setdefault(reward.world, []).append(reward.reward)
    return sum(1 for values in groups.values() if not has_signal(values)), len(groups)


def _rewards_table(rewards: Sequence[Reward]) -> str:
    names = [score.criterion for score in next((reward.scores for reward in rewards if reward.scores), ())]
    rows = []
    for reward in rewards:
        by_name = {score.criterion: score.score for score in reward.scores}
        cells = [_number(by_name.get(name)) for name in names]
        rows.append([reward.trial_id, *cells, _number(reward.reward), _number(reward.advantage), reward.unscored_because or ""])
    return _markdown(["trial", *names, "reward", "advantage", "unscored because"], rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        lines.append(f"\n{len(rows) - MAX_ROWS} more trials: `rl-assets sql`")
    return "\n".join(lines)


def _cell(value: object) -> str:
    """Text that may come from a trial, kept from being read as Markdown or HTML, and in one line."""
    text = " ".join(str(value).split())[:MAX_CELL]
    return "".join(_ESCAPES.get(character, character) for character in text)


def learning_curve(steps: Sequence[int], rewards: Sequence[float | None], turns: Sequence[float | None]) -> dg.MetadataValue:
    """Mean reward and mean turns by step, as a picture."""
    # Half a second to import, and only weights need it.
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure = Figure(figsize=(6, 2.4), dpi=80, layout="tight")
    for index, (label, values) in enumerate((("mean reward", rewards), ("mean turns", turns))):
        axes = figure.add_subplot(1, 2, index + 1)
        points = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
        axes.plot([step for step, _ in points], [value for _, value in points], marker="o", markersize=3)
        axes.set_title(label, fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return dg.MetadataValue.md(f"![learning curve](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")


def work(before: Mapping[str, int | float], after: Mapping[str, int | float]) -> dict[str, dg.MetadataValue]:
    """What was done and what was found recorded, as counts."""
    names = ("trials_run", "trials_recovered", "judge_calls", "judge_calls_recovered", "updates_run", "updates_recovered")
    return {name: dg.MetadataValue.int(int(after[name] - before[name])) for name in names if after[name] != before[name]}

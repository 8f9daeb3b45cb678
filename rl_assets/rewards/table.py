"""Rewards as a table, and back."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rl_assets.core.digest import digest
from rl_assets.rewards.scoring import Reward, Score
from rl_assets.rewards.verdict import Verdict

SCHEMA = pa.schema(
    [
        ("trial_id", pa.string()),
        ("trial_key", pa.string()),
        ("world", pa.string()),
        ("sample", pa.int32()),
        ("reward", pa.float64()),
        ("advantage", pa.float64()),
        ("unscored_because", pa.string()),
        ("verification_key", pa.string()),
        ("verifier_digest", pa.string()),
        ("rubric_digest", pa.string()),
        (
            "verdicts",
            pa.list_(
                pa.struct(
                    [
                        ("criterion", pa.string()),
                        ("weight", pa.float64()),
                        ("source", pa.string()),
                        ("score", pa.float64()),
                        ("failed_because", pa.string()),
                        ("verdict_key", pa.string()),
                        ("reason", pa.string()),
                        ("model", pa.string()),
                        ("n_calls", pa.int32()),
                        ("n_tokens", pa.int64()),
                        ("cost_usd", pa.float64()),
                        ("judged_at", pa.float64()),
                    ]
                )
            ),
        ),
        ("trial_step", pa.int32()),
    ]
)


def to_table(rewards: Sequence[Reward], rubric_digest: str) -> pa.Table:
    """One row a trial, its scores by criterion as a list."""
    rows = [
        {
            **reward.model_dump(exclude={"scores", "step"}),
            "trial_step": reward.step,
            "rubric_digest": rubric_digest,
            "verdicts": [_score_row(score) for score in reward.scores],
        }
        for reward in rewards
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _score_row(score: Score) -> dict[str, object]:
    row = score.model_dump(exclude={"verdict"})
    if score.verdict is not None:
        verdict = score.verdict.model_dump(exclude={"score"})
        row |= {"verdict_key": verdict.pop("key"), **verdict}
    return row


def from_table(table: pa.Table) -> list[Reward]:
    """The rewards of a table, in its order."""
    rewards = []
    for row in table.to_pylist():
        del row["rubric_digest"]
        scores = tuple(_score(entry) for entry in row.pop("verdicts"))
        rewards.append(Reward(step=row.pop("trial_step"), scores=scores, **row))
    return rewards


def _score(row: dict[str, Any]) -> Score:
    own = {name: row.pop(name) for name in ("criterion", "weight", "source", "failed_because")}
    key = row.pop("verdict_key")
    return Score(**own, score=row["score"], verdict=Verdict(key=key, **row) if key else None)


def data_version(rewards: Sequence[Reward], rubric_digest: str) -> str:
    """The digest of what the rewards amount to, and under which rubric."""
    return digest("rewards", 1, [rubric_digest, [reward.content for reward in rewards]])

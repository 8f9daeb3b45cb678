"""Trials as a table, and back."""

from collections.abc import Sequence

import pyarrow as pa

from rl_assets.core.digest import digest
from rl_assets.trajectories.trial import Trial, Turn

SCHEMA = pa.schema(
    [
        ("trial_id", pa.string()),
        ("trial_key", pa.string()),
        ("world", pa.string()),
        ("sample", pa.int32()),
        ("outcome", pa.string()),
        ("n_turns", pa.int32()),
        ("answer", pa.string()),
        ("elapsed_s", pa.float64()),
        ("attempts", pa.int32()),
        ("error", pa.string()),
        ("world_digest", pa.string()),
        ("policy_digest", pa.string()),
        (
            "turns",
            pa.list_(
                pa.struct(
                    [
                        ("turn", pa.int32()),
                        ("tool", pa.string()),
                        ("argument", pa.string()),
                        ("output", pa.string()),
                        ("elapsed_s", pa.float64()),
                    ]
                )
            ),
        ),
        ("files", pa.map_(pa.string(), pa.string())),
        ("sandbox", pa.string()),
        ("version", pa.string()),
        ("trial_step", pa.int32()),
    ]
)


def to_table(trials: Sequence[Trial], answer_file: str) -> pa.Table:
    """One row a trial, in the order given."""
    rows = [
        {
            "trial_id": trial.id,
            "trial_key": trial.key,
            "world": trial.world,
            "sample": trial.sample,
            "outcome": str(trial.outcome),
            "n_turns": len(trial.turns),
            "answer": trial.files.get(answer_file),
            "elapsed_s": trial.elapsed_s,
            "attempts": trial.attempts,
            "error": trial.error,
            "world_digest": trial.world_digest,
            "policy_digest": trial.policy_digest,
            "turns": [turn.model_dump() for turn in trial.turns],
            "files": list(trial.files.items()),
            "sandbox": trial.sandbox,
            "version": trial.version,
            "trial_step": trial.step,
        }
        for trial in trials
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Trial]:
    """The trials of a table, in its order."""
    return [
        Trial(
            id=row["trial_id"],
            key=row["trial_key"],
            step=row["trial_step"],
            world=row["world"],
            sample=row["sample"],
            world_digest=row["world_digest"],
            policy_digest=row["policy_digest"],
            outcome=row["outcome"],
            turns=tuple(Turn(**turn) for turn in row["turns"]),
            files=dict(row["files"]),
            error=row["error"],
            attempts=row["attempts"],
            elapsed_s=row["elapsed_s"],
            sandbox=row["sandbox"],
            version=row["version"],
        )
        for row in table.to_pylist()
    ]


def data_version(trials: Sequence[Trial]) -> str:
    """The digest of what the trials amount to; timings and attempts do not count."""
    return digest("trajectories", 1, [trial.content for trial in trials])

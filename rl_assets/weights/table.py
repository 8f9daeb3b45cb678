"""Updates as a table."""

import pyarrow as pa

from rl_assets.weights.update import Update

SCHEMA = pa.schema(
    [
        ("update_key", pa.string()),
        ("base_digest", pa.string()),
        ("weights_digest", pa.string()),
        ("no_op", pa.bool_()),
        ("n_examples", pa.int32()),
        ("off_policy", pa.bool_()),
        ("behaviour", pa.list_(pa.string())),
        ("rubric_digest", pa.string()),
        ("elapsed_s", pa.float64()),
        ("version", pa.string()),
    ]
)


def to_table(update: Update, rubric_digest: str) -> pa.Table:
    """One row."""
    row = update.model_dump(exclude={"key"})
    row |= {"update_key": update.key, "no_op": update.weights_digest == update.base_digest, "rubric_digest": rubric_digest}
    return pa.Table.from_pylist([row], schema=SCHEMA)

"""SQL over the store: DuckDB views of what is current, and of every version ever kept (`…_history`).

DuckDB has one writer at a time, so it is the reader here; the Parquet files are the data.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from rl_assets.store.objects import ObjectStore
from rl_assets.store.tables import list_versions

_TRIALS = """
    SELECT {file_columns}, trial_id, trial_key, world, sample, outcome, n_turns, answer, elapsed_s, attempts, error,
           world_digest, policy_digest, files
    FROM {source} JOIN versions USING (filename)
"""
_TURNS = """
    SELECT {file_columns}, trial_id, trial_key, world, sample, turn.*
    FROM (SELECT *, unnest(turns) AS turn FROM {source}) JOIN versions USING (filename)
"""
_REWARDS = """
    SELECT {file_columns}, trial_id, trial_key, world, sample, reward, advantage, unscored_because, verification_key,
           verifier_digest, rubric_digest
    FROM {source} JOIN versions USING (filename)
"""
_VERDICTS = """
    SELECT {file_columns}, trial_id, trial_key, world, sample, verdict.*
    FROM (SELECT *, unnest(verdicts) AS verdict FROM {source})
    JOIN versions USING (filename)
"""
_UPDATES = """
    SELECT {file_columns}, * EXCLUDE (filename, experiment, step, data_version, is_current, recorded_at)
    FROM {source} JOIN versions USING (filename)
"""
VIEWS = {
    "trials": ("trajectories", _TRIALS),
    "turns": ("trajectories", _TURNS),
    "rewards": ("rewards", _REWARDS),
    "verdicts": ("rewards", _VERDICTS),
    "updates": ("weights", _UPDATES),
}
"""The table that each view reads, and its query."""

_STEPS = """
    CREATE VIEW steps AS
    SELECT experiment, step, count(*) AS trials, count(*) FILTER (outcome IN ('failed', 'deadline')) AS failed,
           count(*) FILTER (reward IS NULL) AS unscored, avg(reward) AS mean_reward,
           avg(n_turns) FILTER (outcome NOT IN ('failed', 'deadline')) AS mean_turns,
           any_value(weights_digest) AS weights_digest
    FROM trials
    LEFT JOIN (SELECT experiment, step, trial_key, reward FROM rewards) USING (experiment, step, trial_key)
    LEFT JOIN (SELECT experiment, step, weights_digest FROM updates) USING (experiment, step)
    GROUP BY experiment, step ORDER BY experiment, step
"""
_STEPS_HISTORY = """
    CREATE VIEW steps_history AS
    SELECT experiment, step, data_version, is_current, recorded_at, count(*) AS trials,
           count(*) FILTER (reward IS NULL) AS unscored, avg(reward) AS mean_reward, any_value(rubric_digest) AS rubric_digest
    FROM rewards_history GROUP BY ALL ORDER BY experiment, step, recorded_at
"""


_CURRENT = "experiment, step"
_HISTORY = "experiment, step, data_version, is_current, recorded_at"


def open_views(store: ObjectStore, cache: Path, schemas: Mapping[str, pa.Schema]) -> duckdb.DuckDBPyConnection:
    """A connection with a view and a `…_history` view per table; it can reach the store and nothing else.

    DuckDB may write where it may read, so whoever passes on what people ask has to let nothing but SELECT through.

    Args:
        store: where the tables are.
        cache: where copies of a remote store's files go.
        schemas: the columns of each table, so that a view of an empty table has them too.
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TABLE versions (filename VARCHAR, experiment VARCHAR, step INTEGER, data_version VARCHAR,"
        " is_current BOOLEAN, recorded_at TIMESTAMPTZ)"
    )
    files: dict[str, list[tuple[str, bool]]] = {}
    rows = []
    for version in list_versions(store):
        name = str(store.local_file(version.path, cache))
        files.setdefault(version.ref.table, []).append((name, version.is_current))
        rows.append(
            (
                name,
                version.ref.experiment,
                int(version.ref.partition),
                version.data_version,
                version.is_current,
                version.recorded_at,
            )
        )
    if rows:
        connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, to_timestamp(?))", rows)
    for table, schema in schemas.items():
        connection.register(f"no_{table}", schema.append(pa.field("filename", pa.string())).empty_table())
    for view, (table, query) in VIEWS.items():
        kept = files.get(table, [])
        current = _source(table, [name for name, is_current in kept if is_current])
        every = _source(table, [name for name, _ in kept])
        connection.execute(f"CREATE VIEW {view} AS {query.format(source=current, file_columns=_CURRENT)}")
        connection.execute(f"CREATE VIEW {view}_history AS {query.format(source=every, file_columns=_HISTORY)}")
    connection.execute(_STEPS)
    connection.execute(_STEPS_HISTORY)
    folder = store.root or cache
    connection.execute(f"SET allowed_directories = [{_quoted(str(folder))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _source(table: str, files: list[str]) -> str:
    if not files:
        return f"no_{table}"
    return f"read_parquet([{', '.join(_quoted(file) for file in files)}], filename = true, union_by_name = true)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

import duckdb
import pytest

from rl_assets.core.errors import UsageError
from rl_assets.graph.lab import SCHEMAS
from rl_assets.rewards import table as rewards_table
from rl_assets.rewards.scoring import Score
from rl_assets.rewards.verdict import Verdict
from rl_assets.store.objects import ObjectStore
from rl_assets.store.tables import TableRef, write_table
from rl_assets.store.views import VIEWS, open_views
from rl_assets.trajectories import table as trials_table
from rl_assets.trajectories.trial import Outcome
from rl_assets.weights import table as updates_table
from rl_assets.weights.update import Update
from tests.rooms import make_reward, make_trial

FILE_COLUMNS = {"experiment", "step"}
HISTORY_COLUMNS = FILE_COLUMNS | {"data_version", "is_current", "recorded_at"}
TRIAL_COLUMNS = {"trial_id", "trial_key", "world", "sample"}

COLUMNS = {
    "trials": TRIAL_COLUMNS
    | {"outcome", "n_turns", "answer", "elapsed_s", "attempts", "error", "world_digest", "policy_digest", "files"},
    "turns": TRIAL_COLUMNS | {"turn", "tool", "argument", "output", "elapsed_s"},
    "rewards": TRIAL_COLUMNS
    | {"reward", "advantage", "unscored_because", "verification_key", "verifier_digest", "rubric_digest"},
    "verdicts": TRIAL_COLUMNS
    | {"criterion", "weight", "source", "score", "failed_because", "verdict_key", "reason", "model", "n_calls", "n_tokens"}
    | {"cost_usd", "judged_at"},
    "updates": {"update_key", "base_digest", "weights_digest", "no_op", "n_examples", "off_policy", "behaviour"}
    | {"rubric_digest", "elapsed_s", "version"},
}
STEPS = FILE_COLUMNS | {"trials", "failed", "unscored", "mean_reward", "mean_turns", "weights_digest"}
STEPS_HISTORY = HISTORY_COLUMNS | {"trials", "unscored", "mean_reward", "rubric_digest"}


def filled(store: ObjectStore) -> None:
    """Two steps of three trials, one of which failed; step 0 was judged twice, under two rubrics."""
    for step in range(2):
        trials = [make_trial(sample, step=step, reads=["a.txt", "b.txt"][: sample + 1]) for sample in range(2)]
        failed = make_trial(2, step=step, outcome=Outcome.FAILED, turns=(), files={}, error="it's gone", attempts=2)
        trials.append(failed)
        table = trials_table.to_table(trials, "answer.txt")
        write_table(store, TableRef("exp", "trajectories", f"{step:04d}"), trials_table.data_version(trials), table)
        for rubric in ("old", "new") if step == 0 else ("new",):
            verdict = Verdict(
                key=f"v-{rubric}", score=0.5, reason="so", model="m", n_calls=1, n_tokens=3, cost_usd=0.25, judged_at=1.0
            )
            score = Score(criterion="short", weight=2.0, source="judge", score=0.5, verdict=verdict)
            rewards = [
                make_reward(trial, value).model_copy(update={"scores": (score,) if value is not None else ()})
                for trial, value in zip(trials, (1.0, 0.5 if rubric == "new" else 0.0, None), strict=True)
            ]
            table = rewards_table.to_table(rewards, rubric)
            write_table(store, TableRef("exp", "rewards", f"{step:04d}"), f"{rubric}-{step}", table)
        update = Update(
            key=f"u{step}", base_digest="w0", weights_digest=f"w{step}", n_examples=2, off_policy=False, behaviour=("w0",)
        )
        write_table(store, TableRef("exp", "weights", f"{step:04d}"), f"w{step}", updates_table.to_table(update, "new"))


@pytest.fixture
def views(store, tmp_path):
    filled(store)
    return open_views(store, tmp_path / "cache", SCHEMAS)


@pytest.fixture
def empty(store, tmp_path):
    return open_views(store, tmp_path / "cache", SCHEMAS)


def columns(connection, view):
    return {name for name, *_ in connection.execute(f"DESCRIBE {view}").fetchall()}


@pytest.mark.parametrize("is_empty", [True, False])
def test_every_view_has_its_columns_also_on_an_empty_store(store, tmp_path, is_empty):
    if not is_empty:
        filled(store)
    connection = open_views(store, tmp_path / "cache", SCHEMAS)
    assert set(COLUMNS) == set(VIEWS)
    for view, expected in COLUMNS.items():
        assert columns(connection, view) == FILE_COLUMNS | expected
        assert columns(connection, f"{view}_history") == HISTORY_COLUMNS | expected
    assert columns(connection, "steps") == STEPS
    assert columns(connection, "steps_history") == STEPS_HISTORY


def test_an_empty_store_gives_empty_views(empty):
    for view in (*VIEWS, "steps"):
        for name in (view, f"{view}_history"):
            assert empty.execute(f"SELECT * FROM {name}").fetchall() == []


def test_an_empty_and_a_filled_view_have_the_same_types(url, tmp_path):
    store = ObjectStore(url)
    before = open_views(store, tmp_path / "cache", SCHEMAS)
    types = {view: before.execute(f"DESCRIBE {view}").fetchall() for view in (*VIEWS, "steps")}
    filled(store)
    after = open_views(store, tmp_path / "cache", SCHEMAS)
    assert {view: after.execute(f"DESCRIBE {view}").fetchall() for view in types} == types


def rows(connection, query):
    return connection.execute(query).fetchall()


def test_trials_and_turns_are_those_that_ran(views):
    assert rows(views, "SELECT step, trial_id, outcome, n_turns, answer, error, attempts FROM trials ORDER BY ALL") == [
        (step, f"000{step}/world_0/000{sample}", outcome, n_turns, answer, error, attempts)
        for step in range(2)
        for sample, outcome, n_turns, answer, error, attempts in (
            (0, "answered", 1, "right", None, 1),
            (1, "answered", 2, "right", None, 1),
            (2, "failed", 0, None, "it's gone", 2),
        )
    ]
    assert rows(views, "SELECT trial_id, turn, argument FROM turns WHERE step = 1 ORDER BY ALL") == [
        ("0001/world_0/0000", 0, "documents/a.txt"),
        ("0001/world_0/0001", 0, "documents/a.txt"),
        ("0001/world_0/0001", 1, "documents/b.txt"),
    ]
    assert rows(views, "SELECT files['answer.txt'] FROM trials WHERE sample = 0 AND step = 0") == [("right",)]


def test_rewards_and_verdicts_are_the_current_ones_and_history_has_them_all(views):
    current = "SELECT step, sample, reward, rubric_digest FROM rewards ORDER BY ALL"
    assert rows(views, current) == [
        (step, sample, reward, "new") for step in range(2) for sample, reward in ((0, 1.0), (1, 0.5), (2, None))
    ]
    assert rows(views, "SELECT step, rubric_digest, is_current, count(*) FROM rewards_history GROUP BY ALL ORDER BY ALL") == [
        (0, "new", True, 3),
        (0, "old", False, 3),
        (1, "new", True, 3),
    ]
    assert rows(views, "SELECT DISTINCT criterion, weight, score, verdict_key, reason, cost_usd FROM verdicts") == [
        ("short", 2.0, 0.5, "v-new", "so", 0.25)
    ]
    assert rows(views, "SELECT count(*), count(DISTINCT verdict_key) FROM verdicts_history") == [(6, 2)]


def test_updates_and_steps_sum_up(views):
    assert rows(views, "SELECT step, update_key, weights_digest, no_op, behaviour FROM updates ORDER BY ALL") == [
        (0, "u0", "w0", True, ["w0"]),
        (1, "u1", "w1", False, ["w0"]),
    ]
    assert rows(views, "SELECT * EXCLUDE (experiment) FROM steps ORDER BY step") == [
        (0, 3, 1, 1, 0.75, 1.5, "w0"),
        (1, 3, 1, 1, 0.75, 1.5, "w1"),
    ]
    assert rows(
        views, "SELECT step, is_current, trials, unscored, mean_reward, rubric_digest FROM steps_history ORDER BY ALL"
    ) == [
        (0, False, 3, 1, 0.5, "old"),
        (0, True, 3, 1, 0.75, "new"),
        (1, True, 3, 1, 0.75, "new"),
    ]


def test_two_experiments_are_apart_in_every_view(store, tmp_path):
    filled(store)
    table = trials_table.to_table([make_trial()], "answer.txt")
    write_table(store, TableRef("other", "trajectories", "0000"), "v", table)
    connection = open_views(store, tmp_path / "cache", SCHEMAS)
    assert rows(connection, "SELECT experiment, count(*) FROM trials GROUP BY 1 ORDER BY 1") == [("exp", 6), ("other", 1)]
    assert rows(connection, "SELECT trials, mean_reward FROM steps WHERE experiment = 'other'") == [(1, None)]


@pytest.mark.parametrize("name", ["it's here", "[a] * ?{b,c}", "50% #1"])
def test_a_store_in_a_folder_of_any_name_can_be_queried(tmp_path, name):
    store = ObjectStore(str(tmp_path / name))
    filled(store)
    assert rows(open_views(store, tmp_path / "cache", SCHEMAS), "SELECT count(*) FROM trials") == [(6,)]


def test_queries_reach_nothing_outside_the_store(views, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for query in (
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"COPY trials TO '{tmp_path}/out.parquet'",
        f"EXPORT DATABASE '{tmp_path}/out'",
        f"ATTACH '{tmp_path}/out.db' AS out",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SELECT * FROM read_text('https://127.0.0.1:1/')",
    ):
        with pytest.raises(duckdb.Error):
            views.execute(query).fetchall()
    assert {path.name for path in tmp_path.iterdir()} <= {"secret.csv", "cache", "store"}


def test_what_people_ask_writes_nothing_into_the_store_either(workplace):
    from rl_assets.cli.sql import query
    from rl_assets.graph.project import Project

    project = Project.find(workplace.root)
    store = ObjectStore(project.home.store_url)
    filled(store)
    before = {path: store.get(path) for path in store.list("tables/")}
    for statement in (
        *(f"COPY (SELECT 1) TO '{store.root}/{path}'" for path in before),
        f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{store.root}/tables/new.csv'",
        f"SELECT 1; COPY (SELECT 1) TO '{store.root}/tables/new.csv'",
        f"ATTACH '{store.root}/tables/new.db' AS new",
        "DROP VIEW trials",
        "",
    ):
        with pytest.raises(UsageError):
            query(project, statement)
    assert {path: store.get(path) for path in store.list("tables/")} == before
    assert query(project, "SELECT count(*) AS n FROM trials") == (["n"], [(6,)])

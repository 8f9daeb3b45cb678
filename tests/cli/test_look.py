"""`status`, `show` and `sql`: what they say, and that they show data as data."""

import pytest

from rl_assets.cli.sql import as_json, query
from rl_assets.core.errors import UsageError
from rl_assets.graph.project import Project
from tests.cli.test_mistakes import everything
from tests.support import Workplace

pytestmark = pytest.mark.slow

NASTY = (
    "Ring \x07 \x1b]0;title\x07\x1b[31mred\x1b[0m [bold red]markup[/] [link=file:///x]l[/link]"
    " \u202eback <b>html</b> | `code`\r\x9b2J\n"
)


def test_status_tells_of_each_partition_and_of_what_changed(trained: Workplace):
    keys = ["0000", "0001", "0002"]
    fresh = {"state": "fresh", "why": []}
    steps = dict.fromkeys(keys, fresh)
    worlds = {f"world_{index}": fresh for index in range(3)}
    expected = {"assets": {"worlds": worlds, "trajectories": steps, "rewards": steps, "weights": steps}}
    assert trained.json("status", "quickstart") == expected

    trained.edit_criterion("efficiency", question="Was it quick?")
    trained.edit_criterion("tidiness", weight=0.4)
    stale = trained.json("status", "quickstart")["assets"]
    why = "the rubric changed (efficiency: question; tidiness: weight 0.1 to 0.4)"
    assert stale["worlds"] == worlds and stale["trajectories"] == steps
    assert stale["rewards"] == {key: {"state": "stale", "why": [why]} for key in keys}
    assert {key: entry["state"] for key, entry in stale["weights"].items()} == dict.fromkeys(keys, "stale")
    assert all(why in entry["why"] for entry in stale["weights"].values())
    table = trained.run("status", "quickstart").stdout
    assert f"rewards: 3 of 3 steps are stale: {why} (3)" in table.splitlines()

    trained.set("quickstart", steps=4)
    assert trained.json("status", "quickstart")["assets"]["weights"]["0003"] == {"state": "missing", "why": []}


def test_status_of_what_was_never_trained_is_missing(workplace: Workplace):
    assets = workplace.json("status", "quickstart")["assets"]
    assert {entry["state"] for partitions in assets.values() for entry in partitions.values()} == {"missing"}


def test_status_names_the_settings_and_the_worlds_that_changed(trained: Workplace):
    trained.set(policy__learning_rate=0.5)
    overlay = trained.folder() / "worlds" / "world_1" / "tests"
    overlay.mkdir(parents=True)
    (overlay / "expected.txt").write_text("0" * 64 + "\n")
    assets = trained.json("status", "quickstart")["assets"]
    assert assets["weights"]["0000"]["why"][0] == "the settings of weights changed"
    assert assets["rewards"]["0000"]["why"] == ["verifiers[world_1] has a new data version"]
    assert {entry["state"] for entry in assets["trajectories"].values()} == {"fresh"}


def test_show_finds_a_trial_by_id_short_id_and_key(trained: Workplace):
    by_id = trained.json("show", "quickstart", "0001/world_2/0001")
    trial = by_id["trial"]
    assert trial["id"] == "0001/world_2/0001"
    assert by_id == trained.json("show", "quickstart", "1/world_2/1") == trained.json("show", "quickstart", trial["key"])
    assert by_id["reward"]["trial_key"] == trial["key"]
    text = trained.run("show", "quickstart", "1/world_2/1").stdout
    assert text.splitlines()[0] == "0001/world_2/0001  answered"
    for turn in trial["turns"]:
        assert f"{turn['turn'] + 1}. {turn['tool']} {turn['argument'][:20]}" in text
    for score in by_id["reward"]["scores"]:
        assert f"{score['criterion']}: {score['score']:.4f} x {score['weight']:g}" in text
    assert f"reward {by_id['reward']['reward']:.4f}" in text


def test_documents_are_shown_as_data(workplace: Workplace):
    corpus = workplace.root / "corpus"
    corpus.mkdir()
    for index in range(3):
        (corpus / f"[red]note #{index}").write_text(f"{index} {NASTY}", newline="")
    workplace.set(worlds__source="corpus", worlds__documents=3, worlds__count=1, steps=1)
    workplace.run("train", "quickstart")
    told = workplace.json("show", "quickstart", "0/world_0/0")["trial"]["turns"][0]
    assert (
        "\x1b[31mred" in told["output"] and "\u202e" in told["output"] and told["argument"].startswith("documents/[red]note #")
    )
    shown = workplace.run("show", "quickstart", "0/world_0/0").stdout
    queried = workplace.run("sql", "SELECT output, argument FROM turns").stdout
    for text in (shown, queried):
        assert {character for character in text if not character.isprintable()} == {"\n"}
    assert "[bold red]markup[/] [link=file:///x]l[/link]" in shown.replace("\n", " ")
    assert "1. read documents/[red]note #" in shown
    rows = workplace.json("sql", "SELECT output FROM turns WHERE tool = 'read'")
    assert all("\x07" in row["output"] for row in rows)
    from dagster import AssetKey

    table = workplace.instance().get_latest_materialization_event(AssetKey(["quickstart", "trajectories"]))
    assert "[red]" not in table.asset_materialization.metadata["table"].value


COLUMNS = {
    "trials": ["trial_id", "trial_key", "world", "sample", "outcome", "n_turns", "answer", "policy_digest"],
    "turns": ["trial_id", "turn", "tool", "argument", "output"],
    "verdicts": ["trial_id", "criterion", "weight", "source", "score", "verdict_key", "reason", "cost_usd"],
    "rewards": ["trial_id", "reward", "advantage", "unscored_because", "rubric_digest"],
    "updates": ["update_key", "base_digest", "weights_digest", "off_policy"],
    "steps": ["experiment", "step", "trials", "unscored", "mean_reward"],
}


def ask(place: Workplace, statement: str) -> list[dict]:
    """As `rl-assets sql --json`, in this process."""
    return as_json(*query(Project.find(place.root), statement))


def test_sql_answers_from_every_view_and_its_history(trained: Workplace, first):
    counts = {}
    for view, columns in COLUMNS.items():
        for name in (view, f"{view}_history"):
            wanted = ["step", "trials", "mean_reward", "is_current"] if name == "steps_history" else columns
            rows = ask(trained, f"SELECT {', '.join(wanted)} FROM {name}")
            assert [list(row) for row in rows] == [wanted] * len(rows)
            counts[name] = len(rows)
    assert (counts["trials"], counts["rewards"], counts["verdicts"], counts["updates"], counts["steps"]) == (18, 18, 54, 3, 3)
    columns = "step, trials, failed, unscored, mean_reward, mean_turns, weights_digest"
    steps = trained.json("sql", f"SELECT {columns} FROM steps")
    assert steps == [pytest.approx(step) for step in first["steps"]]
    table = trained.run("sql", "SELECT step, mean_reward FROM steps").stdout
    assert all(f"{step['mean_reward']:.4f}" in table for step in first["steps"])

    trained.edit_criterion("efficiency", weight=0.9)
    trained.run("rejudge", "quickstart")
    assert ask(trained, "SELECT count(*) AS n FROM rewards") == [{"n": 18}]
    history = ask(trained, "SELECT is_current, count(*) AS n FROM rewards_history GROUP BY ALL ORDER BY ALL")
    assert history == [{"is_current": False, "n": 18}, {"is_current": True, "n": 18}]


def test_sql_before_anything_is_kept_has_the_views_and_no_rows(workplace: Workplace):
    for view in COLUMNS:
        assert ask(workplace, f"SELECT * FROM {view}") == ask(workplace, f"SELECT * FROM {view}_history") == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELEC 1",
        "",
        "SELECT nope FROM trials",
        "SELECT 1; SELECT 2",
        "DROP VIEW trials",
        "CREATE TABLE t (a INTEGER)",
        "COPY (SELECT 1) TO '{store}/written.csv'",
        "COPY (SELECT 1) TO '{root}/written.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{store}/written.csv'",
        "EXPORT DATABASE '{store}/written'",
        "ATTACH '{store}/written.db' AS other",
        "SET enable_external_access = true",
        "SELECT * FROM read_text('{root}/pyproject.toml')",
        "SELECT * FROM glob('/*')",
    ],
)
def test_sql_that_is_wrong_or_would_do_more_than_read_is_refused(trained_once, statement):
    place, _ = trained_once
    before = everything(place)
    with pytest.raises(UsageError):
        ask(place, statement.format(root=place.root, store=place.home / "store"))
    assert everything(place) == before


def test_refused_sql_is_one_line_and_exit_code_2(trained_once):
    place, _ = trained_once
    done = place.run("sql", "SELECT nope\nFROM trials", "--json", check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "nope" in done.stderr and "trials, turns" in done.stderr

"""`rl-assets train`: what it does, says and leaves."""

import json
import re

import pytest

from tests.support import Workplace

pytestmark = pytest.mark.slow

STEP_KEYS = {"step", "trials", "failed", "unscored", "mean_reward", "mean_turns", "weights_digest"}
RECEIPT_KEYS = {
    "trials_run",
    "trials_recovered",
    "trials_failed",
    "judge_calls",
    "judge_calls_recovered",
    "updates_run",
    "updates_recovered",
    "elapsed_s",
    "cost_usd",
}


def test_a_second_training_recovers_everything_and_pays_for_nothing(trained: Workplace, first):
    assert first["receipt"]["trials_run"] == 18 and first["receipt"]["updates_run"] == 3
    again = trained.json("train", "quickstart")
    receipt = again["receipt"]
    assert (receipt["trials_run"], receipt["trials_recovered"], receipt["trials_failed"]) == (0, 18, 0)
    assert (receipt["judge_calls"], receipt["judge_calls_recovered"]) == (0, first["receipt"]["judge_calls"])
    assert (receipt["updates_run"], receipt["updates_recovered"]) == (0, 3)
    assert again["steps"] == first["steps"] and again["weights_digest"] == first["weights_digest"]


def test_json_is_one_document_of_the_documented_shape(trained: Workplace):
    done = trained.run("train", "quickstart", "--json")
    assert done.stderr == ""
    document, end = json.JSONDecoder().raw_decode(done.stdout)
    assert done.stdout[end:] == "\n"
    assert set(document) == {"experiment", "weights_digest", "steps", "receipt"}
    assert set(document["receipt"]) == RECEIPT_KEYS
    assert [set(step) for step in document["steps"]] == [STEP_KEYS] * 3
    assert [step["step"] for step in document["steps"]] == [0, 1, 2]
    assert document["weights_digest"] == document["steps"][-1]["weights_digest"]
    assert document["receipt"]["elapsed_s"] > 0


def test_the_table_has_a_row_per_step_and_then_the_receipt(trained: Workplace, first):
    lines = trained.run("train", "quickstart").stdout.splitlines()
    rows = [re.split(r"\s*│\s*", line.strip("│ ")) for line in lines if line.startswith("│")]
    assert [row[0] for row in rows] == ["0000", "0001", "0002"]
    for row, step in zip(rows, first["steps"], strict=True):
        assert row[1:4] == ["6", "0", "0"]
        assert row[4:6] == [f"{step['mean_reward']:.3f}", f"{step['mean_turns']:.2f}"]
        assert row[6] == step["weights_digest"][:12]
    assert lines[-1].startswith("trials: 0 run, 18 recovered, 0 failed · judge calls: 0 made,")


def test_some_steps_first_and_the_others_later_give_the_same_as_all_at_once(workplace: Workplace, first):
    two = workplace.json("train", "quickstart", "--steps", "2")
    assert two["steps"] == first["steps"][:2] and two["receipt"]["trials_run"] == 12
    rest = workplace.json("train", "quickstart")
    assert (rest["receipt"]["trials_run"], rest["receipt"]["trials_recovered"]) == (6, 12)
    assert rest["steps"] == first["steps"]


def test_set_changes_a_setting_for_this_command_and_reruns_what_it_touches(trained: Workplace, first):
    defs = (trained.folder() / "defs.yaml").read_bytes()
    longer = trained.json("train", "quickstart", "--set", "steps=4")
    assert longer["steps"][:3] == first["steps"] and len(longer["steps"]) == 4
    assert (longer["receipt"]["trials_run"], longer["receipt"]["trials_recovered"]) == (6, 18)
    other = trained.json("train", "quickstart", "--set", "policy.learning_rate=0.5", "--set", "rollouts.samples=3")
    assert other["weights_digest"] != first["weights_digest"]
    assert [step["trials"] for step in other["steps"]] == [9, 9, 9]
    # Step 0 is sampled from the same weights, so of its nine trials six were there.
    assert other["receipt"]["trials_recovered"] >= 6
    assert (trained.folder() / "defs.yaml").read_bytes() == defs
    assert trained.json("train", "quickstart")["steps"] == first["steps"]


def test_a_step_that_fails_exits_1_with_the_reason_and_where_to_look_and_the_next_training_goes_on(workplace: Workplace, first):
    done = workplace.run("train", "quickstart", "--set", "faults.refused_updates=[1]", "--json", check=False)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("rl-assets: step 0001 failed: the update of step 0001 refused (injected)")
    run_id = re.search(r"run ([0-9a-f-]{36})", line)[1]
    assert "rl-assets dev" in line
    assert workplace.instance().get_run_by_id(run_id).is_failure
    after = workplace.json("train", "quickstart")
    assert (after["receipt"]["trials_run"], after["receipt"]["trials_recovered"]) == (6, 12)
    assert after["steps"] == first["steps"]


def test_training_shows_in_dagsters_runs_and_checks(trained: Workplace):
    instance = trained.instance()
    runs = instance.get_runs()
    assert len(runs) == 4 and all(run.is_success for run in runs)
    assert sorted(run.tags.get("dagster/partition", "worlds") for run in runs) == ["0000", "0001", "0002", "worlds"]
    assert [(pool.name, pool.limit) for pool in instance.event_log_storage.get_pool_limits()] == [("quickstart_loop", 1)]

"""`rl-assets rejudge`: another rubric on old trials."""

import pytest
import yaml

from tests.support import Workplace

pytestmark = pytest.mark.slow


def versions(place: Workplace, asset: str) -> dict[str, str]:
    """The data versions of an asset, by Dagster's log."""
    from rl_assets.graph.event_log import latest_versions

    return latest_versions(place.instance(), "quickstart", asset)


def keys_of(place: Workplace, criterion: str) -> set[str]:
    """The distinct verdict keys of a criterion, as rewards hold them now."""
    rows = place.json("sql", f"SELECT DISTINCT verdict_key FROM verdicts WHERE criterion = '{criterion}'")
    return {row["verdict_key"] for row in rows}


def test_changed_weights_call_no_judge_and_retrain_the_chain_on_the_old_trials(trained: Workplace, first):
    trained.edit_criterion("efficiency", weight=0.9)
    done = trained.json("rejudge", "quickstart")
    receipt = done["receipt"]
    assert (receipt["judge_calls"], receipt["trials_run"], receipt["updates_run"]) == (0, 0, 3)
    assert done["steps"][0]["mean_reward"] != first["steps"][0]["mean_reward"]
    assert [step["mean_turns"] for step in done["steps"]] == [step["mean_turns"] for step in first["steps"]]
    assert set(done) == set(first) and set(receipt) == set(first["receipt"])


def test_an_edited_question_is_asked_once_per_missing_verdict_and_an_undone_edit_costs_nothing(trained: Workplace, first):
    old, rewards, weights = trained.rubric(), versions(trained, "rewards"), versions(trained, "weights")
    tidiness = keys_of(trained, "tidiness")
    trained.edit_criterion("efficiency", question="Did it waste no reading?")
    done = trained.json("rejudge", "quickstart")
    assert done["receipt"]["judge_calls"] == len(keys_of(trained, "efficiency")) > 0
    assert keys_of(trained, "tidiness") == tidiness
    assert done["receipt"]["judge_calls_recovered"] == len(tidiness)
    assert versions(trained, "rewards").keys() == rewards.keys()
    assert not set(versions(trained, "rewards").values()) & set(rewards.values())

    trained.set_rubric(old)
    undone = trained.json("rejudge", "quickstart")
    assert (undone["receipt"]["judge_calls"], undone["receipt"]["updates_run"]) == (0, 0)
    assert (versions(trained, "rewards"), versions(trained, "weights")) == (rewards, weights)
    assert undone["steps"] == first["steps"]


def test_names_comments_and_order_stale_nothing(trained: Workplace):
    rubric = trained.rubric()
    for criterion in rubric["criteria"]:
        criterion["name"] += "_renamed"
    rubric["criteria"].reverse()
    text = "# Another comment.\n" + yaml.safe_dump(rubric, sort_keys=True)
    (trained.folder() / "rubric.yaml").write_text(text)
    states = trained.json("status", "quickstart")["assets"]
    assert {state["state"] for partitions in states.values() for state in partitions.values()} == {"fresh"}
    receipt = trained.json("rejudge", "quickstart")["receipt"]
    assert (receipt["judge_calls"], receipt["updates_run"], receipt["updates_recovered"]) == (0, 0, 3)


def test_a_rubric_file_takes_the_place_of_the_experiments(trained: Workplace, tmp_path):
    rubric = trained.rubric()
    rubric["criteria"][1]["weight"] = 0.9
    other = tmp_path / "other.yaml"
    other.write_text("# kept as it is\n" + yaml.safe_dump(rubric))
    done = trained.json("rejudge", "quickstart", "--rubric", str(other))
    assert done["receipt"]["updates_run"] == 3
    assert (trained.folder() / "rubric.yaml").read_text() == other.read_text()
    assert sorted(path.name for path in trained.folder().iterdir()) == ["defs.yaml", "rubric.yaml"]


def test_on_policy_samples_again_what_the_new_weights_touch_and_ends_as_if_trained_so(trained: Workplace, workplace: Workplace):
    for place in (trained, workplace):
        place.edit_criterion("correctness", weight=-1.0)
    off = trained.json("rejudge", "quickstart")
    states = trained.json("status", "quickstart")["assets"]["trajectories"]
    assert [states[key]["state"] for key in ("0000", "0001", "0002")] == ["fresh", "stale", "stale"]
    assert states["0001"]["why"] == ["policy[v0001] has a new data version"]
    on = trained.json("rejudge", "quickstart", "--on-policy")
    assert on["receipt"]["trials_run"] > 0 and on["weights_digest"] != off["weights_digest"]
    straight = workplace.json("train", "quickstart")
    assert on["steps"] == straight["steps"]
    states = trained.json("status", "quickstart")["assets"]
    assert {state["state"] for partitions in states.values() for state in partitions.values()} == {"fresh"}


def test_with_nothing_sampled_yet_or_a_rubric_that_is_not_right_the_rubric_stays(workplace: Workplace, tmp_path):
    rubric = workplace.rubric()
    rubric["criteria"][1]["weight"] = 0.9
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(rubric))
    broken = tmp_path / "broken.yaml"
    broken.write_text("criteria: []\n")
    text = (workplace.folder() / "rubric.yaml").read_bytes()
    cases = {other: "no trials to judge yet", broken: f"{broken}: criteria: ", tmp_path / "no.yaml": "no.yaml: No such"}
    for file, says in cases.items():
        done = workplace.run("rejudge", "quickstart", "--rubric", str(file), check=False)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert says in done.stderr
        assert (workplace.folder() / "rubric.yaml").read_bytes() == text

"""`rl-assets fork`: a new experiment that shares what it can with its parent."""

import pytest
import yaml

from tests.cli.test_mistakes import everything
from tests.support import Workplace

pytestmark = pytest.mark.slow


def kept(place: Workplace, *parts: str) -> dict[str, bytes]:
    """The files below those folders of the project."""
    return {path: data for path, data in everything(place).items() if any(part in path for part in parts)}


def test_a_fork_with_a_new_rubric_recovers_what_it_shares_and_leaves_its_parent_alone(trained: Workplace, first, tmp_path):
    rubric = trained.rubric()
    rubric["criteria"][0]["weight"] = -1.0
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(rubric))
    parents = ("defs/quickstart/", "tables/quickstart/")
    before, status = kept(trained, *parents), trained.json("status", "quickstart")

    said = trained.json("fork", "quickstart", "twin", "--rubric", str(other))
    assert said == {"experiment": "twin", "parent": "quickstart", "folder": str(trained.folder("twin"))}
    report = trained.json("train", "twin")
    assert report["steps"][0]["weights_digest"] != first["steps"][0]["weights_digest"]
    old = {row["trial_key"] for row in trained.json("sql", "SELECT trial_key FROM trials WHERE experiment = 'quickstart'")}
    new = trained.json("sql", "SELECT step, trial_key FROM trials WHERE experiment = 'twin'")
    assert {row["trial_key"] for row in new if row["step"] == 0} <= old
    assert report["receipt"]["trials_recovered"] == sum(row["trial_key"] in old for row in new) >= 6
    assert report["receipt"]["trials_run"] == sum(row["trial_key"] not in old for row in new) > 0
    assert report["receipt"]["judge_calls"] < first["receipt"]["judge_calls"]

    assert kept(trained, *parents) == before
    assert trained.json("status", "quickstart") == status
    assert trained.run("status", "twin").stdout.splitlines()[0].strip() == "twin, a fork of quickstart"
    assert trained.json("train", "quickstart")["steps"] == first["steps"]


def test_a_fork_with_nothing_changed_does_no_work(trained: Workplace, first):
    trained.run("fork", "quickstart", "twin")
    report = trained.json("train", "twin")
    assert report["steps"] == first["steps"]
    receipt = report["receipt"]
    assert (receipt["trials_run"], receipt["judge_calls"], receipt["updates_run"]) == (0, 0, 0)


def test_a_forks_settings_are_written_into_its_own_file(workplace: Workplace):
    workplace.run("fork", "quickstart", "twin", "--set", "policy.learning_rate=0.5", "--set", "worlds.count=4")
    document = yaml.safe_load((workplace.folder("twin") / "defs.yaml").read_text())
    attributes = document["attributes"]
    assert (attributes["parent"], attributes["policy"]["learning_rate"], attributes["worlds"]["count"]) == (
        "quickstart",
        0.5,
        4,
    )
    assert attributes["worlds"]["documents"] == 8
    workplace.run("fork", "twin", "grandchild", "--set", "seed=7")
    attributes = yaml.safe_load((workplace.folder("grandchild") / "defs.yaml").read_text())["attributes"]
    assert (attributes["parent"], attributes["policy"]["learning_rate"], attributes["seed"]) == ("twin", 0.5, 7)


def test_a_new_rubric_does_not_replace_one_that_the_parent_shares(workplace: Workplace, tmp_path):
    workplace.add("sharing", rubric="../quickstart/rubric.yaml")
    rubric = workplace.rubric()
    rubric["criteria"][0]["weight"] = 7.0
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(rubric))
    before = kept(workplace, "defs/quickstart/", "defs/sharing/")
    workplace.run("fork", "sharing", "twin", "--rubric", str(other))
    assert kept(workplace, "defs/quickstart/", "defs/sharing/") == before
    assert workplace.lab("twin").experiment.rubric().criteria[0].weight == 7.0
    workplace.run("fork", "sharing", "same")
    assert workplace.lab("same").experiment.rubric() == workplace.lab("quickstart").experiment.rubric()

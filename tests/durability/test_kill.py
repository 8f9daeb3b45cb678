"""`kill -9` at any moment, then the same command again: the same result, and nothing done twice."""

import subprocess
import time
from random import Random

import pytest

from tests.durability.support import assert_nothing_active, assert_sound, command_that_dies, journal, states
from tests.support import Workplace

pytestmark = pytest.mark.slow

SLOW = {"steps": 2, "rollouts__tool_latency_s": 0.12, "judging__latency_s": 0.2}
"""So that there is something to interrupt."""

MOMENTS = 20
GROUPS = 4


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """An undisturbed run of the slowed experiment: its report, how long it took, and the project as it was before it."""
    place = Workplace.make(tmp_path_factory.mktemp("undisturbed") / "project")
    place.set(**SLOW)
    untouched = place.copy(place.root.parent / "untouched")
    started = time.monotonic()
    report = place.json("train", "quickstart")
    return report, time.monotonic() - started, untouched, journal(place, "verdict")


@pytest.mark.parametrize("group", range(GROUPS))
def test_killed_at_random_moments_a_training_goes_on_from_what_is_recorded(undisturbed, tmp_path, group):
    report, duration, untouched, all_verdicts = undisturbed
    random = Random(group)
    for index in range(group, MOMENTS, GROUPS):
        place = untouched.copy(tmp_path / str(index))
        moment = duration * (index + random.random()) / MOMENTS
        process = subprocess.Popen(
            place.command("train", "quickstart"),
            cwd=place.root,
            env=place.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        process.kill()
        process.wait()
        trials, verdicts, updates = (journal(place, kind) for kind in ("trial", "verdict", "update"))
        resumed = place.json("train", "quickstart")
        said = f"killed after {moment:.2f} s with {len(trials)} trials, {len(verdicts)} verdicts, {len(updates)} updates"
        assert resumed["steps"] == report["steps"], said
        receipt = resumed["receipt"]
        assert (receipt["trials_run"], receipt["trials_recovered"]) == (12 - len(trials), len(trials)), said
        assert receipt["judge_calls"] == len(all_verdicts) - len(verdicts), said
        assert receipt["updates_run"] == 2 - len(updates), said
        for kind, before in (("trial", trials), ("verdict", verdicts), ("update", updates)):
            after = journal(place, kind)
            assert {key: after.get(key) for key in before} == before, said
        assert journal(place, "verdict").keys() == all_verdicts.keys()
        assert_sound(place)
        assert_nothing_active(place)


WRITES = [
    (r"^weights/.*/files/", 1, "after"),
    (r"^leases/", 1, "after"),
    (r"^worlds/.*manifest", 2, "before"),
    (r"^journal/trial/", 8, "after"),
    (r"^claims/verdict", 2, "after"),
    (r"^journal/verdict/", 3, "after"),
    (r"^tables/.*trajectories/0001/current", 1, "after"),
    (r"^tables/.*rewards/0000/current", 1, "after"),
    (r"^weights/.*manifest", 2, "before"),
    (r"^journal/update/", 1, "after"),
    (r"^tables/.*weights/0000/current", 1, "after"),
    (r"^tables/.*weights/0001/current", 1, "after"),
]


@pytest.mark.parametrize(("pattern", "number", "when"), WRITES, ids=[f"{w}-{n}-of-{p}" for p, n, w in WRITES])
def test_killed_at_a_chosen_write_a_training_goes_on_from_what_is_recorded(tmp_path, first, pattern, number, when):
    place = Workplace.make(tmp_path / "project")
    arguments = ("train", "quickstart")
    died = subprocess.run(
        command_that_dies(pattern, number, when, *arguments), cwd=place.root, env=place.environment(), capture_output=True
    )
    assert died.returncode == -9, died.stderr
    trials, verdicts, updates = (journal(place, kind) for kind in ("trial", "verdict", "update"))
    resumed = place.json(*arguments)
    receipt = resumed["receipt"]
    assert resumed["steps"] == first["steps"]
    assert (receipt["trials_run"], receipt["trials_recovered"]) == (18 - len(trials), len(trials))
    assert receipt["judge_calls"] + len(verdicts) == first["receipt"]["judge_calls"]
    assert receipt["updates_run"] + len(updates) == 3
    assert_sound(place)
    assert_nothing_active(place)
    assert states(place) == {"fresh"}


@pytest.mark.parametrize("asset", ["rewards/0000", "weights/0000", "weights/0001"])
def test_a_rejudge_killed_between_store_and_log_and_its_edit_undone_leaves_all_as_it_was(trained: Workplace, first, asset):
    old = trained.rubric()
    trained.edit_criterion("efficiency", weight=5.0, question="Was it quick?")
    dying = command_that_dies(f"^tables/.*{asset}/current", 1, "after", "rejudge", "quickstart")
    died = subprocess.run(dying, cwd=trained.root, env=trained.environment(), capture_output=True)
    assert died.returncode == -9, died.stderr
    trained.set_rubric(old)
    again = trained.json("train", "quickstart")
    assert again["steps"] == first["steps"]
    assert (again["receipt"]["trials_run"], again["receipt"]["judge_calls"], again["receipt"]["updates_run"]) == (0, 0, 0)
    assert states(trained) == {"fresh"}
    rows = trained.json("sql", "SELECT step, weights_digest FROM steps")
    assert [row["weights_digest"] for row in rows] == [step["weights_digest"] for step in first["steps"]]


def test_a_killed_process_leaves_a_started_run_which_the_next_training_fails(workplace: Workplace):
    dying = command_that_dies(r"^journal/trial/", 2, "after", "train", "quickstart")
    subprocess.run(dying, cwd=workplace.root, env=workplace.environment(), capture_output=True)
    instance = workplace.instance()
    (left,) = [run for run in instance.get_runs() if not run.is_finished]
    workplace.json("train", "quickstart", "--steps", "1")
    assert instance.get_run_by_id(left.run_id).is_failure
    messages = [entry.message for entry in instance.all_logs(left.run_id)]
    assert any("is gone. What it recorded is kept; run it again." in message for message in messages)
    assert_nothing_active(workplace)

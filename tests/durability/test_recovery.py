"""Faults, crashes, lost state and company: nothing is done twice, and the result is the same."""

import json
import shutil
import subprocess

import pytest

from rl_assets.graph.names import asset_key
from tests.durability.support import assert_nothing_active, assert_sound, command_that_dies, journal, states
from tests.support import Workplace

pytestmark = pytest.mark.slow


def judge_calls_in_the_log(place: Workplace, experiment: str = "quickstart") -> int:
    """Judge calls ever made, as the materializations tell."""
    import dagster as dg

    calls = 0
    for asset in ("trajectories", "rewards"):
        key = asset_key(experiment, asset)
        records = place.instance().fetch_materializations(dg.AssetRecordsFilter(asset_key=key), limit=1000).records
        for record in records:
            entry = record.asset_materialization.metadata.get("judge_calls")
            calls += entry.value if entry else 0
    return calls


def test_with_faults_and_a_crash_no_verdict_is_paid_twice_and_the_weights_are_those_of_an_undisturbed_run(
    workplace: Workplace, first
):
    command = ("train", "quickstart", "--flaky-trials", "0.25", "--flaky-judge", "0.3", "--crash-after-step", "1")
    assert workplace.run(*command, check=False).returncode == -9
    resumed = workplace.json(*command)
    assert [(step["trials"], step["failed"], step["unscored"]) for step in resumed["steps"]] == [(6, 0, 0)] * 3
    assert resumed["steps"] == first["steps"]
    receipt = resumed["receipt"]
    assert (receipt["trials_run"], receipt["trials_recovered"], receipt["trials_failed"]) == (6, 12, 0)
    assert (receipt["updates_run"], receipt["updates_recovered"]) == (1, 2)
    verdicts = journal(workplace, "verdict")
    assert judge_calls_in_the_log(workplace) == len(verdicts) == first["receipt"]["judge_calls"]
    assert {json.loads(record.splitlines()[0])["n_calls"] for record in verdicts.values()} == {1}
    # The faults did strike, and are on record as attempts.
    for kind in ("trial", "verdict"):
        assert list((workplace.home / "store" / "attempts" / kind).rglob("*.json"))
    assert_sound(workplace)
    assert_nothing_active(workplace)


def test_with_dagsters_home_deleted_the_store_answers_for_everything(trained: Workplace, first):
    shutil.rmtree(trained.home / "dagster")
    assert states(trained) == {"missing"}
    again = trained.json("train", "quickstart")
    receipt = again["receipt"]
    assert (receipt["trials_run"], receipt["judge_calls"], receipt["updates_run"]) == (0, 0, 0)
    assert (receipt["trials_recovered"], receipt["updates_recovered"]) == (18, 3)
    assert again["steps"] == first["steps"]
    assert states(trained) == {"fresh"}


def test_with_the_store_deleted_what_dagster_calls_fresh_is_made_again(trained: Workplace, first):
    shutil.rmtree(trained.home / "store")
    again = trained.json("train", "quickstart")
    assert again["receipt"]["trials_run"] == 18
    assert again["steps"] == first["steps"]
    assert_sound(trained)
    assert states(trained) == {"fresh"}


def train_at_once(place: Workplace, *experiments: str) -> list[dict]:
    """Start `train --json` of each at the same moment; what each receipt says."""
    processes = [
        subprocess.Popen(
            place.command("train", name, "--json"),
            cwd=place.root,
            env=place.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in experiments
    ]
    reports = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    return reports


def test_two_trainings_of_one_experiment_at_once_do_each_thing_once(workplace: Workplace, first):
    workplace.set(rollouts__tool_latency_s=0.05)
    reports = train_at_once(workplace, "quickstart", "quickstart")
    assert [report["steps"] for report in reports] == [first["steps"]] * 2
    receipts = [report["receipt"] for report in reports]
    assert sum(receipt["trials_run"] for receipt in receipts) == 18
    assert sum(receipt["judge_calls"] for receipt in receipts) == first["receipt"]["judge_calls"]
    assert sum(receipt["updates_run"] for receipt in receipts) == 3
    assert_sound(workplace)
    assert_nothing_active(workplace)


def test_two_experiments_with_shared_inputs_trained_at_once_do_each_shared_thing_once(workplace: Workplace, first):
    workplace.set(rollouts__tool_latency_s=0.05)
    workplace.run("fork", "quickstart", "twin")
    assert not (workplace.home / "store" / "journal").exists()
    reports = train_at_once(workplace, "quickstart", "twin")
    assert [report["steps"] for report in reports] == [first["steps"]] * 2
    receipts = [report["receipt"] for report in reports]
    assert sum(receipt["trials_run"] for receipt in receipts) == 18
    assert [receipt["trials_run"] + receipt["trials_recovered"] for receipt in receipts] == [18, 18]
    assert sum(receipt["judge_calls"] for receipt in receipts) == first["receipt"]["judge_calls"]
    assert sum(receipt["updates_run"] for receipt in receipts) == 3
    assert judge_calls_in_the_log(workplace) + judge_calls_in_the_log(workplace, "twin") == first["receipt"]["judge_calls"]
    assert_sound(workplace)


def test_a_twin_goes_on_with_what_a_killed_one_was_at(workplace: Workplace, first):
    workplace.run("fork", "quickstart", "twin")
    dying = command_that_dies(r"^claims/trial", 4, "after", "train", "quickstart")
    assert subprocess.run(dying, cwd=workplace.root, env=workplace.environment(), capture_output=True).returncode == -9
    done = len(journal(workplace, "trial"))
    report = workplace.json("train", "twin")
    assert report["steps"] == first["steps"]
    assert report["receipt"]["trials_run"] == 18 - done
    assert_sound(workplace)


def test_an_interrupt_ends_with_130_and_one_line_and_leaves_no_run_active(workplace: Workplace, first):
    import signal
    import time

    workplace.set(rollouts__tool_latency_s=0.5)
    process = subprocess.Popen(
        workplace.command("train", "quickstart"),
        cwd=workplace.root,
        env=workplace.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    claims = workplace.home / "store" / "claims"
    while not (claims.is_dir() and any(claims.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err == "rl-assets: interrupted; what was recorded is kept, and the same command goes on from there\n"
    assert_nothing_active(workplace)
    workplace.set(rollouts__tool_latency_s=0.0)
    assert workplace.json("train", "quickstart")["steps"] == first["steps"]
    assert_sound(workplace)

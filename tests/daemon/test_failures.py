"""What goes wrong while the daemon runs, and the way back from it."""

import time

import pytest

from rl_assets.graph.event_log import latest_made
from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.plan import State
from rl_assets.graph.staleness import plan_of
from tests.daemon.conftest import Bring
from tests.daemon.server import Server, wait_for
from tests.graph.conftest import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("daemon_failures")]


def test_backfills_that_fail_stop_and_name_the_way_back_which_works(shared: Server, bring: Bring) -> None:
    bring("landless", steps=3, seed=101)
    bring("refused", steps=8, seed=102, faults__refused_updates=[2], rollouts__tool_latency_s=0.1)
    without_worlds = shared.backfill("landless")
    with_refusal = shared.backfill("refused", ("worlds", *STEP_ASSETS))
    worlds_that_were_never_made_are_named(shared, without_worlds)
    steps_behind_a_refused_update_are_cancelled(shared, with_refusal)
    shared.place.set("refused", faults__refused_updates=[])
    shared.reload()
    ways_back = {
        "landless": (shared.backfill("landless", ("worlds", *STEP_ASSETS)), 4),
        "refused": (shared.backfill("refused", steps=range(2, 8)), 6),
    }
    for name, (backfill, count) in ways_back.items():
        assert {run.status for run in shared.ended(name, backfill, count)} == {"SUCCESS"}
        assert not Loop(shared.place, name).stale()


def worlds_that_were_never_made_are_named(server: Server, backfill: str) -> None:
    first, *later = server.ended("landless", backfill, 3)
    assert first.status == "FAILURE"
    why = server.failure(first.id)
    assert "landless/worlds[world_0] was never made" in why
    assert "materialize" in why and "rl-assets train landless" in why
    assert {run.status for run in later} <= {"CANCELED", "FAILURE"}


def steps_behind_a_refused_update_are_cancelled(server: Server, backfill: str) -> None:
    _, *runs = server.ended("refused", backfill, 9)
    assert [run.status for run in runs][:3] == ["SUCCESS", "SUCCESS", "FAILURE"]
    assert "the update of step 0002 refused" in server.failure(runs[2].id)
    # The next may have started before the daemon could cancel it; then it failed for want of a policy.
    assert {run.status for run in runs[3:]} <= {"CANCELED", "FAILURE"}
    assert runs[-1].status == "CANCELED"
    assert "new backfill of trajectories, rewards and weights from step 0002" in server.failure(runs[-1].id)


def test_a_second_edit_while_the_first_is_acted_on_ends_with_every_step_on_the_second(shared: Server, bring: Bring) -> None:
    bring("twice", steps=6, seed=103, judging__latency_s=0.3)
    place = shared.place
    place.run("train", "twice")
    edited = time.time()
    place.edit_criterion("efficiency", "twice", question="Was the answer reached in few reads?")
    wait_for("the first re-judge runs", lambda: any(run.start for run in shared.runs("twice", edited)))
    place.edit_criterion("efficiency", "twice", question="Was the answer reached in as few reads as can be?")
    digest = place.lab("twice").experiment.rubric().digest
    all_on(shared, "twice", digest)
    time.sleep(15)
    shared.idle("twice")
    all_on(shared, "twice", digest)


def test_rerun_stale_turned_on_brings_stale_steps_up_to_date_in_order(shared: Server, bring: Bring) -> None:
    bring("rerun", steps=4, seed=104)
    shared.place.run("train", "rerun")
    shared.place.edit_criterion("efficiency", "rerun", weight=2.0)
    shared.place.run("rejudge", "rerun")
    assert set(Loop(shared.place, "rerun").stale()["trajectories"])
    since = time.time()
    shared.turn_on("rerun_rerun_stale")
    wait_for("all fresh", lambda: all_fresh(shared, "rerun"), every_s=2)
    shared.idle("rerun")
    assert not Loop(shared.place, "rerun").stale()
    runs = shared.runs("rerun", since)
    assert {run.status for run in runs} == {"SUCCESS"}
    assert [run.step for run in runs] == sorted({run.step for run in runs}) and runs[0].step != "0000"
    assert {run.tags["dagster/sensor_name"] for run in runs} == {"rerun_rerun_stale"}


def all_fresh(server: Server, experiment: str) -> bool:
    plan = plan_of(server.instance, server.place.lab(experiment))
    return all(state.state is State.FRESH for states in plan.states.values() for state in states.values())


def all_on(server: Server, experiment: str, digest: str) -> None:
    """Every step's rewards and weights come to be made under a rubric."""
    steps = server.place.lab(experiment).lineage.steps

    def look() -> bool:
        for asset in ("rewards", "weights"):
            made = latest_made(server.instance, experiment, asset)
            if [made[step_key(step)].inputs["rubric"][""] for step in range(steps)] != [digest] * steps:
                return False
        return True

    wait_for(f"all of {experiment} under the last rubric", look)

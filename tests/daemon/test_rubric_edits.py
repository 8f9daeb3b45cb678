"""From a fresh home: two experiments at once, then rubric edits that the running automation acts on."""

import shutil
import time
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from rl_assets.graph.event_log import latest_made
from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.names import asset_key
from rl_assets.store.tables import current_version
from tests.daemon.server import Run, Server, served, wait_for
from tests.graph.conftest import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("daemon_edits")]

STEPS = 6
KEYS = [step_key(step) for step in range(STEPS)]
QUIET_S = 25
"""Several looks of every sensor."""


def test_two_experiments_from_a_fresh_home_through_edits_a_restart_and_the_way_back(tmp_path: Path) -> None:
    with served(tmp_path / "project") as server:
        place = server.place
        for seed, name in enumerate(("alpha", "beta")):
            place.add(name, steps=STEPS, seed=seed, rollouts__tool_latency_s=0.15)
        server.start()
        both_backfills_at_once_run_in_step_order(server)
        edited = an_edit_scores_and_learns_again_in_step_order_then_all_is_quiet(server)
        an_edit_while_the_daemon_is_down_is_acted_on_at_the_next_start(server)
        assert len(server.runs("alpha", edited)) == STEPS, "the restart led to more runs"
        a_backfill_of_everything_makes_all_fresh(server)
        a_lost_dagster_home_costs_no_trial_and_no_judge(server)


def both_backfills_at_once_run_in_step_order(server: Server) -> None:
    """Worlds included: they are made first, in one run, and then each step in one run of all three assets."""
    everything = ("worlds", *STEP_ASSETS)
    backfills = {name: server.backfill(name, everything) for name in ("alpha", "beta")}
    for name, backfill in backfills.items():
        worlds, *steps = server.ended(name, backfill, 1 + STEPS)
        assert worlds.assets == ("worlds",)
        in_step_order(steps, STEP_ASSETS)
    check_says(server, "alpha", "rewards", True, f"all {STEPS} steps are up to date")


def an_edit_scores_and_learns_again_in_step_order_then_all_is_quiet(server: Server) -> float:
    edited = time.time()
    server.place.edit_criterion("efficiency", "alpha", weight=0.9)
    check_says(server, "alpha", "weights", False, f"{STEPS} of {STEPS} steps are stale", "efficiency: weight 0.3 to 0.9")
    in_step_order(rejudged(server, "alpha", edited), ("rewards", "weights"))
    only_on_policy_trajectories_are_stale(server, "alpha")
    check_says(server, "alpha", "weights", True, f"all {STEPS} steps are up to date")
    time.sleep(QUIET_S)
    assert len(server.runs("alpha", edited)) == STEPS
    assert not server.runs("beta", edited)
    return edited


def an_edit_while_the_daemon_is_down_is_acted_on_at_the_next_start(server: Server) -> None:
    server.stop()
    edited = time.time()
    server.place.edit_criterion("tidiness", "beta", weight=0.8)
    server.start()
    in_step_order(rejudged(server, "beta", edited), ("rewards", "weights"))
    only_on_policy_trajectories_are_stale(server, "beta")


def a_backfill_of_everything_makes_all_fresh(server: Server) -> None:
    for name, backfill in {name: server.backfill(name) for name in ("alpha", "beta")}.items():
        in_step_order(server.ended(name, backfill, STEPS), STEP_ASSETS)
        assert not Loop(server.place, name).stale()


def a_lost_dagster_home_costs_no_trial_and_no_judge(server: Server) -> None:
    server.stop()
    weights = server.place.lab("alpha").table("weights", STEPS - 1)
    before = current_version(server.place.lab("alpha").store, weights)
    shutil.rmtree(server.place.home / "dagster")
    server.start()
    runs = server.ended("alpha", server.backfill("alpha", ("worlds", *STEP_ASSETS)), 1 + STEPS)
    assert {run.status for run in runs} == {"SUCCESS"}
    assert [server.work("alpha", runs, what) for what in ("trials_run", "judge_calls", "updates_run")] == [0, 0, 0]
    assert server.work("alpha", runs, "trials_recovered") == STEPS * 6
    assert current_version(server.place.lab("alpha").store, weights) == before
    assert not Loop(server.place, "alpha").stale()


def in_step_order(runs: list[Run], assets: tuple[str, ...]) -> None:
    """One successful run per step, of all these assets, one after the other, by their times."""
    runs = sorted(runs, key=lambda run: run.start or 0.0)
    assert [(run.step, run.status) for run in runs] == [(key, "SUCCESS") for key in KEYS]
    assert {run.assets for run in runs} == {tuple(sorted(assets))}
    for before, after in pairwise(runs):
        assert before.end is not None and after.start is not None and before.end <= after.start


def rejudged(server: Server, experiment: str, since: float) -> list[Run]:
    """The runs that an edit led to, once they have ended."""
    wait_for("all steps are asked for", lambda: len(server.runs(experiment, since)) >= STEPS)
    server.idle(experiment)
    return server.runs(experiment, since)


def only_on_policy_trajectories_are_stale(server: Server, experiment: str) -> None:
    """By Dagster's resolver and our plan, at most the trajectories that were sampled from a policy that has changed."""
    stale = Loop(server.place, experiment).stale()
    made = latest_made(server.instance, experiment, "weights")
    assert set(stale) <= {"trajectories"}, stale
    assert "0000" not in stale.get("trajectories", {})
    for key, causes in stale.get("trajectories", {}).items():
        assert causes == [f"policy[v{key}]"]
    assert set(made) == set(KEYS)


def check_says(server: Server, experiment: str, asset: str, passed: bool, *words: str) -> None:
    """The latest evaluation of an `up_to_date` check comes to say this."""
    records = server.instance.event_log_storage

    def look() -> bool:
        key = dg.AssetCheckKey(asset_key(experiment, asset), "up_to_date")
        for record in records.get_asset_check_execution_history(key, limit=3):
            event = record.event.dagster_event if record.event else None
            if event is None or event.event_type_value != "ASSET_CHECK_EVALUATION":
                continue
            evaluation = event.asset_check_evaluation_data
            return evaluation.passed == passed and all(word in (evaluation.description or "") for word in words)
        return False

    wait_for(f"up_to_date of {asset} says {words}", look)

"""Each sensor, called as the daemon calls it."""

import subprocess
import sys
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import BACKFILL_ID_TAG

from rl_assets.graph.lineage import STEP_ASSETS, version_key
from rl_assets.graph.runs import EXPERIMENT_TAG, HOST_TAG, PROCESS_TAG, STARTED_TAG, active_runs, process_tags
from rl_assets.store.leases import host
from tests.graph.conftest import Loop, Trained, queued_run

QUEUED = dg.DagsterRunStatus.QUEUED
STARTED = dg.DagsterRunStatus.STARTED


class Ticker:
    """One sensor, each tick going on from the one before."""

    def __init__(self, loop: Loop, sensor: str) -> None:
        self.loop = loop
        self.definitions = loop.place.definitions(loop.name)
        self.sensor = self.definitions.resolve_sensor_def(f"{loop.name}_{sensor}")
        self.cursor: str | None = None

    def tick(self) -> Any:
        context = dg.build_sensor_context(instance=self.loop.instance, cursor=self.cursor, definitions=self.definitions)
        data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor or self.cursor
        for event in data.asset_events:
            self.loop.instance.report_runless_asset_event(event)
        return data


def pool_limits(loop: Loop) -> dict[str, tuple[int, bool]]:
    return {limit.name: (limit.limit, limit.from_default) for limit in loop.instance.event_log_storage.get_pool_limits()}


def evaluations(data: Any) -> dict[str, tuple[bool, str]]:
    return {event.asset_key.path[-1]: (event.passed, event.description) for event in data.asset_events}


def observed(loop: Loop, asset: str) -> int:
    """How many observations there are."""
    return len(loop.instance.fetch_observations(dg.AssetKey([loop.name, asset]), limit=1000).records)


@pytest.mark.slow
def test_watch_rubric_observes_an_edit_once_and_says_how_many_steps_are_up_to_date(trained: Trained) -> None:
    loop = trained("quickstart")
    watch = Ticker(loop, "watch_rubric")
    # The automation must have had a look before there is a change for it to see.
    loop.place.set(on_rubric_change="nothing")
    watch = Ticker(loop, "watch_rubric")
    first = watch.tick()
    assert set(evaluations(first).values()) == {(True, "all 3 steps are up to date")}
    watch.tick()
    before = observed(loop, "rubric")
    assert watch.tick().asset_events == []

    loop.place.edit_criterion("correctness", weight=0.25)
    said = evaluations(watch.tick())
    assert observed(loop, "rubric") == before + 1
    assert loop.versions("rubric")[""] == loop.place.lab().experiment.rubric().digest
    line = "3 of 3 steps are stale: the rubric changed (correctness: weight 1 to 0.25) (3)"
    assert said == {"trajectories": (True, "all 3 steps are up to date"), "rewards": (False, line), "weights": (False, line)}
    assert all(event.severity is dg.AssetCheckSeverity.WARN for event in watch.tick().asset_events)
    for _ in range(2):
        assert watch.tick().asset_events == []
    assert observed(loop, "rubric") == before + 1

    loop.rejudge()
    assert evaluations(watch.tick())["weights"] == (True, "all 3 steps are up to date")


def test_watch_rubric_says_in_one_line_what_is_wrong_with_a_broken_rubric(trained: Trained) -> None:
    loop = trained("quickstart")
    before = observed(loop, "rubric")
    watch = Ticker(loop, "watch_rubric")
    (loop.place.folder() / "rubric.yaml").write_text("criteria: [\n")
    data = watch.tick()
    assert data.asset_events == []
    assert data.skip_message.startswith(f"{loop.place.folder() / 'rubric.yaml'}: line 2, column 1: not valid YAML")
    assert len(data.skip_message.splitlines()) == 1
    rubric = {"criteria": [{"name": "x", "weight": float("nan"), "source": "verifier"}]}
    loop.place.set_rubric(rubric)
    assert "rubric.yaml: criteria.0.weight" in watch.tick().skip_message
    assert observed(loop, "rubric") == before


@pytest.mark.parametrize("sensor", ["watch_rubric", "fail_dead_runs"])
def test_the_pool_is_limited_to_one_explicitly_by_the_first_tick(loop: Loop, sensor: str) -> None:
    assert "quickstart_loop" not in pool_limits(loop)
    Ticker(loop, sensor).tick()
    assert pool_limits(loop)["quickstart_loop"] == (1, False)


def test_the_pool_is_limited_to_one_explicitly_by_the_command_line(loop: Loop) -> None:
    loop.train(steps=1)
    assert pool_limits(loop)["quickstart_loop"] == (1, False)
    loop.instance.event_log_storage.set_concurrency_slots("quickstart_loop", 4)
    loop.train(steps=1)
    assert pool_limits(loop)["quickstart_loop"] == (1, False)


@pytest.mark.slow
def test_report_unreported_reports_an_update_that_a_crash_left_untold_and_changed_verifiers(loop: Loop) -> None:
    loop.train(steps=1)
    report = Ticker(loop, "report_unreported")
    assert report.tick().skip_message == "all is reported"
    assert loop.run(1, "trajectories", "rewards").success

    # An update that is in the store, as a process leaves it that dies before it tells Dagster.
    lab = loop.place.lab()
    scored = lab.rewards(1, loop.versions("rewards")["0001"])
    update = lab.learn(1, scored, loop.versions("policy")[version_key(1)], lab.keep_rubric().digest)
    lab.close()
    loop.overlay("world_1", "tests/expected.txt", "0" * 64 + "\n")
    assert version_key(2) not in loop.versions("policy")
    assert report.tick().skip_message == "reported 2"
    assert loop.versions("policy")[version_key(2)] == update.weights_digest
    assert loop.versions("verifiers")["world_1"] == loop.place.lab().experiment.world("world_1").verifier_digest
    assert report.tick().skip_message == "all is reported"
    assert "0001" not in loop.versions("weights"), "the materialization is made by running it again, which is replayed"
    assert set(loop.stale()) == {"rewards", "weights"}


def test_report_unreported_leaves_reporting_to_a_run_that_is_active(trained: Trained) -> None:
    loop = trained("quickstart")
    queued_run(loop, 1, *STEP_ASSETS, status=STARTED)
    loop.overlay("world_1", "tests/expected.txt", "0" * 64 + "\n")
    assert "reports for itself" in Ticker(loop, "report_unreported").tick().skip_message
    assert loop.stale() == {}


def test_fail_dead_runs_fails_the_runs_of_processes_that_are_gone_and_no_others(loop: Loop) -> None:
    loop.place.add("quickstart_train_step_two")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = {EXPERIMENT_TAG: "quickstart", HOST_TAG: host(), PROCESS_TAG: str(gone.pid), STARTED_TAG: "1.0"}
    reused = {**process_tags("quickstart"), STARTED_TAG: "1.0"}
    elsewhere = {**dead, HOST_TAG: "another-machine/boot"}
    other = Loop(loop.place, "quickstart_train_step_two")
    expected = {
        queued_run(loop, 0, *STEP_ASSETS, status=STARTED, tags=dead).run_id: "FAILURE",
        queued_run(loop, 0, *STEP_ASSETS, status=STARTED, tags=reused).run_id: "FAILURE",
        queued_run(loop, 0, *STEP_ASSETS, status=STARTED, tags=process_tags("quickstart")).run_id: "STARTED",
        queued_run(loop, 0, *STEP_ASSETS, status=STARTED, tags=elsewhere).run_id: "STARTED",
        queued_run(loop, 0, *STEP_ASSETS, status=STARTED).run_id: "STARTED",
        queued_run(loop, 0, *STEP_ASSETS, status=QUEUED, tags=dead).run_id: "QUEUED",
        queued_run(
            other, 0, *STEP_ASSETS, status=STARTED, tags={**dead, EXPERIMENT_TAG: "quickstart_train_step_two"}
        ).run_id: "STARTED",
    }
    ticker = Ticker(loop, "fail_dead_runs")
    message = ticker.tick().skip_message
    assert {run.run_id: run.status.value for run in loop.instance.get_runs()} == expected
    assert message.startswith("marked as failed: ")
    assert {run_id for run_id, status in expected.items() if status == "FAILURE"} == set(
        message.removeprefix("marked as failed: ").split(", ")
    )
    assert ticker.tick().skip_message == "no run's process is gone"


def test_an_experiment_is_not_concerned_with_another_whose_name_starts_like_its_job(loop: Loop) -> None:
    loop.place.add("quickstart_train_step_two")
    queued_run(Loop(loop.place, "quickstart_train_step_two"), 0, *STEP_ASSETS, status=QUEUED)
    assert active_runs(loop.instance, "quickstart") == []
    assert len(active_runs(loop.instance, "quickstart_train_step_two")) == 1


def stop_after_failure(loop: Loop, result: dg.ExecuteInProcessResult) -> None:
    definitions = loop.place.definitions(loop.name)
    context = dg.build_run_status_sensor_context(
        sensor_name=f"{loop.name}_stop_after_failure",
        dagster_event=next(event for event in result.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE),
        dagster_instance=loop.instance,
        dagster_run=loop.instance.get_run_by_id(result.run_id),
    ).for_run_failure()
    definitions.resolve_sensor_def(f"{loop.name}_stop_after_failure")(context)


def test_stop_after_failure_cancels_the_later_steps_of_the_same_backfill_and_names_the_way_back(loop: Loop) -> None:
    loop.place.add("other")
    other = Loop(loop.place, "other")
    mine = {BACKFILL_ID_TAG: "mine"}
    later = [queued_run(loop, step, *STEP_ASSETS, status=QUEUED, tags=mine) for step in (1, 2)]
    left_alone = [
        queued_run(loop, 2, *STEP_ASSETS, status=STARTED, tags=mine),
        queued_run(loop, 2, *STEP_ASSETS, status=QUEUED, tags={BACKFILL_ID_TAG: "theirs"}),
        queued_run(loop, 2, *STEP_ASSETS, status=QUEUED),
        queued_run(other, 2, *STEP_ASSETS, status=QUEUED, tags=mine),
    ]
    before = [run.status for run in left_alone]
    failed = loop.run(0, run_tags=mine)  # no world was built
    assert not failed.success
    stop_after_failure(loop, failed)

    def status(run: dg.DagsterRun) -> dg.DagsterRunStatus:
        found = loop.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found.status

    assert [status(run) for run in later] == [dg.DagsterRunStatus.CANCELED] * 2
    assert [status(run) for run in left_alone] == before
    said = [record.event_log_entry for record in loop.instance.get_records_for_run(later[0].run_id).records]
    assert any(
        "Cancelled because step 0000 of quickstart failed. The way back: mend what failed, then start a new backfill of"
        " trajectories, rewards and weights from step 0000; what is recorded is replayed, not redone." in entry.message
        for entry in said
    )


@pytest.mark.slow
def test_rerun_stale_brings_all_up_to_date_one_step_at_a_time(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.edit_criterion("correctness", weight=0.25)
    loop.observe("rubric")
    sensor = Ticker(loop, "rerun_stale")
    asked = []
    while True:
        requests = sensor.tick().run_requests
        if not requests:
            break
        [request] = requests
        assets = [asset for asset in STEP_ASSETS if dg.AssetKey(["quickstart", asset]) in request.asset_selection]
        asked.append((request.partition_key, *assets))
        assert len(asked) <= 3
        run = queued_run(loop, int(request.partition_key), *assets, status=STARTED)
        assert sensor.tick().run_requests == [], "a run is active"
        loop.instance.report_run_canceled(run)
        assert loop.run(int(request.partition_key), *assets).success
    assert [key for key, *_ in asked] == ["0000", "0001", "0002"]
    assert asked[0] == ("0000", "rewards", "weights"), "its trajectories were sampled from v0000, which is as it was"
    assert asked[1] == ("0001", *STEP_ASSETS)
    assert loop.stale() == {}
    assert sensor.tick().skip_message == "no step is stale"


def test_rerun_stale_does_not_make_what_was_never_made(loop: Loop) -> None:
    loop.train(steps=1)
    assert Ticker(loop, "rerun_stale").tick().run_requests == []

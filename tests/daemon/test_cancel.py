"""Which queued runs a failed one takes with it."""

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from rl_assets.graph.lineage import step_key
from rl_assets.graph.runs import cancel_later_steps

ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(GrpcServerCodeLocationOrigin(host="nowhere", port=1, location_name="elsewhere"), "__repository__"),
    "__ASSET_JOB",
)
"""Where a queued run comes from; nothing looks there."""


@pytest.fixture
def instance() -> DagsterInstance:
    return DagsterInstance.ephemeral()


def add(
    instance: DagsterInstance, step: int, status: str = "QUEUED", backfill: str | None = None, name: str = "mine"
) -> DagsterRun:
    """A run of a step; created after those added before."""
    tags = {"dagster/partition": step_key(step)} | ({"dagster/backfill": backfill} if backfill else {})
    selection = frozenset([AssetKey([name, "rewards"]), AssetKey([name, "weights"])])
    return instance.add_run(
        DagsterRun(
            "__ASSET_JOB",
            status=DagsterRunStatus[status],
            tags=tags,
            asset_selection=selection,
            remote_job_origin=ORIGIN,
        )
    )


def cancelled(instance: DagsterInstance, failed: DagsterRun) -> list[str]:
    ids = cancel_later_steps(instance, failed, "mine")
    for run_id in ids:
        run = instance.get_run_by_id(run_id)
        assert run is not None and run.status is DagsterRunStatus.CANCELED
    return ids


def test_the_later_queued_runs_of_the_same_backfill_are_cancelled_and_no_other(instance: DagsterInstance) -> None:
    failed = add(instance, 1, "FAILURE", "first")
    add(instance, 2, "STARTED", "first")
    later = [add(instance, step, backfill="first") for step in (3, 4)]
    for other in ("second", None):
        add(instance, 3, backfill=other)
    add(instance, 4, backfill="first", name="yours")
    assert cancelled(instance, failed) == [run.run_id for run in later]


def test_without_a_backfill_what_is_queued_behind_another_go_at_the_step_stays(instance: DagsterInstance) -> None:
    failed = add(instance, 1, "FAILURE")
    later = add(instance, 2)
    add(instance, 1)
    add(instance, 2)
    add(instance, 3)
    add(instance, 2, backfill="another")
    assert cancelled(instance, failed) == [later.run_id]


def test_what_was_launched_after_the_failure_stays(instance: DagsterInstance) -> None:
    failed = add(instance, 1, "STARTED")
    instance.report_run_failed(failed)
    add(instance, 2)
    assert cancelled(instance, failed) == []

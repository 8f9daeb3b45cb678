"""Runs and the processes behind them: which are active, and which belong to a process that is gone."""

import os
from collections.abc import Mapping

import dagster as dg
import psutil
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES
from dagster._core.storage.tags import BACKFILL_ID_TAG, PARTITION_NAME_TAG

from rl_assets.store.leases import host, process_alive

EXPERIMENT_TAG = "rl_assets/experiment"
HOST_TAG = "rl_assets/host"
PROCESS_TAG = "rl_assets/process"
STARTED_TAG = "rl_assets/process_started_at"


def process_tags(experiment: str) -> Mapping[str, str]:
    """Tags that say which process executes a run."""
    return {
        EXPERIMENT_TAG: experiment,
        HOST_TAG: host(),
        PROCESS_TAG: str(os.getpid()),
        STARTED_TAG: str(psutil.Process().create_time()),
    }


def tag_run_with_process(instance: dg.DagsterInstance, run: dg.DagsterRun, experiment: str) -> None:
    """Say in a run's tags that this process executes it."""
    tags = process_tags(experiment)
    if any(run.tags.get(name) != value for name, value in tags.items()):
        instance.add_run_tags(run.run_id, tags)


def concerns(run: dg.DagsterRun, experiment: str) -> bool:
    """Whether a run makes assets of an experiment."""
    if run.tags.get(EXPERIMENT_TAG) == experiment or run.job_name == f"{experiment}_train_step":
        return True
    return any(key.path[0] == experiment for key in run.asset_selection or ())


def running_runs(instance: dg.DagsterInstance, experiment: str) -> list[dg.DagsterRun]:
    """The runs of an experiment that have started, oldest first."""
    return [run for run in active_runs(instance, experiment) if run.status is not dg.DagsterRunStatus.QUEUED]


def active_runs(instance: dg.DagsterInstance, experiment: str) -> list[dg.DagsterRun]:
    """The queued and running runs of an experiment, oldest first."""
    statuses = [dg.DagsterRunStatus.QUEUED, *IN_PROGRESS_RUN_STATUSES]
    runs = instance.get_runs(dg.RunsFilter(statuses=statuses))
    return [run for run in reversed(runs) if concerns(run, experiment)]


def fail_dead_runs(instance: dg.DagsterInstance, experiment: str) -> list[str]:
    """Mark as failed the running runs whose process is gone from this machine; their ids.

    Such a run would stay "started" for ever and block the queue of its pool.
    """
    failed = []
    for run in running_runs(instance, experiment):
        tags = run.tags
        if tags.get(HOST_TAG) != host() or PROCESS_TAG not in tags:
            continue
        if process_alive(int(tags[PROCESS_TAG]), float(tags[STARTED_TAG])):
            continue
        message = f"The process that executed this run ({tags[PROCESS_TAG]}) is gone. What it recorded is kept; run it again."
        instance.report_run_failed(run, message)
        failed.append(run.run_id)
    return failed


def set_pool_limit(instance: dg.DagsterInstance, pool: str) -> None:
    """Limit a pool to one run at a time, explicitly: a default limit is not enforced when the queue is first looked at."""
    limits = instance.event_log_storage.get_pool_limits()
    if not any(entry.name == pool and entry.limit == 1 and not entry.from_default for entry in limits):
        instance.event_log_storage.set_concurrency_slots(pool, 1)


def cancel_later_steps(instance: dg.DagsterInstance, failed: dg.DagsterRun, experiment: str) -> list[str]:
    """Cancel the queued runs of later steps that were requested together with a failed one; their ids.

    Those are the runs of the same backfill. Runs of no backfill (the automation's, or launched one by one) count as
    requested together when they were there before the failure, unless the failed step, or one before it, is asked for
    again first: what is queued behind that may well succeed.
    """
    step = failed.tags.get(PARTITION_NAME_TAG)
    if step is None:
        return []
    backfill = failed.tags.get(BACKFILL_ID_TAG)
    failure = instance.get_run_record_by_id(failed.run_id)
    failed_at = failure.end_time if failure else None
    together = [run for run in active_runs(instance, experiment) if run.tags.get(BACKFILL_ID_TAG) == backfill]
    cancelled = []
    for run in together:
        key = run.tags.get(PARTITION_NAME_TAG)
        if key is None or run.run_id == failed.run_id:
            continue
        if key <= step:
            break
        record = instance.get_run_record_by_id(run.run_id)  # as it is now: the queue moves on meanwhile
        if record is None or record.dagster_run.status is not dg.DagsterRunStatus.QUEUED:
            continue
        if failed_at is not None and record.create_timestamp.timestamp() > failed_at:
            continue
        message = (
            f"Cancelled because step {step} of {experiment} failed. The way back: mend what failed, then start a new backfill"
            f" of trajectories, rewards and weights from step {step}; what is recorded is replayed, not redone."
        )
        instance.report_run_canceled(run, message)
        cancelled.append(run.run_id)
    return cancelled

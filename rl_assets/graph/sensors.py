"""Sensors of one experiment: what watches, reports, stops and re-runs while Dagster's daemon is up."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import PARTITION_NAME_TAG
from filelock import Timeout

from rl_assets.core.digest import digest, short
from rl_assets.core.errors import RlAssetsError
from rl_assets.graph.event_log import latest_storage_id, unobserved
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.names import asset_key, pool_name
from rl_assets.graph.plan import State
from rl_assets.graph.runs import active_runs, cancel_later_steps, concerns, fail_dead_runs, set_pool_limit
from rl_assets.graph.staleness import plan_of, up_to_date_evaluations

TICK_S = 5
"""Seconds between looks at files and runs."""

STEP_TAG = PARTITION_NAME_TAG


def build_sensors(lab: Lab, job: UnresolvedAssetJobDefinition) -> list[dg.SensorDefinition]:
    """All sensors of an experiment but the automation one."""
    name = lab.experiment.name
    running = dg.DefaultSensorStatus.RUNNING

    @dg.sensor(
        name=f"{name}_watch_rubric",
        minimum_interval_seconds=TICK_S,
        default_status=running,
        description="Observes the rubric's file, and reports how many steps are up to date when something changed.",
    )
    def watch_rubric(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        set_pool_limit(context.instance, pool_name(name))
        try:
            found = {"rubric": {"": lab.keep_rubric().digest}}
        except RlAssetsError as error:
            return dg.SkipReason(str(error))
        for event in unobserved(context.instance, name, found):
            context.instance.report_runless_asset_event(event)
        seen = dict(zip(("event", "summary"), (context.cursor or "").split(" "), strict=False))
        settings = digest("settings", 1, lab.experiment.code_versions())
        latest = f"{context.instance.event_log_storage.get_maximum_record_id()}/{short(settings)}"
        if latest == seen.get("event"):
            return dg.SkipReason("nothing happened since the last look")
        evaluations = up_to_date_evaluations(lab, plan_of(context.instance, lab))
        summary = digest("up to date", 1, [evaluation.description or "" for evaluation in evaluations])
        news = evaluations if summary != seen.get("summary") else []
        return dg.SensorResult(asset_events=news, cursor=f"{latest} {summary}")

    @dg.sensor(
        name=f"{name}_report_unreported",
        minimum_interval_seconds=TICK_S * 3,
        default_status=running,
        description="Observes what files and store hold and Dagster was not told: verifiers, the initial policy, and updates"
        " that a crash left unreported.",
    )
    def report_unreported(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        try:
            # With the lock, nobody makes something newer between the look and the report.
            lock = lab.lock.acquire(blocking=False)
        except Timeout:
            return dg.SkipReason("a process is at work and reports for itself")
        with lock:
            if active_runs(context.instance, name):
                return dg.SkipReason("a run is active and reports for itself")
            try:
                found = lab.found()
            except RlAssetsError as error:
                return dg.SkipReason(str(error))
            events = unobserved(context.instance, name, {asset: found[asset] for asset in ("verifiers", "policy")})
            for event in events:
                context.instance.report_runless_asset_event(event)
        return dg.SkipReason(f"reported {len(events)}" if events else "all is reported")

    @dg.sensor(
        name=f"{name}_fail_dead_runs",
        minimum_interval_seconds=TICK_S * 2,
        default_status=running,
        description="Marks as failed the runs whose process is gone, so that they do not block the queue.",
    )
    def fail_dead(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        set_pool_limit(context.instance, pool_name(name))
        failed = fail_dead_runs(context.instance, name)
        return dg.SkipReason(f"marked as failed: {', '.join(failed)}" if failed else "no run's process is gone")

    @dg.run_failure_sensor(
        name=f"{name}_stop_after_failure",
        minimum_interval_seconds=TICK_S,
        default_status=running,
        description="When a step fails, cancels the later steps queued with it, which could only fail one by one.",
    )
    def stop_after_failure(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if not concerns(context.dagster_run, name) or STEP_TAG not in context.dagster_run.tags:
            return dg.SkipReason("not a step of this experiment")
        cancelled = cancel_later_steps(context.instance, context.dagster_run, name)
        return dg.SkipReason(f"cancelled {len(cancelled)} queued runs")

    @dg.sensor(
        name=f"{name}_rerun_stale",
        job=job,
        minimum_interval_seconds=TICK_S * 2,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Brings stale trajectories, rewards and weights up to date, step by step.",
    )
    def rerun_stale(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if active_runs(context.instance, name):
            return dg.SkipReason("a run of this experiment is active")
        plan = plan_of(context.instance, lab)
        for step in range(lab.lineage.steps):
            key = step_key(step)
            first = next((asset for asset in STEP_ASSETS if plan.state(asset, key) is State.STALE), None)
            if first is not None:
                selection = [asset_key(name, asset) for asset in STEP_ASSETS[STEP_ASSETS.index(first) :]]
                # The same staleness of the same version is asked for once: a step that fails is left to a person.
                causes = [[cause.asset, cause.partition, cause.now] for cause in plan.states[first][key].causes]
                made = latest_storage_id(context.instance, name, first, key)
                run_key = digest("rerun", 1, [key, first, made, causes])
                return dg.RunRequest(run_key=run_key, partition_key=key, asset_selection=selection)
        return dg.SkipReason("no step is stale")

    return [watch_rubric, report_unreported, fail_dead, stop_after_failure, rerun_stale]

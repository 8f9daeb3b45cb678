"""What a step checks before it works: that it works alone, on the inputs that Dagster records, and that it may."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import dagster as dg
from filelock import Timeout

from rl_assets.core.errors import MissingInput, Refused, RlAssetsError
from rl_assets.graph.event_log import latest_versions, observation, read_log
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import name_of, step_key, version_key
from rl_assets.graph.names import asset_key
from rl_assets.graph.plan import State, make_plan
from rl_assets.graph.runs import cancel_later_steps, tag_run_with_process
from rl_assets.trajectories.trial import Trial

MAX_REREADS = 3
"""How often a step starts again because its inputs moved while it started."""

Inputs = dict[str, dict[str, str]]
"""Data versions by upstream asset and partition, as they were when the step started."""


@contextmanager
def plain_failures() -> Iterator[None]:
    """Our own errors become a Dagster failure of one line, which is not retried."""
    try:
        yield
    except RlAssetsError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


@contextmanager
def working(context: dg.AssetExecutionContext, lab: Lab) -> Iterator[None]:
    """Hold the experiment's lock while working on a step, and say in the run's tags which process does."""
    tag_run_with_process(context.instance, context.run, lab.experiment.name)
    try:
        lab.lock.acquire(blocking=False)
    except Timeout:
        context.log.info(f"another process works on {lab.experiment.name}; waiting for {lab.lock.lock_file}")
        lab.lock.acquire()
    try:
        yield
    except dg.Failure:
        # While this run still holds the pool: none of the later steps can have started.
        cancel_later_steps(context.instance, context.run, lab.experiment.name)
        raise
    finally:
        lab.lock.release()


def read_inputs(context: dg.AssetExecutionContext, lab: Lab, asset: str, step: int) -> Inputs:
    """The versions that Dagster records as this step's inputs; what is read is exactly what is recorded.

    Dagster fetches input versions when a step starts. If one has moved since, while the step waited for the lock, the step
    starts again.
    """
    step_context = context.get_step_execution_context()
    inputs: Inputs = {}
    for upstream, partitions in lab.lineage.inputs(asset, step).items():
        info = step_context.maybe_fetch_and_get_input_asset_version_info(asset_key(lab.experiment.name, upstream))
        wanted = None if upstream == "rubric" else partitions
        now = latest_versions(context.instance, lab.experiment.name, upstream, wanted)
        then = (
            {}
            if info is None
            else latest_versions(context.instance, lab.experiment.name, upstream, wanted, until=info.storage_id)
        )
        if now != then:
            context.log.info(f"{upstream} moved while this step waited; starting it again")
            raise dg.RetryRequested(max_retries=MAX_REREADS)
        inputs[upstream] = then
    return inputs


def require(lab: Lab, inputs: Inputs, asset: str, step: int) -> None:
    """Raise MissingInput, with the way to get it, when something upstream was never made."""
    for upstream, partitions in lab.lineage.inputs(asset, step).items():
        for partition in partitions:
            # What is observed from files is observed by this very step when it never was.
            if partition in inputs[upstream] or upstream in ("rubric", "verifiers") or partition == version_key(0):
                continue
            name = lab.experiment.name
            missing = f"{name}/{name_of(upstream, partition)}"
            if upstream == "policy":
                maker = f"{name}/{name_of('weights', step_key(step - 1))}"
                raise MissingInput(
                    f"{missing} was never made: materialize {maker} first, or run `rl-assets train {name} --steps {step + 1}`"
                )
            raise MissingInput(f"{missing} was never made: materialize it first, or run `rl-assets train {name}`")


def observe_again_if_moved(
    context: dg.AssetExecutionContext, lab: Lab, inputs: Inputs, found: Mapping[str, Mapping[str, str]]
) -> None:
    """When files say otherwise than the latest observation, observe them and start the step again.

    Dagster fetched the versions before the step could look at the files. Without this, data of the new files would be
    recorded as made from the old ones.
    """
    moved = False
    for asset, versions in found.items():
        for partition, version in versions.items():
            if inputs[asset].get(partition) != version:
                context.log_event(observation(lab.experiment.name, asset, partition, version))
                context.log.info(f"{name_of(asset, partition)} is not what was last observed; observed, starting again")
                moved = True
    if moved:
        raise dg.RetryRequested(max_retries=MAX_REREADS)


def refuse_mixed_chain(instance: dg.DagsterInstance, lab: Lab, step: int) -> None:
    """Refuse an update that would mix two rubrics or two verifiers.

    So it does when the step's rewards were made under others than this update reads, or when the weights that it would
    build on are missing or stale. By induction no chain is ever mixed.
    """
    experiment = lab.experiment
    steps = [step - 1, step] if step else [step]
    made, current = read_log(instance, experiment.name, lab.lineage, steps)
    plan = make_plan(lab.lineage, made, current, experiment.code_versions(), {}, steps)
    key = step_key(step)
    moved = [str(cause) for cause in plan.states["rewards"][key].causes if cause.asset in ("rubric", "verifiers")]
    if moved:
        raise Refused(
            f"{experiment.name}/{name_of('rewards', key)} were made under another rubric or verifier ({'; '.join(moved)}):"
            f" make them again first, together with the weights, or run `rl-assets rejudge {experiment.name}`"
        )
    if step == 0:
        return
    before = plan.states["weights"][step_key(step - 1)]
    if before.state is not State.FRESH:
        why = "; ".join(str(cause) for cause in before.causes) or "it was never made"
        maker = f"{experiment.name}/{name_of('weights', step_key(step - 1))}"
        raise Refused(
            f"{maker} is {before.state} ({why}), and this update would build on it: bring it up to date first, by a backfill"
            f" from step {step_key(step - 1)} or `rl-assets rejudge {experiment.name}`"
        )


def refuse_other_worlds(lab: Lab, step: int, trials: Sequence[Trial]) -> None:
    """Refuse to score trials in worlds that the step no longer uses: nothing would mark their rewards stale."""
    gone = sorted({trial.world for trial in trials} - set(lab.lineage.worlds_of(step)))
    if gone:
        name = lab.experiment.name
        raise Refused(
            f"{name}/{name_of('trajectories', step_key(step))} has trials in {', '.join(gone)}, which the step no longer uses:"
            f" sample it again first, by materializing it or `rl-assets train {name}`"
        )

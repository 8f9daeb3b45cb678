"""The assets of one experiment. Each is thin: take the lab, read the inputs, call one method, say what came of it.

Values go to the store first, then observations to Dagster's log, then the materialization, so that a crash leaves work
visibly unfinished and never wrongly fresh.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
)
from filelock import Timeout

from rl_assets.core.digest import short
from rl_assets.core.errors import MissingInput, Refused, RlAssetsError
from rl_assets.graph import metadata
from rl_assets.graph.automation import automated_assets, rejudge_condition
from rl_assets.graph.event_log import asset_key, latest_versions, observation, read_log
from rl_assets.graph.experiment import Experiment
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import STEP_ASSETS, UNPARTITIONED, Lineage, name_of, step_key, version_key
from rl_assets.graph.plan import State, make_plan
from rl_assets.graph.runs import tag_run_with_process
from rl_assets.store.tables import current_version, read_table
from rl_assets.worlds.world import World

MAX_REREADS = 3
"""How often a step starts again because its inputs moved while it started."""

CURVE_POINTS = 50
"""Steps in a picture of a learning curve."""

Inputs = dict[str, dict[str, str]]
"""Data versions by upstream asset and partition, as they were when the step started."""


def lab_key(experiment: str) -> str:
    """The name of the resource that does an experiment's work."""
    return f"{experiment}_lab"


def pool_name(experiment: str) -> str:
    """The pool that keeps an experiment's step runs one at a time."""
    return f"{experiment}_loop"


def build_assets(experiment: Experiment, lineage: Lineage) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """All assets of an experiment: worlds, verifiers, policy, rubric, trajectories, rewards, weights."""
    name = experiment.name
    key = lab_key(name)
    code_versions = experiment.code_versions()
    worlds_def = dg.StaticPartitionsDefinition(lineage.partitions("worlds"))
    policy_def = dg.StaticPartitionsDefinition(lineage.partitions("policy"))
    steps_def = dg.StaticPartitionsDefinition(lineage.partitions("trajectories"))

    def deps(asset: str) -> list[dg.AssetDep]:
        return [
            dg.AssetDep(asset_key(name, upstream), partition_mapping=_mapping(lineage, asset, upstream))
            for upstream in lineage.inputs(asset, 0)
        ]

    def step_asset(asset: str, description: str, checks: list[str]) -> Callable[..., dg.AssetsDefinition]:
        return dg.asset(
            key=asset_key(name, asset),
            partitions_def=steps_def,
            deps=deps(asset),
            pool=pool_name(name),
            code_version=code_versions[asset],
            automation_condition=rejudge_condition(name) if asset in automated_assets(experiment) else None,
            group_name=name,
            kinds={"python", "parquet"},
            description=description,
            required_resource_keys={key},
            check_specs=[dg.AssetCheckSpec(check, asset=asset_key(name, asset)) for check in checks],
        )

    @dg.asset(
        key=asset_key(name, "worlds"),
        partitions_def=worlds_def,
        backfill_policy=dg.BackfillPolicy.single_run(),
        code_version=code_versions["worlds"],
        group_name=name,
        kinds={"python"},
        description="What trials are dropped into, sealed under the digest of all that an agent can see.",
        required_resource_keys={key},
        output_required=False,
    )
    def worlds(context: dg.AssetExecutionContext) -> Iterator[dg.AssetMaterialization]:
        # One run makes many partitions, each with a data version of its own, which a single output cannot say.
        lab = _lab(context, key)
        for world in context.partition_keys:
            with plain_failures():
                built = lab.seal_world(world)
            yield _materialized_world(name, built, code_versions["worlds"])

    @dg.observable_source_asset(
        key=asset_key(name, "verifiers"),
        partitions_def=worlds_def,
        group_name=name,
        description="How each world scores what a trial left behind. A changed test stales no trajectory.",
        required_resource_keys={key},
    )
    def verifiers(context: Any) -> dg.DataVersionsByPartition:
        with plain_failures():
            return dg.DataVersionsByPartition(_lab(context, key).found()["verifiers"])

    @dg.observable_source_asset(
        key=asset_key(name, "policy"),
        partitions_def=policy_def,
        group_name=name,
        description="The policy after so many updates; v0000 is the initial one. Reported by weights: the loop closes here.",
        required_resource_keys={key},
    )
    def policy(context: Any) -> dg.DataVersionsByPartition:
        with plain_failures():
            return dg.DataVersionsByPartition(_lab(context, key).found()["policy"])

    @dg.observable_source_asset(
        key=asset_key(name, "rubric"),
        group_name=name,
        description=f"What trials are scored on: {experiment.settings.rubric}. Its version is the digest of its meaning.",
        required_resource_keys={key},
    )
    def rubric(context: Any) -> dg.DataVersion:
        with plain_failures():
            return dg.DataVersion(_lab(context, key).keep_rubric().digest)

    @step_asset("trajectories", "A step's trials, turn by turn.", ["failed_share"])
    def trajectories(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        lab = _lab(context, key)
        step = int(context.partition_key)
        with working(context, lab), plain_failures():
            inputs = read_inputs(context, lab, "trajectories", step)
            require(lab, inputs, "trajectories", step)
            if step == 0:
                observe_again_if_moved(context, lab, inputs, {"policy": {version_key(0): lab.initial_policy()}})
            before = lab.tally.snapshot()
            version, trials = lab.sample(step, inputs["worlds"], inputs["policy"][version_key(step)])
        failed = sum(1 for trial in trials if not trial.outcome.is_result)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata=metadata.trials_metadata(trials)
            | metadata.provenance(inputs)
            | metadata.work(before, lab.tally.snapshot()),
            check_results=[_share_check("failed_share", failed, len(trials), "trials failed")],
        )

    @step_asset("rewards", "A step's trials, scored by verifier and judge.", ["unscored_share", "zero_variance_groups"])
    def rewards(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        lab = _lab(context, key)
        step = int(context.partition_key)
        with working(context, lab), plain_failures():
            inputs = read_inputs(context, lab, "rewards", step)
            require(lab, inputs, "rewards", step)
            rubric = lab.keep_rubric()
            worlds = lab.worlds(lineage.worlds_of(step))
            digests = {world: built.verifier_digest for world, built in worlds.items()}
            observe_again_if_moved(context, lab, inputs, {"rubric": {UNPARTITIONED: rubric.digest}, "verifiers": digests})
            before = lab.tally.snapshot()
            trials = lab.trials(step, inputs["trajectories"][step_key(step)])
            version, scored = lab.score(step, trials, rubric, worlds)
        unscored = sum(1 for reward in scored if reward.reward is None)
        quiet, groups = metadata.groups_without_signal(scored)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata=metadata.rewards_metadata(scored, rubric.digest)
            | metadata.provenance(inputs)
            | metadata.work(before, lab.tally.snapshot()),
            check_results=[
                _share_check("unscored_share", unscored, len(scored), "trials are unscored"),
                _share_check("zero_variance_groups", quiet, groups, "groups have no signal"),
            ],
        )

    @step_asset("weights", "The policy after a step's update, under the digest of its files.", ["on_policy"])
    def weights(context: dg.AssetExecutionContext) -> dg.MaterializeResult:  # type: ignore[type-arg]
        lab = _lab(context, key)
        step = int(context.partition_key)
        with working(context, lab), plain_failures():
            inputs = read_inputs(context, lab, "weights", step)
            require(lab, inputs, "weights", step)
            rubric = lab.keep_rubric()
            worlds = lab.worlds(lineage.worlds_of(step))
            digests = {world: built.verifier_digest for world, built in worlds.items()}
            found = {"rubric": {UNPARTITIONED: rubric.digest}, "verifiers": digests}
            if step == 0:
                found["policy"] = {version_key(0): lab.initial_policy()}
            observe_again_if_moved(context, lab, inputs, found)
            refuse_mixed_chain(context.instance, lab, step)
            base = inputs["policy"][version_key(step)]
            before = lab.tally.snapshot()
            scored = lab.rewards(step, inputs["rewards"][step_key(step)])
            update = lab.learn(step, scored, base, rubric.digest)
        context.log_event(observation(name, "policy", version_key(step + 1), update.weights_digest))
        return dg.MaterializeResult(
            data_version=dg.DataVersion(update.weights_digest),
            metadata={
                "weights": dg.MetadataValue.text(short(update.weights_digest)),
                "base": dg.MetadataValue.text(short(base)),
                "changed": dg.MetadataValue.bool(update.weights_digest != base),
                "examples": dg.MetadataValue.int(update.n_examples),
                "off_policy": dg.MetadataValue.bool(update.off_policy),
                "behaviour": dg.MetadataValue.json([short(digest) for digest in update.behaviour]),
                **_curve(lab, step),
                **metadata.provenance(inputs),
                **metadata.work(before, lab.tally.snapshot()),
            },
            check_results=[
                dg.AssetCheckResult(
                    check_name="on_policy",
                    passed=not update.off_policy,
                    severity=dg.AssetCheckSeverity.WARN,
                    description="trained on trials sampled from other weights than those updated"
                    if update.off_policy
                    else "trained on trials sampled from the weights updated",
                )
            ],
        )

    return [worlds, verifiers, policy, rubric, trajectories, rewards, weights]


def _lab(context: Any, key: str) -> Lab:
    return cast("Lab", getattr(context.resources, key))


def _mapping(lineage: Lineage, asset: str, upstream: str) -> dg.PartitionMapping | None:
    """From upstream partitions to the steps of an asset that are made from them."""
    if upstream == "rubric":
        return None
    if upstream in STEP_ASSETS:
        return dg.IdentityPartitionMapping()
    downstream: dict[str, list[str]] = {}
    for step in range(lineage.steps):
        for partition in lineage.inputs(asset, step)[upstream]:
            downstream.setdefault(partition, []).append(step_key(step))
    return dg.StaticPartitionMapping(downstream)


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


def _materialized_world(experiment: str, world: World, code_version: str) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        asset_key(experiment, "worlds"),
        partition=world.name,
        metadata={"digest": short(world.digest), "files": len(world.agent_files)},
        tags={
            DATA_VERSION_TAG: world.digest,
            DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
            CODE_VERSION_TAG: code_version,
        },
    )


def _share_check(name: str, count: int, total: int, what: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name,
        passed=count == 0,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{count} of {total} {what}",
        metadata={"count": count, "total": total, "share": count / total if total else 0.0},
    )


def _curve(lab: Lab, step: int) -> dict[str, dg.MetadataValue]:
    """The learning curve up to a step, when there are two points or more."""
    stride = -(-(step + 1) // CURVE_POINTS)
    steps = sorted({*range(0, step + 1, stride), step})
    rewards: list[float | None] = []
    turns: list[float | None] = []
    for at in steps:
        rewards.append(_mean_of(lab, "rewards", at, "reward"))
        turns.append(_mean_of(lab, "trajectories", at, "n_turns"))
    if len(steps) < 2:
        return {}
    return {"learning_curve": metadata.learning_curve(steps, rewards, turns)}


def _mean_of(lab: Lab, asset: str, step: int, column: str) -> float | None:
    version = current_version(lab.store, lab.table(asset, step))
    if version is None:
        return None
    values = [value for value in read_table(lab.store, version.ref, version.file)[column].to_pylist() if value is not None]
    return sum(values) / len(values) if values else None

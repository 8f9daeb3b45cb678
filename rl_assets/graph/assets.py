"""The assets of one experiment. Each is thin: take the lab, read the inputs, call one method, say what came of it.

Values go to the store first, then observations to Dagster's log, then the materialization, so that a crash leaves work
visibly unfinished and never wrongly fresh.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
)

from rl_assets.core.digest import short
from rl_assets.graph import metadata
from rl_assets.graph.automation import automated_assets, rejudge_condition
from rl_assets.graph.event_log import observation
from rl_assets.graph.experiment import Experiment
from rl_assets.graph.guards import (
    observe_again_if_moved,
    plain_failures,
    read_inputs,
    refuse_mixed_chain,
    refuse_other_worlds,
    require,
    working,
)
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import STEP_ASSETS, UNPARTITIONED, Lineage, step_key, version_key
from rl_assets.graph.names import asset_key, lab_key, pool_name
from rl_assets.graph.runs import tag_run_with_process
from rl_assets.graph.summary import summarize_step
from rl_assets.worlds.world import World

CURVE_POINTS = 50
"""Steps in a picture of a learning curve."""


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
            tags={"rl_assets/parent": experiment.settings.parent} if experiment.settings.parent else None,
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
        tag_run_with_process(context.instance, context.run, name)
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
            refuse_other_worlds(lab, step, trials)
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
                _share_check("zero_variance_groups", quiet, groups, "groups have no signal", at_most=groups - 1),
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


def _share_check(name: str, count: int, total: int, what: str, at_most: int = 0) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name,
        passed=count <= at_most,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{count} of {total} {what}",
        metadata={"count": count, "total": total, "share": count / total if total else 0.0},
    )


def _curve(lab: Lab, step: int) -> dict[str, dg.MetadataValue]:
    """The learning curve up to a step, when there are two points or more."""
    stride = -(-(step + 1) // CURVE_POINTS)
    steps = sorted({*range(0, step + 1, stride), step})
    if len(steps) < 2:
        return {}
    kept = [summarize_step(lab, at) for at in steps]
    return {
        "learning_curve": metadata.learning_curve(
            steps, [summary.mean_reward for summary in kept], [summary.mean_turns for summary in kept]
        )
    }

"""What happens by itself when the rubric changes.

The condition asks for a step of an asset when it was made under another rubric than the present one, once for each change
of the rubric, unless the step is being made. The `since` is what makes it once: a step whose run failed is left to a person.
A change that comes while steps are being made again counts, for those as well, once they are through. Dagster sees that a
step was asked for one tick late, so a change that comes between the two ticks counts as newer than the asking. The first
look counts as a change, since the rubric may have changed before anything looked.
"""

import warnings

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from rl_assets.graph.event_log import latest_made, latest_versions
from rl_assets.graph.experiment import Experiment
from rl_assets.graph.lineage import UNPARTITIONED
from rl_assets.graph.names import asset_key
from rl_assets.graph.runs import active_runs


class MadeUnderAnotherRubric(dg.AutomationCondition[dg.AssetKey]):
    """True for steps of rewards or weights that were made, but not under the rubric that was observed last."""

    @property
    def name(self) -> str:
        """How Dagster shows it."""
        return "made_under_another_rubric"

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        """Compare the digests that each step's metadata and the observation hold."""
        candidates = context.candidate_subset
        if candidates.is_empty or context.partitions_def is None:
            return dg.AutomationResult(context, true_subset=candidates)
        view = context.asset_graph_view
        if _busy(view.instance, context.key.path[0]):
            # Steps asked for one by one, as they come free, would queue in another order than their own.
            return dg.AutomationResult(context, true_subset=context.get_empty_subset(), cursor=context.cursor)
        latest = str(view.instance.event_log_storage.get_maximum_record_id())
        seen, *others = (context.cursor or "").split(" ")
        if seen != latest:
            others = _made_under_another_rubric(view.instance, *context.key.path)
        keys = set(context.partitions_def.get_partition_keys()).intersection(others)
        found = view.get_subset_from_partition_keys(context.key, context.partitions_def, keys)
        return dg.AutomationResult(
            context, true_subset=candidates.compute_intersection(found), cursor=" ".join([latest, *others])
        )


def _busy(instance: dg.DagsterInstance, experiment: str) -> bool:
    """Whether a run or a backfill of the experiment is under way."""
    if active_runs(instance, experiment):
        return True
    requested = instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    return any(key.path[0] == experiment for backfill in requested for key in backfill.asset_selection or ())


def _made_under_another_rubric(instance: dg.DagsterInstance, experiment: str, asset: str) -> list[str]:
    rubric = latest_versions(instance, experiment, "rubric").get(UNPARTITIONED)
    made = latest_made(instance, experiment, asset)
    return sorted(key for key, version in made.items() if version.inputs.get("rubric", {}).get(UNPARTITIONED) != rubric)


def rejudge_condition(experiment: str) -> dg.AutomationCondition[dg.AssetKey]:
    """True for steps that the rubric's change concerns, once for each change."""
    rubric = dg.AssetSelection.assets(asset_key(experiment, "rubric"))
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()).allow(rubric)
    asked_for = dg.AutomationCondition.newly_requested() & ~changed
    once = (changed | dg.AutomationCondition.initial_evaluation()).since(asked_for)
    return (once & ~dg.AutomationCondition.in_progress() & MadeUnderAnotherRubric()).with_label("the rubric changed")


def automated_assets(experiment: Experiment) -> tuple[str, ...]:
    """The assets that are made again when the rubric changes, as the experiment's setting says."""
    match experiment.settings.on_rubric_change:
        case "nothing":
            return ()
        case "rewards":
            return ("rewards",)
        case "relearn":
            return ("rewards", "weights")


def build_automation(experiment: Experiment) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the conditions of this experiment's assets."""
    name = experiment.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # says of use_user_code_server what its documentation says
        return dg.AutomationConditionSensorDefinition(
            name=f"{name}_rejudge_on_rubric_change",
            target=dg.AssetSelection.assets(asset_key(name, "rewards"), asset_key(name, "weights")),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=5,
            use_user_code_server=True,  # the condition is our own
            description=f"When the rubric changes: {experiment.settings.on_rubric_change}.",
        )

"""What happens by itself when the rubric changes.

The condition asks for a step of an asset when the rubric's data version changed since the step was last asked for, unless
the step was never made or is being made. Without the `since`, a change that comes while steps are being made again is lost
for those; with a condition on updated rewards instead, weights would be asked for twice.
"""

import dagster as dg

from rl_assets.graph.event_log import asset_key
from rl_assets.graph.experiment import Experiment


def rejudge_condition(experiment: str) -> dg.AutomationCondition[dg.AssetKey]:
    """True for steps that the rubric's change concerns, once for each change."""
    rubric = dg.AssetSelection.assets(asset_key(experiment, "rubric"))
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()).allow(rubric)
    reset = dg.AutomationCondition.newly_requested() | dg.AutomationCondition.initial_evaluation()
    return (changed.since(reset) & ~dg.AutomationCondition.missing() & ~dg.AutomationCondition.in_progress()).with_label(
        "the rubric changed"
    )


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
    return dg.AutomationConditionSensorDefinition(
        name=f"{name}_rejudge_on_rubric_change",
        target=dg.AssetSelection.assets(asset_key(name, "rewards"), asset_key(name, "weights")),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=5,
        description=f"When the rubric changes: {experiment.settings.on_rubric_change}.",
    )

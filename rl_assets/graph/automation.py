"""What happens by itself when the rubric changes.

The condition asks for a step of an asset when the rubric's data version changed since the step was last asked for, unless
the step was never made or is being made. Without the `since`, a change that comes while steps are being made again is lost
for those; with a condition on updated rewards instead, weights would be asked for twice.

Two finer points. Dagster sees that a step was asked for one tick late, so a change that comes between the two ticks counts
as newer than the asking. And a step that nobody has made or asked for yet will be made under the rubric of that day, so
changes before that are not held against it.
"""

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorStatus, SensorInstigatorData

from rl_assets.graph.event_log import asset_key
from rl_assets.graph.experiment import Experiment


def rejudge_condition(experiment: str) -> dg.AutomationCondition[dg.AssetKey]:
    """True for steps that the rubric's change concerns, once for each change."""
    rubric = dg.AssetSelection.assets(asset_key(experiment, "rubric"))
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()).allow(rubric)
    missing, active = dg.AutomationCondition.missing(), dg.AutomationCondition.in_progress()
    asked_for = dg.AutomationCondition.newly_requested() & ~changed
    reset = asked_for | dg.AutomationCondition.initial_evaluation() | (missing & ~active)
    return (changed.since(reset) & ~missing & ~active).with_label("the rubric changed")


def automated_assets(experiment: Experiment) -> tuple[str, ...]:
    """The assets that are made again when the rubric changes, as the experiment's setting says."""
    match experiment.settings.on_rubric_change:
        case "nothing":
            return ()
        case "rewards":
            return ("rewards",)
        case "relearn":
            return ("rewards", "weights")


def automation_name(experiment: str) -> str:
    """The name of the sensor that evaluates an experiment's conditions."""
    return f"{experiment}_rejudge_on_rubric_change"


def has_looked(instance: dg.DagsterInstance, experiment: Experiment) -> bool:
    """Whether the automation can see a change that is reported now.

    Its very first look only learns how things are, so what changed before that would go unnoticed.
    """
    if not automated_assets(experiment):
        return True
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        if state.instigator_name == automation_name(experiment.name):
            data = state.instigator_data
            return state.status is InstigatorStatus.STOPPED or (isinstance(data, SensorInstigatorData) and bool(data.cursor))
    return False


def build_automation(experiment: Experiment) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the conditions of this experiment's assets."""
    name = experiment.name
    return dg.AutomationConditionSensorDefinition(
        name=automation_name(name),
        target=dg.AssetSelection.assets(asset_key(name, "rewards"), asset_key(name, "weights")),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=5,
        description=f"When the rubric changes: {experiment.settings.on_rubric_change}.",
    )

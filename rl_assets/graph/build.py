"""Assembles the definitions of one experiment."""

import dagster as dg

from rl_assets.graph.assets import build_assets
from rl_assets.graph.automation import build_automation
from rl_assets.graph.checks import build_checks
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import STEP_ASSETS
from rl_assets.graph.names import asset_key, lab_key, train_job
from rl_assets.graph.sensors import build_sensors


def build_experiment(lab: Lab) -> dg.Definitions:
    """Assets, checks, job and sensors of one experiment, each named after it."""
    experiment = lab.experiment
    name = experiment.name
    job = dg.define_asset_job(
        train_job(name),
        # Without the up_to_date checks, which are about all steps and are reported after the run.
        selection=dg.AssetSelection.assets(*(asset_key(name, asset) for asset in STEP_ASSETS)).without_checks()
        | _checks_made_with_assets(name),
        description="One step: sample trials, score them, update the policy.",
    )
    return dg.Definitions(
        assets=build_assets(experiment, lab.lineage),
        asset_checks=build_checks(name),
        jobs=[job],
        sensors=[build_automation(experiment), *build_sensors(lab, job)],
        resources={lab_key(name): lab},
    )


def _checks_made_with_assets(experiment: str) -> dg.AssetSelection:
    return dg.AssetSelection.checks(
        dg.AssetCheckKey(asset_key(experiment, "trajectories"), "failed_share"),
        dg.AssetCheckKey(asset_key(experiment, "rewards"), "unscored_share"),
        dg.AssetCheckKey(asset_key(experiment, "rewards"), "zero_variance_groups"),
        dg.AssetCheckKey(asset_key(experiment, "weights"), "on_policy"),
    )

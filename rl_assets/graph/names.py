"""What an experiment's things are called in Dagster: each carries the experiment's name, as duplicates are an error there."""

import dagster as dg


def asset_key(experiment: str, asset: str) -> dg.AssetKey:
    """The key of an experiment's asset."""
    return dg.AssetKey([experiment, asset])


def lab_key(experiment: str) -> str:
    """The name of the resource that does an experiment's work."""
    return f"{experiment}_lab"


def pool_name(experiment: str) -> str:
    """The pool that keeps an experiment's step runs one at a time."""
    return f"{experiment}_loop"


def train_job(experiment: str) -> str:
    """The name of the job that makes one step: trajectories, rewards, weights."""
    return f"{experiment}_train_step"

"""The plan of an experiment against Dagster's log, and what it says to people."""

from collections.abc import Sequence

import dagster as dg

from rl_assets.core.errors import ConfigError
from rl_assets.graph.event_log import read_log
from rl_assets.graph.lab import Lab, describe_rubric_change
from rl_assets.graph.lineage import STEP_ASSETS
from rl_assets.graph.names import asset_key
from rl_assets.graph.plan import Cause, PartitionState, Plan, State, make_plan


def plan_of(instance: dg.DagsterInstance, lab: Lab, steps: Sequence[int] | None = None) -> Plan:
    """What is fresh, stale or missing now, by Dagster's log and the worlds' sources; of all steps by default."""
    experiment = lab.experiment
    made, current = read_log(instance, experiment.name, lab.lineage, steps)
    try:
        digests = {name: world.digest for name, world in lab.worlds().items()}
    except ConfigError:
        digests = {}  # whoever builds the worlds says what is wrong with their sources
    return make_plan(lab.lineage, made, current, experiment.code_versions(), digests, steps)


def reasons(lab: Lab, state: PartitionState) -> list[str]:
    """Why a partition is stale, naming what changed in a rubric."""
    return [_reason(lab, cause) for cause in state.causes]


def _reason(lab: Lab, cause: Cause) -> str:
    if cause.asset == "rubric" and cause.was and cause.now:
        return describe_rubric_change(lab.rubric_kept(cause.was), lab.rubric_kept(cause.now))
    return str(cause)


def up_to_date_result(lab: Lab, plan: Plan, asset: str) -> tuple[bool, str, dict[str, dg.MetadataValue]]:
    """Whether all made steps of an asset are fresh, a line that says so, and the reasons by number of steps."""
    states = plan.states[asset]
    stale = {key: state for key, state in states.items() if state.state is State.STALE}
    by_reason: dict[str, list[str]] = {}
    for key, state in stale.items():
        for reason in reasons(lab, state):
            by_reason.setdefault(_kind(reason), []).append(key)
    made = len(states) - plan.count(asset, State.MISSING)
    if stale:
        why = "; ".join(f"{reason} ({len(set(keys))})" for reason, keys in sorted(by_reason.items()))
        line = f"{len(stale)} of {made} steps are stale: {why}"
    else:
        line = f"all {made} steps are up to date"
    table = ["| why | steps |", "| --- | --- |"]
    table += [f"| {reason} | {_ranges(sorted(set(keys)))} |" for reason, keys in sorted(by_reason.items())]
    metadata: dict[str, dg.MetadataValue] = {
        "stale": dg.MetadataValue.int(len(stale)),
        "fresh": dg.MetadataValue.int(made - len(stale)),
        "missing": dg.MetadataValue.int(plan.count(asset, State.MISSING)),
    }
    if stale:
        metadata["why"] = dg.MetadataValue.md("\n".join(table))
    return not stale, line, metadata


def _kind(reason: str) -> str:
    """A reason without the partition it names, so that steps with the same reason are counted together."""
    head, bracket, tail = reason.partition("[")
    return head + tail.partition("]")[2] if bracket else reason


def _ranges(keys: Sequence[str]) -> str:
    """Partition keys as ranges: 0000-0004, 0007."""
    runs: list[list[str]] = []
    for key in keys:
        if runs and int(key) == int(runs[-1][-1]) + 1:
            runs[-1].append(key)
        else:
            runs.append([key])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def up_to_date_evaluations(lab: Lab, plan: Plan) -> list[dg.AssetCheckEvaluation]:
    """The `up_to_date` checks of all step assets, to be reported outside a run."""
    evaluations = []
    for asset in STEP_ASSETS:
        passed, line, metadata = up_to_date_result(lab, plan, asset)
        evaluations.append(
            dg.AssetCheckEvaluation(
                asset_key=asset_key(lab.experiment.name, asset),
                check_name="up_to_date",
                passed=passed,
                severity=dg.AssetCheckSeverity.WARN,
                description=line,
                metadata=metadata,
            )
        )
    return evaluations

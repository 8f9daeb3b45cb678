"""The `up_to_date` checks, one on each step asset.

The web UI marks a stale partition on that partition's own page only; these say at a glance how many steps are stale, and
why. They warn and never block.
"""

from typing import Any

import dagster as dg

from rl_assets.graph.lineage import STEP_ASSETS
from rl_assets.graph.names import asset_key, lab_key
from rl_assets.graph.staleness import plan_of, up_to_date_result


def build_checks(experiment: str) -> list[dg.AssetChecksDefinition]:
    """One check for each step asset, executable by hand."""
    return [_up_to_date(experiment, asset) for asset in STEP_ASSETS]


def _up_to_date(experiment: str, asset: str) -> dg.AssetChecksDefinition:
    key = lab_key(experiment)

    @dg.asset_check(
        asset=asset_key(experiment, asset),
        name="up_to_date",
        description="Whether every step that was made is up to date with what it was made from.",
        required_resource_keys={key},
    )
    def up_to_date(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        lab: Any = getattr(context.resources, key)
        passed, line, metadata = up_to_date_result(lab, plan_of(context.instance, lab), asset)
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, description=line, metadata=metadata)

    return up_to_date

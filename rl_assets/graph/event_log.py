"""Reads versions and provenance from Dagster's event log, in bulk, and writes observations to it.

Dagster's log is the truth for what is current and what it was made from; the store is the truth for values.
"""

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.data_version import CODE_VERSION_TAG, DATA_VERSION_TAG
from dagster._core.event_api import AssetRecordsFilter
from dagster._core.events import DagsterEventType

from rl_assets.graph.lineage import STEP_ASSETS, UNPARTITIONED, Lineage
from rl_assets.graph.names import asset_key
from rl_assets.graph.plan import Made

INPUTS_METADATA = "inputs"
"""The metadata entry of a materialization that says what it was made from: data versions by asset and partition."""

OBSERVED = ("rubric", "verifiers", "policy")
"""Assets whose versions come as observations."""

BATCH = 500
"""Records fetched at once."""


def latest_versions(
    instance: dg.DagsterInstance,
    experiment: str,
    asset: str,
    partitions: Sequence[str] | None = None,
    until: int | None = None,
) -> dict[str, str]:
    """The latest data version of each partition that has one.

    Args:
        instance: Dagster's.
        experiment: its name.
        asset: such as "policy".
        partitions: which; all by default. Of an asset without partitions the key is "".
        until: the storage id of the last event to look at; all by default.
    """
    key = asset_key(experiment, asset)
    if asset == "rubric":
        record = instance.get_latest_data_version_record(
            key, is_source=True, before_cursor=None if until is None else until + 1
        )
        version = _data_version(record.event_log_entry) if record else None
        return {} if version is None else {UNPARTITIONED: version}
    event_type = DagsterEventType.ASSET_OBSERVATION if asset in OBSERVED else DagsterEventType.ASSET_MATERIALIZATION
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        key,
        event_type,
        [DATA_VERSION_TAG],
        asset_partitions=None if partitions is None else list(partitions),
        before_cursor=None if until is None else until + 1,
    )
    return {partition: found[DATA_VERSION_TAG] for partition, found in tags.items()}


def latest_storage_id(instance: dg.DagsterInstance, experiment: str, asset: str, partition: str) -> int | None:
    """The storage id of a partition's latest materialization."""
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(
        asset_key(experiment, asset), DagsterEventType.ASSET_MATERIALIZATION, {partition}
    )
    return ids.get(partition)


def latest_made(
    instance: dg.DagsterInstance, experiment: str, asset: str, partitions: Iterable[str] | None = None
) -> dict[str, Made]:
    """How the latest version of each materialized partition was made."""
    key = asset_key(experiment, asset)
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, DagsterEventType.ASSET_MATERIALIZATION, None if partitions is None else set(partitions)
    )
    made = {}
    wanted = sorted(ids.values())
    for start in range(0, len(wanted), BATCH):
        batch = AssetRecordsFilter(asset_key=key, storage_ids=wanted[start : start + BATCH])
        for record in instance.fetch_materializations(batch, limit=BATCH).records:
            materialization = record.asset_materialization
            if materialization is None or materialization.partition is None:
                continue
            tags = materialization.tags or {}
            inputs = materialization.metadata.get(INPUTS_METADATA)
            made[materialization.partition] = Made(
                data_version=tags.get(DATA_VERSION_TAG, ""),
                code_version=tags.get(CODE_VERSION_TAG, ""),
                inputs=inputs.value if isinstance(inputs, dg.JsonMetadataValue) else {},  # type: ignore[arg-type]
            )
    return made


def read_log(
    instance: dg.DagsterInstance, experiment: str, lineage: Lineage, steps: Sequence[int] | None = None
) -> tuple[dict[str, dict[str, Made]], dict[str, dict[str, str]]]:
    """How everything was made, and what is current, for the given steps (all by default)."""
    keys = None if steps is None else [lineage.partitions("trajectories")[step] for step in steps]
    made = {asset: latest_made(instance, experiment, asset, keys) for asset in STEP_ASSETS}
    made["worlds"] = latest_made(instance, experiment, "worlds")
    current = {asset: latest_versions(instance, experiment, asset) for asset in OBSERVED}
    for asset, by_partition in made.items():
        current[asset] = {partition: version.data_version for partition, version in by_partition.items()}
    return made, current


def observation(experiment: str, asset: str, partition: str, data_version: str) -> dg.AssetObservation:
    """An observation of a data version."""
    return dg.AssetObservation(
        asset_key(experiment, asset),
        partition=partition if partition != UNPARTITIONED else None,
        tags={DATA_VERSION_TAG: data_version},
    )


def unobserved(
    instance: dg.DagsterInstance, experiment: str, found: Mapping[str, Mapping[str, str]]
) -> list[dg.AssetObservation]:
    """Observations of what was found and differs from what was last observed."""
    events = []
    for asset, versions in found.items():
        known = latest_versions(instance, experiment, asset, [key for key in versions if key != UNPARTITIONED])
        for partition, data_version in versions.items():
            if known.get(partition) != data_version:
                events.append(observation(experiment, asset, partition, data_version))
    return events


def _data_version(entry: dg.EventLogEntry) -> str | None:
    event = entry.asset_observation
    return (event.tags or {}).get(DATA_VERSION_TAG) if event else None

"""What is fresh, stale or missing, and why: one bulk function for status, checks and sensors.

Dagster's own resolver answers the same question partition by partition, which takes a minute at a thousand steps, and it
stops looking through an edge with a hundred or more upstream partitions. The tests hold this against it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rl_assets.graph.lineage import STEP_ASSETS, UNPARTITIONED, Lineage, name_of

Versions = Mapping[str, Mapping[str, str]]
"""Data versions by asset and partition."""


class State(StrEnum):
    """Of one partition."""

    FRESH = "fresh"
    STALE = "stale"
    MISSING = "missing"


@dataclass(frozen=True)
class Made:
    """How the latest version of a partition was made."""

    data_version: str
    code_version: str
    inputs: Versions


@dataclass(frozen=True)
class Cause:
    """One reason for a partition to be stale."""

    asset: str
    """The upstream asset, or the asset itself when its settings changed."""
    partition: str
    was: str | None
    """The data version it was made from."""
    now: str | None

    def __str__(self) -> str:
        if self.was is None:
            return f"{name_of(self.asset, self.partition)} is a new dependency"
        return f"{name_of(self.asset, self.partition)} has a new data version"


@dataclass(frozen=True)
class SettingsChanged(Cause):
    """The settings that the asset itself depends on changed."""

    def __str__(self) -> str:
        return f"the settings of {self.asset} changed"


@dataclass(frozen=True)
class SourceChanged(Cause):
    """The files that a world is built from changed."""

    def __str__(self) -> str:
        return "the files it is built from changed"


@dataclass(frozen=True)
class PartitionState:
    """A partition's state and why."""

    state: State
    causes: tuple[Cause, ...] = ()


@dataclass
class Plan:
    """The state of every partition of worlds and of the step assets."""

    states: dict[str, dict[str, PartitionState]] = field(default_factory=dict)

    def state(self, asset: str, partition: str) -> State:
        """Of one partition."""
        return self.states[asset][partition].state

    def count(self, asset: str, state: State) -> int:
        """Partitions of an asset in a state."""
        return sum(1 for entry in self.states[asset].values() if entry.state is state)


def make_plan(
    lineage: Lineage,
    made: Mapping[str, Mapping[str, Made]],
    current: Versions,
    code_versions: Mapping[str, str],
    world_digests: Mapping[str, str],
    steps: Iterable[int] | None = None,
) -> Plan:
    """The state of worlds and of the given steps (all by default).

    Args:
        lineage: partitions and edges.
        made: by asset and partition, how the latest version was made.
        current: the latest data versions.
        code_versions: by asset, the present digest of its settings.
        world_digests: of the worlds as their sources are now.
        steps: which steps to look at.
    """
    plan = Plan()
    plan.states["worlds"] = {
        name: _world_state(name, made["worlds"].get(name), code_versions["worlds"], world_digests.get(name))
        for name in lineage.world_names
    }
    keys = lineage.partitions("trajectories")
    for asset in STEP_ASSETS:
        plan.states[asset] = {
            keys[step]: _step_state(asset, made[asset].get(keys[step]), lineage.inputs(asset, step), current, code_versions)
            for step in (range(lineage.steps) if steps is None else steps)
        }
    return plan


def _world_state(name: str, made: Made | None, code_version: str, digest: str | None) -> PartitionState:
    if made is None:
        return PartitionState(State.MISSING)
    causes: list[Cause] = []
    if made.code_version != code_version:
        causes.append(SettingsChanged("worlds", name, made.code_version, code_version))
    if digest is not None and made.data_version != digest:
        causes.append(SourceChanged("worlds", name, made.data_version, digest))
    return PartitionState(State.STALE if causes else State.FRESH, tuple(causes))


def _step_state(
    asset: str,
    made: Made | None,
    inputs: Mapping[str, list[str]],
    current: Versions,
    code_versions: Mapping[str, str],
) -> PartitionState:
    if made is None:
        return PartitionState(State.MISSING)
    causes: list[Cause] = []
    if made.code_version != code_versions[asset]:
        causes.append(SettingsChanged(asset, UNPARTITIONED, made.code_version, code_versions[asset]))
    for upstream, partitions in inputs.items():
        known = made.inputs.get(upstream, {})
        for partition in partitions:
            was, now = known.get(partition), current[upstream].get(partition)
            if was != now:
                causes.append(Cause(upstream, partition, was, now))
    return PartitionState(State.STALE if causes else State.FRESH, tuple(causes))

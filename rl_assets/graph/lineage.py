"""The graph as data: which partitions exist, and which partitions each one is made from.

Dagster's partition mappings and the bulk plan are both built from these functions, so they cannot disagree. Data flows

    worlds ──┬─> trajectories ─> rewards ─> weights ─> policy (of the next step)
    policy ──┘

and the rubric and the verifiers flow into rewards and weights. The last edge closes a cycle, which Dagster has no edge for:
weights report the next policy by an observation.
"""

from dataclasses import dataclass

from rl_assets.worlds.schedule import worlds_at

STEP_ASSETS = ("trajectories", "rewards", "weights")
"""Partitioned by step, in the order they are made."""

UNPARTITIONED = ""
"""Stands for the partition of an asset that has none."""


def step_key(step: int) -> str:
    """The partition key of a step."""
    return f"{step:04d}"


def version_key(version: int) -> str:
    """The partition key of the policy after so many updates."""
    return f"v{version:04d}"


def name_of(asset: str, partition: str) -> str:
    """How people read a partition: `policy[v0001]`, or `rubric`."""
    return f"{asset}[{partition}]" if partition != UNPARTITIONED else asset


@dataclass(frozen=True)
class Lineage:
    """Partitions and edges of one experiment."""

    steps: int
    world_names: tuple[str, ...]
    per_step: int | None

    def partitions(self, asset: str) -> list[str]:
        """All partition keys of an asset, in order."""
        match asset:
            case "rubric":
                return [UNPARTITIONED]
            case "worlds" | "verifiers":
                return list(self.world_names)
            case "policy":
                return [version_key(version) for version in range(self.steps + 1)]
            case _:
                return [step_key(step) for step in range(self.steps)]

    def worlds_of(self, step: int) -> list[str]:
        """The worlds that a step uses."""
        return worlds_at(step, self.world_names, self.per_step)

    def inputs(self, asset: str, step: int) -> dict[str, list[str]]:
        """What a step of an asset is made from: partitions by upstream asset."""
        worlds = self.worlds_of(step)
        match asset:
            case "trajectories":
                return {"worlds": worlds, "policy": [version_key(step)]}
            case "rewards":
                return {"trajectories": [step_key(step)], "rubric": [UNPARTITIONED], "verifiers": worlds}
            case "weights":
                return {
                    "rewards": [step_key(step)],
                    "rubric": [UNPARTITIONED],
                    "verifiers": worlds,
                    "policy": [version_key(step)],
                }
        raise ValueError(f"{asset} is not made step by step")

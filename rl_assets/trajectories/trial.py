"""A trial: what identifies it, how it can end, and the record of what happened in it."""

from enum import StrEnum
from functools import cached_property

from pydantic import Field

from rl_assets.core.digest import digest
from rl_assets.core.model import Frozen

TRIAL_KIND = "trial"
SEMANTICS = 1
"""Bumped when the same key would stand for another result."""


class Outcome(StrEnum):
    """How a trial ended. The first three are results; the last two say nothing about the policy."""

    ANSWERED = "answered"
    """The agent left an answer."""
    GAVE_UP = "gave_up"
    """The agent ended without an answer."""
    TURN_LIMIT = "turn_limit"
    """The agent had no turn left."""
    DEADLINE = "deadline"
    """Every attempt ran out of time."""
    FAILED = "failed"
    """Every attempt failed for a reason that is not the agent's."""

    @property
    def is_result(self) -> bool:
        """Whether the end state may be scored."""
        return self not in (Outcome.DEADLINE, Outcome.FAILED)


class TrialSpec(Frozen):
    """Everything that can change a trial's result, and nothing else."""

    world: str
    """Its name, which is part of the world's own files as well."""
    world_digest: str
    policy_digest: str
    agent: dict[str, str | int | float]
    """The agent's name, semantics version and limits."""
    purpose: str = "train"
    seed: int
    step: int = Field(ge=0)
    sample: int = Field(ge=0)

    @property
    def id(self) -> str:
        """`step/world/sample`: how people call it."""
        return f"{self.step:04d}/{self.world}/{self.sample:04d}"

    @cached_property
    def key(self) -> str:
        """The digest of the whole spec."""
        return digest(TRIAL_KIND, SEMANTICS, self.model_dump())


class Turn(Frozen):
    """One action of the agent and what came of it."""

    turn: int
    """Counts from 0."""
    tool: str
    argument: str
    output: str
    elapsed_s: float


class Trial(Frozen):
    """What happened in a trial. Everything up to `error` follows from the spec; the rest is recorded beside it."""

    id: str
    key: str
    step: int
    world: str
    sample: int
    world_digest: str
    policy_digest: str
    outcome: Outcome
    turns: tuple[Turn, ...] = ()
    files: dict[str, str] = {}
    """What the agent left behind: the text of each file it wrote, by path."""
    error: str | None = None
    """Why it failed, in one line."""
    attempts: int = 1
    elapsed_s: float = 0.0
    """Seconds that the last attempt took."""
    sandbox: str = ""
    version: str = ""
    """Of rl_assets."""

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts trials into their canonical order."""
        return (self.step, self.world, self.sample)

    @property
    def content(self) -> list[object]:
        """What the trial amounts to, without what only says how it was run; for digests."""
        turns = [[turn.tool, turn.argument, turn.output] for turn in self.turns]
        return [self.id, self.key, self.outcome, turns, dict(sorted(self.files.items()))]

"""What an experiment says about its rollouts."""

from pydantic import Field

from rl_assets.core.model import Frozen


class Rollouts(Frozen):
    """How trials are run. `samples` and `max_turns` change results; the rest only changes how fast they come."""

    samples: int = Field(default=2, ge=1)
    """Trials of each world in each step: the size of a group."""
    max_turns: int = Field(default=6, ge=1)
    """Turns after which a trial ends."""
    concurrency: int = Field(default=16, ge=1)
    """Trials at once."""
    deadline_s: float = Field(default=60.0, gt=0)
    """Seconds that one attempt at a trial may take."""
    retries: int = Field(default=1, ge=0)
    """Further attempts after a failed one."""
    tool_latency_s: float = Field(default=0.0, ge=0)
    """Seconds that each tool call takes, to imitate slow tools."""


class Faults(Frozen):
    """What is made to go wrong, on purpose. No key covers it, and its random stream is its own."""

    flaky_trials: float = Field(default=0.0, ge=0, le=1)
    """Share of trials whose sandbox dies on the first attempt."""
    flaky_judge: float = Field(default=0.0, ge=0, le=1)
    """Share of judge tasks that fail once after the judge has answered."""
    dead_trials: tuple[str, ...] = ()
    """Trials, by id, whose sandbox dies on every attempt."""
    dead_judge: float = Field(default=0.0, ge=0, le=1)
    """Share of judge tasks whose judge never answers."""
    refused_updates: tuple[int, ...] = ()
    """Steps whose update refuses."""
    crash_after_step: int | None = Field(default=None, ge=0)
    """The command line's process kills itself after it has made this step's update."""

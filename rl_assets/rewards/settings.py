"""What an experiment says about how judging is run; none of it changes a score."""

from pydantic import Field

from rl_assets.core.model import Frozen


class Judging(Frozen):
    """How the judge is called."""

    concurrency: int = Field(default=8, ge=1)
    """Requests at once."""
    retries: int = Field(default=1, ge=0)
    """Further goes at a judge task that failed."""
    corrections: int = Field(default=1, ge=0)
    """How often an unusable answer is asked for again."""
    latency_s: float = Field(default=0.0, ge=0)
    """Seconds that the simulated judge takes to answer."""

"""What an experiment says about its worlds."""

from typing import Literal

from pydantic import Field, model_validator

from rl_assets.core.model import Frozen


class DocumentWorlds(Frozen):
    """Worlds of text documents, one of which holds a secret's digest."""

    kind: Literal["documents"] = "documents"
    """What kind of worlds; there is one so far."""
    count: int = Field(default=3, ge=1, le=10_000)
    """How many worlds."""
    documents: int = Field(default=8, ge=1, le=10_000)
    """Documents in each world."""
    decoys: int = Field(default=1, ge=0)
    """Documents that hold a digest of something else. An agent cannot tell which digest is the secret's; only the reward
    does."""
    source: str | None = None
    """A folder of text files to take the documents from, relative to the project; by default they are generated."""
    per_step: int | None = Field(default=None, ge=1)
    """Worlds used by each step, in turn; by default every step uses all."""

    @model_validator(mode="after")
    def _fits(self) -> "DocumentWorlds":
        if self.decoys >= self.documents:
            raise ValueError(f"decoys ({self.decoys}) must be fewer than documents ({self.documents})")
        if self.per_step is not None and self.per_step > self.count:
            raise ValueError(f"per_step ({self.per_step}) is more than count ({self.count})")
        return self

    @property
    def names(self) -> list[str]:
        """The worlds' names, which are partition keys."""
        width = len(str(self.count - 1))
        return [f"world_{index:0{width}d}" for index in range(self.count)]

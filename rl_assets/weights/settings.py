"""What an experiment says about its policy and how it is trained."""

from typing import Literal

from pydantic import Field

from rl_assets.core.model import Frozen


class BanditPolicy(Frozen):
    """A bandit: for each world a preference by document, trained by `prior[found] += learning_rate * reward`."""

    kind: Literal["bandit"] = "bandit"
    """What kind of policy; there is one so far."""
    learning_rate: float = Field(default=8.0, gt=0, le=1e6)
    """Log-odds that a document gains for each unit of reward."""
    initial: dict[str, dict[str, float]] = {}
    """The prior before any update, by world and document; 0 where nothing is said."""

"""The bandit: weights are a prior per world over documents, in one JSON file."""

import json

from rl_assets.core.digest import canonical_json
from rl_assets.rewards.advantages import has_signal
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import Batch
from rl_assets.worlds.world import Files

PRIOR_FILE = "prior.json"


class BanditTrainer:
    """`prior[found] += learning_rate * reward`, over the scored trials that found something.

    The prior is in log-odds. Rewards are taken as they are, not relative to their group, so a group whose trials all did
    equally well still counts here. A batch in which no trial did better than another has nothing to teach: the weights
    stay what they were.
    """

    def __init__(self, settings: BanditPolicy) -> None:
        self.settings = settings

    @property
    def identity(self) -> dict[str, object]:
        """The initial prior is left out: it is the base of the first update."""
        return {"name": "bandit", "semantics": 1, "learning_rate": self.settings.learning_rate}

    def initial(self) -> Files:
        """The prior that the settings give."""
        return _saved({world: dict(prior) for world, prior in self.settings.initial.items()})

    def update(self, base: Files, batch: Batch) -> Files:
        """One pass over the batch in its order."""
        if not has_signal([example.reward for example in batch.examples]):
            return base
        priors = load_priors(base)
        for example in batch.examples:
            if example.found is not None:
                prior = priors.setdefault(example.world, {})
                prior[example.found] = prior.get(example.found, 0.0) + self.settings.learning_rate * example.reward
        return _saved(priors)


def load_priors(weights: Files) -> dict[str, dict[str, float]]:
    """The priors by world and document."""
    priors: dict[str, dict[str, float]] = json.loads(weights[PRIOR_FILE])
    return priors


def _saved(priors: dict[str, dict[str, float]]) -> Files:
    return {PRIOR_FILE: canonical_json(priors).encode()}

"""What every trainer does: weights and a batch in, weights out."""

from collections.abc import Sequence
from typing import Protocol

from rl_assets.core.digest import digest
from rl_assets.core.model import Frozen
from rl_assets.rewards.scoring import Reward
from rl_assets.trajectories.trial import Outcome, Trial
from rl_assets.worlds.world import Files

WEIGHTS_KIND = "weights"
"""The store's folder of weights."""


class Example(Frozen):
    """One scored trial, as a trainer sees it."""

    trial_key: str
    world: str
    found: str | None
    """The document that the answer was taken from; None when there was no answer."""
    reward: float
    advantage: float | None
    """None when its group has no signal."""


class Batch(Frozen):
    """The scored trials of a step in canonical order."""

    examples: tuple[Example, ...]
    behaviour: tuple[str, ...]
    """Digests of the policies that the trials were sampled from, sorted."""

    @property
    def content(self) -> list[object]:
        """What can change an update; for its key."""
        return [example.model_dump() for example in self.examples]


class Trainer(Protocol):
    """Turns weights and a batch into the next weights, the same for the same inputs."""

    @property
    def identity(self) -> dict[str, object]:
        """Name, semantics version and settings: all of it that can change a result."""

    def initial(self) -> Files:
        """The weights before any update."""

    def update(self, base: Files, batch: Batch) -> Files:
        """The next weights.

        Raises:
            UpdateRefused: training on this batch would be wrong.
        """


def build_batch(trials: Sequence[Trial], rewards: Sequence[Reward]) -> Batch:
    """The scored trials, joined with their rewards by key; unscored ones are left out."""
    by_id = {trial.id: trial for trial in trials}
    examples = []
    for reward in sorted(rewards, key=lambda reward: (reward.step, reward.world, reward.sample)):
        if reward.reward is not None:
            found = _found(by_id[reward.trial_id])
            examples.append(
                Example(
                    trial_key=reward.trial_key,
                    world=reward.world,
                    found=found,
                    reward=reward.reward,
                    advantage=reward.advantage,
                )
            )
    return Batch(examples=tuple(examples), behaviour=tuple(sorted({trial.policy_digest for trial in trials})))


def _found(trial: Trial) -> str | None:
    if trial.outcome is not Outcome.ANSWERED:
        return None
    return next(turn.argument for turn in reversed(trial.turns) if turn.tool == "read").removeprefix("documents/")


def update_key(trainer: Trainer, base_digest: str, batch: Batch) -> str:
    """The digest of all that can change an update."""
    return digest("update", 1, {"base": base_digest, "trainer": trainer.identity, "batch": batch.content})

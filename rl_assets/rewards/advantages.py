"""Advantages: how much better a trial did than the others of its group."""

import math
from collections.abc import Sequence

EPSILON = 1e-4
"""Added to the standard deviation, as TRL does."""

NO_SIGNAL = 1e-6
"""A group whose rewards differ by no more than this teaches nothing."""


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """The advantage of each trial of a group: (reward - mean) / (sample standard deviation + 1e-4).

    From "DeepSeekMath" (GRPO), with the sample standard deviation that TRL uses. Unscored trials (None) take no part. In a
    group without signal, which a group of one is, every advantage is None: it is left out of training, not trained on 0.
    """
    scored = [reward for reward in rewards if reward is not None]
    if not has_signal(rewards):
        return [None] * len(rewards)
    mean = math.fsum(scored) / len(scored)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1))
    return [None if reward is None else (reward - mean) / (deviation + EPSILON) for reward in rewards]


def has_signal(rewards: Sequence[float | None]) -> bool:
    """Whether a group's scored rewards differ enough to learn from."""
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) > 1 and max(scored) - min(scored) > NO_SIGNAL

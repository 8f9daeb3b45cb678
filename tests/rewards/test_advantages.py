import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rl_assets.rewards.advantages import EPSILON, NO_SIGNAL, group_advantages, has_signal

rewards = st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=12)


@given(rewards)
def test_it_is_the_formula_over_the_scored_trials(group):
    """(reward - mean) / (sample standard deviation + 1e-4), by another library."""
    scored = [reward for reward in group if reward is not None]
    advantages = group_advantages(group)
    if len(scored) < 2 or max(scored) - min(scored) <= 1e-6:
        assert advantages == [None] * len(group)
        return
    mean, deviation = statistics.fmean(scored), statistics.stdev(scored)
    for reward, advantage in zip(group, advantages, strict=True):
        if reward is None:
            assert advantage is None
        else:
            assert advantage == pytest.approx((reward - mean) / (deviation + 1e-4), rel=1e-9, abs=1e-9)


@given(rewards)
def test_advantages_sum_to_nothing_and_keep_the_order_of_rewards(group):
    assume(has_signal(group))
    pairs = [(r, a) for r, a in zip(group, group_advantages(group), strict=True) if r is not None]
    assert math.fsum(advantage for _, advantage in pairs) == pytest.approx(0, abs=1e-6)
    by_reward = sorted(pairs)
    assert all(one[1] <= other[1] for one, other in pairwise(by_reward))


@given(rewards, st.data())
def test_an_unscored_trial_changes_nothing_for_the_others(group, data):
    at = data.draw(st.integers(0, len(group)))
    advantages = group_advantages([*group[:at], None, *group[at:]])
    assert advantages.pop(at) is None
    assert advantages == group_advantages(group)


@given(rewards, st.randoms())
def test_the_order_of_trials_does_not_matter(group, random):
    order = list(range(len(group)))
    random.shuffle(order)
    shuffled = group_advantages([group[index] for index in order])
    assert [shuffled[order.index(index)] for index in range(len(group))] == group_advantages(group)


def test_known_values():
    assert group_advantages([1.0, 0.0]) == pytest.approx([0.5 / (math.sqrt(0.5) + 1e-4), -0.5 / (math.sqrt(0.5) + 1e-4)])
    assert group_advantages([1.0, None, 0.0])[1] is None
    assert (EPSILON, NO_SIGNAL) == (1e-4, 1e-6)


@pytest.mark.parametrize("group", [[], [None], [3.0], [None, 3.0, None], [2.0, 2.0], [2.0, 2.0 + 1e-7], [0.0] * 8])
def test_a_group_that_shows_no_difference_has_no_signal(group):
    assert not has_signal(group)
    assert group_advantages(group) == [None] * len(group)

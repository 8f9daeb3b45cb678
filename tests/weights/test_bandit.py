import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.weights.bandit import BanditTrainer, load_priors
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import Batch, Example

worlds, documents = st.sampled_from(["w0", "w1"]), st.sampled_from(["a", "b", "c"])
examples = st.lists(
    st.builds(
        Example,
        trial_key=st.text(max_size=3),
        world=worlds,
        found=st.none() | documents,
        reward=st.floats(-10, 10),
        advantage=st.none() | st.floats(-3, 3),
    ),
    max_size=8,
)
priors = st.dictionaries(worlds, st.dictionaries(documents, st.floats(-10, 10)))


def trainer(learning_rate=8.0, initial=None):
    return BanditTrainer(BanditPolicy(learning_rate=learning_rate, initial=initial or {}))


def batch(*rows):
    return Batch(
        examples=tuple(
            Example(trial_key=str(index), world=world, found=found, reward=reward, advantage=None)
            for index, (world, found, reward) in enumerate(rows)
        ),
        behaviour=(),
    )


@given(priors, examples, st.floats(0.01, 100))
def test_an_update_is_the_formula_and_nothing_else(initial, given_examples, learning_rate):
    """prior[found] += learning_rate * reward, for each example in order."""
    bandit = trainer(learning_rate, initial)
    rewards = [example.reward for example in given_examples]
    expected = {world: dict(prior) for world, prior in initial.items()}
    if len(rewards) > 1 and max(rewards) - min(rewards) > 1e-6:
        for example in given_examples:
            if example.found is not None:
                prior = expected.setdefault(example.world, {})
                prior[example.found] = prior.get(example.found, 0.0) + learning_rate * example.reward
    base = bandit.initial()
    updated = bandit.update(base, Batch(examples=tuple(given_examples), behaviour=()))
    assert load_priors(updated) == expected
    assert load_priors(base) == initial, "the weights it started from are left alone"


def test_known_values():
    updated = trainer(2.0, {"w0": {"a": 1.0}}).update(
        trainer(2.0, {"w0": {"a": 1.0}}).initial(),
        batch(("w0", "a", 1.5), ("w0", "b", 0.25), ("w1", None, 1.0), ("w0", "a", 1.0)),
    )
    assert load_priors(updated) == {"w0": {"a": 1.0 + 3.0 + 2.0, "b": 0.5}}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("w0", "a", 1.0)],
        [("w0", "a", 1.0), ("w1", "b", 1.0)],
        [("w0", None, 1.0), ("w0", None, 0.0)],
    ],
    ids=["empty", "one", "all alike", "nothing found"],
)
def test_a_batch_that_teaches_nothing_gives_back_the_same_bytes(rows):
    bandit = trainer(initial={"w0": {"a": 1.0}})
    assert bandit.update(bandit.initial(), batch(*rows)) == bandit.initial()


def test_the_identity_is_what_changes_an_update_and_not_where_it_starts():
    assert trainer(1.0).identity != trainer(2.0).identity
    assert trainer(1.0, {"w0": {"a": 1.0}}).identity == trainer(1.0).identity


def test_the_same_prior_is_the_same_bytes_whatever_its_order():
    one, other = trainer(initial={"a": {"x": 1.0, "y": 2.0}, "b": {}}), trainer(initial={"b": {}, "a": {"y": 2.0, "x": 1.0}})
    assert one.initial() == other.initial()
    assert json.loads(one.initial()["prior.json"]) == {"a": {"x": 1.0, "y": 2.0}, "b": {}}

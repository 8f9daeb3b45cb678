import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.trajectories.trial import Outcome, Turn
from rl_assets.weights.bandit import BanditTrainer
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import build_batch, update_key
from tests.rooms import make_reward, make_trial

TRAINER = BanditTrainer(BanditPolicy())
TRIALS = [make_trial(sample, f"world_{world}", reads=["a.txt", f"{sample}.txt"]) for world in range(3) for sample in (0, 9, 10)]
REWARDS = [make_reward(trial, 0.1 * index if index != 4 else None, 0.5) for index, trial in enumerate(TRIALS)]


@given(st.permutations(TRIALS), st.permutations(REWARDS))
def test_the_order_in_which_trials_and_rewards_come_does_not_matter(trials, rewards):
    batch = build_batch(trials, rewards)
    assert batch == build_batch(TRIALS, REWARDS)
    assert update_key(TRAINER, "base", batch) == update_key(TRAINER, "base", build_batch(TRIALS, REWARDS))
    assert TRAINER.update(TRAINER.initial(), batch) == TRAINER.update(TRAINER.initial(), build_batch(TRIALS, REWARDS))


def test_unscored_trials_are_left_out():
    keys = [example.trial_key for example in build_batch(TRIALS, REWARDS).examples]
    assert keys == [trial.key for index, trial in enumerate(TRIALS) if index != 4]


ANSWER = Turn(turn=2, tool="answer", argument="x", output="", elapsed_s=0.0)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "b.txt"),
        ({"turns": (*make_trial(reads=["deep/a", "deep/b"]).turns, ANSWER)}, "deep/b"),
        ({"outcome": Outcome.TURN_LIMIT}, None),
        ({"outcome": Outcome.GAVE_UP}, None),
    ],
)
def test_what_was_found_is_the_last_document_read_before_an_answer(fields, found):
    trial = make_trial(reads=["a.txt", "b.txt"]) if "turns" not in fields else make_trial()
    trial = trial.model_copy(update=fields)
    (example,) = build_batch([trial], [make_reward(trial, 1.0)]).examples
    assert example.found == found


def test_the_policies_that_trials_came_from_are_listed_once_in_order():
    trials = [make_trial(sample, policy_digest=digest) for sample, digest in enumerate("bab")]
    assert build_batch(trials, [make_reward(trial, 1.0) for trial in trials]).behaviour == ("a", "b")


def test_all_that_can_change_an_update_is_in_its_key():
    batch = build_batch(TRIALS, REWARDS)
    other_reward = [REWARDS[0].model_copy(update={"reward": 7.0}), *REWARDS[1:]]
    other_advantage = [REWARDS[0].model_copy(update={"advantage": 7.0}), *REWARDS[1:]]
    keys = {
        update_key(TRAINER, "base", batch),
        update_key(TRAINER, "other", batch),
        update_key(BanditTrainer(BanditPolicy(learning_rate=1.0)), "base", batch),
        update_key(TRAINER, "base", build_batch(TRIALS, other_reward)),
        update_key(TRAINER, "base", build_batch(TRIALS, other_advantage)),
        update_key(TRAINER, "base", build_batch(TRIALS, REWARDS[1:])),
        update_key(TRAINER, "base", build_batch([make_trial(reads=["z"]), *TRIALS[1:]], REWARDS)),
    }
    assert len(keys) == 7

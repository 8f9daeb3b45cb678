"""The traps that others fell into (docs say which), each a test named after it."""

import asyncio
import random

import pytest

from rl_assets.core.errors import MissingInput
from rl_assets.core.tally import Tally
from rl_assets.rewards import table as rewards_table
from rl_assets.rewards.judge import SimulatedJudge
from rl_assets.rewards.scoring import with_advantages
from rl_assets.rewards.settings import Judging
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore
from rl_assets.trajectories import table as trials_table
from rl_assets.trajectories.agent import DocumentReader
from rl_assets.trajectories.rollout import run_trials
from rl_assets.trajectories.settings import Faults
from rl_assets.trajectories.trial import Outcome
from rl_assets.weights.bandit import BanditTrainer, load_priors
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import WEIGHTS_KIND, build_batch, update_key
from rl_assets.weights.update import UPDATE_KIND, run_update
from tests.rooms import (
    Scripted,
    ScriptedJudge,
    gave_up,
    journal_in,
    judged,
    make_reward,
    make_rollout,
    make_scorer,
    make_specs,
    make_trial,
    make_worlds,
)

TRAINER = BanditTrainer(BanditPolicy())
WORLDS = make_worlds(3)


@pytest.fixture
def journal(tmp_path):
    journal = journal_in(tmp_path / "store")
    yield journal
    journal.close()


def rewarded(*values, world="world_0"):
    trials = [make_trial(sample, world) for sample in range(len(values))]
    return trials, with_advantages([make_reward(trial, value) for trial, value in zip(trials, values, strict=True)])


def test_a_group_of_one_has_no_advantage_rather_than_its_raw_reward():
    for values in ((5.0,), (None, 5.0, None)):
        _, rewards = rewarded(*values)
        assert [reward.advantage for reward in rewards] == [None] * len(values)
        assert 5.0 in [reward.reward for reward in rewards]


def test_a_group_of_zero_variance_has_no_signal_and_leaves_the_other_groups_theirs():
    trials, rewards = rewarded(0.7, 0.7, 0.7)
    other_trials, other_rewards = rewarded(0.0, 1.0, world="world_1")
    joined = with_advantages(rewards + other_rewards)
    assert [reward.advantage for reward in joined[:3]] == [None] * 3
    assert joined[3].advantage == -joined[4].advantage < 0
    batch = build_batch(trials + other_trials, joined)
    assert [example.advantage is None for example in batch.examples] == [True] * 3 + [False] * 2


@pytest.mark.parametrize("values", [(), (0.7,), (0.7, 0.7), (None, None), (None, 0.7)])
def test_a_whole_batch_without_signal_is_an_explicit_no_op(journal, values):
    base = save_bundle(journal.store, WEIGHTS_KIND, TRAINER.initial())
    tally = Tally()
    update = asyncio.run(run_update(TRAINER, base, build_batch(*rewarded(*values)), journal, tally))
    assert update.weights_digest == base
    assert tally.updates_run == {update.key}
    assert asyncio.run(journal.get(UPDATE_KIND, update.key)) is not None


ANSWERS = {
    "answers twice": judged(1.0) + judged(1.0),
    "answers prose": "Nearly perfect, I would say 0.9.",
    "answers for another scale": judged(9),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_judge_that_answers_twice_or_prose_is_corrected_and_paid_for_each_then_the_trial_is_unscored(journal, answer):
    trial = make_trial()
    good = make_scorer(journal, ScriptedJudge(answer, judged(0.5)), settings=Judging(retries=0))
    stubborn = make_scorer(journal, judge := ScriptedJudge(answer), settings=Judging(retries=0))
    (unscored,) = asyncio.run(stubborn.score_all([trial]))
    assert (unscored.reward, unscored.advantage) == (None, None)
    assert stubborn.tally.judge_calls == len(judge.asked) == len(list(journal.store.list("attempts/verdict/"))) - 1 == 2
    assert stubborn.tally.cost_usd == pytest.approx(0.02)
    good.retry_failed = True
    (scored,) = asyncio.run(good.score_all([trial]))
    assert scored.reward == 1.0 + 0.5 * 0.5
    assert good.tally.judge_calls == 2


def test_a_judge_that_answers_for_seven_of_eight_leaves_one_unscored_and_out_of_its_group(journal):
    def answer(messages):
        return "no comment" if messages[2].content.count('"read"') == 5 else judged(0.5)

    trials = [
        make_trial(index, reads=["x"] * (index + 1), files={"answer.txt": "right"} if index % 2 else {}) for index in range(8)
    ]
    rewards = asyncio.run(make_scorer(journal, ScriptedJudge(answer)).score_all(trials))
    assert [reward.reward is None for reward in rewards] == [index == 4 for index in range(8)]
    assert [reward.advantage is None for reward in rewards] == [index == 4 for index in range(8)]
    assert sum(reward.advantage for reward in rewards if reward.advantage is not None) == pytest.approx(0, abs=1e-9)
    assert len(build_batch(trials, rewards).examples) == 7


async def hang(*_):
    await asyncio.sleep(3600)


async def tool_that_times_out(*_):
    async with asyncio.timeout(0.01):
        await asyncio.sleep(3600)


def run_with_culprit(journal, act, **settings):
    """One trial of world_1 does something; those of the other worlds end at once."""

    async def acting(sandbox, prior, random):
        return await act(sandbox, prior, random) if prior else gave_up()

    rollout = make_rollout(
        journal, WORLDS, Scripted(acting), priors={"world_1": {"here": 1.0}}, settings={"retries": 0, **settings}
    )
    return asyncio.run(run_trials(rollout, make_specs(WORLDS, rollout.agent, samples=1)))


def test_a_trial_that_hangs_is_ended_and_named_and_the_others_are_not_held_up(journal):
    trials = run_with_culprit(journal, hang, deadline_s=0.2)
    assert [trial.outcome for trial in trials] == [Outcome.GAVE_UP, Outcome.DEADLINE, Outcome.GAVE_UP]
    assert trials[1].error == "trial 0000/world_1/0000 did not end within 0.2 s"


def test_a_timeout_error_of_a_tool_is_not_taken_for_the_deadline(journal):
    trials = run_with_culprit(journal, tool_that_times_out, deadline_s=600)
    assert [trial.outcome for trial in trials] == [Outcome.GAVE_UP, Outcome.FAILED, Outcome.GAVE_UP]
    assert trials[1].error.startswith("trial 0000/world_1/0000: TimeoutError")


def test_a_half_written_checkpoint_does_not_exist(tmp_path):
    class Dies(ObjectStore):
        """Is killed before the manifest is written."""

        def put(self, path, data):
            if path.endswith("manifest.json"):
                raise KeyboardInterrupt
            super().put(path, data)

    weights = {"adapter.safetensors": b"w" * 100, "config.json": b"{}"}
    with pytest.raises(KeyboardInterrupt):
        save_bundle(Dies(str(tmp_path)), WEIGHTS_KIND, weights)
    store = ObjectStore(str(tmp_path))
    (name,) = {path.split("/")[1] for path in store.list(f"{WEIGHTS_KIND}/")}
    with pytest.raises(MissingInput):
        load_bundle(store, WEIGHTS_KIND, name)
    assert save_bundle(store, WEIGHTS_KIND, weights) == name
    assert load_bundle(store, WEIGHTS_KIND, name) == weights


@pytest.mark.parametrize("dies_at", ["before the weights", "between the weights' files and manifest", "before the record"])
def test_a_resume_does_not_repeat_an_optimizer_step(tmp_path, dies_at):
    """Killed anywhere in an update, it ends at the weights of one step from the base, and never of two."""
    marks = {"before the weights": "prior.json", "between the weights' files and manifest": "manifest.json"}

    class Dies(ObjectStore):
        def put(self, path, data):
            if path.endswith(marks.get(dies_at, "never")):
                raise KeyboardInterrupt
            super().put(path, data)

        def put_new(self, path, data, twin=None):
            if path.startswith(f"journal/{UPDATE_KIND}/"):
                raise KeyboardInterrupt
            return super().put_new(path, data, twin)

    url, batch = str(tmp_path), build_batch(*rewarded(1.0, 0.0))
    base = save_bundle(ObjectStore(url), WEIGHTS_KIND, TRAINER.initial())
    killed = Journal(Dies(url))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_update(TRAINER, base, batch, killed, Tally()))
    for resumed in (Journal(ObjectStore(url)), Journal(ObjectStore(url))):
        update = asyncio.run(run_update(TRAINER, base, batch, resumed, Tally()))
        assert load_priors(load_bundle(resumed.store, WEIGHTS_KIND, update.weights_digest)) == {
            "world_0": {"document_0.txt": TRAINER.settings.learning_rate}
        }
        resumed.close()
    killed.close()


def test_the_order_in_which_things_end_leaks_into_no_digest(tmp_path):
    """Trials ended, were scored and are trained on in other orders, with other faults: every digest is the same."""
    digests = set()
    for number in range(4):
        shuffle = random.Random(number).shuffle
        journal = journal_in(tmp_path / str(number))
        specs = make_specs(WORLDS, DocumentReader(6), samples=4)
        shuffle(specs)
        rollout = make_rollout(
            journal, WORLDS, settings={"concurrency": 1 + 5 * number}, faults=Faults(flaky_trials=0.2 * number)
        )
        trials = asyncio.run(run_trials(rollout, specs))
        verifiers = {name: (world.verifier_files, world.verifier_digest) for name, world in WORLDS.items()}
        scorer = make_scorer(journal, SimulatedJudge(), verifiers=verifiers, faults=Faults(flaky_judge=0.2 * number))
        rewards = asyncio.run(scorer.score_all(trials))
        versions = (trials_table.data_version(trials), rewards_table.data_version(rewards, "rubric"))
        shuffle(trials)
        shuffle(rewards)
        batch = build_batch(trials, rewards)
        weights = save_bundle(journal.store, WEIGHTS_KIND, TRAINER.update(TRAINER.initial(), batch))
        digests.add((*versions, update_key(TRAINER, "base", batch), weights))
        journal.close()
    assert len(digests) == 1

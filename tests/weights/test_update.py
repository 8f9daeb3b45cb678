import asyncio

import pytest

from rl_assets.core.errors import MissingInput, UpdateRefused
from rl_assets.core.tally import Tally
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.weights.bandit import BanditTrainer, load_priors
from rl_assets.weights.settings import BanditPolicy
from rl_assets.weights.trainer import WEIGHTS_KIND, build_batch
from rl_assets.weights.update import run_update
from tests.rooms import DIGEST, journal_in, make_reward, make_trial


class Counting(BanditTrainer):
    """Counts its updates; may raise in the first so many."""

    def __init__(self, *errors):
        super().__init__(BanditPolicy())
        self.errors, self.updates = list(errors), 0

    def update(self, base, batch):
        if self.errors:
            raise self.errors.pop(0)
        self.updates += 1
        return super().update(base, batch)


@pytest.fixture
def journal(tmp_path):
    journal = journal_in(tmp_path / "store")
    yield journal
    journal.close()


def a_batch(*rewards, policy=DIGEST):
    keys = [f"{policy}{sample}" for sample in range(len(rewards))]
    trials = [make_trial(sample, policy_digest=policy, key=key) for sample, key in enumerate(keys)]
    return build_batch(trials, [make_reward(trial, reward) for trial, reward in zip(trials, rewards, strict=True)])


def base_of(journal, trainer):
    return save_bundle(journal.store, WEIGHTS_KIND, trainer.initial())


def update(journal, trainer, base, batch, tally=None):
    return asyncio.run(run_update(trainer, base, batch, journal, tally or Tally()))


def test_an_update_is_applied_once_and_then_looked_up(journal, tmp_path):
    trainer, tally = Counting(), Tally()
    base, batch = base_of(journal, trainer), a_batch(1.0, 0.0)
    first = update(journal, trainer, base, batch, tally)
    assert load_priors(load_bundle(journal.store, WEIGHTS_KIND, first.weights_digest)) == {"world_0": {"document_0.txt": 8.0}}
    for other in (journal, journal_in(tmp_path / "store")):
        assert update(other, trainer, base, batch, tally) == first
    assert trainer.updates == 1
    assert tally.snapshot()["updates_run"] == 1
    assert tally.snapshot()["updates_recovered"] == 0


def test_many_who_ask_at_once_apply_it_once(journal):
    trainer = Counting()
    base, batch = base_of(journal, trainer), a_batch(1.0, 0.0)

    async def run():
        return await asyncio.gather(*(run_update(trainer, base, batch, journal, Tally()) for _ in range(10)))

    assert len({done.weights_digest for done in asyncio.run(run())}) == 1
    assert trainer.updates == 1


def test_the_same_batch_on_top_of_itself_is_another_update(journal):
    trainer, batch = Counting(), a_batch(1.0, 0.0)
    first = update(journal, trainer, base_of(journal, trainer), batch)
    second = update(journal, trainer, first.weights_digest, batch)
    assert second.key != first.key
    assert load_priors(load_bundle(journal.store, WEIGHTS_KIND, second.weights_digest)) == {"world_0": {"document_0.txt": 16.0}}


@pytest.mark.parametrize("rewards", [(), (1.0,), (0.5, 0.5, 0.5), (None, 1.0), (None, None)])
def test_a_batch_without_signal_keeps_the_digest_and_is_recorded(journal, rewards):
    trainer, tally = Counting(), Tally()
    base = base_of(journal, trainer)
    done = update(journal, trainer, base, a_batch(*rewards), tally)
    assert done.weights_digest == done.base_digest == base
    assert done.n_examples == sum(reward is not None for reward in rewards)
    assert len(list(journal.store.list("journal/update/"))) == 1
    assert len(tally.updates_run) == 1


def test_whether_it_is_off_policy_is_said(journal):
    trainer = Counting()
    base = base_of(journal, trainer)
    on, off = (update(journal, trainer, base, a_batch(1.0, 0.0, policy=policy)) for policy in (base, DIGEST))
    assert (on.off_policy, on.behaviour) == (False, (base,))
    assert (off.off_policy, off.behaviour) == (True, (DIGEST,))


@pytest.mark.parametrize("error", [UpdateRefused("no"), RuntimeError("crash"), KeyboardInterrupt()])
def test_an_update_that_did_not_come_to_its_end_is_not_recorded_and_starts_afresh(journal, error):
    trainer = Counting(error)
    base, batch = base_of(journal, trainer), a_batch(1.0, 0.0)
    with pytest.raises(type(error)):
        update(journal, trainer, base, batch)
    assert list(journal.store.list("journal/update/")) == list(journal.store.list("claims/")) == []
    done = update(journal, trainer, base, batch)
    assert load_priors(load_bundle(journal.store, WEIGHTS_KIND, done.weights_digest)) == {"world_0": {"document_0.txt": 8.0}}


def test_base_weights_that_are_not_there_are_named(journal):
    with pytest.raises(MissingInput, match=f"weights/{DIGEST}"):
        update(journal, Counting(), DIGEST, a_batch(1.0, 0.0))

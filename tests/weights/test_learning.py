"""The policy learns, and from rewards: the loop at the level of the lab, without Dagster."""

from statistics import fmean

import pytest

from rl_assets.core.seeding import stream
from rl_assets.store.tables import list_versions, read_table
from tests.rooms import StepMeans, open_lab, train

SEEDS = range(20)


def gains(folder, shuffled):
    """By seed: the turns saved and the reward gained, the last step against the first."""
    runs = [train(open_lab(folder / str(seed), seed), shuffled)[0] for seed in SEEDS]
    return [StepMeans(means[0].turns - means[-1].turns, means[-1].reward - means[0].reward) for means in runs]


def learnt(gained):
    return sum(gain.turns > 0 and gain.reward > 0 for gain in gained)


@pytest.mark.slow
def test_the_policy_learns_and_does_not_when_rewards_are_shuffled_among_trials(tmp_path):
    true, shuffled = gains(tmp_path / "true", False), gains(tmp_path / "shuffled", True)
    assert learnt(true) >= 19
    assert learnt(shuffled) < 19
    assert fmean(gain.reward for gain in shuffled) < fmean(gain.reward for gain in true) / 2


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path):
    ends = [train(open_lab(tmp_path / name, seed))[1] for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    assert ends[0] == ends[1] != ends[2]


def test_training_again_replays_what_is_recorded(tmp_path):
    first = open_lab(tmp_path, 0)
    means, policy = train(first)
    again = open_lab(tmp_path, 0)
    assert train(again) == (means, policy)
    done, replayed = first.tally.snapshot(), again.tally.snapshot()
    assert (done["trials_run"], done["updates_run"]) == (18, 3)
    assert (replayed["trials_run"], replayed["judge_calls"], replayed["updates_run"]) == (0, 0, 0)
    assert (replayed["trials_recovered"], replayed["updates_recovered"]) == (18, 3)
    assert replayed["judge_calls_recovered"] == done["judge_calls"] > 0


def test_no_secret_is_anywhere_in_what_is_kept(tmp_path):
    lab = open_lab(tmp_path, 0)
    train(lab)
    secrets = [stream("secret", 0, name, index).randbytes(32) for name in lab.lineage.world_names for index in range(2)]
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    tables = [str(read_table(lab.store, v.ref, v.file).to_pylist()).encode() for v in list_versions(lab.store)]
    assert len(kept) > 50
    assert len(tables) == 9
    for secret in secrets:
        assert not any(secret in data or secret.hex().encode() in data for data in kept + tables)

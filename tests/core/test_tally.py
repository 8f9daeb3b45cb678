from rl_assets.core.tally import Tally


def test_a_key_counts_once_and_what_was_made_here_is_not_also_recovered():
    tally = Tally()
    for key in ("a", "a", "b"):
        tally.trials_run.add(key)
    tally.trials_recovered |= {"a", "c"}
    tally.verdicts_made.add("v")
    tally.verdicts_recovered |= {"v", "w"}
    tally.judge_calls += 2
    tally.cost_usd += 0.1 + 0.2
    snapshot = tally.snapshot()
    assert snapshot["trials_run"] == 2
    assert snapshot["trials_recovered"] == 1
    assert snapshot["judge_calls"] == 2
    assert snapshot["judge_calls_recovered"] == 1
    assert snapshot["cost_usd"] == 0.3

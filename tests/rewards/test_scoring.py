import asyncio
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_assets.core.errors import ConfigError, InfrastructureError
from rl_assets.rewards.judge import SimulatedJudge
from rl_assets.rewards.settings import Judging
from rl_assets.rewards.table import SCHEMA, data_version, from_table, to_table
from rl_assets.trajectories.settings import Faults
from rl_assets.trajectories.trial import Outcome
from tests.rooms import ONE_QUESTION, ScriptedJudge, journal_in, judged, make_scorer, make_trial

TWO_QUESTIONS = {
    "criteria": [
        *ONE_QUESTION["criteria"],
        {"name": "tidy", "weight": 0.25, "source": "judge", "question": "Was it tidy?", "evidence": ["files"]},
    ]
}
TRIALS = [
    make_trial(
        sample, f"world_{world}", reads=["x"] * (1 + sample + world), files={"answer.txt": "right" if sample else "wrong"}
    )
    for world in range(3)
    for sample in range(4)
]


@pytest.fixture
def journal(tmp_path):
    journal = journal_in(tmp_path / "store")
    yield journal
    journal.close()


def score(scorer, trials=TRIALS):
    return asyncio.run(scorer.score_all(trials))


def reworded(question, rubric=TWO_QUESTIONS):
    return json.loads(json.dumps(rubric).replace("Was it tidy?", question))


def test_a_reward_is_the_weighted_sum_of_the_scores(journal):
    right, wrong = make_trial(0), make_trial(1, files={"answer.txt": "wrong"})
    rewards = score(make_scorer(journal, ScriptedJudge(judged(0.5))), [right, wrong])
    assert [reward.reward for reward in rewards] == [1.0 * 1.0 + 0.5 * 0.5, 0.5 * 0.5]
    assert [(s.criterion, s.weight, s.score) for s in rewards[0].scores] == [("right", 1.0, 1.0), ("short", 0.5, 0.5)]
    assert rewards[0].advantage == -rewards[1].advantage > 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(0, 1))
def test_any_weights_sum_exactly_whatever_the_order_of_the_criteria(tmp_path_factory, weights, given_score):
    criteria = [
        {"name": f"c{index}", "weight": weight, "source": "judge", "question": f"{index}?"}
        for index, weight in enumerate(weights)
    ]
    totals = set()
    for order in (criteria, criteria[::-1]):
        journal = journal_in(tmp_path_factory.mktemp("store"))
        (reward,) = score(make_scorer(journal, ScriptedJudge(judged(given_score)), {"criteria": order}), [make_trial()])
        journal.close()
        totals.add(reward.reward)
    assert totals == {math.fsum(weight * given_score for weight in weights)}


def test_the_judge_is_asked_once_for_each_different_request_and_never_again(journal, tmp_path):
    judge = ScriptedJudge(judged(0.5))
    scorer = make_scorer(journal, judge, TWO_QUESTIONS)
    first = score(scorer)
    keys = {s.verdict.key for reward in first for s in reward.scores if s.verdict}
    assert scorer.tally.judge_calls == len(judge.asked) == len(keys) < 2 * len(TRIALS)
    again = make_scorer(journal_in(tmp_path / "store"), judge, TWO_QUESTIONS)
    assert score(again) == first
    assert again.tally.judge_calls == 0
    assert again.tally.snapshot()["judge_calls_recovered"] == len(keys)


def test_a_change_of_weights_calls_no_judge_and_one_criterion_reworded_calls_for_it_alone(journal):
    judge = ScriptedJudge(judged(0.5))
    first = score(make_scorer(journal, judge, TWO_QUESTIONS))
    heavier = json.loads(json.dumps(TWO_QUESTIONS).replace("0.25", "2.5"))
    weighed = make_scorer(journal, judge, heavier)
    second = score(weighed)
    assert weighed.tally.judge_calls == 0
    assert [two.reward - one.reward for one, two in zip(first, second, strict=True)] == pytest.approx([2.25 * 0.5] * 12)
    judge.asked.clear()
    changed = make_scorer(journal, judge, reworded("Was it clean?"))
    third = score(changed)
    assert {messages[1].content for messages in judge.asked} == {"The question:\nWas it clean?"}
    tidy = {reward.scores[2].verdict.key for reward in third}
    assert changed.tally.judge_calls == len(tidy)
    undone = make_scorer(journal, judge, TWO_QUESTIONS)
    assert score(undone) == first
    assert undone.tally.judge_calls == 0


def test_a_judge_task_that_dies_after_the_answer_is_never_paid_twice(journal, tmp_path):
    judge = ScriptedJudge(judged(0.5))
    flaky = make_scorer(journal, judge, TWO_QUESTIONS, faults=Faults(flaky_judge=1.0))
    rewards = score(flaky)
    keys = {s.verdict.key for reward in rewards for s in reward.scores if s.verdict}
    assert flaky.tally.judge_calls == len(judge.asked) == len(keys)
    assert None not in [reward.reward for reward in rewards]
    calm = make_scorer(journal_in(tmp_path / "calm"), ScriptedJudge(judged(0.5)), TWO_QUESTIONS)
    assert data_version(score(calm), "r") == data_version(rewards, "r")


def test_a_judge_that_always_answers_prose_leaves_the_trial_unscored_and_every_answer_is_paid(journal):
    judge = ScriptedJudge("ten out of ten!")
    scorer = make_scorer(journal, judge, settings=Judging(retries=0, corrections=1))
    rewards = score(scorer, [make_trial(0), make_trial(1, reads=["a", "b"])])
    assert [(reward.reward, reward.advantage) for reward in rewards] == [(None, None)] * 2
    assert all("short" in reward.unscored_because and "no usable answer" in reward.unscored_because for reward in rewards)
    assert scorer.tally.judge_calls == 4
    assert scorer.tally.cost_usd == pytest.approx(0.04)
    assert [reward.scores[0].score for reward in rewards] == [1.0, 1.0], "what could be scored is kept"


def test_unscored_is_not_zero_and_takes_no_part_in_its_group(journal):
    def answer(messages):
        return judged(0.5) if messages[2].content.count('"read"') != 2 else "prose"

    trials = [
        make_trial(sample, reads=["x"] * (sample + 1), files={"answer.txt": "right" if sample else "no"}) for sample in range(3)
    ]
    rewards = score(make_scorer(journal, ScriptedJudge(answer)), trials)
    assert [reward.reward for reward in rewards] == [0.25, None, 1.25]
    assert rewards[1].advantage is None
    assert rewards[0].advantage == -rewards[2].advantage < 0


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DEADLINE])
def test_a_trial_that_is_no_result_is_unscored_and_not_judged(journal, outcome):
    judge = ScriptedJudge(judged(1.0))
    (reward,) = score(make_scorer(journal, judge), [make_trial(outcome=outcome, files={}, turns=())])
    assert (reward.reward, reward.unscored_because) == (None, f"the trial ended as {outcome}")
    assert judge.asked == []


def test_a_trial_cut_by_its_turns_is_scored(journal):
    (reward,) = score(make_scorer(journal, ScriptedJudge(judged(0.5))), [make_trial(outcome=Outcome.TURN_LIMIT, files={})])
    assert reward.reward == 0.25


def test_a_failed_verdict_gets_another_go_only_when_asked_for(journal, tmp_path):
    dead = make_scorer(journal, ScriptedJudge(InfrastructureError("away")))
    first = score(dead)
    assert {reward.reward for reward in first} == {None}
    for other in (journal, journal_in(tmp_path / "store")):
        judge = ScriptedJudge(judged(0.5))
        assert score(make_scorer(other, judge)) == first
        assert judge.asked == []
    retried = score(make_scorer(journal, ScriptedJudge(judged(0.5)), retry_failed=True))
    assert None not in [reward.reward for reward in retried]
    assert score(make_scorer(journal, ScriptedJudge(judged(0.9)))) == retried, "and then it stands"


def test_the_dead_judge_fault_strikes_a_share_of_requests_the_same_each_time(tmp_path):
    unscored = []
    for name in ("one", "other"):
        journal = journal_in(tmp_path / name)
        rewards = score(make_scorer(journal, SimulatedJudge(), faults=Faults(dead_judge=0.4)))
        journal.close()
        unscored.append([reward.trial_id for reward in rewards if reward.reward is None])
    assert unscored[0] == unscored[1]
    assert 0 < len(unscored[0]) < len(TRIALS)


def test_so_many_requests_are_under_way_at_once_and_no_more(journal):
    class Counting(ScriptedJudge):
        running = most = 0

        async def ask(self, messages):
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            return await super().ask(messages)

    judge = Counting(judged(0.5))
    trials = [make_trial(sample, reads=["x"] * (sample + 1)) for sample in range(12)]
    score(make_scorer(journal, judge, settings=Judging(concurrency=3)), trials)
    assert judge.most == 3


def test_rewards_come_in_the_order_of_the_trials_and_groups_are_by_world(journal):
    rewards = score(make_scorer(journal, SimulatedJudge()))
    assert [reward.trial_id for reward in rewards] == [trial.id for trial in TRIALS]
    for world in range(3):
        assert math.fsum(r.advantage for r in rewards if r.world == f"world_{world}") == pytest.approx(0, abs=1e-9)


def test_a_world_without_an_expected_answer_is_the_users_error(journal):
    scorer = make_scorer(journal, SimulatedJudge(), verifiers={"world_0": ({"verifier.toml": b"[verifier]"}, "d")})
    with pytest.raises(ConfigError, match="world_0"):
        score(scorer, [make_trial()])


def test_names_and_order_of_criteria_and_prices_are_no_content_and_scores_are(journal, tmp_path):
    rewards = score(make_scorer(journal, ScriptedJudge(judged(0.5)), TWO_QUESTIONS))
    renamed = {"criteria": [criterion | {"name": f"c{i}"} for i, criterion in enumerate(TWO_QUESTIONS["criteria"][::-1])]}
    other = journal_in(tmp_path / "other")
    same = score(make_scorer(other, ScriptedJudge(judged(0.5, "other words"), cost_usd=9.0), renamed))
    assert data_version(same, "r") == data_version(rewards, "r")
    assert data_version(rewards, "other rubric") != data_version(rewards, "r")
    third = journal_in(tmp_path / "third")
    assert data_version(score(make_scorer(third, ScriptedJudge(judged(0.6)), TWO_QUESTIONS)), "r") != data_version(rewards, "r")
    other.close()
    third.close()


def test_rewards_come_back_from_a_table_as_they_were(journal):
    def answer(messages):
        return "prose" if messages[2].content.count('"read"') == 2 else judged(0.5, 'ünï "quoted"\n')

    trials = [*TRIALS, make_trial(9, outcome=Outcome.FAILED, files={}, turns=(), error="gone")]
    rewards = score(make_scorer(journal, ScriptedJudge(answer), TWO_QUESTIONS), trials)
    assert {reward.reward is None for reward in rewards} == {True, False}
    table = to_table(rewards, "rubric")
    assert table.schema == SCHEMA
    assert from_table(table) == rewards
    assert data_version(from_table(table), "r") == data_version(rewards, "r")

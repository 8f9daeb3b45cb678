import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.errors import InfrastructureError
from rl_assets.core.tally import Tally
from rl_assets.rewards.judge import JudgeRequest, Message
from rl_assets.rewards.rubric import JudgeSettings
from rl_assets.rewards.verdict import Unusable, obtain_verdict, parse_answer
from tests.rooms import ScriptedJudge, journal_in, judged

USABLE = [
    ('{"score": 0.5, "reason": "so"}', 0.5),
    (' \n{"reason": "so", "score": 1}\n', 1.0),
    ('{"score": 0, "reason": ""}', 0.0),
    ('{"score": 1e-3, "reason": "so", "more": [1]}', 0.001),
]
PROSE = "I think it deserves 0.9, well done."
UNUSABLE = {
    "nothing": "",
    "prose": PROSE,
    "prose around it": f"Sure! {judged(0.9)}",
    "a code fence": f"```json\n{judged(0.9)}\n```",
    "two objects": judged(0.9) + judged(0.1),
    "two objects on two lines": judged(0.9) + "\n" + judged(0.1),
    "a list of one": f"[{judged(0.9)}]",
    "a number": "0.9",
    "null": "null",
    "no score": '{"reason": "so"}',
    "no reason": '{"score": 0.9}',
    "true": '{"score": true, "reason": "so"}',
    "a string": '{"score": "0.9", "reason": "so"}',
    "null score": '{"score": null, "reason": "so"}',
    "a reason that is no text": '{"score": 0.9, "reason": 3}',
    "a reason that is no Unicode": '{"score": 0.9, "reason": "\\ud800"}',
    "above": '{"score": 1.0001, "reason": "so"}',
    "below": '{"score": -0.1, "reason": "so"}',
    "percent": '{"score": 90, "reason": "so"}',
    "NaN": '{"score": NaN, "reason": "so"}',
    "infinite": '{"score": Infinity, "reason": "so"}',
    "past all floats": '{"score": 1e999, "reason": "so"}',
    "an enormous whole number": f'{{"score": 1{"0" * 400}, "reason": "so"}}',
    "thousands of digits": f'{{"score": 1{"0" * 5000}, "reason": "so"}}',
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize(("text", "score"), USABLE)
def test_one_object_with_a_score_from_0_to_1_and_a_reason_is_a_verdict(text, score):
    assert parse_answer(text)[0] == score
    assert isinstance(parse_answer(text)[0], float)


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_all_else_is_no_verdict(text):
    with pytest.raises(Unusable):
        parse_answer(text)


leaves = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
objects = st.dictionaries(st.sampled_from(["score", "reason", "x"]), leaves | st.lists(leaves))


@given(st.text() | (leaves | objects | st.lists(objects)).map(json.dumps))
def test_whatever_a_judge_answers_is_a_score_from_0_to_1_or_unusable(text):
    try:
        score, reason = parse_answer(text)
    except Unusable:
        return
    assert 0 <= score <= 1
    reason.encode()


REQUEST = JudgeRequest(messages=(Message("user", "question"),), judge=JudgeSettings())


@pytest.fixture
def journal(tmp_path):
    journal = journal_in(tmp_path / "store")
    yield journal
    journal.close()


def ask(journal, judge, tally, corrections=1):
    return asyncio.run(obtain_verdict(REQUEST, judge, journal, tally, corrections))


def attempts(journal):
    return [json.loads(journal.store.get(path)) for path in sorted(journal.store.list("attempts/verdict/"))]


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_answer_is_billed_and_logged_and_asked_for_again_with_what_was_wrong(journal, text):
    judge, tally = ScriptedJudge(text, judged(0.25)), Tally()
    verdict = ask(journal, judge, tally)
    assert (verdict.score, verdict.n_calls, verdict.n_tokens) == (0.25, 2, 14)
    assert verdict.cost_usd == tally.cost_usd == pytest.approx(0.02)
    assert tally.judge_calls == 2
    (logged,) = attempts(journal)
    assert (logged["answer"], logged["cost_usd"]) == (text, 0.01)
    first, second = judge.asked
    assert second[: len(first)] == first
    assert second[len(first)] == Message("assistant", text)
    assert logged["problem"] in second[-1].content


def test_after_its_corrections_there_is_no_verdict_and_every_answer_is_paid(journal):
    judge, tally = ScriptedJudge(PROSE), Tally()
    with pytest.raises(InfrastructureError, match="no usable answer in 3"):
        ask(journal, judge, tally, corrections=2)
    assert tally.judge_calls == len(judge.asked) == len(attempts(journal)) == 3
    assert tally.cost_usd == pytest.approx(0.03)
    assert list(journal.store.list("journal/verdict/")) == []


def test_a_recorded_verdict_is_not_asked_for_again(journal, tmp_path):
    judge, tally = ScriptedJudge(judged(0.5), judged(0.1)), Tally()
    verdict = ask(journal, judge, tally)
    assert ask(journal, judge, tally) == verdict
    assert ask(journal_in(tmp_path / "store"), judge, other := Tally()) == verdict
    assert len(judge.asked) == 1
    assert tally.snapshot()["judge_calls_recovered"] == 0
    assert (other.snapshot()["judge_calls"], other.snapshot()["judge_calls_recovered"]) == (0, 1)


def test_many_who_ask_at_once_pay_once(journal):
    judge, tally = ScriptedJudge(judged(0.5)), Tally()

    async def run():
        return await asyncio.gather(*(obtain_verdict(REQUEST, judge, journal, tally, 1) for _ in range(20)))

    assert len({verdict.judged_at for verdict in asyncio.run(run())}) == 1
    assert tally.judge_calls == len(judge.asked) == 1


def test_a_judge_that_does_not_answer_is_not_paid(journal):
    tally = Tally()
    with pytest.raises(InfrastructureError, match="away"):
        ask(journal, ScriptedJudge(InfrastructureError("away")), tally)
    assert (tally.judge_calls, tally.cost_usd) == (0, 0.0)

"""Verdicts: one criterion of one trial, asked of a judge at most once, whatever happens.

An answer is recorded the moment it arrives, before anything else can fail. One that cannot be used is kept as an attempt,
with its price, and asked for again with a correction.
"""

import json
import time

from rl_assets.core.errors import InfrastructureError
from rl_assets.core.model import Frozen
from rl_assets.core.tally import Tally
from rl_assets.rewards.judge import Judge, JudgeAnswer, JudgeRequest, Message
from rl_assets.store.journal import Journal

VERDICT_KIND = "verdict"

CORRECTION = """\
That answer cannot be used: {problem}. Answer again with one JSON object, {{"score": number from 0 to 1, "reason": string}}, \
and nothing else."""


class Verdict(Frozen):
    """What a judge said of one criterion of one trial."""

    key: str
    score: float
    reason: str
    model: str
    n_calls: int
    """Answers it took, each of them paid."""
    n_tokens: int
    cost_usd: float
    judged_at: float
    """Seconds since the epoch."""


class Unusable(ValueError):
    """An answer that is no verdict; says why."""


def parse_answer(text: str) -> tuple[float, str]:
    """The score and the reason in a judge's answer.

    Raises:
        Unusable: it is not exactly one JSON object with a score from 0 to 1 and a reason.
    """
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):  # a ValueError without being a JSONDecodeError: a number of thousands of digits
        raise Unusable("it is not one JSON object") from None
    if not isinstance(answer, dict):
        raise Unusable("it is not one JSON object")
    score, reason = answer.get("score"), answer.get("reason")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise Unusable("the score is not a number from 0 to 1")
    if not isinstance(reason, str):
        raise Unusable("the reason is not a string")
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise Unusable("the reason is not valid Unicode") from None
    return float(score), reason


async def obtain_verdict(request: JudgeRequest, judge: Judge, journal: Journal, tally: Tally, corrections: int) -> Verdict:
    """The verdict of a request: the recorded one, or the judge's.

    Args:
        request: what is asked.
        judge: who answers.
        journal: where verdicts are kept.
        tally: counts calls and costs.
        corrections: how often an unusable answer is asked for again.

    Raises:
        InfrastructureError: the judge gave no answer, or none that can be used.
    """
    key = request.key

    async def make() -> bytes:
        messages = request.messages
        spent: list[JudgeAnswer] = []
        while True:
            answer = await judge.ask(messages)
            spent.append(answer)
            tally.judge_calls += 1
            tally.cost_usd += answer.cost_usd
            try:
                score, reason = parse_answer(answer.text)
            except Unusable as problem:
                journal.add_attempt(VERDICT_KIND, key, _attempt(answer, problem))
                if len(spent) > corrections:
                    raise InfrastructureError(f"the judge gave no usable answer in {len(spent)}: {problem}") from None
                correction = Message("user", CORRECTION.format(problem=problem))
                messages = (*messages, Message("assistant", answer.text), correction)
                continue
            tally.verdicts_made.add(key)
            return _record(key, score, reason, spent).model_dump_json().encode()

    recorded = await journal.once(VERDICT_KIND, key, make)
    if recorded.recovered:
        tally.verdicts_recovered.add(key)
    return Verdict.model_validate_json(recorded.data)


def _record(key: str, score: float, reason: str, spent: list[JudgeAnswer]) -> Verdict:
    return Verdict(
        key=key,
        score=score,
        reason=reason,
        model=spent[-1].model,
        n_calls=len(spent),
        n_tokens=sum(answer.n_tokens for answer in spent),
        cost_usd=sum(answer.cost_usd for answer in spent),
        judged_at=time.time(),
    )


def _attempt(answer: JudgeAnswer, problem: Unusable) -> dict[str, object]:
    return {"problem": str(problem), "answer": answer.text, "cost_usd": answer.cost_usd, "at": time.time()}

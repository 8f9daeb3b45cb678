"""Scores trials: verification, verdicts, the weighted sum, the advantage.

A trial of which a part is missing is *unscored*: its reward is None, not 0, and it takes no part in its group.
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rl_assets.core.errors import InfrastructureError
from rl_assets.core.model import Frozen
from rl_assets.core.seeding import stream
from rl_assets.core.tally import Tally
from rl_assets.rewards.advantages import group_advantages
from rl_assets.rewards.judge import Judge, render
from rl_assets.rewards.rubric import Criterion, Rubric
from rl_assets.rewards.settings import Judging
from rl_assets.rewards.verdict import VERDICT_KIND, Verdict, obtain_verdict
from rl_assets.rewards.verifier import Verification, verify
from rl_assets.store.journal import Journal
from rl_assets.trajectories.settings import Faults
from rl_assets.trajectories.trial import Trial
from rl_assets.worlds.world import Files


class Score(Frozen):
    """One criterion of one trial."""

    criterion: str
    weight: float
    source: str
    score: float | None
    verdict: Verdict | None = None
    failed_because: str | None = None


class Reward(Frozen):
    """What a trial earned."""

    trial_id: str
    trial_key: str
    step: int
    world: str
    sample: int
    verification_key: str | None
    verifier_digest: str
    scores: tuple[Score, ...]
    reward: float | None
    """The weighted sum; None when the trial is unscored."""
    advantage: float | None = None
    """None when it takes no part in training."""
    unscored_because: str | None = None

    @property
    def content(self) -> list[object]:
        """What the reward amounts to, whatever the criteria are called and in whatever order; for digests."""
        scores = sorted(
            (score.source, score.weight, score.verdict.key if score.verdict else "", score.score is None, score.score or 0.0)
            for score in self.scores
        )
        return [self.trial_id, self.trial_key, self.verification_key, scores, self.reward, self.advantage]


@dataclass
class Scorer:
    """Scores trials under one rubric. Verdicts go through the journal, so each is made once."""

    rubric: Rubric
    judge: Judge
    verifiers: Mapping[str, tuple[Files, str]]
    """Each world's verifier and its digest."""
    journal: Journal
    tally: Tally
    settings: Judging = Judging()
    faults: Faults = Faults()
    retry_failed: bool = False
    """Whether verdicts that failed before get another go."""
    known: dict[str, Reward] = field(default_factory=dict)
    """Rewards by trial key, without advantages, that were worked out under this rubric and these verifiers; added to."""
    _slots: asyncio.Semaphore = field(init=False)
    _verdicts: dict[str, Verdict] = field(init=False, default_factory=dict)
    """Those that this scorer had already: trials that did the same pose the same request."""

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.settings.concurrency)

    async def score_all(self, trials: Sequence[Trial]) -> list[Reward]:
        """The rewards of whole groups of trials, in the order given, with advantages."""
        return with_advantages(await asyncio.gather(*(self.score(trial) for trial in trials)))

    async def score(self, trial: Trial) -> Reward:
        """The reward of one trial, without its advantage, which needs the group."""
        if trial.key in self.known:
            return self.known[trial.key]
        files, verifier_digest = self.verifiers[trial.world]
        if not trial.outcome.is_result:
            return _reward(trial, None, verifier_digest, (), f"the trial ended as {trial.outcome}")
        verification = verify(trial, files, verifier_digest)
        scores = await asyncio.gather(*(self._criterion(trial, verification, criterion) for criterion in self.rubric.criteria))
        missing = next((score for score in scores if score.score is None), None)
        unscored_because = f"{missing.criterion}: {missing.failed_because}" if missing else None
        reward = _reward(trial, verification, verifier_digest, scores, unscored_because)
        if unscored_because is None:
            self.known[trial.key] = reward
        return reward

    async def _criterion(self, trial: Trial, verification: Verification, criterion: Criterion) -> Score:
        def score(value: float | None, verdict: Verdict | None = None, failed_because: str | None = None) -> Score:
            return Score(
                criterion=criterion.name,
                weight=criterion.weight,
                source=criterion.source,
                score=value,
                verdict=verdict,
                failed_because=failed_because,
            )

        if criterion.source == "verifier":
            return score(verification.score)
        async with self._slots:
            try:
                verdict = await self._judge_task(trial, verification, criterion)
            except InfrastructureError as error:
                return score(None, failed_because=str(error))
        return score(verdict.score, verdict)

    async def _judge_task(self, trial: Trial, verification: Verification, criterion: Criterion) -> Verdict:
        request = render(criterion, self.rubric.judge, trial, verification)
        if not self.retry_failed:
            failure = await self.journal.standing_failure(VERDICT_KIND, request.key)
            if failure is not None:
                raise InfrastructureError(failure.decode())
        for attempt in range(self.settings.retries + 1):
            try:
                if _strikes(self.faults.dead_judge, "dead judge", request.key):
                    raise InfrastructureError("the judge did not answer (injected)")
                verdict = self._verdicts.get(request.key)
                if verdict is None:
                    verdict = await obtain_verdict(request, self.judge, self.journal, self.tally, self.settings.corrections)
                    self._verdicts[request.key] = verdict
                if attempt == 0 and _strikes(self.faults.flaky_judge, "flaky judge", request.key, trial.id):
                    raise InfrastructureError("the judge task died after the answer (injected)")
                return verdict
            except InfrastructureError as error:
                entry = {"attempt": attempt, "error": str(error), "at": time.time()}
                self.journal.add_attempt(VERDICT_KIND, request.key, entry)
                last = error
        self.journal.put_failure(VERDICT_KIND, request.key, str(last).encode())
        raise last


def _strikes(share: float, purpose: str, *parts: str) -> bool:
    return share > 0 and stream(purpose, *parts).random() < share


def _reward(
    trial: Trial,
    verification: Verification | None,
    verifier_digest: str,
    scores: Sequence[Score],
    unscored_because: str | None,
) -> Reward:
    reward = None
    if unscored_because is None:
        reward = math.fsum(score.weight * score.score for score in scores if score.score is not None)
    return Reward(
        trial_id=trial.id,
        trial_key=trial.key,
        step=trial.step,
        world=trial.world,
        sample=trial.sample,
        verification_key=verification.key if verification else None,
        verifier_digest=verifier_digest,
        scores=tuple(scores),
        reward=reward,
        unscored_because=unscored_because,
    )


def with_advantages(rewards: Sequence[Reward]) -> list[Reward]:
    """The same rewards with their advantages; a group is the trials of one world."""
    groups: dict[str, list[int]] = {}
    for index, reward in enumerate(rewards):
        groups.setdefault(reward.world, []).append(index)
    result = list(rewards)
    for members in groups.values():
        for index, advantage in zip(members, group_advantages([rewards[index].reward for index in members]), strict=True):
            result[index] = rewards[index].model_copy(update={"advantage": advantage})
    return result

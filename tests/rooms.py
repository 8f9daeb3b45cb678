"""What the tests of the rooms below Dagster share: small worlds, trials, agents, judges, and the loop in a lab."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rl_assets.core.home import Home
from rl_assets.core.seeding import stream
from rl_assets.core.tally import Tally
from rl_assets.graph.experiment import Experiment, ExperimentSettings
from rl_assets.graph.lab import Lab
from rl_assets.graph.scaffold import QUICKSTART
from rl_assets.rewards.judge import JudgeAnswer, Message
from rl_assets.rewards.rubric import Rubric
from rl_assets.rewards.scoring import Reward, Scorer, with_advantages
from rl_assets.sandbox.memory import MemorySandboxes
from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore
from rl_assets.trajectories.agent import DocumentReader, Ending
from rl_assets.trajectories.rollout import Rollout
from rl_assets.trajectories.settings import Rollouts
from rl_assets.trajectories.trial import Outcome, Trial, TrialSpec, Turn
from rl_assets.worlds.documents import build_documents
from rl_assets.worlds.settings import DocumentWorlds
from rl_assets.worlds.world import World

DIGEST = "0" * 64


def journal_in(folder: Path) -> Journal:
    """A journal on a local store."""
    return Journal(ObjectStore(str(folder)))


def make_worlds(count: int = 3, documents: int = 8, seed: int = 0) -> dict[str, World]:
    """Generated worlds by name."""
    settings = DocumentWorlds(count=count, documents=documents)
    return {name: build_documents(settings, name, seed, Path()) for name in settings.names}


def make_specs(worlds: dict[str, World], agent: Any, samples: int = 2, step: int = 0, seed: int = 0) -> list[TrialSpec]:
    """The trials of a step, in canonical order."""
    return [
        TrialSpec(
            world=name,
            world_digest=worlds[name].digest,
            policy_digest=DIGEST,
            agent=agent.identity,
            seed=seed,
            step=step,
            sample=sample,
        )
        for name in sorted(worlds)
        for sample in range(samples)
    ]


def make_rollout(journal: Journal, worlds: dict[str, World], agent: Any = None, **fields: Any) -> Rollout:
    """A rollout of generated worlds; `settings` may be a dictionary."""
    settings = fields.pop("settings", {})
    defaults: dict[str, Any] = {
        "agent": agent or DocumentReader(max_turns=6),
        "priors": {},
        "worlds": {name: world.agent_files for name, world in worlds.items()},
        "sandboxes": MemorySandboxes(),
        "journal": journal,
        "settings": Rollouts(**settings),
        "tally": Tally(),
    }
    return Rollout(**(defaults | fields))


Act = Callable[[Any, Any, Any], Any]


class Scripted:
    """An agent that does what a function does."""

    def __init__(self, act: Act, name: str = "scripted") -> None:
        self._act = act
        self.identity = {"name": name, "semantics": 1}

    async def act(self, sandbox: Any, prior: Any, random: Any) -> Ending:
        result = self._act(sandbox, prior, random)
        return await result if asyncio.iscoroutine(result) else result


def gave_up(*_: Any) -> Ending:
    """Ends at once, without an answer."""
    return Ending(Outcome.GAVE_UP, ())


def make_trial(
    sample: int = 0,
    world: str = "world_0",
    step: int = 0,
    files: dict[str, str] | None = None,
    reads: Sequence[str] = ("document_0.txt",),
    **fields: Any,
) -> Trial:
    """A trial that read documents and answered."""
    turns = tuple(
        Turn(turn=index, tool="read", argument=f"documents/{name}", output="text", elapsed_s=0.0)
        for index, name in enumerate(reads)
    )
    defaults: dict[str, Any] = {
        "id": f"{step:04d}/{world}/{sample:04d}",
        "key": f"{step:02d}{world}{sample:02d}".encode().hex().ljust(64, "0"),
        "step": step,
        "world": world,
        "sample": sample,
        "world_digest": DIGEST,
        "policy_digest": DIGEST,
        "outcome": Outcome.ANSWERED,
        "turns": turns,
        "files": {"answer.txt": "right"} if files is None else files,
    }
    return Trial(**(defaults | fields))


def make_reward(trial: Trial, reward: float | None, advantage: float | None = None) -> Reward:
    """A reward for a trial, without its criteria."""
    return Reward(
        trial_id=trial.id,
        trial_key=trial.key,
        step=trial.step,
        world=trial.world,
        sample=trial.sample,
        verification_key=DIGEST,
        verifier_digest=DIGEST,
        scores=(),
        reward=reward,
        advantage=advantage,
    )


class ScriptedJudge:
    """A judge that gives the answers of a list (or what a function of the messages says), one a call."""

    def __init__(self, *answers: Any, cost_usd: float = 0.01) -> None:
        self._answers = list(answers)
        self._cost_usd = cost_usd
        self.asked: list[tuple[Message, ...]] = []

    async def ask(self, messages: tuple[Message, ...]) -> JudgeAnswer:
        self.asked.append(messages)
        await asyncio.sleep(0)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        text = answer(messages) if callable(answer) else answer
        if isinstance(text, Exception):
            raise text
        return JudgeAnswer(text, 7, self._cost_usd, "scripted")


def judged(score: float, reason: str = "because") -> str:
    """An answer as a judge should give it."""
    return json.dumps({"score": score, "reason": reason})


ONE_QUESTION = {
    "criteria": [
        {"name": "right", "weight": 1.0, "source": "verifier"},
        {"name": "short", "weight": 0.5, "source": "judge", "question": "Was it short?", "evidence": ["transcript"]},
    ]
}

VERIFIER = {"verifier.toml": b"[verifier]\n", "tests/expected.txt": b"right\n"}


def make_scorer(journal: Journal, judge: Any, rubric: dict[str, Any] | None = None, **fields: Any) -> Scorer:
    """A scorer of three worlds whose right answer is "right"."""
    defaults: dict[str, Any] = {
        "rubric": Rubric.model_validate(rubric or ONE_QUESTION),
        "judge": judge,
        "verifiers": {f"world_{index}": (VERIFIER, DIGEST) for index in range(3)},
        "journal": journal,
        "tally": Tally(),
    }
    return Scorer(**(defaults | fields))


class StepMeans(NamedTuple):
    """Means over the trials of a step."""

    turns: float
    reward: float


def open_lab(folder: Path, seed: int, store_url: str | None = None, **settings: Any) -> Lab:
    """The quickstart, in a home of its own."""
    experiment = Experiment("quickstart", ExperimentSettings(seed=seed, **settings), QUICKSTART, folder)
    return Lab(experiment, Home(folder, store_url or str(folder / "store")))


def train(lab: Lab, shuffled: bool = False) -> tuple[list[StepMeans], str]:
    """The steps' means, and the last weights. Shuffled: what is learnt from are the step's rewards, among its trials."""
    worlds = {name: lab.seal_world(name) for name in lab.lineage.world_names}
    policy, rubric, means = lab.initial_policy(), lab.keep_rubric(), []
    for step in range(lab.lineage.steps):
        _, trials = lab.sample(step, {name: world.digest for name, world in worlds.items()}, policy)
        _, rewards = lab.score(step, trials, rubric, worlds)
        means.append(StepMeans(fmean(len(trial.turns) for trial in trials), fmean(reward.reward for reward in rewards)))
        if shuffled:
            values = [reward.reward for reward in rewards]
            stream("shuffled rewards", lab.experiment.settings.seed, step).shuffle(values)
            given = [reward.model_copy(update={"reward": value}) for reward, value in zip(rewards, values, strict=True)]
            rewards = with_advantages(given)
        policy = lab.learn(step, rewards, policy, rubric.digest).weights_digest
    lab.close()
    return means, policy

"""The loop without Dagster: what recording trials, verdicts and updates costs, and what looking them up again does."""

import asyncio
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from rl_assets.core.home import Home
from rl_assets.graph.experiment import Experiment, ExperimentSettings
from rl_assets.graph.lab import Lab
from rl_assets.graph.scaffold import QUICKSTART
from rl_assets.rewards.judge import build_judge, render
from rl_assets.rewards.verdict import parse_answer
from rl_assets.rewards.verifier import verify
from rl_assets.sandbox.memory import MemorySandboxes
from rl_assets.store.bundles import load_bundle
from rl_assets.trajectories.trial import Trial
from rl_assets.weights.bandit import load_priors
from rl_assets.weights.trainer import Batch, Example
from rl_assets.worlds.world import WORLD_KIND, World

REPOSITORY = Path(__file__).parent.parent

MEMORY = Path("/dev/shm")

SCRATCH = MEMORY if os.access(MEMORY, os.W_OK) else REPOSITORY
"""A file system in memory where there is one: what a new file costs on a disk changes tenfold with what was deleted there in
the last minutes, which is no figure of this code."""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    steps: int = 10
    worlds: int = 30
    samples: int = 10

    @property
    def trials(self) -> int:
        """In all."""
        return self.steps * self.worlds * self.samples

    @property
    def settings(self) -> dict[str, object]:
        """As an experiment has them."""
        return {"steps": self.steps, "worlds": {"count": self.worlds}, "rollouts": {"samples": self.samples}}


@contextmanager
def new_lab(
    settings: dict[str, object], home: Path | None = None, kind: type[Experiment] = Experiment, scratch: Path = SCRATCH
) -> Iterator[Lab]:
    """The quickstart with other settings, in a store of its own (or the given home's), closed in the end."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=scratch) as folder:
        path = home or Path(folder)
        experiment = kind("bench", ExperimentSettings.model_validate(settings), QUICKSTART, path)
        lab = Lab(experiment, Home(path, str(path / "store")))
        try:
            yield lab
        finally:
            lab.close()


def seal(lab: Lab) -> dict[str, World]:
    """Build all worlds of a lab."""
    return {name: lab.seal_world(name) for name in lab.lineage.world_names}


def run_loop(lab: Lab, worlds: dict[str, World]) -> str:
    """Sample, score and learn, step by step, as the assets do; the digest of the last weights."""
    policy = lab.initial_policy()
    rubric = lab.keep_rubric()
    for step in range(lab.lineage.steps):
        used = {name: worlds[name] for name in lab.lineage.worlds_of(step)}
        _, trials = lab.sample(step, {name: world.digest for name, world in used.items()}, policy)
        _, rewards = lab.score(step, trials, rubric, used)
        policy = lab.learn(step, rewards, policy, rubric.digest).weights_digest
    return policy


def run_bare(lab: Lab, worlds: dict[str, World]) -> float:
    """The same reads, agent, verifier, judge and updates in one asyncio loop that records nothing; the last mean reward."""
    settings = lab.experiment.settings
    agent, trainer, rubric = lab.experiment.agent(), lab.experiment.trainer(), lab.experiment.rubric()
    judge, sandboxes = build_judge(rubric.judge, latency_s=0.0), MemorySandboxes()
    slots = asyncio.Semaphore(settings.rollouts.concurrency)

    async def trial(step: int, name: str, sample: int, files: dict[str, bytes], prior: dict[str, float]) -> Example:
        async with slots:
            sandbox = await sandboxes.start(files)
            ending = await agent.act(sandbox, prior, random.Random(f"{step}/{name}/{sample}"))
            left = {path: data.decode() for path, data in (await sandbox.changed()).items()}
        ended = Trial.model_construct(
            id="", key="", step=step, world=name, sample=sample, outcome=ending.outcome, turns=ending.turns, files=left
        )
        verification = verify(ended, worlds[name].verifier_files, "")
        reward = 0.0
        for criterion in rubric.criteria:
            if criterion.source == "verifier":
                score = verification.score
            else:
                request = render(criterion, rubric.judge, ended, verification)
                score, _ = parse_answer((await judge.ask(request.messages)).text)
            reward += criterion.weight * score
        found = ending.turns[-2].argument.removeprefix("documents/") if ending.outcome == "answered" else None
        return Example(trial_key="", world=name, found=found, reward=reward, advantage=None)

    async def loop() -> float:
        weights = trainer.initial()
        mean = math.nan
        for step in range(lab.lineage.steps):
            names = lab.lineage.worlds_of(step)
            priors = load_priors(weights)
            files = {name: load_bundle(lab.store, WORLD_KIND, worlds[name].digest) for name in names}
            tasks = [
                trial(step, name, sample, files[name], priors.get(name, {}))
                for name in names
                for sample in range(settings.rollouts.samples)
            ]
            examples = await asyncio.gather(*tasks)
            weights = trainer.update(weights, Batch(examples=tuple(examples), behaviour=()))
            mean = sum(example.reward for example in examples) / len(examples)
        return mean

    return asyncio.run(loop())


def loop_figures(size: Size, rounds: int) -> Iterator[Figure]:
    """What a trial costs, recorded and looked up again; the best of some rounds, since the machine may be shared."""
    bare, recorded, replayed, on_disk = [], [], [], []
    for _ in range(rounds):
        with new_lab(size.settings) as lab:
            worlds = seal(lab)
            bare.append(_timed(lambda lab=lab, worlds=worlds: run_bare(lab, worlds)))
            recorded.append(_timed(lambda lab=lab, worlds=worlds: run_loop(lab, worlds)))
            with new_lab(size.settings, lab.home.path) as again:
                replayed.append(_timed(lambda lab=again, worlds=worlds: run_loop(lab, worlds)))
            if again.tally.trials_run or again.tally.judge_calls:
                raise RuntimeError("the replay ran what was recorded")
        with new_lab(size.settings, scratch=REPOSITORY) as lab:
            worlds = seal(lab)
            on_disk.append(_timed(lambda lab=lab, worlds=worlds: run_loop(lab, worlds)))
    yield Figure("recorded_trial", min(recorded) / size.trials * 1e3, "ms", bound=3.0, trials=size.trials)
    yield Figure("recorded_trial_on_disk", min(on_disk) / size.trials * 1e3, "ms", bound=3.0, trials=size.trials)
    yield Figure("recorded_over_bare", min(recorded) / min(bare), "ratio", bound=10.0, bare_ms=min(bare) / size.trials * 1e3)
    yield Figure("replayed_trial", min(replayed) / size.trials * 1e3, "ms", bound=0.5, trials=size.trials)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def memory_figure(size: Size) -> Figure:
    """The peak of a process of its own that runs the loop once."""
    code = f"from bench.loop import Size, peak_mb; print(peak_mb(Size({size.steps}, {size.worlds}, {size.samples})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return Figure("peak_memory", float(done.stdout), "MB", bound=500.0, trials=size.trials)


def peak_mb(size: Size) -> float:
    """Run the loop; the most memory that this process ever had resident."""
    with new_lab(size.settings) as lab:
        run_loop(lab, seal(lab))
    status = Path("/proc/self/status")
    if status.exists():  # getrusage counts what the process that started this one had, too
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)

"""What one slow trial does to a step."""

import time
from dataclasses import dataclass
from random import Random

from bench.figure import Figure
from bench.loop import new_lab, seal
from rl_assets.graph.experiment import Experiment
from rl_assets.sandbox.sandbox import Sandbox
from rl_assets.trajectories.agent import Agent, DocumentReader, Ending, Prior


class LastIsSlow(DocumentReader):
    """The tools of the last trial to start take ten times as long as those of the others, which is the worst moment."""

    SLOWER = 10

    def __init__(self, max_turns: int, tool_latency_s: float, trials: int) -> None:
        super().__init__(max_turns, tool_latency_s)
        self._slow = DocumentReader(max_turns, tool_latency_s * self.SLOWER)
        self._to_start = trials

    async def act(self, sandbox: Sandbox, prior: Prior, random: Random) -> Ending:
        self._to_start -= 1
        return await (super().act if self._to_start else self._slow.act)(sandbox, prior, random)


@dataclass(frozen=True)
class Straggling(Experiment):
    """An experiment with such an agent."""

    def agent(self) -> Agent:
        rollouts = self.settings.rollouts
        trials = self.settings.worlds.count * rollouts.samples
        return LastIsSlow(rollouts.max_turns, rollouts.tool_latency_s, trials)


def straggler_figure(worlds: int, samples: int, latency_s: float) -> Figure:
    """
    How much longer a step with a straggler takes, as a share of the straggler's own time.

    Trials and judge are slow alike, so that scoring that waited for the straggler would show.
    """
    settings = {
        "steps": 1,
        "worlds": {"count": worlds},
        "rollouts": {"samples": samples, "tool_latency_s": latency_s},
        "judging": {"latency_s": latency_s},
    }
    without, _ = _step(settings, Experiment)
    with_one, slowest_s = _step(settings, Straggling)
    return Figure(
        "straggler_over_itself",
        (with_one - without) / slowest_s,
        "ratio",
        bound=1.1,
        step_s=without,
        step_with_straggler_s=with_one,
        straggler_s=slowest_s,
        trials=worlds * samples,
    )


def _step(settings: dict[str, object], kind: type[Experiment]) -> tuple[float, float]:
    """Seconds that a step takes, and that its slowest trial took."""
    with new_lab(settings, kind=kind) as lab:
        worlds = seal(lab)
        rubric, policy = lab.keep_rubric(), lab.initial_policy()
        started = time.perf_counter()
        _, trials = lab.sample(0, {name: world.digest for name, world in worlds.items()}, policy)
        _, rewards = lab.score(0, trials, rubric, worlds)
        lab.learn(0, rewards, policy, rubric.digest)
        return time.perf_counter() - started, max(trial.elapsed_s for trial in trials)

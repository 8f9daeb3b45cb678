"""Runs trials: many at once, each with a deadline and retries, each recorded in the journal the moment it ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rl_assets.core.errors import DeadlineExceeded, InfrastructureError, SandboxDied
from rl_assets.core.seeding import stream
from rl_assets.core.tally import Tally
from rl_assets.sandbox.sandbox import SandboxFactory
from rl_assets.store.journal import Journal
from rl_assets.trajectories.agent import Agent, Ending, Prior
from rl_assets.trajectories.settings import Faults, Rollouts
from rl_assets.trajectories.trial import TRIAL_KIND, Outcome, Trial, TrialSpec
from rl_assets.version import VERSION
from rl_assets.worlds.world import Files

Landed = Callable[[Trial], Awaitable[None]]
"""What to do with a trial once it has ended, such as judging it."""


@dataclass(frozen=True)
class Rollout:
    """What all trials of a step share."""

    agent: Agent
    priors: Mapping[str, Prior]
    """The policy, by world."""
    worlds: Mapping[str, Files]
    """The sealed worlds, by name."""
    sandboxes: SandboxFactory
    journal: Journal
    settings: Rollouts
    tally: Tally
    faults: Faults = Faults()
    retry_failed: bool = False
    """Whether trials that failed before get another go."""


async def run_trials(rollout: Rollout, specs: Iterable[TrialSpec], landed: Landed | None = None) -> list[Trial]:
    """Run trials that are not recorded, and look up those that are; in canonical order, whatever the order of ending.

    `landed` is awaited for each trial as soon as it ends, beside the trials still running. A trial that fails is
    returned like any other.
    """
    waiting = iter(specs)
    trials: list[Trial] = []

    async def work(group: asyncio.TaskGroup) -> None:
        for spec in waiting:
            trial = await _trial(rollout, spec)
            trials.append(trial)
            if landed is not None:
                group.create_task(_call(landed, trial))

    async with asyncio.TaskGroup() as group:
        for _ in range(rollout.settings.concurrency):
            group.create_task(work(group))
    return sorted(trials, key=lambda trial: trial.order)


async def _call(landed: Landed, trial: Trial) -> None:
    await landed(trial)


async def _trial(rollout: Rollout, spec: TrialSpec) -> Trial:
    journal = rollout.journal
    if not rollout.retry_failed:
        failed = await journal.standing_failure(TRIAL_KIND, spec.key)
        if failed is not None:
            trial = Trial.model_validate_json(failed)
            rollout.tally.trials_failed.add(spec.key)
            return trial

    async def make() -> bytes:
        return await _attempt_until_done(rollout, spec)

    try:
        recorded = await journal.once(TRIAL_KIND, spec.key, make)
    except InfrastructureError as error:
        trial = _failed(spec, error, attempts=rollout.settings.retries + 1)
        journal.put_failure(TRIAL_KIND, spec.key, trial.model_dump_json().encode())
        rollout.tally.trials_failed.add(spec.key)
        return trial
    if recorded.recovered:
        rollout.tally.trials_recovered.add(spec.key)
    else:
        rollout.tally.trials_run.add(spec.key)
    return Trial.model_validate_json(recorded.data)


async def _attempt_until_done(rollout: Rollout, spec: TrialSpec) -> bytes:
    attempts = rollout.settings.retries + 1
    for attempt in range(attempts):
        try:
            return await _attempt(rollout, spec, attempt)
        except InfrastructureError as error:
            entry = {"attempt": attempt, "id": spec.id, "error": f"{type(error).__name__}: {error}", "at": time.time()}
            rollout.journal.add_attempt(TRIAL_KIND, spec.key, entry)
            if attempt == attempts - 1:
                raise
    raise AssertionError("unreachable")


async def _attempt(rollout: Rollout, spec: TrialSpec, attempt: int) -> bytes:
    settings = rollout.settings
    started = time.perf_counter()
    deadline = asyncio.timeout(settings.deadline_s)
    try:
        async with deadline:
            ending, files = await _act(rollout, spec, attempt)
        trial = _ended(rollout, spec, ending, files, attempt, time.perf_counter() - started)
        return trial.model_dump_json().encode()
    except InfrastructureError:
        raise
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this trial: it came from inside, and would end the worker without a word.
        raise InfrastructureError(f"trial {spec.id}: cancelled by its own agent or sandbox") from None
    except Exception as error:
        # A tool may time out of its own; only the deadline's own expiry is the trial's.
        if isinstance(error, TimeoutError) and deadline.expired():
            raise DeadlineExceeded(f"trial {spec.id} did not end within {settings.deadline_s:g} s") from None
        raise InfrastructureError(f"trial {spec.id}: {type(error).__name__}: {error}") from error


def _identity(spec: TrialSpec) -> dict[str, Any]:
    """The fields of a trial that follow from its spec, and the version that is recorded beside them."""
    same = {"id", "key", "step", "world", "sample", "world_digest", "policy_digest"}
    return {name: getattr(spec, name) for name in same} | {"version": VERSION}


def _ended(
    rollout: Rollout, spec: TrialSpec, ending: Ending, files: Mapping[str, bytes], attempt: int, elapsed_s: float
) -> Trial:
    return Trial(
        **_identity(spec),
        outcome=ending.outcome,
        turns=ending.turns,
        files={path: data.decode("utf-8", "replace") for path, data in sorted(files.items())},
        attempts=attempt + 1,
        elapsed_s=round(elapsed_s, 6),
        sandbox=type(rollout.sandboxes).__name__,
    )


async def _act(rollout: Rollout, spec: TrialSpec, attempt: int) -> tuple[Ending, Mapping[str, bytes]]:
    sandbox = await rollout.sandboxes.start(rollout.worlds[spec.world])
    try:
        if _dies(rollout.faults, spec, attempt):
            raise SandboxDied(f"trial {spec.id}: the sandbox died (injected)")
        ending = await rollout.agent.act(sandbox, rollout.priors.get(spec.world, {}), stream("trial", spec.key))
        return ending, await sandbox.changed()
    finally:
        await sandbox.stop()


def _dies(faults: Faults, spec: TrialSpec, attempt: int) -> bool:
    if spec.id in faults.dead_trials:
        return True
    if attempt > 0 or not faults.flaky_trials:
        return False
    return stream("flaky trial", spec.key).random() < faults.flaky_trials


def _one_line(error: Exception) -> str:
    # What an agent raises may hold anything, also what is no Unicode and could not be written into a record.
    return " ".join(str(error).encode("utf-8", "replace").decode().split())


def _failed(spec: TrialSpec, error: InfrastructureError, attempts: int) -> Trial:
    return Trial(
        **_identity(spec),
        outcome=Outcome.DEADLINE if isinstance(error, DeadlineExceeded) else Outcome.FAILED,
        error=_one_line(error),
        attempts=attempts,
    )

"""`train` and `rejudge`: bring steps up to date, in order."""

import os
import signal
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rl_assets.cli.report import Report, build_report, count_recovered, kept_rewards, kept_trials
from rl_assets.cli.session import Session
from rl_assets.core.errors import UsageError
from rl_assets.graph.event_log import latest_versions
from rl_assets.graph.lab import Lab
from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.plan import State
from rl_assets.graph.staleness import plan_of, up_to_date_evaluations
from rl_assets.rewards.rubric import parse_rubric, read_rubric_text
from rl_assets.store.bundles import has_bundle
from rl_assets.store.tables import current_version
from rl_assets.trajectories.trial import Trial
from rl_assets.worlds.world import WORLD_KIND


def train(session: Session, steps: int | None, retry_failed: bool, console: Console) -> Report:
    """Bring steps 0 to `steps` - 1 (all by default) up to date, on policy; what is recorded is replayed.

    Raises:
        UsageError: the experiment has fewer steps.
        RunFailed: a step failed.
    """
    total = session.lab.lineage.steps
    if steps is not None and steps < 1:
        raise UsageError(f"--steps {steps}: give 1 or more")
    if steps is not None and steps > total:
        name = session.experiment.name
        raise UsageError(
            f"--steps {steps}: {name} has {total} steps; raise `steps` in its defs.yaml or give --set steps={steps}"
        )
    return _bring_up_to_date(session, list(range(steps or total)), True, retry_failed, console)


def rejudge(session: Session, rubric: str | None, on_policy: bool, retry_failed: bool, console: Console) -> Report:
    """Score the steps that were sampled again and train the chain again; with `on_policy`, sample stale ones again too.

    `rubric` is the text of a rubric to put in the place of the experiment's, once nothing speaks against the work.

    Raises:
        UsageError: nothing was sampled yet.
        RunFailed: a step failed.
    """
    session.lab.worlds()
    lab = session.lab
    kept = any(current_version(lab.store, lab.table("trajectories", step)) for step in range(lab.lineage.steps))
    # Dagster's home is not made for a command that has nothing to do.
    sampled = plan_of(session.instance, lab).states["trajectories"] if kept else {}
    steps = [int(key) for key, state in sampled.items() if state.state is not State.MISSING]
    if not steps:
        raise UsageError(f"{session.experiment.name} has no trials to judge yet: rl-assets train {session.experiment.name}")
    if rubric is not None:
        replace_rubric(session, rubric)
    return _bring_up_to_date(session, steps, on_policy, retry_failed, console)


def rubric_text(file: Path) -> str:
    """The text of a rubric file, once it is known to be right; ConfigError when it is not."""
    text = read_rubric_text(file)
    parse_rubric(text, str(file))
    return text


def replace_rubric(session: Session, text: str) -> None:
    """Make a text the experiment's rubric, atomically."""
    target = session.experiment.rubric_path
    if not target.exists() or text.encode() != target.read_bytes():
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)


def _bring_up_to_date(session: Session, steps: list[int], on_policy: bool, retry_failed: bool, console: Console) -> Report:
    started = time.monotonic()
    lab = session.lab
    lab.retry_failed = retry_failed
    with session.working(), _progress(session, steps, console) as progress:
        try:
            if on_policy and _worlds_changed(session):
                session.run_worlds()
            for step in steps:
                first = _first_to_make(session, step, on_policy)
                count_recovered(lab, step, STEP_ASSETS[: STEP_ASSETS.index(first)] if first else STEP_ASSETS)
                if first is not None:
                    updates = len(lab.tally.updates_run)
                    session.run_step(step_key(step), STEP_ASSETS[STEP_ASSETS.index(first) :])
                    if step == session.experiment.settings.faults.crash_after_step and len(lab.tally.updates_run) > updates:
                        os.kill(os.getpid(), signal.SIGKILL)
                progress.step_done()
        finally:
            for evaluation in up_to_date_evaluations(lab, plan_of(session.instance, lab)):
                session.instance.report_runless_asset_event(evaluation)
        return build_report(lab, steps, started)


def _worlds_changed(session: Session) -> bool:
    worlds = plan_of(session.instance, session.lab, [0]).states["worlds"]
    if any(state.state is not State.FRESH for state in worlds.values()):
        return True
    store = session.lab.store
    return not all(has_bundle(store, WORLD_KIND, world.digest) for world in session.lab.worlds().values())


def _first_to_make(session: Session, step: int, on_policy: bool) -> str | None:
    """The first of a step's assets that must be made again; those after it follow."""
    plan = plan_of(session.instance, session.lab, [step])
    for asset in STEP_ASSETS:
        if session.lab.retry_failed and _has_failures(session.lab, asset, step):
            return asset
        if asset == "trajectories" and not on_policy:
            continue
        if plan.state(asset, step_key(step)) is not State.FRESH or not _kept(session, asset, step):
            return asset
    return None


def _has_failures(lab: Lab, asset: str, step: int) -> bool:
    match asset:
        case "trajectories":
            return any(not trial.outcome.is_result for trial in kept_trials(lab, step))
        case "rewards":
            return any(reward.reward is None for reward in kept_rewards(lab, step))
    return False


def _kept(session: Session, asset: str, step: int) -> bool:
    """Whether the store's current version of a step is the one that Dagster's log tells of.

    It is not when the store is another one than before, or when a process was killed between the two.
    """
    logged = latest_versions(session.instance, session.experiment.name, asset, [step_key(step)]).get(step_key(step))
    version = current_version(session.lab.store, session.lab.table(asset, step))
    return version is not None and version.data_version == logged


class _StepProgress:
    """A bar of steps and one of the trials of the running step; nothing where there is no terminal."""

    def __init__(self, progress: Progress, steps: int, trials: int) -> None:
        self.progress = progress
        self.steps = progress.add_task("steps", total=steps)
        self.trials = progress.add_task("trials", total=trials)

    def trial_done(self, trial: Trial) -> None:
        self.progress.advance(self.trials)

    def step_done(self) -> None:
        self.progress.advance(self.steps)
        self.progress.reset(self.trials)

    def __enter__(self) -> "_StepProgress":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


def _progress(session: Session, steps: list[int], console: Console) -> _StepProgress:
    settings = session.experiment.settings
    per_step = len(session.lab.lineage.worlds_of(0)) * settings.rollouts.samples
    columns = (TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    progress = _StepProgress(bars, len(steps), per_step)
    session.lab.on_trial = progress.trial_done
    return progress

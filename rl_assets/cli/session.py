"""One command at work: its project, experiment, lab and Dagster instance, and the right to work alone."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import Timeout

from rl_assets.core.errors import RlAssetsError
from rl_assets.graph.build import build_experiment
from rl_assets.graph.event_log import unobserved
from rl_assets.graph.lab import Lab
from rl_assets.graph.names import asset_key, pool_name, train_job
from rl_assets.graph.project import Project, open_instance
from rl_assets.graph.runs import fail_dead_runs, process_tags, running_runs, set_pool_limit

POLL_S = 1.0
"""Seconds between looks at runs that are waited for."""

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config that keeps Dagster's log off the terminal; it is in the instance all the same."""


class RunFailed(RlAssetsError):
    """A Dagster run of this command failed."""


class Session:
    """What a command works with."""

    def __init__(
        self,
        experiment: str,
        overrides: dict[str, Any] | None = None,
        faults: dict[str, Any] | None = None,
        rubric_is_replaced: bool = False,
    ) -> None:
        self.project = Project.find(Path.cwd())
        found = self.project.experiment(experiment, overrides)
        self.experiment = found.with_faults(**faults) if faults else found
        if not rubric_is_replaced:
            self.experiment.rubric()  # a rubric that is not right is said before anything is changed
        self.lab = Lab(self.experiment, self.project.home)

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        """Opened, and made if need be, when first needed."""
        return open_instance(self.project.home)

    @cached_property
    def definitions(self) -> dg.Definitions:
        """Of this experiment alone."""
        return build_experiment(self.lab)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work alone on the experiment: hold its lock while no other process runs it; then tell Dagster what it missed."""
        self.lab.worlds()  # sources that are not right are said before anything is changed
        self._wait_for_the_lock()
        try:
            self.lab.journal.owner.start()  # before anything is written, so that what a crash leaves half-written is swept
            set_pool_limit(self.instance, pool_name(self.experiment.name))
            for event in unobserved(self.instance, self.experiment.name, self.lab.found()):
                self.instance.report_runless_asset_event(event)
            yield
        finally:
            self.lab.lock.release(force=True)
            self.lab.close()

    def _wait_for_the_lock(self) -> None:
        name, lock = self.experiment.name, self.lab.lock
        said: set[str] = set()

        def say(message: str) -> None:
            if message not in said:
                said.add(message)
                print(message, file=sys.stderr)

        while True:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                say(f"another process works on {name}; waiting for it to end")
                lock.acquire()
            fail_dead_runs(self.instance, name)
            runs = running_runs(self.instance, name)
            if not runs:
                return
            # A run that the daemon started waits for the lock itself, so it is let go while waiting. Queued runs are not
            # waited for: there may be no daemon, and one that starts later waits for the lock.
            lock.release(force=True)
            say(f"waiting for run {runs[0].run_id} of {name}; cancel it in the web UI if it is gone")
            time.sleep(POLL_S)

    def run_step(self, key: str, assets: tuple[str, ...]) -> None:
        """Make a step's assets in a Dagster run in this process.

        Raises:
            RunFailed: it failed; one line that says why and where to look.
        """
        job = self.definitions.resolve_job_def(train_job(self.experiment.name))
        self._execute(
            job,
            f"step {key}",
            partition_key=key,
            asset_selection=[asset_key(self.experiment.name, asset) for asset in assets],
        )

    def run_worlds(self) -> None:
        """Build all worlds in one Dagster run; RunFailed when that fails."""
        names = self.lab.lineage.world_names
        self._execute(
            self.definitions.resolve_implicit_global_asset_job_def(),
            "building worlds",
            asset_selection=[asset_key(self.experiment.name, "worlds")],
            tags={"dagster/asset_partition_range_start": names[0], "dagster/asset_partition_range_end": names[-1]},
        )

    def _execute(self, job: dg.JobDefinition, what: str, tags: dict[str, str] | None = None, **arguments: Any) -> None:
        result = job.execute_in_process(
            instance=self.instance,
            run_config=QUIET,
            tags={**process_tags(self.experiment.name), **(tags or {})},
            raise_on_error=False,
            **arguments,
        )
        if not result.success:
            if _was_interrupted(result):
                raise KeyboardInterrupt
            reason = _reason(result)
            raise RunFailed(f"{what} failed: {reason} (run {result.run_id}; `rl-assets dev` shows it)")


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    return any(error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in failures)


def _reason(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            if failure.user_failure_data and failure.user_failure_data.description:
                return str(failure.user_failure_data.description)
            error = failure.error
            while error is not None and error.cause is not None:
                error = error.cause
            if error is not None:
                return error.message.strip().splitlines()[0]
    return "see its log"

"""A real `dg dev` (web server and daemon) of a test's own, spoken to as a browser does."""

import contextlib
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import psutil
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.names import asset_key, train_job
from tests.support import Workplace

Value = TypeVar("Value")

MARK = "RL_ASSETS_TEST_SERVER"
"""An environment variable that every process of a server inherits, and so is known by."""

LOCATION = {"repositoryLocationName": "elsewhere", "repositoryName": "__repository__"}

LAUNCH_BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}"""

RELOAD = """
mutation($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on WorkspaceLocationEntry { loadStatus locationOrLoadError { __typename ... on PythonError { message } } }
  }
}"""

LAUNCH_RUN = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}"""

TERMINATE = "mutation($id: String!) { terminateRun(runId: $id, terminatePolicy: MARK_AS_CANCELED_IMMEDIATELY) { __typename } }"
CANCEL_BACKFILL = "mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }"
START_SENSOR = "mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) { __typename } }"


def wait_for(what: str, look: Callable[[], Value], timeout_s: float = 300.0, every_s: float = 0.25) -> Value:
    """The first true thing that `look` answers."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(every_s)


@dataclass(frozen=True)
class Run:
    """A run as Dagster's log has it."""

    id: str
    experiment: str
    status: str
    step: str
    assets: tuple[str, ...]
    tags: dict[str, str]
    created: float
    start: float | None
    end: float | None

    @property
    def finished(self) -> bool:
        return self.status in ("SUCCESS", "FAILURE", "CANCELED")


@dataclass
class Server:
    """`rl-assets dev` in a workplace."""

    place: Workplace
    port: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: subprocess.Popen[bytes] | None = None
    _instance: dg.DagsterInstance | None = None

    @property
    def log(self) -> Path:
        return self.place.root / "dev.log"

    def start(self) -> "Server":
        """Start it, and wait until the web server answers and the code location is loaded."""
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.place.command("dev", "--port", str(self.port)),
                cwd=self.place.root,
                env=self.place.environment(**{MARK: self.mark}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for("dg dev answers", self._answers)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            return (
                self.query("{ repositoriesOrError { __typename } }")["repositoriesOrError"]["__typename"]
                == "RepositoryConnection"
            )
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def stop(self) -> None:
        """Stop it as Ctrl-C does; then none of its processes may be left."""
        self.close_instance()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(AssertionError):
            wait_for("all processes gone", lambda: not self.processes(), 60)
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, 10)
        if self.process is not None:
            self.process.wait(10)
            self.process = None
        assert not self.processes(), "processes of dg dev outlive kill -9"
        assert not left, f"processes of dg dev outlived it: {left}"

    def processes(self) -> list[psutil.Process]:
        """Every living process of this server: web server, daemon, code server, runs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def query(self, text: str, **variables: Any) -> dict[str, Any]:
        """Ask the web server."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": text, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def backfill(self, experiment: str, assets: Sequence[str] = STEP_ASSETS, steps: Sequence[int] | None = None) -> str:
        """Launch an asset backfill as the web UI does: of all partitions, or of these steps; its id."""
        params: dict[str, Any] = {"assetSelection": _paths(experiment, assets)}
        if steps is None:
            params["allPartitions"] = True
        else:
            params["partitionNames"] = [step_key(step) for step in steps]
        answer = self.query(LAUNCH_BACKFILL, params=params)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return answer["backfillId"]

    def launch(self, experiment: str, step: int, assets: Sequence[str] = STEP_ASSETS) -> str:
        """Launch a run of one step as the web UI does; its id."""
        selector = {**LOCATION, "jobName": train_job(experiment), "assetSelection": _paths(experiment, assets)}
        tags = [{"key": "dagster/partition", "value": step_key(step)}]
        params = {"selector": selector, "mode": "default", "runConfigData": {}, "executionMetadata": {"tags": tags}}
        answer = self.query(LAUNCH_RUN, params=params)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def reload(self) -> None:
        """Load the definitions again, as they are on disk now."""
        answer = self.query(RELOAD, location="elsewhere")["reloadRepositoryLocation"]
        assert answer["__typename"] == "WorkspaceLocationEntry", answer
        assert answer["locationOrLoadError"]["__typename"] == "RepositoryLocation", answer

    def turn_on(self, sensor: str) -> None:
        """Start a sensor."""
        answer = self.query(START_SENSOR, selector={**LOCATION, "sensorName": sensor})
        assert answer["startSensor"]["__typename"] == "Sensor", answer

    @property
    def instance(self) -> dg.DagsterInstance:
        """Dagster's instance of the home, to read from."""
        if self._instance is None:
            self._instance = self.place.instance()
        return self._instance

    def close_instance(self) -> None:
        """Let go of the home."""
        if self._instance is not None:
            self._instance.dispose()
            self._instance = None

    def runs(self, experiment: str, since: float = 0.0) -> list[Run]:
        """The runs that make an experiment's assets, in the order they were created, from a moment on."""
        found = []
        for record in self.instance.get_run_records(ascending=True):
            run = record.dagster_run
            keys = run.asset_selection or ()
            if not any(key.path[0] == experiment for key in keys) or record.create_timestamp.timestamp() < since:
                continue
            found.append(
                Run(
                    id=run.run_id,
                    experiment=experiment,
                    status=run.status.value,
                    step=run.tags.get("dagster/partition", ""),
                    assets=tuple(sorted(key.path[-1] for key in keys)),
                    tags=dict(run.tags),
                    created=record.create_timestamp.timestamp(),
                    start=record.start_time,
                    end=record.end_time,
                )
            )
        return found

    def run(self, experiment: str, run_id: str) -> Run:
        """A run, as it is now."""
        return next(run for run in self.runs(experiment) if run.id == run_id)

    def of(self, experiment: str, backfill: str) -> list[Run]:
        """The runs of a backfill."""
        return [run for run in self.runs(experiment) if run.tags.get("dagster/backfill") == backfill]

    def ended(self, experiment: str, backfill: str, count: int, timeout_s: float = 400.0) -> list[Run]:
        """
        The runs of a backfill, once there are so many and each has ended.

        The backfill's own status is not waited for: the daemon looks at it every 30 s only.
        """

        def look() -> list[Run]:
            runs = self.of(experiment, backfill)
            return runs if len(runs) >= count and all(run.finished for run in runs) else []

        runs = wait_for(f"{count} runs of backfill {backfill} of {experiment} end", look, timeout_s)
        assert len(runs) == count
        return runs

    def cancel_all(self, experiment: str) -> None:
        """Cancel what is queued or active of an experiment, and wait until its processes are gone."""
        for backfill in self.instance.get_backfills(BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
            if any(key.path[0] == experiment for key in backfill.asset_selection or ()):
                self.query(CANCEL_BACKFILL, id=backfill.backfill_id)
        for run in self.runs(experiment):
            if not run.finished:
                self.query(TERMINATE, id=run.id)

    def idle(self, experiment: str, timeout_s: float = 400.0) -> None:
        """Wait until no run of an experiment is queued or active."""
        wait_for(f"{experiment} idle", lambda: all(run.finished for run in self.runs(experiment)), timeout_s)

    def work(self, experiment: str, runs: Sequence[Run], name: str) -> int:
        """What runs did of one kind, by the receipts in their materializations."""
        ids = {run.id for run in runs}
        total = 0
        for asset in STEP_ASSETS:
            for record in self.instance.fetch_materializations(asset_key(experiment, asset), limit=1000).records:
                if record.run_id in ids and record.asset_materialization is not None:
                    value = record.asset_materialization.metadata.get(name)
                    total += value.value or 0 if isinstance(value, dg.IntMetadataValue) else 0
        return total

    def failure(self, run_id: str) -> str:
        """All that a run's log says about how it ended."""
        lines = []
        for entry in self.instance.all_logs(run_id):
            event = entry.dagster_event
            if event is None:
                continue
            if event.is_step_failure and event.step_failure_data.user_failure_data:
                lines.append(event.step_failure_data.user_failure_data.description or "")
            if (
                event.is_step_failure
                or event.is_run_failure
                or event.event_type_value in ("PIPELINE_CANCELED", "PIPELINE_FAILURE")
            ):
                lines.append(event.message or "")
        return "\n".join(lines)


def _paths(experiment: str, assets: Sequence[str]) -> list[dict[str, list[str]]]:
    return [{"path": [experiment, asset]} for asset in assets]


@contextlib.contextmanager
def served(root: Path) -> Iterator[Server]:
    """A server in a workplace of its own, stopped at the end whatever happens."""
    place = Workplace.make(root)
    server = Server(place)
    try:
        yield server
    finally:
        server.stop()

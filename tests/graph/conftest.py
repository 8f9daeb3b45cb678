"""An experiment driven in the test's own process, on a Dagster instance on disk, with Dagster's resolver at hand."""

import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleCause, StaleCauseCategory
from dagster._core.loader import LoadingContextForTest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from rl_assets.cli import train as command
from rl_assets.cli.report import Report
from rl_assets.cli.session import QUIET, Session
from rl_assets.graph.event_log import latest_versions, unobserved
from rl_assets.graph.lineage import STEP_ASSETS, name_of, step_key
from rl_assets.graph.names import asset_key, train_job
from rl_assets.graph.plan import Cause, Plan, SettingsChanged, SourceChanged
from rl_assets.graph.staleness import plan_of
from tests.support import Workplace

Stale = dict[str, dict[str, list[str]]]
"""By asset and partition, why it is stale; what is fresh or missing is left out."""

TRAINED = {
    "quickstart": {},
    "five": {"steps": 5},
    # A world a step, and a step that shares its world with an earlier one.
    "rota": {"steps": 4, "worlds__per_step": 1, "rollouts__samples": 2},
}
"""Experiments that are trained once for all tests, and copied for each."""


@dataclass
class Loop:
    """One experiment of a project."""

    place: Workplace
    name: str = "quickstart"

    def __post_init__(self) -> None:
        self.instance = self.place.instance()

    def session(self, **settings: Any) -> Session:
        return Session(self.name, {name.replace("__", "."): value for name, value in settings.items()})

    def train(self, steps: int | None = None, retry_failed: bool = False, **settings: Any) -> Report:
        """As `rl-assets train` does."""
        return command.train(self.session(**settings), steps, retry_failed, Console(file=io.StringIO()))

    def rejudge(self, on_policy: bool = False, **settings: Any) -> Report:
        """As `rl-assets rejudge` does."""
        return command.rejudge(self.session(**settings), None, on_policy, False, Console(file=io.StringIO()))

    def run(
        self, step: int, *assets: str, run_tags: Mapping[str, str] | None = None, **settings: Any
    ) -> dg.ExecuteInProcessResult:
        """Materialize assets of a step by hand (all by default): nothing is observed beforehand."""
        job = self.place.definitions(self.name, **settings).resolve_job_def(train_job(self.name))
        return job.execute_in_process(
            instance=self.instance,
            partition_key=step_key(step),
            asset_selection=[asset_key(self.name, asset) for asset in assets or STEP_ASSETS],
            run_config=QUIET,
            tags=dict(run_tags or {}),
            raise_on_error=False,
        )

    def build_worlds(self) -> None:
        self.session().run_worlds()

    def observe(self, *assets: str, **settings: Any) -> None:
        """Tell Dagster what the files and the store hold of some observed assets."""
        found = self.place.lab(self.name, **settings).found()
        for event in unobserved(self.instance, self.name, {asset: found[asset] for asset in assets}):
            self.instance.report_runless_asset_event(event)

    def overlay(self, world: str, path: str, text: str) -> None:
        """Put a file into a world."""
        file = self.place.folder(self.name) / "worlds" / world / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def plan(self, **settings: Any) -> Plan:
        return plan_of(self.instance, self.place.lab(self.name, **settings))

    def versions(self, asset: str) -> dict[str, str]:
        """The latest data versions."""
        return latest_versions(self.instance, self.name, asset)

    def materialized(self, asset: str) -> dict[str, int]:
        """By partition, the storage id of the latest materialization."""
        return dict(
            self.instance.event_log_storage.get_latest_storage_id_by_partition(
                asset_key(self.name, asset), dg.DagsterEventType.ASSET_MATERIALIZATION
            )
        )

    def materialization(self, asset: str, partition: str) -> dg.AssetMaterialization:
        """The latest of a partition."""
        found = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=asset_key(self.name, asset), asset_partitions=[partition]), limit=1
        ).records[0]
        assert found.asset_materialization is not None
        return found.asset_materialization

    def resolved(self, **settings: Any) -> tuple[dict[str, dict[str, str]], Stale]:
        """Every partition's state by Dagster's own resolver, and the causes of those that are stale."""
        lab = self.place.lab(self.name, **settings)
        graph = self.place.definitions(self.name, **settings).resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        states: dict[str, dict[str, str]] = {}
        stale: Stale = {}
        for asset in ("worlds", *STEP_ASSETS):
            states[asset] = {}
            for key in lab.lineage.partitions(asset):
                states[asset][key] = resolver.get_status(asset_key(self.name, asset), key).name.lower()
                causes = resolver.get_stale_causes(asset_key(self.name, asset), key)
                if causes:
                    stale.setdefault(asset, {})[key] = sorted({_dagsters(cause) for cause in causes})
        return states, stale

    def stale(self, **settings: Any) -> Stale:
        """What Dagster's resolver calls stale and why, once the bulk plan is seen to say the same of every partition."""
        states, stale = self.resolved(**settings)
        plan = self.plan(**settings)
        assert _states(plan) == states
        assert _causes(plan) == stale
        return stale

    def every_step(self, *causes: str) -> dict[str, list[str]]:
        return {key: sorted(causes) for key in self.place.lab(self.name).lineage.partitions("trajectories")}


def queued_run(
    loop: Loop,
    step: int,
    *assets: str,
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.QUEUED,
    tags: Mapping[str, str] | None = None,
) -> dg.DagsterRun:
    """A run in Dagster's log that nobody executes."""
    job = loop.place.definitions(loop.name).resolve_job_def(train_job(loop.name))
    return loop.instance.create_run_for_job(
        job,
        status=status,
        remote_job_origin=RemoteJobOrigin(
            RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("elsewhere"), "__repository__"), job.name
        ),
        asset_selection=frozenset(asset_key(loop.name, asset) for asset in assets),
        tags={"dagster/partition": step_key(step), **(tags or {})},
    )


def failure(result: dg.ExecuteInProcessResult) -> str:
    """The description of the one failure that a run must have ended with, as the web UI shows it."""
    assert not result.success
    [event] = [event for event in result.all_events if event.is_step_failure]
    data = event.step_failure_data.user_failure_data
    assert data is not None, event.step_failure_data.error_display_string
    assert data.description is not None
    assert "Traceback" not in data.description
    assert len(data.description.splitlines()) == 1
    return data.description


def _dagsters(cause: StaleCause) -> str:
    if cause.category is StaleCauseCategory.CODE:
        return "settings"
    assert cause.dependency is not None
    return name_of(cause.dependency.asset_key.path[-1], cause.dependency.partition_key or "")


def _ours(cause: Cause) -> str:
    return "settings" if isinstance(cause, SettingsChanged) else name_of(cause.asset, cause.partition)


def _known_to_dagster(causes: tuple[Cause, ...]) -> list[Cause]:
    """Dagster does not look into a world's sources."""
    return [cause for cause in causes if not isinstance(cause, SourceChanged)]


def _states(plan: Plan) -> dict[str, dict[str, str]]:
    return {
        asset: {
            key: "fresh" if state.causes and not _known_to_dagster(state.causes) else str(state.state)
            for key, state in states.items()
        }
        for asset, states in plan.states.items()
    }


def _causes(plan: Plan) -> Stale:
    stale: Stale = {}
    for asset, states in plan.states.items():
        for key, state in states.items():
            if causes := sorted(_ours(cause) for cause in _known_to_dagster(state.causes)):
                stale.setdefault(asset, {})[key] = causes
    return stale


def _do_not_wait_for_the_disk(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous=OFF")


@pytest.fixture(scope="session", autouse=True)
def _fast_database() -> Iterator[None]:
    """The log of a test need not outlive a power cut; waiting for the disk would take most of the time."""
    listen(Engine, "connect", _do_not_wait_for_the_disk)
    yield
    remove(Engine, "connect", _do_not_wait_for_the_disk)


Trained = Callable[[str], Loop]


@pytest.fixture(scope="session")
def _templates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Trained projects by experiment, filled as they are asked for."""
    return {name: tmp_path_factory.mktemp("trained") / name for name in TRAINED}


@pytest.fixture
def trained(_templates: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """Gives an experiment all of whose steps are trained, in a project of the test's own."""

    def give(name: str = "quickstart") -> Loop:
        template = _templates[name]
        if not template.exists():
            place = Workplace.make(template)
            if name != "quickstart":
                place.add(name, **TRAINED[name])
            monkeypatch.chdir(template)
            loop = Loop(place, name)
            loop.train()
            loop.instance.dispose()
        shutil.copytree(template, tmp_path / "project")
        monkeypatch.chdir(tmp_path / "project")
        return Loop(Workplace(tmp_path / "project"), name)

    return give


@pytest.fixture
def loop(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """The quickstart, of which nothing was made yet."""
    monkeypatch.chdir(workplace.root)
    return Loop(workplace)

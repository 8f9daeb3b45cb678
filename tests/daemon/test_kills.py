"""Processes killed while the daemon runs, and two drivers at once: nothing is lost, mixed, done twice or left half-made."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.runs import PROCESS_TAG
from rl_assets.store.objects import STAGED, ObjectStore
from tests.daemon.conftest import Bring
from tests.daemon.server import Run, Server, wait_for
from tests.graph.conftest import Loop
from tests.support import Workplace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("daemon_kills")]

KILLS = 10
"""Of the runs of each of two experiments."""

TRIALS = 6
"""Of each step."""


def test_runs_killed_at_random_moments_and_resumed_end_as_an_undisturbed_one(
    shared: Server, bring: Bring, tmp_path: Path
) -> None:
    settings = {"mauled": {"steps": 4, "seed": 111}, "battered": {"steps": 4, "seed": 112}}
    for name, given in settings.items():
        bring(name, **given, rollouts__tool_latency_s=0.2, judging__latency_s=0.1)
    with ThreadPoolExecutor(2) as pool:
        kills = sum(pool.map(lambda name: maul(shared, name, random.Random(name)), settings))
    assert kills == 2 * KILLS
    calm = Workplace.make(tmp_path / "calm")
    for name, given in settings.items():
        calm.add(name, **given)
        undisturbed = calm.json("train", name)
        resumed = shared.place.json("train", name)
        assert resumed["weights_digest"] == undisturbed["weights_digest"]
        assert [step["weights_digest"] for step in resumed["steps"]] == [
            step["weights_digest"] for step in undisturbed["steps"]
        ]
        assert resumed["receipt"]["trials_run"] == resumed["receipt"]["judge_calls"] == resumed["receipt"]["updates_run"] == 0
        assert not Loop(shared.place, name).stale()
    assert not half_written(shared)


def maul(server: Server, experiment: str, moments: random.Random) -> int:
    """Kill run after run of an experiment, each followed by a resume, until it is through; the number of kills."""
    steps = server.place.lab(experiment).lineage.steps
    kills = 0
    assert server.ended(experiment, server.backfill(experiment, ["worlds"]), 1)[0].status == "SUCCESS"
    # First in a backfill: the runs behind the killed one are cancelled.
    backfill = server.backfill(experiment)
    run = wait_for("a run of the backfill", lambda: next(iter(server.of(experiment, backfill)), None))
    kills += kill(server, run, moments)
    server.ended(experiment, backfill, steps)
    # Then run by run, each step again and again until it is through.
    step = 0
    while kills < KILLS:
        recorded = journal(server, experiment)
        run_id = server.launch(experiment, step)
        run = wait_for("the run", lambda wanted=run_id: server.run(experiment, wanted))
        kills += kill(server, run, moments)
        wait_for("the run is over", lambda wanted=run_id: server.run(experiment, wanted).finished)
        assert recorded.items() <= journal(server, experiment).items()
        if server.run(experiment, run_id).status == "SUCCESS":
            step = (step + 1) % steps
    recorded = journal(server, experiment)
    last = server.ended(experiment, server.backfill(experiment), steps)
    assert {run.status for run in last} == {"SUCCESS"}
    # Of all trials that were recorded, none ran again.
    assert server.work(experiment, last, "trials_run") == len(journal(server, experiment)) - len(recorded)
    assert len(journal(server, experiment)) == steps * TRIALS
    return kills


def kill(server: Server, run: Run, moments: random.Random) -> bool:
    """Kill a run's process, now and then while it starts up, mostly while it works; whether it still lived then."""

    def born() -> int | None:
        for entry in server.instance.all_logs(run.id):
            found = re.search(r"Started process for run \(pid: (\d+)\)", entry.message or entry.user_message or "")
            if found:
                return int(found[1])
        return None

    def at_work() -> bool:
        latest = server.run(run.experiment, run.id)
        return latest.finished or PROCESS_TAG in latest.tags

    process = psutil.Process(wait_for("the run's process", born))
    if moments.random() > 0.2:
        wait_for("the run works", at_work, every_s=0.05)
    time.sleep(moments.uniform(0, 3))
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


def journal(server: Server, experiment: str) -> dict[str, bytes]:
    """The recorded trials in an experiment's worlds."""
    lab = server.place.lab(experiment)
    worlds = {world.digest.encode() for world in lab.worlds().values()}
    records = {path: lab.store.get(path) or b"" for path in lab.store.list("journal/trial/")}
    return {path: data for path, data in records.items() if any(world in data for world in worlds)}


def verdicts(server: Server) -> set[str]:
    """The recorded verdicts of all experiments: those that ask the same share them."""
    return set(ObjectStore(str(server.place.home / "store")).list("journal/verdict/"))


def half_written(server: Server) -> list[Path]:
    """Files in the store that a killed process left unfinished."""
    return [path for path in (server.place.home / "store").rglob("*") if STAGED.search(path.name)]


def train(server: Server, experiment: str) -> "subprocess.Popen[str]":
    """The command line at work beside the daemon."""
    return subprocess.Popen(
        server.place.command("train", experiment, "--json"),
        cwd=server.place.root,
        env=server.place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def cli_run(server: Server, experiment: str, step: int) -> Run | None:
    """The run of a step, once it works."""
    runs = [run for run in server.runs(experiment) if run.step == step_key(step) and run.status == "STARTED"]
    return runs[0] if runs else None


def test_a_killed_command_does_not_hold_up_a_queued_backfill(shared: Server, bring: Bring) -> None:
    bring("orphan", steps=3, seed=121, rollouts__tool_latency_s=0.5)
    process = train(shared, "orphan")
    run = wait_for("step 1 of the command works", lambda: cli_run(shared, "orphan", 1))
    backfill = shared.backfill("orphan")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for("the killed command's run is failed", lambda: shared.run("orphan", run.id).status == "FAILURE", 60, every_s=0.1)
    assert "is gone" in shared.failure(run.id)
    assert {run.status for run in shared.ended("orphan", backfill, 3)} == {"SUCCESS"}
    assert not Loop(shared.place, "orphan").stale()


def test_a_command_waits_for_the_daemons_runs_and_nothing_is_done_twice(shared: Server, bring: Bring) -> None:
    bring("shared_first", steps=3, seed=122, rollouts__tool_latency_s=0.2)
    before = len(verdicts(shared))
    backfill = shared.backfill("shared_first", ("worlds", *STEP_ASSETS))
    wait_for("the first step works", lambda: cli_run(shared, "shared_first", 0))
    process = train(shared, "shared_first")
    runs = shared.ended("shared_first", backfill, 4)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "waiting" in err
    assert {run.status for run in runs} == {"SUCCESS"}
    together(shared, "shared_first", 3, out, before)


def test_a_backfill_launched_while_a_command_trains_ends_well_and_nothing_is_done_twice(shared: Server, bring: Bring) -> None:
    bring("shared_second", steps=3, seed=123, rollouts__tool_latency_s=2.0)
    before = len(verdicts(shared))
    process = train(shared, "shared_second")
    wait_for("the command works", lambda: cli_run(shared, "shared_second", 0))
    backfill = shared.backfill("shared_second")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    runs = shared.ended("shared_second", backfill, 3)
    assert {run.status for run in runs} == {"SUCCESS"}, [shared.failure(run.id) for run in runs]
    together(shared, "shared_second", 3, out, before)


def together(server: Server, experiment: str, steps: int, out: str, verdicts_before: int) -> None:
    """Both drivers' work together is each trial, verdict and update once."""
    assert json.loads(out)["experiment"] == experiment
    runs = server.runs(experiment)
    assert server.work(experiment, runs, "trials_run") == len(journal(server, experiment)) == steps * TRIALS
    assert server.work(experiment, runs, "judge_calls") == len(verdicts(server)) - verdicts_before
    assert server.work(experiment, runs, "updates_run") == steps
    assert not Loop(server.place, experiment).stale()

"""The store on S3: the same experiment, against a server that speaks enough of it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import Workplace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3():
    """A fresh S3 server with a bucket, as settings for processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "RL_ASSETS_STORE": "s3://experiments/kept",
    }
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        import urllib.request

        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/experiments", method="PUT")).close()
        yield settings
    finally:
        server.terminate()
        server.wait()


def objects(settings: dict[str, str]) -> list[str]:
    """The paths in the store."""
    code = "import sys; from rl_assets.store.objects import ObjectStore; print(*ObjectStore(sys.argv[1]).list(''), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code, settings["RL_ASSETS_STORE"]],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_training_resuming_and_sql_work_on_s3_as_they_do_on_a_folder(workplace: Workplace, s3, first):
    command = ("train", "quickstart", "--flaky-judge", "0.3", "--crash-after-step", "1")
    assert workplace.run(*command, check=False, **s3).returncode == -9
    resumed = workplace.json(*command, **s3)
    assert resumed["steps"] == first["steps"]
    assert (resumed["receipt"]["trials_run"], resumed["receipt"]["trials_recovered"]) == (6, 12)
    assert not (workplace.home / "store").exists()

    # The Dagster home is this machine's; with another one, on another machine say, the store answers for everything.
    shutil.rmtree(workplace.home)
    again = workplace.json("train", "quickstart", **s3)
    assert again["steps"] == first["steps"]
    assert (again["receipt"]["trials_run"], again["receipt"]["judge_calls"], again["receipt"]["updates_run"]) == (0, 0, 0)

    assert workplace.json("sql", "SELECT count(*) AS n FROM trials", **s3) == [{"n": 18}]
    assert workplace.json("sql", "SELECT count(*) AS n FROM verdicts_history WHERE source = 'judge'", **s3) == [{"n": 36}]
    assert workplace.json("show", "quickstart", "0/world_0/0", **s3)["trial"]["id"] == "0000/world_0/0000"
    paths = objects(s3)
    assert sum(path.startswith("journal/trial/") for path in paths) == 18
    assert [path for path in paths if path.startswith("leases/")] == []


def test_a_store_that_does_not_open_is_one_line(workplace: Workplace):
    done = workplace.run("train", "quickstart", check=False, RL_ASSETS_STORE="nope://somewhere/else")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rl-assets: RL_ASSETS_STORE=nope://somewhere/else: ") and len(done.stderr.splitlines()) == 1

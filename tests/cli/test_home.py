"""Where state lives, and what never gets into it."""

import base64
import hashlib

import pytest
import yaml

from rl_assets.core.seeding import stream
from tests.support import Workplace

pytestmark = pytest.mark.slow

LIMITS = {"runs": {"max_concurrent_runs": 10}, "pools": {"default_limit": 1, "granularity": "run"}}


def test_home_store_and_dagsters_home_are_where_the_environment_says(workplace: Workplace, tmp_path, first):
    home, store, dagster = tmp_path / "a home", tmp_path / "the store", tmp_path / "dagster home"
    elsewhere = {"RL_ASSETS_HOME": str(home), "RL_ASSETS_STORE": str(store), "DAGSTER_HOME": str(dagster)}
    assert workplace.json("train", "quickstart", **elsewhere)["steps"] == first["steps"]
    assert not workplace.home.exists()
    assert not (home / "store").exists() and not (home / "dagster").exists()
    assert (store / "journal").is_dir() and (dagster / "dagster.yaml").is_file()
    assert workplace.json("sql", "SELECT count(*) AS n FROM trials", **elsewhere) == [{"n": 18}]
    assert workplace.json("train", "quickstart", **elsewhere)["receipt"]["trials_recovered"] == 18
    # Another home on the same store, and the same state as a file URL.
    other = {"RL_ASSETS_HOME": str(tmp_path / "other"), "RL_ASSETS_STORE": store.as_uri()}
    receipt = workplace.json("train", "quickstart", **other)["receipt"]
    assert (receipt["trials_run"], receipt["trials_recovered"], receipt["judge_calls"]) == (0, 18, 0)
    assert (tmp_path / "other" / "dagster" / "dagster.yaml").is_file()


def test_dagsters_settings_are_written_once_and_then_are_the_persons(workplace: Workplace):
    workplace.run("train", "quickstart", "--steps", "1")
    path = workplace.home / "dagster" / "dagster.yaml"
    written = yaml.safe_load(path.read_text())
    assert written["concurrency"] == LIMITS
    assert (written["telemetry"], written["nux"]) == ({"enabled": False}, {"enabled": False})
    assert sorted(entry.name for entry in path.parent.iterdir() if entry.name.startswith(("dagster", ".dagster"))) == [
        "dagster.yaml"
    ]
    mine = path.read_text() + "# Mine.\n"
    path.write_text(mine)
    workplace.run("train", "quickstart")
    assert path.read_text() == mine


def test_no_secret_of_a_world_or_of_the_environment_gets_into_the_state_or_the_output(workplace: Workplace):
    workplace.edit_criterion("efficiency", weight=0.5)
    key = "sk-test-0123456789-not-a-real-key"
    environment = {"OPENAI_API_KEY": key, "AWS_SECRET_ACCESS_KEY": key[::-1]}
    output = [
        workplace.run("train", "quickstart", "--set", "faults.refused_updates=[1]", check=False, **environment),
        workplace.run("train", "quickstart", "--flaky-trials", "0.3", "--flaky-judge", "0.3", **environment),
        workplace.run("status", "quickstart", **environment),
        workplace.run("show", "quickstart", "0/world_0/0", "--json", **environment),
        workplace.run("sql", "SELECT * FROM turns", "--json", **environment),
    ]
    state = {str(path): path.read_bytes() for path in workplace.home.rglob("*") if path.is_file()}
    state["output"] = "".join(done.stdout + done.stderr for done in output).encode()
    seed = workplace.lab().experiment.settings.seed
    raw = [stream("secret", seed, f"world_{world}", index).randbytes(32) for world in range(3) for index in range(2)]
    digests = [hashlib.sha256(secret).hexdigest().encode() for secret in raw]
    assert any(digests[0] in data for data in state.values()), "these are the secrets whose digests the worlds hold"
    hidden = [key.encode(), key[::-1].encode()]
    for secret in raw:
        hidden += [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)]
    for path, data in state.items():
        assert not [secret for secret in hidden if secret in data], path

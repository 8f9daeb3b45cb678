from pathlib import Path

from rl_assets.core.home import Home


def test_by_default_all_state_lies_in_the_project(tmp_path: Path):
    home = Home.from_environment(tmp_path)
    assert home.path == tmp_path / ".rl_assets"
    assert home.store_url == str(home.path / "store")
    assert not home.store_sync
    assert {home.dagster, home.locks, home.cache} == {home.path / name for name in ("dagster", "locks", "cache")}


def test_the_environment_moves_home_store_and_dagster_apart(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RL_ASSETS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RL_ASSETS_STORE", "s3://bucket/prefix")
    monkeypatch.setenv("RL_ASSETS_STORE_SYNC", "yes")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    home = Home.from_environment(tmp_path / "project")
    assert (home.path, home.store_url, home.store_sync) == (tmp_path / "home", "s3://bucket/prefix", True)
    assert home.dagster == tmp_path / "dagster"


def test_a_relative_home_is_made_absolute_so_that_a_change_of_folder_does_not_move_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_ASSETS_HOME", "elsewhere")
    assert Home.from_environment(Path()).path == tmp_path / "elsewhere"

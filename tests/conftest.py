"""Fixtures for all tests."""

from pathlib import Path

import pytest

from tests.support import Workplace


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no home, store or Dagster instance of the person who runs them."""
    for name in ("RL_ASSETS_HOME", "RL_ASSETS_STORE", "RL_ASSETS_STORE_SYNC", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """A project of the test's own."""
    return Workplace.make(tmp_path / "project")

"""Fixtures for all tests."""

from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, dict[str, Any]]:
    """A trained project that no test changes, and what `train --json` said."""
    place = Workplace.make(tmp_path_factory.mktemp("trained") / "project")
    return place, place.json("train", "quickstart")


@pytest.fixture
def trained(trained_once: tuple[Workplace, dict[str, Any]], tmp_path: Path) -> Workplace:
    """A trained project of the test's own."""
    return trained_once[0].copy(tmp_path / "copy")


@pytest.fixture
def first(trained_once: tuple[Workplace, dict[str, Any]]) -> dict[str, Any]:
    """What `train --json` said when the project was trained."""
    return trained_once[1]

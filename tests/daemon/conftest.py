"""One `dg dev` for the tests that can share it: each brings an experiment of its own."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.daemon.server import Server, served

Bring = Callable[..., None]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is up, without experiments."""
    with served(tmp_path_factory.mktemp("daemon") / "project") as server:
        shutil.rmtree(server.place.folder())
        yield server.start()


@pytest.fixture
def bring(shared: Server) -> Iterator[Bring]:
    """Adds an experiment (the quickstart with some settings changed) to the shared server; it is taken away at the end."""
    names: list[str] = []

    def add(name: str, **settings: Any) -> None:
        shared.place.add(name, **settings)
        names.append(name)
        shared.reload()

    yield add
    for name in names:
        shared.cancel_all(name)
        shutil.rmtree(shared.place.folder(name))
    shared.reload()

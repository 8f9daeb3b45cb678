"""What every sandbox can do."""

from collections.abc import Mapping
from typing import Protocol

from rl_assets.worlds.world import Files


class Sandbox(Protocol):
    """A private copy of one world for one trial.

    Raises, from any method:
        SandboxDied: it is gone; nothing it was asked for happened.
    """

    async def list(self) -> list[str]:
        """The paths of all files, sorted."""

    async def read(self, path: str) -> bytes:
        """A file's content.

        Raises:
            FileNotFoundError: there is no such file.
        """

    async def write(self, path: str, data: bytes) -> None:
        """Write or replace a file."""

    async def changed(self) -> Mapping[str, bytes]:
        """The files that were written since the start, by path."""

    async def stop(self) -> None:
        """Give everything back."""


class SandboxFactory(Protocol):
    """Starts sandboxes of one kind."""

    async def start(self, world: Files) -> Sandbox:
        """A fresh private copy of a sealed world.

        Raises:
            SandboxDied: none could be started.
        """

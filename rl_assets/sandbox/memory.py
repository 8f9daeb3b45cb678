"""The sandbox of worlds in which nothing is executed: reads come from the sealed world, writes stay in memory.

Nothing an agent does here can reach the host, as there is nothing but a dictionary to reach.
"""

from collections.abc import Mapping

from rl_assets.worlds.world import Files

ENVIRONMENT = "environment/"
"""The part of a world that an agent finds itself in."""


class MemorySandbox:
    """A copy-on-write view of a sealed world."""

    def __init__(self, world: Files) -> None:
        self._sealed = world
        self._written: dict[str, bytes] = {}

    async def list(self) -> list[str]:
        """The paths of all files, sorted."""
        sealed = {path.removeprefix(ENVIRONMENT) for path in self._sealed if path.startswith(ENVIRONMENT)}
        return sorted(sealed | self._written.keys())

    async def read(self, path: str) -> bytes:
        """A file's content; FileNotFoundError when there is none."""
        try:
            return self._written[path] if path in self._written else self._sealed[ENVIRONMENT + path]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def write(self, path: str, data: bytes) -> None:
        """Write or replace a file."""
        self._written[path] = data

    async def changed(self) -> Mapping[str, bytes]:
        """The files that were written since the start."""
        return dict(self._written)

    async def stop(self) -> None:
        """Nothing to give back."""


class MemorySandboxes:
    """Starts them."""

    async def start(self, world: Files) -> MemorySandbox:
        """A fresh private copy."""
        return MemorySandbox(world)

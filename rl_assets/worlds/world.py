"""A world as its builder lays it out, and its two parts: what the agent can see, and how it is verified.

The layout is Harbor's: `task.toml`, `instruction.md`, `environment/…`, `tests/…`, `solution/…`. The world's digest covers
every byte the agent can see or run; the verifier's digest covers the tests and the `[verifier]` section. So a changed test
leaves the trajectories as they were.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

import tomli_w

from rl_assets.core.digest import digest_files
from rl_assets.core.errors import ConfigError

WORLD_KIND = "worlds"
VERIFIER_KIND = "verifiers"
"""The store's folders of sealed worlds and verifiers."""

Files = Mapping[str, bytes]
"""A folder: content by relative path, with slashes."""


@dataclass(frozen=True)
class World:
    """One world, split into what the agent gets and what judges it."""

    name: str
    agent_files: Files
    verifier_files: Files

    @property
    def digest(self) -> str:
        """Covers what the agent can see or run."""
        return digest_files(self.agent_files)

    @property
    def verifier_digest(self) -> str:
        """Covers how the world is verified."""
        return digest_files(self.verifier_files)


def split(name: str, folder: Files) -> World:
    """Split a task folder in Harbor's layout into its two parts.

    Raises:
        ConfigError: task.toml is missing or is no TOML.
    """
    try:
        task = tomllib.loads(folder["task.toml"].decode())
    except KeyError:
        raise ConfigError(f"world {name}: task.toml is missing") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"world {name}: task.toml: {error}") from None
    verifier = {"verifier": task.pop("verifier", {})}
    agent_files = {"task.toml": tomli_w.dumps(task).encode()}
    verifier_files = {"verifier.toml": tomli_w.dumps(verifier).encode()}
    for path, data in folder.items():
        if path.startswith("tests/"):
            verifier_files[path] = data
        elif path != "task.toml" and not path.startswith("solution/"):
            agent_files[path] = data
    return World(name, agent_files, verifier_files)

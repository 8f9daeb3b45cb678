"""Where state lives: the home folder, the store inside it, and the settings that come from the environment."""

import os
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "RL_ASSETS_HOME"
STORE_VARIABLE = "RL_ASSETS_STORE"
SYNC_VARIABLE = "RL_ASSETS_STORE_SYNC"


@dataclass(frozen=True)
class Home:
    """The folder that holds everything a project makes.

    `store_url` may point elsewhere, to an object store; locks stay on this machine.
    """

    path: Path
    store_url: str
    store_sync: bool = False

    @classmethod
    def from_environment(cls, project: Path) -> "Home":
        """`RL_ASSETS_HOME`, or `.rl_assets/` in the project; `RL_ASSETS_STORE`, or `store/` in the home."""
        path = Path(os.environ.get(HOME_VARIABLE) or project / ".rl_assets").expanduser().absolute()
        url = os.environ.get(STORE_VARIABLE) or str(path / "store")
        return cls(path, url, os.environ.get(SYNC_VARIABLE, "").lower() in ("1", "true", "yes"))

    @property
    def dagster(self) -> Path:
        """Dagster's instance, unless `DAGSTER_HOME` says otherwise."""
        return Path(os.environ.get("DAGSTER_HOME") or self.path / "dagster")

    @property
    def locks(self) -> Path:
        """Files locked by the processes that work on an experiment."""
        return self.path / "locks"

    @property
    def cache(self) -> Path:
        """Copies of objects from a remote store; safe to delete."""
        return self.path / "cache"

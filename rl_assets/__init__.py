"""Agentic RL as a Dagster asset graph.

The public names are loaded on first use, so that importing a room such as `rl_assets.store` does not import Dagster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_assets.graph.component import AgenticRL

__all__ = ["AgenticRL"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "AgenticRL":
        from rl_assets.graph.component import AgenticRL

        return AgenticRL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Random streams, each seeded from the key of what it is for, so that order, retries and crashes change nothing."""

import random

from rl_assets.core.digest import digest


def stream(purpose: str, *parts: object) -> random.Random:
    """A stream of its own for each purpose and parts; the same arguments give the same numbers on any machine."""
    return random.Random(int(digest(f"stream:{purpose}", 1, [str(part) for part in parts]), 16))

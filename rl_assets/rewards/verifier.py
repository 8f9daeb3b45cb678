"""Verification: the deterministic part of a score, from what a trial left behind."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache

from rl_assets.core.digest import digest
from rl_assets.core.errors import ConfigError
from rl_assets.core.model import Frozen
from rl_assets.trajectories.trial import Trial
from rl_assets.worlds.documents import ANSWER_FILE, EXPECTED
from rl_assets.worlds.world import Files

SEMANTICS = 1


class Verification(Frozen):
    """What a verifier says of a trial."""

    key: str
    """The digest of the end state and the verifier."""
    score: float
    """1 when the answer is right, 0 when it is not."""


def verify(trial: Trial, verifier: Files, verifier_digest: str) -> Verification:
    """Compare the answer that a trial left behind with the expected one.

    White space around an answer does not count. `ignore_case = true` in task.toml's `[verifier]` does what it says.

    Raises:
        ConfigError: the world's tests hold no expected answer.
    """
    key = digest("verification", SEMANTICS, [dict(sorted(trial.files.items())), verifier_digest])
    if EXPECTED not in verifier:
        raise ConfigError(f"world {trial.world}: {EXPECTED} is missing")
    expected = verifier[EXPECTED].decode("utf-8", "replace").strip()
    answer = trial.files.get(ANSWER_FILE, "").strip()
    if _section(verifier["verifier.toml"]).get("ignore_case"):
        expected, answer = expected.casefold(), answer.casefold()
    return Verification(key=key, score=float(bool(answer) and answer == expected))


@lru_cache(maxsize=1024)
def _section(text: bytes) -> Mapping[str, object]:
    """`[verifier]` of a task.toml; the trials of a world share it."""
    section: Mapping[str, object] = tomllib.loads(text.decode())["verifier"]
    return section

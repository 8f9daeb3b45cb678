"""Agents: what turns a policy into actions in a sandbox."""

import asyncio
import math
import re
import time
from collections.abc import Mapping
from random import Random
from typing import NamedTuple, Protocol

from rl_assets.sandbox.sandbox import Sandbox
from rl_assets.trajectories.trial import Outcome, Turn
from rl_assets.worlds.documents import ANSWER_FILE, DIGEST_LINE

Prior = Mapping[str, float]
"""What a policy holds about one world: a preference (log-odds, 0 when absent) by document name."""


class Ending(NamedTuple):
    """How an agent's work in a sandbox ended."""

    outcome: Outcome
    turns: tuple[Turn, ...]


class Agent(Protocol):
    """Acts in a sandbox until it is done or its limits are reached."""

    @property
    def identity(self) -> dict[str, str | int | float]:
        """Name, semantics version and limits: all of it that can change a result."""

    async def act(self, sandbox: Sandbox, prior: Prior, random: Random) -> Ending:
        """Work in the sandbox, drawing only from the given stream."""


_DIGEST = re.compile(re.escape(DIGEST_LINE) + r"([0-9a-f]{64})\b")


class DocumentReader:
    """Reads documents in an order drawn from the prior until one holds a digest, then answers with it.

    The order is drawn without replacement with probabilities softmax(prior), by adding Gumbel noise and sorting (Yellott,
    "The relationship between Luce's choice axiom, Thurstone's theory of comparative judgment, and the double exponential
    distribution", 1977).
    """

    SCRATCH_SHARE = 0.3
    """Share of answers beside which a scratch file is left."""

    def __init__(self, max_turns: int, tool_latency_s: float = 0.0) -> None:
        self.max_turns = max_turns
        self.tool_latency_s = tool_latency_s

    @property
    def identity(self) -> dict[str, str | int | float]:
        """The latency is left out: it changes no result."""
        return {"name": "document_reader", "semantics": 1, "max_turns": self.max_turns}

    async def act(self, sandbox: Sandbox, prior: Prior, random: Random) -> Ending:
        """One turn per document read, and one for the answer."""
        turns: list[Turn] = []
        documents = [path for path in await sandbox.list() if path.startswith("documents/")]
        answer = None
        for document in _drawn(documents, prior, random):
            if len(turns) == self.max_turns:
                break
            started = time.perf_counter()
            text = (await sandbox.read(document)).decode("utf-8", "replace")
            await self._wait()
            turns.append(_turn(turns, "read", document, text, started))
            found = _DIGEST.search(text)
            if found:
                answer = found[1]
                break
        if answer is None:
            out_of_turns = len(turns) == self.max_turns
            return Ending(Outcome.TURN_LIMIT if out_of_turns else Outcome.GAVE_UP, tuple(turns))
        if len(turns) == self.max_turns:
            return Ending(Outcome.TURN_LIMIT, tuple(turns))
        started = time.perf_counter()
        await sandbox.write(ANSWER_FILE, answer.encode())
        if random.random() < self.SCRATCH_SHARE:
            await sandbox.write("scratch.txt", "\n".join(turn.argument for turn in turns).encode())
        await self._wait()
        turns.append(_turn(turns, "answer", answer, "", started))
        return Ending(Outcome.ANSWERED, tuple(turns))

    async def _wait(self) -> None:
        if self.tool_latency_s:
            await asyncio.sleep(self.tool_latency_s)


def _drawn(documents: list[str], prior: Prior, random: Random) -> list[str]:
    scores = {}
    for document in documents:
        name = document.removeprefix("documents/")
        # random() may be 0; the smallest step above it keeps the logarithm finite.
        noise = -math.log(-math.log(random.random() or 2.0**-53))
        scores[document] = prior.get(name, 0.0) + noise
    return sorted(documents, key=lambda document: -scores[document])


def _turn(turns: list[Turn], tool: str, argument: str, output: str, started: float) -> Turn:
    elapsed_s = time.perf_counter() - started
    return Turn(turn=len(turns), tool=tool, argument=argument, output=output, elapsed_s=round(elapsed_s, 6))

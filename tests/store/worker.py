"""
A process that works on a store, for the tests: `python -m tests.store.worker URL WHAT [ARGUMENT …]`.

It says "ready" once it is at work, and does what it is told until it is done or killed.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from rl_assets.store import leases
from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore

REPOSITORY = Path(__file__).parent.parent.parent


def start(url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start one; it has begun once its first line is read."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.worker", url, *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say(text: str) -> None:
    print(text, flush=True)


async def make_all(journal: Journal, log: Path, n_keys: int) -> None:
    """Ask for every key, many at once and in an order of our own; log each making."""

    async def ask(key: str) -> None:
        async def make() -> bytes:
            with log.open("a") as file:
                file.write(f"{key}\n")
            await asyncio.sleep(0.01)
            return f"{key} by {os.getpid()}".encode()

        recorded = await journal.once("kind", key, make)
        say(json.dumps([key, recorded.data.decode(), recorded.recovered]))

    keys = [f"key{number}" for number in range(n_keys)]
    random.shuffle(keys)
    slots = asyncio.Semaphore(8)

    async def bounded(key: str) -> None:
        async with slots:
            await ask(key)

    await asyncio.gather(*(bounded(key) for key in keys))


async def make_for_ever(journal: Journal, key: str) -> None:
    async def make() -> bytes:
        say("making")
        await asyncio.sleep(3600)
        return b"never"

    await journal.once("kind", key, make)


def main() -> None:
    url, what, *arguments = sys.argv[1:]
    leases.LEASE_S = 1e6  # whoever takes over must see that this process is dead, as no lease expires during a test
    journal = Journal(ObjectStore(url))
    match what:
        case "make-all":
            say("ready")
            sys.stdin.readline()
            asyncio.run(make_all(journal, Path(arguments[0]), int(arguments[1])))
        case "make-for-ever":
            asyncio.run(make_for_ever(journal, arguments[0]))
        case "live":
            journal.owner.start()
            say("ready")
            sys.stdin.readline()
        case "write-for-ever":
            journal.owner.start()
            say("ready")
            for number in range(10**6):
                journal.store.put(f"big/{number % 2}", bytes(20_000_000))
                time.sleep(0)
    journal.close()


if __name__ == "__main__":
    main()

"""The journal: one put-once record per key, written the moment a result exists.

Whoever asks for a key that is recorded gets the record, so a crash loses only what was in flight, and nothing is done or
paid twice. Only results are put-once. A failure is an *attempt*: each is kept, and the last one may be replaced by a
result later.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from rl_assets.core.digest import digest_bytes
from rl_assets.core.errors import RlAssetsError
from rl_assets.store.leases import Owner, try_claim
from rl_assets.store.objects import ObjectStore

POLL_S = 0.05
"""Seconds between looks at a key that another process is working on."""


class Recorded(NamedTuple):
    """What stands in the journal for a key."""

    data: bytes
    recovered: bool
    """True when this call did not make it."""


class Journal:
    """Records by kind and key, in an object store that many processes may use at once."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.owner = Owner(store)
        self._in_flight: dict[tuple[asyncio.AbstractEventLoop, str, str], asyncio.Future[bytes]] = {}
        self._failures: dict[str, set[str]] = {}

    def close(self) -> None:
        """Give this process's lease back."""
        self.owner.close()

    async def get(self, kind: str, key: str) -> bytes | None:
        """The record of a key, or None.

        Raises:
            RlAssetsError: the record is damaged.
        """
        path = _record_path(kind, key)
        data = await self.store.get_async(path)
        return None if data is None else _unsealed(data, path)

    async def put(self, kind: str, key: str, data: bytes) -> bytes:
        """Record a result; what stands for the key afterwards, which is an earlier record if there was one."""
        path = _record_path(kind, key)
        if await self.store.put_new_async(path, _sealed(data)):
            return data
        return _unsealed(await self.store.get_async(path) or b"", path)

    async def once(self, kind: str, key: str, make: Callable[[], Awaitable[bytes]]) -> Recorded:
        """The record of a key, made by `make` if there is none.

        Calls at once for one key, in this process or another, make it once; a process that dies while making leaves it to
        the next. What `make` raises is raised here and recorded nowhere.
        """
        loop = asyncio.get_running_loop()
        slot = (loop, kind, key)  # a future belongs to one event loop; threads meet through claims, as processes do
        running = self._in_flight.get(slot)
        while running is not None:
            try:
                return Recorded(await asyncio.shield(running), True)
            except (Exception, asyncio.CancelledError):
                if not running.done():
                    raise  # this call was cancelled, not the one it waits for
                running = self._in_flight.get(slot)
        future: asyncio.Future[bytes] = loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._in_flight[slot] = future
        try:
            recorded = await self._once_among_processes(kind, key, make)
        except BaseException as error:
            del self._in_flight[slot]
            if isinstance(error, Exception):
                future.set_exception(error)
            else:
                future.cancel()
            raise
        del self._in_flight[slot]
        future.set_result(recorded.data)
        return recorded

    async def _once_among_processes(self, kind: str, key: str, make: Callable[[], Awaitable[bytes]]) -> Recorded:
        while True:
            data = await self.get(kind, key)
            if data is not None:
                return Recorded(data, True)
            claim = await try_claim(self.owner, f"{kind}-{key}")
            if claim is not None:
                break
            await asyncio.sleep(POLL_S)
        try:
            # Another process may have recorded it and let go between the look and the claim.
            data = await self.get(kind, key)
            if data is not None:
                return Recorded(data, True)
            data = await self.put(kind, key, await make())
            await claim.forget_the_dead()
            return Recorded(data, False)
        finally:
            await claim.release()

    async def standing_failure(self, kind: str, key: str) -> bytes | None:
        """How a key failed for good, or None when it did not, or has a record by now.

        Failures are few, so which keys have one is listed once; those of other processes may show later.
        """
        known = self._failures.get(kind)
        if known is None:
            paths = self.store.list(f"failures/{kind}/")
            known = self._failures[kind] = {path.rpartition("/")[2].removesuffix(".json") for path in paths}
        if key not in known or await self.get(kind, key) is not None:
            return None
        return await self.store.get_async(_failure_path(kind, key))

    def put_failure(self, kind: str, key: str, data: bytes) -> None:
        """Say how a key failed after all its attempts, instead of what was said before."""
        self.store.put(_failure_path(kind, key), data)
        if kind in self._failures:
            self._failures[kind].add(key)

    def add_attempt(self, kind: str, key: str, attempt: dict[str, object]) -> None:
        """Keep one failed or unusable attempt at a key, paid or not, beside those before it."""
        data = json.dumps(attempt).encode()
        number = 0
        while not self.store.put_new(f"attempts/{kind}/{key[:2]}/{key}.{number}.json", data):
            number += 1


def _record_path(kind: str, key: str) -> str:
    return f"journal/{kind}/{key[:2]}/{key}.json"


def _failure_path(kind: str, key: str) -> str:
    return f"failures/{kind}/{key[:2]}/{key}.json"


def _sealed(data: bytes) -> bytes:
    return data + b"\n" + digest_bytes(data).encode() + b"\n"


def _unsealed(data: bytes, path: str) -> bytes:
    body, _, seal = data.rstrip(b"\n").rpartition(b"\n")
    if digest_bytes(body).encode() != seal:
        raise RlAssetsError(f"{path}: the record is damaged; delete this object to have it made again")
    return body

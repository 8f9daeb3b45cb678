"""Who works on what, so that two processes that want one result make it once.

Each process that claims keeps one *lease*, an object with an expiry that it renews while it lives. A *claim* names a key
and its owner, and holds while the owner's lease does. A dead owner's claim is passed over by taking the next numbered
one; since put-if-absent has one winner, so has each number. After S3-style locks; the numbering replaces the
compare-and-swap that a local folder lacks.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from functools import lru_cache
from pathlib import Path

import psutil

from rl_assets.store.objects import ObjectStore

LEASE_S = 30.0
"""Seconds a lease holds after it was last renewed. On the owner's own machine a dead process is seen at once."""


SAME_START_S = 5.0
"""Start times of one process may be read this much apart, as they follow the clock's corrections."""


@lru_cache(maxsize=1)
def host() -> str:
    """This machine's name, with the boot in it, so that process numbers of an earlier boot are not taken for ours."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}"


def process_alive(pid: int, started_at: float) -> bool:
    """Whether the very process with this number and start time (seconds since the epoch) runs on this machine."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started_at) < SAME_START_S and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Owner:
    """This process as an owner of claims. The lease exists from the first claim until `close`."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.id = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    def start(self) -> None:
        """Take the lease, once, after clearing what dead owners left; renew it from a thread."""
        with self._lock:
            if self._renewer is not None:
                return
            sweep(self.store)
            self._renew()
            self.store.put(_token_path(self.id), self.id.encode())
            self._renewer = threading.Thread(target=self._keep_renewing, name="lease", daemon=True)
            self._renewer.start()

    def close(self) -> None:
        """Give the lease back."""
        with self._lock:
            if self._renewer is not None:
                self._stop.set()
                self._renewer.join()
                self._renewer = None
                self._stop.clear()
                self.store.delete(_token_path(self.id))
                self.store.delete(_lease_path(self.id))

    def _renew(self) -> None:
        lease = {
            "host": host(),
            "pid": os.getpid(),
            "started_at": psutil.Process().create_time(),
            "expires_at": time.time() + LEASE_S,
        }
        self.store.put(_lease_path(self.id), json.dumps(lease).encode())

    def _keep_renewing(self) -> None:
        while not self._stop.wait(LEASE_S / 4):
            # A store that does not answer now may answer next time; the lease holds until its expiry.
            with contextlib.suppress(Exception):
                self._renew()


def _lease_path(owner: str) -> str:
    return f"leases/{owner}.json"


def _token_path(owner: str) -> str:
    """An object that holds the owner's id, as its claims do, so that a claim need be no file of its own."""
    return f"owners/{owner}"


def is_alive(store: ObjectStore, owner: str) -> bool:
    """Whether an owner's lease holds."""
    data = store.get(_lease_path(owner))
    if data is None:
        return False
    lease = json.loads(data)
    if lease["host"] == host():
        return process_alive(lease["pid"], lease["started_at"])
    return bool(lease["expires_at"] > time.time())


def sweep(store: ObjectStore) -> None:
    """Clear what dead owners left: half-written files, then their leases.

    Called before the own lease is taken. Half-written files older than this moment can only belong to the dead: a
    living process takes its lease before it writes. While another owner lives its half-written files cannot be told from
    those of the dead, so all stays, the leases of the dead too: they tell a later start that there is something to clear.
    """
    now = time.time()
    owners = [path.removeprefix("leases/").removesuffix(".json") for path in store.list("leases/")]
    dead = [owner for owner in owners if not is_alive(store, owner)]
    if store.root is not None and len(dead) < len(owners):
        return
    if dead:
        store.sweep_staged(before=now)
    for owner in dead:
        store.delete(_token_path(owner))
        store.delete(_lease_path(owner))


class Claim:
    """The right to make one result, held until released."""

    def __init__(self, store: ObjectStore, name: str, number: int) -> None:
        self._store = store
        self._name = name
        self._number = number

    async def forget_the_dead(self) -> None:
        """Clear the dead owners' claims that this one passed over.

        Only once the result is recorded: then whoever claims again looks first and finds it.
        """
        for number in range(self._number):
            await self._store.delete_async(_claim_path(self._name, number))

    async def release(self) -> None:
        """Let others have it."""
        await self._store.delete_async(_claim_path(self._name, self._number))


def _claim_path(name: str, number: int) -> str:
    return f"claims/{name}.{number}"


async def try_claim(owner: Owner, name: str) -> Claim | None:
    """Claim a name for an owner; None when a living owner has it."""
    store = owner.store
    owner.start()
    number = 0
    while True:
        path = _claim_path(name, number)
        if await store.put_new_async(path, owner.id.encode(), twin=_token_path(owner.id)):
            return Claim(store, name, number)
        holder = await store.get_async(path)
        if holder is None:
            continue  # released between the two calls: try the same number again
        if is_alive(store, holder.decode()):
            return None
        number += 1

import asyncio
import json
import os
import time

import psutil
import pytest

from rl_assets.store import leases
from rl_assets.store.leases import Owner, host, is_alive, process_alive, sweep, try_claim
from rl_assets.store.objects import ObjectStore
from tests.store import worker


def put_lease(store, owner, **fields):
    lease = {"host": "elsewhere/1", "pid": 1, "started_at": 0.0, "expires_at": time.time() + 1000} | fields
    store.put(f"leases/{owner}.json", json.dumps(lease).encode())


def test_a_lease_lives_from_the_first_claim_until_it_is_given_back(store):
    owner = Owner(store)
    assert not is_alive(store, owner.id)
    claim = asyncio.run(try_claim(owner, "name"))
    assert is_alive(store, owner.id)
    asyncio.run(claim.release())
    owner.close()
    assert not is_alive(store, owner.id)
    assert list(store.list("leases/")) == []


def test_an_owner_elsewhere_lives_until_its_lease_runs_out(store):
    put_lease(store, "other")
    assert is_alive(store, "other")
    put_lease(store, "other", expires_at=time.time() - 1)
    assert not is_alive(store, "other")


def test_on_the_same_machine_the_process_counts_and_not_the_expiry(store):
    here = {"host": host(), "pid": os.getpid(), "started_at": psutil.Process().create_time()}
    put_lease(store, "us", **here, expires_at=0.0)
    assert is_alive(store, "us")
    put_lease(store, "us", **here | {"started_at": here["started_at"] - 100})
    assert not is_alive(store, "us"), "the number of a dead process was given to another"


def test_a_process_number_that_nobody_has_is_dead():
    assert not process_alive(2**22 + 1, 0.0)


def test_a_name_has_one_owner_at_a_time(store):
    one, other = Owner(store), Owner(store)

    async def run():
        claim = await try_claim(one, "name")
        assert claim is not None
        assert await try_claim(other, "name") is None
        assert await try_claim(one, "name") is None
        free = await try_claim(other, "other name")
        assert free is not None
        await claim.release()
        claim = await try_claim(other, "name")
        assert claim is not None
        await claim.release()
        await free.release()

    asyncio.run(run())
    one.close()
    other.close()
    assert list(store.list("claims/")) == []


def test_a_dead_owners_claim_is_passed_over_and_of_many_exactly_one_takes_it(store):
    put_lease(store, "dead", expires_at=0.0)
    store.put("claims/name.0", b"dead")
    owners = [Owner(store) for _ in range(8)]

    async def run():
        claims = await asyncio.gather(*(try_claim(owner, "name") for owner in owners))
        (claim,) = [claim for claim in claims if claim is not None]
        await claim.forget_the_dead()
        await claim.release()

    asyncio.run(run())
    assert list(store.list("claims/")) == []
    for owner in owners:
        owner.close()


def test_a_claim_of_an_owner_without_a_lease_is_a_dead_ones(store):
    store.put("claims/name.0", b"nobody")
    owner = Owner(store)
    assert asyncio.run(try_claim(owner, "name")) is not None
    owner.close()


def test_a_lease_is_renewed_while_its_owner_lives_also_after_it_was_closed_before(store, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 0.2)
    owner = Owner(store)
    for _ in range(2):
        owner.close()
        owner.start()
        first = expiry(store, owner)
        deadline = time.monotonic() + 60
        while expiry(store, owner) == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    owner.close()


def expiry(store, owner):
    return json.loads(store.get(f"leases/{owner.id}.json"))["expires_at"]


def half_written(store: ObjectStore, name="journal/kind/ke/key.json#1"):
    path = store.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    return path


def dead_owner(store):
    process = worker.start(store.url, "live")
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.wait()


@pytest.fixture
def local(tmp_path):
    return ObjectStore(str(tmp_path / "store"))


@pytest.mark.slow
def test_what_a_dead_owner_left_half_written_is_swept_at_the_next_start(local):
    dead_owner(local)
    half = half_written(local)
    local.put("journal/kind/ke/whole.json", b"whole")
    owner = Owner(local)
    owner.start()
    assert not half.exists()
    assert local.get("journal/kind/ke/whole.json") == b"whole"
    assert list(local.list("leases/")) == [f"leases/{owner.id}.json"]
    owner.close()


@pytest.mark.slow
def test_nothing_is_swept_while_another_owner_lives_and_it_is_once_none_does(local):
    living = worker.start(local.url, "live")
    assert living.stdout.readline() == "ready\n"
    dead_owner(local)
    half = half_written(local)
    for _ in range(2):
        owner = Owner(local)
        owner.start()
        assert half.exists()
        owner.close()
    living.communicate("stop\n", timeout=120)
    owner = Owner(local)
    owner.start()
    assert not half.exists()
    owner.close()
    assert list(local.list("leases/")) == []


@pytest.mark.slow
def test_a_process_killed_while_it_writes_leaves_nothing_half_written_after_the_next_start(local):
    """With the half-written file that the object store library itself leaves."""
    for _ in range(50):
        process = worker.start(local.url, "write-for-ever")
        assert process.stdout.readline() == "ready\n"
        big = local.root / "big"
        while not (big.is_dir() and any("#" in path.name for path in big.iterdir())):
            assert process.poll() is None
        process.kill()
        process.wait()
        if any("#" in path.name for path in big.iterdir()):
            break
    assert any("#" in path.name for path in big.iterdir())
    assert all("#" not in path for path in local.list("big/")), "a half-written object is listed"
    owner = Owner(local)
    owner.start()
    owner.close()
    assert not any("#" in path.name for path in big.iterdir())


def test_sweeping_an_empty_store_does_nothing(store):
    sweep(store)
    assert list(store.list("leases/")) == []

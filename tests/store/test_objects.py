import asyncio
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_assets.core.errors import UsageError
from rl_assets.store.objects import ObjectStore


def test_what_was_put_is_got_until_it_is_deleted(store):
    assert store.get("a/b") is None
    store.put("a/b", b"1")
    store.put("a/b", b"2")
    assert store.get("a/b") == b"2"
    store.delete("a/b")
    assert store.get("a/b") is None
    store.delete("a/b")


def test_the_asynchronous_calls_do_the_same(store):
    async def run():
        assert await store.get_async("a") is None
        assert await store.put_new_async("a", b"1")
        assert not await store.put_new_async("a", b"2")
        assert await store.get_async("a") == b"1"
        await store.delete_async("a")
        await store.delete_async("a")
        assert await store.get_async("a") is None

    asyncio.run(run())


def test_put_new_does_not_replace(store):
    assert store.put_new("a", b"first")
    assert not store.put_new("a", b"second")
    assert store.get("a") == b"first"
    store.delete("a")
    assert store.put_new("a", b"third")


@pytest.mark.parametrize("size", [0, 1, 12_000_000])
def test_any_size_is_put_new_once_and_comes_back_whole(store, size):
    """Past some megabytes a store may upload in parts, which must not lose the condition."""
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert store.put_new("big", data)
    assert not store.put_new("big", b"other")
    assert store.get("big") == data


def test_of_many_threads_that_put_new_at_once_exactly_one_wins(url):
    stores = [ObjectStore(url) for _ in range(8)]
    for round_ in range(10):
        barrier, won = threading.Barrier(8), []

        def put(number, round_=round_, barrier=barrier, won=won):
            barrier.wait()
            if stores[number].put_new(f"race/{round_}", str(number).encode()):
                won.append(number)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert stores[0].get(f"race/{round_}") == str(won[0]).encode()


def test_of_many_tasks_that_put_new_at_once_exactly_one_wins(store):
    async def run():
        return await asyncio.gather(*(store.put_new_async("race", str(number).encode()) for number in range(20)))

    won = asyncio.run(run())
    assert sum(won) == 1
    assert store.get("race") == str(won.index(True)).encode()


def test_list_gives_all_below_a_prefix_and_nothing_beside_it(store):
    for path in ("a/1", "a/b/2", "ab/3", "c"):
        store.put(path, b"")
    assert sorted(store.list("a/")) == ["a/1", "a/b/2"]
    assert list(store.list("nothing/")) == []


@pytest.mark.slow
def test_list_has_more_than_one_page(store):
    paths = {f"many/{number:04d}" for number in range(1100)}
    for path in paths:
        store.put(path, b"")
    assert set(store.list("many/")) == paths


def test_two_prefixes_of_one_bucket_do_not_see_each_other(s3_url):
    one, other = ObjectStore(f"{s3_url}/one"), ObjectStore(f"{s3_url}/other")
    one.put("a", b"1")
    assert other.get("a") is None
    assert list(other.list("a/")) == []


def test_a_file_url_is_the_folder(tmp_path):
    ObjectStore((tmp_path / "with space").as_uri()).put("a/b", b"1")
    assert (tmp_path / "with space" / "a" / "b").read_bytes() == b"1"


def test_a_url_that_cannot_be_opened_is_one_line_about_the_variable():
    with pytest.raises(UsageError, match=r"^RL_ASSETS_STORE=nonsense://x: ") as caught:
        ObjectStore("nonsense://x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sync", [True, False])
def test_a_synchronous_store_has_the_disk_keep_the_file_and_every_folder_above_it(tmp_path, monkeypatch, sync):
    opened, kept = {}, []
    really_open, really_fsync = os.open, os.fsync

    def spying_open(path, *arguments, **options):
        descriptor = really_open(path, *arguments, **options)
        opened[descriptor] = Path(path)
        return descriptor

    def spying_fsync(descriptor):
        really_fsync(descriptor)
        kept.append(opened[descriptor])

    store = ObjectStore(str(tmp_path), sync=sync)
    monkeypatch.setattr(os, "open", spying_open)
    monkeypatch.setattr(os, "fsync", spying_fsync)
    for write, path in ((store.put, "a/b/put"), (store.put_new, "c/d/put_new")):
        kept.clear()
        write(path, b"1")
        file = tmp_path / path
        assert set(kept) == ({file, file.parent, file.parent.parent, tmp_path} if sync else set())
        assert store.get(path) == b"1"
    assert not store.put_new("a/b/put", b"2")


def test_a_local_file_holds_the_object_and_one_that_is_not_there_is_an_error(store, tmp_path):
    store.put("tables/x.parquet", b"data")
    assert store.local_file("tables/x.parquet", tmp_path / "cache").read_bytes() == b"data"
    assert store.local_file("tables/x.parquet", tmp_path / "cache").read_bytes() == b"data"
    if store.root is None:
        with pytest.raises(FileNotFoundError):
            store.local_file("tables/y.parquet", tmp_path / "cache")


def test_two_remote_stores_share_a_cache_without_mixing(s3_url, tmp_path: Path):
    one, other = ObjectStore(f"{s3_url}/one"), ObjectStore(f"{s3_url}/other")
    one.put("same", b"of one")
    other.put("same", b"of other")
    assert one.local_file("same", tmp_path).read_bytes() == b"of one"
    assert other.local_file("same", tmp_path).read_bytes() == b"of other"


def test_only_half_written_files_from_before_are_swept(tmp_path):
    store = ObjectStore(str(tmp_path))
    store.put("a/whole", b"1")
    half, late = tmp_path / "a" / "half#1", tmp_path / "late#23"
    for path in (half, late):
        path.write_bytes(b"")
    moment = late.stat().st_mtime + 10
    os.utime(late, (moment + 5, moment + 5))
    assert store.sweep_staged(before=moment) == 1
    assert not half.exists()
    assert late.exists()
    assert store.get("a/whole") == b"1"


operations = st.lists(
    st.tuples(
        st.sampled_from(["get", "put", "put_new", "delete"]),
        st.sampled_from(["a", "d/b", "d/e/c"]),
        st.binary(max_size=8),
    ),
    max_size=20,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations)
def test_a_store_behaves_as_a_dictionary(store, steps):
    model = {}
    for path in ("a", "d/b", "d/e/c"):
        store.delete(path)
    for what, path, data in steps:
        match what:
            case "get":
                assert store.get(path) == model.get(path)
            case "put":
                store.put(path, data)
                model[path] = data
            case "put_new":
                assert store.put_new(path, data) == (path not in model)
                model.setdefault(path, data)
            case "delete":
                store.delete(path)
                model.pop(path, None)
    assert sorted(store.list("d/")) == sorted(path for path in model if path.startswith("d/"))

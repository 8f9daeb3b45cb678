import asyncio
import collections
import json
import random
import tempfile
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from rl_assets.core.errors import RlAssetsError
from rl_assets.store.journal import Journal
from rl_assets.store.objects import ObjectStore
from tests.store import worker


class Boom(Exception):
    pass


def making(data, log=None, wait=0.0, error=None):
    async def make():
        if log is not None:
            log.append(data)
        await asyncio.sleep(wait)
        if error is not None:
            raise error
        return data

    return make


def claims(store):
    return list(store.list("claims/"))


def test_the_first_result_of_a_key_stands(journal):
    async def run():
        log = []
        first = await journal.once("kind", "key", making(b"1", log))
        second = await journal.once("kind", "key", making(b"2", log))
        assert (first, second, log) == ((b"1", False), (b"1", True), [b"1"])
        assert await journal.get("kind", "key") == b"1"
        assert await journal.put("kind", "key", b"3") == b"1"
        assert await journal.get("other kind", "key") is None

    asyncio.run(run())
    assert claims(journal.store) == []


def test_what_one_process_recorded_another_finds(url):
    assert asyncio.run(Journal(ObjectStore(url)).put("kind", "key", b"1")) == b"1"
    assert asyncio.run(Journal(ObjectStore(url)).once("kind", "key", making(b"2"))) == (b"1", True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary() | st.binary().map(lambda data: data + b"\n"))
def test_any_bytes_come_back_as_they_were(journal, data):
    journal.store.delete("journal/kind/ke/key.json")
    asyncio.run(journal.put("kind", "key", data))
    assert asyncio.run(journal.get("kind", "key")) == data


def test_tasks_that_ask_at_once_make_a_key_once(journal):
    async def run():
        log = []
        asked = [journal.once("kind", f"key{index % 3}", making(b"%d" % (index % 3), log, 0.01)) for index in range(60)]
        recorded = await asyncio.gather(*asked)
        assert sorted(log) == [b"0", b"1", b"2"]
        assert [record.data for record in recorded] == [b"%d" % (index % 3) for index in range(60)]
        assert sum(not record.recovered for record in recorded) == 3

    asyncio.run(run())


@pytest.mark.parametrize("shared", [True, False], ids=["one journal", "a journal each"])
def test_threads_that_ask_at_once_make_a_key_once(url, shared):
    """Each thread with an event loop of its own."""
    one = Journal(ObjectStore(url))
    journals = [one if shared else Journal(ObjectStore(url)) for _ in range(6)]
    barrier, log, results, errors = threading.Barrier(6), [], collections.defaultdict(set), []

    def work(journal):
        async def run():
            keys = [f"key{number}" for number in range(8)]
            random.shuffle(keys)
            for key in keys:
                recorded = await journal.once("kind", key, making(key.encode(), log, 0.01))
                results[key].add(recorded.data)

        barrier.wait()
        try:
            asyncio.run(run())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(journal,)) for journal in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for journal in journals:
        journal.close()
    assert errors == []
    assert sorted(log) == sorted(f"key{number}".encode() for number in range(8))
    assert results == {f"key{number}": {f"key{number}".encode()} for number in range(8)}
    assert claims(one.store) == []


@pytest.mark.slow
def test_processes_that_ask_at_once_make_a_key_once(url, tmp_path):
    log = tmp_path / "made"
    processes = [worker.start(url, "make-all", str(log), "40") for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(line) for process in processes for line in process.communicate(timeout=300)[0].splitlines()]
    assert [process.returncode for process in processes] == [0] * 4
    keys = sorted(f"key{number}" for number in range(40))
    assert sorted(log.read_text().split()) == keys
    assert len({(key, data) for key, data, _ in said}) == 40
    assert sorted(key for key, _, recovered in said if not recovered) == keys
    store = ObjectStore(url)
    assert claims(store) == []
    assert list(store.list("leases/")) == []


@pytest.mark.slow
def test_a_process_killed_while_making_leaves_the_key_to_the_next_at_once(url):
    """Its lease holds for days yet."""
    process = worker.start(url, "make-for-ever", "key")
    assert process.stdout.readline() == "making\n"
    journal = Journal(ObjectStore(url))

    async def run():
        waiting = asyncio.create_task(journal.once("kind", "key", making(b"mine")))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        process.kill()
        process.wait()
        return await waiting

    assert asyncio.run(run()) == (b"mine", False)
    assert claims(journal.store) == []
    journal.close()


@pytest.mark.slow
def test_several_dead_makers_in_a_row_do_not_matter(url):
    for _ in range(3):
        process = worker.start(url, "make-for-ever", "key")
        assert process.stdout.readline() == "making\n"
        process.kill()
        process.wait()
    journal = Journal(ObjectStore(url))
    assert asyncio.run(journal.once("kind", "key", making(b"mine"))) == (b"mine", False)
    journal.close()
    assert claims(journal.store) == []
    assert list(journal.store.list("leases/")) == []


def test_an_error_reaches_the_caller_and_is_recorded_nowhere(journal):
    async def run():
        with pytest.raises(Boom):
            await journal.once("kind", "key", making(b"1", error=Boom()))
        assert await journal.get("kind", "key") is None
        assert claims(journal.store) == []
        assert await journal.once("kind", "key", making(b"2")) == (b"2", False)

    asyncio.run(run())


def test_those_who_wait_for_one_that_fails_try_themselves_one_after_the_other(journal):
    async def run():
        log = []
        calls = [
            journal.once("kind", "key", making(b"bad", log, 0.01, Boom())),
            journal.once("kind", "key", making(b"bad too", log, 0.01, Boom())),
            journal.once("kind", "key", making(b"good", log, 0.01)),
            journal.once("kind", "key", making(b"too late", log, 0.01)),
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results[:2]] == [Boom, Boom]
        assert [result.data for result in results[2:]] == [b"good", b"good"]
        assert log == [b"bad", b"bad too", b"good"]

    asyncio.run(run())


def test_when_the_maker_is_cancelled_one_who_waits_makes_it(journal):
    async def run():
        maker = asyncio.create_task(journal.once("kind", "key", making(b"never", wait=3600)))
        await asyncio.sleep(0.2)
        waiting = asyncio.create_task(journal.once("kind", "key", making(b"mine")))
        await asyncio.sleep(0.1)
        maker.cancel()
        assert await waiting == (b"mine", False)
        with pytest.raises(asyncio.CancelledError):
            await maker
        assert claims(journal.store) == []

    asyncio.run(run())


def test_when_one_who_waits_is_cancelled_the_maker_goes_on(journal):
    async def run():
        release = asyncio.Event()

        async def make():
            await release.wait()
            return b"made"

        maker = asyncio.create_task(journal.once("kind", "key", make))
        await asyncio.sleep(0.2)
        waiting = asyncio.create_task(journal.once("kind", "key", making(b"other")))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        assert await maker == (b"made", False)

    asyncio.run(run())


def test_one_who_waits_for_another_process_can_be_cancelled(url):
    holder, other = Journal(ObjectStore(url)), Journal(ObjectStore(url))

    async def run():
        maker = asyncio.create_task(holder.once("kind", "key", making(b"slow", wait=1)))
        await asyncio.sleep(0.2)
        waiting = asyncio.create_task(other.once("kind", "key", making(b"other")))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await maker == (b"slow", False)
        assert await other.once("kind", "key", making(b"other")) == (b"slow", True)

    asyncio.run(run())
    holder.close()
    other.close()


@pytest.mark.parametrize("damage", [b"", b"1", b"x1\n" + b"0" * 64 + b"\n", b"\n\n\n"])
def test_a_damaged_record_is_one_line_that_names_it_and_the_way_out(journal, damage):
    asyncio.run(journal.put("kind", "key", b"1"))
    (path,) = journal.store.list("journal/")
    journal.store.put(path, damage)
    for call in (journal.get("kind", "key"), journal.put("kind", "key", b"2"), journal.once("kind", "key", making(b"2"))):
        with pytest.raises(RlAssetsError) as caught:
            asyncio.run(call)
        assert str(caught.value) == f"{path}: the record is damaged; delete this object to have it made again"
    journal.store.delete(path)
    assert asyncio.run(journal.once("kind", "key", making(b"2"))) == (b"2", False)


@given(st.binary(min_size=1, max_size=30), st.data())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_or_missing_byte_of_a_record_is_noticed(tmp_path, content, data):
    journal = Journal(ObjectStore(str(tmp_path)))
    path = "journal/kind/ke/key.json"
    journal.store.delete(path)
    asyncio.run(journal.put("kind", "key", content))
    sealed = bytearray(journal.store.get(path))
    at = data.draw(st.integers(0, len(sealed) - 2))  # the last byte is the newline that ends the file
    if data.draw(st.booleans()):
        sealed[at] ^= data.draw(st.integers(1, 255))
    else:
        del sealed[at:]
    journal.store.put(path, bytes(sealed))
    with pytest.raises(RlAssetsError, match="damaged"):
        asyncio.run(journal.get("kind", "key"))


def test_a_failure_stands_until_there_is_a_record(url):
    journal = Journal(ObjectStore(url))

    async def run():
        assert await journal.standing_failure("kind", "key") is None
        journal.put_failure("kind", "key", b"first")
        journal.put_failure("kind", "key", b"last")
        assert await journal.standing_failure("kind", "key") == b"last"
        assert await Journal(ObjectStore(url)).standing_failure("kind", "key") == b"last"
        assert await journal.standing_failure("kind", "other") is None
        await journal.put("kind", "key", b"made")
        assert await journal.standing_failure("kind", "key") is None

    asyncio.run(run())


def test_every_attempt_is_kept(journal):
    for number in range(3):
        journal.add_attempt("kind", "key", {"number": number})
    paths = sorted(journal.store.list("attempts/kind/"))
    assert [journal.store.get(path) for path in paths] == [b'{"number": %d}' % number for number in range(3)]


calls = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 6),
        st.integers(0, 6),
        st.sampled_from(["make", "make", "raise", "cancelled"]),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls, st.integers(1, 3))
def test_however_calls_overlap_fail_and_are_cancelled_a_key_is_made_once(tmp_path_factory, calls, n_journals):
    """Each call waits a while, then makes for a while; journals share a store as processes do."""
    folder = str(tmp_path_factory.mktemp("store"))
    journals = [Journal(ObjectStore(folder)) for _ in range(n_journals)]
    made = collections.defaultdict(list)

    async def call(number, key, wait, work, what):
        async def make():
            for _ in range(work):
                await asyncio.sleep(0.001)
            if what == "raise":
                raise Boom
            made[key].append(b"%d" % number)
            return b"%d" % number

        await asyncio.sleep(wait * 0.001)
        return await journals[number % n_journals].once("kind", key, make)

    async def run():
        tasks = [asyncio.create_task(call(number, *given_call)) for number, given_call in enumerate(calls)]
        await asyncio.sleep(0.003)
        for task, (*_, what) in zip(tasks, calls, strict=True):
            if what == "cancelled":
                task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(run())
    for key in ("a", "b"):
        record = asyncio.run(journals[0].get("kind", key))
        assert made[key] == ([] if record is None else [record])
    for (key, *_, what), result in zip(calls, results, strict=True):
        if isinstance(result, BaseException):
            assert isinstance(result, Boom if what == "raise" else asyncio.CancelledError)
            assert what in ("raise", "cancelled")
        else:
            assert result.data == made[key][0]
    assert claims(journals[0].store) == []
    for journal in journals:
        journal.close()


keys = st.sampled_from(["a", "ab", "b"])
data = st.binary(max_size=6)


class JournalAsDictionary(RuleBasedStateMachine):
    """Whatever is done in whatever order, by however many journals on one store, a key keeps its first record."""

    journals = Bundle("journals")

    @initialize(target=journals)
    def first(self):
        self.folder = tempfile.TemporaryDirectory()
        self.records, self.failures = {}, {}
        return self.another()

    @rule(target=journals)
    def another(self):
        return Journal(ObjectStore(self.folder.name))

    @rule(journal=journals, key=keys, data=data)
    def put(self, journal, key, data):
        assert asyncio.run(journal.put("kind", key, data)) == self.records.setdefault(key, data)

    @rule(journal=journals, key=keys)
    def get(self, journal, key):
        assert asyncio.run(journal.get("kind", key)) == self.records.get(key)

    @rule(journal=journals, key=keys, data=data)
    def once(self, journal, key, data):
        known, log = key in self.records, []
        expected = self.records.setdefault(key, data)
        assert asyncio.run(journal.once("kind", key, making(data, log))) == (expected, known)
        assert bool(log) != known

    @rule(journal=journals, key=keys)
    def fail(self, journal, key):
        call = journal.once("kind", key, making(b"", error=Boom()))
        if key in self.records:
            assert asyncio.run(call) == (self.records[key], True)
        else:
            with pytest.raises(Boom):
                asyncio.run(call)

    @rule(journal=journals, key=keys, data=data)
    def give_up(self, journal, key, data):
        journal.put_failure("kind", key, data)
        self.failures[key] = data
        expected = None if key in self.records else data
        assert asyncio.run(journal.standing_failure("kind", key)) == expected

    @rule(key=keys)
    def ask_anew_for_the_failure(self, key):
        expected = None if key in self.records else self.failures.get(key)
        assert asyncio.run(self.another().standing_failure("kind", key)) == expected

    @rule(journal=journals)
    def close(self, journal):
        journal.close()

    def teardown(self):
        if hasattr(self, "folder"):
            store = ObjectStore(self.folder.name)
            assert claims(store) == []
            self.folder.cleanup()


JournalAsDictionary.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestJournalAsDictionary = JournalAsDictionary.TestCase

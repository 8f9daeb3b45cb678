import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_assets.core.errors import InfrastructureError, SandboxDied
from rl_assets.sandbox.memory import MemorySandbox
from rl_assets.trajectories.agent import DocumentReader, Ending
from rl_assets.trajectories.rollout import run_trials
from rl_assets.trajectories.settings import Faults
from rl_assets.trajectories.table import data_version, from_table, to_table
from rl_assets.trajectories.trial import Outcome, Turn
from tests.rooms import Scripted, gave_up, journal_in, make_rollout, make_specs, make_worlds

WORLDS = make_worlds(3)
READER = DocumentReader(max_turns=6)
DEATH = "0000/world_1/0000"
"""The trial that things happen to."""


@pytest.fixture
def journal(tmp_path):
    journal = journal_in(tmp_path / "store")
    yield journal
    journal.close()


def run(rollout, specs, landed=None):
    return asyncio.run(run_trials(rollout, specs, landed))


def only(act, otherwise=gave_up):
    """An agent that does one thing in world_1 and another elsewhere."""

    async def acting(sandbox, prior, random):
        is_there = prior.get("here") == 1.0
        result = (act if is_there else otherwise)(sandbox, prior, random)
        return await result if asyncio.iscoroutine(result) else result

    return {"agent": Scripted(acting), "priors": {"world_1": {"here": 1.0}}}


def attempts(journal):
    return [json.loads(journal.store.get(path)) for path in sorted(journal.store.list("attempts/trial/"))]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_so_many_trials_run_at_once_and_no_more(journal, concurrency):
    running, most = 0, 0

    async def act(*_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return gave_up()

    agent = Scripted(act)
    specs = make_specs(WORLDS, agent, samples=5)
    trials = run(make_rollout(journal, WORLDS, agent, settings={"concurrency": concurrency}), specs)
    assert len(trials) == 15
    assert most == min(concurrency, 15)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(6)), st.integers(1, 6))
def test_trials_come_in_canonical_order_whatever_the_order_of_ending(tmp_path_factory, order, concurrency):
    ended = []

    async def act(*_):
        number = started.pop(0)
        for _ in range(order[number] * 3):
            await asyncio.sleep(0)
        ended.append(number)
        return gave_up()

    started = list(range(6))
    agent = Scripted(act)
    journal = journal_in(tmp_path_factory.mktemp("store"))
    specs = make_specs(WORLDS, agent)
    rollout = make_rollout(journal, WORLDS, agent, settings={"concurrency": concurrency})
    trials = run(rollout, order_by(specs, order))
    journal.close()
    assert [trial.id for trial in trials] == [spec.id for spec in specs]
    assert sorted(ended) == list(range(6))


def order_by(items, order):
    return [items[index] for index in order]


def test_each_trial_is_run_once_and_then_looked_up(journal, tmp_path):
    specs = make_specs(WORLDS, READER)
    first = make_rollout(journal, WORLDS)
    trials = run(first, specs)
    assert first.tally.snapshot() | {"trials_run": 6, "trials_recovered": 0} == first.tally.snapshot()
    again = make_rollout(journal_in(tmp_path / "store"), WORLDS, Scripted(lambda *_: 1 / 0))
    assert run(again, specs) == trials
    assert (len(again.tally.trials_run), len(again.tally.trials_recovered)) == (0, 6)


def test_a_trial_draws_from_a_stream_of_its_own(tmp_path):
    """The same whether it runs alone, with others, or with another number of them at once."""
    specs = make_specs(WORLDS, READER, samples=4)
    versions = []
    for number, (chosen, concurrency) in enumerate([(specs, 1), (specs, 7), (specs[::-1], 3)]):
        journal = journal_in(tmp_path / str(number))
        versions.append(data_version(run(make_rollout(journal, WORLDS, settings={"concurrency": concurrency}), chosen)))
        journal.close()
    journal = journal_in(tmp_path / "alone")
    alone = [run(make_rollout(journal, WORLDS), [spec])[0] for spec in specs]
    journal.close()
    assert {*versions, data_version(alone)} == {versions[0]}


def test_flaky_faults_change_neither_the_keys_nor_the_contents_of_trials(tmp_path):
    specs = make_specs(WORLDS, READER, samples=10)
    calm_journal, flaky_journal = journal_in(tmp_path / "calm"), journal_in(tmp_path / "flaky")
    calm = run(make_rollout(calm_journal, WORLDS), specs)
    flaky = run(make_rollout(flaky_journal, WORLDS, faults=Faults(flaky_trials=0.5)), specs)
    assert [trial.content for trial in flaky] == [trial.content for trial in calm]
    assert [trial.key for trial in flaky] == [spec.key for spec in specs]
    hit = [trial for trial in flaky if trial.attempts == 2]
    assert 5 < len(hit) < 25
    assert len(attempts(flaky_journal)) == len(hit)
    calm_journal.close()
    flaky_journal.close()


def test_a_trial_that_always_dies_is_recorded_as_failed_and_returned_and_the_others_go_on(journal):
    rollout = make_rollout(journal, WORLDS, faults=Faults(dead_trials=(DEATH,)), settings={"retries": 2})
    trials = run(rollout, make_specs(WORLDS, READER))
    failed = [trial for trial in trials if trial.outcome is Outcome.FAILED]
    assert [trial.id for trial in failed] == [DEATH]
    assert failed[0].attempts == 3
    assert DEATH in failed[0].error
    assert "\n" not in failed[0].error
    assert len(trials) == 6
    assert [entry["attempt"] for entry in attempts(journal)] == [0, 1, 2]
    assert (len(rollout.tally.trials_run), len(rollout.tally.trials_failed)) == (5, 1)


def test_a_failed_trial_gets_another_go_only_when_asked_for(journal, tmp_path):
    specs = make_specs(WORLDS, READER)
    first = run(make_rollout(journal, WORLDS, faults=Faults(dead_trials=(DEATH,))), specs)
    for other in (journal, journal_in(tmp_path / "store")):
        again = make_rollout(other, WORLDS)
        assert run(again, specs) == first
        assert len(again.tally.trials_failed) == 1
        assert again.tally.trials_run == set()
    retried = make_rollout(journal, WORLDS, retry_failed=True)
    trials = run(retried, specs)
    assert len(retried.tally.trials_run) == 1
    assert all(trial.outcome.is_result for trial in trials)
    assert run(make_rollout(journal, WORLDS), specs) == trials, "and then it stands"


def test_the_deadline_ends_a_trial_that_hangs_and_names_it(journal):
    async def hang(*_):
        await asyncio.sleep(3600)

    rollout = make_rollout(journal, WORLDS, **only(hang), settings={"deadline_s": 0.2, "retries": 1})
    trials = run(rollout, make_specs(WORLDS, rollout.agent, samples=1))
    assert {trial.id: trial.outcome for trial in trials} == {
        "0000/world_0/0000": Outcome.GAVE_UP,
        DEATH: Outcome.DEADLINE,
        "0000/world_2/0000": Outcome.GAVE_UP,
    }
    assert trials[1].error == f"trial {DEATH} did not end within 0.2 s"
    assert trials[1].attempts == 2


def test_the_timeout_of_a_tool_is_not_taken_for_the_deadline(journal):
    async def tool(*_):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)

    rollout = make_rollout(journal, WORLDS, **only(tool), settings={"retries": 0})
    trials = run(rollout, make_specs(WORLDS, rollout.agent, samples=1))
    assert trials[1].outcome is Outcome.FAILED
    assert trials[1].error.startswith(f"trial {DEATH}: TimeoutError")


def test_each_attempt_has_the_whole_deadline(journal):
    """A first attempt that hangs leaves the second its full time."""
    calls = []

    async def act(*_):
        calls.append(1)
        await asyncio.sleep(3600 if len(calls) == 1 else 0.05)
        return gave_up()

    agent = Scripted(act)
    rollout = make_rollout(journal, WORLDS, agent, settings={"deadline_s": 2.0})
    (trial,) = run(rollout, make_specs(WORLDS, agent)[:1])
    assert (trial.outcome, trial.attempts) == (Outcome.GAVE_UP, 2)


class Unprintable(Exception):
    pass


ERRORS = [
    ValueError("several\nlines"),
    KeyError("x"),
    Unprintable("no unicode \udcff"),
    AssertionError(),
    ExceptionGroup("group", [OSError("inner")]),
    StopIteration(1),
    RecursionError("deep"),
    MemoryError(),
    TimeoutError(),
    asyncio.CancelledError(),
    InfrastructureError("of its own"),
    SandboxDied("of its own"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_whatever_an_agent_raises_is_data_and_the_other_trials_go_on(journal, error, concurrency):
    def act(*_):
        raise error

    rollout = make_rollout(journal, WORLDS, **only(act), settings={"concurrency": concurrency})
    trials = run(rollout, make_specs(WORLDS, rollout.agent, samples=1))
    assert [trial.outcome for trial in trials] == [Outcome.GAVE_UP, Outcome.FAILED, Outcome.GAVE_UP]
    assert "\n" not in trials[1].error
    assert len(attempts(journal)) == 2


BAD_ENDINGS = {
    "nothing": lambda *_: None,
    "no outcome": lambda *_: Ending("unheard of", ()),
    "no turns": lambda *_: Ending(Outcome.ANSWERED, ("not a turn",)),
    "a turn that is no text": lambda *_: Ending(
        Outcome.ANSWERED, (Turn(turn=0, tool="read", argument="\udcff", output="", elapsed_s=0.0),)
    ),
}


@pytest.mark.parametrize("act", BAD_ENDINGS.values(), ids=BAD_ENDINGS)
def test_an_ending_that_cannot_be_recorded_is_a_failed_trial_and_no_crash(journal, act):
    rollout = make_rollout(journal, WORLDS, **only(act))
    trials = run(rollout, make_specs(WORLDS, rollout.agent, samples=1))
    assert [trial.outcome for trial in trials] == [Outcome.GAVE_UP, Outcome.FAILED, Outcome.GAVE_UP]


def test_bytes_that_are_no_text_are_kept_as_far_as_they_are(journal):
    async def act(sandbox, *_):
        await sandbox.write("answer.txt", b"ok \xff")
        await sandbox.write("name \udcff", b"")
        return Ending(Outcome.ANSWERED, (Turn(turn=0, tool="read", argument="documents/a", output="", elapsed_s=0.0),))

    agent = Scripted(act)
    (trial,) = run(make_rollout(journal, WORLDS, agent), make_specs(WORLDS, agent)[:1])
    assert trial.files["answer.txt"] == "ok �"
    assert from_table(to_table([trial], "answer.txt")) == [trial]


class CountedSandboxes:
    """Counts those that were started and not stopped; the first so many fail to start."""

    def __init__(self, failing=0):
        self.open, self.started, self.failing = 0, 0, failing

    async def start(self, world):
        self.started += 1
        if self.started <= self.failing:
            raise SandboxDied("no room")
        self.open += 1
        counter = self

        class Sandbox(MemorySandbox):
            async def stop(self):
                counter.open -= 1

        return Sandbox(world)


def test_every_sandbox_is_stopped_however_its_trial_ends(journal):
    async def act(sandbox, prior, random):
        choice = random.random()
        if choice < 0.3:
            raise ValueError
        if choice < 0.5:
            await asyncio.sleep(3600)
        return gave_up()

    agent, sandboxes = Scripted(act), CountedSandboxes()
    rollout = make_rollout(journal, WORLDS, agent, sandboxes=sandboxes, settings={"deadline_s": 0.5})
    trials = run(rollout, make_specs(WORLDS, agent, samples=10))
    assert {trial.outcome for trial in trials} == {Outcome.GAVE_UP, Outcome.FAILED, Outcome.DEADLINE}
    assert sandboxes.started > 30
    assert sandboxes.open == 0


def test_a_sandbox_that_cannot_be_started_is_an_attempt(journal):
    sandboxes = CountedSandboxes(failing=1)
    trials = run(make_rollout(journal, WORLDS, sandboxes=sandboxes), make_specs(WORLDS, READER)[:1])
    assert trials[0].attempts == 2
    assert trials[0].outcome.is_result


def test_a_trial_is_handed_over_as_it_ends_while_a_straggler_still_runs(journal):
    handed = []
    others_are_done = asyncio.Event()

    async def straggle(*_):
        await others_are_done.wait()
        return gave_up()

    async def landed(trial):
        await asyncio.sleep(0.01)
        handed.append(trial.id)
        if len(handed) == 4:
            others_are_done.set()

    rollout = make_rollout(journal, WORLDS, **only(straggle), settings={"concurrency": 3})
    specs = [spec for spec in make_specs(WORLDS, rollout.agent) if spec.world != "world_1" or spec.sample == 0]
    trials = run(rollout, specs, landed)
    assert len(trials) == 5
    assert handed[-1] == DEATH
    assert sorted(handed) == sorted(spec.id for spec in specs)


def test_a_slow_hand_over_does_not_hold_up_the_next_trial(journal):
    all_ended, ended = asyncio.Event(), []

    def act(*_):
        ended.append(1)
        if len(ended) == 6:
            all_ended.set()
        return gave_up()

    async def landed(_):
        await all_ended.wait()

    agent = Scripted(act)
    rollout = make_rollout(journal, WORLDS, agent, settings={"concurrency": 1})
    assert len(run(rollout, make_specs(WORLDS, agent), landed)) == 6


def test_failed_and_recorded_trials_are_handed_over_too(journal):
    specs = make_specs(WORLDS, READER)
    for _ in range(2):
        handed = []

        async def landed(trial, handed=handed):
            handed.append(trial.id)

        run(make_rollout(journal, WORLDS, faults=Faults(dead_trials=(DEATH,))), specs, landed)
        assert sorted(handed) == [spec.id for spec in specs]


def test_when_it_is_cancelled_nothing_unfinished_is_recorded_and_the_ended_are(tmp_path):
    started = []

    async def act(sandbox, prior, random):
        started.append(1)
        if len(started) > 3:
            await asyncio.sleep(3600)
        return gave_up()

    agent = Scripted(act)
    journal = journal_in(tmp_path)
    specs = make_specs(WORLDS, agent)

    async def cancelled():
        task = asyncio.create_task(run_trials(make_rollout(journal, WORLDS, agent), specs))
        while len(started) < 6:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert len(list(journal.store.list("journal/trial/"))) == 3
    assert list(journal.store.list("failures/")) == list(journal.store.list("claims/")) == []
    resumed = make_rollout(journal, WORLDS, Scripted(gave_up))
    assert len(run(resumed, specs)) == 6
    assert (len(resumed.tally.trials_run), len(resumed.tally.trials_recovered)) == (3, 3)
    journal.close()


def test_two_runs_of_the_same_trials_at_once_share_the_work(tmp_path):
    specs = make_specs(WORLDS, READER, samples=4)
    reader = DocumentReader(6, tool_latency_s=0.01)
    journals = [journal_in(tmp_path), journal_in(tmp_path)]
    rollouts = [make_rollout(journal, WORLDS, reader) for journal in journals]

    async def both():
        return await asyncio.gather(*(run_trials(rollout, specs) for rollout in rollouts))

    one, other = asyncio.run(both())
    assert one == other
    ran = [rollout.tally.trials_run for rollout in rollouts]
    assert not ran[0] & ran[1]
    assert len(ran[0] | ran[1]) == 12
    for journal in journals:
        journal.close()

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.errors import InfrastructureError
from rl_assets.trajectories.agent import DocumentReader
from rl_assets.trajectories.trial import Outcome, TrialSpec
from tests.rooms import make_trial

BASE = {
    "world": "world_0",
    "world_digest": "w",
    "policy_digest": "p",
    "agent": DocumentReader(max_turns=6).identity,
    "purpose": "train",
    "seed": 0,
    "step": 0,
    "sample": 0,
}


@pytest.mark.parametrize(
    "change",
    [
        {"world": "world_1"},
        {"world_digest": "other"},
        {"policy_digest": "other"},
        {"agent": DocumentReader(max_turns=7).identity},
        {"agent": BASE["agent"] | {"semantics": 2}},
        {"purpose": "eval"},
        {"seed": 1},
        {"step": 1},
        {"sample": 1},
    ],
)
def test_all_that_can_change_a_result_is_in_the_key(change):
    assert TrialSpec(**BASE | change).key != TrialSpec(**BASE).key


def test_what_only_changes_how_fast_it_comes_is_not_in_the_key():
    assert DocumentReader(6, tool_latency_s=3.0).identity == DocumentReader(6).identity
    assert set(TrialSpec.model_fields) == set(BASE), "a new field has to be thought about here"


def test_the_order_of_an_agents_settings_does_not_matter():
    agent = dict(reversed(BASE["agent"].items()))
    assert TrialSpec(**BASE | {"agent": agent}).key == TrialSpec(**BASE).key


@given(st.permutations([make_trial(sample, world, step) for sample in (0, 9, 10) for world in "ab" for step in (0, 1)]))
def test_the_canonical_order_is_by_step_world_and_sample(trials):
    ids = [trial.id for trial in sorted(trials, key=lambda trial: trial.order)]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "beside", [{"attempts": 2}, {"elapsed_s": 9.0}, {"sandbox": "Other"}, {"version": "9"}, {"error": "why"}]
)
def test_how_it_was_run_is_no_content(beside):
    assert make_trial(**beside).content == make_trial().content


def test_the_time_that_tools_took_is_no_content():
    slow = make_trial().turns[0].model_copy(update={"elapsed_s": 5.0})
    assert make_trial(turns=(slow,)).content == make_trial().content


@pytest.mark.parametrize(
    "inside",
    [{"outcome": Outcome.GAVE_UP}, {"reads": ["other.txt"]}, {"files": {"answer.txt": "other"}}, {"key": "other"}],
)
def test_what_happened_is_content(inside):
    assert make_trial(**inside).content != make_trial().content


def test_only_endings_of_the_agents_own_are_results():
    assert [outcome for outcome in Outcome if not outcome.is_result] == [Outcome.DEADLINE, Outcome.FAILED]
    assert not issubclass(InfrastructureError, ValueError)

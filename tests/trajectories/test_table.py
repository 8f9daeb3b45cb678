from hypothesis import given, settings
from hypothesis import strategies as st

from rl_assets.trajectories.table import SCHEMA, data_version, from_table, to_table
from rl_assets.trajectories.trial import Outcome, Trial, Turn

text = st.text(max_size=20)
turns = st.lists(st.builds(Turn, turn=st.integers(0, 99), tool=text, argument=text, output=text, elapsed_s=st.floats(0, 1e6)))
trials = st.lists(
    st.builds(
        Trial,
        id=text,
        key=text,
        step=st.integers(0, 9999),
        world=text,
        sample=st.integers(0, 9999),
        world_digest=text,
        policy_digest=text,
        outcome=st.sampled_from(Outcome),
        turns=turns.map(tuple),
        files=st.dictionaries(text, text, max_size=3),
        error=st.none() | text,
        attempts=st.integers(1, 9),
        elapsed_s=st.floats(0, 1e6),
        sandbox=text,
        version=text,
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(trials)
def test_trials_come_back_from_a_table_as_they_were(given_trials):
    table = to_table(given_trials, "answer.txt")
    assert table.schema == SCHEMA
    assert from_table(table) == given_trials
    assert table.column("answer").to_pylist() == [trial.files.get("answer.txt") for trial in given_trials]
    assert data_version(from_table(table)) == data_version(given_trials)

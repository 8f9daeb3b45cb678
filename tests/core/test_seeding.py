from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.seeding import stream

parts = st.lists(st.text(max_size=8), max_size=3)


def head(purpose, *arguments):
    random = stream(purpose, *arguments)
    return [random.random() for _ in range(4)]


@given(st.text(max_size=8), parts)
def test_the_same_arguments_give_the_same_numbers(purpose, arguments):
    assert head(purpose, *arguments) == head(purpose, *arguments)


@given(st.text(max_size=8), parts, st.text(max_size=8), parts)
def test_other_arguments_give_other_numbers(purpose, arguments, other_purpose, other_arguments):
    same = (purpose, arguments) == (other_purpose, other_arguments)
    assert (head(purpose, *arguments) == head(other_purpose, *other_arguments)) == same


def test_parts_do_not_run_together():
    assert head("p", "ab", "c") != head("p", "a", "bc")


def test_drawing_from_one_stream_leaves_the_others_alone():
    one, other = stream("trial", "key"), stream("flaky trial", "key")
    expected = head("trial", "key")
    other.random()
    assert [one.random() for _ in range(4)] == expected


def test_the_first_number_of_a_known_stream_is_pinned():
    """A change here would change every world and every trial of a seed."""
    assert stream("secret", 0, "world_0", 0).randbytes(4).hex() == "dd6d8d14"

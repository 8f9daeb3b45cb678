import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.errors import ConfigError
from rl_assets.rewards.verifier import verify
from tests.rooms import VERIFIER, make_trial

LOOSE = VERIFIER | {"verifier.toml": b"[verifier]\nignore_case = true\n"}


def score(files, verifier=VERIFIER):
    return verify(make_trial(files=files), verifier, "digest").score


@pytest.mark.parametrize(
    ("answer", "strict", "loose"),
    [("right", 1, 1), (" right\n", 1, 1), ("RIGHT", 0, 1), ("wrong", 0, 0), ("", 0, 0), ("right right", 0, 0)],
)
def test_the_answer_is_compared_without_the_white_space_around_it(answer, strict, loose):
    assert score({"answer.txt": answer}) == strict
    assert score({"answer.txt": answer}, LOOSE) == loose


def test_no_answer_is_never_right_not_even_when_nothing_is_expected():
    nothing = VERIFIER | {"tests/expected.txt": b"\n"}
    assert score({}) == score({"other.txt": "right"}) == score({}, nothing) == score({"answer.txt": " "}, nothing) == 0


def test_a_world_without_an_expected_answer_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"world world_0: tests/expected\.txt is missing"):
        score({}, {"verifier.toml": b"[verifier]\n"})


files = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


@given(files, files, st.sampled_from("ab"), st.sampled_from("ab"))
def test_the_key_covers_the_end_state_and_the_verifier_and_nothing_else(one, other, verifier, other_verifier):
    def key(files, digest, **fields):
        return verify(make_trial(files=files, **fields), VERIFIER, digest).key

    assert (key(one, verifier) == key(other, other_verifier)) == ((one, verifier) == (other, other_verifier))
    assert key(one, verifier) == key(dict(reversed(one.items())), verifier, sample=7, step=3, attempts=2)

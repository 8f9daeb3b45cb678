import copy
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.errors import ConfigError
from rl_assets.rewards.rubric import Evidence, Rubric, load_rubric, parse_rubric

BASE = {
    "criteria": [
        {"name": "right", "weight": 1.0, "source": "verifier"},
        {"name": "short", "weight": 0.3, "source": "judge", "question": "Short?", "evidence": ["transcript", "verifier"]},
        {"name": "tidy", "weight": 0.1, "source": "judge", "question": "Tidy?", "evidence": ["files"]},
    ],
    "judge": {"kind": "simulated"},
}

TEXT = """\
# A comment.
judge: {kind: simulated, epoch: 0}   # another
criteria:
- {source: verifier, name: renamed, weight: 1}
- question: "Tidy?"
  evidence: [files, files]
  weight: 1.0e-1
  name: t
  source: judge
- name: s
  source: judge
  weight: 0.30
  evidence:
    - verifier
    - transcript
  question: 'Short?'
"""


def changed(change, index=1):
    rubric = copy.deepcopy(BASE)
    rubric["criteria"][index].update(change)
    return rubric


def digest(rubric):
    return Rubric.model_validate(rubric).digest


def test_order_names_comments_and_formatting_do_not_count():
    assert parse_rubric(TEXT, "file").digest == digest(BASE)


@given(st.permutations(BASE["criteria"]), st.lists(st.from_regex(r"\A[A-Za-z0-9_-]+\Z"), min_size=3, max_size=3, unique=True))
def test_neither_the_order_nor_the_names_of_criteria_count(criteria, names):
    criteria = [dict(reversed(criterion.items())) | {"name": name} for criterion, name in zip(criteria, names, strict=True)]
    assert digest({"criteria": criteria}) == digest(BASE)


@pytest.mark.parametrize(
    "change",
    [
        changed({"question": "Very short?"}),
        changed({"question": "Short? "}),
        changed({"weight": 0.31}),
        changed({"weight": 2.0}, 0),
        changed({"evidence": ["transcript"]}),
        changed({"evidence": []}),
        BASE | {"criteria": BASE["criteria"][:2]},
        BASE | {"criteria": [*BASE["criteria"], BASE["criteria"][2] | {"name": "again"}]},
        BASE | {"judge": {"epoch": 1}},
    ],
)
def test_questions_weights_evidence_criteria_and_judge_count(change):
    assert digest(change) != digest(BASE)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_two_weights_share_a_digest_only_if_they_are_the_same(one, other):
    same = math.copysign(1, one) == math.copysign(1, other) and one == other
    assert (digest(changed({"weight": one})) == digest(changed({"weight": other}))) == same


def test_weights_exchanged_between_criteria_count():
    exchanged = copy.deepcopy(BASE)
    exchanged["criteria"][1]["weight"], exchanged["criteria"][2]["weight"] = 0.1, 0.3
    assert digest(exchanged) != digest(BASE)


WRONG = {
    "a name twice": (changed({"name": "tidy"}), "the name 'tidy' stands twice"),
    "NaN": (changed({"weight": math.nan}), "criteria.1.weight: "),
    "infinite": (changed({"weight": math.inf}), "criteria.1.weight: "),
    "too large to sum": (changed({"weight": 1e300}), "criteria.1.weight: "),
    "no number": (changed({"weight": "heavy"}), "criteria.1.weight: "),
    "unknown key": (changed({"wieght": 1}), "criteria.1.wieght: unknown key"),
    "unknown key at the top": (BASE | {"criterias": []}, "criterias: unknown key"),
    "unknown source": (changed({"source": "oracle"}), "criteria.1.source: "),
    "unknown evidence": (changed({"evidence": ["mind"]}), "criteria.1.evidence.0: "),
    "unknown judge": (BASE | {"judge": {"kind": "oracle"}}, "judge.kind: "),
    "a bad name": (changed({"name": "two words"}), "criteria.1.name: "),
    "no question": (changed({"question": " "}), "criterion 'short' is for the judge and has no question"),
    "a question for the verifier": (changed({"question": "Right?"}, 0), "criterion 'right' comes from the verifier"),
    "no criteria": ({"criteria": []}, "criteria: "),
    "nothing": (None, "the document: "),
    "a list": ([], "the document: "),
    "a criterion that is none": ({"criteria": ["right"]}, "criteria.0: "),
}


@pytest.mark.parametrize(("rubric", "expected"), WRONG.values(), ids=WRONG)
def test_a_rubric_that_is_wrong_is_one_line_naming_file_and_field(tmp_path, rubric, expected):
    path = tmp_path / "rubric.yaml"
    path.write_text(yaml.safe_dump(rubric))
    with pytest.raises(ConfigError) as caught:
        load_rubric(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "content", [b"criteria: [", b"\xff", b"a: b: c", b"!!python/object:os.system {}", b"{[1]: 2}", b"@", b"\t- x"]
)
def test_a_file_that_is_no_yaml_is_one_line(tmp_path, content):
    path = tmp_path / "rubric.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_rubric(path)
    assert str(caught.value).startswith(f"{path}:")
    assert "\n" not in str(caught.value)


@st.composite
def damaged_texts(draw):
    """A rubric's text with a piece of it replaced."""
    start = draw(st.integers(0, len(TEXT)))
    end = draw(st.integers(start, min(len(TEXT), start + 12)))
    piece = draw(st.text(max_size=6) | st.sampled_from(["-", ": ", "[", "{}", "\n", "1e999", "null", "<<: *x", "2020-01-01"]))
    return TEXT[:start] + piece + TEXT[end:]


@given(st.text() | damaged_texts())
def test_whatever_stands_in_the_file_is_a_rubric_or_a_config_error(text):
    try:
        parse_rubric(text, "file")
    except ConfigError as error:
        assert "\n" not in str(error)


def test_a_file_that_is_missing_or_a_folder_is_one_line(tmp_path):
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load_rubric(path)


def test_a_judge_is_shown_the_transcript_unless_the_criterion_says_otherwise():
    criterion = {"name": "a", "weight": 1, "source": "judge", "question": "Good?"}
    assert Rubric.model_validate({"criteria": [criterion]}).criteria[0].evidence == (Evidence.TRANSCRIPT,)

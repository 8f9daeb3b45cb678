"""What a person gets wrong is one line that names file and field, exit code 2, and nothing changed."""

import pytest
import yaml

from tests.support import Workplace

pytestmark = pytest.mark.slow


def everything(place: Workplace) -> dict[str, bytes]:
    """Every file of the project, but for what importing it compiles."""
    files = [path for path in sorted(place.root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(place.root)): path.read_bytes() for path in files}


def assert_refused(place: Workplace, command: tuple[str, ...], *says: str) -> None:
    """The command exits 2 with one line that says all of that, and leaves every file as it was."""
    before = everything(place)
    done = place.run(*command, "--json", check=False)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    assert line.startswith("rl-assets: ")
    for text in says:
        assert text in line, line
    assert everything(place) == before


TRAIN = ("train", "quickstart")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("train", "nope"), ["no experiment 'nope'", "quickstart"]),
        (("status", "../quickstart"), ["no experiment '../quickstart'"]),
        (("rejudge", "quickstart"), ["no trials to judge yet"]),
        (("show", "quickstart", "0/world_0/0"), ["no trial '0000/world_0/0000'"]),
        ((*TRAIN, "--steps", "0"), ["--steps 0"]),
        ((*TRAIN, "--steps", "4"), ["--steps 4", "3 steps"]),
        ((*TRAIN, "--steps", "two"), ["--steps"]),
        ((*TRAIN, "--set", "steps"), ["--set steps", "key=value"]),
        ((*TRAIN, "--set", "steps=["), ["--set steps=[", "YAML"]),
        ((*TRAIN, "--set", "rolouts.samples=2"), ["--set rolouts.samples: ", "rolouts: unknown key"]),
        ((*TRAIN, "--set", "rollouts.samples=many"), ["--set rollouts.samples: ", "rollouts.samples"]),
        ((*TRAIN, "--set", "policy.learning_rate=.inf"), ["--set policy.learning_rate: ", "policy.learning_rate"]),
        ((*TRAIN, "--set", "steps.more=1"), ["--set steps.more: ", "steps"]),
        ((*TRAIN, "--flaky-trials", "2"), ["flaky_trials"]),
        ((*TRAIN, "--flaky-judge", "nan"), ["flaky_judge"]),
        ((*TRAIN, "--crash-after-step=-1"), ["crash_after_step"]),
        ((*TRAIN, "--no-such-option"), ["--no-such-option"]),
        (("train",), ["EXPERIMENT"]),
        (("trian", "quickstart"), ["trian"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage(workplace: Workplace, command, says):
    assert_refused(workplace, command, *says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("type: rl_assets.AgenticRL\nattributes:\n  steps: [1\n", ["line 4", "not valid YAML"]),
        ("type: rl_assets.AgenticRL\nattributes:\n\tsteps: 1\n", ["line 3", "not valid YAML"]),
        ("type: 'rl_assets.AgenticRL'  # quoted\nattributes: [1]\n", ["attributes: not a mapping"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  stepz: 3\n", ["stepz: unknown key"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  worlds: {cuont: 3}\n", ["worlds.cuont: unknown key"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  steps: three\n", ["steps: ", "'three'"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  worlds: 3\n", ["worlds: "]),
        ("type: rl_assets.AgenticRL\nattributes:\n  rollouts: {deadline_s: .nan}\n", ["rollouts.deadline_s: "]),
        ("type: rl_assets.AgenticRL\nattributes:\n  rubric: other.yaml\n", ["other.yaml: No such file"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  seed: '{{ env.NO_SUCH_VARIABLE_HERE }}'\n", ["seed: "]),
        ("type: rl_assets.AgenticRL\nattributes:\n  worlds: {source: nowhere}\n", ["worlds.source", "nowhere: no such folder"]),
        (
            "type: rl_assets.AgenticRL\nattributes:\n  worlds: {source: few}\n",
            ["worlds.source", "2 text files", "asks for 8"],
        ),
        ("type: rl_assets.AgenticRL\nattributes:\n  worlds: {source: empty}\n", ["worlds.source", "empty: 0 text files"]),
        ("type: rl_assets.AgenticRL\nattributes:\n  worlds: {documents: 2, decoys: 2}\n", ["worlds: decoys (2)"]),
    ],
)
def test_wrong_settings(workplace: Workplace, text, says):
    (workplace.root / "empty").mkdir()
    (workplace.root / "few").mkdir()
    for name in ("one.txt", "two.md", ".hidden.txt"):
        (workplace.root / "few" / name).write_text("text\n")
    (workplace.root / "few" / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    (workplace.folder() / "defs.yaml").write_text(text)
    named = [] if "worlds.source" in says else ["other.yaml" if "other.yaml: No such file" in says else "quickstart/defs.yaml"]
    assert_refused(workplace, TRAIN, *named, *says)


JUDGED = {"name": "a", "weight": 1.0, "source": "judge", "question": "Good?"}


@pytest.mark.parametrize(
    ("criteria", "says"),
    [
        ([JUDGED, JUDGED], ["criteria: the name 'a' stands twice"]),
        ([JUDGED | {"weight": float("nan")}], ["criteria.0.weight: "]),
        ([JUDGED, JUDGED | {"name": "b", "weight": float("inf")}], ["criteria.1.weight: "]),
        ([JUDGED | {"weigth": 1.0}], ["criteria.0.weigth: unknown key"]),
        ([JUDGED | {"source": "oracle"}], ["criteria.0.source: "]),
        ([JUDGED | {"question": " "}], ["criteria.0: criterion 'a'", "no question"]),
        ([JUDGED | {"evidence": ["mind"]}], ["criteria.0.evidence.0: "]),
        ([], ["criteria: "]),
        (None, ["criteria: "]),
    ],
)
def test_a_rubric_that_is_not_right(workplace: Workplace, criteria, says):
    workplace.set_rubric({"criteria": criteria})
    assert_refused(workplace, TRAIN, "quickstart/rubric.yaml: ", *says)


def test_a_rubric_that_is_no_yaml_or_not_there(workplace: Workplace):
    path = workplace.folder() / "rubric.yaml"
    path.write_text("criteria: [")
    assert_refused(workplace, TRAIN, f"{path}: line 1, column 12: not valid YAML")
    path.unlink()
    assert_refused(workplace, TRAIN, f"{path}: No such file")


def test_a_mistake_made_after_training_changes_nothing_either(trained: Workplace):
    trained.edit_criterion("efficiency", weight=float("nan"))
    for command in (TRAIN, ("rejudge", "quickstart"), ("status", "quickstart"), ("fork", "quickstart", "other")):
        assert_refused(trained, command, "rubric.yaml: criteria.1.weight: ")


def test_outside_of_a_project(workplace: Workplace, tmp_path):
    outside = Workplace(tmp_path / "outside")
    outside.root.mkdir()
    assert_refused(outside, TRAIN, str(outside.root), "not in a dg project")
    (outside.root / "pyproject.toml").write_text("[tool.dg.project\n")
    assert_refused(outside, TRAIN, "pyproject.toml: ")
    inside = Workplace(workplace.folder())
    assert_refused(inside, ("train", "nope"), "no experiment 'nope'")


def test_forks_that_cannot_be(workplace: Workplace, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump({"criteria": [JUDGED, JUDGED]}))
    for arguments, says in (
        (("quickstart", "quickstart"), "there already"),
        (("quickstart", "a-b"), "letters, digits and underscores"),
        (("quickstart", "../twin"), "letters, digits and underscores"),
        (("quickstart", "twin\n"), "letters, digits and underscores"),
        (("quickstart", ""), "letters, digits and underscores"),
        (("nope", "twin"), "no experiment 'nope'"),
        (("quickstart", "twin", "--rubric", str(broken)), "the name 'a' stands twice"),
        (("quickstart", "twin", "--rubric", str(tmp_path / "no.yaml")), "no.yaml: No such file"),
        (("quickstart", "twin", "--set", "steps=none"), "steps: "),
        (("quickstart", "twin", "--set", "wolrds.count=3"), "wolrds: unknown key"),
    ):
        assert_refused(workplace, ("fork", *arguments), says)

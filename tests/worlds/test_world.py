import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.errors import ConfigError
from rl_assets.worlds.world import split

TASK = b"""\
schema_version = "1.0"
[task]
name = "org/name"
[verifier]
timeout_sec = 10.0
[verifier.env]
A = "b"
"""
FOLDER = {
    "task.toml": TASK,
    "instruction.md": b"do it",
    "environment/Dockerfile": b"FROM scratch",
    "environment/tests/not_the_verifiers.txt": b"the agent's own",
    "tests/test.sh": b"exit 0",
    "solution/solve.sh": b"true",
}


def test_the_agent_gets_no_test_no_solution_and_no_verifier_settings():
    world = split("name", FOLDER)
    assert set(world.agent_files) == {
        "task.toml",
        "instruction.md",
        "environment/Dockerfile",
        "environment/tests/not_the_verifiers.txt",
    }
    assert set(world.verifier_files) == {"verifier.toml", "tests/test.sh"}
    assert b"verifier" not in world.agent_files["task.toml"]
    assert b"timeout_sec" in world.verifier_files["verifier.toml"]


CHANGES = {
    "instruction.md": "agent",
    "environment/Dockerfile": "agent",
    "environment/new.txt": "agent",
    "anything/else.txt": "agent",
    "tests/test.sh": "verifier",
    "tests/new/deep.txt": "verifier",
    "solution/solve.sh": "none",
    "solution/new.txt": "none",
}


@pytest.mark.parametrize(("path", "changed"), CHANGES.items())
@given(data=st.binary(min_size=20))
def test_a_changed_file_changes_the_digest_of_the_part_it_belongs_to_and_no_other(path, changed, data):
    before, after = split("name", FOLDER), split("name", FOLDER | {path: data})
    assert (before.digest != after.digest) == (changed == "agent")
    assert (before.verifier_digest != after.verifier_digest) == (changed == "verifier")


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b"10.0", b"20.0", "verifier"),
        (b'A = "b"', b'A = "c"', "verifier"),
        (b"org/name", b"org/other", "agent"),
        (b"[task]", b"# a comment\n[task]", "none"),
        (b'name = "org/name"', b'name    =    "org/name"', "none"),
    ],
)
def test_task_toml_counts_by_its_sections_and_not_its_formatting(old, new, changed):
    before, after = split("name", FOLDER), split("name", FOLDER | {"task.toml": TASK.replace(old, new)})
    assert (before.digest != after.digest) == (changed == "agent")
    assert (before.verifier_digest != after.verifier_digest) == (changed == "verifier")


@pytest.mark.parametrize("content", [None, b"not = [toml", b"\xff\xfe"])
def test_a_task_toml_that_is_missing_or_wrong_is_named(content):
    folder = {path: data for path, data in FOLDER.items() if path != "task.toml"}
    with pytest.raises(ConfigError, match=r"world name: task\.toml"):
        split("name", folder if content is None else folder | {"task.toml": content})

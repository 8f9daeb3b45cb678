"""`worlds.source`: a person's own text files as the documents."""

import json

import pytest

from tests.support import Workplace

pytestmark = pytest.mark.slow


@pytest.fixture
def corpus(workplace: Workplace):
    """A folder of text files under names that people give, and the experiment that uses them."""
    folder = workplace.root / "my corpus"
    (folder / "sub" / "deep").mkdir(parents=True)
    names = [
        "notes#1",
        "50% done.txt",
        "ünï çødé.md",
        "what*?.txt",
        "a[b].txt",
        "sub/c:d.txt",
        "sub/deep/it's.txt",
        "%23.txt",
        "~x",
        "e",
    ]
    for name in names:
        (folder / name).write_text(f"The text of {name}.\n", encoding="utf-8")
    (folder / "tab\tname.txt").write_text("left out\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / ".hidden").write_text("left out\n")
    (folder / "link.txt").symlink_to(folder / "e")
    workplace.set(worlds__source="my corpus", worlds__documents=len(names), worlds__count=2, steps=2)
    return set(names)


def test_a_folder_of_ones_own_text_files_works_from_end_to_end(workplace: Workplace, corpus):
    report = workplace.json("train", "quickstart")
    assert [(step["trials"], step["failed"], step["unscored"]) for step in report["steps"]] == [(4, 0, 0)] * 2
    for manifest in (workplace.home / "store" / "worlds").glob("*/manifest.json"):
        documents = {path.partition("documents/")[2] for path in json.loads(manifest.read_text()) if "documents/" in path}
        assert documents == corpus
    read = workplace.json("sql", "SELECT argument, output FROM turns WHERE tool = 'read'")
    for row in read:
        name = row["argument"].removeprefix("documents/")
        assert row["output"].startswith(f"The text of {name}.")
    again = workplace.json("train", "quickstart")
    assert again["steps"] == report["steps"] and again["receipt"]["trials_run"] == 0


def test_an_edited_file_stales_the_worlds_that_use_it_and_training_reruns_only_what_they_touch(workplace: Workplace):
    folder = workplace.root / "corpus"
    folder.mkdir()
    for index in range(40):
        (folder / f"{index}.txt").write_text(f"Text {index}.\n")
    workplace.set(worlds__source="corpus", worlds__documents=6, worlds__count=3, worlds__per_step=1, steps=3)
    report = workplace.json("train", "quickstart")
    lab = workplace.lab()
    used = {name: {path for path in world.agent_files if "documents/" in path} for name, world in lab.worlds().items()}
    (mine, *_) = used["world_2"] - used["world_0"] - used["world_1"]
    path = folder / mine.rpartition("/")[2]
    old = path.read_text()
    path.write_text(old + "An addition.\n")

    states = workplace.json("status", "quickstart")["assets"]
    assert {name: entry["state"] for name, entry in states["worlds"].items()} == {
        "world_0": "fresh",
        "world_1": "fresh",
        "world_2": "stale",
    }
    assert states["worlds"]["world_2"]["why"] == ["the files it is built from changed"]
    assert "worlds: world_2 is stale: the files it is built from changed" in workplace.run("status", "quickstart").stdout
    again = workplace.json("train", "quickstart")
    assert (again["receipt"]["trials_run"], again["receipt"]["trials_recovered"]) == (2, 4)
    assert again["steps"][:2] == report["steps"][:2]

    path.write_text(old)
    undone = workplace.json("train", "quickstart")
    assert (undone["receipt"]["trials_run"], undone["receipt"]["trials_recovered"], undone["receipt"]["judge_calls"]) == (
        0,
        6,
        0,
    )
    assert undone["steps"] == report["steps"]

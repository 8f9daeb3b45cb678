"""What the documents show is what the program prints."""

import difflib
import re
from pathlib import Path

import pytest

from tests.docs import console
from tests.docs.regenerate import DOCUMENTS, SETTINGS
from tests.docs.settings_page import settings_page
from tests.support import REPOSITORY

LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")

WITH_COMMANDS = [path for path in DOCUMENTS if console.commands(path.read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.stem)
def test_every_command_prints_what_the_document_shows(path: Path, tmp_path: Path) -> None:
    shown = console.commands(path.read_text(encoding="utf-8"))
    ran = console.run(path.read_text(encoding="utf-8"), tmp_path.resolve() / "rl_assets")
    differences = []
    for old, new in zip(shown, ran, strict=True):
        if old.comparable != new.comparable:
            lines = difflib.unified_diff(
                old.comparable.splitlines(), new.comparable.splitlines(), "shown", "printed", lineterm=""
            )
            differences.append("\n".join([f"$ {old.text}", *lines]))
    assert not differences, "python -m tests.docs.regenerate writes what is printed now\n" + "\n\n".join(differences)


def test_the_readme_is_among_the_documents_that_are_run() -> None:
    assert REPOSITORY / "README.md" in WITH_COMMANDS


def test_the_settings_page_says_what_the_settings_are() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings_page(), "python -m tests.docs.regenerate"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_to_files(path: Path) -> None:
    targets = [target for target in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in target]
    missing = [target for target in targets if not (path.parent / target.partition("#")[0]).exists()]
    assert not missing


def test_a_console_block_reads_back_as_it_was_written() -> None:
    document = "text\n```console\n$ one\ntwo\n$ three \\\n> four\nfive\n\nsix\n```\nmore\n"
    found = console.commands(document)
    assert [(command.text, command.output) for command in found] == [("one", "two\n"), ("three \\\nfour", "five\n\nsix\n")]
    assert console.rewritten(document, found) == document


def test_digests_are_compared_and_timings_are_not() -> None:
    shown = console.Command("x", "weights 608a175bab59 · 3.5 s\n")
    assert shown.comparable == console.Command("x", "weights 608a175bab59 · 41.0 s  \n").comparable
    assert shown.comparable != console.Command("x", "weights 608a175bab58 · 3.5 s\n").comparable

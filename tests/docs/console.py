"""Console blocks of Markdown documents: what they say, and what comes of it when they are run.

In a block marked `console`, a line that starts with `$ ` is a command, lines that start with `> ` after it continue it, and
what follows, up to the next command, is what it prints.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import REPOSITORY, Workplace

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)

HOME = "/home/you/rl_assets"
"""How documents write the project's folder."""

MARK = "\x1e"
"""Printed before each command, to tell their outputs apart."""

VARIES = [
    (re.compile(r"\b\d+\.\d s\b"), "0.0 s"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<run id>"),
    (re.compile(r"^\S+: line \d+: +\d+ Killed .*$", re.MULTILINE), "Killed"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
]
"""What may differ from run to run, and what stands for it in a comparison. Digests may not differ."""


@dataclass(frozen=True)
class Command:
    """One command of a document, and what it prints."""

    text: str
    output: str

    @property
    def comparable(self) -> str:
        output = self.output
        for pattern, instead in VARIES:
            output = pattern.sub(instead, output)
        return output.strip("\n")

    def written(self) -> str:
        first, *more = self.text.split("\n")
        lines = [f"$ {first}", *(f"> {line}" for line in more)]
        return "\n".join(lines) + "\n" + (self.output.strip("\n") + "\n" if self.output.strip() else "")


def commands(document: str) -> list[Command]:
    """All commands of a document, in order."""
    return [command for block in BLOCK.findall(document) for command in _commands(block)]


def _commands(block: str) -> list[Command]:
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        elif line.startswith("> ") and found and not found[-1].output:
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{line[2:]}")
        else:
            assert found, f"a console block starts without a command: {line}"
            found[-1] = replace(found[-1], output=f"{found[-1].output}{line}\n")
    return found


def rewritten(document: str, ran: list[Command], keep_timings: bool = True) -> str:
    """The document with the outputs that its commands have now; those that only differ in what may vary can stay."""
    left = iter(ran)

    def block(match: re.Match[str]) -> str:
        kept = []
        for old in _commands(match[1]):
            new = next(left)
            kept.append(old if keep_timings and old.comparable == new.comparable else new)
        return f"```console\n{''.join(command.written() for command in kept)}```"

    return BLOCK.sub(block, document)


def run(document: str, folder: Path) -> list[Command]:
    """Run all commands of a document in one shell, in a copy of the project; each with what it printed, errors included."""
    copy_project(folder)
    wanted = commands(document)
    script = folder.parent / "script.sh"
    script.write_text("".join(f"printf '\\n{MARK}'\n{command.text}\n" for command in wanted))
    environment = Workplace(folder).environment(PYTHONPATH=str(folder), COLUMNS="80", TERM="dumb", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        ["bash", str(script)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=500,
    )
    outputs = done.stdout.replace(str(folder), HOME).split(f"\n{MARK}")[1:]
    outputs = [re.sub(r"^\S+: line \d+: +\d+ Killed .*$", "Killed", output, flags=re.MULTILINE) for output in outputs]
    outputs = ["\n".join(line.rstrip() for line in output.splitlines()) for output in outputs]
    return [replace(command, output=output) for command, output in zip(wanted, outputs, strict=True)]


def copy_project(folder: Path) -> None:
    """A clone of the project as `make demo` leaves it: the environment is this one's."""
    folder.mkdir(parents=True)
    for name in ("definitions.py", "pyproject.toml", "Makefile"):
        shutil.copy(REPOSITORY / name, folder)
    shutil.copytree(REPOSITORY / "rl_assets", folder / "rl_assets", ignore=shutil.ignore_patterns("__pycache__", "defs"))
    defs = Path("rl_assets", "defs")
    shutil.copytree(REPOSITORY / defs / "quickstart", folder / defs / "quickstart")
    shutil.copy(REPOSITORY / defs / "__init__.py", folder / defs)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text(f'export VIRTUAL_ENV="{programs.parent}" PATH="{programs}:$PATH"\n')
    here = Path(sys.executable).parent
    for name, program in (
        ("python", sys.executable),
        ("rl-assets", f"{sys.executable} -m rl_assets.cli.main"),
        ("dg", here / "dg"),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (programs / name).chmod(0o755)
    (folder / ".venv" / ".ui").touch()

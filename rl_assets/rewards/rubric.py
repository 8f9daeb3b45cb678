"""The rubric: what a trial is scored on, and how much each criterion counts."""

from enum import StrEnum
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, model_validator

from rl_assets.core.digest import canonical_json, digest
from rl_assets.core.errors import ConfigError
from rl_assets.core.model import Frozen, parse_settings

SEMANTICS = 1
"""Bumped when the same rubric would score otherwise."""


class Evidence(StrEnum):
    """What a judge may be shown of a trial."""

    TRANSCRIPT = "transcript"
    """Each turn's tool call and the start of its output."""
    ANSWER = "answer"
    """The answer that the trial left behind."""
    FILES = "files"
    """The paths of all files that it left behind."""
    VERIFIER = "verifier"
    """The verifier's score."""


class Criterion(Frozen):
    """One thing a trial is scored on."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    """How people call it; it changes no score."""
    weight: float = Field(ge=-1e6, le=1e6)
    """What its score is multiplied by in the reward."""
    source: Literal["judge", "verifier"]
    """Who scores it: the judge, or the verifier of the world."""
    question: str = ""
    """What the judge is asked, to be answered with a score from 0 to 1."""
    evidence: tuple[Evidence, ...] = (Evidence.TRANSCRIPT,)
    """What the judge is shown of the trial."""

    @model_validator(mode="after")
    def _fits_its_source(self) -> "Criterion":
        if self.source == "judge" and not self.question.strip():
            raise ValueError(f"criterion {self.name!r} is for the judge and has no question")
        if self.source == "verifier" and self.question.strip():
            raise ValueError(f"criterion {self.name!r} comes from the verifier, which answers no question")
        return self

    @property
    def meaning(self) -> dict[str, object]:
        """What can change its score, and its weight."""
        if self.source == "verifier":
            return {"source": self.source, "weight": self.weight}
        evidence = sorted(set(self.evidence))
        return {"source": self.source, "weight": self.weight, "question": self.question, "evidence": evidence}


class JudgeSettings(Frozen):
    """Which judge answers. All of it is in a verdict's key."""

    kind: Literal["simulated"] = "simulated"
    """What kind of judge; there is one so far."""
    epoch: int = Field(default=0, ge=0)
    """Bump it to have everything judged anew."""


class Rubric(Frozen):
    """Criteria and their weights. A reward is the weighted sum of the criteria's scores."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    judge: JudgeSettings = JudgeSettings()

    @model_validator(mode="after")
    def _names_differ(self) -> "Rubric":
        names = [criterion.name for criterion in self.criteria]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"criteria: the name {name!r} stands twice")
        return self

    @property
    def digest(self) -> str:
        """Covers the meaning: not names, comments, formatting or order."""
        criteria = sorted((criterion.meaning for criterion in self.criteria), key=canonical_json)
        return digest("rubric", SEMANTICS, {"criteria": criteria, "judge": self.judge.model_dump()})


def load_rubric(path: Path) -> Rubric:
    """Read a rubric file.

    Raises:
        ConfigError: it is missing, is no YAML, or breaks a rule; names the file and the field.
    """
    return parse_rubric(read_rubric_text(path), str(path))


def read_rubric_text(path: Path) -> str:
    """The text of a rubric file, or ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: {reason}") from None


def parse_rubric(text: str, source: str) -> Rubric:
    """A rubric from its text; `source` names it in errors, which are ConfigErrors."""
    return parse_settings(Rubric, load_yaml(text, source), source)


def load_yaml(text: str, source: str) -> object:
    """The data in a YAML text, or a ConfigError of one line."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{source}:{where} not valid YAML: {problem}") from None

"""The base of all records and settings: frozen pydantic models that refuse unknown keys and non-finite numbers."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rl_assets.core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


class Frozen(BaseModel):
    """A record or a group of settings; it cannot be changed once made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def first_problem(error: ValidationError) -> str:
    """The first thing wrong with some settings, as `field: what`, in one line."""
    problem = error.errors()[0]
    where = " ".join(".".join(str(part) for part in problem["loc"]).split()) or "the document"
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    message = str(problem["msg"]).removeprefix("Value error, ")
    given = problem.get("input")
    if problem["type"] != "missing" and isinstance(given, str | int | float | bool):
        return f"{where}: {message} (got {given!r})"
    return f"{where}: {message}"


def parse_settings(model: type[Model], data: Any, source: str) -> Model:
    """Validate settings that a person wrote.

    Raises:
        ConfigError: one line naming the file and the first field that is wrong.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{source}: {first_problem(error)}") from None

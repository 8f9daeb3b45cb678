"""The `rl-assets` command."""

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from rl_assets.core.errors import RlAssetsError, UsageError

app = typer.Typer(
    name="rl-assets",
    help="Agentic RL as a Dagster asset graph.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

ExperimentArgument = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="The experiment's name: its folder under defs/.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting to take instead of the one in defs.yaml.")
]
RubricOption = Annotated[Path | None, typer.Option("--rubric", metavar="FILE", help="A rubric file.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Give failed trials and verdicts another go.")]
CrashOption = Annotated[int | None, typer.Option(help="Kill this process after it has made this step's update.")]
FlakyTrialsOption = Annotated[float | None, typer.Option(help="Share of trials whose sandbox dies on the first attempt.")]
FlakyJudgeOption = Annotated[float | None, typer.Option(help="Share of judge tasks that fail after the judge answered.")]


def _out() -> Console:
    return Console()


def _err() -> Console:
    return Console(stderr=True)


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def _faults(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


@app.command()
def train(
    experiment: ExperimentArgument,
    steps: Annotated[int | None, typer.Option(help="Bring steps 0 to N-1 up to date; all by default.")] = None,
    settings: SetOption = None,
    crash_after_step: CrashOption = None,
    flaky_trials: FlakyTrialsOption = None,
    flaky_judge: FlakyJudgeOption = None,
    retry_failed: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring steps up to date, in order: sample, score, update. What is recorded is replayed, not redone."""
    from rl_assets.cli import train as command  # noqa: PLC0415
    from rl_assets.cli.session import Session  # noqa: PLC0415
    from rl_assets.graph.project import parse_overrides  # noqa: PLC0415

    faults = _faults(crash_after_step=crash_after_step, flaky_trials=flaky_trials, flaky_judge=flaky_judge)
    session = Session(experiment, parse_overrides(settings or []), faults)
    report = command.train(session, steps, retry_failed, _err())
    _print_json(report.as_json()) if as_json else report.show(_out())


@app.command()
def rejudge(
    experiment: ExperimentArgument,
    rubric: RubricOption = None,
    on_policy: Annotated[bool, typer.Option("--on-policy", help="Also sample again the steps whose policy changed.")] = False,
    settings: SetOption = None,
    retry_failed: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score old trials under the rubric as it is now (or becomes, with --rubric), and train the chain again on them."""
    from rl_assets.cli import train as command  # noqa: PLC0415
    from rl_assets.cli.session import Session  # noqa: PLC0415
    from rl_assets.graph.project import parse_overrides  # noqa: PLC0415

    text = None if rubric is None else command.rubric_text(rubric)
    session = Session(experiment, parse_overrides(settings or []), rubric_is_replaced=rubric is not None)
    report = command.rejudge(session, text, on_policy, retry_failed, _err())
    _print_json(report.as_json()) if as_json else report.show(_out())


@app.command()
def fork(
    experiment: ExperimentArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new experiment's name.")],
    rubric: RubricOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new experiment from an old one. What its inputs share with the old one is recovered, not redone."""
    from rl_assets.cli import fork as command  # noqa: PLC0415
    from rl_assets.graph.project import Project, parse_overrides  # noqa: PLC0415

    folder = command.fork(Project.find(Path.cwd()), experiment, new, rubric, parse_overrides(settings or []))
    if as_json:
        _print_json({"experiment": new, "parent": experiment, "folder": str(folder)})
    else:
        _out().print(f"{folder}\nrl-assets train {new}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def status(experiment: ExperimentArgument, settings: SetOption = None, as_json: JsonOption = False) -> None:
    """Say which partitions are fresh, stale (and why) or missing."""
    from rl_assets.cli import status as command  # noqa: PLC0415
    from rl_assets.cli.session import Session  # noqa: PLC0415
    from rl_assets.graph.project import parse_overrides  # noqa: PLC0415

    session = Session(experiment, parse_overrides(settings or []))
    plan = command.status(session)
    _print_json(command.as_json(session, plan)) if as_json else command.show(session, plan, _out())


@app.command()
def show(
    experiment: ExperimentArgument,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="step/world/sample, such as 0/world_0/0, or a trial's key.")],
    as_json: JsonOption = False,
) -> None:
    """Show one trial as a conversation, with its score and why."""
    from rl_assets.cli import show as command  # noqa: PLC0415
    from rl_assets.cli.session import Session  # noqa: PLC0415

    found, reward = command.find_trial(Session(experiment).lab, trial)
    _print_json(command.as_json(found, reward)) if as_json else command.show(found, reward, _out())


@app.command()
def sql(statement: Annotated[str, typer.Argument(metavar="QUERY")], as_json: JsonOption = False) -> None:
    """Query what is kept: trials, turns, verdicts, rewards, updates, steps, each also with _history at its end."""
    from rl_assets.cli import sql as command  # noqa: PLC0415
    from rl_assets.graph.project import Project  # noqa: PLC0415

    columns, rows = command.query(Project.find(Path.cwd()), statement)
    _print_json(command.as_json(columns, rows)) if as_json else command.show(columns, rows, _out())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def dev(context: typer.Context) -> None:
    """Open Dagster's web UI and daemon on the same state; further options go to `dg dev`."""
    from rl_assets.cli import dev as command  # noqa: PLC0415
    from rl_assets.graph.project import Project  # noqa: PLC0415

    command.dev(Project.find(Path.cwd()), list(context.args))


def main() -> None:
    """Run the command; exit 0 when done, 1 when it failed, 2 when what was asked for is wrong."""
    warnings.filterwarnings("ignore", message=".* is currently in (beta|preview)")
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except TyperException as error:
        _fail(error.format_message(), 2)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except UsageError as error:
        _fail(str(error), 2)
    except RlAssetsError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        _leave(1)  # whoever read the output has seen enough
    except Exception as error:
        if not _from_outside(error):
            raise
        _fail(f"{type(error).__name__}: {error}", 1)
    if code == INTERRUPTED:  # how typer returns from a KeyboardInterrupt
        _fail("interrupted; what was recorded is kept, and the same command goes on from there", INTERRUPTED)
    _leave(code if isinstance(code, int) else 0)


def _from_outside(error: Exception) -> bool:
    """Whether a disk or the store refused, rather than this code went wrong."""
    from obstore.exceptions import BaseError  # noqa: PLC0415

    return isinstance(error, OSError | BaseError)


def _fail(message: str, code: int) -> NoReturn:
    one_line = " ".join(message.split())
    sys.stderr.write(f"rl-assets: {one_line}\n")
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End now that all is done and written: a native library's thread has been seen to abort Python's own way out."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

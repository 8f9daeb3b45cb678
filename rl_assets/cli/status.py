"""`status`: the state of every partition, and why."""

from rich.console import Console
from rich.table import Table

from rl_assets.cli.session import Session
from rl_assets.graph.event_log import read_log
from rl_assets.graph.lineage import STEP_ASSETS
from rl_assets.graph.plan import Plan, State, make_plan
from rl_assets.graph.staleness import reasons, up_to_date_result

COLOURS = {State.FRESH: "green", State.STALE: "yellow", State.MISSING: "dim"}


def status(session: Session) -> Plan:
    """The plan as of now: what files and store hold counts, whether it was observed yet or not."""
    lab = session.lab
    made, current = read_log(session.instance, lab.experiment.name, lab.lineage)
    for asset, versions in lab.found().items():
        current[asset] = {**current[asset], **versions}
    digests = {name: world.digest for name, world in lab.worlds().items()}
    return make_plan(lab.lineage, made, current, lab.experiment.code_versions(), digests)


def as_json(session: Session, plan: Plan) -> dict[str, object]:
    """Each partition's state, and why it is stale."""
    return {
        "assets": {
            asset: {key: {"state": str(state.state), "why": reasons(session.lab, state)} for key, state in states.items()}
            for asset, states in plan.states.items()
        }
    }


def show(session: Session, plan: Plan, console: Console) -> None:
    """A row per asset, then what is stale and why."""
    experiment = session.experiment
    title = (
        experiment.name if experiment.settings.parent is None else f"{experiment.name}, a fork of {experiment.settings.parent}"
    )
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in ("asset", "fresh", "stale", "missing"):
        table.add_column(column, justify="left" if column == "asset" else "right")
    for asset in ("worlds", *STEP_ASSETS):
        counts = [plan.count(asset, state) for state in State]
        cells = [f"[{COLOURS[state]}]{count}[/]" if count else "" for state, count in zip(State, counts, strict=True)]
        table.add_row(asset, *cells)
    console.print(table)
    for asset in STEP_ASSETS:
        passed, line, _ = up_to_date_result(session.lab, plan, asset)
        if not passed:
            console.print(f"{asset}: {line}", highlight=False, markup=False, soft_wrap=True)
    for name, state in plan.states["worlds"].items():
        if state.state is State.STALE:
            why = "; ".join(reasons(session.lab, state))
            console.print(f"worlds: {name} is stale: {why}", highlight=False, markup=False, soft_wrap=True)

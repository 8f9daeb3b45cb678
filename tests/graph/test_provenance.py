"""What a materialization says it was made from is what it was made from, also when a file was edited and nobody looked."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rl_assets.graph.lineage import STEP_ASSETS, step_key
from tests.graph.conftest import Loop, Trained

pytestmark = pytest.mark.slow

MULTIPROCESS = """\
import sys
from pathlib import Path

import dagster as dg

from rl_assets.graph.project import Project, open_instance

here = Path(__file__).parent


def step_job() -> dg.JobDefinition:
    loaded = dg.load_from_defs_folder(path_within_project=here)
    defs = dg.Definitions.merge(loaded, dg.Definitions(executor=dg.multiprocess_executor))
    return defs.resolve_job_def("quickstart_train_step")


if __name__ == "__main__":
    with dg.execute_job(
        dg.reconstructable(step_job),
        open_instance(Project.find(here).home),
        tags={"dagster/partition": sys.argv[1]},
        asset_selection=[dg.AssetKey(["quickstart", asset]) for asset in sys.argv[2:]],
    ) as result:
        sys.exit(0 if result.success else 1)
"""


def in_process(loop: Loop, step: int, *assets: str) -> None:
    assert loop.run(step, *assets).success


def multiprocess(loop: Loop, step: int, *assets: str) -> None:
    script = loop.place.root / "by_hand.py"
    script.write_text(MULTIPROCESS)
    done = subprocess.run(
        [sys.executable, str(script), step_key(step), *assets],
        cwd=loop.place.root,
        env=loop.place.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Launching subprocess" in done.stderr or "pid" in done.stderr, "steps must have run in processes of their own"


def edit_rubric(loop: Loop) -> Callable[[], None]:
    before = loop.place.rubric()
    loop.place.edit_criterion("correctness", weight=0.25)
    return lambda: loop.place.set_rubric(before)


def edit_verifier(loop: Loop) -> Callable[[], None]:
    loop.overlay("world_1", "tests/expected.txt", "0" * 64 + "\n")
    return (loop.place.folder() / "worlds" / "world_1" / "tests" / "expected.txt").unlink


def edit_initial_policy(loop: Loop) -> Callable[[], None]:
    loop.place.set(policy__initial={"world_0": {"document_3.txt": 2.0}})
    return lambda: loop.place.set(policy__initial={})


Edit = Callable[[Loop], Callable[[], None]]

CASES: list[Any] = [
    pytest.param(edit_rubric, "rubric", ["rewards"], "rubric", id="rubric"),
    pytest.param(edit_verifier, "verifiers", ["rewards"], "verifiers[world_1]", id="verifier"),
    pytest.param(edit_initial_policy, "policy", ["trajectories"], "policy[v0000]", id="initial policy"),
    pytest.param(edit_rubric, "rubric", ["rewards", "weights"], "rubric", id="rubric, two assets in one run"),
]


@pytest.mark.parametrize("execute", [pytest.param(in_process, id="in process"), pytest.param(multiprocess, id="multiprocess")])
@pytest.mark.parametrize(("edit", "observed", "assets", "cause"), CASES)
def test_what_an_unobserved_edit_made_is_stale_once_the_edit_is_undone(
    trained: Trained, execute: Callable[..., None], edit: Edit, observed: str, assets: list[str], cause: str
) -> None:
    loop = trained("quickstart")
    versions = {asset: loop.versions(asset) for asset in assets}
    undo = edit(loop)
    execute(loop, 0, *assets)
    assert all(loop.versions(asset)["0000"] != versions[asset]["0000"] for asset in assets), "the edit must matter"
    assert all(asset not in loop.stale() or "0000" not in loop.stale()[asset] for asset in assets), "made from what is there"

    undo()
    loop.observe(observed)
    stale = loop.stale()
    assert all(cause in stale[asset]["0000"] for asset in assets)

    execute(loop, 0, *assets)
    assert loop.stale() == {}
    assert {asset: loop.versions(asset) for asset in assets} == versions


@pytest.mark.parametrize("execute", [in_process, multiprocess])
def test_a_first_step_by_hand_observes_what_it_reads_and_is_fresh(loop: Loop, execute: Callable[..., None]) -> None:
    loop.build_worlds()
    execute(loop, 0, *STEP_ASSETS)
    assert loop.versions("rubric").keys() == {""}
    assert loop.versions("verifiers").keys() == {"world_0", "world_1", "world_2"}
    assert loop.versions("policy").keys() == {"v0000", "v0001"}
    assert loop.stale() == {}


def test_the_inputs_that_are_recorded_are_those_that_were_read(trained: Trained) -> None:
    loop = trained("quickstart")
    inputs = loop.materialization("weights", "0001").metadata["inputs"].value
    assert inputs == {
        "rewards": {"0001": loop.versions("rewards")["0001"]},
        "rubric": loop.versions("rubric"),
        "verifiers": loop.versions("verifiers"),
        "policy": {"v0001": loop.versions("policy")["v0001"]},
    }


def test_a_rubric_that_is_edited_while_its_step_runs_is_not_taken_for_the_one_it_ran_with(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit lands between the step's look at the rubric and the end of its scoring."""
    from rl_assets.graph.lab import Lab

    loop = trained("quickstart")
    score = Lab.score

    def edit_then_score(lab: Lab, *arguments: Any) -> Any:
        loop.place.edit_criterion("correctness", weight=0.25)
        return score(lab, *arguments)

    monkeypatch.setattr(Lab, "score", edit_then_score)
    assert loop.run(0, "rewards").success
    monkeypatch.undo()
    loop.observe("rubric")
    assert "rubric" in loop.stale()["rewards"]["0000"]

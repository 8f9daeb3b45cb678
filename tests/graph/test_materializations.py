"""What a person sees of each materialization, and what is shown when something is made to fail."""

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest

from rl_assets.core.digest import short
from rl_assets.graph import metadata
from rl_assets.graph.lineage import STEP_ASSETS
from rl_assets.store.tables import TableRef, current_version, read_table
from rl_assets.trajectories.trial import Outcome, Trial, Turn
from tests.graph.conftest import Loop, Trained
from tests.support import Workplace


def shown(loop: Loop, asset: str, step: str) -> Mapping[str, Any]:
    return {name: value.value for name, value in loop.materialization(asset, step).metadata.items()}


def checks(loop: Loop, asset: str) -> dict[str, dg.AssetCheckEvaluation]:
    """The latest evaluation of each check of an asset."""
    keys = [
        dg.AssetCheckKey(dg.AssetKey([loop.name, asset]), name)
        for name in ("failed_share", "unscored_share", "zero_variance_groups", "on_policy", "up_to_date")
    ]
    latest = loop.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    evaluations = {}
    for key, record in latest.items():
        assert record.event is not None
        event = record.event.dagster_event
        assert event is not None
        evaluations[key.name] = event.asset_check_evaluation_data
    return evaluations


def said(loop: Loop, asset: str, check: str) -> tuple[bool, str | None]:
    evaluation = checks(loop, asset)[check]
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    return evaluation.passed, evaluation.description


def test_every_materialization_shows_what_a_person_wants_to_know(trained: Trained) -> None:
    loop = trained("quickstart")
    trajectories = shown(loop, "trajectories", "0001")
    assert {"trials", "failed", "outcomes", "mean_turns", "table", "inputs", "trials_run"} <= trajectories.keys()
    assert (trajectories["trials"], trajectories["failed"], trajectories["trials_run"]) == (6, 0, 6)
    assert sum(trajectories["outcomes"].values()) == 6
    assert set(trajectories["outcomes"]) <= set(Outcome)
    assert 2 <= trajectories["mean_turns"] <= 6
    assert trajectories["table"].splitlines()[0] == "| trial | outcome | turns | attempts | left behind | error |"
    assert len(trajectories["table"].splitlines()) == 2 + 6
    assert "| 0001/world\\_0/0000 | answered | " in trajectories["table"]

    rewards = shown(loop, "rewards", "0001")
    table = read_table(loop.place.lab().store, TableRef(loop.name, "rewards", "0001"), loop.versions("rewards")["0001"])
    assert rewards["mean_reward"] == pytest.approx(sum(table["reward"].to_pylist()) / 6)
    assert (rewards["trials"], rewards["unscored"], rewards["cost_usd"]) == (6, 0, 0.0)
    assert rewards["rubric"] == short(loop.versions("rubric")[""])
    assert {"mean_correctness", "mean_efficiency", "mean_tidiness", "groups_without_signal"} <= rewards.keys()
    header = rewards["table"].splitlines()[0]
    assert header == "| trial | correctness | efficiency | tidiness | reward | advantage | unscored because |"
    assert len(rewards["table"].splitlines()) == 2 + 6

    weights = shown(loop, "weights", "0001")
    assert weights["base"] == short(loop.versions("policy")["v0001"])
    assert weights["weights"] == short(loop.versions("policy")["v0002"])
    assert (weights["changed"], weights["off_policy"], weights["examples"]) == (True, False, 6)
    assert weights["behaviour"] == [weights["base"]]
    assert weights["updates_run"] == 1
    assert {"inputs"} <= trajectories.keys() & rewards.keys() & weights.keys()

    world = loop.materialization("worlds", "world_1")
    assert world.metadata["digest"].value == short(loop.versions("worlds")["world_1"])
    assert world.metadata["files"].value >= 10


def test_the_learning_curve_is_a_picture_from_the_second_step_on(trained: Trained) -> None:
    loop = trained("quickstart")
    assert "learning_curve" not in shown(loop, "weights", "0000")
    for step in ("0001", "0002"):
        markdown = shown(loop, "weights", step)["learning_curve"]
        head, _, picture = markdown.partition("base64,")
        assert head == "![learning curve](data:image/png;"
        assert base64.b64decode(picture.removesuffix(")")).startswith(b"\x89PNG\r\n")
        assert len(markdown) < 100_000


def test_the_curve_of_a_long_experiment_has_a_bounded_number_of_points() -> None:
    from rl_assets.graph.assets import CURVE_POINTS

    picture = metadata.learning_curve(list(range(CURVE_POINTS)), [None] * CURVE_POINTS, [1.0] * CURVE_POINTS)
    assert "base64," in str(picture.value)


def test_weights_learned_from_old_trials_say_so(trained: Trained) -> None:
    loop = trained("quickstart")
    old = shown(loop, "weights", "0001")["base"]
    loop.place.edit_criterion("correctness", weight=0.25)
    loop.rejudge()
    weights = shown(loop, "weights", "0001")
    assert weights["off_policy"] is True
    assert weights["behaviour"] == [old]
    assert weights["base"] != old
    line = "trained on trials sampled from other weights than those updated"
    assert said(loop, "weights", "on_policy") == (False, line)


def test_text_from_a_trial_is_not_read_as_markdown_or_html() -> None:
    evil = "a|b <script>alert(1)</script> ![x](http://x) [l](javascript:1) `c` **d** # e\n| new | row |\r\n\\| & &lt;"
    trial = Trial(
        id="0000/world_0/0000",
        key="k",
        step=0,
        world="world_0",
        sample=0,
        world_digest="w",
        policy_digest="p",
        outcome=Outcome.FAILED,
        turns=(Turn(turn=0, tool="read", argument=evil, output=evil, elapsed_s=0.0),),
        files={evil: evil},
        error=evil,
    )
    table = str(metadata.trials_metadata([trial])["table"].value)
    lines = table.split("\n")
    assert len(lines) == 3
    assert len(table.splitlines()) == 3
    row = lines[2]
    cells = [cell for cell in row.replace("\\\\", "").replace("\\|", "").split("|") if cell.strip()]
    assert len(cells) == 6
    for forbidden in ("<", ">", "`c`", "**", "![x]", "[l]("):
        assert forbidden not in row.replace("\\`", "").replace("\\*", "").replace("\\[", "").replace("\\]", "")


def test_a_long_text_from_a_trial_is_cut_without_breaking_its_table() -> None:
    for length in range(195, 205):
        trial = Trial(
            id="0000/world_0/0000",
            key="k",
            step=0,
            world="world_0",
            sample=0,
            world_digest="w",
            policy_digest="p",
            outcome=Outcome.FAILED,
            error="x" * length + "<|" * 50,
        )
        row = str(metadata.trials_metadata([trial])["table"].value).split("\n")[2]
        assert row.endswith(" |")
        assert not row.endswith("\\ |"), "the cut must not leave a backslash that takes the cell's end"
        assert len(row) < 400


def test_the_checks_of_a_sound_run_pass(trained: Trained) -> None:
    loop = trained("quickstart")
    assert said(loop, "trajectories", "failed_share") == (True, "0 of 6 trials failed")
    assert said(loop, "rewards", "unscored_share") == (True, "0 of 6 trials are unscored")
    passed, line = said(loop, "rewards", "zero_variance_groups")
    quiet = shown(loop, "rewards", "0002")["groups_without_signal"]
    assert (passed, line) == (quiet < 3, f"{quiet} of 3 groups have no signal")
    assert said(loop, "weights", "on_policy") == (True, "trained on trials sampled from the weights updated")
    for asset in STEP_ASSETS:
        assert said(loop, asset, "up_to_date") == (True, "all 3 steps are up to date")


def test_up_to_date_is_executable_by_hand_and_names_the_changed_criterion(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.edit_criterion("tidiness", question="Is there nothing else?")
    loop.observe("rubric")
    result = dg.materialize(
        [*loop.place.definitions().assets, *loop.place.definitions().asset_checks],
        selection=dg.AssetSelection.checks(
            *(dg.AssetCheckKey(dg.AssetKey([loop.name, asset]), "up_to_date") for asset in STEP_ASSETS)
        ),
        resources=loop.place.definitions().resources,
        instance=loop.instance,
    )
    assert result.success, "a warning blocks nothing"
    line = "3 of 3 steps are stale: the rubric changed (tidiness: question) (3)"
    assert said(loop, "trajectories", "up_to_date") == (True, "all 3 steps are up to date")
    assert said(loop, "rewards", "up_to_date") == (False, line)
    assert said(loop, "weights", "up_to_date") == (False, line)
    values = {name: value.value for name, value in checks(loop, "rewards")["up_to_date"].metadata.items()}
    assert (values["stale"], values["fresh"], values["missing"]) == (3, 0, 0)
    assert values["why"].splitlines()[2] == "| the rubric changed (tidiness: question) | 0000-0002 |"


@pytest.mark.slow
def test_a_trial_that_always_dies_is_skipped_and_shown_and_the_step_goes_on(loop: Loop) -> None:
    dead = "0001/world_1/0000"
    report = loop.train(faults__dead_trials=[dead])
    assert [(row.trials, row.failed, row.unscored) for row in report.steps] == [(6, 0, 0), (6, 1, 1), (6, 0, 0)]
    assert report.receipt["trials_failed"] == 1
    assert said(loop, "trajectories", "up_to_date") == (True, "all 3 steps are up to date")
    values = shown(loop, "trajectories", "0001")
    assert (values["trials"], values["failed"], values["outcomes"]["failed"]) == (6, 1, 1)
    assert "the sandbox died (injected)" in values["table"]
    assert shown(loop, "rewards", "0001")["unscored"] == 1
    assert shown(loop, "weights", "0001")["examples"] == 5
    rewards = rewards_of(loop, "0001")
    assert rewards[dead] is None
    assert sum(reward is None for reward in rewards.values()) == 1

    undisturbed = Loop(Workplace.make(loop.place.root.parent / "undisturbed"))
    # The same steps again with the fault gone: the failure stands until another go is asked for.
    again = loop.train()
    assert (again.receipt["trials_run"], again.steps[1].failed) == (0, 1)
    recovered = loop.train(retry_failed=True)
    assert [(row.failed, row.unscored) for row in recovered.steps] == [(0, 0)] * 3
    assert recovered.receipt["trials_run"] >= 1
    assert rewards_of(loop, "0001")[dead] is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(undisturbed.place.root)
        assert undisturbed.train().weights_digest == recovered.weights_digest


@pytest.mark.slow
def test_a_judge_that_never_answers_leaves_trials_unscored_and_the_policy_as_it_was(loop: Loop) -> None:
    report = loop.train(faults__dead_judge=1.0)
    assert [(row.failed, row.unscored, row.mean_reward) for row in report.steps] == [(0, 6, None)] * 3
    assert set(rewards_of(loop, "0000").values()) == {None}, "null, not 0"
    assert said(loop, "rewards", "unscored_share") == (False, "6 of 6 trials are unscored")
    assert said(loop, "rewards", "zero_variance_groups") == (False, "3 of 3 groups have no signal")
    values = shown(loop, "rewards", "0000")
    assert values["unscored"] == 6
    assert "mean_reward" not in values
    assert "the judge did not answer (injected)" in values["table"].replace("\\", "")
    assert shown(loop, "weights", "0000")["changed"] is False
    assert shown(loop, "weights", "0000")["examples"] == 0
    assert len(set(loop.versions("policy").values())) == 1
    lab = loop.place.lab()
    version = current_version(lab.store, TableRef(loop.name, "weights", "0002"))
    assert version is not None
    assert read_table(lab.store, version.ref, version.file)["no_op"].to_pylist() == [True]
    assert loop.stale() == {}

    recovered = loop.train(retry_failed=True)
    assert [(row.failed, row.unscored) for row in recovered.steps] == [(0, 0)] * 3
    assert len(set(loop.versions("policy").values())) == 4
    assert loop.stale() == {}


def rewards_of(loop: Loop, step: str) -> dict[str, float | None]:
    table = read_table(loop.place.lab().store, TableRef(loop.name, "rewards", step), loop.versions("rewards")[step])
    return dict(zip(table["trial_id"].to_pylist(), table["reward"].to_pylist(), strict=True))

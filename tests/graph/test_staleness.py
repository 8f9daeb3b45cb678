"""What goes stale after each event by Dagster's own resolver; `Loop.stale` holds our bulk plan against it each time."""

import pytest

from rl_assets.cli.session import RunFailed
from rl_assets.graph.lineage import STEP_ASSETS, step_key
from rl_assets.graph.plan import SourceChanged, State
from rl_assets.graph.staleness import up_to_date_result
from tests.graph.conftest import Loop, Trained

pytestmark = pytest.mark.slow


def test_nothing_is_stale_before_during_and_after_training(loop: Loop) -> None:
    assert loop.stale() == {}
    loop.train(steps=2)
    assert loop.stale() == {}
    assert [state.state for state in loop.plan().states["weights"].values()] == [State.FRESH, State.FRESH, State.MISSING]
    loop.train()
    assert loop.stale() == {}
    assert loop.plan().count("weights", State.FRESH) == 3


def test_a_rubric_edit_stales_rewards_and_weights_until_relearned_and_then_what_the_policy_changed(trained: Trained) -> None:
    loop = trained("quickstart")
    before = loop.versions("policy")
    loop.place.edit_criterion("correctness", weight=0.25)
    assert loop.stale() == {}, "nobody observed it yet"
    loop.observe("rubric")
    assert loop.stale() == {"rewards": loop.every_step("rubric"), "weights": loop.every_step("rubric")}

    loop.rejudge()
    after = loop.versions("policy")
    assert before["v0000"] == after["v0000"]
    assert before["v0001"] != after["v0001"]
    assert loop.stale() == {
        "trajectories": {
            step_key(step): [f"policy[v{step:04d}]"] for step in (1, 2) if before[f"v{step:04d}"] != after[f"v{step:04d}"]
        }
    }

    loop.rejudge(on_policy=True)
    assert loop.stale() == {}


def test_an_edit_that_is_undone_stales_nothing(trained: Trained) -> None:
    loop = trained("quickstart")
    versions = {asset: loop.versions(asset) for asset in STEP_ASSETS}
    rubric = loop.place.rubric()
    loop.place.edit_criterion("tidiness", question="Is there nothing else?")
    loop.observe("rubric")
    assert set(loop.stale()) == {"rewards", "weights"}
    loop.place.set_rubric(rubric)
    loop.observe("rubric")
    assert loop.stale() == {}
    assert {asset: loop.versions(asset) for asset in STEP_ASSETS} == versions


def test_comments_names_and_order_of_a_rubric_are_no_change(trained: Trained) -> None:
    loop = trained("quickstart")
    rubric = loop.place.rubric()
    rubric["criteria"] = [{**entry, "name": f"{entry['name']}_2"} for entry in reversed(rubric["criteria"])]
    loop.place.set_rubric(rubric)
    loop.observe("rubric")
    assert loop.stale() == {}


def test_a_changed_world_stales_the_trajectories_of_exactly_the_steps_that_used_it(trained: Trained) -> None:
    loop = trained("rota")
    assert [loop.place.lab("rota").lineage.worlds_of(step) for step in range(4)] == [
        ["world_0"],
        ["world_1"],
        ["world_2"],
        ["world_0"],
    ]
    loop.overlay("world_0", "environment/documents/extra.txt", "Nothing to see.\n")
    sources = loop.plan().states["worlds"]["world_0"]
    assert sources.state is State.STALE
    assert isinstance(sources.causes[0], SourceChanged)
    assert loop.stale() == {}, "Dagster sees a world when it is built"

    loop.build_worlds()
    assert loop.stale() == {"trajectories": {"0000": ["worlds[world_0]"], "0003": ["worlds[world_0]"]}}
    loop.train()
    assert loop.stale() == {}


def test_a_changed_world_leaves_steps_before_it_alone(trained: Trained) -> None:
    loop = trained("rota")
    before = {asset: loop.materialized(asset) for asset in STEP_ASSETS}
    loop.overlay("world_2", "instruction.md", "Look for the digest, and be quick.\n")
    report = loop.train()
    after = {asset: loop.materialized(asset) for asset in STEP_ASSETS}
    for asset in STEP_ASSETS:
        assert [key for key in after[asset] if after[asset][key] == before[asset][key]][:2] == ["0000", "0001"]
        assert after[asset]["0002"] > before[asset]["0002"]
    assert report.receipt["trials_run"] >= 2
    assert loop.stale() == {}


def test_a_changed_verifier_stales_rewards_and_weights_of_its_steps_and_no_trajectory(trained: Trained) -> None:
    loop = trained("rota")
    sampled = loop.materialized("trajectories")
    loop.overlay("world_1", "tests/expected.txt", "0" * 64 + "\n")
    loop.observe("verifiers")
    stale = {"0001": ["verifiers[world_1]"]}
    assert loop.stale() == {"rewards": stale, "weights": stale}
    assert not any(loop.plan().states["worlds"][world].causes for world in ("world_0", "world_1", "world_2"))

    report = loop.rejudge()
    assert report.receipt["trials_run"] == 0
    assert loop.materialized("trajectories") == sampled
    assert set(loop.stale()) <= {"trajectories"}
    loop.rejudge(on_policy=True)
    assert loop.stale() == {}


@pytest.mark.parametrize(
    ("settings", "assets"),
    [
        ({"rollouts__max_turns": 5}, ["trajectories"]),
        ({"rollouts__samples": 3}, ["trajectories"]),
        ({"policy__learning_rate": 4.0}, ["weights"]),
        ({"seed": 7}, ["trajectories", "worlds"]),
        ({"worlds__decoys": 2}, ["worlds"]),
        (
            {"rollouts__concurrency": 1, "rollouts__deadline_s": 9, "rollouts__retries": 3, "rollouts__tool_latency_s": 0.001},
            [],
        ),
        (
            {
                "judging__latency_s": 0.001,
                "judging__concurrency": 1,
                "faults__flaky_trials": 0.5,
                "on_rubric_change": "nothing",
            },
            [],
        ),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else None,
)
def test_a_changed_setting_stales_the_assets_whose_data_it_changes(
    trained: Trained, settings: dict[str, object], assets: list[str]
) -> None:
    loop = trained("quickstart")
    stale = loop.stale(**settings)
    assert sorted(stale) == assets
    assert all(causes == ["settings"] for by_key in stale.values() for causes in by_key.values())
    assert all(len(by_key) == 3 for by_key in stale.values())


def test_a_changed_setting_is_brought_up_to_date_by_train(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.set(policy__learning_rate=4.0)
    report = loop.train()
    assert report.receipt["updates_run"] == 3
    assert loop.stale() == {}


def test_another_initial_policy_stales_what_it_sampled_and_what_was_built_on_it(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.set(policy__initial={"world_0": {"document_3.txt": 2.0}})
    loop.observe("policy")
    assert loop.stale() == {"trajectories": {"0000": ["policy[v0000]"]}, "weights": {"0000": ["policy[v0000]"]}}
    loop.train()
    assert loop.stale() == {}


@pytest.mark.parametrize("per_step", [2, 3], ids=["more", "all"])
def test_more_worlds_in_a_step_stale_every_step(trained: Trained, per_step: int) -> None:
    loop = trained("rota")
    loop.place.set("rota", worlds__per_step=per_step)
    states, stale = loop.resolved()
    assert stale == {asset: loop.every_step("settings") for asset in STEP_ASSETS}
    assert {asset: set(loop.plan().states[asset]) for asset in STEP_ASSETS} == {
        asset: set(states[asset]) for asset in STEP_ASSETS
    }
    loop.train()
    assert loop.stale() == {}


@pytest.mark.parametrize("settings", [{"worlds__per_step": 1}, {"worlds__count": 2}], ids=["a turn each", "one is gone"])
def test_fewer_worlds_in_a_step_stale_every_step_and_old_trials_are_not_scored(
    trained: Trained, settings: dict[str, int]
) -> None:
    loop = trained("quickstart")
    loop.place.set(**settings)
    assert loop.stale() == {asset: loop.every_step("settings") for asset in STEP_ASSETS}
    with pytest.raises(
        RunFailed, match=r"quickstart/trajectories\[0000\] has trials in world_.*no longer uses: sample it again"
    ):
        loop.rejudge()
    loop.train()
    assert loop.stale() == {}


def test_one_more_world_is_built_and_the_others_stay_as_they_are(trained: Trained) -> None:
    loop = trained("quickstart")
    before = loop.materialized("worlds")
    loop.place.set(worlds__count=4)
    assert [state.state for state in loop.plan().states["worlds"].values()] == [State.FRESH] * 3 + [State.MISSING]
    report = loop.train()
    assert loop.versions("worlds").keys() == {"world_0", "world_1", "world_2", "world_3"}
    assert report.steps[0].trials == 8
    assert report.receipt["trials_run"] < 8 * 3
    assert before.keys() == {"world_0", "world_1", "world_2"}
    assert loop.stale() == {}


def test_more_steps_are_missing_and_fewer_are_not_spoken_of(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.set(steps=5)
    assert loop.stale() == {}
    assert loop.plan().count("weights", State.MISSING) == 2
    loop.place.set(steps=2)
    assert loop.stale() == {}
    assert list(loop.plan().states["weights"]) == ["0000", "0001"]


def test_the_reasons_name_what_changed(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.place.edit_criterion("efficiency", weight=0.5)
    loop.place.edit_criterion("tidiness", question="Is there nothing else?")
    loop.observe("rubric")
    passed, line, metadata = up_to_date_result(loop.place.lab(), loop.plan(), "rewards")
    assert not passed
    assert line == "3 of 3 steps are stale: the rubric changed (efficiency: weight 0.3 to 0.5; tidiness: question) (3)"
    assert metadata["stale"].value == 3
    assert "| 0000-0002 |" in str(metadata["why"].value)

"""Weights are a chain: each builds on the one before, under one rubric, or refuses and says what to do."""

import pytest

from rl_assets.cli.session import RunFailed
from rl_assets.graph.lineage import step_key
from rl_assets.graph.staleness import up_to_date_result
from rl_assets.store.tables import TableRef, current_version
from tests.graph.conftest import Loop, Trained, failure

pytestmark = pytest.mark.slow

LATER = [step_key(step) for step in range(1, 5)]


def test_a_chain_of_five_is_never_mixed(trained: Trained) -> None:
    loop = trained("five")
    before = {asset: loop.materialized(asset) for asset in ("trajectories", "weights")}
    policies = loop.versions("policy")
    loop.place.edit_criterion("correctness", "five", weight=0.25)

    done = loop.place.run("rejudge", "five", "--set", "faults.refused_updates=[1]", "--json", check=False)
    assert done.returncode == 1
    assert "step 0001 failed: the update of step 0001 refused (injected)" in done.stderr
    stale = loop.stale()
    assert {"rubric"} <= set(stale["weights"]["0001"])
    assert list(stale["weights"]) == LATER, "step 0 was learned again, and nothing after it"
    for step in (2, 3, 4):
        # By hand, and without the fault: still refused, because of the one before.
        reason = failure(loop.run(step, "rewards", "weights"))
        assert f"five/weights[{step_key(step - 1)}] is stale (" in reason
        assert f"a backfill from step {step_key(step - 1)} or `rl-assets rejudge five`" in reason
    after = loop.materialized("weights")
    assert {key for key in after if after[key] != before["weights"][key]} == {"0000"}
    assert {key: version for key, version in loop.versions("policy").items() if key not in ("v0001",)} == {
        key: version for key, version in policies.items() if key not in ("v0001",)
    }
    assert loop.materialized("trajectories") == before["trajectories"]
    assert list(loop.stale()["weights"]) == LATER
    passed, line, _ = up_to_date_result(loop.place.lab("five"), loop.plan(), "weights")
    assert not passed
    assert line.startswith("4 of 5 steps are stale: ")
    assert "the rubric changed (correctness: weight 1 to 0.25) (4)" in line

    loop.rejudge()
    assert set(loop.stale()) <= {"trajectories"}
    loop.rejudge(on_policy=True)
    assert loop.stale() == {}


def test_weights_refuse_rewards_made_under_another_rubric(trained: Trained) -> None:
    """Rewards under A, the rubric becomes B, the weights of step 0 alone: B's weights must not come from A's rewards."""
    loop = trained("quickstart")
    before = loop.materialized("weights")
    loop.place.edit_criterion("tidiness", weight=0.4)
    reason = failure(loop.run(0, "weights"))
    assert reason == (
        "quickstart/rewards[0000] were made under another rubric or verifier (rubric has a new data version): make them again"
        " first, together with the weights, or run `rl-assets rejudge quickstart`"
    )
    assert loop.materialized("weights") == before
    assert set(loop.stale()["weights"]["0000"]) == {"rubric"}
    assert loop.run(0, "rewards").success
    assert loop.run(0, "weights").success
    assert "0000" not in loop.stale()["weights"]


def test_weights_refuse_rewards_made_by_another_verifier(trained: Trained) -> None:
    loop = trained("quickstart")
    loop.overlay("world_2", "tests/expected.txt", "0" * 64 + "\n")
    reason = failure(loop.run(0, "weights"))
    assert "quickstart/rewards[0000] were made under another rubric or verifier (verifiers[world_2] has a new" in reason


def test_a_step_without_its_policy_names_what_to_make(loop: Loop) -> None:
    loop.train(steps=1)
    for assets in (("trajectories",), ("trajectories", "rewards", "weights")):
        assert failure(loop.run(2, *assets)) == (
            "quickstart/policy[v0002] was never made: materialize quickstart/weights[0001] first, or run"
            " `rl-assets train quickstart --steps 3`"
        )
    assert failure(loop.run(1, "weights")).startswith("quickstart/rewards[0001] was never made: materialize it first")
    assert failure(loop.run(1, "rewards")).startswith("quickstart/trajectories[0001] was never made: materialize it first")


def test_a_step_without_its_worlds_names_them(loop: Loop) -> None:
    assert failure(loop.run(0)) == (
        "quickstart/worlds[world_0] was never made: materialize it first, or run `rl-assets train quickstart`"
    )


def test_a_refused_update_leaves_nothing_behind(loop: Loop) -> None:
    with pytest.raises(RunFailed, match=r"step 0001 failed: the update of step 0001 refused \(injected\)"):
        loop.train(faults__refused_updates=[1])
    lab = loop.place.lab()
    assert current_version(lab.store, TableRef("quickstart", "weights", "0001")) is None
    assert loop.versions("policy").keys() == {"v0000", "v0001"}
    assert loop.versions("trajectories").keys() == {"0000", "0001"}
    undisturbed = loop.train()
    assert undisturbed.receipt["trials_run"] == 6
    assert loop.stale() == {}

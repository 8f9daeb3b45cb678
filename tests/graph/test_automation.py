"""What happens by itself when the rubric changes, tick by tick, without a daemon."""

from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest

from rl_assets.graph.automation import automated_assets
from rl_assets.graph.names import asset_key
from tests.graph.conftest import Loop, Trained, queued_run

pytestmark = pytest.mark.slow

STEPS = {"0000", "0001", "0002"}
BOTH = {"rewards": STEPS, "weights": STEPS}


@dataclass
class Ticks:
    """The automation's looks at the log, each going on from the one before."""

    loop: Loop
    definitions: dg.Definitions
    cursor: Any = None

    def tick(self) -> dict[str, set[str]]:
        """The partitions asked for, by asset."""
        result = dg.evaluate_automation_conditions(self.definitions, self.loop.instance, cursor=self.cursor)
        self.cursor = result.cursor
        asked = {
            asset: set(result.get_requested_partitions(asset_key(self.loop.name, asset)) - {None})
            for asset in automated_assets(self.loop.place.lab(self.loop.name).experiment)
        }
        assert result.total_requested == sum(map(len, asked.values())), "nothing but rewards and weights is ever asked for"
        return {asset: keys for asset, keys in asked.items() if keys}


@pytest.fixture
def loop(trained: Trained) -> Loop:
    return trained("quickstart")


def ticks(loop: Loop) -> Ticks:
    return Ticks(loop, loop.place.definitions(loop.name))


def test_a_rubric_edit_asks_for_rewards_and_weights_of_every_step_once(loop: Loop) -> None:
    looks = ticks(loop)
    assert looks.tick() == {}
    assert looks.tick() == {}
    loop.place.edit_criterion("correctness", weight=0.25)
    assert looks.tick() == {}, "not observed yet"
    loop.observe("rubric")
    assert looks.tick() == BOTH
    assert looks.tick() == {}
    for step in range(3):
        assert loop.run(step, "rewards", "weights").success
        assert looks.tick() == {}
    assert looks.tick() == {}
    assert set(loop.stale()) <= {"trajectories"}


def test_steps_that_were_never_made_are_not_asked_for(loop: Loop) -> None:
    loop.place.set(steps=5)
    looks = ticks(loop)
    assert looks.tick() == {}
    loop.place.edit_criterion("correctness", weight=0.25)
    loop.observe("rubric")
    assert looks.tick() == BOTH


def test_training_asks_for_nothing(loop: Loop) -> None:
    looks = ticks(loop)
    looks.tick()
    loop.place.set(policy__learning_rate=4.0)
    loop.train()
    assert looks.tick() == {}
    assert looks.tick() == {}


@pytest.mark.parametrize(
    ("setting", "asked"),
    [("nothing", {}), ("rewards", {"rewards": STEPS}), ("relearn", BOTH)],
    ids=lambda value: str(value)[:9],
)
def test_the_experiment_says_what_a_rubric_edit_asks_for(loop: Loop, setting: str, asked: dict[str, set[str]]) -> None:
    loop.place.set(on_rubric_change=setting)
    looks = ticks(loop)
    assert looks.tick() == {}
    loop.place.edit_criterion("correctness", weight=0.25)
    loop.observe("rubric")
    assert looks.tick() == asked
    assert looks.tick() == {}


def test_an_edit_while_its_predecessor_is_being_acted_on_is_not_lost(loop: Loop) -> None:
    looks = ticks(loop)
    looks.tick()
    loop.place.edit_criterion("correctness", weight=0.25)
    loop.observe("rubric")
    assert looks.tick() == BOTH
    runs = [queued_run(loop, step, "rewards", "weights", status=dg.DagsterRunStatus.STARTED) for step in range(3)]
    assert looks.tick() == {}

    loop.place.edit_criterion("correctness", weight=0.5)
    loop.observe("rubric")
    assert looks.tick() == {}, "all steps are being made"
    for run in runs:
        assert looks.tick() == {}, "steps asked for one by one would queue out of their order"
        loop.instance.report_run_canceled(run)
    assert looks.tick() == BOTH, "all together, once nothing is under way"
    assert looks.tick() == {}

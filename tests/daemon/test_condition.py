"""What the automation asks for, tick by tick, without a daemon."""

import dagster as dg
import pytest

from rl_assets.graph.names import asset_key
from tests.graph.conftest import Loop
from tests.support import Workplace

ALL = ["0000", "0001", "0002"]


class Ticks:
    """The automation of one experiment, ticked by hand."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.cursor: dg.AssetDaemonCursor | None = None

    def tick(self) -> dict[str, list[str]]:
        """The steps that it asks for, by asset."""
        result = dg.evaluate_automation_conditions(
            self.loop.place.definitions(self.loop.name), self.loop.instance, cursor=self.cursor
        )
        self.cursor = result.cursor
        asked = {a: sorted(result.get_requested_partitions(asset_key(self.loop.name, a))) for a in ("rewards", "weights")}
        return {asset: keys for asset, keys in asked.items() if keys}

    def edit(self, weight: float) -> None:
        self.loop.place.edit_criterion("efficiency", self.loop.name, weight=weight)
        self.loop.observe("rubric")


@pytest.fixture
def ticks(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Ticks:
    monkeypatch.chdir(workplace.root)
    return Ticks(Loop(workplace))


BOTH = {"rewards": ALL, "weights": ALL}


def test_an_edit_asks_once_for_rewards_and_weights_of_every_step(ticks: Ticks) -> None:
    ticks.loop.train()
    assert [ticks.tick(), ticks.tick()] == [{}, {}]
    ticks.edit(0.9)
    assert [ticks.tick(), ticks.tick(), ticks.tick()] == [BOTH, {}, {}]


def test_an_edit_between_the_asking_and_the_next_tick_is_not_lost(ticks: Ticks) -> None:
    ticks.loop.train()
    ticks.tick()
    ticks.edit(0.9)
    assert ticks.tick() == BOTH
    ticks.edit(0.8)
    assert [ticks.tick(), ticks.tick()] == [BOTH, {}]


def test_an_edit_before_the_first_tick_is_acted_on(ticks: Ticks) -> None:
    ticks.loop.train()
    ticks.edit(0.9)
    assert [ticks.tick(), ticks.tick()] == [BOTH, {}]


def test_what_is_up_to_date_already_is_not_asked_for(ticks: Ticks) -> None:
    """A first observation, an edit before training, an edit that the command line acted on, and one undone."""
    assert ticks.tick() == {}
    ticks.edit(0.5)
    assert ticks.tick() == {}
    ticks.loop.train()
    assert ticks.tick() == {}
    ticks.edit(0.9)
    ticks.loop.rejudge()
    assert ticks.tick() == {}
    ticks.edit(0.7)
    ticks.edit(0.9)
    assert [ticks.tick(), ticks.tick()] == [{}, {}]


@pytest.mark.parametrize(("on_rubric_change", "asked"), [("nothing", {}), ("rewards", {"rewards": ALL}), ("relearn", BOTH)])
def test_the_setting_says_what_an_edit_asks_for(ticks: Ticks, on_rubric_change: str, asked: dict[str, list[str]]) -> None:
    ticks.loop.place.set(on_rubric_change=on_rubric_change)
    ticks.loop.train()
    ticks.tick()
    ticks.edit(0.9)
    assert ticks.tick() == asked


def test_steps_that_were_never_made_are_not_asked_for(ticks: Ticks) -> None:
    ticks.loop.train(steps=2)
    ticks.tick()
    ticks.edit(0.9)
    assert ticks.tick() == {"rewards": ALL[:2], "weights": ALL[:2]}

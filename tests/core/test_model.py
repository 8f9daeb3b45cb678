"""Settings that people write: what is wrong is said in one line that names the file and the field."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rl_assets.core.errors import ConfigError, RlAssetsError, UsageError
from rl_assets.core.model import Frozen, parse_settings
from rl_assets.rewards.settings import Judging
from rl_assets.trajectories.settings import Faults, Rollouts
from rl_assets.weights.settings import BanditPolicy
from rl_assets.worlds.settings import DocumentWorlds


class Inner(Frozen):
    weight: float = 1.0


class Outer(Frozen):
    name: str
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()


def complaint(model, data):
    with pytest.raises(ConfigError) as caught:
        parse_settings(model, data, "some/defs.yaml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("some/defs.yaml: ")
    return message.removeprefix("some/defs.yaml: ")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"name": "x", "inner": {"wieght": 1}}, "inner.wieght: unknown key"),
        ({"name": "x", "extra": 1}, "extra: unknown key"),
        ({}, "name: Field required"),
        ({"name": "x", "inner": {"weight": math.nan}}, "inner.weight: Input should be a finite number (got nan)"),
        ({"name": "x", "many": [{}, {"weight": "lots"}]}, "many.1.weight: "),
        ({"name": 3}, "name: Input should be a valid string (got 3)"),
        ("just text", "the document: "),
        (None, "the document: "),
    ],
)
def test_the_field_that_is_wrong_is_named(data, expected):
    assert complaint(Outer, data).startswith(expected)


@given(st.text(min_size=1).filter(lambda name: name not in ("name", "inner", "many")))
def test_any_unknown_key_is_refused_in_one_line(key):
    assert complaint(Outer, {"name": "x", key: 1}).endswith("unknown key")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, "nan", "inf", "1e999"])
@pytest.mark.parametrize(
    ("model", "field"),
    [
        (BanditPolicy, "learning_rate"),
        (Rollouts, "deadline_s"),
        (Rollouts, "tool_latency_s"),
        (Faults, "flaky_trials"),
        (Judging, "latency_s"),
    ],
)
def test_no_setting_takes_a_number_that_is_not_finite(model, field, number):
    assert complaint(model, {field: number}).startswith(field)


@pytest.mark.parametrize(
    ("model", "data", "expected"),
    [
        (DocumentWorlds, {"count": 0}, "count"),
        (DocumentWorlds, {"documents": 3, "decoys": 3}, "decoys (3) must be fewer than documents (3)"),
        (DocumentWorlds, {"count": 3, "per_step": 4}, "per_step (4) is more than count (3)"),
        (DocumentWorlds, {"kind": "harbor"}, "kind"),
        (Rollouts, {"samples": 0}, "samples"),
        (Rollouts, {"concurrency": 0}, "concurrency"),
        (Rollouts, {"deadline_s": 0}, "deadline_s"),
        (Rollouts, {"retries": -1}, "retries"),
        (Faults, {"flaky_trials": 1.5}, "flaky_trials"),
        (Faults, {"crash_after_step": -1}, "crash_after_step"),
        (BanditPolicy, {"learning_rate": 0}, "learning_rate"),
        (BanditPolicy, {"learning_rate": 1e300}, "learning_rate"),
        (BanditPolicy, {"initial": {"world_0": {"a": math.inf}}}, "initial.world_0.a"),
    ],
)
def test_settings_that_cannot_work_are_refused(model, data, expected):
    assert expected in complaint(model, data)


def test_settings_cannot_be_changed_once_made():
    with pytest.raises(ValidationError, match="frozen"):
        Inner().weight = 2.0


def test_a_wrong_setting_is_the_users_error_and_of_our_tree():
    assert issubclass(ConfigError, UsageError)
    assert issubclass(UsageError, RlAssetsError)

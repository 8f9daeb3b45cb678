"""An experiment of a thousand steps, all of them in Dagster's log: what is stale is said at once."""

import resource
import time
from collections import Counter
from typing import Any

import dagster as dg
import pytest

from rl_assets.graph.event_log import observation
from rl_assets.graph.lineage import STEP_ASSETS, step_key, version_key
from rl_assets.graph.plan import State
from rl_assets.store.tables import TableRef, current_version, read_table, write_table
from tests.graph.conftest import Loop
from tests.support import Workplace

STEPS = 1000
MADE = 2
"""Steps that are really trained; the others' events are written like theirs."""


def write_the_rest(loop: Loop) -> None:
    """The events and the weights' pointers that training the other steps would have left."""
    lab = loop.place.lab()
    policy = loop.versions("policy")[version_key(MADE)]
    version = current_version(lab.store, TableRef(loop.name, "weights", step_key(MADE - 1)))
    assert version is not None
    update = read_table(lab.store, version.ref, version.file)
    like = {asset: loop.materialization(asset, step_key(MADE - 1)) for asset in STEP_ASSETS}
    events: list[dg.AssetMaterialization | dg.AssetObservation] = []
    for step in range(MADE, STEPS):
        write_table(lab.store, TableRef(loop.name, "weights", step_key(step)), policy, update, version.file)
        for asset, materialization in like.items():
            inputs: dict[str, Any] = {}
            for upstream, versions in materialization.metadata["inputs"].value.items():
                keys = lab.lineage.inputs(asset, step)[upstream]
                inputs[upstream] = dict(zip(keys, versions.values(), strict=True))
            if "policy" in inputs:
                inputs["policy"] = {version_key(step): policy}
            events.append(
                materialization._replace(
                    partition=step_key(step), metadata={**materialization.metadata, "inputs": dg.MetadataValue.json(inputs)}
                )
            )
        events.append(observation(loop.name, "policy", version_key(step + 1), policy))
    for event in events:
        loop.instance.report_runless_asset_event(event)


@pytest.mark.slow
def test_status_of_a_thousand_steps_takes_three_seconds_at_most(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    workplace.set(steps=STEPS)
    monkeypatch.chdir(workplace.root)
    loop = Loop(workplace)
    loop.train(steps=MADE)
    write_the_rest(loop)

    # Processor seconds, as other tests run beside this one; alone, the clock shows about as many.
    plans, commands = [], []
    for _ in range(3):
        started = time.process_time()
        plan = loop.plan()
        plans.append(time.process_time() - started)
        assert {asset: plan.count(asset, State.FRESH) for asset in STEP_ASSETS} == dict.fromkeys(STEP_ASSETS, STEPS)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = workplace.json("status", "quickstart")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        commands.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(plans) <= 3
    assert min(commands) <= 3
    assert Counter(state["state"] for state in status["assets"]["weights"].values()) == {"fresh": STEPS}

    workplace.edit_criterion("correctness", weight=0.25)
    loop.observe("rubric")
    status = workplace.json("status", "quickstart")
    assert Counter(state["state"] for state in status["assets"]["trajectories"].values()) == {"fresh": STEPS}
    assert Counter(tuple(state["why"]) for state in status["assets"]["rewards"].values()) == {
        ("the rubric changed (correctness: weight 1 to 0.25)",): STEPS
    }

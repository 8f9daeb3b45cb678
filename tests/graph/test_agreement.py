"""Our bulk plan against Dagster's resolver, over random sequences of events."""

import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rl_assets.graph.lineage import STEP_ASSETS
from tests.graph.conftest import Loop
from tests.support import Workplace

STEPS = 3

step = st.integers(0, STEPS - 1)
world = st.sampled_from(["world_0", "world_1"])

EVENTS = st.one_of(
    st.tuples(st.just("observe rubric"), st.sampled_from([0.25, 1.0])),
    st.tuples(st.just("edit rubric, unobserved"), st.sampled_from([0.25, 1.0])),
    st.tuples(st.just("set learning rate"), st.sampled_from([4.0, 8.0])),
    st.tuples(st.just("run trajectories"), step),
    st.tuples(st.just("run rewards"), step),
    st.tuples(st.just("run rewards, weights"), step),
    st.tuples(st.just("run all"), step),
    st.tuples(st.just("observe verifier"), world, st.sampled_from(["0" * 64, "1" * 64])),
    st.tuples(st.just("rebuild world"), world, st.sampled_from(["one", "two"])),
    st.tuples(st.just("observe policy"), st.sampled_from([0.0, 2.0])),
)


EVERY_KIND: list[tuple[object, ...]] = [
    ("observe rubric", 0.25),
    ("run rewards", 0),
    ("observe policy", 2.0),
    ("run trajectories", 0),
    ("run rewards, weights", 0),
    ("rebuild world", "world_1", "one"),
    ("observe verifier", "world_0", "0" * 64),
    ("set learning rate", 4.0),
]


def happen(loop: Loop, event: object, *details: object) -> None:
    """Make one event happen; runs may refuse, which is an event as well."""
    match event, details:
        case (("observe rubric" | "edit rubric, unobserved"), (float() as weight,)):
            loop.place.edit_criterion("correctness", weight=weight)
            if event == "observe rubric":
                loop.observe("rubric")
        case "set learning rate", (float() as rate,):
            loop.place.set(policy__learning_rate=rate)
        case "run trajectories", (int() as at,):
            loop.run(at, "trajectories")
        case "run rewards", (int() as at,):
            loop.run(at, "rewards")
        case "run rewards, weights", (int() as at,):
            loop.run(at, "rewards", "weights")
        case "run all", (int() as at,):
            loop.run(at)
        case "observe verifier", (str() as name, str() as expected):
            loop.overlay(name, "tests/expected.txt", expected + "\n")
            loop.observe("verifiers")
        case "rebuild world", (str() as name, str() as text):
            loop.overlay(name, "environment/documents/extra.txt", text + "\n")
            loop.build_worlds()
        case "observe policy", (float() as prior,):
            loop.place.set(policy__initial={"world_0": {"document_0.txt": prior}})
            loop.observe("policy")
        case _:
            raise AssertionError(event)


@pytest.mark.slow
def test_the_plan_says_what_dagster_says_after_any_sequence_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tmp_path / "template"
    place = Workplace.make(template)
    place.set(
        steps=STEPS,
        worlds__count=2,
        worlds__per_step=1,
        worlds__documents=3,
        rollouts__samples=2,
        policy__initial={"world_0": {"document_0.txt": 0.0}},
    )
    monkeypatch.chdir(template)
    first = Loop(place)
    first.train(steps=STEPS - 1)
    first.instance.dispose()
    seen: set[str] = set()

    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(EVENTS, min_size=4, max_size=8))
    @example(EVERY_KIND)
    def agree(events: list[tuple[object, ...]]) -> None:
        root = Path(mkdtemp(dir=tmp_path)) / "project"
        shutil.copytree(template, root)
        monkeypatch.chdir(root)
        loop = Loop(Workplace(root))
        try:
            for event in events:
                happen(loop, *event)
                stale = loop.stale()
                for asset, by_key in stale.items():
                    seen.update(f"{asset} by {cause.partition('[')[0]}" for causes in by_key.values() for cause in causes)
        finally:
            loop.instance.dispose()
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(root)

    agree()
    # Every edge of the graph must have made something stale, else the sequences showed little.
    lineage = place.lab().lineage
    assert seen == {f"{asset} by {upstream}" for asset in STEP_ASSETS for upstream in lineage.inputs(asset, 0)} | {
        "weights by settings"
    }

"""What Dagster is told: keys, partitions, edges, jobs, sensors, checks, pools; and what a wrong experiment is told."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from rl_assets import AgenticRL
from rl_assets.graph.component import templated
from rl_assets.graph.experiment import ExperimentSettings
from tests.support import Workplace

STEPS = ["0000", "0001", "0002"]
WORLDS = ["world_0", "world_1", "world_2"]
VERSIONS = ["v0000", "v0001", "v0002", "v0003"]

QUICKSTART = {
    "worlds": {"partitions": WORLDS, "deps": [], "pools": [], "kind": "materialized", "checks": []},
    "verifiers": {"partitions": WORLDS, "deps": [], "pools": [], "kind": "observed", "checks": []},
    "policy": {"partitions": VERSIONS, "deps": [], "pools": [], "kind": "observed", "checks": []},
    "rubric": {"partitions": None, "deps": [], "pools": [], "kind": "observed", "checks": []},
    "trajectories": {
        "partitions": STEPS,
        "deps": ["policy", "worlds"],
        "pools": ["quickstart_loop"],
        "kind": "materialized",
        "checks": ["failed_share", "up_to_date"],
    },
    "rewards": {
        "partitions": STEPS,
        "deps": ["rubric", "trajectories", "verifiers"],
        "pools": ["quickstart_loop"],
        "kind": "materialized",
        "checks": ["unscored_share", "up_to_date", "zero_variance_groups"],
    },
    "weights": {
        "partitions": STEPS,
        "deps": ["policy", "rewards", "rubric", "verifiers"],
        "pools": ["quickstart_loop"],
        "kind": "materialized",
        "checks": ["on_policy", "up_to_date"],
    },
}

SENSORS = {
    "quickstart_rejudge_on_rubric_change": "RUNNING",
    "quickstart_watch_rubric": "RUNNING",
    "quickstart_report_unreported": "RUNNING",
    "quickstart_fail_dead_runs": "RUNNING",
    "quickstart_stop_after_failure": "RUNNING",
    "quickstart_rerun_stale": "STOPPED",
}


Load = Callable[[], dg.Definitions]


@pytest.fixture
def load(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads the project as its code location does."""

    def load() -> dg.Definitions:
        for module in [name for name in sys.modules if name.partition(".")[0] == "elsewhere"]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.syspath_prepend(str(workplace.root))
        return dg.load_from_defs_folder(path_within_project=workplace.root)

    return load


def graph_of(definitions: dg.Definitions) -> dict[str, dict[str, Any]]:
    graph = definitions.resolve_asset_graph()
    found: dict[str, dict[str, Any]] = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        found[key.to_user_string()] = {
            "partitions": list(node.partitions_def.get_partition_keys()) if node.partitions_def else None,
            "deps": sorted(parent.path[-1] for parent in node.parent_keys),
            "pools": sorted(node.pools or ()),
            "kind": "observed" if node.is_observable and not node.is_materializable else "materialized",
            "checks": sorted(check.name for check in node.check_keys),
        }
        assert node.group_name == key.path[0]
    return found


def test_the_quickstart_is_this_graph(load: Load) -> None:
    definitions = load()
    assert graph_of(definitions) == {f"quickstart/{name}": asset for name, asset in QUICKSTART.items()}
    repository = definitions.get_repository_def()
    assert {sensor.name: sensor.default_status.name for sensor in repository.sensor_defs} == SENSORS
    assert [name for name in repository.job_names if not name.startswith("__")] == ["quickstart_train_step"]
    job = repository.get_job("quickstart_train_step")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {
        f"quickstart/{asset}" for asset in ("trajectories", "rewards", "weights")
    }
    assert job.partitions_def is not None
    assert list(job.partitions_def.get_partition_keys()) == STEPS
    assert repository.schedule_defs == []


@pytest.mark.parametrize(
    ("asset", "upstream", "step", "partitions"),
    [
        ("trajectories", "policy", "0001", ["v0001"]),
        ("weights", "policy", "0001", ["v0001"]),
        ("trajectories", "worlds", "0001", ["world_1"]),
        ("rewards", "verifiers", "0002", ["world_2"]),
        ("weights", "verifiers", "0003", ["world_0"]),
        ("rewards", "trajectories", "0002", ["0002"]),
        ("weights", "rewards", "0000", ["0000"]),
    ],
)
def test_edges_lead_to_the_partitions_that_a_step_is_made_from(
    workplace: Workplace, asset: str, upstream: str, step: str, partitions: list[str]
) -> None:
    workplace.set(steps=4, worlds__per_step=1)
    graph = workplace.definitions().resolve_asset_graph()
    parents = graph.get_parent_partition_keys_for_child(
        step, dg.AssetKey(["quickstart", upstream]), dg.AssetKey(["quickstart", asset])
    )
    assert sorted(parents.partitions_subset.get_partition_keys()) == partitions


def test_no_asset_of_a_step_has_a_backfill_policy(workplace: Workplace) -> None:
    """Else a backfill would split a step's run and break the order of steps."""
    graph = workplace.definitions().resolve_asset_graph()
    for asset in ("trajectories", "rewards", "weights"):
        assert graph.get(dg.AssetKey(["quickstart", asset])).backfill_policy is None


def test_two_experiments_load_together_and_share_no_name(workplace: Workplace, load: Load) -> None:
    workplace.add("second", steps=2, on_rubric_change="nothing")
    definitions = load()
    dg.Definitions.validate_loadable(definitions)
    assert {key.partition("/")[0] for key in graph_of(definitions)} == {"quickstart", "second"}
    assert len(graph_of(definitions)) == 14
    repository = definitions.get_repository_def()
    names = [sensor.name for sensor in repository.sensor_defs]
    assert sorted(names) == sorted([*SENSORS, *(name.replace("quickstart", "second") for name in SENSORS)])
    assert graph_of(definitions)["second/rewards"]["pools"] == ["second_loop"]


TIMED = """
import time
import dagster
started = time.perf_counter()
import definitions
definitions.defs.get_repository_def()
print(time.perf_counter() - started)
"""


@pytest.mark.slow
def test_definitions_load_within_three_seconds_beyond_importing_dagster(workplace: Workplace) -> None:
    workplace.add("thousand", steps=1000)
    took = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", TIMED],
            cwd=workplace.root,
            env=workplace.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        took.append(float(done.stdout))
    assert min(took) <= 3


@pytest.mark.slow
def test_loading_definitions_imports_nothing_heavy_and_writes_nothing(workplace: Workplace) -> None:
    before = {path for path in workplace.root.rglob("*") if "__pycache__" not in path.parts}
    code = "import sys, definitions; definitions.defs.get_repository_def(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=workplace.root,
        env=workplace.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"torch", "matplotlib", "duckdb", "vllm", "transformers"} & set(done.stdout.split())
    assert {path for path in workplace.root.rglob("*") if "__pycache__" not in path.parts} == before


def write(place: Workplace, attributes: Any, name: str = "wrong") -> Path:
    folder = place.folder(name)
    folder.mkdir()
    (folder / "defs.yaml").write_text(yaml.safe_dump({"type": "rl_assets.AgenticRL", "attributes": attributes}))
    return folder / "defs.yaml"


def chain(error: BaseException | None) -> list[str]:
    """The messages of an error and of all that caused it."""
    messages = []
    while error is not None:
        messages.append(str(error))
        error = error.__cause__ or error.__context__
    return messages


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"stepps": 3}, "stepps"),
        ({"rollouts": {"sampels": 3}}, "rollouts.sampels"),
        ({"rollouts": {"samples": "many"}}, "rollouts.samples"),
        ({"rollouts": {"samples": 0}}, "rollouts.samples"),
        ({"steps": 0}, "steps"),
        ({"policy": {"learning_rate": float("nan")}}, "policy.learning_rate"),
        ({"policy": {"kind": "transformer"}}, "policy.kind"),
        ({"on_rubric_change": "panic"}, "on_rubric_change"),
        ({"worlds": {"decoys": 8}}, "worlds: decoys (8) must be fewer than documents (8)"),
    ],
    ids=str,
)
def test_wrong_settings_are_told_by_file_and_field(
    workplace: Workplace, load: Load, attributes: dict[str, Any], said: str
) -> None:
    file = write(workplace, attributes)
    with pytest.raises(Exception, match="") as caught:
        load()
    lines = "\n".join(chain(caught.value)).splitlines()
    assert any(str(file) in line and all(part in line for part in said.split(".")) for line in lines), lines


def test_a_name_that_cannot_be_part_of_keys_is_told(workplace: Workplace, load: Load) -> None:
    write(workplace, {}, "no-name")
    with pytest.raises(Exception, match="") as caught:
        load()
    assert any("no-name: an experiment's name is letters, digits and underscores" in text for text in chain(caught.value))


def test_templates_work_in_the_code_location_and_on_the_command_line(
    workplace: Workplace, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "5")
    monkeypatch.setenv("LATENCY", "0.25")
    workplace.set(seed="{{ env.SEED }}", rollouts__tool_latency_s="{{ env.LATENCY }}", steps="{{ 1 + 1 }}")
    assert graph_of(load())["quickstart/weights"]["partitions"] == STEPS[:2]
    settings = workplace.lab().experiment.settings
    assert (settings.seed, settings.rollouts.tool_latency_s, settings.steps) == (5, 0.25, 2)


def test_the_component_publishes_the_schema_of_its_settings() -> None:
    model = AgenticRL.get_model_cls()
    assert model is not None
    schema = model.model_json_schema()
    assert schema["properties"].keys() == ExperimentSettings.model_fields.keys()
    assert schema["additionalProperties"] is False
    assert {"type": "string"} in schema["properties"]["seed"]["anyOf"], "a template"
    assert schema["properties"]["steps"]["anyOf"][0] == {"maximum": 9999, "minimum": 1, "type": "integer"}
    assert (
        schema["$defs"]["Rollouts"]["properties"].keys()
        == ExperimentSettings.model_fields["rollouts"].annotation.model_fields.keys()
    )  # type: ignore[union-attr]
    assert schema["$defs"]["Rollouts"]["additionalProperties"] is False


def test_the_schema_takes_what_the_settings_take() -> None:
    model = templated(ExperimentSettings)
    assert ExperimentSettings.model_validate(model.model_validate({}).model_dump()) == ExperimentSettings()

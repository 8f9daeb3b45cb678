"""`dagster_cloud.yaml` names a code location that loads."""

import importlib

import dagster as dg
from dagster_cloud_cli.commands.ci.checks import check_dagster_cloud_yaml
from dagster_cloud_cli.config.models import load_dagster_cloud_yaml

from tests.support import REPOSITORY

FILE = REPOSITORY / "dagster_cloud.yaml"


def test_dagster_cloud_yaml_is_valid_and_its_module_holds_the_definitions(monkeypatch):
    assert check_dagster_cloud_yaml(FILE).errors == []
    (location,) = load_dagster_cloud_yaml(FILE.read_text()).locations
    assert location.location_name == "rl_assets"
    monkeypatch.syspath_prepend(REPOSITORY)
    module = importlib.import_module(location.code_source.module_name)
    assert dg.AssetKey(["quickstart", "weights"]) in module.defs.resolve_all_asset_keys()

"""The wheel: what is in it, and that it works in someone else's project."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support import PYPROJECT, REPOSITORY

pytestmark = pytest.mark.slow

DEFINITIONS = """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy so that the repository stays clean."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(REPOSITORY / "rl_assets", source / "rl_assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory) -> Path:
    """A Python with the wheel installed, which finds the other packages where this one has them."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    executable = environment / "bin" / "python"
    (packages,) = environment.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(executable), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--force-reinstall", "--target", str(packages), str(wheel)], check=True, capture_output=True)
    return executable


def test_the_wheel_holds_the_package_its_data_and_its_entry_points(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry_points = next(archive.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
        metadata = next(archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    package = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "rl_assets").rglob("*.py")}
    data = {"rl_assets/py.typed", "rl_assets/defs/quickstart/defs.yaml", "rl_assets/defs/quickstart/rubric.yaml"}
    assert package | data <= names
    assert {name.partition("/")[0] for name in names} == {"rl_assets", wheel.name.rpartition("-py3")[0] + ".dist-info"}
    assert not [name for name in names if "__pycache__" in name or "tests" in name]
    assert "rl-assets = rl_assets.cli.main:main" in entry_points
    assert "[dagster_dg_cli.registry_modules]\nrl_assets = rl_assets" in entry_points
    assert "torch" not in metadata.lower()


def test_someone_elses_project_scaffolds_checks_lists_and_trains_an_experiment(python: Path, tmp_path: Path):
    package = tmp_path / "src" / "elsewhere"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.replace('"definitions"', '"elsewhere.definitions"'))
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    dropped = ("RL_ASSETS_HOME", "RL_ASSETS_STORE", "RL_ASSETS_STORE_SYNC", "DAGSTER_HOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"PYTHONPATH": str(tmp_path / "src"), "VIRTUAL_ENV": str(python.parent.parent)}
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"

    def run(code: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(python), "-c", code, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def dg(*arguments: str) -> str:
        return run("from dagster_dg_cli.cli import main; main()", *arguments)

    def rl_assets(*arguments: str) -> str:
        return run("from rl_assets.cli.main import main; main()", *arguments)

    where = run("import rl_assets; print(rl_assets.__file__)").strip()
    assert Path(where).is_relative_to(python.parent.parent), "the wheel's, not the repository's"
    assert "rl_assets.AgenticRL" in dg("list", "components")
    dg("scaffold", "defs", "rl_assets.AgenticRL", "my_run")
    assert sorted(path.name for path in (package / "defs" / "my_run").iterdir()) == ["defs.yaml", "rubric.yaml"]
    dg("check", "yaml")
    dg("check", "defs")
    listed = json.loads(dg("list", "defs", "--json"))
    assert "my_run/weights" in json.dumps(listed)
    report = json.loads(rl_assets("train", "my_run", "--json"))
    assert (report["experiment"], report["receipt"]["trials_run"]) == ("my_run", 18)
    assert json.loads(rl_assets("train", "my_run", "--json"))["receipt"]["trials_recovered"] == 18
    assert (tmp_path / ".rl_assets" / "store").is_dir()

"""`dev`: Dagster's web UI and daemon on the state that the command line uses."""

import os
import shutil
import sys
from pathlib import Path

from rl_assets.core.errors import UsageError
from rl_assets.core.home import HOME_VARIABLE
from rl_assets.graph.names import pool_name
from rl_assets.graph.project import Project, open_instance
from rl_assets.graph.runs import set_pool_limit


def dev(project: Project, arguments: list[str]) -> None:
    """Become `dg dev`, with the home's instance and the pools limited; returns only by raising.

    Raises:
        UsageError: dg is not installed.
    """
    dg = shutil.which("dg", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if dg is None:
        raise UsageError("dg is not installed: pip install 'rl_assets[ui]'")
    home = project.home
    with open_instance(home) as instance:
        for name in project.experiment_folders():
            set_pool_limit(instance, pool_name(name))
    environment = {**os.environ, "DAGSTER_HOME": str(home.dagster), HOME_VARIABLE: str(home.path)}
    os.chdir(project.root)
    sys.stdout.flush()
    os.execvpe(dg, [dg, "dev", *arguments], environment)

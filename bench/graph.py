"""What Dagster adds: to a step, and to the start of a process."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure
from tests.support import Workplace

LOAD = """
import time
import dagster
started = time.perf_counter()
from dagster.components.core.load_defs import load_from_defs_folder
from pathlib import Path
defs = load_from_defs_folder(path_within_project=Path.cwd())
defs.get_repository_def()
print(time.perf_counter() - started)
"""


def graph_figures(steps: int) -> Iterator[Figure]:
    """Seconds that a step without latency takes under Dagster, and that loading the definitions takes beyond importing it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace.make(Path(folder) / "project")
        place.set(steps=steps)
        report = place.json("train", "quickstart")
        again = place.json("train", "quickstart")
        yield Figure("step_under_dagster", report["receipt"]["elapsed_s"] / steps, "s", steps=steps)
        yield Figure("step_found_fresh", again["receipt"]["elapsed_s"] / steps, "s", steps=steps)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", LOAD],
            cwd=place.root,
            env=place.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        yield Figure("loading_definitions", float(done.stdout), "s", bound=3.0, steps=steps)

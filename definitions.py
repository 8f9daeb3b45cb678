"""The code location: every experiment in rl_assets/defs."""

from pathlib import Path

import dagster as dg

defs = dg.Definitions.merge(
    dg.load_from_defs_folder(path_within_project=Path(__file__).parent),
    # A step's assets run one after another, so a process for each would only add its start-up to every one.
    dg.Definitions(executor=dg.in_process_executor),
)

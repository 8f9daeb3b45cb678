"""Rewrites what the documents show: `python -m tests.docs.regenerate`. Read the difference before keeping it.

What differs only in timings and the like stays as it is, unless `--timings` is given.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs import console
from tests.docs.settings_page import settings_page
from tests.support import REPOSITORY

DOCUMENTS = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
"""Every document, in the order in which they are read."""

SETTINGS = REPOSITORY / "docs" / "settings.md"


def main() -> None:
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        if console.commands(text):
            with tempfile.TemporaryDirectory() as folder:
                ran = console.run(text, Path(folder).resolve() / "rl_assets")
            path.write_text(console.rewritten(text, ran, keep_timings="--timings" not in sys.argv), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What durability tests share: what a store must look like, and processes that die at a chosen write."""

import json
import re
import sys
from pathlib import Path

from rl_assets.core.digest import digest_bytes
from rl_assets.store.leases import process_alive
from tests.support import Workplace

STAGED = re.compile(r"#\d+$")

DIES_AT_A_WRITE = """
import os, re, signal, sys
from rl_assets.store import objects

pattern, number, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.argv[1:] = sys.argv[4:]

def deadly(write):
    def wrapped(self, path, *arguments, **keywords):
        global number
        meant = re.search(pattern, path) is not None
        number -= meant
        if meant and number == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = write(self, path, *arguments, **keywords)
        if meant and number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped

objects.ObjectStore.put = deadly(objects.ObjectStore.put)
objects.ObjectStore.put_new = deadly(objects.ObjectStore.put_new)
from rl_assets.cli.main import main
main()
"""
"""The command line, killed before or after the n-th write to a path that matches a pattern."""


def command_that_dies(pattern: str, number: int, when: str, *arguments: str) -> list[str]:
    """The command line of such a process."""
    return [sys.executable, "-c", DIES_AT_A_WRITE, pattern, str(number), when, *arguments]


def journal(place: Workplace, kind: str) -> dict[str, bytes]:
    """The records of a kind, by key, as bytes."""
    return {path.stem: path.read_bytes() for path in (place.home / "store" / "journal" / kind).rglob("*.json")}


def assert_sound(place: Workplace) -> None:
    """Nothing in the store is half-written, damaged, or held by the dead."""
    store = place.home / "store"
    files = [path for path in store.rglob("*") if path.is_file()]
    assert [path for path in files if STAGED.search(path.name)] == []
    for path in (store / "journal").rglob("*.json"):
        body, _, seal = path.read_bytes().rstrip(b"\n").rpartition(b"\n")
        assert digest_bytes(body).encode() == seal, path
        assert json.loads(body), path
    for kind in ("worlds", "verifiers", "weights"):
        for bundle in (store / kind).iterdir():
            manifest = json.loads((bundle / "manifest.json").read_text())
            found = {
                path.relative_to(bundle / "files").as_posix(): digest_bytes(path.read_bytes()) for path in files_below(bundle)
            }
            assert found == manifest, bundle
    for pointer in (store / "tables").rglob("current.json"):
        for entry in json.loads(pointer.read_text()):
            assert (pointer.parent / f"{entry['file']}.parquet").read_bytes()[:4] == b"PAR1", pointer
    for path in (store / "leases").iterdir():
        lease = json.loads(path.read_text())
        assert process_alive(lease["pid"], lease["started_at"]), path


def files_below(bundle: Path) -> list[Path]:
    """The sealed files of a bundle."""
    return [path for path in (bundle / "files").rglob("*") if path.is_file()]


def assert_nothing_active(place: Workplace) -> None:
    """No run is left queued or started."""
    from rl_assets.graph.runs import active_runs

    assert active_runs(place.instance(), "quickstart") == []


def states(place: Workplace, experiment: str = "quickstart") -> set[str]:
    """The states that `status` tells of, over all partitions."""
    assets = place.json("status", experiment)["assets"]
    return {partition["state"] for partitions in assets.values() for partition in partitions.values()}

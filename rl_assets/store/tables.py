"""Versioned tables: one Parquet file per experiment, table, partition and data version; the current one a pointer.

Every version is kept. The pointer is replaced atomically after the file is there, so readers see the old version or the
new one.
"""

import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl_assets.core.digest import short
from rl_assets.core.errors import MissingInput
from rl_assets.store.objects import ObjectStore


@dataclass(frozen=True)
class TableRef:
    """Names a partition of an experiment's table."""

    experiment: str
    table: str
    partition: str

    @property
    def folder(self) -> str:
        """Where its versions lie in the store."""
        return f"tables/{self.experiment}/{self.table}/{self.partition}"


@dataclass(frozen=True)
class Version:
    """One version of a partition."""

    ref: TableRef
    file: str
    """The name of its Parquet file."""
    data_version: str
    is_current: bool
    recorded_at: float
    """Seconds since the epoch at which the pointer last came to it."""

    @property
    def path(self) -> str:
        """Its Parquet file in the store."""
        return f"{self.ref.folder}/{self.file}.parquet"


def write_table(store: ObjectStore, ref: TableRef, data_version: str, table: pa.Table, file: str | None = None) -> None:
    """Keep a version and make it the current one. The pointer remembers when each version became current.

    The first file of a version stays: a later one could differ only in what no digest covers, such as timings.

    Args:
        store: where.
        ref: which partition.
        data_version: the digest of what the rows amount to.
        table: the rows.
        file: the digest that names the file, where one data version can have come about in several ways that the rows
            tell apart; the data version by default.
    """
    file = file or data_version
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    store.put_new(f"{ref.folder}/{file}.parquet", buffer.getvalue())
    pointer = _read_pointer(store, ref)
    if pointer and pointer[-1]["file"] == file:
        return
    pointer.append({"data_version": data_version, "file": file, "recorded_at": time.time()})
    store.put(f"{ref.folder}/current.json", json.dumps(pointer).encode())


def read_table(store: ObjectStore, ref: TableRef, file: str, columns: list[str] | None = None) -> pa.Table:
    """A version as a table, by the name of its file; with `columns`, those alone.

    Raises:
        MissingInput: there is no such version.
    """
    data = store.get(f"{ref.folder}/{file}.parquet")
    if data is None:
        raise MissingInput(
            f"{ref.experiment}/{ref.table}[{ref.partition}]: version {short(file)} is not in the store {store.url}"
        )
    return pq.read_table(io.BytesIO(data), columns=columns)


def current_version(store: ObjectStore, ref: TableRef) -> Version | None:
    """The version that the pointer names, or None when nothing was ever written."""
    pointer = _read_pointer(store, ref)
    return _version(ref, pointer[-1], is_current=True) if pointer else None


def list_versions(store: ObjectStore) -> Iterator[Version]:
    """Every version of every table in the store, in a fixed order. One that a crash left without a pointer is no version."""
    refs = set()
    for path in store.list("tables/"):
        _, experiment, table, partition, name = path.split("/")
        if name == "current.json":
            refs.add(TableRef(experiment, table, partition))
    for ref in sorted(refs, key=lambda ref: ref.folder):
        pointer = _read_pointer(store, ref)
        latest = {entry["file"]: entry for entry in pointer}
        for file, entry in latest.items():
            yield _version(ref, entry, is_current=file == pointer[-1]["file"])


def _version(ref: TableRef, entry: dict[str, Any], is_current: bool) -> Version:
    return Version(ref, entry["file"], entry["data_version"], is_current, entry["recorded_at"])


def _read_pointer(store: ObjectStore, ref: TableRef) -> list[dict[str, Any]]:
    data = store.get(f"{ref.folder}/current.json")
    pointer: list[dict[str, Any]] = json.loads(data) if data else []
    return pointer

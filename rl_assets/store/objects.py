"""One object store, local or remote, reduced to what the rest needs: get, put, put if absent, delete, list.

obstore does the work: one well-kept library for local folders and S3, GCS and Azure, with put-if-absent on each.
On a local folder its synchronous calls take half the time of its asynchronous ones and no thread, so the asynchronous
methods here use them there; reading and removing are plain file operations, which take a third of that.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, from_url
from obstore.store import ObjectStore as AnyStore

from rl_assets.core.digest import SHORT, digest_bytes
from rl_assets.core.errors import UsageError
from rl_assets.core.home import STORE_VARIABLE

STAGED = re.compile(r"#\d+$")
"""obstore writes a local object beside its final name, with such an ending, then links it into place."""


class ObjectStore:
    """Objects by path. A local store is a folder; any other URL goes to obstore.

    With `sync`, a local write returns only after the disk has it, so that records outlive a loss of power as well.
    """

    def __init__(self, url: str, sync: bool = False) -> None:
        self.url = url
        self.sync = sync
        parsed = urlparse(url)
        if parsed.scheme in ("", "file"):
            self.root: Path | None = Path(url if not parsed.scheme else url2pathname(parsed.path)).absolute()
            self._store: AnyStore = LocalStore(self.root, mkdir=True)
            return
        self.root = None
        try:
            self._store = from_url(url)
        except Exception as error:
            raise UsageError(f"{STORE_VARIABLE}={url}: {type(error).__name__}, not a store that can be opened") from None

    def get(self, path: str) -> bytes | None:
        """The object's bytes, or None when there is none."""
        if self.root is not None:
            # A local object is the file of that name, and reading it takes a third of the time of obstore's call.
            try:
                with open(f"{self.root}/{path}", "rb") as file:  # noqa: PTH123, a Path costs as much as the reading
                    return file.read()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        try:
            return obstore.get(self._store, path).bytes().to_bytes()
        except FileNotFoundError:
            return None

    async def get_async(self, path: str) -> bytes | None:
        """As `get`."""
        if self.root is not None:
            return self.get(path)
        try:
            return (await (await obstore.get_async(self._store, path)).bytes_async()).to_bytes()
        except FileNotFoundError:
            return None

    def put(self, path: str, data: bytes) -> None:
        """Write or replace, atomically."""
        obstore.put(self._store, path, data)
        self._flush(path)

    def put_new(self, path: str, data: bytes, twin: str | None = None) -> bool:
        """Write unless it is there; whether this call wrote it. One of many callers at once gets True.

        `twin` may name an object that holds the same data already: a local store then gives that a second name, which costs
        no new file.
        """
        if twin is not None and self.root is not None:
            try:
                os.link(f"{self.root}/{twin}", f"{self.root}/{path}")
                return True
            except FileExistsError:
                return False
            except FileNotFoundError:
                pass  # the first object in a folder that is not there yet
        try:
            obstore.put(self._store, path, data, mode="create")
        except AlreadyExistsError:
            return False
        self._flush(path)
        return True

    async def put_new_async(self, path: str, data: bytes, twin: str | None = None) -> bool:
        """As `put_new`."""
        if self.root is not None:
            return self.put_new(path, data, twin)
        try:
            await obstore.put_async(self._store, path, data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Remove; nothing happens when it is not there."""
        if self.root is not None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(f"{self.root}/{path}")  # noqa: PTH108, as in get
            return
        try:
            obstore.delete(self._store, path)
        except FileNotFoundError:
            return

    async def delete_async(self, path: str) -> None:
        """As `delete`."""
        if self.root is not None:
            self.delete(path)
            return
        try:
            await obstore.delete_async(self._store, path)
        except FileNotFoundError:
            return

    def list(self, prefix: str) -> Iterator[str]:
        """All paths below a prefix that ends with a slash, in no particular order."""
        for batch in obstore.list(self._store, prefix):
            for entry in batch:
                yield entry["path"]

    def sweep_staged(self, before: float) -> int:
        """Remove what a killed process left half-written before a moment (seconds since the epoch); how many.

        Only to be called when no other process writes: see `leases.sweep`.
        """
        if self.root is None:
            return 0
        swept = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                if STAGED.search(name):
                    path = Path(folder, name)
                    if path.stat().st_mtime < before:
                        path.unlink(missing_ok=True)
                        swept += 1
        return swept

    def local_file(self, path: str, cache: Path) -> Path:
        """A file that holds the object: the object itself in a local store, else a copy kept in `cache`.

        For objects that never change once written.

        Raises:
            FileNotFoundError: there is no such object.
        """
        if self.root is not None:
            return self.root / path
        copy = cache / digest_bytes(self.url.encode())[:SHORT] / path
        if not copy.exists():
            data = self.get(path)
            if data is None:
                raise FileNotFoundError(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            partial = copy.with_name(f"{copy.name}.{os.getpid()}")
            partial.write_bytes(data)
            partial.replace(copy)
        return copy

    def _flush(self, path: str) -> None:
        if not self.sync or self.root is None:
            return
        full = self.root / path
        # Any of the folders may be new, and then only its parent knows of it.
        for name in (full, *(folder for folder in full.parents if folder.is_relative_to(self.root))):
            descriptor = os.open(name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

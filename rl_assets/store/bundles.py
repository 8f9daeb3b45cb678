"""Sealed folders, named by their content: worlds, verifiers, weights.

A bundle exists once its manifest does, and the manifest is written last, so a half-written one is never found. Every
load checks every byte against the manifest. Files keep their names, but for `#`, `:` and `|`, which local stores cannot
have in some places of a name, and `%`, which stands for them.
"""

import json
import re
from collections.abc import Mapping

from rl_assets.core.digest import digest_bytes, digest_files
from rl_assets.core.errors import MissingInput, RlAssetsError
from rl_assets.store.objects import ObjectStore


def save_bundle(store: ObjectStore, kind: str, files: Mapping[str, bytes]) -> str:
    """Keep a folder of files (paths relative, with slashes); its digest. Saving what is there writes nothing."""
    name = digest_files(files)
    if not has_bundle(store, kind, name):
        for path, data in files.items():
            store.put(_file_path(kind, name, path), data)
        manifest = {path: digest_bytes(data) for path, data in sorted(files.items())}
        store.put(_manifest_path(kind, name), json.dumps(manifest, indent=1).encode())
    return name


def has_bundle(store: ObjectStore, kind: str, name: str) -> bool:
    """Whether a bundle is in the store."""
    return store.get(_manifest_path(kind, name)) is not None


def load_bundle(store: ObjectStore, kind: str, name: str) -> dict[str, bytes]:
    """The files of a bundle.

    Raises:
        MissingInput: there is no such bundle.
        RlAssetsError: a file of it is gone or changed.
    """
    data = store.get(_manifest_path(kind, name))
    if data is None:
        raise MissingInput(f"{kind}/{name}: not in the store {store.url}")
    files = {}
    for path, expected in json.loads(data).items():
        content = store.get(_file_path(kind, name, path))
        if content is None or digest_bytes(content) != expected:
            raise RlAssetsError(f"{kind}/{name}/files/{path}: the file is gone or not what was sealed")
        files[path] = content
    return files


def _file_path(kind: str, name: str, path: str) -> str:
    return f"{kind}/{name}/files/" + re.sub("[%#:|]", lambda match: f"%{ord(match[0]):02X}", path)


def _manifest_path(kind: str, name: str) -> str:
    return f"{kind}/{name}/manifest.json"

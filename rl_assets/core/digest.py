"""Digests: names for results, made of exactly what can change them.

A digest is the SHA-256 of a canonical JSON text, so the order of keys, the machine and the process do not matter.
Floats are written in their shortest exact form and must be finite.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SHORT = 12
"""Characters of a digest shown to people."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value built of dicts, lists, strings, numbers, booleans and None.

    Raises:
        ValueError: a float is not finite.
        TypeError: something else than JSON can hold.
    """
    return _CANONICAL.encode(value)


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, 64 hexadecimal characters."""
    return hashlib.sha256(data).hexdigest()


def digest(kind: str, semantics: int, content: Any) -> str:
    """The digest of a result.

    Args:
        kind: what is named, such as "trial"; two kinds never share a digest.
        semantics: bumped by hand when the meaning of the kind changes, so that old records are not taken for new ones.
        content: everything that can change the result, and nothing else.
    """
    text = canonical_json([kind, semantics, content])
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def digest_files(files: Mapping[str, bytes]) -> str:
    """The digest of a folder: its paths and every byte in them, in the order of the paths."""
    return digest("files", 1, {path: digest_bytes(data) for path, data in files.items()})


def short(value: str) -> str:
    """A digest as people read it."""
    return value[:SHORT]

import json
import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_assets.core.digest import canonical_json, digest, digest_bytes, digest_files, short

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(inner) for key, inner in reversed(value.items())}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


@given(values)
def test_the_order_of_keys_does_not_matter_at_any_depth(value):
    assert digest("kind", 1, value) == digest("kind", 1, reordered(value))


@given(values)
def test_canonical_json_loses_nothing(value):
    assert json.loads(canonical_json(value)) == value


@given(values, values)
def test_two_values_share_a_digest_only_if_their_json_is_the_same(one, other):
    assert (digest("kind", 1, one) == digest("kind", 1, other)) == (canonical_json(one) == canonical_json(other))


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(min_value=-(2**62), max_value=2**62))
def test_floats_are_exact_and_apart_from_their_neighbours(value, _):
    neighbour = math.nextafter(value, math.inf if value < 1e300 else -math.inf)
    assert digest("kind", 1, value) != digest("kind", 1, neighbour)
    assert digest("kind", 1, value) == digest("kind", 1, float(repr(value)))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number):
    with pytest.raises(ValueError):
        digest("kind", 1, {"deep": [1, {"down": number}]})


def test_what_json_cannot_hold_is_refused():
    for value in (b"bytes", {1, 2}, object()):
        with pytest.raises(TypeError):
            digest("kind", 1, [value])


@given(values, st.text(), st.text(), st.integers(), st.integers())
def test_kinds_and_their_semantics_never_share_a_digest(value, kind, other_kind, semantics, other_semantics):
    same = (kind, semantics) == (other_kind, other_semantics)
    assert (digest(kind, semantics, value) == digest(other_kind, other_semantics, value)) == same


def test_a_kind_cannot_be_smuggled_in_by_the_content():
    assert digest("a", 1, ["b", 1, "x"]) != digest("a", 1, "x")
    assert digest('a",1,"x', 1, 1) != digest("a", 1, 1)


def test_text_that_is_no_unicode_has_a_digest_too():
    assert digest("kind", 1, "\udcff") != digest("kind", 1, "\udcfe")


files = st.dictionaries(st.text(min_size=1), st.binary(), max_size=5)


@given(files)
def test_a_folder_is_its_paths_and_bytes_whatever_their_order(folder):
    assert digest_files(folder) == digest_files(dict(reversed(folder.items())))


@given(files, st.text(min_size=1), st.binary())
def test_any_changed_file_changes_the_folder(folder, path, data):
    assert (digest_files(folder | {path: data}) == digest_files(folder)) == (folder.get(path) == data)


def test_bytes_cannot_move_between_files_unnoticed():
    assert digest_files({"a": b"xy", "b": b""}) != digest_files({"a": b"x", "b": b"y"})


@pytest.mark.slow
def test_a_process_with_other_hash_seeds_says_the_same():
    code = "from rl_assets.core.digest import digest; print(digest('k', 1, {'b': [1.5, 'ü'], 'a': None}))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {digest("k", 1, {"a": None, "b": [1.5, "ü"]})}


def test_the_digest_of_known_content_is_pinned():
    """A change here would orphan every record ever made."""
    assert digest("trial", 1, {"a": 1, "b": [0.1, "ü", None, True]}) == digest_bytes(
        '["trial",1,{"a":1,"b":[0.1,"ü",null,true]}]'.encode()
    )
    assert digest_files({"a": b"x"}) == digest("files", 1, {"a": digest_bytes(b"x")})
    assert short(digest("k", 1, 1)) == digest("k", 1, 1)[:12]

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rl_assets.core.digest import digest_files
from rl_assets.core.errors import MissingInput, RlAssetsError
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.store.objects import ObjectStore

FILES = {"task.toml": b"x", "environment/documents/a b.txt": b"", "tests/ünï.txt": b"\x00\xff"}


class Watched(ObjectStore):
    """Remembers the order in which objects were written."""

    def __init__(self, url):
        super().__init__(url)
        self.written = []

    def put(self, path, data):
        super().put(path, data)
        self.written.append(path)


def test_a_bundle_comes_back_whole_under_the_digest_of_its_content(store):
    name = save_bundle(store, "worlds", FILES)
    assert name == digest_files(FILES)
    assert load_bundle(store, "worlds", name) == FILES


def test_the_manifest_is_written_last_and_saving_again_writes_nothing(url):
    store = Watched(url)
    name = save_bundle(store, "worlds", FILES)
    assert store.written[-1] == f"worlds/{name}/manifest.json"
    assert len(store.written) == len(FILES) + 1
    save_bundle(store, "worlds", FILES)
    assert len(store.written) == len(FILES) + 1


def test_one_that_is_not_there_is_missing_and_kinds_do_not_mix(store):
    name = save_bundle(store, "worlds", FILES)
    with pytest.raises(MissingInput, match="weights/"):
        load_bundle(store, "weights", name)


@pytest.mark.parametrize("written", range(len(FILES) + 1))
def test_a_bundle_torn_at_any_point_is_not_found_and_is_made_whole_by_saving_again(url, written):
    class Dies(ObjectStore):
        def put(self, path, data):
            if len(list(self.list("worlds/"))) == written:
                raise KeyboardInterrupt
            super().put(path, data)

    with pytest.raises(KeyboardInterrupt):
        save_bundle(Dies(url), "worlds", FILES)
    store, name = ObjectStore(url), digest_files(FILES)
    with pytest.raises(MissingInput):
        load_bundle(store, "worlds", name)
    assert save_bundle(store, "worlds", FILES) == name
    assert load_bundle(store, "worlds", name) == FILES


@pytest.mark.parametrize("damage", ["gone", "changed", "cut"])
@pytest.mark.parametrize("path", FILES)
def test_a_file_gone_or_changed_is_refused_and_named(store, path, damage):
    name = save_bundle(store, "worlds", FILES)
    stored = f"worlds/{name}/files/{path}"
    match damage:
        case "gone":
            store.delete(stored)
        case "changed":
            store.put(stored, FILES[path] + b"!")
        case "cut":
            store.put(stored, FILES[path][:-1] or b"?")
    with pytest.raises(RlAssetsError) as caught:
        load_bundle(store, "worlds", name)
    assert path in str(caught.value)


def test_a_file_beside_the_manifest_is_no_part_of_it(store):
    name = save_bundle(store, "worlds", FILES)
    store.put(f"worlds/{name}/files/stray", b"x")
    assert load_bundle(store, "worlds", name) == FILES
    assert sorted(json.loads(store.get(f"worlds/{name}/manifest.json"))) == sorted(FILES)


printable = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" #%?*[]~\\:\"'"), min_size=1, max_size=12)
names = printable.filter(lambda name: name not in (".", "..") and "/" not in name)


endings = st.sampled_from(["", "#1", ".txt", "%23"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({("A|", ""): b"drive letter", ("A:", ""): b"another", ("x#1", ""): b"half-written"})
@given(st.dictionaries(st.tuples(names, endings), st.binary(max_size=5), min_size=1, max_size=4))
def test_files_of_any_printable_name_are_kept(store, files):
    files = {f"environment/documents/{name}{ending}": data for (name, ending), data in files.items()}
    assert load_bundle(store, "worlds", save_bundle(store, "worlds", files)) == files

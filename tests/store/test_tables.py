import pyarrow as pa
import pytest

from rl_assets.core.errors import MissingInput
from rl_assets.store.objects import ObjectStore
from rl_assets.store.tables import TableRef, current_version, list_versions, read_table, write_table

REF = TableRef("experiment", "rewards", "0000")


def rows(*numbers):
    return pa.table({"number": list(numbers)})


def test_the_last_one_written_is_current_and_every_version_is_kept(store):
    write_table(store, REF, "v1", rows(1))
    write_table(store, REF, "v2", rows(2))
    assert current_version(store, REF).data_version == "v2"
    assert read_table(store, REF, "v1") == rows(1)
    assert read_table(store, REF, "v2") == rows(2)
    assert [(version.data_version, version.is_current) for version in list_versions(store)] == [("v1", False), ("v2", True)]


def test_going_back_to_an_earlier_version_makes_it_current_again_and_keeps_its_rows(store):
    for version, number in (("v1", 1), ("v2", 2), ("v1", 3)):
        write_table(store, REF, version, rows(number))
    assert current_version(store, REF).data_version == "v1"
    assert read_table(store, REF, "v1") == rows(1), "the first file of a version stays"
    versions = {version.data_version: version for version in list_versions(store)}
    assert versions["v1"].is_current
    assert not versions["v2"].is_current
    assert versions["v1"].recorded_at >= versions["v2"].recorded_at


def test_writing_the_current_version_again_changes_nothing(store):
    write_table(store, REF, "v1", rows(1))
    before = current_version(store, REF)
    write_table(store, REF, "v1", rows(1))
    assert current_version(store, REF) == before


def test_one_data_version_may_have_come_about_in_several_ways(store):
    write_table(store, REF, "v1", rows(1), file="one way")
    write_table(store, REF, "v1", rows(2), file="another")
    assert [(version.data_version, version.file, version.is_current) for version in list_versions(store)] == [
        ("v1", "one way", False),
        ("v1", "another", True),
    ]
    assert read_table(store, REF, "one way") == rows(1)


def test_what_was_never_written_has_no_version_and_is_named_when_asked_for(store):
    assert current_version(store, REF) is None
    assert list(list_versions(store)) == []
    with pytest.raises(MissingInput, match=r"experiment/rewards\[0000\]: version abc"):
        read_table(store, REF, "abc")


def test_a_crash_before_the_pointer_leaves_the_old_version_current(url):
    class Dies(ObjectStore):
        def put(self, path, data):
            raise KeyboardInterrupt

    store = ObjectStore(url)
    write_table(store, REF, "v1", rows(1))
    with pytest.raises(KeyboardInterrupt):
        write_table(Dies(url), REF, "v2", rows(2))
    assert current_version(store, REF).data_version == "v1"
    assert [version.data_version for version in list_versions(store)] == ["v1"]
    write_table(store, REF, "v2", rows(2))
    assert current_version(store, REF).data_version == "v2"


def test_partitions_tables_and_experiments_are_apart_and_listed_in_a_fixed_order(store):
    refs = [TableRef(e, t, p) for e in ("b", "a") for t in ("weights", "rewards") for p in ("0001", "0000")]
    for number, ref in enumerate(refs):
        write_table(store, ref, f"v{number}", rows(number))
    for number, ref in enumerate(refs):
        assert read_table(store, ref, current_version(store, ref).file) == rows(number)
    listed = [version.ref for version in list_versions(store)]
    assert listed == sorted(refs, key=lambda ref: (ref.experiment, ref.table, ref.partition))

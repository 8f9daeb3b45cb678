import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_assets.core.digest import short
from rl_assets.core.errors import ConfigError
from rl_assets.core.seeding import stream
from rl_assets.store.bundles import load_bundle, save_bundle
from rl_assets.store.objects import ObjectStore
from rl_assets.worlds.documents import DIGEST_LINE, DOCUMENTS, EXPECTED, SEMANTICS, build_documents, source_texts
from rl_assets.worlds.settings import DocumentWorlds


def build(project=Path(), name="world_0", seed=0, overlay=None, **fields):
    return build_documents(DocumentWorlds(**fields), name, seed, project, overlay)


def documents(world):
    return {path.removeprefix(DOCUMENTS): data for path, data in world.agent_files.items() if path.startswith(DOCUMENTS)}


def digests(world):
    """The digests that the documents hold, by document."""
    lines = {
        path: [line for line in data.decode().splitlines() if DIGEST_LINE in line] for path, data in documents(world).items()
    }
    return {path: line.removeprefix(DIGEST_LINE) for path, held in lines.items() for line in held}


def everything(world):
    return {**world.agent_files, **world.verifier_files}


sizes = st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), sizes)
def test_the_same_settings_and_seed_give_the_same_bytes(seed, size):
    number, decoys = size
    one, other = (build(seed=seed, documents=number, decoys=decoys) for _ in range(2))
    assert everything(one) == everything(other)
    assert (one.digest, one.verifier_digest) == (other.digest, other.verifier_digest)
    assert everything(build(seed=seed + 1, documents=number, decoys=decoys)) != everything(one)
    assert everything(build(seed=seed, name="world_1", documents=number, decoys=decoys)) != everything(one)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), sizes)
def test_exactly_one_document_holds_the_expected_digest_and_each_decoy_another(seed, size):
    number, decoys = size
    world = build(seed=seed, documents=number, decoys=decoys)
    assert len(documents(world)) == number
    held = digests(world)
    assert len(held) == decoys + 1
    assert len(set(held.values())) == decoys + 1
    expected = world.verifier_files[EXPECTED].decode().strip()
    assert list(held.values()).count(expected) == 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_no_secret_is_in_any_byte_of_a_world(seed):
    world = build(seed=seed, decoys=3)
    held = set(digests(world).values())
    secrets = [stream("secret", seed, "world_0", index).randbytes(32) for index in range(4)]
    assert {hashlib.sha256(secret).hexdigest() for secret in secrets} == held, "these are the secrets"
    for path, data in everything(world).items():
        for secret in secrets:
            assert secret not in data
            assert secret.hex().encode() not in data.lower()
            assert secret.hex() not in path


def test_the_expected_digest_is_not_told_apart_by_anything_an_agent_sees():
    """Its document is not always the first, and the instruction names none."""
    expected = [build(seed=seed).verifier_files[EXPECTED].decode().strip() for seed in range(40)]
    holders = [{digest: path for path, digest in digests(build(seed=seed)).items()} for seed in range(40)]
    assert len({held[digest] for held, digest in zip(holders, expected, strict=True)}) == 8
    first = [min(held.values()) == held[digest] for held, digest in zip(holders, expected, strict=True)]
    assert 5 < sum(first) < 35
    for seed in range(5):
        assert expected[seed].encode() not in build(seed=seed).agent_files["instruction.md"]


def test_the_world_of_a_seed_is_pinned():
    """If this fails on purpose, bump SEMANTICS: worlds built before are other worlds."""
    world = build()
    assert SEMANTICS == 1
    assert [short(world.digest), short(world.verifier_digest)] == ["8e018f4fe58a", "a3dddc24b780"]


@pytest.fixture
def corpus(tmp_path):
    """A user's own folder, with what such folders hold."""
    source = tmp_path / "texts"
    files = {
        "a.txt": "one\n",
        "b.md": "two\r\nlines",
        "deep/er/c": "three, ünïcödé\n",
        "deep/with space #1": "four",
        "empty.txt": "",
    }
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text, encoding="utf-8", newline="")
    for path, data in {
        ".hidden.txt": b"hidden",
        ".git/config": b"hidden",
        "deep/.cache/x.txt": b"hidden",
        "picture.png": b"\x89PNG\r\n\x1a\n",
        "latin.txt": "ü".encode("latin-1"),
        "zeros.bin": bytes(16),
    }.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("outside")
    (source / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (source / "alias.txt").symlink_to("a.txt")
    (source / "linked").symlink_to(tmp_path / "outside")
    (source / "broken").symlink_to("nowhere")
    (source / "deep" / "loop").symlink_to(source)
    (source / "newline\n.txt").write_text("no terminal could show its name")
    (Path(os.fsdecode(bytes(source) + b"/\xff.txt"))).write_text("a name that is no UTF-8")
    os.mkfifo(source / "pipe")
    return tmp_path


TEXTS = ["a.txt", "b.md", "deep/er/c", "deep/with space #1", "empty.txt"]


def test_of_a_users_folder_the_texts_count_and_nothing_hidden_linked_or_binary(corpus):
    assert source_texts(DocumentWorlds(documents=5), corpus / "texts") == TEXTS
    world = build(corpus, documents=5, source="texts")
    assert sorted(documents(world)) == TEXTS
    assert b"outside" not in b"".join(everything(world).values())


def test_a_users_texts_are_kept_but_for_the_lines_added_and_the_world_can_be_sealed(corpus, tmp_path):
    world = build(corpus, documents=5, source="texts")
    held = digests(world)
    for path, data in documents(world).items():
        text = (corpus / "texts" / path).read_text(encoding="utf-8")
        kept, _, _ = data.decode().partition(f"\n\n{DIGEST_LINE}")
        assert kept == (text.rstrip("\n") if path in held else text)
    store = ObjectStore(str(tmp_path / "store"))
    assert load_bundle(store, "worlds", save_bundle(store, "worlds", world.agent_files)) == world.agent_files


def test_worlds_draw_different_texts_of_a_large_folder_and_always_the_same(tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(40):
        (tmp_path / "texts" / f"{number:02d}.txt").write_text(f"text {number}")
    worlds = [build(tmp_path, name=f"world_{index}", documents=8, source="texts") for index in range(4)]
    assert len({frozenset(documents(world)) for world in worlds}) == 4
    again = [build(tmp_path, name=f"world_{index}", documents=8, source="texts") for index in range(4)]
    assert [world.digest for world in worlds] == [world.digest for world in again]


def test_a_changed_text_changes_the_world_and_not_its_verifier(corpus):
    before = build(corpus, documents=5, source="texts")
    (corpus / "texts" / "a.txt").write_text("changed")
    after = build(corpus, documents=5, source="texts")
    assert before.digest != after.digest
    assert before.verifier_digest == after.verifier_digest


@pytest.mark.parametrize(
    ("source", "number", "expected"),
    [
        ("missing", 1, "no such folder"),
        ("texts/a.txt", 1, "no such folder"),
        ("nothing", 1, "0 text files, and worlds.documents asks for 1"),
        ("texts", 6, "5 text files, and worlds.documents asks for 6"),
    ],
)
def test_a_source_that_will_not_do_is_one_line_that_names_field_and_folder(corpus, source, number, expected):
    (corpus / "nothing").mkdir()
    with pytest.raises(ConfigError) as caught:
        build(corpus, documents=number, decoys=0, source=source)
    assert str(caught.value) == f"worlds.source: {corpus / source}: {expected}"


def overlaid(tmp_path, files):
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return build(overlay=tmp_path)


@pytest.mark.parametrize(
    ("files", "changed"),
    [
        ({"environment/documents/extra.txt": "more"}, "agent"),
        ({"environment/documents/document_0.txt": "other"}, "agent"),
        ({"instruction.md": "other"}, "agent"),
        ({EXPECTED: "0" * 64}, "verifier"),
        ({"tests/test.sh": "exit 0"}, "verifier"),
        ({"solution/solve.sh": "true"}, "none"),
        ({}, "none"),
    ],
)
def test_an_overlay_changes_the_digest_of_the_part_it_touches_and_no_other(tmp_path, files, changed):
    plain, world = build(), overlaid(tmp_path, files)
    assert (plain.digest != world.digest) == (changed == "agent")
    assert (plain.verifier_digest != world.verifier_digest) == (changed == "verifier")


def test_an_overlay_replaces_files_or_joins_them(tmp_path):
    world = overlaid(tmp_path, {EXPECTED: "other", "environment/documents/extra.txt": "more"})
    assert world.verifier_files[EXPECTED] == b"other"
    assert len(documents(world)) == 9
    assert build(overlay=tmp_path / "missing").digest == build().digest

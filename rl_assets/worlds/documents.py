"""Builds worlds of text documents.

Each world has one document that holds the digest of a secret, and decoys that hold other digests. The secret itself is
drawn, digested and forgotten; it is never written anywhere.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import tomli_w

from rl_assets.core.errors import ConfigError
from rl_assets.core.seeding import stream
from rl_assets.worlds.settings import DocumentWorlds
from rl_assets.worlds.world import World, split

SEMANTICS = 1
"""Bumped when the same settings would build other worlds."""

DIGEST_LINE = "sealed-digest: sha256:"
"""What the line that holds a digest starts with."""

ANSWER_FILE = "answer.txt"
"""Where an agent leaves its answer."""

DOCUMENTS = "environment/documents/"
"""Where the documents lie in a world."""

EXPECTED = "tests/expected.txt"
"""Where the verifier finds the right answer."""

_WORDS = """
archive ballast canyon delta ember fathom gable harbor inlet jetty kelp ledger mooring north orchard pier quarry rigging
sextant tide upland vessel wharf yard zenith anchor beacon current dune estuary ferry gull hull island
"""

_INSTRUCTION = """\
One of the documents in documents/ holds the digest of this world's secret, in a line that starts with
"{line}". Other documents may hold digests of other things. Read as few documents as you can, and leave the
digest (64 hexadecimal characters) in {answer}. Leave nothing else behind.
"""


def build_documents(settings: DocumentWorlds, name: str, seed: int, project: Path, overlay: Path | None = None) -> World:
    """Build one world; the same settings, seed and source files give the same bytes.

    Args:
        settings: how many documents, and from where.
        name: the world's name.
        seed: the experiment's seed.
        project: what `settings.source` is relative to.
        overlay: a folder whose files replace or join the world's own, such as `tests/expected.txt`.

    Raises:
        ConfigError: the source folder is missing, or has fewer text files than documents asked for.
    """
    if settings.source is None:
        documents = _generated(settings, name, seed)
    else:
        documents = _from_folder(settings, name, seed, project / settings.source)
    picks = stream("digest documents", seed, name).sample(sorted(documents), settings.decoys + 1)
    expected = ""
    for index, document in enumerate(picks):
        secret = stream("secret", seed, name, index).randbytes(32)
        value = hashlib.sha256(secret).hexdigest()
        expected = expected or value
        documents[document] = documents[document].rstrip("\n") + f"\n\n{DIGEST_LINE}{value}\n"
    task = {
        "schema_version": "1.0",
        "task": {"name": f"rl-assets/{name}"},
        "metadata": {"category": "documents"},
        "environment": {"network_mode": "no-network"},
        "verifier": {"timeout_sec": 10.0},
    }
    folder = {
        "task.toml": tomli_w.dumps(task).encode(),
        "instruction.md": _INSTRUCTION.format(line=DIGEST_LINE, answer=ANSWER_FILE).encode(),
        EXPECTED: f"{expected}\n".encode(),
    }
    folder |= {DOCUMENTS + path: text.encode() for path, text in documents.items()}
    return split(name, folder | read_folder(overlay))


def read_folder(folder: Path | None) -> dict[str, bytes]:
    """The files below a folder, by relative path; nothing when it is not there. Links are not followed."""
    if folder is None or not folder.is_dir():
        return {}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _generated(settings: DocumentWorlds, name: str, seed: int) -> dict[str, str]:
    width = len(str(settings.documents - 1))
    return {
        f"document_{index:0{width}d}.txt": _prose(stream("document", seed, name, index)) for index in range(settings.documents)
    }


def _prose(random: Random) -> str:
    sentences = (" ".join(random.choices(_WORDS.split(), k=random.randint(6, 12))) for _ in range(random.randint(3, 6)))
    return "\n".join(sentence.capitalize() + "." for sentence in sentences) + "\n"


def _from_folder(settings: DocumentWorlds, name: str, seed: int, source: Path) -> dict[str, str]:
    texts = source_texts(settings, source)
    picked = stream("source documents", seed, name).sample(texts, settings.documents)
    return {path: (source / path).read_text(encoding="utf-8") for path in sorted(picked)}


def source_texts(settings: DocumentWorlds, source: Path) -> Sequence[str]:
    """The text files of a source folder, as sorted relative paths; hidden files, links and files that are no UTF-8 text
    are left out.

    Raises:
        ConfigError: the folder is missing, or has fewer text files than documents asked for.
    """
    if not source.is_dir():
        raise ConfigError(f"worlds.source: {source}: no such folder")
    texts = [path.relative_to(source).as_posix() for path in sorted(source.rglob("*")) if _is_text(path, source)]
    if len(texts) < settings.documents:
        raise ConfigError(
            f"worlds.source: {source}: {len(texts)} text files, and worlds.documents asks for {settings.documents}"
        )
    return texts


def _is_text(path: Path, source: Path) -> bool:
    relative = path.relative_to(source)
    # A name that no terminal could show, such as one with control characters or bytes that are no text, is left out too.
    if any(part.startswith(".") for part in relative.parts) or not str(relative).isprintable():
        return False
    if path.is_symlink() or not path.is_file() or path.resolve().parent != path.parent.resolve():
        return False
    try:
        return "\0" not in path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return False

import asyncio
import collections
import math
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_assets.core.seeding import stream
from rl_assets.sandbox.memory import MemorySandbox
from rl_assets.trajectories.agent import DocumentReader
from rl_assets.trajectories.trial import Outcome
from rl_assets.worlds.documents import DIGEST_LINE, EXPECTED
from tests.rooms import make_worlds

WORLD = make_worlds(1)["world_0"]
NAMES = [path.removeprefix("environment/documents/") for path in WORLD.agent_files if "documents/" in path]
HOLDERS = [name for name in NAMES if DIGEST_LINE.encode() in WORLD.agent_files[f"environment/documents/{name}"]]


def act(random, max_turns=6, prior=None, world=WORLD):
    sandbox = MemorySandbox(world.agent_files)
    ending = asyncio.run(DocumentReader(max_turns).act(sandbox, prior or {}, random))
    return ending, asyncio.run(sandbox.changed())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 10))
def test_it_reads_until_it_finds_a_digest_and_answers_with_it_if_a_turn_is_left(seed, max_turns):
    ending, files = act(Random(seed), max_turns)
    assert len(ending.turns) <= max_turns
    reads = [turn.argument.removeprefix("documents/") for turn in ending.turns if turn.tool == "read"]
    assert len(set(reads)) == len(reads)
    assert not set(reads[:-1]) & set(HOLDERS)
    if ending.outcome is Outcome.ANSWERED:
        assert reads[-1] in HOLDERS
        assert re.search(DIGEST_LINE + "([0-9a-f]{64})", ending.turns[-2].output)[1] == files["answer.txt"].decode()
        assert ending.turns[-1].tool == "answer"
    else:
        assert ending.outcome is Outcome.TURN_LIMIT
        assert len(reads) == max_turns
        assert files == {}


def test_the_same_stream_gives_the_same_actions_and_another_others():
    content = [[(turn.tool, turn.argument) for turn in act(stream("trial", key))[0].turns] for key in ("a", "a", "b", "c", "d")]
    assert content[0] == content[1]
    assert len({str(turns) for turns in content}) > 2


def test_without_a_digest_it_gives_up_or_runs_out_of_turns():
    bare = make_worlds(1, documents=3)["world_0"]
    files = {path: re.sub(rb"sealed-digest.*", b"", data) for path, data in bare.agent_files.items()}
    bare = type(bare)(bare.name, files, {})
    assert act(Random(0), 6, world=bare)[0].outcome is Outcome.GAVE_UP
    assert act(Random(0), 3, world=bare)[0].outcome is Outcome.TURN_LIMIT


def test_a_scratch_file_is_left_beside_about_a_third_of_the_answers():
    left = [files for seed in range(600) if (files := act(Random(seed), 20)[1])]
    assert len(left) == 600
    assert 0.23 < sum("scratch.txt" in files for files in left) / 600 < 0.37


@pytest.mark.parametrize("preference", [0.0, 1.0, 3.0])
def test_the_first_document_is_drawn_with_the_softmax_of_the_prior(preference):
    prior = {NAMES[3]: preference}
    counts = collections.Counter(act(Random(seed), 1, prior)[0].turns[0].argument for seed in range(2000))
    expected = math.exp(preference) / (math.exp(preference) + len(NAMES) - 1)
    share = counts[f"documents/{NAMES[3]}"] / 2000
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000)


def test_a_strong_prior_for_the_right_document_gives_the_right_answer_in_two_turns():
    expected = WORLD.verifier_files[EXPECTED].decode().strip()
    (right,) = [name for name in HOLDERS if expected.encode() in WORLD.agent_files[f"environment/documents/{name}"]]
    for seed in range(20):
        ending, files = act(Random(seed), prior={right: 50.0})
        assert len(ending.turns) == 2
        assert files["answer.txt"].decode() == expected

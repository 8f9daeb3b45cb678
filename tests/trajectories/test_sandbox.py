import asyncio

import pytest

from rl_assets.sandbox.memory import MemorySandboxes

WORLD = {"environment/documents/a.txt": b"a", "environment/b.txt": b"b", "instruction.md": b"hidden from the sandbox"}


def test_each_sandbox_is_a_private_copy_and_the_world_stays_as_it_is():
    async def run():
        one, other = [await MemorySandboxes().start(WORLD) for _ in range(2)]
        assert await one.list() == ["b.txt", "documents/a.txt"]
        await one.write("b.txt", b"changed")
        await one.write("new.txt", b"new")
        assert await one.read("b.txt") == b"changed"
        assert await one.list() == ["b.txt", "documents/a.txt", "new.txt"]
        assert await one.changed() == {"b.txt": b"changed", "new.txt": b"new"}
        assert await other.read("b.txt") == b"b"
        assert await other.changed() == {}
        with pytest.raises(FileNotFoundError):
            await other.read("instruction.md")
        with pytest.raises(FileNotFoundError):
            await other.read("../instruction.md")

    asyncio.run(run())
    assert WORLD["environment/b.txt"] == b"b"

from hypothesis import given
from hypothesis import strategies as st

from rl_assets.worlds.schedule import worlds_at
from rl_assets.worlds.settings import DocumentWorlds


@st.composite
def schedules(draw):
    count = draw(st.integers(1, 30))
    return DocumentWorlds(count=count).names, draw(st.integers(1, count)), draw(st.integers(0, 500))


@given(schedules())
def test_a_step_uses_so_many_different_worlds_the_same_each_time_it_is_asked(schedule):
    names, per_step, step = schedule
    used = worlds_at(step, names, per_step)
    assert len(set(used)) == len(used) == per_step
    assert used == sorted(used) == worlds_at(step, names, per_step)
    assert set(used) <= set(names)


@given(schedules())
def test_over_the_steps_all_worlds_are_used_equally_often(schedule):
    names, per_step, first = schedule
    counts = dict.fromkeys(names, 0)
    for step in range(first, first + len(names)):
        for name in worlds_at(step, names, per_step):
            counts[name] += 1
    assert set(counts.values()) == {per_step}


def test_by_default_every_step_uses_all():
    names = DocumentWorlds(count=12).names
    assert worlds_at(7, names, None) == names == sorted(names)
    assert names[0] == "world_00"
    assert names[-1] == "world_11"

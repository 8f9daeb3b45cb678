"""The benchmark runs, and what it prints can be read. Its figures are for `make bench`, on a machine that does nothing else."""

import json
import math

import pytest

from bench.__main__ import figures
from bench.figure import Figure
from bench.loop import Size, loop_figures, new_lab, peak_mb, run_bare, run_loop, seal
from bench.straggler import straggler_figure

TINY = Size(steps=2, worlds=2, samples=2)


def test_a_figure_says_whether_it_keeps_its_bound() -> None:
    assert json.loads(Figure("speed", 2.00004, "ms", bound=3.0, trials=8).line()) == {
        "name": "speed",
        "value": 2.0,
        "unit": "ms",
        "bound": 3.0,
        "within": True,
        "trials": 8,
    }
    assert json.loads(Figure("speed", 4, "ms", bound=3.0).line())["within"] is False
    assert json.loads(Figure("speed", 4, "ms").line())["within"] is None


def test_the_loop_is_the_experiment_itself() -> None:
    """The loop ends with the weights that the settings' own digest promises, recorded or replayed."""
    with new_lab(TINY.settings) as lab:
        worlds = seal(lab)
        digest = run_loop(lab, worlds)
        assert len(lab.tally.trials_run) == TINY.trials == 8
        with new_lab(TINY.settings, lab.home.path) as again:
            assert run_loop(again, worlds) == digest
            assert again.tally.snapshot()["trials_recovered"] == 8
            assert again.tally.judge_calls == 0


def test_the_bare_loop_scores_and_records_nothing() -> None:
    with new_lab(TINY.settings) as lab:
        worlds = seal(lab)
        before = sorted(lab.store.list(""))
        assert 0 <= run_bare(lab, worlds) <= 1.4
        assert sorted(lab.store.list("")) == before


def test_the_loop_without_dagster_gives_its_figures() -> None:
    lines = [json.loads(figure.line()) for figure in loop_figures(TINY, rounds=1)]
    assert [line["name"] for line in lines] == [
        "recorded_trial",
        "recorded_trial_on_disk",
        "recorded_over_bare",
        "replayed_trial",
    ]
    assert all(math.isfinite(line["value"]) and line["value"] > 0 for line in lines)
    assert peak_mb(TINY) > 1


def test_a_straggler_is_slow_and_its_step_is_measured() -> None:
    line = json.loads(straggler_figure(worlds=2, samples=2, latency_s=0.002).line())
    assert line["straggler_s"] > 0.02, "two turns at least, ten times as long"
    assert line["step_with_straggler_s"] >= line["straggler_s"]


@pytest.mark.slow
def test_every_figure_is_a_line_of_json() -> None:
    lines = [json.loads(figure.line()) for figure in figures(TINY, rounds=1, steps=1, latency_s=0.001)]
    names = [line["name"] for line in lines]
    assert len(names) == len(set(names)) == 9
    assert all(line.keys() >= {"name", "value", "unit", "bound"} and math.isfinite(line["value"]) for line in lines)

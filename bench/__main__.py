"""Prints all figures."""

from collections.abc import Iterator

from bench.figure import Figure
from bench.graph import graph_figures
from bench.loop import Size, loop_figures, memory_figure
from bench.straggler import straggler_figure


def figures(size: Size, rounds: int, steps: int, latency_s: float) -> Iterator[Figure]:
    """Every figure, one after another; `size` is of the loop, `steps` of what runs under Dagster."""
    yield from loop_figures(size, rounds)
    yield straggler_figure(size.worlds, samples=2, latency_s=latency_s)
    yield memory_figure(size)
    yield from graph_figures(steps)


if __name__ == "__main__":
    for figure in figures(Size(), rounds=3, steps=10, latency_s=0.02):
        print(figure.line(), flush=True)

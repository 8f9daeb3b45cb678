"""Which worlds a step uses: a pure function of the step, so that staleness and resume are exact."""

from collections.abc import Sequence


def worlds_at(step: int, names: Sequence[str], per_step: int | None) -> list[str]:
    """The worlds of a step, round-robin by `per_step`, in the order of their names."""
    if per_step is None or per_step >= len(names):
        return list(names)
    first = step * per_step
    return sorted(names[(first + offset) % len(names)] for offset in range(per_step))

"""One measured figure, as a line of JSON."""

import json
from typing import Any


class Figure:
    """A name, a value with its unit, the most that the value may be (None: no bound), and what else there is to say."""

    def __init__(self, name: str, value: float, unit: str, bound: float | None = None, **more: Any) -> None:
        self.name = name
        self.value = value
        self.unit = unit
        self.bound = bound
        self.more = more

    @property
    def within(self) -> bool | None:
        """Whether the value keeps its bound."""
        return None if self.bound is None else self.value <= self.bound

    def line(self) -> str:
        """The figure as one JSON object."""
        more = {name: round(value, 4) if isinstance(value, float) else value for name, value in self.more.items()}
        figure = {"name": self.name, "value": round(self.value, 4), "unit": self.unit, "bound": self.bound}
        return json.dumps({**figure, "within": self.within, **more})

"""Counts what was done and what was found recorded, by key, so that nothing counts twice."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """What one process did since it was made. A key that was made here does not count as recovered later."""

    trials_run: set[str] = field(default_factory=set)
    trials_recovered: set[str] = field(default_factory=set)
    trials_failed: set[str] = field(default_factory=set)
    verdicts_made: set[str] = field(default_factory=set)
    verdicts_recovered: set[str] = field(default_factory=set)
    updates_run: set[str] = field(default_factory=set)
    updates_recovered: set[str] = field(default_factory=set)
    judge_calls: int = 0
    """Answers that the judge gave, usable or not: each is paid for."""
    cost_usd: float = 0.0

    def snapshot(self) -> dict[str, int | float]:
        """The counts so far, under the names that receipts use."""
        return {
            "trials_run": len(self.trials_run),
            "trials_recovered": len(self.trials_recovered - self.trials_run),
            "trials_failed": len(self.trials_failed),
            "judge_calls": self.judge_calls,
            "judge_calls_recovered": len(self.verdicts_recovered - self.verdicts_made),
            "updates_run": len(self.updates_run),
            "updates_recovered": len(self.updates_recovered - self.updates_run),
            "cost_usd": round(self.cost_usd, 6),
        }

"""Rewards: verification, rubric, judges and their verdicts, aggregation, advantages."""

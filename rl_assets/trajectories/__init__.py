"""Trials: what they are made of, the agents that act in them, the runner, and the record of what happened."""

"""Weights: how a step's rewards become the next policy."""

"""Sandboxes: a private copy of a world, and what may happen in it."""

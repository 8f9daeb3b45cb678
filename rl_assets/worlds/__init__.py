"""Worlds: what a trial is dropped into. Specs, builders, sealing, and which worlds a step uses."""

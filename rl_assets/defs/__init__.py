"""Experiments, as YAML: a folder each, with `defs.yaml` and its rubric."""

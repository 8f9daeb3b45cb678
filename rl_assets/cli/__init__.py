"""The `rl-assets` command: thin, over the same functions that the graph calls."""

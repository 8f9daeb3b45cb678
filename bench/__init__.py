"""What the loop costs beside the work it does: `python -m bench` prints the figures as JSON lines."""

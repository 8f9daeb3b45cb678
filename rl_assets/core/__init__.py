"""What every room shares: digests, the frozen base model, errors, random streams, and where state lives."""

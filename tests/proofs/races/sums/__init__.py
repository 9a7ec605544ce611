"""The third race: sums that every process adds to, and that must be exact in the end."""

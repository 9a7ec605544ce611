"""Thousands of messages through a flow whose workers are killed, and afterwards the sums: ``python -m tests.soak``."""

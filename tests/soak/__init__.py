"""Thousands of messages through two flows whose workers are killed, and then the sums: ``python -m tests.soak``."""

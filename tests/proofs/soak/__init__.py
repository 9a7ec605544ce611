"""Thousands of messages through two flows whose workers are killed, and the sums: ``python -m tests.proofs.soak``."""

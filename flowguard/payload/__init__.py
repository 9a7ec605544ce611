"""Payloads and results as JSON."""

"""The record of one schedule: what was called, delivered, written and sent."""

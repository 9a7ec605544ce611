"""Validate a cart that a shop has submitted: price it, check it, confirm it."""

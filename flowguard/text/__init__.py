"""Texts for a terminal, a log or an error."""

"""Decisions about a run: what a claim is answered, what a commit means. Knows no flow class."""

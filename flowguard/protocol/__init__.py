"""Decisions about a run. They say what a claim is answered and what a commit means, and know no flow class."""

"""Runs and dead letters as those who operate flows see them and act on them: for commands and the inspector."""

"""The tests in ``project/`` are a user's own: they run in that user's environment, not in this one."""

collect_ignore = ["project"]

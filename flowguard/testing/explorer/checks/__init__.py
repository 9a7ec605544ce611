"""The checks of one schedule: flowguard's own promises and the user's invariants."""

"""Have a person approve an expense by a signed link. Remind them after a day, and wait three days at most."""

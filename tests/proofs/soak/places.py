"""Where the soak's messages and rows go, and the times that hold for all of its flows."""

from __future__ import annotations

from flowguard import Linear, RetryPolicy

INBOX, GIVEN_UP, DEAD, TOLD, NEWS = "soak", "soak-dlq", "soak-dead", "soak-told", "soak-news"
ASKED, ANSWERED = "soak-asked", "soak-answered"
ACCOUNTS, PAGES, EFFECTS = "soak-accounts", "soak-pages", "soak-effects"

POLICY = RetryPolicy(attempts=5, backoff=Linear(first=1, step=1), jitter=0.2)
HOPS = (1, 2)

VISIBILITY, TIMEOUT = 5, 4
"""Seconds: a record is seen again only when the invocation that had it is over."""

MAX_RECEIVES = 4

PATIENCE = 2
"""Seconds: a record that nobody believes is a dead letter after two pauses, which are minutes elsewhere."""

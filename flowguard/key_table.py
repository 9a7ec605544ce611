"""Where the keys of functions under ``@once`` are, if not in flowguard's own table."""

from __future__ import annotations

from flowguard.startup.named_tuple import NamedTuple


class KeyTable(NamedTuple):
    """A table for the keys of functions under ``@once``, other than ``FLOWGUARD_TABLE``.

    ``key`` is its hash key and ``sort`` its range key, None where it has none; ``ttl`` is the attribute by which
    DynamoDB removes items. The defaults are those of a table of Powertools: ``KeyTable("idempotency")``.
    """

    name: str
    key: str = "id"
    sort: str | None = None
    ttl: str = "expiration"

"""The sums of the ledger. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.proofs.soak.check import Check, none, once, same
from tests.proofs.soak.ledger.flow import Entry
from tests.proofs.soak.ledger.requests import booked


def ledger_sums(asked: Mapping[str, Entry], accounts: Mapping[str, Sequence[str]]) -> Iterator[Check]:
    """``accounts`` are the entries of each, in the order in which they were booked."""
    wanted = booked(asked)
    entries = [entry for booked_of_account in accounts.values() for entry in booked_of_account]
    yield same(
        "ledger: each entry is booked, but those that failed by themselves",
        (entry for wanted_of_account in wanted.values() for entry in wanted_of_account),
        entries,
    )
    yield once("ledger: each is booked once", Counter(entries).items())
    yield none(
        "ledger: no account has an entry before an earlier one of its group",
        (name for name, entries in accounts.items() if list(entries) != sorted(entries)),
    )

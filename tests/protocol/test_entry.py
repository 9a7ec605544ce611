"""Who may call the function for a key, decided by its entry alone."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import Owner
from flowguard.protocol.entry import Entry, EntryStatus, KeyAsk, KeyVerdict, judge_key

NOW = 1_000
ASK = KeyAsk("charge", "o-1", Owner("me"), NOW, NOW + 10, NOW + 100, "d1")
RUNNING = Entry(EntryStatus.RUNNING, Owner("other"), NOW + 1, 1, 0, 0, "d1")
COMPLETED = Entry(EntryStatus.COMPLETED, Owner("other"), NOW + 1, 1, 0, 0, "d1", expires_at=NOW + 1)


@pytest.mark.parametrize(
    ("entry", "verdict"),
    [
        (None, KeyVerdict.CLAIMED),
        (RUNNING, KeyVerdict.BUSY),
        (RUNNING._replace(lease_until=NOW), KeyVerdict.CLAIMED),
        (RUNNING._replace(owner=Owner("me")), KeyVerdict.CLAIMED),
        (RUNNING._replace(lease_until=ASK.believed_until), KeyVerdict.BUSY),
        (RUNNING._replace(lease_until=ASK.believed_until + 1), KeyVerdict.CLAIMED),
        (RUNNING._replace(digest=None), KeyVerdict.BUSY),
        (RUNNING._replace(digest="d2"), KeyVerdict.REUSED),
        (RUNNING._replace(digest="d2", lease_until=NOW), KeyVerdict.REUSED),
        (RUNNING._replace(status=EntryStatus.FAILED, owner=None, digest="d2"), KeyVerdict.CLAIMED),
        (COMPLETED, KeyVerdict.DONE),
        (COMPLETED._replace(digest=None), KeyVerdict.DONE),
        (COMPLETED._replace(digest="d2"), KeyVerdict.REUSED),
        (COMPLETED._replace(expires_at=NOW), KeyVerdict.EXPIRED),
        (COMPLETED._replace(expires_at=NOW, digest="d2"), KeyVerdict.EXPIRED),
    ],
)
def test_an_entry_decides_who_may_call(entry: Any, verdict: KeyVerdict) -> None:
    assert judge_key(entry, ASK) is verdict


def test_a_call_that_compares_no_payloads_takes_any() -> None:
    assert judge_key(COMPLETED._replace(digest="d2"), ASK._replace(digest=None)) is KeyVerdict.DONE

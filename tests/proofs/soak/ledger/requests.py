"""The entries of a soak: the same for the same seed, down to what goes wrong with them."""

from __future__ import annotations

import random
from collections.abc import Mapping

from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Send
from tests.proofs.soak.ledger.flow import Entry, Ledger
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.request import trouble

ACCOUNTS = 5


def entries(number: int, odds: Odds) -> dict[str, Entry]:
    """By request id, in the order in which they are sent."""
    draw = random.Random(f"{odds.seed} entries")
    return {
        f"entry-{odds.seed}-{place:06d}": Entry(
            account=f"account-{draw.randrange(ACCOUNTS)}", trouble=trouble(draw, odds)
        )
        for place, _ in enumerate(range(number))
    }


def send(request_id: str, entry: Entry, at: int) -> Send:
    """The request as it is sent, ms since 1970, in the group of its account."""
    message, inbox = Ledger.request(entry, request_id=RequestId(request_id), requested_at=at)
    return Send(Kind.SIDE, inbox, message.body, message.request_id, message.attributes(), 0, entry.account)


def booked(asked: Mapping[str, Entry]) -> dict[str, list[str]]:
    """The entries that each account has in the end, in their order: all but those whose one hop fails for good."""
    found: dict[str, list[str]] = {}
    for request_id, entry in asked.items():
        if entry.trouble.ends_at != 1:
            found.setdefault(entry.account, []).append(request_id)
    return found

"""The entry of a key in the ledger of ``@once``, and the decision who may call the function.

::

                    claim                       finish
    (no entry) ───────────────▶ RUNNING ───────────────────────▶ COMPLETED ──── expires ──▶ as if there were none
                                │  ▲
                        raised  ▼  │ claim: the lease is over, or the attempt was freed
                               FAILED, or FREE where no place of a limit was free (RUNNING after a call that died)

Values only, no expressions. Times are ms since 1970.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from flowguard.names.ids import Owner
from flowguard.startup.named_tuple import NamedTuple

LONGEST_LEASE: Final = (12 * 60 + 15) * 60_000
"""The longest that a call may ask for, and by how much its clock may differ from another's, ms."""


class EntryStatus(StrEnum):
    """Where a key stands."""

    RUNNING = "RUNNING"
    """A call is at work until its lease ends. After that it has died, and the next one of its payload takes the key."""
    FAILED = "FAILED"
    """The last call raised, and the next one takes the key."""
    FREE = "FREE"
    """The last call found no place of a limit and called nothing. The next one takes the key."""
    COMPLETED = "COMPLETED"


class KeyVerdict(StrEnum):
    """The result of a claim of a key."""

    CLAIMED = "CLAIMED"
    DONE = "DONE"
    """Completed before: the entry has the result."""
    BUSY = "BUSY"
    """Another call is at work, and its lease is alive."""
    REUSED = "REUSED"
    """Used with another payload: completed, or begun by a call that is at work or has died."""
    EXPIRED = "EXPIRED"
    """Completed so long ago that the entry no longer counts. It is begun anew."""


class Entry(NamedTuple):
    """What the ledger knows of a key.

    ``met`` counts the calls that claimed the key or found it completed. ``owner`` is None after a failed attempt.
    ``failure`` is the type of the error that the last attempt raised. ``refusal`` says why there is no result.
    ``result`` is JSON text, where it was read. ``ended`` is the owner of an earlier call that had places of limits when
    it freed the key, and may not have given them back.
    """

    status: EntryStatus
    owner: Owner | None
    lease_until: int
    met: int
    begun_at: int
    updated_at: int
    digest: str | None = None
    failure: str | None = None
    completed_at: int = 0
    completed_by: Owner | None = None
    expires_at: int = 0
    refusal: str | None = None
    result: str | None = None
    ended: Owner | None = None


class KeyAsk(NamedTuple):
    """What a call asks of the ledger. ``digest`` is that of the payload, where payloads are compared."""

    name: str
    key: str
    owner: Owner
    now: int
    lease_until: int
    removed_at: int
    """When DynamoDB may remove the entry, if nothing else happens to it."""
    digest: str | None = None

    @property
    def believed_until(self) -> int:
        """Return the latest end of a lease that is believed. A worker whose clock is fast has written a later one."""
        return self.now + LONGEST_LEASE


class KeyClaim(NamedTuple):
    """The right to call the function for a key, until the lease is over. Immutable: each call has its own."""

    ask: KeyAsk
    before: Entry | None

    @property
    def died(self) -> Owner | None:
        """Return the owner of a call that has died, whose key this one has taken: its effect may have been made.

        It is the owner of this call itself, where the first answer of its claim was lost: nobody knows what was before.
        """
        return self.before.owner if self.before is not None and self.before.status is EntryStatus.RUNNING else None


class Met(NamedTuple):
    """A call that may not call the function, with the entry that says why."""

    verdict: KeyVerdict
    entry: Entry


class Completion(NamedTuple):
    """How a call ended. It has a ``result`` (JSON text), or a ``refusal``, which says why it has none."""

    result: str | None
    refusal: str | None
    now: int
    expires_at: int


def judge_key(entry: Entry | None, ask: KeyAsk) -> KeyVerdict:
    """Decide whether a call may call the function."""
    if entry is None:
        return KeyVerdict.CLAIMED
    if entry.status is EntryStatus.COMPLETED:
        if entry.expires_at <= ask.now:
            return KeyVerdict.EXPIRED
        return judge_completed(entry, ask)
    if entry.owner is None:
        return KeyVerdict.CLAIMED
    if _is_of_another_payload(entry, ask):
        return KeyVerdict.REUSED
    is_held = ask.now < entry.lease_until <= ask.believed_until
    return KeyVerdict.CLAIMED if not is_held or entry.owner == ask.owner else KeyVerdict.BUSY


def judge_completed(entry: Entry, ask: KeyAsk) -> KeyVerdict:
    """Decide whether the result of a completed entry is one for the call's payload."""
    return KeyVerdict.REUSED if _is_of_another_payload(entry, ask) else KeyVerdict.DONE


def _is_of_another_payload(entry: Entry, ask: KeyAsk) -> bool:
    return None not in (entry.digest, ask.digest) and entry.digest != ask.digest

"""The interface of what keeps the places of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from flowguard.protocol.places import Change, Holder, KeyPause, Places, Terms
from flowguard.startup.named_tuple import NamedTuple


class PlaceKey(NamedTuple):
    """A key of a limit of a stage. ``place`` is the limit's name and a digest of the key's value."""

    flow: str
    stage: str
    place: str


class Seen(NamedTuple):
    """The item of a key as it was read or written, with the nonce of its last write and when it ends (s).

    The next write compares it, so it may be a guess.
    """

    places: Places
    nonce: str = ""
    ends: int = 0


class Take(NamedTuple):
    """Of ``at_once`` places the hop takes one that is free, where nobody stands in line. The item ends then (s)."""

    token: str
    holder: Holder
    at_once: int
    ends: int


class GiveBack(NamedTuple):
    """The hop frees the place that it has as this holder, where nobody stands in line.

    ``failed_at`` (ms) is the time of a failure that the key counts, and 0 where there is none. It is noted by the same
    write, while fewer than ``few`` are noted.
    """

    token: str
    holder: Holder
    failed_at: int = 0
    few: int = 0


Short: TypeAlias = Take | GiveBack
"""A change of one entry, which needs no read: others may take and free places meanwhile."""


class Changed(NamedTuple):
    """A change that is written, and the item after it."""

    change: Change
    seen: Seen


Decide: TypeAlias = Callable[[Places], Change]


DecideBy: TypeAlias = Callable[[Places, Terms], Change]


class Return(NamedTuple):
    """Two ways to give a place back: the ``short`` change of one entry is tried first, then ``decide`` on the whole."""

    decide: DecideBy
    short: GiveBack | None


class PlaceStore(Protocol):
    """The places of limits."""

    def change(
        self,
        key: PlaceKey,
        decide: Decide,
        nonce: str,
        seen: Seen | None = None,
        *,
        short: Short | None = None,
        frees: bool = False,
    ) -> Changed:
        """Change the item of a key as ``decide`` says of what it is. It is read first where nothing was ``seen``.

        The ``short`` change is tried before. Where the item refuses it, that is what is decided of. A change that
        ``frees`` a place is tried longer, while others write the item.
        """
        ...

    def tell_pause(self, key: PlaceKey, pause: KeyPause, nonce: str) -> None:
        """Say that a key has paused itself, for those who look."""
        ...

    def tell_end(self, key: PlaceKey) -> None:
        """Say that such a pause is over."""
        ...

    def keep_text(self, flow: str, object_id: str, token: str, text: str, until: int) -> bool:
        """Keep the message that calls a hop, until then (ms). False where it is too large to be kept."""
        ...

    def text(self, flow: str, object_id: str, token: str) -> str | None:
        """Return the message that calls a hop. None where there is none."""
        ...

    def forget_text(self, flow: str, object_id: str, token: str) -> None:
        """Remove the message that calls a hop."""
        ...

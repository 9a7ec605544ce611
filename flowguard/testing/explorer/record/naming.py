"""The names by which messages are compared: their ids without what depends on when something happened.

::

    request-1-3157502c63133c07.2r1.0   the run of request-1, hop 2 after its first redrive, message 0
    request-1.2.0                      the same, where the redrive is the one whose commit counted
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.record.history import History

_SENT: Final = re.compile(r"(?P<base>.+)\.(?P<hop>\d+)(?:r(?P<redrive>\d+))?\.(?P<number>[^.]+)")

_Run: TypeAlias = tuple[str, str]
"""A run item's key, and the request id."""


@dataclass(frozen=True)
class Names:
    """The parts of message ids that a history explains.

    ``bases`` are what the ids of a run's messages begin with. ``commits`` are each run's hops with the redrive of their
    last commit. ``several`` are request ids that more than one object has.
    """

    bases: Mapping[str, _Run]
    commits: frozenset[tuple[_Run, int, int]]
    several: frozenset[str]

    @classmethod
    def of(cls, history: History) -> Names:
        done = [(one.key, one.item) for one in history.versions if one.item is not None and one.item.done]
        last = {(key, str(item.request_id), item.hop): item.redrive for key, item in done}
        keys: dict[str, set[str]] = defaultdict(set)
        for key, request in history.requests:
            keys[request].add(key)
        return cls(
            {base: (key, str(item.request_id)) for key, item in done for base in _bases(item)},
            frozenset(((key, request), hop, redrive) for (key, request, hop), redrive in last.items()),
            frozenset(request for request, of in keys.items() if len(of) > 1),
        )

    def plain(self, own: str) -> str:
        """Return an id without its digest and without the marks of redrives whose commits counted."""
        found = _SENT.fullmatch(own)
        if found is None or (run := self.bases.get(found["base"])) is None:
            return own
        key, request = run
        hop, redrive = int(found["hop"]), int(found["redrive"] or 0)
        mark = "" if (run, hop, redrive) in self.commits else f"r{redrive}" if redrive else ""
        whose = f"{key.removeprefix('run#')}: " if request in self.several else ""
        return f"{whose}{self.plain(request)}.{hop}{mark}.{found['number']}"


def _bases(item: RunItem) -> Iterator[str]:
    """Yield what the ids of this commit's messages begin with."""
    for send in item.outbox.sends if item.outbox is not None and item.outbox.request_id == item.request_id else ():
        found = _SENT.fullmatch(send.id) if send.kind is not Kind.NEXT else None
        if found is not None and (int(found["hop"]), int(found["redrive"] or 0)) == (item.hop, item.redrive):
            yield found["base"]

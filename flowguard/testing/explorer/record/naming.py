"""The names by which messages are compared: their ids without what depends on when something happened.

::

    request-1-3157502c63133c07.2r1.0   the run of request-1, hop 2 after its first redrive, message 0
    request-1.2.0                      the same, where the redrive is the one whose commit counted
    left#request-1-3157502c63133c07.2  what hop 2 awaits under the name "left"; left#request-1.2 is compared

A token says when it expires, so no token is compared by its text, nor is what is sealed under it by its seal.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from flowguard.events import EventType
from flowguard.names.ids import ObjectId
from flowguard.protocol.callers import Caller
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.record.history import History

_SENT: Final = re.compile(r"(?P<base>.+)\.(?P<hop>\d+)(?:r(?P<redrive>\d+))?\.(?P<number>[^.]+)")

_AWAITED: Final = re.compile(r"(?P<name>[^#]+)#(?P<base>.+)\.(?P<hop>\d+)(?:r(?P<redrive>\d+))?")
_TOKEN: Final = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{1,32}[.][A-Za-z0-9_-]{84}(?![A-Za-z0-9_-])")

_SEAL: Final = re.compile(r"([?&]shown=[A-Za-z0-9_-]+)[.][A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])")
"""What a link's page shows, with its seal, which is made over the token."""

RESTARTED: Final = re.compile(r"reset-[0-9a-f]{32}")
"""The request id of a restart (``flowguard.worker.restart``)."""

_Run: TypeAlias = tuple[str, str]
"""A run item's key, and the request id."""


@dataclass(frozen=True)
class Names:
    """The parts of message ids that a history explains.

    ``bases`` are what the ids of a run's messages begin with. ``commits`` are each run's hops with the redrive of their
    last commit. ``several`` are request ids that more than one object has. ``awaited`` are the ids that runs wait for;
    ``waits`` says that there are such runs. ``restarts`` names requests with which work began anew after a reset: their
    own ids tell how often their objects had been claimed.
    """

    bases: Mapping[str, _Run]
    commits: frozenset[tuple[_Run, int, int]]
    several: frozenset[str]
    awaited: frozenset[str] = frozenset()
    waits: bool = False
    restarts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History) -> Names:
        done = [
            (version.key, version.item)
            for version in history.versions
            if version.item is not None and version.item.done
        ]
        last = {(key, str(item.request_id), item.hop): item.redrive for key, item in done}
        keys: dict[str, set[str]] = defaultdict(set)
        for key, request in history.requests:
            keys[request].add(key)
        return cls(
            {base: (key, str(item.request_id)) for key, item in done for base in _bases(item)}
            | dict(_callers(history)),
            frozenset(((key, request), hop, redrive) for (key, request, hop), redrive in last.items()),
            frozenset(request for request, of in keys.items() if len(of) > 1),
            frozenset(awaited_id for _, item in done for awaited_id in _awaited(item)),
            any(item.wait is not None for _, item in done),
            _restarts(history),
        )

    def plain(self, raw_id: str) -> str:
        """Return an id without its digest and without the marks of redrives whose commits counted."""
        if raw_id in self.restarts:
            return self.restarts[raw_id]
        if raw_id in self.awaited:
            return self._plain_awaited(raw_id)
        match = _SENT.fullmatch(raw_id)
        hop = self._plain_hop(match) if match is not None else None
        return raw_id if match is None or hop is None else f"{hop}.{match['number']}"

    def plain_text(self, text: str) -> str:
        """Return a text in which awaited ids are plain, and tokens are no more than that."""
        for raw_id, name in self.restarts.items():
            text = text.replace(raw_id, name)
        if not self.waits:
            return text
        for raw_id in sorted(self.awaited, key=len, reverse=True):
            text = text.replace(raw_id, self.plain(raw_id))
        return _SEAL.sub(r"\1.seal", _TOKEN.sub("token", text))

    def _plain_awaited(self, raw_id: str) -> str:
        match = _AWAITED.fullmatch(raw_id)
        hop = self._plain_hop(match) if match is not None else None
        return raw_id if match is None or hop is None else f"{match['name']}#{hop}"

    def _plain_hop(self, match: re.Match[str]) -> str | None:
        """Return the part of an id that names run and hop. None for one of no commit."""
        if (run := self.bases.get(match["base"])) is None:
            return None
        key, request = run
        hop, redrive = int(match["hop"]), int(match["redrive"] or 0)
        is_answer = match.re is _SENT and match["number"] == "end"  # of the whole run, whichever hop was redriven
        counted = is_answer and any((other, of) == (run, redrive) for other, _, of in self.commits)
        mark = "" if counted or (run, hop, redrive) in self.commits else f"r{redrive}" if redrive else ""
        whose = f"{key.removeprefix('run#')}: " if request in self.several else ""
        return f"{whose}{self.plain(request)}.{hop}{mark}"


def _bases(item: RunItem) -> Iterator[str]:
    """Yield what the ids of this commit's messages begin with."""
    for send in item.outbox.sends if item.outbox is not None and item.outbox.request_id == item.request_id else ():
        match = _SENT.fullmatch(send.id) if send.kind is not Kind.NEXT else None
        if match is not None and (int(match["hop"]), int(match["redrive"] or 0)) == (item.hop, item.redrive):
            yield match["base"]


def _callers(history: History) -> Iterator[tuple[str, _Run]]:
    """Yield what the ids of answers to requests begin with that another's run may answer."""
    for key, caller in (*_met(history), *_noted(history)):
        _, flow, object_id = key.split("#", 2)
        match = _SENT.fullmatch(caller.reply_id(flow, ObjectId(object_id)))
        if match is not None:
            yield match["base"], (key, str(caller.request_id))


def _met(history: History) -> Iterator[tuple[str, Caller]]:
    for _, event in history.events(EventType.ATTACHED, EventType.KEPT):
        m = event.message
        if m is not None and (caller := Caller.of(m)) is not None:
            yield f"run#{m.flow}#{m.object_id}", caller


def _noted(history: History) -> Iterator[tuple[str, Caller]]:
    """Yield the requests that runs have noted as their own: a restart may answer them."""
    texts = {
        (version.key, text)
        for version in history.versions
        if version.item is not None
        for text in version.item.askers.values()
    }
    yield from ((key, Caller.from_text(text)) for key, text in texts)


def _restarts(history: History) -> dict[str, str]:
    """Name the restarts of each object in their order."""
    restarts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for version in history.versions:
        request_id = "" if version.item is None else str(version.item.request_id)
        if RESTARTED.fullmatch(request_id) and request_id not in restarts:
            counts[version.key] += 1
            restarts[request_id] = f"restart {counts[version.key]} of {version.key.removeprefix('run#')}"
    return restarts


def _awaited(item: RunItem) -> Iterator[str]:
    """Yield the ids under which this commit's answers arrive."""
    if item.wait is not None and item.wait.plan is not None:
        yield from filter(None, item.wait.plan.names.values())

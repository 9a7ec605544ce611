"""Starts of runs, each once for its key, and what is seen of them.

::

    claim of the key     by the digest of the request: a repeat is the same owner, and another request is none
    message              with the time of the key's first request, so that a repeat is never a newer one
    completion           says what was started; a repeat sends nothing after it
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from flowguard.destinations import Destination
from flowguard.errors import FlowguardError, SettingsError
from flowguard.events import Event, EventType
from flowguard.names.ids import Owner, RequestId
from flowguard.payload.encoding import encode_json
from flowguard.protocol.entry import Completion, EntryStatus, KeyAsk, KeyClaim, KeyVerdict, Met
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.http_request import HttpRequest
from flowguard.wire.message import Message
from flowguard.wire.signing import Keyring
from flowguard.wire.tokens import SETTING
from flowguard.wire.watch_link import WatchLink, read_watch_link
from flowguard.worker.ports import Budget, Services
from flowguard.worker.requests import request_send, send_request
from flowguard.worker.start_rule import Asked, ReaderBroken, StartRule
from flowguard.worker.watched_runs import Progress, Watched, watched

_MS: Final = timedelta(milliseconds=1)
LEASE: Final = timedelta(hours=12)
"""The lease of a key, which the same request may take at any time. It keeps nobody out: another request has no part in
it, however long ago the function died before it had noted what it started."""

LEFT_TO_ANSWER: Final = 1_000
"""What a request that waits leaves of its invocation, to be answered in. In ms."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two looks at a run: the first, doubled up to the longest."""


class KeyTaken(FlowguardError):
    """The key was used with another request. Nothing was started."""


class KeyBusy(FlowguardError):
    """The entry of the key changes all the time."""


class LinkExpired(FlowguardError):
    """The link is genuine, and it is too late for it."""


class Ledger(Protocol):
    """The entries of keys, as ``@once`` keeps them."""

    def claim(self, ask: KeyAsk) -> KeyClaim | Met: ...

    def finish(self, claim: KeyClaim, end: Completion) -> Met | None: ...


class Accepted(NamedTuple):
    """A run that was asked for. ``link`` is what it is watched by, and ``seen`` how far it is."""

    link: str
    seen: Watched


class Starts:
    """What one invocation starts and looks at. ``pause`` waits so many seconds between two looks."""

    def __init__(
        self,
        rule: StartRule,
        services: Services,
        ledger: Ledger,
        budget: Budget,
        pause: Callable[[float], None],
    ) -> None:
        self._rule = rule
        self._services = services
        services.store.codecs.learn([rule.flow])
        self._ledger = ledger
        self._budget = budget
        self._pause = pause

    def start(self, request: HttpRequest, wanted: int | None) -> Accepted:
        """Start the run of a request, and wait for its end as long as is wanted."""
        keys = self._ring().keys()
        asked, now = self._rule.asked(request), self._services.clock.now()
        self._check(asked, now)
        if asked.key is None:
            link, is_repeat = self._sent(asked, None, now), False
        else:
            link, is_repeat = self._once(asked, asked.key, now)
        seen = self._awaited(link, wanted, lambda: self._may_show(request, link), is_repeat=is_repeat)
        if seen.progress is Progress.FORGOTTEN:
            raise LinkExpired("the run item has expired")
        return Accepted(link.sealed(keys), seen)

    def look(self, request: HttpRequest, text: str) -> Watched | None:
        """Read where the run of a link stands. None for a link that is none. Raises :class:`LinkExpired`."""
        link = read_watch_link(self._ring(), text, self._rule.flow.name)
        if link is None:
            return None
        if self._services.clock.now() >= link.expires_at:
            raise LinkExpired("the link has expired")
        seen = self._read(link, lambda: self._rule.shows(request, link.object_id))
        if seen.progress is Progress.FORGOTTEN:
            raise LinkExpired("the run item has expired")
        return seen

    def _ring(self) -> Keyring:
        if (ring := self._services.tokens.ring) is None:
            raise SettingsError(SETTING, "is not set, and links need a key; write id:secret, or where that is stored")
        return ring

    def _check(self, asked: Asked, now: int) -> None:
        """Raise what the flow or its queue would refuse, before the request uses its key."""
        message, inbox = self._message(asked, self._chosen_id(asked, now), now)
        request_send(self._services.signer, message, inbox, {})

    def _message(self, asked: Asked, request_id: str | None, at: int) -> tuple[Message, Destination]:
        """Return the message with its destination. Raises what the flow would refuse."""
        return self._rule.flow.request(
            asked.payload,
            request_id=self._new_id if request_id is None else RequestId(request_id),
            requested_at=at,
            object_id=asked.object_id,
            signed=self._services.signer.is_on,
        )

    def _new_id(self) -> RequestId:
        return RequestId(self._services.ids.new())

    def _sent(self, asked: Asked, request_id: str | None, at: int) -> WatchLink:
        message, inbox = self._message(asked, request_id, at)
        send_request(self._services.sender, self._services.signer, message, inbox, {})
        return self._link(message.request_id, message.object_id, at)

    # -- once for each key

    def _once(self, asked: Asked, key: str, now: int) -> tuple[WatchLink, bool]:
        """Send the request unless its key was used before. Return what was sent and whether it was before."""
        until = now + LEASE // _MS
        kept = self._rule.keep // _MS
        ask = KeyAsk(f"start/{self._rule.flow.name}", key, Owner(asked.digest), now, until, until + kept, asked.digest)
        answer = self._ledger.claim(ask)
        if isinstance(answer, Met):
            return self._met(answer, asked), True
        before = answer.before
        at = now if before is None or before.status is EntryStatus.COMPLETED else before.begun_at
        link = self._sent(asked, self._chosen_id(asked, at), at)
        self._finish(answer, link)
        return link, before is not None

    def _met(self, met: Met, asked: Asked) -> WatchLink:
        entry = met.entry
        if met.verdict is KeyVerdict.DONE:
            request_id, object_id = json.loads(str(entry.result))
            return self._link(request_id, object_id, entry.begun_at)
        if entry.digest in (None, asked.digest):
            raise KeyBusy("the key is claimed all the time")
        raise KeyTaken("the key was used with another request")

    def _chosen_id(self, asked: Asked, begun_at: int) -> str | None:
        """Return the id of a key's request. A key that is used again after it was forgotten has another.

        None where the flow chooses it, or nobody.
        """
        if asked.key is None or self._rule.flow.request_id is not None:
            return None
        return f"{asked.key[:32]}-{asked.digest[:16]}-{begun_at}"

    def _finish(self, claim: KeyClaim, link: WatchLink) -> None:
        """Note what was started. Where that fails, a repeat sends the same request again."""
        now = self._services.clock.now()
        try:
            text = encode_json([link.request_id, link.object_id])
            self._ledger.finish(claim, Completion(text, None, now, now + self._rule.keep // _MS))
        except Exception as error:
            self._tell(f"{type(error).__name__}: a run is started, and its key is not noted as done")

    def _link(self, request_id: str, object_id: str, requested_at: int) -> WatchLink:
        expires_at = requested_at + self._rule.keep // _MS
        return WatchLink(self._rule.flow.name, object_id, request_id, requested_at, expires_at)

    # -- until its end

    def _awaited(
        self, link: WatchLink, wanted: int | None, may_show: Callable[[], bool], *, is_repeat: bool
    ) -> Watched:
        """Look at the run with growing pauses, until it has ended or the time is over."""
        left = self._rule.wait / timedelta(seconds=1)
        left = left if wanted is None else min(left, wanted)
        until = self._services.clock.now() + int(left * 1000)
        seen, pause = Watched(Progress.ACCEPTED), _FIRST_PAUSE
        if left > 0 and is_repeat:
            seen = self._seen(link, may_show)
        while not seen.is_over and (pause := min(pause, left)) > 0 and self._has_time(pause, until):
            self._pause(pause)
            left -= pause
            seen, pause = self._seen(link, may_show), min(2 * pause, _LONGEST_PAUSE)
        return seen

    def _has_time(self, pause: float, until: int) -> bool:
        remaining = self._budget.remaining()
        is_left = remaining is None or remaining - pause * 1000 >= LEFT_TO_ANSWER
        return is_left and self._services.clock.now() < until

    def _seen(self, link: WatchLink, may_show: Callable[[], bool]) -> Watched:
        """Read where the run stands. It is started, so that a read that fails is no reason to say otherwise."""
        try:
            return self._read(link, may_show)
        except Exception as error:
            self._tell(f"{type(error).__name__}: a run is started, and was not read")
            return Watched(Progress.ACCEPTED)

    def _read(self, link: WatchLink, may_show: Callable[[], bool]) -> Watched:
        return watched(self._services.store, self._rule.flow, link, self._services.clock.now(), may_show)

    def _may_show(self, request: HttpRequest, link: WatchLink) -> bool:
        """Answer whether the reader may see the result. The run is started, whatever the user's function does."""
        try:
            return self._rule.shows(request, link.object_id)
        except ReaderBroken as error:
            self._tell(f"a run is started, and its result is not shown: {error}")
            return False

    def _tell(self, why: str) -> None:
        facts = {"record": "HTTP", "flow": self._rule.flow.name, "why": why}
        self._services.observer(Event(EventType.BROKEN, None, facts))

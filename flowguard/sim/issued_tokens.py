"""The tokens that runs make in a simulation, by the names that recordings of HTTP requests give them.

A token is sealed, so a recording cannot know the one that a replayed run will make. Its path says instead which token
it means, ``/answers/{token:approvals/order-17/approval}``: flow, object and the name that is awaited. Where several
requests for the object waited, ``@`` and a request id follow; without them it is the token that was made last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowguard.errors import FlowguardError
from flowguard.events import Event, EventType
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.message import Message
from flowguard.wire.tokens import Tokens, is_token, token_row_id

_PLACEHOLDER: Final = re.compile(r"\{token:(.*)\}", re.DOTALL)
_MOST_NAMED: Final = 5


class NoSuchToken(FlowguardError):
    """A recorded request means the token of something that no run has awaited by then."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        listed = ", ".join(bounded(token, LONGEST_PART) for token in self.known[:_MOST_NAMED])
        more = f" and {len(self.known) - _MOST_NAMED} more" if len(self.known) > _MOST_NAMED else ""
        there = f"the tokens until then: {listed}{more}" if self.known else "no run has waited for a token by then"
        name = bounded(self.name, LONGEST_PART)
        return f"{{token:{name}}} is the token of no run; write {{token:FLOW/OBJECT/NAME}}; {there}"


class MadeTokens:
    """Notes each token that a run makes. It listens to the runs' events, which say what each of them awaits.

    A worker that dies, or is held up, does not report. Its token counts once ``is_awaited`` says that the wait for its
    row is committed: ``step.send`` sends after that, so nobody has the token before. Its argument is the row's id.
    """

    def __init__(self, is_awaited: Callable[[str], bool] | None = None) -> None:
        self._is_awaited = is_awaited or _always
        self._texts: dict[tuple[str, str], str] = {}
        self._newest: dict[str, tuple[str, str]] = {}
        self._of_requests: dict[str, tuple[str, str]] = {}
        self._claimed: dict[tuple[str, str, str, int], Message] = {}

    def noting(self, tokens: Tokens) -> Tokens:
        """Return tokens that are made as by these, and noted here."""
        return _NotedTokens(tokens, self._note)

    def tell(self, event: Event) -> None:
        """Note which tokens a run awaits."""
        message = event.message
        if event.type is EventType.CLAIMED and message is not None:
            self._claimed[message.flow, message.object_id, message.request_id, message.hop] = message
        if event.type is not EventType.WAITING or message is None:
            return
        for name in str(event.facts["names"]).split(", "):
            row = _row(message, name)
            if row in self._texts:
                label = f"{message.flow}/{message.object_id}/{name}"
                self._newest[label] = self._of_requests[f"{label}@{message.request_id}"] = row

    @property
    def texts(self) -> dict[tuple[str, str], str]:
        """Return the tokens by flow and row."""
        return dict(self._texts)

    def add(self, texts: Mapping[tuple[str, str], str], events: Iterable[Event]) -> None:
        """Note tokens that were made elsewhere, with the events that said so."""
        self._texts.update(texts)
        for event in events:
            self.tell(event)

    def text_of(self, flow: str, row_id: str) -> str | None:
        """Return the token that was made last for the row."""
        return self._texts.get((flow, row_id))

    def filled_in(self, event: Any) -> Any:
        """Return a recorded request with its token in place of the name. Raises :class:`NoSuchToken`."""
        parameters = event.get("pathParameters")
        paths = {name: self._filled(event[name]) for name in ("path", "rawPath") if isinstance(event.get(name), str)}
        if isinstance(parameters, dict):
            texts = {name: value for name, value in parameters.items() if isinstance(value, str)}
            filled = {name: self._filled(value) for name, value in texts.items()}
            return {**event, **paths, "pathParameters": {**parameters, **filled}}
        return {**event, **paths}

    def _filled(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: self._token(match[1]), text)

    def _token(self, label: str) -> str:
        row = self._newest.get(label) or self._of_requests.get(label) or self._made_and_not_reported(label)
        if row is None:
            raise NoSuchToken(label, tuple(self._newest))
        return self._texts[row]

    def _made_and_not_reported(self, label: str) -> tuple[str, str] | None:
        """Return the awaited row of a token whose worker has not reported yet what its run awaits."""
        for message in reversed(self._claimed.values()):
            whole = label.removesuffix(f"@{message.request_id}")
            row = _row(message, whole.removeprefix(f"{message.flow}/{message.object_id}/"))
            if row in self._texts and self._is_awaited(row[1]):
                return row
        return None

    def _note(self, flow: str, row_id: str, text: str) -> None:
        self._texts[flow, row_id] = text


def _always(_row_id: str) -> bool:
    return True


def _row(message: Message, name: str) -> tuple[str, str]:
    """Return the row that a hop awaits under a name."""
    m = message
    return m.flow, token_row_id(m.flow, m.object_id, m.request_id, m.requested_at, m.hop, name)


class _NotedTokens(Tokens):
    """Tokens that tell ``note`` of each one that is made."""

    def __init__(self, tokens: Tokens, note: Callable[[str, str, str], None]) -> None:
        super().__init__(tokens.ring, tokens.answers_url)
        self._note = note

    def make(self, flow: str, row_id: str, expires_at: int) -> str:
        text = super().make(flow, row_id, expires_at)
        self._note(flow, row_id, text)
        return text


def means_token(event: Any) -> bool:
    """Answer whether the recorded request is to answer by a token, or by the name of one."""
    if not isinstance(event, dict):
        return False
    parameters = event.get("pathParameters")
    path = event.get("rawPath", event.get("path"))
    parts = [path if isinstance(path, str) else ""]
    parts += (
        [parameter for parameter in parameters.values() if isinstance(parameter, str)]
        if isinstance(parameters, dict)
        else []
    )
    return any(_PLACEHOLDER.search(part) or is_token(part.rstrip("/").rpartition("/")[2]) for part in parts)

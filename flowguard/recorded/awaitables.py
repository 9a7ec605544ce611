"""The things that a run can wait for, as a handler builds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from flowguard.destinations import Destination, destination, form_problem
from flowguard.errors import RunFailed, span_problem
from flowguard.errors import shown as shown_text
from flowguard.outcome import Ask, AskFlow, AskGroup, AwaitedToken
from flowguard.payload.encoding import Payload, encode
from flowguard.protocol.conflict import OnConflict
from flowguard.recorded.side_messages import Startable
from flowguard.wire.attributes import Attribute, attributes_of
from flowguard.wire.message import Message
from flowguard.wire.shown_facts import ShownFacts
from flowguard.wire.tokens import Tokens, token_row_id


def asked(
    to: Destination | str | Startable,
    payload: Payload,
    attributes: Mapping[str, Attribute | str],
    group: str | None,
    object_id: str | None,
    cancel_too: bool,
) -> Ask | AskFlow:
    """Return the question to another flow, or to a party outside. Raises :class:`RunFailed` where none can go."""
    if not isinstance(to, Destination | str):
        if not hasattr(to, "request"):
            raise RunFailed(f"{shown_text(to)} is no flow, nor a destination; nothing can be asked there")
        if cancel_too:
            _check_cancellable(to)
        return AskFlow(to, payload, object_id, cancel_too)
    if cancel_too:
        raise _no_flow(to)
    where = destination(to)
    if problem := form_problem(where):
        raise RunFailed(f"nothing can be asked there: {problem}")
    return Ask(where, encode(payload), attributes_of(attributes), group)


def _check_cancellable(to: Startable) -> None:
    if to.on_conflict is OnConflict.ATTACH:
        why = "answers other requests with the same run (on_conflict=ATTACH), and they would be cancelled too"
        raise RunFailed(f"{to.name} {why}; leave cancel_too out")


def _no_flow(to: Destination | str) -> RunFailed:
    return RunFailed(f"cancel_too is for another flow, and {shown_text(str(to))} is none; leave it out")


def asked_group(
    to: Destination | str | Startable,
    requests: Iterable[tuple[str, Payload]],
    attributes: Mapping[str, Attribute | str],
    cancel_too: bool = False,
) -> AskGroup:
    """Return the requests of a group. Raises :class:`RunFailed` where none can go. Reads none of them."""
    if isinstance(to, Destination | str):
        if cancel_too:
            raise _no_flow(to)
        where = destination(to)
        if problem := form_problem(where):
            raise RunFailed(f"nothing can be asked there: {problem}")
        return AskGroup(where, requests, attributes_of(attributes))
    if not hasattr(to, "request"):
        raise RunFailed(f"{shown_text(to)} is no flow, nor a destination; nothing can be asked there")
    if attributes:
        raise RunFailed(f"attributes are for parties outside, and {to.name} is a flow; leave them out")
    if cancel_too:
        _check_cancellable(to)
    return AskGroup(to, requests, cancel_too=cancel_too)


def awaited_token(
    message: Message, tokens: Tokens, name: str, valid: timedelta, committed_at: int, shown: ShownFacts | None = None
) -> AwaitedToken:
    """Return the token of this name in the message's hop, ``valid`` from the commit on. Its page says what is shown."""
    if problem := span_problem(valid):
        raise RunFailed(f"step.token({shown_text(name)}): valid {problem}")
    if valid <= timedelta(0):
        raise RunFailed(f"step.token({shown_text(name)}): valid is {valid}; it must be positive")
    m = message
    row_id = token_row_id(m.flow, m.object_id, m.request_id, m.requested_at, m.hop, name)
    expires_at = committed_at + valid // timedelta(milliseconds=1)
    text = tokens.make(m.flow, row_id, expires_at)
    if shown is None:
        return AwaitedToken(text, row_id, base=tokens.answers_url)
    if problem := shown.problem:
        raise RunFailed(f"step.token({shown_text(name)}): {problem}")
    return AwaitedToken(text, row_id, tokens.seal(text, shown), tokens.answers_url)

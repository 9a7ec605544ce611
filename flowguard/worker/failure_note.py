"""The failure of a run, as its ``on_failed`` stage gets it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from flowguard.errors import TextGone
from flowguard.failed import LONGEST_PAYLOAD, Failure
from flowguard.flow import AnyFlow
from flowguard.payload.encoding import encode_json
from flowguard.protocol.groups import is_of_part
from flowguard.protocol.run import RunItem
from flowguard.wire.message import ErrorNote, Message


def failure_of(message: Message, item: RunItem, note: ErrorNote, error: BaseException) -> Failure:
    """Return the failure of the hop, with what its message and its run item tell of it."""
    cause = error.__cause__
    return Failure(
        type=note.type,
        text=note.text,
        cause=None if cause is None else str(ErrorNote.of(cause, note.at)),
        first_error=str(message.first_error or note),
        stage=message.stage,
        hop=message.hop,
        attempts=message.retry + 1,
        at=datetime.fromtimestamp(note.at / 1000, UTC),
        payload=_payload(message),
        remembered=_remembered(item),
    )


VEILED: Final = "(sealed)"
"""What stands for the text of an error where that is not sealed."""


def veiled(flow: AnyFlow, note: ErrorNote) -> ErrorNote:
    """Return the error as it may stand where nothing is sealed. The text of a user's error may quote a payload."""
    return note if flow.codec is None else note._replace(text=VEILED)


def _payload(message: Message) -> str | None:
    """Return the message's text. None where it is no payload, is long, or has half a surrogate pair."""
    if message.resumed:
        return None
    try:
        return message.body if len(message.body.encode()) <= LONGEST_PAYLOAD else None
    except UnicodeEncodeError:
        return None


def _as_plain_json(text: str) -> str:
    """Return a result's text as JSON that anybody reads: a ``Decimal`` in it as its text.

    One with half a surrogate pair stays as it is, for that is written as an escape alone.
    """
    if '"$"' not in text:
        return text
    from flowguard.payload.results import from_text  # few results have such a value

    try:
        return encode_json(from_text(text))
    except TypeError:
        return text


def _remembered(item: RunItem) -> dict[str, str | None]:
    """Return what the hop has done before its commit."""
    memo = item.memo
    if memo is None or not memo.is_of(item.request_id, item.hop):
        return {}
    results: dict[str, str | None] = {}
    for name, read in memo.results.items():
        if is_of_part(name):
            continue
        try:
            results[name] = _as_plain_json(read())
        except TextGone:
            results[name] = None
    return results

"""The mailbox of ``flowguard dev`` with the messages that no function reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from flowguard.wire.tokens import is_token

_URL: Final = re.compile(r"https?://[^\s\"'<>\\]+")


class UnreadMessage(NamedTuple):
    """A message in a queue without a reader. Times are ms since 1970; ``links`` are those that can be opened here."""

    queue: str
    id: str
    sent_at: int
    due_at: int
    body: Any
    """The value of its JSON, or its text."""
    attributes: dict[str, str]
    links: tuple[str, ...]


class Mailbox:
    """Reads the queues of an engine of this process without receiving from them.

    ``answers_url`` is where links are answered here, whatever address their flow gives them.
    """

    def __init__(self, account: str, region: str, answers_url: str) -> None:
        self._account = account
        self._region = region
        self._answers_url = answers_url
        self.read_by_others: frozenset[str] = frozenset()
        """The queues that a function reads, and those of dead letters."""

    def messages(self) -> list[UnreadMessage]:
        """Return what lies there, the newest first."""
        from moto.backends import get_backend  # heavy, and comes with an extra

        queues: Any = get_backend("sqs")[self._account][self._region].queues
        messages = [
            self._message(name, message)
            for name, queue in [*queues.items()]
            if name not in self.read_by_others
            for message in [*queue._messages]
        ]
        return sorted(messages, key=lambda message: message.sent_at, reverse=True)

    def _message(self, queue: str, message: Any) -> UnreadMessage:
        body = _value(message.body)
        attributes = {
            name: str(value.get("StringValue", "(bytes)")) for name, value in message.message_attributes.items()
        }
        sent_at = int(message.sent_timestamp)
        links = tuple(dict.fromkeys(here(body, self._answers_url)))
        return UnreadMessage(
            queue, message.id, sent_at, max(sent_at, int(message.delayed_until)), body, attributes, links
        )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def here(value: Any, answers_url: str) -> Iterator[str]:
    """Yield the links to answer by in a value, as they are opened at ``answers_url``."""
    for text in _texts(value):
        for url in _URL.findall(text):
            parts = urlsplit(url.rstrip(".,;:!?)"))
            token = parts.path.rstrip("/").rpartition("/")[2]
            if is_token(token):
                yield f"{answers_url}/{token}" + (f"?{parts.query}" if parts.query else "")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case _:
            pass

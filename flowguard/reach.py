"""Whether a destination is in the account and region of a queue: as far as a letter may choose where it goes."""

from __future__ import annotations

import re
from typing import Final, assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic

_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}(\.fifo)?")
_FUNCTION_PARTS: Final = (7, 8)  # the last is a version or an alias
_PARTS: Final = (6,)


def is_beside(to: Destination, *, arn: str, url: str) -> bool:
    """Whether a destination is where the queue of this ARN and URL is. A bare name always is."""
    match to:
        case Queue(name=name) if "://" in name:
            return _is_url_beside(name, url)
        case Queue(name=name):
            return _is_arn_beside(name, arn, "sqs", _PARTS)
        case Topic(arn=name):
            return _is_arn_beside(name, arn, "sns", _PARTS)
        case Function(name=name):
            return _is_arn_beside(name, arn, "lambda", _FUNCTION_PARTS)
        case Bus(name=name):
            return _is_arn_beside(name, arn, "events", _PARTS)
        case _:
            assert_never(to)


def _is_url_beside(name: str, url: str) -> bool:
    """The same but for the queue's name: host, port and account."""
    place, _, queue = name.rpartition("/")
    return place == url.rpartition("/")[0] and _QUEUE_NAME.fullmatch(queue) is not None


def _is_arn_beside(name: str, arn: str, service: str, lengths: tuple[int, ...]) -> bool:
    """A part too many may name another account, so the length counts too."""
    if ":" not in name:
        return True
    parts, here = name.split(":"), arn.split(":")
    return len(parts) in lengths and parts[:5] == ["arn", here[1], service, *here[3:5]]

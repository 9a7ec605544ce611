"""Sources of new ids, and a type for each kind of id so that none is taken for another."""

from __future__ import annotations

import os
import random
import re
from functools import cache
from typing import Any, NewType, Protocol

RequestId = NewType("RequestId", str)
"""Names one run of a flow: the ``uniquerequestid``."""

ObjectId = NewType("ObjectId", str)
"""Names the business object that a flow runs for, unique within the flow."""

Owner = NewType("Owner", str)
"""A nonce of one claim: how a worker recognises its own write when the answer to it was lost."""


LONGEST_NAME = 1_024
"""In bytes of UTF-8, of an object or a request. It is in a key, which DynamoDB limits, and in every message."""


@cache
def _refused() -> re.Pattern[str]:
    """Return what finds a refused character. To compile it takes some ms of a cold start, and few texts need it."""
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def refused_character(text: str) -> str | None:
    """Return the first character that no SQS message may hold, since XML 1.0 has no place for it. None without one."""
    match = None if text.isprintable() else _refused().search(text)
    return None if match is None else match[0]


def id_problem(text: str) -> str | None:
    """Return why the text cannot be an id that travels with messages; None where it can."""
    if text.isascii() and text.isprintable() and len(text) <= LONGEST_NAME:
        return None  # nearly all are like that
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > LONGEST_NAME:
        return f"has {size:,} bytes of at most {LONGEST_NAME:,}"
    character = refused_character(text)
    return None if character is None else f"has the character U+{ord(character):04X}, which SQS refuses"


def name_problem(value: object) -> str | None:
    """Return why the value cannot name an object or a request. None where it can."""
    if not isinstance(value, str):
        return f"is of type {type(value).__name__}, and an id is text"
    return id_problem(value) if value else "is empty"


class Ids(Protocol):
    """A source of new, never repeated ids."""

    def new(self) -> str: ...


class RandomIds:
    """Ids from the operating system's randomness: what runs in production."""

    def new(self) -> str:
        return os.urandom(16).hex()


class SeededIds:
    """The same ids in the same order for the same seed: replays and tests. Never for production."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose, protects nothing

    def new(self) -> str:
        """Return the next id of the sequence."""
        return f"{self._random.getrandbits(128):032x}"

    def state(self) -> object:
        """Return the state of the generator. :meth:`put_back` continues from it."""
        return self._random.getstate()

    def put_back(self, state: Any) -> None:
        """Continue from a state that :meth:`state` has returned."""
        self._random.setstate(state)

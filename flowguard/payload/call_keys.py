"""Keys of calls, read from an argument: by paths into it, or by a function of it.

A path is one or more names with dots between them: ``"order.id"``, ``"body.order_id"``, ``"Records.0.messageId"``. A
name leads into a dict, a model or any object with such an attribute; a number into a list; and where a text stands on
the way, such as the body of a record, its JSON is read. A name after ``headers`` is that of an HTTP header, whatever
its case: ``"headers.Idempotency-Key"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from flowguard.payload.readable import comparable_tree
from flowguard.payload.results import MOST_LEVELS, Unstorable, to_text, too_deep

KeyRule = str | tuple[str, ...] | Callable[[Any], str | int | UUID]
"""The ``key=`` of ``@once``: a path, several paths together, or a function of the argument."""

PayloadRule = str | tuple[str, ...] | Callable[[Any], Any]
"""The ``payload=`` of ``@once``: what of the argument must be the same whenever the key is."""

LONGEST_KEY: Final = 1_024
"""Bytes of UTF-8, so that a function's name fits into a key of DynamoDB beside it."""

_KINDS: Final = (str, int, UUID)
_HEADERS: Final = ("headers", "multiValueHeaders")
"""Where API Gateway, function URLs and load balancers put HTTP headers. Some keep the client's case, some do not."""


class NoKey(Exception):
    """The argument has no usable key. The text quotes nothing of the argument."""


def read_key(rule: KeyRule, argument: Any) -> str:
    """Return the key that the rule reads. Raises :class:`NoKey`."""
    if isinstance(rule, str):
        return _checked(_text_at(argument, rule), f"the key at {rule!r}")
    if isinstance(rule, tuple):
        texts = [_text_at(argument, path) for path in rule]
        text = json.dumps(texts, separators=(",", ":"))
        return text if len(text) <= LONGEST_KEY else sha256(text.encode()).hexdigest()
    return _checked(_of_function(rule, argument), "the key that the key= function returned")


def read_digest(rule: PayloadRule, argument: Any) -> str:
    """Return the digest of the payload that the rule reads. Raises :class:`NoKey` for one that has no text."""
    if isinstance(rule, str):
        value = at(argument, rule)
    elif isinstance(rule, tuple):
        value = [at(argument, path) for path in rule]
    else:
        value = _called(rule, argument, "payload")
    try:
        text = to_text(_plain(value), place="payload", sort_keys=True)
    except (Unstorable, TypeError, ValueError) as error:
        raise NoKey(
            f"its payload has no digest: {error if isinstance(error, Unstorable) else 'it has no text'}"
        ) from None
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def at(argument: Any, path: str) -> Any:
    """Return what stands at the path; None where nothing does."""
    value, before = argument, ""
    for part in path.split("."):
        of_headers = before in _HEADERS and isinstance(value, Mapping)
        value = _header(value, part) if of_headers else _inside(value, part)
        before = part
    return value


def _header(headers: Mapping[Any, Any], name: str) -> Any:
    """Return the header of this name in any case. None where there is none, or where two of them differ."""
    values = [value for key, value in headers.items() if isinstance(key, str) and key.lower() == name.lower()]
    return values[0] if values and all(value == values[0] for value in values) else None


def _inside(value: Any, part: str) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list | tuple) and part.isdecimal() and len(part) < 10:
        return value[int(part)] if int(part) < len(value) else None
    return None if part.startswith("_") or isinstance(value, str) else getattr(value, part, None)


def _text_at(argument: Any, path: str) -> str:
    value = at(argument, path)
    there = "nothing" if value is None else f"a value of type {type(value).__name__:.60}"
    return _as_text(value, f"no usable key at {path!r}: it is a text, a whole number or a UUID, and there is {there}")


def _as_text(value: Any, wanted: str) -> str:
    if isinstance(value, bool) or not isinstance(value, _KINDS):
        raise NoKey(wanted)
    try:
        return str(value)
    except ValueError:  # a number of thousands of digits
        raise NoKey(wanted) from None


def _of_function(rule: Callable[[Any], Any], argument: Any) -> str:
    value = _called(rule, argument, "key")
    return _as_text(value, f"its key= function returned {type(value).__name__}, and a key is text, int or UUID")


def _called(rule: Callable[[Any], Any], argument: Any, option: str) -> Any:
    try:
        return rule(argument)
    except Exception as error:  # any error of the user's own function; its text may quote the payload
        raise NoKey(f"its {option}= function raised {type(error).__name__}") from None


def _checked(text: str, label: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise NoKey(f"{label} has half a surrogate pair, which DynamoDB cannot hold") from None
    if not size:
        raise NoKey(f"{label} is empty")
    if size > LONGEST_KEY:
        raise NoKey(f"{label} has {size:,} bytes of at most {LONGEST_KEY:,}; return a digest of it from a function")
    return text


def _plain(value: Any, level: int = 1) -> Any:
    """Return models as dicts, wherever they stand. Raises Unstorable for what is too deep, or contains itself."""
    if level > MOST_LEVELS:
        raise too_deep("payload")
    match value:
        case BaseModel():
            return comparable_tree(value)
        case dict():
            return {name: _plain(part, level + 1) for name, part in value.items()}
        case list() | tuple():
            return [_plain(part, level + 1) for part in value]
        case _:
            return value


# -- mistakes of a definition ----------------------------------------------------------------------------------------


def rule_problem(option: str, rule: object) -> str | None:
    """Say what is wrong with a rule. None for one that is right."""
    paths = (rule,) if isinstance(rule, str) else rule
    if callable(rule):
        return None
    if not isinstance(paths, tuple) or not paths or not all(isinstance(path, str) for path in paths):
        return f"{option} is {rule!r:.60}; write a path ('order.id'), a tuple of paths, or a function of the argument"
    wrong = [path for path in paths if not all(path.split("."))]
    return f"{option} is {wrong[0]!r:.60}; write names with a dot between two: 'order.id'" if wrong else None

"""Read the business object and the request that a payload names.

A path is one or more names of fields with dots between them: ``"order.id"``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

from flowguard.errors import RunFailed, shown
from flowguard.names.ids import RequestId, id_problem
from flowguard.payload.foreign import recognised

RequestIdRule = str | tuple[str, ...] | Callable[[Any], str]
"""The ``request_id=`` of a flow: a path, several paths together, or a function of the payload."""

_NO_NAMES: Final = (
    BaseModel, dict, list, tuple, set, frozenset, bool, float, bytes, Decimal, date, time, timedelta, Enum
)  # fmt: skip
_NO_FIELDS: Final = (str, int, list, tuple, set, frozenset, bool, float, bytes)
_FEW_FIELDS: Final = (Enum, UUID, date, time, timedelta, Decimal)
"""What has attributes, such as ``status.value`` or ``id.hex``, and no fields of the payload's own."""


def text_at(payload: Any, path: str) -> str | None:
    """Return the text, number or UUID at the path as text. None where there is none."""
    value = payload
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        return None
    try:
        text = str(value)
    except ValueError:  # a number of thousands of digits
        return None
    return text if text else None


def read_request_id(rule: RequestIdRule, payload: Any) -> RequestId:
    """Return the request id that the rule reads from the payload. The same payload has the same.

    Raises :class:`RunFailed`, which names the path and quotes nothing of the payload, where there is no usable one.
    """
    if isinstance(rule, str):
        return RequestId(_name_at(payload, rule))
    if isinstance(rule, tuple):
        return RequestId(_combined(_name_at(payload, path) for path in rule))
    return RequestId(_answer(rule, payload))


def _name_at(payload: Any, path: str) -> str:
    text = text_at(payload, path)
    if text is None:
        wanted = f"no usable {path!r} to name the request by: text, a whole number or a UUID"
        raise RunFailed(f"the payload has {wanted}{recognised(payload)}")
    if problem := id_problem(text):
        raise RunFailed(f"the payload's {path!r}, which names the request, {problem}")
    return text


def _combined(names: Iterable[str]) -> str:
    """Return one text for several. Other texts, or the same ones divided otherwise, have another.

    It is a JSON array, or the digest of one that is too long for an id.
    """
    text = json.dumps(list(names), ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest() if id_problem(text) else text


def _answer(rule: Callable[[Any], str], payload: Any) -> str:
    try:
        result: object = rule(payload)
    except Exception as error:  # any error of the flow's own function; its text may quote the payload
        raise RunFailed(f"the flow's request_id function raised {type(error).__name__}") from None
    if not isinstance(result, str):
        raise RunFailed(f"the flow's request_id function returned {type(result).__name__}, and an id is text")
    if problem := "is empty" if not result else id_problem(result):
        raise RunFailed(f"the request id that the flow's request_id function returned {problem}")
    return result


# -- mistakes of a definition ----------------------------------------------------------------------------------------


def path_problems(option: str, path: str, kind: Any, named: str) -> list[str]:
    """List what is wrong with a path into payloads of this kind. ``named`` is the thing that it names."""
    if not all(path.split(".")):
        return [f"{option} is {shown(path)}; write the names of fields with a dot between two: 'order.id'"]
    for part in path.split("."):
        kinds = list(_alternatives(kind))
        if all(_has_no_field(each, part) for each in kinds):
            return [
                f"{option} is {path!r}, but what {part!r} is looked for in has no fields: it is {_shown_kind(kind)}"
            ]
        models = [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]
        if len(models) < len(kinds):
            return []  # inside a dict nothing is known before there is a message
        annotations = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        if not annotations:
            names = " and ".join(model.__name__ for model in models)
            fields = ", ".join(dict.fromkeys(name for model in models for name in model.model_fields))
            return [f"{option} is {path!r}, but {names} has no {part!r}; it has {fields}"]
        kind = annotations[0] if len(annotations) == 1 else Union[tuple(annotations)]  # noqa: UP007 - of as many as there are
    if all(_is_no_name(each) for each in _alternatives(kind)):
        what = _shown_kind(get_origin(kind) if get_origin(kind) in _NO_NAMES else kind)
        return [f"{option} is {path!r}, which is a {what}; {named} is named by text, int or UUID"]
    return []


def _is_no_name(kind: Any) -> bool:
    """Answer whether no value of this kind names anything."""
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, _NO_NAMES) and (kind is bool or not issubclass(kind, str | int))


def _alternatives(kind: Any) -> Iterator[Any]:
    """Yield what a value may be beside null, without names and notes of the kind."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        for member in get_args(kind):
            yield from _alternatives(member)
    elif origin is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif isinstance(kind, NewType):
        yield from _alternatives(kind.__supertype__)
    elif origin is Literal:
        yield from {type(value) for value in get_args(kind)}
    elif kind is not NoneType:
        yield kind


def _has_no_field(kind: Any, part: str) -> bool:
    """Answer whether a path ends at values of this kind: texts, numbers and lists have no fields."""
    kind = get_origin(kind) or kind
    if kind in _NO_FIELDS:
        return True
    return isinstance(kind, type) and issubclass(kind, _FEW_FIELDS) and not _has_attribute(kind, part)


def _has_attribute(kind: type, name: str) -> bool:
    """Answer whether values of the kind have the attribute. ``hasattr`` does not see that of an Enum's members."""
    return inspect.getattr_static(kind, name, None) is not None


def _shown_kind(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def rule_problems(rule: object, stage: str, kind: Any) -> list[str]:
    """List what is wrong with a ``request_id`` option. ``kind`` is what the flow's first stage takes."""
    if rule is None:
        return []
    if isinstance(rule, str):
        return _paths_problems((rule,), stage, kind)
    if isinstance(rule, tuple) and rule and all(isinstance(path, str) for path in rule):
        return _paths_problems(rule, stage, kind)
    if callable(rule):
        return function_problems("request_id", rule)
    given = shown(rule)
    return [f"request_id is {given}; write a field ('order.id'), a tuple of fields, or a function of the payload"]


def _paths_problems(paths: tuple[str, ...], stage: str, kind: Any) -> list[str]:
    if kind is str:
        return [f"{stage!r} takes text, which has no {paths[0]!r}; give request_id a function of the text"]
    twice = [f"request_id names {path!r} twice" for path in dict.fromkeys(paths) if paths.count(path) > 1]
    return [*twice, *(problem for path in paths for problem in path_problems("request_id", path, kind, "a request"))]


def function_problems(option: str, rule: Callable[..., object]) -> list[str]:
    """List what is wrong with a function that is to read a name from the payload."""
    if inspect.iscoroutinefunction(rule):
        return [f"{option} is an async function; write a plain one, which takes the payload and returns text"]
    try:
        inspect.signature(rule).bind(None)
    except TypeError as wrong:
        return [f"{option} cannot be called with the payload alone: {wrong}"]
    except ValueError:  # a built-in that says nothing of its arguments
        return []
    return []

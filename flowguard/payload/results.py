"""Results of functions as JSON text, from which they come back exactly as they were.

What JSON has stays JSON. What it has not stands in an object with the one name ``$``:

=========================================  ==========================================================
a value                                    is stored as
=========================================  ==========================================================
text, ``int``, ``float``, ``bool``, None   itself; ``nan`` and infinities are refused
``list``, ``dict`` whose keys are texts    itself
``Decimal("1.10")``                        ``{"$": ["decimal", "1.10"]}``
``datetime``, ``date``, ``time``           their ISO text, with the fold and the time zone beside it
``timedelta``, ``UUID``, ``bytes``         numbers, text, base 64
``tuple``, ``set``, ``frozenset``          a list of their members
``dict`` with other keys                   a list of pairs
pydantic model, dataclass, enum …          what pydantic's ``TypeAdapter`` of the declared type makes
=========================================  ==========================================================

A value is encoded, decoded and compared before its text is used: one that would come back as another is refused.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NoReturn, get_type_hints
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, TypeAdapter

from flowguard.items.rows import as_json_value

MARK: Final = "$"
MOST_LEVELS: Final = 64

_ITSELF: Final = (type(None), bool, int, float, str)


class Unstorable(Exception):
    """A value would not come back as it is. Its text names the place and the type, and never the value."""


# -- values that need no declared type --------------------------------------------------------------------------------


def to_text(value: Any, *, place: str = "result", sort_keys: bool = False) -> str:
    """Return the text of a value. Raises :class:`Unstorable` for what is none of the types above."""
    return _text_of(_tree(value, place, 1, _refuse), sort_keys)


def to_plain_text(value: Any, encode: Callable[[Any], str]) -> str:
    """Return the text of a value in which ``encode`` makes JSON of what is none of the types above, such as a model.

    A ``datetime`` whose time zone has no name, such as boto3's, comes back with the zone's offset at that moment.
    Raises :class:`Unstorable` for numbers that JSON does not have, and what ``encode`` does.
    """

    def as_json(model: Any, place: str, level: int) -> Any:
        return _tree(json.loads(encode(model)), place, level, _refuse)

    return _text_of(_tree(_at_offsets(value), "result", 1, as_json))


def _at_offsets(value: Any, level: int = 1) -> Any:
    """Return the value with each ``datetime`` of a zone that has no name at its offset. It is equal to the first."""
    kind = type(value)
    if level > MOST_LEVELS:
        raise too_deep("result")
    if kind is datetime:
        return _at_offset(value)
    if kind is dict:
        return {name: _at_offsets(inner, level + 1) for name, inner in value.items()}
    return kind(_at_offsets(inner, level + 1) for inner in value) if kind in (list, tuple) else value


def _at_offset(moment: datetime) -> datetime:
    zone, offset = moment.tzinfo, moment.utcoffset()
    if offset is None or type(zone) is timezone or isinstance(zone, ZoneInfo):
        return moment
    return moment.replace(tzinfo=timezone(offset))


def from_text(text: str) -> Any:
    """Return the value of a text that :func:`to_text` made."""
    return _value(json.loads(text))


def _text_of(tree: Any, sort_keys: bool = False) -> str:
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return json.dumps(tree, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    return text


Leaf = Callable[[Any, str, int], Any]
"""Makes a tree of what none of the types above is. Takes the value, its place, and its level."""


def _refuse(value: Any, place: str, level: int) -> NoReturn:
    raise Unstorable(f"{place} is {kind_of(value)}; declare the type of the result, or return plain values")


def too_deep(place: str) -> Unstorable:
    return Unstorable(f"{place[:40]} … is more than {MOST_LEVELS} levels deep, or contains itself")


def _tree(value: Any, place: str, level: int, other: Leaf) -> Any:
    """Return the value as JSON has it."""
    if level > MOST_LEVELS:
        raise too_deep(place)
    kind = type(value)
    if kind in _ITSELF:
        return _checked(value, place)
    if kind is list:
        return _trees(value, place, level, other)
    if kind is dict:
        return _tree_of_dict(value, place, level, other)
    if kind in (tuple, set, frozenset):
        members = _trees(value, place, level, other)
        return {MARK: [kind.__name__, members if kind is tuple else sorted(members, key=_text_of)]}
    marked = _MARKED.get(kind)
    return {MARK: marked(value, place)} if marked is not None else other(value, place, level)


def _trees(values: Iterable[Any], place: str, level: int, other: Leaf) -> list[Any]:
    return [_tree(member, f"{place}[{number}]", level + 1, other) for number, member in enumerate(values)]


def _tree_of_dict(value: dict[Any, Any], place: str, level: int, other: Leaf) -> Any:
    if MARK not in value and all(type(name) is str for name in value):
        return {name: _tree(member, f"{place}.{name[:80]}", level + 1, other) for name, member in value.items()}
    pairs = [
        [_tree(name, f"a key of {place}", level + 1, other), _tree(member, f"a value of {place}", level + 1, other)]
        for name, member in value.items()
    ]
    return {MARK: ["dict", pairs]}


def _checked(value: Any, place: str) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise Unstorable(f"{place} is {value}, which JSON does not have; return None or a text for it")
    try:
        str(value)
    except ValueError:
        raise Unstorable(f"{place} is a number of thousands of digits; return it as bytes") from None
    return value


def _decimal(value: Decimal, place: str) -> list[Any]:
    if not value.is_finite():
        raise Unstorable(f"{place} is a Decimal that is no number; return None or a text for it")
    return ["decimal", str(value)]


def _datetime(value: datetime, place: str) -> list[Any]:
    return ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo, place)]


def _time(value: time, place: str) -> list[Any]:
    return ["time", value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo, place)]


def _zone(zone: tzinfo | None, place: str) -> Any:
    """Return a time zone's name, or its offset and what it is called."""
    if zone is None:
        return None
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    offset = zone.utcoffset(None)
    if offset is None or not (type(zone) is timezone or type(zone).__module__.startswith("pydantic_core")):
        fix = "use zoneinfo.ZoneInfo or datetime.timezone"
        raise Unstorable(f"{place} has a time zone of the type {type(zone).__name__}, which would be lost; {fix}")
    name = zone.tzname(None)
    return [*_parts(offset), None if name == timezone(offset).tzname(None) else name]


def _parts(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_MARKED: Final[dict[type, Callable[[Any, str], list[Any]]]] = {
    Decimal: _decimal,
    datetime: _datetime,
    time: _time,
    date: lambda value, _: ["date", value.isoformat()],
    timedelta: lambda value, _: ["timedelta", *_parts(value)],
    UUID: lambda value, _: ["uuid", str(value)],
    bytes: lambda value, _: ["bytes", base64.b64encode(value).decode()],
}


def _value(tree: Any) -> Any:
    match tree:
        case list():
            return [_value(part) for part in tree]
        case {"$": [str(mark), *rest]} if len(tree) == 1 and mark in _READ:
            return _READ[mark](*rest)
        case dict():
            return {name: _value(part) for name, part in tree.items()}
        case _:
            return tree


def _read_zone(stored: Any) -> tzinfo | None:
    if stored is None:
        return None
    if isinstance(stored, str):
        return ZoneInfo(stored)
    *parts, name = stored
    offset = timedelta(*parts)
    return timezone(offset) if name is None else timezone(offset, name)


def _read_datetime(text: str, fold: int, zone: Any) -> datetime:
    return datetime.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


def _read_time(text: str, fold: int, zone: Any) -> time:
    return time.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))


_READ: Final[dict[str, Callable[..., Any]]] = {
    "decimal": Decimal,
    "datetime": _read_datetime,
    "time": _read_time,
    "date": date.fromisoformat,
    "timedelta": timedelta,
    "uuid": UUID,
    "bytes": base64.b64decode,
    "tuple": lambda members: tuple(map(_value, members)),
    "set": lambda members: set(map(_value, members)),
    "frozenset": lambda members: frozenset(map(_value, members)),
    "dict": lambda pairs: {_value(name): _value(part) for name, part in pairs},
}


# -- values of a declared type ----------------------------------------------------------------------------------------


class ResultType:
    """How the results of one function are stored. ``declared`` is their type; None where nothing is declared."""

    def __init__(self, declared: Any = None) -> None:
        self._adapter = None if _is_plain(declared) else TypeAdapter(declared)

    def encode(self, value: Any) -> str:
        """Return the text of a result. Raises :class:`Unstorable` for one that would not come back as it is."""
        try:
            text = self._plainly(value) or self._as_declared(value)
            problem = difference(value, self.decode(text))
        except Unstorable:
            raise
        except Exception as error:  # a type's own code may raise anything
            raise Unstorable(f"result is {kind_of(value)} that does not come back ({type(error).__name__})") from None
        if problem:
            raise Unstorable(problem)
        return text

    def _plainly(self, value: Any) -> str | None:
        """Return the text of a value that needs no declared type. None for another one, where a type is declared."""
        try:
            return to_text(value)
        except Unstorable:
            if self._adapter is None:
                raise
            return None

    def _as_declared(self, value: Any) -> str:
        assert self._adapter is not None  # noqa: S101 - or else the value would have been refused above
        tree = self._adapter.dump_python(value, round_trip=True, by_alias=True, warnings=False)
        return _text_of({MARK: ["declared", _tree(tree, "result", 1, _of_a_field)]})

    def decode(self, text: str) -> Any:
        """Return the result of a text that :meth:`encode` made, maybe of an earlier version of the function.

        Raises :class:`Unstorable` where the declared type does not take it any more.
        """
        tree = json.loads(text)
        match tree:
            case {"$": ["declared", inner]} if len(tree) == 1:
                if self._adapter is None:
                    raise Unstorable("it was stored with a declared type, and the function declares none")
                try:
                    return self._adapter.validate_python(_value(inner))
                except Exception:  # pydantic's own error quotes the value, and a type's own code may raise anything
                    raise Unstorable("the declared type does not take it") from None
            case _:
                return _value(tree)


def _of_a_field(value: Any, place: str, level: int) -> Any:
    """Return the tree of what stands in a field and is no plain value: an enum's value, or its text in JSON."""
    if isinstance(value, Enum):
        return _tree(value.value, place, level, _of_a_field)
    try:
        return as_json_value(value)
    except ValueError:
        raise Unstorable(f"{place} is {kind_of(value)}, which has no text in JSON") from None


def _is_plain(declared: Any) -> bool:
    """Answer whether values of the type come back without it."""
    return declared in (None, Any, inspect.Signature.empty, *_ITSELF, dict, list, tuple, set, frozenset, *_MARKED)


def result_type(function: Callable[..., Any], declared: Any = None) -> ResultType:
    """Return how the results of the function are stored, by the declared type or by its annotation.

    Raises TypeError, which says why, where that is no type that pydantic knows.
    """
    fix = "name the type of its results: result=…"
    if declared is None:
        try:
            declared = get_type_hints(function, include_extras=True).get("return")
        except Exception as error:  # an annotation may be any expression
            raise TypeError(f"its annotations cannot be read ({error}); {fix}") from None
    try:
        return ResultType(declared)
    except Exception:
        raise TypeError(f"it is declared to return {declared!r:.80}, which pydantic does not know; {fix}") from None


# -- comparing --------------------------------------------------------------------------------------------------------


def difference(value: Any, back: Any, place: str = "result") -> str | None:
    """Say where two values differ, also where Python calls them equal: 1 and True, 0.0 and -0.0, two time zones."""
    if type(value) is not type(back):
        return f"{place} is {kind_of(value)}, and would come back as {kind_of(back)}; declare its type"
    parts = _parts_of(value, back)
    if parts is None:
        return None if _is_same(value, back) else f"{place} is {kind_of(value)}, and would come back as another one"
    ours, theirs = parts
    if len(ours) != len(theirs):
        return f"{place} has {len(ours)} members, and would come back with {len(theirs)}"
    for (name, member), (_, other) in zip(ours, theirs, strict=True):
        if problem := difference(member, other, f"{place}{name}"):
            return problem
    return None


_Parts = list[tuple[str, Any]]


def _parts_of(value: Any, back: Any) -> tuple[_Parts, _Parts] | None:
    """Return the named parts of two values of one type. None for values that have none."""
    match value:
        case dict():
            return _pairs(value), _pairs(back)
        case list() | tuple():
            return _numbered(value), _numbered(back)
        case set() | frozenset():
            return _numbered(sorted(value, key=repr)), _numbered(sorted(back, key=repr))
        case BaseModel():
            return _state(value), _state(back)
        case _ if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return _attributes(value, names), _attributes(back, names)
        case _:
            return None


def _attributes(value: object, names: Sequence[str]) -> _Parts:
    return [(f".{name}", getattr(value, name, None)) for name in names]


def _pairs(value: dict[Any, Any]) -> _Parts:
    return [part for name, member in value.items() for part in (("'s key", name), (f"[{_shown(name)}]", member))]


def _numbered(values: Iterable[Any]) -> _Parts:
    return [(f"[{number}]", member) for number, member in enumerate(values)]


def _state(model: BaseModel) -> _Parts:
    fields = [(f".{name}", value) for name, value in sorted(model.__dict__.items())]
    private = model.__pydantic_private__
    return [*fields, (".its extra fields", model.__pydantic_extra__), (".its private attributes", private)]


def _is_same(value: Any, back: Any) -> bool:
    match value:
        case float():
            return repr(value) == repr(back)
        case Decimal():
            return bool(value.as_tuple() == back.as_tuple())
        case datetime() | time():
            return _moment(value) == _moment(back)
        case _:
            return bool(value == back)


def _moment(value: datetime | time) -> tuple[Any, ...]:
    return value.replace(tzinfo=None), value.fold, _zone(value.tzinfo, "it")


def _shown(name: object) -> str:
    return repr(name[:40]) if isinstance(name, str) else type(name).__name__


def kind_of(value: object) -> str:
    """Name a value's type with its article."""
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIO' else 'a'} {kind}"

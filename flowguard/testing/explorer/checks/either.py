"""Ends of which the business allows several: an item or a body has to have one of the forms that are listed.

::

    either={"orders": [{"status": "paid"}, {"status": "refunded", "refund": 5}]}

    {"order_id": "o1", "status": "refunded", "refund": 5}   is allowed
    {"order_id": "o1", "status": "paid", "refund": 5}       is not: it is half of each

What no form names is compared as always.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.sim.final_state import plain

Either: TypeAlias = Mapping[str, Sequence[Mapping[str, Any] | None]]
"""The forms of items by table, and of bodies by destination. None is for what may not be there at all."""

_LIKE: Final = 'list the forms of each: either={"orders": [{"status": "paid"}, {"status": "refunded"}]}'
_FEWEST: Final = 2


class OneOf(str):
    """The text that stands in an end for a form which is allowed. ``or_nothing`` says that nothing is, too."""

    __slots__ = ("or_nothing",)
    or_nothing: bool


class Forms:
    """The forms of one table's items, or of the bodies that go to one destination."""

    def __init__(self, forms: Iterable[Mapping[str, Any] | None]) -> None:
        given = [None if form is None else _as_compared(form) for form in forms]
        self._forms = [form for form in given if form is not None]
        self.names = tuple(sorted({name for form in self._forms for name in form}))
        self._allowed = OneOf("one of " + ", ".join(map(_text, given)))
        self._allowed.or_nothing = None in given

    def folded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return an item or a body in which all that forms name is one value: the same in each form."""
        part = {name: values[name] for name in self.names if name in values}
        rest = {name: value for name, value in values.items() if name not in part}
        return {**rest, ", ".join(self.names): self._allowed if part in self._forms else _text(part)}


def or_nothing(values: Iterable[Any]) -> bool:
    """Answer whether one of these values stands for a form, and nothing may be in its place."""
    return any(isinstance(value, OneOf) and value.or_nothing for value in values)


def checked_either(either: Either, free: Mapping[str, Sequence[str]]) -> dict[str, Forms]:
    """Return the forms by table or destination. Raises :class:`SettingsError` where one is malformed."""
    given: object = either
    if not isinstance(given, Mapping):
        raise SettingsError("either", f"{shown(given)} names no tables; {_LIKE}")
    return {str(name): _checked(str(name), forms, free.get(str(name), ())) for name, forms in given.items()}


def _checked(name: str, forms: object, free: Sequence[str]) -> Forms:
    if not isinstance(forms, Sequence) or isinstance(forms, str | bytes):
        raise SettingsError("either", f"{name} has {shown(forms)}; {_LIKE}")
    for form in forms:
        if form is not None and not (isinstance(form, Mapping) and form and all(isinstance(key, str) for key in form)):
            raise SettingsError("either", f"{name} has the form {shown(form)}; give attributes with values, or None")
    if len(forms) < _FEWEST or all(form is None for form in forms):
        raise SettingsError("either", f"{name} has {len(forms)} forms; give two, at least one of them with attributes")
    made = Forms(forms)
    if hidden := sorted(set(made.names).intersection(free)):
        raise SettingsError("either", f"{name}.{hidden[0]} is in free, too, which compares it with nothing")
    return made


def _as_compared(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(_number(value)) for name, value in form.items()}


def _number(value: Any) -> Any:
    """Return a value with its numbers as DynamoDB has them."""
    match value:
        case bool():
            return value
        case int() | float():
            return Decimal(str(value))
        case Mapping():
            return {name: _number(part) for name, part in value.items()}
        case list() | tuple():
            return [_number(part) for part in value]
        case _:
            return value


def _text(form: Mapping[str, Any] | None) -> str:
    return "nothing" if form is None else json.dumps(form, sort_keys=True, default=str, ensure_ascii=False)

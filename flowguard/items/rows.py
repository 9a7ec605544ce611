"""Rows of a table, made of pydantic models.

DynamoDB holds texts, numbers, bytes, booleans, null, lists, maps and sets. What else a model holds becomes what it is
in the model's JSON:

=====================================  =============================================================
a field of type                        is stored as
=====================================  =============================================================
``datetime``, ``date``, ``time``       ISO 8601 text
``timedelta``                          ISO 8601 text, such as ``PT1M30S``
``UUID``, URL, IP address, ``Path``    text
``Enum``                               its value
``int``, ``float``, ``Decimal``        a number
``bytes``                              bytes
a set                                  a set, of texts, of numbers or of bytes
a tuple                                a list
``SecretStr``                          refused: JSON has stars in its place
=====================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from flowguard.errors import RunFailed

_DYNAMODBS_OWN: Final = (str, int, float, Decimal, bytes, bytearray, type(None))


def row(item: object, call: str) -> dict[str, Any]:
    """Return an item or key of the user's as a row. ``call`` names the call that was given it, for the error.

    Raises :class:`RunFailed` for what is neither a mapping nor a pydantic model.
    """
    if isinstance(item, BaseModel):
        return {_name(name): _stored(value) for name, value in item.model_dump(by_alias=True).items()}
    if isinstance(item, Mapping):
        return dict(item)
    raise RunFailed(f"{call} takes a dict or a pydantic model, and got {type(item).__name__}; nothing was written")


def _stored(value: Any) -> Any:
    """Return a model's value in a type that DynamoDB has. What has no text in JSON stays, and its write is refused."""
    match value:
        case Enum():
            return _stored(value.value)
        case dict():
            return {_name(name): _stored(part) for name, part in value.items()}
        case list() | tuple():
            return [_stored(part) for part in value]
        case set() | frozenset():
            return {_stored(part) for part in value}
        case _ if isinstance(value, _DYNAMODBS_OWN) or hasattr(value, "get_secret_value"):
            return value
        case _:
            return _in_json(value)


def _in_json(value: Any) -> Any:
    try:
        return as_json_value(value)
    except PydanticSerializationError:
        return value


def _name(name: Any) -> Any:
    """Return the name of an attribute, which is always a text, as the model's JSON has it."""
    return name if type(name) is str else next(iter(_in_json({name: None})))


def as_json_value(value: Any) -> Any:
    """Return the value as JSON has it: a text, number, list, dict, bool or None.

    What ``to_jsonable_python`` does not know is written by its own type: a class with a schema of its own, and before
    pydantic 2.12 an IP address.
    Raises :class:`pydantic_core.PydanticSerializationError` for what has no place in JSON.
    """
    return to_jsonable_python(value, fallback=_by_its_type)


def _by_its_type(value: Any) -> Any:
    from pydantic import TypeAdapter  # few values need it

    try:
        return TypeAdapter(type(value)).dump_python(value, mode="json")
    except Exception:  # pydantic's errors differ by release, and a type's own code may raise anything
        raise PydanticSerializationError(f"{type(value).__name__} has no place in JSON") from None

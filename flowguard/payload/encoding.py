"""The text of payloads, state and results. Pydantic models and JSON values become JSON, text stays what it is."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import ValuesView
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json

from flowguard.errors import PayloadInvalid, PayloadLost
from flowguard.payload.foreign import recognised
from flowguard.startup.late_pattern import late_pattern

Payload = BaseModel | dict[str, Any] | str
"""What a stage may take and a message may carry."""

_MOST_PROBLEMS = 5

_UNSENDABLE = late_pattern("[\ufffe\uffff]")
"""What JSON may hold as it is, and SQS and SNS refuse. In JSON such a character stands in a string, or nowhere."""


def is_payload_type(kind: object) -> bool:
    """Answer whether a stage may declare this type for its payload."""
    return kind is str or kind is dict or _is_model(kind)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def encode(value: object) -> str:
    """Return the text that travels. Raises as :func:`encode_json` does."""
    if isinstance(value, str):
        return value
    return encode_json(value)


def encode_json(value: object) -> str:
    """Encode a value as JSON text, a string included. Decimals and dates become what pydantic makes of them (text).

    Raises TypeError, naming the type, for what JSON cannot hold; half a surrogate pair is such a thing, and so is what
    contains itself, or is very deep. Raises :class:`PayloadLost`, naming the place, for a float that is no number.
    """
    try:
        if isinstance(value, BaseModel):
            text = value.model_dump_json(by_alias=True)
        else:
            text = to_json(value, inf_nan_mode="null").decode()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise TypeError(f"{type(value).__name__} cannot become JSON: {error}") from None
    is_doubtful = any(sign in text for sign in _OF_NO_NUMBER) and _has_no_number(value)
    if is_doubtful and (place := _no_number(value, json.loads(text), "")) is not None:
        name = f"{type(value).__name__}{place}"
        raise PayloadLost(f"{name} is NaN or infinite, which JSON does not have; give None or a text in its place")
    return sendable_json(text)


_OF_NO_NUMBER: Final = ("null", "NaN", "Infinity")
"""What stands in the text of a value with a float that is no number. Other texts need no look at the value."""

_WITHOUT_FLOATS: Final = frozenset({str, int, bool, type(None)})
_SEVERAL: Final = (list, tuple, set, frozenset, ValuesView)


def _has_no_number(value: Any) -> bool:
    """Answer whether some float in the value is no number, whatever its text has in its place."""
    if type(value) in _WITHOUT_FLOATS:
        return False
    inner = _inside(value)
    if isinstance(inner, float):
        return not math.isfinite(inner)
    parts = inner.values() if isinstance(inner, dict) else inner
    return isinstance(parts, _SEVERAL) and any(map(_has_no_number, parts))


def _inside(value: Any) -> Any:
    """Return what a model or a data class holds, and any other value as it is."""
    if isinstance(value, BaseModel):
        return _dumped(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return value


def _no_number(value: Any, tree: Any, place: str) -> str | None:
    """Return the place of a float that is no number, and that the JSON ``tree`` of the value does not have as text."""
    value = _inside(value)
    if isinstance(value, float):
        return None if math.isfinite(value) or isinstance(tree, str) else place
    return next((inner for part in _parts(value, tree, place) if (inner := _no_number(*part)) is not None), None)


def _parts(value: Any, tree: Any, place: str) -> list[tuple[Any, Any, str]]:
    """Return the parts of a value, each with its JSON and its place. None where a serializer has made other ones."""
    if isinstance(value, dict) and isinstance(tree, dict):
        return [
            (part, of_part, f"{place}.{name[:80]}")
            for part, (name, of_part) in zip(value.values(), tree.items(), strict=False)
        ]
    if isinstance(value, _SEVERAL) and isinstance(tree, list):
        pairs = enumerate(zip(value, tree, strict=False))
        return [(part, of_part, f"{place}[{number}]") for number, (part, of_part) in pairs]
    return []


def _dumped(value: BaseModel) -> dict[str, Any]:
    """Return the values of a model. Some models become JSON alone, such as one with a set of models."""
    try:
        return value.model_dump(by_alias=True)
    except Exception:  # pydantic makes no set of models, and a user's serializer may raise anything
        return value.model_dump(mode="json", by_alias=True)


def sendable_json(text: str) -> str:
    """Escape what JSON may hold as it is and SQS refuses. It stays the same value."""
    return text if text.isascii() else _UNSENDABLE.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


def decode(kind: type[Any], text: str, *, what: str) -> Any:
    """Decode ``text`` to a value of ``kind``.

    Raises :class:`PayloadInvalid`, which names fields and never quotes values.
    """
    if kind is str:
        return text
    if _is_model(kind):
        return _decode_model(kind, text, what)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadInvalid(f"{what} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise PayloadInvalid(f"{what} is JSON, but not an object")
    return data


def _decode_model(kind: type[BaseModel], text: str, what: str) -> BaseModel:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise PayloadInvalid(f"{what} is no {kind.__name__}: {problems_of(error)}{_recognised(text)}") from None


def _recognised(text: str) -> str:
    try:
        return recognised(json.loads(text))
    except (ValueError, RecursionError):
        return ""


_QUOTES: Final = {
    "union_tag_invalid": "is of an unknown kind",
    "zoneinfo_str": "is no time zone",
    "import_error": "cannot be imported",
}
"""Types of pydantic's errors whose messages quote the input, each with other words."""


def problem_of(row: ErrorDetails) -> str:
    """Return pydantic's own words where they quote nothing of the input."""
    return _QUOTES.get(row["type"], row["msg"])


def problems_of(error: ValidationError) -> str:
    """Say what does not validate. Fields are named, and no value is quoted."""
    rows = error.errors(include_input=False, include_url=False, include_context=False)
    shown = [f"{'.'.join(map(str, row['loc'])) or 'the whole'}: {problem_of(row)}" for row in rows[:_MOST_PROBLEMS]]
    if len(rows) > _MOST_PROBLEMS:
        shown.append(f"and {len(rows) - _MOST_PROBLEMS} more")
    return "; ".join(shown)

"""One message attribute in the four forms in which AWS writes it. It has a data type and a value.

=====================  ===============  ==================================  ======================================
form                   the type is in   text and numbers are in             bytes are in
=====================  ===============  ==================================  ======================================
a record of a Lambda   ``dataType``     ``stringValue``                     ``binaryValue``, as base64
``receive-message``    ``DataType``     ``StringValue``                     ``BinaryValue``, as base64 or as bytes
a notification         ``Type``         ``Value``                           ``Value``, as base64
the API of SQS, SNS    ``DataType``     ``StringValue``                     ``BinaryValue``, as bytes
=====================  ===============  ==================================  ======================================

A type is ``String``, ``Number`` or ``Binary``. A dot and a label of the sender's may follow (``Number.int``,
``Binary.png``). ``String.Array`` is the one label with a meaning: the value is a JSON array.
"""

from __future__ import annotations

import json
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from flowguard.errors import EnvelopeError, RunFailed, shown
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import LONGEST_PART, bounded


class Attribute(NamedTuple):
    """A message attribute.

    ``value`` is text as it is on the wire: a number in digits, bytes in base64, an array in JSON.
    """

    type: str
    value: str

    # -- made by a sender --------------------------------------------------------------------------------------------

    @classmethod
    def string(cls, text: str) -> Attribute:
        return cls("String", text)

    @classmethod
    def number(cls, number: float | Decimal) -> Attribute:
        """Make a Number. Raises ValueError for what is no number on the wire: infinity, not-a-number."""
        text = str(number)
        if problem := _not_a_number(text):
            raise ValueError(problem)
        return cls("Number", text)

    @classmethod
    def binary(cls, data: bytes) -> Attribute:
        return cls("Binary", b64encode(data).decode("ascii"))

    @classmethod
    def array(cls, items: Iterable[str | float | bool | None]) -> Attribute:
        return cls("String.Array", json.dumps(list(items), ensure_ascii=False, allow_nan=False))

    # -- read from the wire, or an EnvelopeError that says which record and field is wrong ---------------------------

    @staticmethod
    def of_sqs_record(raw: object, record: str, field: str) -> Attribute:
        return _read(raw, _SQS_RECORD, record, field)

    @staticmethod
    def of_receive_message(raw: object, record: str, field: str) -> Attribute:
        return _read(raw, _RECEIVE_MESSAGE, record, field)

    @staticmethod
    def of_notification(raw: object, record: str, field: str) -> Attribute:
        return _read(raw, _NOTIFICATION, record, field)

    # -- written to the wire -----------------------------------------------------------------------------------------

    @property
    def is_binary(self) -> bool:
        return self.type.partition(".")[0] == "Binary"

    @property
    def data(self) -> bytes:
        """Return the sender's bytes. A Binary is decoded from base64, everything else is UTF-8."""
        return a2b_base64(self.value) if self.is_binary else self.value.encode()

    def to_sqs_api(self) -> dict[str, Any]:
        if self.is_binary:
            return {"DataType": self.type, "BinaryValue": self.data}
        return {"DataType": self.type, "StringValue": self.value}

    def to_sns_api(self) -> dict[str, Any]:
        return self.to_sqs_api()

    def to_notification(self) -> dict[str, Any]:
        return {"Type": self.type, "Value": self.value}

    def to_sqs_record(self) -> dict[str, Any]:
        key = "binaryValue" if self.is_binary else "stringValue"
        return {key: self.value, "stringListValues": [], "binaryListValues": [], "dataType": self.type}


def read_attributes(
    raw: object, read: Callable[[object, str, str], Attribute], record: str, field: str
) -> dict[str, Attribute]:
    """Read a whole map of attributes with one of ``Attribute.of_…``. There are none where there is no map."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise EnvelopeError(record, field, f"expected an object of attributes, got {json_kind(raw)}")
    try:
        return {name: read(value, record, field) for name, value in raw.items()}
    except EnvelopeError:  # few have one: the place of each is said only then
        return {name: read(value, record, f"{field}.{bounded(name, LONGEST_PART)}") for name, value in raw.items()}


def attributes_to(write: Callable[[Attribute], dict[str, Any]], attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """Write the map in another form: ``attributes_to(Attribute.to_sqs_api, attributes)``."""
    return {name: write(attribute) for name, attribute in attributes.items()}


def attributes_of(given: object) -> dict[str, Attribute]:
    """Return the attributes that a sender gives by name. A plain text stands for a String.

    Raises :class:`RunFailed`, naming the attribute and its type, for anything else. Its value is not repeated.
    """
    if not isinstance(given, Mapping):
        raise RunFailed(f'attributes is {json_kind(given)}; give each by its name: {{"tenant": "t1"}}')
    attributes = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise RunFailed(f"attributes has the name {shown(name)}, and a name is a text")
        if not isinstance(value, Attribute | str):
            fix = "write text, Attribute.number(…), Attribute.binary(…) or Attribute.array(…)"
            raise RunFailed(f"the attribute {shown(name)} is {json_kind(value)}; {fix}")
        attributes[name] = Attribute.string(value) if isinstance(value, str) else value
    return attributes


def json_kind(value: object) -> str:
    """Name the value's kind as JSON does, for an error message."""
    return _JSON_KINDS.get(type(value)) or type(value).__name__


_JSON_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


# -- one reader for the three forms ----------------------------------------------------------------------------------


class _Form(NamedTuple):
    type: str
    text: str
    binary: str


_SQS_RECORD: Final = _Form("dataType", "stringValue", "binaryValue")
_RECEIVE_MESSAGE: Final = _Form("DataType", "StringValue", "BinaryValue")
_NOTIFICATION: Final = _Form("Type", "Value", "Value")


def _read(raw: object, form: _Form, record: str, field: str) -> Attribute:
    if not isinstance(raw, dict):
        raise EnvelopeError(record, field, f"expected an object with {form.type} and a value, got {json_kind(raw)}")
    kind = raw.get(form.type)
    if kind == "String" and type(text := raw.get(form.text)) is str:  # nearly all are
        return Attribute(kind, text)
    if not isinstance(kind, str) or (base := kind.partition(".")[0]) not in _BASES:
        raise EnvelopeError(record, f"{field}.{form.type}", _type_problem(kind))
    key = form.binary if base == "Binary" else form.text
    value = raw.get(key)
    if not isinstance(value, str):
        value = _text_of(value, base, record, f"{field}.{key}")
    check = _CHECKS.get(kind) or _CHECKS.get(base)
    if check is not None and (problem := check(value)) is not None:
        raise EnvelopeError(record, f"{field}.{key}", problem)
    return Attribute(kind, value)


def _text_of(value: object, base: str, record: str, field: str) -> str:
    if isinstance(value, bytes) and base == "Binary":  # boto3 has decoded it
        return b64encode(value).decode("ascii")
    problem = f"missing, and a {base} needs it" if value is None else f"expected text, got {json_kind(value)}"
    raise EnvelopeError(record, field, problem)


def _type_problem(kind: object) -> str:
    if kind is None or kind == "":
        return "missing: an attribute has a data type, String, Number or Binary"
    return f"{shown(kind)} is no data type: it is String, Number or Binary, with a label after a dot at most"


# The grammar of SQS: no spaces, no infinity. Its 38 digits of precision are the sender's business.
_NUMBER: Final = late_pattern(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _not_a_number(value: str) -> str | None:
    return None if _NUMBER.fullmatch(value) else f"{shown(value)} is not a number"


def _not_base64(value: str) -> str | None:
    try:
        a2b_base64(value, strict_mode=True)
    except ValueError:
        return f"{shown(value)} is not base64"
    return None


def _not_an_array(value: str) -> str | None:
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        data = None
    return None if isinstance(data, list) else f"{shown(value)} is not a JSON array"


_BASES: Final = frozenset({"String", "Number", "Binary"})
_CHECKS: Final[dict[str, Callable[[str], str | None]]] = {
    "String.Array": _not_an_array,
    "Number": _not_a_number,
    "Binary": _not_base64,
}

"""Values that break careless code, each under a plain name.

They are texts, ids, numbers, structures, attributes and times. Each group is a mapping from names to values. A value is
made when it is asked for, so that a huge one costs nothing until then, and it is the same each time.
"""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from flowguard.wire.attributes import Attribute

_Value = TypeVar("_Value")
_Held_co = TypeVar("_Held_co", covariant=True)

LARGEST_ITEM = 409_600
"""Bytes of the largest item of DynamoDB: 400 KB."""

LARGEST_MESSAGE = 1_048_576
"""Bytes of the largest message of SQS: 1 MiB."""


class Values(Mapping[str, _Held_co]):
    """Named values, made when they are asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], _Held_co]]) -> None:
        self.makers = dict(makers)

    def __getitem__(self, name: str) -> _Held_co:
        return self.makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)

    def drawn(self, seed: float | str) -> _Held_co:
        """Choose one of the values, the same for the same seed."""
        return self[random.Random(seed).choice(list(self.makers))]  # noqa: S311 - repeatable on purpose


def _fixed(values: Mapping[str, _Value]) -> dict[str, Callable[[], _Value]]:
    return {name: _constantly(value) for name, value in values.items()}


def _constantly(value: _Value) -> Callable[[], _Value]:
    return lambda: value


def noise(length: int) -> str:
    """Make ASCII text that hardly compresses. It is the same for the same length."""
    drawn = random.Random(length).randbytes(length)  # noqa: S311 - repeatable on purpose
    return urlsafe_b64encode(drawn)[:length].decode()


_NOTIFICATION = (
    '{"Type":"Notification","MessageId":"m-1","TopicArn":"arn:aws:sns:us-east-1:123456789012:t",'
    '"Message":"{}","Timestamp":"2026-01-02T03:04:05.678Z"}'
)

SENDABLE = Values(
    _fixed(
        {
            "a space": " ",
            "spaces around": "  a  ",
            "a newline": "\n",
            "a tab and a carriage return": "\t\r\n",
            "quotes": "'\"`",
            "a backslash": "\\",
            "a hash": "#",
            "a bar": "|",
            "a slash": "/",
            "dots": "../..",
            "a colon": ":",
            "a percent sign": "%00%s%(a)s",
            "braces": "{0}{a}",
            "markup": "<script>alert(1)</script>&amp;]]>",
            "SQL": "'; DROP TABLE orders; --",
            "a number's look": "1e999",
            "the look of nothing": "null",
            "JSON's look": '{"order_id":"o1","total":7}',
            "JSON cut short": '{"order_id":',
            "JSON with NaN": '{"total":NaN}',
            "JSON with a number too large": '{"total":1e999}',
            "JSON with half a surrogate pair": '{"order_id":"\\ud800"}',
            "JSON with U+0000": '{"order_id":"\\u0000"}',
            "JSON with one name twice": '{"a":1,"a":2}',
            "a notification's look": _NOTIFICATION,
            "a notification cut short": _NOTIFICATION[:90],
            "a notification with NaN": f'{_NOTIFICATION[:-1]},"x":NaN}}',
            "accents": "éàü",
            "combining marks": "e\u0301\u0323" + "\u0300" * 40,
            "bidi overrides": "\u202eabc\u202d\u2066\u2069",
            "zero width": "a\u200b\u200d\ufeffb",
            "line separators": "a\u2028b\u2029c",
            "astral characters": "\U0001f600\U0010fffd",
            "DEL and C1 controls": "\x7f\x80\x9b31m\x9f",
            "private use": "\ue000\uf8ff",
        }
    )
    | {
        "201 characters": lambda: "gateway down " * 15 + "abcdef",
        "501 characters in lines": lambda: "line one\nline two\n" * 27 + "the end, really",
        "10,001 characters": lambda: "é" * 10_001,
        "10,001 characters of noise": lambda: noise(10_001),
        "deep JSON": lambda: "[" * 100_000,
    }
)
"""Texts that SQS and SNS take."""

UNSENDABLE = Values(
    _fixed(
        {
            "U+0000": "a\0b",
            "C0 controls": "\x01\x02\x08\x0b\x0c\x0e\x1f",
            "a colour": "\x1b[31mred\x1b[0m",
            "a clipboard write": "\x1b]52;c;aGVsbG8=\x07",
            "U+FFFE": "\ufffe",
            "U+FFFF": "a\uffff",
            "the first half of a surrogate pair": "\ud800",
            "the second half of a surrogate pair": "a\udfffb",
            "both halves in the wrong order": "\udc00\ud800",
        }
    )
    | {"300 halves of a surrogate pair": lambda: "\ud83d" * 300}
)
"""Texts that SQS and SNS refuse as they are. JSON can carry them as escapes."""

HUGE = Values(
    {
        "400 KB less one": lambda: noise(LARGEST_ITEM - 1),
        "400 KB": lambda: noise(LARGEST_ITEM),
        "400 KB and one": lambda: noise(LARGEST_ITEM + 1),
        "1 MiB less one": lambda: noise(LARGEST_MESSAGE - 1),
        "1 MiB": lambda: noise(LARGEST_MESSAGE),
        "1 MiB and one": lambda: noise(LARGEST_MESSAGE + 1),
        "1 MiB that compresses": lambda: "a" * LARGEST_MESSAGE,
    }
)
"""Texts at the limits of DynamoDB's items and of messages, one byte to each side."""

TEXTS = Values[str]({"empty": str, **SENDABLE.makers, **UNSENDABLE.makers})
"""Every text that is not huge, the empty one too."""

IDS = Values(
    {
        "128 bytes": lambda: "i" * 128,
        "129 bytes": lambda: "i" * 129,
        "128 bytes of accents": lambda: "é" * 64,
        "1,024 bytes": lambda: "i" * 1_024,
        "1,024 bytes of slashes": lambda: "/" * 1_024,
        "1,025 bytes": lambda: "i" * 1_025,
        "5,000 bytes": lambda: "i" * 5_000,
        **TEXTS.makers,
    }
)
"""Texts where an id is expected: at the limits of FIFO queues and of keys, then every other text."""

NUMBERS = Values[float | Decimal](
    _fixed(
        {
            "not a number": float("nan"),
            "infinity": float("inf"),
            "negative infinity": float("-inf"),
            "negative zero": -0.0,
            "the largest float": 1.7976931348623157e308,
            "the smallest float": 5e-324,
            "a float of 17 digits": 0.1 + 0.2,
            "38 digits": 10**38 - 1,
            "39 digits": 10**38 + 1,
            "401 digits": 10**400,
            "2**53 and one": 2**53 + 1,
            "2**63": 2**63,
            "true": True,
            "false": False,
            "a Decimal of 38 digits": Decimal("0." + "1" * 38),
            "a Decimal of 39 digits": Decimal("0." + "1" * 39),
            "a Decimal that is not a number": Decimal("NaN"),
            "a Decimal that signals": Decimal("sNaN"),
            "an infinite Decimal": Decimal("-Infinity"),
            "a Decimal beyond DynamoDB's": Decimal("1E+126"),
        }
    )
)


def nested(levels: int) -> list[Any]:
    """Make a list in a list in a list, so many levels deep."""
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


STRUCTURES = Values[Any](
    {
        "nothing": lambda: None,
        "an empty object": dict,
        "an empty list": list,
        "an empty name": lambda: {"": 1},
        "a name that is no text": lambda: {5: "five"},
        "a name with half a surrogate pair": lambda: {"\ud800": 1},
        "bytes": lambda: b"\x00\xff",
        "a set": lambda: {"a", "b"},
        "an empty set": set,
        "a set of two kinds": lambda: {"a", 1},
        "a set with half a surrogate pair": lambda: {"\ud800"},
        "a set with a number too long": lambda: {10**400},
        "a tuple": lambda: (1, "a"),
        "an object of no class that JSON knows": object,
        "a function": lambda: len,
        "32 levels": lambda: nested(32),
        "33 levels": lambda: nested(33),
        "300 levels": lambda: nested(300),
        "100,000 levels": lambda: nested(100_000),
        "a list that contains itself": _endless,
        "1,000 names": lambda: {f"name-{number}": number for number in range(1_000)},
        "a name of 70,000 bytes": lambda: {"n" * 70_000: 1},
    }
)
"""Values of any kind: what JSON, or DynamoDB, or the stack has no room for, and what is at the limit."""


def _several(number: int) -> dict[str, Attribute]:
    return {f"a{place}": Attribute.string("x") for place in range(number)}


ATTRIBUTES = Values[Mapping[str, Attribute]](
    {
        "none": dict,
        "ten": lambda: _several(10),
        "eleven": lambda: _several(11),
        "no value": lambda: {"a": Attribute.string("")},
        "no name": lambda: {"": Attribute.string("x")},
        "a name of 256 characters": lambda: {"n" * 256: Attribute.string("x")},
        "a name of 257 characters": lambda: {"n" * 257: Attribute.string("x")},
        "a name of Amazon's": lambda: {"AWS.TraceHeader": Attribute.string("x")},
        "a name with a space": lambda: {"a b": Attribute.string("x")},
        "a name with two dots": lambda: {"a..b": Attribute.string("x")},
        "a name with an accent": lambda: {"é": Attribute.string("x")},
        "no type": lambda: {"a": Attribute("", "x")},
        "a type that there is not": lambda: {"a": Attribute("Text", "x")},
        "a type with a label": lambda: {"a": Attribute("String.label", "x")},
        "a type of 257 characters": lambda: {"a": Attribute(f"String.{'l' * 250}", "x")},
        "a type with U+0000": lambda: {"a": Attribute("String.\0", "x")},
        "a number that is none": lambda: {"a": Attribute("Number", "seven")},
        "a number of 38 digits": lambda: {"a": Attribute("Number", "9" * 38)},
        "bytes that are no base64": lambda: {"a": Attribute("Binary", "%")},
        "no bytes": lambda: {"a": Attribute.binary(b"")},
        "a zero byte": lambda: {"a": Attribute.binary(b"\0")},
        "an array": lambda: {"a": Attribute.array(["x", 1, None])},
        "an array that is none": lambda: {"a": Attribute("String.Array", "[")},
    }
)
"""Message attributes: what SQS takes, and beside it what it does not."""

TIMES = Values(
    _fixed(
        {
            "negative": -1,
            "zero": 0,
            "seconds": 1_800_000_000,
            "microseconds": 1_800_000_000_000_000,
            "nanoseconds": 1_800_000_000_000_000_000,
            "the end of 9999": 253_402_300_799_999,
            "the year 10000": 253_402_300_800_000,
            "15 digits": 999_999_999_999_999,
            "2**63": 2**63,
            "401 digits": 10**400,
        }
    )
)
"""Whole numbers where milliseconds since 1970 are expected."""

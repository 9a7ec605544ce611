"""No control of a sender's reaches whoever looks, and no long text fills what they look at."""

from __future__ import annotations

import json
import sys

import pytest

from flowguard.text.printable import LONGEST, bounded, one_line, printable, printable_json


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain, Müller, ☕, 👍", "plain, Müller, ☕, 👍"),
        ("", ""),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("a\r\tb\x00", r"a\r\tb\x00"),
        ("\x7f\x80\x9b31m\x9f", r"\x7f\x80\x9b31m\x9f"),
        ("\u202eevil\u2066\u2069\u200f\u061c", r"\u202eevil\u2066\u2069\u200f\u061c"),
        ("\u2028\u2029\u200b\ufeff", r"\u2028\u2029\u200b\ufeff"),
        ("tea \ud83d", r"tea \ud83d"),
        ("\ufffe\uffff\U000e0041", r"\ufffe\uffff\U000e0041"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_controls_are_shown_and_never_sent(text: str, seen: str) -> None:
    assert printable(text) == seen
    assert one_line(text) == seen.replace("\n", r"\n")
    seen.encode()


@pytest.mark.slow("tries generated texts")
def test_of_all_characters_none_that_is_printed_is_a_control() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = set(printable(everything))
    assert {mark for mark in left if ord(mark) < 0x20 or 0x7F <= ord(mark) < 0xA0} == {"\n"}
    assert not left & {chr(mark) for mark in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))}


def test_printable_json_is_the_same_value() -> None:
    value = {"id": "".join(map(chr, range(0x3000))) + "\ud800 \udfff\U000e0041", "\x9b": ["\u202e"]}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert printable(text) == text


def test_a_long_text_is_cut_and_says_so() -> None:
    assert bounded("x" * LONGEST) == "x" * LONGEST
    assert bounded("x" * 250_000) == "x" * LONGEST + "… (cut, of 250,000 characters)"

"""The body of a message that goes on after a wait."""

from __future__ import annotations

import pytest

from flowguard.wire.resumed_body import ResumedBody


def test_it_says_how_the_wait_has_ended_and_until_when_it_could_be_answered() -> None:
    body = ResumedBody("answered", 1_800_000_000_000)
    assert body.to_text() == '{"wait": "answered", "until": 1800000000000}'
    assert ResumedBody.read(body.to_text()) == body


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"wait": "timed out"}', ResumedBody("timed out")),
        ('{"until": 7}', ResumedBody("", 7)),
        ('{"wait": 7, "until": "soon"}', ResumedBody("")),
        ('{"wait": "answered", "until": true}', ResumedBody("answered")),
        ('{"wait": "answered", "until": 1e999}', ResumedBody("answered")),
        ("[]", ResumedBody("")),
        ("no JSON", ResumedBody("")),
        ("[" * 100_000, ResumedBody("")),
    ],
)
def test_what_another_has_written_says_nothing(text: str, read: ResumedBody) -> None:
    assert ResumedBody.read(text) == read

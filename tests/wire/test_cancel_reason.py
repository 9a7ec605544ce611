"""The reason of a cancellation: what is kept of it, and what is read."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import RunFailed
from flowguard.testing import hostile
from flowguard.wire.cancel_reason import LONGEST_REASON, read_reason, reason


@pytest.mark.parametrize("given", [text for text in hostile.TEXTS if text.strip()])
def test_a_hostile_reason_can_be_stored_and_is_read_as_it_was_written(given: str) -> None:
    why = reason(given)
    why.encode()
    assert read_reason(why) == why


def test_a_reason_is_as_long_as_allowed_or_is_cut() -> None:
    assert reason("x" * LONGEST_REASON) == "x" * LONGEST_REASON
    assert reason("x" * (LONGEST_REASON + 1)).startswith("x" * LONGEST_REASON + "… (cut")


@pytest.mark.parametrize("why", [None, 7, "", " \n"])
def test_a_reason_that_says_nothing_is_refused(why: Any) -> None:
    with pytest.raises(RunFailed, match="write a text that says why"):
        reason(why)


@pytest.mark.parametrize("why", [None, 7, "", " ", "x" * (2 * LONGEST_REASON + 1)])
def test_a_reason_that_cannot_be_kept_is_not_read(why: Any) -> None:
    with pytest.raises(ValueError, match="whose reason is no text of at most 400 characters"):
        read_reason(why)


def test_the_longest_reason_that_is_read() -> None:
    assert read_reason("x" * (2 * LONGEST_REASON)) == "x" * (2 * LONGEST_REASON)


def test_a_stranger_may_write_what_nothing_stores() -> None:
    assert read_reason("half \ud800 a pair") == "half \\ud800 a pair"

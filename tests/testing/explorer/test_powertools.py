"""Handlers behind the decorators of Powertools are explored as they are: the real library, and nothing in its place."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.testing import PlainFunction, explore
from flowguard.testing.explorer import Report
from tests.testing.explorer import powertools_handlers as handlers

pytestmark = pytest.mark.proof("explores handlers behind Powertools' decorators")

ORDER = {"order_id": "o1", "amount": 5}
OTHER = {"order_id": "o2", "amount": 7}


def explored(handler: Any, **about: Any) -> Report:
    function = PlainFunction("orders", handler, visibility=180, timeout=30, **about)
    return explore(function, [ORDER, OTHER], tables=handlers.TABLES, free=handlers.FREE, bound=20, walks=10)


BATCH, DIRECT = {"batch": 2}, {"direct": True}


@pytest.mark.parametrize(
    ("handler", "about"),
    [
        (handlers.puts_batch, BATCH),
        (handlers.puts_batch_in_a_loop, BATCH),
        (handlers.puts_logged, {}),
        (handlers.puts_parsed, BATCH),
        (handlers.puts_idempotent, DIRECT),
    ],
    ids=["batch", "async batch", "logger", "parser", "idempotent"],
)
def test_a_sound_handler_is_clean(handler: Any, about: dict[str, Any]) -> None:
    report = explored(handler, **about)
    assert report.ok, str(report)
    assert {one.status for one in report.undisturbed_ends} == {"COMPLETED"}


@pytest.mark.parametrize(
    ("handler", "about"),
    [
        (handlers.adds_batch, BATCH),
        (handlers.adds_logged, {}),
        (handlers.adds_parsed, BATCH),
        (handlers.adds_idempotent, DIRECT),
    ],
    ids=["batch", "logger", "parser", "idempotent"],
)
def test_a_bug_behind_a_decorator_is_found_at_its_own_line(handler: Any, about: dict[str, Any]) -> None:
    report = explored(handler, **about)
    assert report.violations, "the day's total counts an order twice"
    for violation in report.violations:
        assert violation.rule == "equivalence"
        assert violation.site is not None
        assert (violation.site.file, violation.site.function) == (handlers.__file__, "add")

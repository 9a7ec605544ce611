"""Handlers that do several things: a bug is reported once, at its own line and by its own name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proofs.recall import cases
from tests.proofs.recall.case import Case, Result

SINGLE: Any = {"bound": 0, "walks": 0}
BY_KIND = {case.kind: case for case in (*cases.BUGS, *cases.SOUND)}


def found(kind: str, **budget: Any) -> Result:
    result = BY_KIND[kind].run({**SINGLE, **budget})
    assert result.outcome.report is not None, result.error
    return result


def rules(result: Result) -> list[str]:
    assert result.outcome.report is not None
    return [one.rule for one in result.outcome.report.violations]


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("says when", ["equivalence"]),  # and not an order that makes a difference, which the time alone does
        ("adds a line to an object", ["not one after the other", "equivalence"]),  # the order of lines, and copies
        ("keeps records in a class of another module", ["module state"]),
        ("keeps records in an object", ["module state"]),
        ("counts an object", ["equivalence"]),
    ],
)
def test_a_bug_is_found_at_its_line_and_called_what_it_is(kind: str, wanted: list[str]) -> None:
    result = found(kind)
    assert rules(result) == wanted
    assert result.is_right


@pytest.mark.proof("explores a whole case")
def test_what_follows_from_a_fault_that_is_known_is_not_reported_again() -> None:
    result = found("reserves, then notes it", bound=40)
    assert [one.schedule for one in result.outcome.report.violations] == ["a1"]  # type: ignore[union-attr]  # is not None


@pytest.mark.proof("explores a whole case")
def test_a_topic_is_not_taken_for_the_bucket_of_its_name() -> None:
    assert found("marks at the end").is_right


@pytest.mark.proof("explores flows")
def test_what_an_attempt_left_makes_the_next_one_pass_over_is_one_problem() -> None:
    result = found("locks without an end")
    assert result.is_right
    assert all("was never made" in one.fix for one in result.outcome.report.violations)  # type: ignore[union-attr]  # as above


@pytest.mark.slow("explores flows and handlers")
def test_a_lost_update_of_an_object_is_never_said_to_be_free() -> None:
    fixes = [one.fix for one in found("adds a line to an object").outcome.report.violations]  # type: ignore[union-attr]  # as above
    assert any("IfMatch" in one for one in fixes)
    assert not any("free=" in one for one in fixes)


@pytest.mark.slow("explores flows and handlers")
def test_a_cache_of_another_module_is_no_leak() -> None:
    assert found("looks up prices").is_good


@pytest.mark.slow("explores flows and handlers")
def test_what_modules_keep_is_named_to_the_attribute() -> None:
    for kind, name in (("keeps records in a class of another module", "Seen.skus"),
                       ("keeps records in an object", "buffer.orders")):  # fmt: skip
        (violation,) = found(kind).outcome.report.violations  # type: ignore[union-attr]  # as above
        assert f"tests.proofs.recall.shared.{name}" in violation.fix


def test_a_missing_service_ends_the_search_at_once() -> None:
    case = BY_KIND["asks for a secret"]
    result = Case(case.kind, case.of, (*case.messages, cases.OTHER, cases.CHANGED)).run({})
    assert result.outcome.report is not None
    assert result.outcome.report.schedules == 1

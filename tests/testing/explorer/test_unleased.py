"""A flow without leases is explored as any other, and what its commits compare is missed where it is left out."""

from __future__ import annotations

from typing import Final

import pytest

from flowguard.aws import expressions
from flowguard.flow import Flow
from flowguard.testing.explorer import Report, explore
from tests.testing.explorer import seeded

_ANY: Final = (
    "(request_id = :read_request_id OR request_id <> :read_request_id) AND "
    "(epoch = :read_epoch OR epoch <> :read_epoch) AND (#owner = :read_owner OR #owner <> :read_owner) AND "
    "(done = :read_done OR done <> :read_done)"
)


class FirstUnclaimed(seeded.First, name="first", lease=False):
    """As its base."""


class LastUnclaimed(seeded.Second, name="second", lease=False):
    """As its base."""


class Unclaimed(Flow, name="two-stages", object_id="order_id"):
    stages = (FirstUnclaimed, LastUnclaimed)


def explored(most: int) -> Report:
    order = seeded.Order(order_id="o1")
    return explore(Unclaimed, [order], tables=seeded.TABLES, bound=0, walks=0, most=most)


@pytest.mark.proof("explores every single fault")
def test_a_flow_without_leases_leaves_the_undisturbed_end() -> None:
    report = explored(20)
    assert report.ok, str(report)
    assert report.coverage["first: GetItem of claim"]


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("guard", ["UNCHANGED", "ABSENT"])
def test_a_commit_over_another_one_is_noticed(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    anything = _ANY if guard == "UNCHANGED" else "attribute_exists(pk) OR attribute_not_exists(pk)"
    monkeypatch.setattr(expressions, guard, anything)
    report = explored(2)
    assert "I3" in {violation.rule for violation in report.violations}, str(report)

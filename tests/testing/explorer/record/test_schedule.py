"""A schedule's id says it all, and is all there is to it."""

from __future__ import annotations

import pickle

import pytest

from flowguard.testing.explorer.record.schedule import Choice, FaultKind, NoSuchSchedule, Schedule
from flowguard.testing.explorer.search.shrink import shrunk


@pytest.mark.parametrize(
    "text", ["none", "d3", "d3.l7", "z2-4.a5", "x1-1.o2-3.t9.e10.v11", "p4-1.p4-11.u5.a6-1.r1-1", "x2-2.r1"]
)
def test_an_id_is_read_and_written_alike(text: str) -> None:
    assert Schedule.parse(text).id == text


@pytest.mark.parametrize(("text", "part"), [("d0", "d0"), ("j3", "j3"), ("d3,l7", "d3,l7"), ("", ""), ("d3..l7", "")])
def test_what_is_no_id_is_refused_by_its_part(text: str, part: str) -> None:
    with pytest.raises(NoSuchSchedule, match="is no schedule") as refused:
        Schedule.parse(text)
    assert refused.value.part == part
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301 - our own


def test_choices_are_found_by_their_place_and_kind() -> None:
    schedule = Schedule.parse("d3.l7.x3")
    assert schedule.find(3, frozenset({FaultKind.DIES_BEFORE})) == [Choice(3, FaultKind.DIES_BEFORE)]
    assert schedule.has(frozenset({FaultKind.LOST}))
    assert not schedule.has(frozenset({FaultKind.ERROR}))


def test_what_does_not_matter_of_a_fault_is_dropped_too() -> None:
    assert shrunk(Schedule.parse("z3-4.x1-2"), lambda one: "z3" in one.id).id == "z3"
    assert shrunk(Schedule.parse("p3-12"), lambda one: "p3-12" in one.id).id == "p3-12"


def test_faults_that_do_not_matter_are_dropped() -> None:
    assert shrunk(Schedule.parse("d1.e2.a3.t4"), lambda one: "a3" in one.id).id == "a3"
    assert shrunk(Schedule.parse("d1.e2.a3"), lambda one: "d1" in one.id and "a3" in one.id).id == "d1.a3"

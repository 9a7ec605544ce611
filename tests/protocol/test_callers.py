"""Callers and their lists: what is noted of a request, at its limits, and the text of it."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import LARGEST_ASKER, MOST_HELD, Caller, Callers, LeftEnd, StoredEnd, asker_key
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message

TENANT = {"tenant": Attribute.string("t")}
CALLER = Caller(RequestId("r"), 5, "sqs:replies", "7", 2, TENANT)
MESSAGE = Message(
    "flow",
    "stage",
    1,
    ObjectId("o"),
    RequestId("r"),
    5,
    "{}",
    redrive=2,
    reply_to="sqs:replies",
    answer_to="7",
    carried=TENANT,
)


def test_a_request_with_a_reply_to_is_a_caller() -> None:
    assert Caller.of(MESSAGE) == Caller.asking(MESSAGE) == CALLER


def test_a_request_without_a_reply_to_is_none() -> None:
    assert Caller.of(MESSAGE._replace(reply_to=None)) is None
    assert Caller.asking(MESSAGE._replace(reply_to=None)) is None


def filled(caller: Caller, name: str, size: int) -> Caller:
    """The caller whose text has so many bytes."""

    def with_text(length: int) -> Caller:
        if name == "carried":
            return caller._replace(carried={"tenant": Attribute.string("t" * length)})
        return caller._replace(reply_to="s" * length)

    return with_text(size - len(with_text(0).to_text().encode()))


@pytest.mark.parametrize(("over", "is_whole"), [(0, True), (1, False)])
def test_a_claim_notes_carried_attributes_up_to_a_limit(over: int, is_whole: bool) -> None:
    long = filled(CALLER, "carried", LARGEST_ASKER + over)
    assert len(long.to_text().encode()) == LARGEST_ASKER + over
    noted = Caller.asking(MESSAGE._replace(carried=long.carried))
    assert noted == (long if is_whole else CALLER._replace(carried={}))


@pytest.mark.parametrize(("over", "is_noted"), [(0, True), (1, False)])
def test_a_claim_notes_no_request_that_is_too_long_without_them(over: int, is_noted: bool) -> None:
    long = filled(CALLER._replace(carried={}), "reply_to", LARGEST_ASKER + over)
    noted = Caller.asking(MESSAGE._replace(reply_to=long.reply_to))
    assert noted == (long if is_noted else None)


@pytest.mark.parametrize("caller", [CALLER, CALLER._replace(carried={}), CALLER._replace(answer_to=None, redrive=0)])
def test_a_caller_is_read_back_from_its_text(caller: Caller) -> None:
    assert Caller.from_text(caller.to_text()) == caller


def test_the_text_of_a_caller_is_short_json() -> None:
    assert CALLER.to_text() == '["r",5,"sqs:replies","7",2,{"tenant":["String","t"]}]'


def test_an_answer_has_one_id_whichever_run_gives_it() -> None:
    assert CALLER.reply_id("flow", ObjectId("o")) == f"{MESSAGE.hop_id}.end"


@pytest.mark.parametrize(
    ("changes", "flow", "object_id"),
    [
        ({"request_id": RequestId("s")}, "flow", "o"),
        ({"requested_at": 6}, "flow", "o"),
        ({"redrive": 3}, "flow", "o"),
        ({}, "another", "o"),
        ({}, "flow", "another"),
    ],
)
def test_answers_of_two_requests_have_two_ids(changes: dict[str, Any], flow: str, object_id: str) -> None:
    other = CALLER._replace(**changes).reply_id(flow, ObjectId(object_id))
    assert other != CALLER.reply_id("flow", ObjectId("o"))


def test_one_id_at_two_times_is_two_callers_and_one_run() -> None:
    later = CALLER._replace(requested_at=6)
    assert later.key != CALLER.key
    assert len(CALLER.key) == len(asker_key(CALLER.request_id)) == 16
    assert asker_key(RequestId("r")) != asker_key(RequestId("s"))


def test_a_key_is_made_of_any_text() -> None:
    assert len(CALLER._replace(request_id=RequestId("\ud800")).key) == 16


@pytest.mark.parametrize(("number", "is_full"), [(0, False), (MOST_HELD - 1, False), (MOST_HELD, True)])
def test_an_item_holds_so_many_callers(number: int, is_full: bool) -> None:
    assert Callers("term", {str(one): "" for one in range(number)}).is_full is is_full


def test_the_callers_of_an_item_are_always_in_one_order() -> None:
    first, second = CALLER, CALLER._replace(requested_at=6)
    texts = {"b": second.to_text(), "a": first.to_text()}
    assert Callers("term", texts).in_item == (first, second)


def test_the_end_of_a_run_is_compared_without_what_reads_it() -> None:
    end = StoredEnd(RequestId("r"), 5, "COMPLETED", "7")
    assert LeftEnd(end.request_id, 5, Callers("t"), lambda: end) == LeftEnd(end.request_id, 5, Callers("t"), list)  # type: ignore[arg-type]  # it is not called
    read = LeftEnd(end.request_id, 5, Callers("t"), lambda: end)
    assert read != read._replace(committed_at=6)
    assert read != end


def test_a_caller_is_named_by_all_that_its_answer_depends_on() -> None:
    bare = Caller(RequestId("r"), 5, "sqs:replies")
    others = (
        bare._replace(request_id=RequestId("s")),
        bare._replace(requested_at=6),
        bare._replace(reply_to="sqs:mine"),
        bare._replace(answer_to="{}"),
        bare._replace(redrive=1),
        bare._replace(depth=1),
    )
    assert len({bare.key, *(one.key for one in others)}) == len(others) + 1
    assert bare._replace(carried=CALLER.carried).key == bare.key

"""The ids by which copies are known: of every kind, two different things never share one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import flowguard
from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.message import LONGEST_ID, Message
from flowguard.wire.send_ids import IdKind, digest_of, id_of, key_of, stem_of_run, unnamed

MESSAGE = Message(
    flow="orders",
    stage="price",
    version=1,
    object_id=ObjectId("o1"),
    request_id=RequestId("run-1"),
    requested_at=1_800_000_000_000,
    body="{}",
    hop=2,
)
OTHERS: dict[str, Any] = {
    "flow": "returns",
    "object_id": ObjectId("o2"),
    "request_id": RequestId("run-2"),
    "requested_at": MESSAGE.requested_at + 1,
    "hop": 3,
    "redrive": 1,
}
PLACES: dict[IdKind, tuple[object, object]] = {
    IdKind.SEND: (0, 1),
    IdKind.RETRY: (1, 2),
    IdKind.CONTINUED: (1, 2),
    IdKind.BACK: (digest_of("m-1"), digest_of("m-2")),
    IdKind.LETTER: (unnamed(MESSAGE._replace(object_id=ObjectId("")), "m-1"), ""),
    IdKind.REDRIVE: (unnamed(MESSAGE._replace(flow=""), "m-1"), ""),
    IdKind.CANCEL: (0, 1),
    IdKind.CANCEL_ASK: ("group.1010.1", "group.1010.2"),
    IdKind.CANCEL_ON: ("group.1010.0", "group.2.0"),
    IdKind.MEMBER: ("group.1010.1", "group.1010.2"),
    IdKind.GROUP_ON: ("group.1010.0", "group.2.0"),
    IdKind.ASKED: ("bank", "shop"),
    IdKind.ANSWER: (digest_of("bank", "yes"), digest_of("bank", "no")),
}
"""What tells two things of a kind apart within a hop. The other kinds have one thing in each."""


def of_message(kind: IdKind, **changes: Any) -> str:
    return id_of(kind, MESSAGE._replace(**changes), PLACES.get(kind, ("", ""))[0])


def test_the_stem_of_a_run_begins_the_ids_of_all_its_hops() -> None:
    stem = stem_of_run("orders", "o1", "run-1", MESSAGE.requested_at)
    assert [MESSAGE._replace(hop=hop).hop_id for hop in (1, 2, 10)] == [f"{stem}{hop}" for hop in (1, 2, 10)]


@pytest.mark.parametrize("kind", IdKind)
@pytest.mark.parametrize("what", OTHERS)
def test_an_id_names_flow_object_request_time_and_hop(kind: IdKind, what: str) -> None:
    assert of_message(kind) == of_message(kind), "the same thing repeated has the same id"
    assert of_message(kind, **{what: OTHERS[what]}) != of_message(kind)


@pytest.mark.parametrize("kind", PLACES)
def test_two_things_of_one_hop_have_two_ids(kind: IdKind) -> None:
    one, other = PLACES[kind]
    assert id_of(kind, MESSAGE, one) != id_of(kind, MESSAGE, other)


def test_things_of_two_kinds_have_two_ids() -> None:
    assert len({of_message(kind) for kind in IdKind}) == len(IdKind)


@pytest.mark.parametrize("kind", [kind for kind in IdKind if kind is not IdKind.ASKED])
@pytest.mark.parametrize("request_id", ["run-1", "r" * 1_000])
def test_a_fifo_queue_takes_each_id(kind: IdKind, request_id: str) -> None:
    assert len(of_message(kind, request_id=RequestId(request_id))) <= LONGEST_ID


def test_what_nobody_could_read_is_told_apart_by_its_message() -> None:
    for unread in (MESSAGE._replace(object_id=ObjectId("")), MESSAGE._replace(flow="")):
        assert unnamed(unread, "m-1") == unnamed(unread, "m-1") != unnamed(unread, "m-2")
    assert unnamed(MESSAGE, "m-1") == ""


@pytest.mark.parametrize("what", [what for what in OTHERS if what != "redrive"])
def test_a_key_names_flow_object_request_time_and_hop_of_an_effect(what: str) -> None:
    assert key_of(MESSAGE, "charge") != key_of(MESSAGE._replace(**{what: OTHERS[what]}), "charge")
    assert key_of(MESSAGE, "charge") != key_of(MESSAGE, "refund")
    assert key_of(MESSAGE, "charge") == key_of(MESSAGE._replace(redrive=1, retry=2), "charge")


@pytest.mark.parametrize("what", ["flow", "object_id", "request_id"])
def test_so_does_a_key_of_a_first_hop_but_for_its_time(what: str) -> None:
    first = MESSAGE._replace(hop=1)
    assert key_of(first, "charge") != key_of(first._replace(**{what: OTHERS[what]}), "charge")
    assert key_of(first, "charge") != key_of(first, "refund")


def test_another_request_under_an_id_that_was_used_before_has_another_key() -> None:
    first = MESSAGE._replace(hop=1)
    assert key_of(first, "charge") != key_of(first._replace(body='{"amount":30}'), "charge")


def test_a_copy_with_a_later_time_has_the_key_of_the_first_hop_that_it_tries_again() -> None:
    first = MESSAGE._replace(hop=1)
    later = first._replace(requested_at=first.requested_at + 1)
    assert key_of(first, "charge") == key_of(later, "charge")


def test_ids_are_made_in_one_place() -> None:
    """A module that writes one itself can forget what it has to name."""
    package = Path(flowguard.__file__).parent
    made = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"\{[^{}\"]*\.?hop_id\}|\.hop_id\b", path.read_text())
    }
    assert made == {"wire/send_ids.py"}


def test_after_another_reset_a_key_is_another_one() -> None:
    first = MESSAGE._replace(hop=1)
    assert len({key_of(first, "charge", by) for by in (None, "reset-1", "reset-2")}) == 3

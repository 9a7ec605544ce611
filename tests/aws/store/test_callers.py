"""Those who are answered with the end of a run, on each engine: none is missed, however the end and they meet."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.aws.clients import Clients
from flowguard.aws.items import ASKER, record_item
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import LARGEST_ASKER, LARGEST_HELD, MOST_HELD, Caller, Callers, StoredEnd
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, Committed, FencedBy, Refused, RunItem, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_memory
from tests.aws.states import NOW, STORED, item, request
from tests.aws.store.run import claimed, commit, commit_call, counted, fenced, meet, stored

OBJECT = ObjectId("object")
LATER = NOW + 9_000_000
ROWS = NOW + 99_000_000


def taking(store: DynamoDBStore, run: tuple[int, str] = STORED, **more: Any) -> Claim:
    return claimed(store, run, policy=OnConflict.ATTACH, **more)


def end(**more: Any) -> Any:
    return commit(status=Status.COMPLETED, takes_callers=True, result="7", **more)


def caller(number: int, **more: Any) -> Caller:
    return Caller(RequestId(f"caller-{number}"), 499, "sqs:replies", **more)


def met(store: DynamoDBStore) -> Callers:
    found = store.claim(request((499, "somebody"), policy=OnConflict.ATTACH))
    assert isinstance(found, Refused)
    assert found.verdict is Verdict.ATTACHED
    assert found.item is not None
    assert found.item.callers is not None
    return found.item.callers


def attach(store: DynamoDBStore, *numbers: int) -> list[bool]:
    return [store.callers.attach("flow", OBJECT, met(store), caller(number), LATER, ROWS) for number in numbers]


def in_rows(store: DynamoDBStore, callers: Callers) -> list[Caller]:
    return [one for page in store.callers.rows("flow", OBJECT, callers.term) for one in page]


def closed(answer: object) -> Callers:
    assert isinstance(answer, Committed)
    assert answer.callers is not None
    return answer.callers


@pytest.mark.parametrize("writes", [(), (counted(),)])
def test_the_commit_of_the_end_brings_all_who_attached_before_it(store: DynamoDBStore, writes: Any) -> None:
    claim = taking(store)
    assert attach(store, 1, 2) == [True, True]
    found = closed(store.commit(claim, end(writes=writes)))
    assert sorted(found.in_item) == [caller(1), caller(2)]
    assert (found.term, found.rows) == (claim.item.owner, False)
    item = stored(store)
    assert (item.callers, item.answered, item.answered_by) == (None, found, STORED[1])


def test_the_commit_of_the_next_end_brings_its_own_list_though_both_are_alike(store: DynamoDBStore) -> None:
    for number in (1, 2):
        asked = request((STORED[0] + number, f"run-{number}"), policy=OnConflict.ATTACH)
        claim = store.claim(asked._replace(fresh_since=LATER))
        assert isinstance(claim, Claim)
        assert closed(store.commit(claim, end(committed_at=NOW + number))) == Callers(claim.item.owner)


def test_nobody_attaches_to_a_list_that_is_closed(store: DynamoDBStore) -> None:
    claim = taking(store)
    callers = met(store)
    store.commit(claim, end())
    assert not store.callers.attach("flow", OBJECT, callers, caller(1), LATER, ROWS)
    full = callers._replace(held={str(number): "" for number in range(MOST_HELD)})
    assert not store.callers.attach("flow", OBJECT, full, caller(2), LATER, ROWS)
    assert stored(store).answered == Callers(callers.term)


def test_a_list_of_the_next_run_is_not_that_of_the_one_before(store: DynamoDBStore) -> None:
    claim = taking(store)
    before = met(store)
    store.commit(claim, end())
    taking(store, (NOW + 600, "request-n"), owner="next")
    assert not store.callers.attach("flow", OBJECT, before, caller(1), LATER, ROWS)
    assert met(store) == Callers("next")


def test_beyond_what_the_item_holds_callers_are_rows(store: DynamoDBStore) -> None:
    claim = taking(store)
    numbers = range(MOST_HELD + 3)
    assert all(attach(store, *numbers))
    found = closed(store.commit(claim, end()))
    assert (len(found.held), found.rows) == (MOST_HELD, True)
    rows = in_rows(store, found)
    assert sorted([*found.in_item, *rows]) == sorted(map(caller, numbers))
    store.callers.forget("flow", OBJECT, found.term, rows[:2])
    assert in_rows(store, found) == rows[2:]
    assert in_rows(store, Callers("another")) == []


@pytest.mark.parametrize("before", [0, MOST_HELD])
def test_an_item_outlives_its_callers(before: int, store: DynamoDBStore) -> None:
    """That of the first, and that of a row."""
    taking(store)
    attach(store, *range(before))
    assert store.callers.attach("flow", OBJECT, met(store), caller(99), LATER + 60_000, ROWS)
    assert stored(store).ttl == (LATER + 60_000) // 1000


def test_two_who_both_saw_the_last_place_are_both_taken(store: DynamoDBStore) -> None:
    claim = taking(store)
    attach(store, *range(MOST_HELD - 1))
    before = met(store)
    assert store.callers.attach("flow", OBJECT, before, caller(98), LATER, ROWS)
    assert store.callers.attach("flow", OBJECT, before, caller(99), LATER, ROWS)
    found = closed(store.commit(claim, end()))
    assert len(found.held) == MOST_HELD
    assert in_rows(store, found) == [caller(99)]


def test_a_caller_that_is_long_is_a_row_and_one_that_no_item_holds_is_refused(store: DynamoDBStore) -> None:
    claim = taking(store)
    long = caller(1, carried={"tenant": Attribute.string("t" * LARGEST_HELD)})
    assert store.callers.attach("flow", OBJECT, met(store), long, LATER, ROWS)
    huge = caller(2, carried={"tenant": Attribute.string("t" * 410_000)})
    with pytest.raises(TooLarge):
        store.callers.attach("flow", OBJECT, met(store), huge, LATER, ROWS)
    found = closed(store.commit(claim, end()))
    assert (found.held, in_rows(store, found)) == ({}, [long])


def test_a_later_attempt_and_a_takeover_go_on_with_the_list(store: DynamoDBStore) -> None:
    taking(store)
    attach(store, 1)
    taking(store, attempt=(0, 1), owner="again")
    taking(store, (501, "request-n"), owner="newer", now=NOW + 10_000 + 100_001)
    assert met(store).in_item == (caller(1),)


def test_a_hop_that_ends_nothing_leaves_the_list_open(store: DynamoDBStore) -> None:
    claim = taking(store)
    attach(store, 1)
    assert store.commit(claim, commit(takes_callers=True)) == Committed()
    assert met(store).in_item == (caller(1),)


def test_a_commit_whose_answer_was_lost_brings_them_when_it_is_repeated(store: DynamoDBStore) -> None:
    claim = taking(store)
    attach(store, 1)

    def lost_once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            proceed()
        return proceed()

    with intercept(lost_once):
        found = closed(store.commit(claim, end()))
    assert found.in_item == (caller(1),)


def test_the_end_stays_beside_the_next_run_until_that_has_committed(store: DynamoDBStore) -> None:
    claim = taking(store)
    attach(store, 1)
    store.commit(claim, end())
    attempts = [taking(store, (NOW + 600, "request-n"), attempt=(0, attempt)) for attempt in (0, 1)]
    for newer in attempts:
        left = newer.item.left_end
        assert left is not None
        assert (left.request_id, left.callers.in_item) == (STORED[1], (caller(1),))
        assert (left.read().status, left.read().result) == ("COMPLETED", "7")
    store.commit(attempts[-1], commit(takes_callers=True))
    assert stored(store).result is None


def test_a_claim_notes_who_wants_an_answer_and_the_end_removes_it(store: DynamoDBStore) -> None:
    asked = request(STORED)
    claim = store.claim(asked._replace(message=asked.message._replace(reply_to="sqs:replies")))
    assert isinstance(claim, Claim)
    assert list(stored(store).askers.values()) == [Caller(RequestId(STORED[1]), STORED[0], "sqs:replies").to_text()]
    store.commit(claim, commit(status=Status.FAILED))
    assert stored(store).askers == {}


def test_the_request_that_was_taken_over_is_noted_until_the_first_commit(
    store: DynamoDBStore, clients: Clients
) -> None:
    asked = request(STORED)
    store.claim(asked._replace(message=asked.message._replace(reply_to="sqs:replies")))
    newer = claimed(store, (501, "request-n"))
    assert len(newer.item.askers) == 1
    store.commit(newer, commit())
    assert stored(store).askers == {}
    found: Any = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert not [name for name in found[0] if name.startswith(ASKER)]


def test_noted_requests_can_be_removed_before_a_commit(store: DynamoDBStore) -> None:
    for number in range(3):
        asked = request((600 + number, f"request-{number}"))
        store.claim(asked._replace(message=asked.message._replace(reply_to="sqs:replies")))
    keys = sorted(stored(store).askers)
    store.callers.forget_askers("flow", OBJECT, keys[:2])
    assert sorted(stored(store).askers) == keys[2:]
    store.callers.forget_askers("flow", ObjectId("nothing"), keys)
    assert store.read("flow", "nothing") is None


def test_what_a_claim_notes_has_a_size(memory: DynamoDBStore) -> None:
    for attributes, noted in (({"t": Attribute.string("t" * LARGEST_ASKER)}, {}), ({"t": Attribute.string("t")},) * 2):
        asked = request((700 + len(noted), "request-n"))
        message = asked.message._replace(reply_to="sqs:replies", carried=attributes)
        claim = memory.claim(asked._replace(message=message, owner=RequestId("o")))  # type: ignore[arg-type]  # a text
        assert isinstance(claim, Claim)
        [text] = claim.item.askers.values()
        assert Caller.from_text(text).carried == noted


def test_an_answer_that_never_comes_leaves_a_closed_list(store: DynamoDBStore) -> None:
    claim = taking(store)
    attach(store, 1)

    def never(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

    with intercept(never), pytest.raises(EndpointConnectionError):
        store.commit(claim, end())
    again = store.claim(request(STORED, policy=OnConflict.ATTACH, owner="other"))
    assert isinstance(again, Refused)
    assert again.item is not None
    assert again.item.answered is not None
    assert (again.verdict, again.item.answered.in_item) == (Verdict.DONE, (caller(1),))
    assert again.item.result == "7"


# -- the end of the run before


def newer(store: DynamoDBStore, **more: Any) -> RunItem:
    return claimed(store, (NOW + 600, "request-n"), **more).item


def test_a_run_that_failed_leaves_its_error_for_its_callers(memory: DynamoDBStore) -> None:
    error = ErrorNote("Reject", "sold out", NOW)
    memory.commit(taking(memory), commit(status=Status.FAILED, takes_callers=True, state=None, error=error))
    left = newer(memory, policy=OnConflict.ATTACH).left_end
    assert left is not None
    assert left.read() == StoredEnd(RequestId(STORED[1]), NOW + 1, "FAILED", None, "Reject: sold out")


def test_a_flow_that_takes_no_callers_any_more_is_brought_no_end(memory: DynamoDBStore) -> None:
    memory.commit(taking(memory), end())
    assert newer(memory).left_end is None


@pytest.mark.parametrize("part", ["answered", "answered_by"])
def test_an_item_without_an_end_brings_none(part: str) -> None:
    whole = {"answered": record_item(Callers("term")), "answered_by": {"S": "before"}}
    with on_memory() as clients:
        meet(clients, {**item(1, "running", (0, 0), "abandoned", "other"), part: whole[part]})
        assert newer(aws_store(Settings(), clients), policy=OnConflict.ATTACH).left_end is None


# -- how a list is closed


@pytest.mark.parametrize(("writes", "calls"), [((), ["UpdateItem"]), ((counted(),), ["TransactWriteItems", "GetItem"])])
def test_the_list_is_in_the_answer_of_the_commit_and_read_after_a_transaction(
    writes: Any, calls: list[str], memory: DynamoDBStore
) -> None:
    claim = taking(memory)
    with intercept(Recorder()) as seen:
        memory.commit(claim, end(writes=writes))
    assert [call.operation for call in seen.calls] == calls


def test_a_commit_that_closes_no_list_asks_for_nothing_back(memory: DynamoDBStore) -> None:
    claim = taking(memory)
    with intercept(Recorder()) as seen:
        memory.commit(claim, commit(takes_callers=True))
    assert "ReturnValues" not in seen.calls[0].params


@pytest.mark.parametrize("since", ["another run has ended", "the item has expired"])
def test_a_list_that_is_closed_since_is_not_taken_for_its_own(since: str) -> None:
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        claim = taking(store)
        attach(store, 1)
        came: list[str] = []

        def first(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation == "GetItem" and not came:
                came.append(since)
                if since == "another run has ended":
                    store.commit(taking(store, (NOW + 600, "request-n"), owner="next"), end())
                else:
                    meet(clients, None)
            return proceed()

        with intercept(first):
            answer = store.commit(claim, end(writes=(counted(),)))
        assert closed(answer) == Callers("")


def test_a_repeated_commit_that_ends_nothing_brings_no_list(memory: DynamoDBStore) -> None:
    memory.commit(taking(memory), end())
    claim = taking(memory, (NOW + 600, "request-n"), owner="next")
    memory.commit(claim, commit(takes_callers=True))
    assert memory.commit(claim, commit(takes_callers=True)) == Committed()


def test_an_end_that_is_fenced_closes_no_list(memory: DynamoDBStore) -> None:
    old = taking(memory)
    taking(memory, (501, "request-n"), owner="newer", now=NOW + 10_000 + 100_001)
    assert fenced(memory.commit(old, end())) is FencedBy.NEWER_RUN
    assert met(memory) == Callers("mine")


# -- what the work begins anew with


def begun(store: DynamoDBStore) -> None:
    store.commit(taking(store), commit(takes_callers=True, first_message="the first"))


def reset(store: DynamoDBStore) -> RunItem:
    found = store.callers.reset("flow", OBJECT, "reset", NOW, NOW)
    assert found is not None
    return found


def test_the_first_message_stays_until_the_run_ends(memory: DynamoDBStore) -> None:
    begun(memory)
    memory.commit(taking(memory, hop=2), commit(takes_callers=True))
    last = taking(memory, hop=3)
    assert reset(memory).first_message == "the first"
    refused = memory.claim(request(STORED, hop=3, policy=OnConflict.ATTACH))
    assert isinstance(refused, Refused)
    assert refused.item is not None
    assert (refused.verdict, refused.item.first_message) == (Verdict.RESET, "the first")
    assert last.item.first_message is None


def test_the_end_removes_the_first_message(memory: DynamoDBStore) -> None:
    begun(memory)
    memory.commit(taking(memory, hop=2), end())
    assert reset(memory).first_message is None


@pytest.mark.parametrize(
    ("hop", "more", "is_kept"),
    [
        (2, {}, True),
        (2, {"undone": True}, False),
        (1, {}, False),
        (2, {"takes_callers": False}, True),
        (1, {"takes_callers": False}, True),
    ],
    ids=["it may be redriven", "it may not", "its own message is enough", "no list is closed", "nor at the first"],
)
def test_the_first_message_is_kept_by_a_later_hop_that_failed_for_its_redrive(
    memory: DynamoDBStore, hop: int, more: dict[str, Any], *, is_kept: bool
) -> None:
    begun(memory)
    claim = taking(memory, hop=2)
    claim = claim._replace(item=claim.item._replace(hop=hop))
    failed = commit(**{"status": Status.FAILED, "takes_callers": True, **more})
    assert ("first_message" not in commit_call(claim, failed)["ExpressionAttributeNames"].values()) is is_kept


def test_the_first_message_is_read_for_a_reset_alone(memory: DynamoDBStore) -> None:
    begun(memory)
    refused = memory.claim(request((499, "somebody"), policy=OnConflict.ATTACH))
    assert isinstance(refused, Refused)
    assert refused.item is not None
    assert (refused.verdict, refused.item.first_message) == (Verdict.ATTACHED, None)


@pytest.mark.parametrize("number", [1, MOST_HELD + 1])
def test_whoever_attaches_leaves_an_item_that_lives_longer_as_it_is(store: DynamoDBStore, number: int) -> None:
    """The run has begun to wait since the request met it, and the item is to be there until that is over."""
    claim = taking(store)
    attach(store, *range(number - 1))
    before = met(store)
    store.commit(claim, commit(expires_at=LATER + 60_000))
    assert store.callers.attach("flow", OBJECT, before, caller(99), LATER, ROWS)
    assert stored(store).ttl == (LATER + 60_000) // 1000
    assert store.callers.attach("flow", OBJECT, met(store), caller(98), LATER + 90_000, ROWS)
    assert stored(store).ttl == (LATER + 90_000) // 1000

"""Answers and deadlines in DynamoDB at their edges: errors, the last byte, the last moment, rows that differ little."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.aws.waits import LARGEST_EARLY, DynamoDBWaits
from flowguard.errors import TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.waiting import ALL_HAVE_IT, EarlyAnswer, GivenAnswer, Kept, Look, Use
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.aws import states
from tests.aws.engines import on_memory

NOW_MS = 1_800_000_000_000
UNTIL = NOW_MS + 60_000
ADDRESS = AnswerAddress("flow", ObjectId("object"), RequestId(states.STORED[1]), states.STORED[0], 1, "a")
TWO: Any = {"waiting": ("a", "b")}
LOOK = Look("m-1", states.NOW - 10, states.NOW, states.NOW - 100)


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


@pytest.fixture
def store(clients: Clients) -> DynamoDBWaits:
    waits = aws_store(Settings(), clients).waits
    return waits._replace(calls=waits.calls._replace(pause=lambda seconds: None))


def put(clients: Clients, state: str = "waiting", hop: int = 1, **wait: Any) -> None:
    item = {**states.item(hop, state, (0, 0), "over", "other"), **states.wait(**wait)}
    clients.dynamodb.put_item(TableName="flowguard", Item=item)


CALLS: dict[str, Callable[[DynamoDBWaits], object]] = {
    "settle": lambda store: store.settle(ADDRESS, GivenAnswer("{}")),
    "time_out": lambda store: store.time_out(ADDRESS, states.NOW),
    "look": lambda store: store.look(ADDRESS, LOOK),
    "keep_early": lambda store: store.keep_early("flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=NOW_MS),
    "free_early": lambda store: store.free_early("flow", "paid", "m-1"),
    "close_early": lambda store: store.close_early("flow", "paid", "m-1"),
    "take": lambda store: store.take(ADDRESS, GivenAnswer("1"), Use("paid", "m-1", "one")),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_dynamodb_and_one_of_the_network_are_raised_as_they_are(
    call: str, clients: Clients, store: DynamoDBWaits
) -> None:
    put(clients)
    denied: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    for error in (ClientError(denied, "UpdateItem"), OSError("cut off")):

        def fail(_: ApiCall, __: Proceed, error: Exception = error) -> Response:
            raise error

        with intercept(fail), pytest.raises(type(error)) as raised:
            CALLS[call](store)
        assert raised.value is error


@pytest.mark.parametrize("failed", [False, True])
def test_no_answer_brings_names_or_values_that_its_expressions_do_not_use(
    failed: bool, clients: Clients, store: DynamoDBWaits
) -> None:
    """DynamoDB would refuse it."""
    put(clients)
    with intercept(Recorder()) as calls:
        store.settle(ADDRESS, GivenAnswer("{}", failed))
    [call] = [one.params for one in calls.calls]
    used = re.findall(r"[:#]\w+", f"{call['ConditionExpression']} {call['UpdateExpression']}")
    assert {*call["ExpressionAttributeNames"], *call["ExpressionAttributeValues"]} == set(used)


# -- the plan ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "wait", "has_plan"),
    [
        ("waiting", {"waiting": ("b",), "answered": ("a",)}, False),
        ("waiting", {"waiting": (), "answered": ("a",)}, True),
        ("running", {"waiting": (), "answered": ("a",)}, False),
    ],
)
def test_the_plan_is_read_only_of_a_wait_that_is_over_and_whose_run_has_not_gone_on(
    state: str, wait: dict[str, Any], has_plan: bool, clients: Clients, store: DynamoDBWaits
) -> None:
    """Whoever has the plan sends the run on."""
    put(clients, state, **wait)
    for found in (store.settle(ADDRESS, GivenAnswer("{}")).item, store.look(ADDRESS, LOOK).item):
        assert found is not None
        assert found.wait is not None
        assert (found.wait.plan is not None) is (has_plan and not found.wait.waiting)
        assert found.wait.answers == {}


def test_an_answer_that_does_not_end_its_wait_brings_no_plan(clients: Clients, store: DynamoDBWaits) -> None:
    put(clients, waiting=("a", "b"))
    for name, verdict in (("a", AnswerVerdict.RECORDED), ("b", AnswerVerdict.RESUMED)):
        found = store.settle(ADDRESS._replace(name=name), GivenAnswer("{}"))
        assert found.verdict is verdict
        assert found.item is not None
        assert found.item.wait is not None
        assert (found.item.wait.plan is None) is (verdict is AnswerVerdict.RECORDED)


def test_an_item_that_says_that_it_waits_and_holds_no_wait_is_answered_unknown(
    clients: Clients, store: DynamoDBWaits
) -> None:
    item = {name: value for name, value in states.item(1, "waiting", (0, 0), "over", "other").items() if name != "wait"}
    clients.dynamodb.put_item(TableName="flowguard", Item=item)
    assert store.settle(ADDRESS, GivenAnswer("{}")).verdict is AnswerVerdict.UNKNOWN
    assert store.look(ADDRESS, LOOK).goes_on is False
    assert store.time_out(ADDRESS, states.NOW).applied is False


def test_a_look_at_a_wait_that_has_ended_since_goes_nowhere_though_its_message_looked_before(
    clients: Clients, store: DynamoDBWaits
) -> None:
    put(clients)
    assert store.look(ADDRESS, LOOK).goes_on
    assert store.settle(ADDRESS, GivenAnswer("{}")).verdict is AnswerVerdict.RESUMED
    found = store.look(ADDRESS, LOOK)
    assert not found.goes_on
    assert found.item is not None
    assert found.item.wait is not None
    assert found.item.wait.plan is not None, "its next hop's message can be sent again"


# -- sizes and times ---------------------------------------------------------------------------------------------------


def test_an_answer_takes_the_bytes_that_dynamodb_counts(clients: Clients, store: DynamoDBWaits) -> None:
    """A map has 3 bytes, and 1 more for each entry beside its name and value; so has the map that the answer is in."""
    size = len("a") + 1 + 3 + len("text") + 1 + len('"x"')
    put(clients, room=size - 1)
    with pytest.raises(TooLarge):
        store.settle(ADDRESS, GivenAnswer('"x"'))
    put(clients, room=size)
    found = store.settle(ADDRESS, GivenAnswer('"x"')).item
    assert found is not None
    raw: Any = clients.dynamodb.get_item(
        TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
    )
    assert raw["Item"]["wait"]["M"]["room"] == {"N": "0"}


@pytest.mark.parametrize("state", ["gone", "without a wait"])
def test_an_answer_that_is_too_large_says_so_though_its_run_has_just_gone(
    state: str, clients: Clients, store: DynamoDBWaits
) -> None:
    put(clients, room=10)

    def goes(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetItem":
            clients.dynamodb.delete_item(TableName="flowguard", Key=call.params["Key"])
            if state == "without a wait":
                item = states.item(1, "running", (0, 0), "over", "other")
                clients.dynamodb.put_item(TableName="flowguard", Item=item)
        return proceed()

    with intercept(goes), pytest.raises(TooLarge, match="of at most 0"):
        store.settle(ADDRESS, GivenAnswer('"a text that is too long"'))


@pytest.mark.slow("fills an item on each engine")
def test_an_early_answer_may_have_as_many_bytes_as_its_item_has_left(clients: Clients) -> None:
    bucket = aws_store(Settings(offload_above=200_000), clients).waits
    digits = "".join(f"{one * one * 7919:x}" for one in range(1, 200_000))
    longest, least = LARGEST_EARLY * 3, 1_000
    while longest - least > 1:
        middle = (longest + least) // 2
        fits = bucket.calls.packing.pack(f'"{digits[:middle]}"', None, about=None).size <= LARGEST_EARLY
        longest, least = (longest, middle) if fits else (middle, least)
    sizes = {
        length: bucket.calls.packing.pack(f'"{digits[:length]}"', None, about=None).size for length in (least, longest)
    }
    assert sizes[least] <= LARGEST_EARLY < sizes[longest]
    bucket.keep_early("flow", "paid", GivenAnswer(f'"{digits[:least]}"'), now=NOW_MS, expires_at=NOW_MS + 1_000)
    with pytest.raises(TooLarge):
        bucket.keep_early("flow", "paid", GivenAnswer(f'"{digits[:longest]}"'), now=NOW_MS, expires_at=NOW_MS + 1_000)


def test_an_early_answer_counts_until_its_time_and_not_at_it(store: DynamoDBWaits) -> None:
    store.keep_early("flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=NOW_MS + 2_000)
    assert store.early("flow", "paid", NOW_MS + 1_000) == EarlyAnswer(GivenAnswer("1"))
    assert store.early("flow", "paid", NOW_MS + 2_000) is None


def kept(store: DynamoDBWaits, by: str, at: int = 0) -> None:
    store.keep_early("flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=NOW_MS + 1_000, by=by, at=at)


def test_an_early_answer_keeps_the_names_that_its_sender_may_answer(store: DynamoDBWaits) -> None:
    for names in ((), ("b", "a", "a")):
        store.keep_early(
            "flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=UNTIL, by=f"m-{len(names)}", at=1, names=names
        )
        found = store.early("flow", "paid", NOW_MS)
        assert found is not None
        assert found.names == set(names)
        assert [found.is_for(name) for name in "abc"] == [not names or name in names for name in "abc"]


def test_an_early_answer_is_known_for_longer_than_waits_may_take_it(clients: Clients, store: DynamoDBWaits) -> None:
    keep = functools.partial(store.keep_early, "flow", "paid", GivenAnswer("1"), by="m-1", known_until=UNTIL)
    assert keep(now=NOW_MS, expires_at=NOW_MS + 1_000).is_new
    later = NOW_MS + 2_000
    assert store.early("flow", "paid", later) is None
    assert keep(now=later, expires_at=later + 1_000) == Kept(is_new=False), "a copy"
    put(clients, **TWO)
    assert taken(store, "m-1") is AnswerVerdict.RECORDED
    assert store.early("flow", "paid", later, "one") == EarlyAnswer(GivenAnswer("1"), "m-1"), "for the wait that has it"
    assert store.early("flow", "paid", later, "another") is None


def test_an_early_answer_whose_time_is_over_is_not_replaced(store: DynamoDBWaits) -> None:
    """DynamoDB has not removed it yet. Nobody could have had it any more, so that no answer is lost with it."""

    def kept_at(now: int, by: str) -> bool:
        found = store.keep_early(
            "flow", "paid", GivenAnswer("1"), now=now, expires_at=now + 1_000, by=by, at=now - NOW_MS
        )
        assert found.is_new
        return found.replaces

    assert [kept_at(NOW_MS, "m-1"), kept_at(NOW_MS + 1, "m-2"), kept_at(NOW_MS + 1_001, "m-3")] == [False, True, False]


@pytest.mark.parametrize(
    ("by", "at", "later", "is_kept"),
    [
        ("m-3", 10, 0, True),
        ("m-2", 10, 0, False),
        ("m-1", 10, 0, False),
        ("m-1", 11, 0, True),
        ("m-3", 9, 0, False),
        ("m-1", 9, 999, False),
        ("m-1", 9, 1_000, True),
    ],
)
def test_an_answer_takes_the_place_of_an_older_one_and_of_one_whose_time_is_over(
    by: str, at: int, later: int, is_kept: bool, store: DynamoDBWaits
) -> None:
    kept(store, "m-2", at=10)
    moment = NOW_MS + later
    found = store.keep_early("flow", "paid", GivenAnswer("2"), now=moment, expires_at=NOW_MS + 9_000, by=by, at=at)
    assert found.is_new is is_kept
    assert (store.early("flow", "paid", NOW_MS) == EarlyAnswer(GivenAnswer("2"), by)) is is_kept


def test_an_answer_takes_the_place_of_one_that_does_not_say_when_it_was_given(
    clients: Clients, store: DynamoDBWaits
) -> None:
    """As earlier releases have kept it."""
    kept(store, "m-2", at=10)
    key: Any = {"pk": {"S": "wait#flow#paid"}, "sk": {"S": "early"}}
    clients.dynamodb.update_item(TableName="flowguard", Key=key, UpdateExpression="REMOVE given_by, given_at")
    kept(store, "m-1", at=1)
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(GivenAnswer("1"), "m-1")


def taken(store: DynamoDBWaits, by: str, who: str = "one") -> AnswerVerdict | None:
    settled = store.take(ADDRESS, GivenAnswer("1"), Use("paid", by, who))
    return None if settled is None else settled.verdict


def test_an_early_answer_is_used_by_one_wait(clients: Clients, store: DynamoDBWaits) -> None:
    kept(store, "m-1")
    put(clients, **TWO)
    before = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert store.close_early("flow", "paid", "m-2") is None
    assert clients.dynamodb.scan(TableName="flowguard")["Items"] == before, "it is that of another message"
    assert taken(store, "m-1") is AnswerVerdict.RECORDED
    put(clients, **TWO)
    assert taken(store, "m-1", "another") is None
    assert taken(store, "m-1") is AnswerVerdict.RECORDED, "its own wait may ask once more"


def test_the_answer_that_was_read_is_the_one_that_is_used(clients: Clients, store: DynamoDBWaits) -> None:
    """A newer one has come since: the wait that looks again finds it."""
    kept(store, "m-1", at=1)
    kept(store, "m-2", at=2)
    put(clients, **TWO)
    assert taken(store, "m-1") is None
    assert taken(store, "m-2") is AnswerVerdict.RECORDED


def test_a_run_that_does_not_wait_uses_up_nothing(clients: Clients, store: DynamoDBWaits) -> None:
    kept(store, "m-1")
    assert taken(store, "m-1") is AnswerVerdict.EXPIRED
    put(clients, hop=2, **TWO)
    assert taken(store, "m-1") is AnswerVerdict.DUPLICATE
    assert taken(store, "m-0") is AnswerVerdict.DUPLICATE, "though it is another that is kept"
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(GivenAnswer("1"), "m-1")


def test_an_early_answer_that_says_nothing_of_its_message_can_be_used(clients: Clients, store: DynamoDBWaits) -> None:
    """As earlier releases have kept it."""
    kept(store, "m-1")
    key: Any = {"pk": {"S": "wait#flow#paid"}, "sk": {"S": "early"}}
    clients.dynamodb.update_item(
        TableName="flowguard", Key=key, UpdateExpression="REMOVE given_by, given_at, good_until"
    )
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(GivenAnswer("1"), "")
    assert store.early("flow", "paid", NOW_MS + 1_000) is None
    put(clients, **TWO)
    assert taken(store, "") is AnswerVerdict.RECORDED


def test_an_early_answer_that_is_gone_is_not_used_and_leaves_nothing_behind(
    clients: Clients, store: DynamoDBWaits
) -> None:
    """DynamoDB has removed it since it was read. What is left of it would be no answer, and would never expire."""
    put(clients, **TWO)
    before = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert taken(store, "") is None
    assert not store.free_early("flow", "paid", "")
    assert clients.dynamodb.scan(TableName="flowguard")["Items"] == before


def test_who_waited_is_remembered_until_it_is_left_to_the_next_wait(clients: Clients, store: DynamoDBWaits) -> None:
    keep = functools.partial(store.keep_early, "flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=UNTIL, by="m-1")
    keep(waited="one")
    assert keep() == Kept(is_new=False, waited="one")
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(GivenAnswer("1"), "m-1", waited="one")
    assert not store.free_early("flow", "paid", "m-2"), "that of another message"
    assert store.free_early("flow", "paid", "m-1")
    assert keep() == Kept(is_new=False)
    put(clients, **TWO)
    assert taken(store, "m-1") is AnswerVerdict.RECORDED
    assert not store.free_early("flow", "paid", "m-1")
    assert keep() == Kept(is_new=False, used_by="one")
    store.close_early("flow", "paid", "m-1")
    assert keep() == Kept(is_new=False, used_by=ALL_HAVE_IT)


@pytest.mark.parametrize(("names", "about"), [((), "is_beside"), (("a", "b"), "is_outdated")])
def test_a_newer_one_that_is_kept_is_for_the_same_names_or_for_others(
    names: tuple[str, ...], about: str, store: DynamoDBWaits
) -> None:
    keep = functools.partial(store.keep_early, "flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=UNTIL)
    keep(by="m-2", at=2, names=("b", "a"))
    found = keep(by="m-1", at=1, names=names)
    assert (found.is_outdated, found.is_beside) == (about == "is_outdated", about == "is_beside")


def test_an_early_answer_that_ends_its_wait_brings_what_its_run_goes_on_with(
    clients: Clients, store: DynamoDBWaits
) -> None:
    kept(store, "m-1")
    put(clients)
    settled = store.take(ADDRESS, GivenAnswer("1"), Use("paid", "m-1", "one"))
    assert settled is not None
    assert settled.verdict is AnswerVerdict.RESUMED
    assert settled.item is not None
    assert settled.item.wait is not None
    assert settled.item.wait.plan is not None


AFTERWARDS: dict[str, dict[str, Any] | None] = {
    "it is gone": None,
    "its run has gone on and ended": states.item(2, "completed", (0, 0), "over", "other"),
    "another run waits there": {
        **states.item(1, "waiting", (0, 0), "over", "other"),
        **states.wait(waiting=(), answered=("a",)),
        "request_id": {"S": "another"},
    },
}


@pytest.mark.parametrize("later", AFTERWARDS)
def test_an_early_answer_was_taken_whatever_its_item_is_right_after(
    later: str, clients: Clients, store: DynamoDBWaits
) -> None:
    kept(store, "m-1")
    put(clients)

    def goes(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "GetItem":
            clients.dynamodb.delete_item(TableName="flowguard", Key=call.params["Key"])
            if (item := AFTERWARDS[later]) is not None:
                clients.dynamodb.put_item(TableName="flowguard", Item=item)
        return proceed()

    with intercept(goes):
        settled = store.take(ADDRESS, GivenAnswer("1"), Use("paid", "m-1", "one"))
    assert settled is not None
    assert settled.verdict is AnswerVerdict.RECORDED
    assert (settled.item is None) is (AFTERWARDS[later] is None)


def test_an_early_answer_that_its_run_has_no_room_for_is_not_used(clients: Clients, store: DynamoDBWaits) -> None:
    kept(store, "m-1")
    put(clients, room=1)
    with pytest.raises(TooLarge):
        store.take(ADDRESS, GivenAnswer('"' + "x" * 1_000 + '"'), Use("paid", "m-1", "one"))
    assert store.early("flow", "paid", NOW_MS) is not None


@pytest.mark.parametrize("codes", [["None", "ValidationError"], ["ValidationError", "ConditionalCheckFailed"]])
def test_what_refuses_a_transaction_otherwise_is_raised_as_it_is(
    codes: list[str], clients: Clients, store: DynamoDBWaits
) -> None:
    kept(store, "m-1")
    put(clients)
    told: Any = {"Error": {"Code": "TransactionCanceledException"}}
    told["CancellationReasons"] = [{"Code": code} for code in codes]
    refused = ClientError(told, "TransactWriteItems")

    def refuses(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "TransactWriteItems":
            raise refused
        return proceed()

    with intercept(refuses):
        if codes[1] == "ConditionalCheckFailed":
            assert taken(store, "m-1") is None
        else:
            with pytest.raises(ClientError, match="TransactionCanceledException"):
                taken(store, "m-1")


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"object_id": ObjectId("another")},
        {"request_id": RequestId("another")},
        {"requested_at": states.STORED[0] + 1},
        {"hop": 2},
        {"name": "b"},
    ],
)
def test_rows_of_one_id_that_differ_in_anything_are_two(other: dict[str, Any], store: DynamoDBWaits) -> None:
    rows = [AwaitingRow("paid", one, "stage", NOW_MS) for one in (ADDRESS, ADDRESS._replace(**other))]
    store.save(rows)
    assert sorted(store.waiting_for("flow", "paid")) == sorted(rows)


def test_the_place_of_an_answer_for_many_is_removed_when_its_time_is_over(
    clients: Clients, store: DynamoDBWaits
) -> None:
    store.keep_place("flow", "paid", "m-1", AwaitingRow("paid", ADDRESS, "stage", NOW_MS), NOW_MS + 60_000)
    [place] = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert place["ttl"] == {"N": str((NOW_MS + 60_000) // 1000)}

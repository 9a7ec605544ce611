"""A cancellation meets a run in every state, and a run that goes on between its read and its write."""

from __future__ import annotations

from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.cancellations import DynamoDBCancellations
from flowguard.aws.clients import Clients
from flowguard.aws.items import number
from flowguard.aws.services import aws_store
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import Cancellation, RunItem, RunName
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.worker.restart import restart_id
from tests.aws import states
from tests.aws.states import NOW, STORED, WAITS
from tests.aws.store.run import meet

AT: Final = STORED[0]
"""The latest moment of a request that the cancellation is for."""


RESET: Final = {"requested_at": number(AT - 2), "reset_at": number(AT - 1)}


def state(name: str, epoch: int = 7, **waits: Any) -> dict[str, Any]:
    found = states.item(1, name, (0, 0), "alive", "other", states.wait(**waits) if waits else None)
    return {**found, "epoch": number(epoch)}


FOUND: Final[dict[str, Any]] = {
    "nothing": None,
    "a worker": state("running"),
    "another worker": state("running", 8),
    "a hop is committed": state("done"),
    "a reset run": {**state("done", 12), **RESET},
    "a reset run that waits": {**state("waiting", 13, waiting=("a",)), **RESET},
    "a reset first hop": {**state("running", 14), "reset_at": number(AT - 1)},
    "reset later": {**state("done", 15), **RESET, "reset_at": number(AT + 1)},
    "a dropped result": {**state("completed"), "reset_at": number(AT - 1)},
    "completed": state("completed"),
    "failed": state("failed"),
    "it undoes what it did": {**state("running", 11), **states.failed(STORED, 1, undone=False)},
    "it follows one that was undone": {**state("running", 9), **states.failed((499, "request-z"), 1, undone=True)},
    "the run before was cancelled": {
        **state("running", 12),
        "cancelled": {"M": {"request_id": {"S": "request-z"}, "at": number(AT), "why": {"S": "another mistake"}}},
    },
    "asked for later": {**state("running", 10), "requested_at": number(AT + 1)},
    **{f"it waits: {name}": state("waiting", **about) for name, about in WAITS.items()},
    "it waits: another request": {**state("waiting"), "request_id": {"S": "request-z"}},
    "it waits: another time": {**state("waiting"), "requested_at": number(AT - 1)},
    "it waits: another time, and is reset then": {**state("waiting"), "requested_at": RESET["requested_at"]},
    "it waits: a later time": {**state("waiting"), "requested_at": number(AT + 1)},
}
WAITS_FOR_MORE: Final = "it waits: one of two is missing"
BEGINS_ANEW: Final = {"a reset run", "a reset run that waits"}
"""Another request is to begin their work: that one is cancelled."""
GOES_ON: Final = {
    "a worker",
    "another worker",
    "a hop is committed",
    "it follows one that was undone",
    "the run before was cancelled",
    "a reset first hop",
    *(name for name in FOUND if name.startswith("it waits") and "later" not in name),
}


def cancel(clients: Clients) -> RunItem | None:
    store: DynamoDBCancellations = aws_store(Settings(), clients).cancellations
    return store.cancel("flow", ObjectId("object"), AT, "a mistake", NOW)


def raw(clients: Clients) -> Any:
    key = {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
    return clients.dynamodb.get_item(TableName="flowguard", Key=key).get("Item")


@pytest.mark.parametrize("name", FOUND)
def test_a_run_that_goes_on_is_cancelled_and_nothing_else_is_changed(name: str, clients: Clients) -> None:
    found = FOUND[name]
    meet(clients, found)
    item = cancel(clients)
    after = raw(clients)
    if name in BEGINS_ANEW:
        assert item is not None
        own = restart_id("flow", ObjectId("object"), item)
        note = (
            {"M": {"request_id": {"S": own.request_id}, "at": number(AT), "why": {"S": "a mistake"}}} if own else None
        )
        assert after == {**found, "cancelled": note}, "the epoch is part of the id"
        return
    if name not in GOES_ON:
        assert (item, after) == (None, found)
        return
    assert item is not None
    assert item.cancelled_because == "a mistake"
    cancelled = {"M": {"request_id": found["request_id"], "at": number(AT), "why": {"S": "a mistake"}}}
    if name == WAITS_FOR_MORE or "another" in name.partition("it waits")[2]:
        wait = {"M": {**found["wait"]["M"], "timed_out": {"BOOL": True}}}
        assert after == {**found, "cancelled": cancelled, "wait": wait, "lease_until": number(NOW)}
        assert item.wait is not None
        assert item.wait.plan is not None, "the message that goes on is made of it"
    else:
        epoch = number(int(found["epoch"]["N"]) + 1)
        assert after == {**found, "cancelled": cancelled, "epoch": epoch, "lease_until": number(NOW)}


def can_become(name: str, then: str) -> bool:
    """Answer whether a run gets from one state to the other. A committed hop changes by a claim or an answer only."""
    was, now = FOUND[name], FOUND[then]
    is_claimed = now["epoch"] != was["epoch"]
    return is_claimed or not was["done"]["BOOL"] or name == then or (name == WAITS_FOR_MORE and "it waits" in then)


@pytest.mark.slow("goes on meanwhile in every way")
@pytest.mark.parametrize("then", [name for name in FOUND if name != "nothing"])
def test_a_run_that_goes_on_meanwhile_is_judged_as_it_is_then(then: str, clients: Clients) -> None:
    meet(clients, FOUND[then])
    expected = cancel(clients)
    left = raw(clients)
    for name in (name for name in (*GOES_ON, *BEGINS_ANEW) if can_become(name, then)):
        meet(clients, FOUND[name])
        pending = [FOUND[then]]

        def interceptor(call: ApiCall, proceed: Proceed, pending: list[Any] = pending) -> Response:
            if call.operation == "UpdateItem" and pending:
                meet(clients, pending.pop())
            return proceed()

        with intercept(interceptor):
            assert cancel(clients) == expected, name
        assert raw(clients) == left, name


@pytest.mark.parametrize("name", sorted(GOES_ON))
def test_a_run_is_cancelled_once_unless_a_later_copy_of_its_request_is_meant(name: str, clients: Clients) -> None:
    meet(clients, FOUND[name])
    first = cancel(clients)
    left = raw(clients)
    assert (cancel(clients), raw(clients)) == (first, left)
    store: DynamoDBCancellations = aws_store(Settings(), clients).cancellations
    later = store.cancel("flow", ObjectId("object"), AT + 1, "still a mistake", NOW)
    assert later is not None
    assert later.cancelled_because == "still a mistake"


@pytest.mark.parametrize(("at", "only"), [(AT, "request-z"), (AT + 1, STORED[1]), (AT - 1, STORED[1])])
def test_a_cancellation_of_one_request_leaves_every_other_run_alone(at: int, only: str, clients: Clients) -> None:
    store: DynamoDBCancellations = aws_store(Settings(), clients).cancellations
    for name in sorted(name for name in GOES_ON if "it waits: another" not in name):
        meet(clients, FOUND[name])
        assert store.cancel("flow", ObjectId("object"), at, "a mistake", NOW, RequestId(only)) is None, name
        assert raw(clients) == FOUND[name], name
        assert store.cancel("flow", ObjectId("object"), AT, "a mistake", NOW, RequestId(STORED[1])) is not None, name


def test_what_dynamodb_refuses_otherwise_is_raised(clients: Clients) -> None:
    meet(clients, FOUND["a worker"])

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem":
            return proceed()
        response: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
        raise ClientError(response, call.operation)

    with intercept(interceptor), pytest.raises(ClientError, match="AccessDenied"):
        cancel(clients)


def test_the_run_of_one_request_alone_is_cancelled_also_where_it_was_reset(clients: Clients) -> None:
    meet(clients, FOUND["a reset run"])
    store: DynamoDBCancellations = aws_store(Settings(), clients).cancellations
    run = ("flow", ObjectId("object"), AT - 2, "not needed", NOW)
    assert store.cancel(*run, RequestId("another")) is None
    item = store.cancel(*run, RequestId(STORED[1]))
    assert item is not None
    assert item.cancellation is not None
    own = restart_id("flow", ObjectId("object"), item)
    assert own == (item.cancellation.request_id, item.cancellation.at), "as late as that is asked for"


@pytest.mark.parametrize("behind", [-5_000, 0, 5_000])
def test_who_names_a_run_cancels_it_whatever_the_own_clock_says(clients: Clients, behind: int) -> None:
    """Without a name, a run that was asked for later is another one, which nobody has meant."""
    meet(clients, FOUND["a worker"])
    store: DynamoDBCancellations = aws_store(Settings(), clients).cancellations
    at = int(FOUND["a worker"]["requested_at"]["N"]) - behind
    run = RunName(RequestId(STORED[1]), at + behind)
    other = run._replace(requested_at=run.requested_at + 1)
    assert store.cancel("flow", ObjectId("object"), at, "a mistake", NOW, other) is None
    assert (store.cancel("flow", ObjectId("object"), at, "a mistake", NOW) is None) is (behind > 0)
    meet(clients, FOUND["a worker"])
    item = store.cancel("flow", ObjectId("object"), at, "a mistake", NOW, run)
    assert item is not None
    assert (item.cancelled_because, item.cancellation) == (
        "a mistake",
        Cancellation(RequestId(STORED[1]), max(at, run.requested_at), "a mistake"),
    )

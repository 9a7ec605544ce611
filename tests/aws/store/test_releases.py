"""A release after a failed attempt: what it changes, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import BackOff, Claim, Refused
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.verdicts import Verdict
from tests.aws.states import NOW, REST, request
from tests.aws.store.run import claimed, stored


def test_a_release_ends_the_lease_and_counts_the_attempt(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.release(claim, NOW + 5, rest=REST)
    item = stored(store)
    assert (item.retry, item.lease_until, item.done, item.epoch) == (1, NOW + 5, False, 1)
    assert claimed(store, attempt=(0, 1), owner="next", now=NOW + 5).item.epoch == 2


def test_a_release_of_what_never_failed_counts_no_attempt(store: DynamoDBStore) -> None:
    store.release(claimed(store, attempt=(0, 2)), NOW + 5)
    assert (stored(store).retry, stored(store).lease_until) == (2, NOW + 5)


@pytest.mark.parametrize(("rest", "kills"), [(None, 3), (REST, -1)])
def test_the_next_claim_counts_the_kills_of_the_same_attempt_and_none_of_the_next(
    rest: BackOff | None, kills: int, memory: DynamoDBStore
) -> None:
    """It counts one more than the item says."""
    claim = claimed(memory)
    memory.release(claim._replace(item=claim.item._replace(kills=4)), NOW, rest=rest)
    assert stored(memory).kills == kills


def test_a_released_run_still_keeps_its_object_from_others(store: DynamoDBStore) -> None:
    store.release(claimed(store, policy=OnConflict.IGNORE), NOW + 5, rest=REST)
    refused = store.claim(request((501, "request-n"), policy=OnConflict.IGNORE, now=NOW + 10))
    assert isinstance(refused, Refused)
    assert refused.verdict is Verdict.IGNORED


def test_a_release_of_another_workers_hop_writes_nothing(store: DynamoDBStore) -> None:
    old = claimed(store)
    new = claimed(store, (501, "request-n"))
    store.release(old, NOW, rest=REST)
    assert stored(store) == new.item


NOTES: dict[str, Callable[[DynamoDBStore, Claim], None]] = {
    "release": lambda store, claim: store.release(claim, NOW, rest=REST),
    "note_kills": lambda store, claim: store.note_kills(claim._replace(item=claim.item._replace(kills=4))),
}


@pytest.mark.parametrize("note", NOTES)
def test_who_has_lost_the_hop_writes_nothing_and_goes_on(note: str, memory: DynamoDBStore) -> None:
    old = claimed(memory)
    NOTES[note](memory, old)
    assert stored(memory) != old.item
    new = claimed(memory, (501, "request-n"))
    NOTES[note](memory, old)
    assert stored(memory) == new.item


@pytest.mark.parametrize("note", NOTES)
def test_any_other_refusal_and_an_error_of_the_network_are_raised(note: str, memory: DynamoDBStore) -> None:
    claim = claimed(memory)
    denied: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    for error in (ClientError(denied, "UpdateItem"), EndpointConnectionError(endpoint_url="https://dynamodb")):

        def fail(_: ApiCall, __: Proceed, error: Exception = error) -> Response:
            raise error

        with intercept(fail), pytest.raises(type(error)) as raised:
            NOTES[note](memory, claim)
        assert raised.value is error

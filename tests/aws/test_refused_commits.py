"""What a commit that DynamoDB refuses means to the runtime, for each way in which it can be refused.

The engines refuse in a few of these ways only, so a client answers here that has been told how.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.items import number
from flowguard.aws.packing import Packing
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import ConditionFailed, WriteInvalid
from flowguard.items.writes import Condition, Delete, Put, Write
from flowguard.protocol.claims import taken
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, FencedBy, Refused, Status
from tests.aws.states import NOW, REST, STORED, item, request

ASKED = request(STORED)
CLAIM = Claim(ASKED.message, taken(None, ASKED), None)
FREE = Condition("attribute_not_exists(id)")
WRITES = (Put("orders", {"id": "o1"}), Put("carts", {"id": "c1"}, FREE))

NOTHING: dict[str, Any] = {"Code": "None"}
BUSY = {"Code": "TransactionConflict", "Message": "another one is ongoing"}
INVALID = {"Code": "ValidationError", "Message": "the key is empty"}
NOT_FREE = {"Code": "ConditionalCheckFailed", "Item": {"id": {"S": "c1"}}}


class Refusing:
    """A DynamoDB client whose every write fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def update_item(self, **call: Any) -> NoReturn:
        raise self._error

    def transact_write_items(self, **call: Any) -> NoReturn:
        raise self._error


def error(code: str, message: str = "", **more: Any) -> ClientError:
    status = 500 if code == "InternalServerError" else 400
    response: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    response.update(more)
    return ClientError(response, "Write")


def cancelled(*reasons: dict[str, Any]) -> ClientError:
    return error("TransactionCanceledException", CancellationReasons=list(reasons))


def refusing(failure: Exception) -> DynamoDBStore:
    """The pauses between its tries are left out."""
    client: Any = Refusing(failure)
    return DynamoDBStore(client, "flowguard", Packing(lambda: client, None, 32_768), pause=lambda seconds: None)


def committed(failure: Exception, *writes: Write) -> Committed | Fenced | Refused:
    """What the store makes of the failure."""
    return refusing(failure).commit(CLAIM, Commit(Status.RUNNING, NOW, NOW + 1_000, None, "{}", writes=writes))


@pytest.mark.parametrize(
    "failure",
    [
        cancelled(),
        error("TransactionCanceledException"),
        cancelled(NOTHING, BUSY, NOTHING),
        cancelled(BUSY),
        cancelled(NOTHING, {"Code": "InternalServerError", "Message": "try again"}, NOTHING),
        cancelled(NOTHING, BUSY, {"Code": "AReasonOfNextYear"}),
        error("InternalServerError"),
    ],
)
def test_a_transaction_that_fails_for_no_reason_of_the_writes_is_raised_as_it_is(failure: ClientError) -> None:
    with pytest.raises(ClientError) as raised:
        committed(failure, *WRITES)
    assert raised.value is failure


def test_a_write_that_cannot_be_applied_is_named_in_the_words_of_its_own_reason() -> None:
    with pytest.raises(WriteInvalid, match="refuses a recorded write: ValidationError: the key is empty"):
        committed(cancelled(NOTHING, BUSY, INVALID), *WRITES)


def test_a_request_that_is_wrong_as_a_whole_is_told_of_its_writes() -> None:
    with pytest.raises(WriteInvalid, match="refuses the commit: too many"):
        committed(error("ValidationException", "too many"), *WRITES)


@pytest.mark.parametrize("code", ["ValidationException", "SerializationException"])
def test_a_commit_of_our_own_that_is_refused_as_malformed_is_named(code: str) -> None:
    with pytest.raises(WriteInvalid, match="refuses the commit: Item size has exceeded the maximum allowed size"):
        committed(error(code, "Item size has exceeded the maximum allowed size"))


TOO_LARGE = "Item size to update has exceeded the maximum allowed size"


@pytest.mark.parametrize(
    "failure",
    [
        cancelled(NOTHING, {"Code": "ValidationError", "Message": TOO_LARGE}, NOTHING),
        error("ValidationException", TOO_LARGE),
    ],
    ids=["a reason", "of the whole request"],
)
def test_an_update_that_makes_its_item_too_large_is_refused_in_either_of_two_ways(failure: ClientError) -> None:
    """DynamoDB began to answer in the second one in October 2026, region by region."""
    with pytest.raises(WriteInvalid, match=TOO_LARGE):
        committed(failure, *WRITES)


def test_a_table_of_the_users_that_refuses_for_good_is_named() -> None:
    with pytest.raises(WriteInvalid, match="refuses the recorded writes: AccessDeniedException: no"):
        committed(error("AccessDeniedException", "no"), *WRITES)


def test_a_table_of_the_users_that_is_not_there_is_named() -> None:
    missing = error("ResourceNotFoundException", "no")
    with pytest.raises(WriteInvalid, match="one of the tables 'orders', 'carts' does not exist in the region"):
        committed(missing, *WRITES)
    with pytest.raises(WriteInvalid, match=r"the table 'orders' does not exist .* Nothing was written"):
        committed(missing, WRITES[0])


def test_two_writes_to_one_item_are_said_of_the_table_that_has_two() -> None:
    twice = error("ValidationException", "Transaction request cannot include multiple operations on one item")
    with pytest.raises(WriteInvalid, match="two of its writes to the table 'carts' are to one item"):
        committed(twice, WRITES[0], Delete("carts", {"id": "c1"}), Delete("carts", {"id": "c1"}))


def put(table: str, **item: object) -> Put:
    return Put(table, item)


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ([put("carts", id="c1", n=1), put("carts", id="c1", n=2)], "to one item, {'id': 'c1'}; record one with both"),
        (
            [put("carts", id="c1", n=1, ok=True), put("carts", id="c1", n=1, ok=True)],
            "to one item, whose key is among 'id', 'n'; record one with both",
        ),
        (
            [put("carts", id="c1", n=1), put("carts", id="c2", n=1), put("carts", id="c1", n=2)],
            "to one item, whose key is among 'id', 'n'; record one with both",
        ),
        (
            [put("carts", id="c1", n=1), put("carts", id="c1", n=2), put("orders", id="c1"), put("orders", id="c2")],
            "one of the tables 'carts', 'orders' are to one item, {'id': 'c1'}; record one with both",
        ),
        ([put("carts", id="c1"), Delete("carts", {"id": "c1"})], "to one item; record one with both"),
        ([put("flowguard", pk="run#f#o"), put("carts", id="c1")], "is to the item of this very run; leave run items"),
    ],
    ids=["by its value", "by two names", "of two pairs", "of two tables", "no two puts", "the run's own"],
)
def test_two_puts_of_one_item_are_said_of_the_key_that_they_share(writes: list[Write], said: str) -> None:
    twice = error("ValidationException", "Transaction request cannot include multiple operations on one item")
    with pytest.raises(WriteInvalid) as raised:
        committed(twice, *writes)
    assert said in str(raised.value)


@pytest.mark.parametrize("code", ["AccessDeniedException", "ItemCollectionSizeLimitExceededException"])
def test_a_run_table_that_refuses_is_no_fault_of_the_handlers(code: str) -> None:
    failure = error(code, "no")
    with pytest.raises(ClientError) as raised:
        committed(failure)
    assert raised.value is failure


def test_a_cancelled_transaction_without_reasons_might_hide_a_success() -> None:
    failure = cancelled()
    with pytest.raises(ClientError) as raised:
        committed(failure, *WRITES)
    assert raised.value is failure


def test_a_condition_of_the_second_write_is_told_with_its_own_table_and_item() -> None:
    with pytest.raises(ConditionFailed) as raised:
        committed(cancelled(NOTHING, NOTHING, NOT_FREE), *WRITES)
    found = raised.value
    assert (found.table, found.condition, found.item) == ("carts", FREE.expression, {"id": "c1"})


def test_the_fence_comes_before_anything_else_that_is_wrong() -> None:
    newer = {
        **item(1, "running", (0, 0), "alive", "other"),
        "request_id": {"S": "request-z"},
        "requested_at": number(501),
    }
    fence = {"Code": "ConditionalCheckFailed", "Item": newer}
    answer = committed(cancelled(fence, INVALID, NOT_FREE), *WRITES)
    assert isinstance(answer, Fenced)
    assert answer.by is FencedBy.NEWER_RUN
    gone = committed(cancelled({"Code": "ConditionalCheckFailed"}, NOT_FREE, INVALID), *WRITES)
    assert gone == Fenced(FencedBy.EXPIRED, None)


def test_what_is_no_answer_of_dynamodbs_comes_through() -> None:
    """A connection that broke, or a mistake in the code: never an answer about the item."""
    failure = EndpointConnectionError(endpoint_url="https://dynamodb")
    with pytest.raises(EndpointConnectionError):
        committed(failure)
    with pytest.raises(EndpointConnectionError):
        refusing(failure).claim(ASKED)
    with pytest.raises(EndpointConnectionError):
        refusing(failure).release(CLAIM, NOW, rest=REST)

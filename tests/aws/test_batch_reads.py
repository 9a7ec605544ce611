"""Reads of several runs in one request, and the commits of what was only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.batch_reads import BatchReads
from flowguard.aws.items import run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Claim, ClaimRequest, Committed, Refused, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from tests.aws.engines import MOTO, on_memory, on_moto
from tests.aws.states import request
from tests.aws.store.run import commit
from tests.aws.test_batch_calls import BATCH, CODES, failing, of, other, repeated, stored, three

READ = "BatchGetItem"
ON_ENGINES = ("memory", MOTO, pytest.param("dynamodb-local", marks=pytest.mark.proof("the same on a real engine")))


@pytest.fixture(params=ON_ENGINES)
def store(request: pytest.FixtureRequest) -> Iterator[DynamoDBStore]:
    match request.param:
        case "memory":
            with on_memory() as clients:
                yield aws_store(Settings(), clients)
        case "moto":
            with on_moto() as clients:
                yield aws_store(Settings(), clients)
        case _:
            from tests.aws.engines import on_dynamodb_local

            yield aws_store(Settings(), on_dynamodb_local(request.getfixturevalue("dynamodb_local_url")))


@pytest.fixture
def quick() -> Iterator[DynamoDBStore]:
    """The store for what is the same on each engine, since the answer is made up."""
    with on_memory() as clients:
        yield aws_store(Settings(), clients)


def reads(store: DynamoDBStore, requests: Sequence[ClaimRequest]) -> list[Claim]:
    found = store.batches.judge(requests)
    granted = [one for one in found if isinstance(one, Claim)]
    assert len(granted) == len(found)
    return granted


def said(answer: Claim | Refused | None) -> object:
    """The answer but for texts that are read on demand."""
    if isinstance(answer, Claim):
        return answer._replace(item=answer.item._replace(left=None), before=None)
    return answer


# -- what is read -----------------------------------------------------------------------------------------------------


def test_each_is_judged_as_it_is_alone_and_nothing_is_written(store: DynamoDBStore) -> None:
    for claim in reads(store, three()):
        store.commit(claim, commit())
    newer = request((501, "request-n"))
    newer = newer._replace(message=newer.message._replace(object_id=ObjectId("object-2")))
    asked = [of(9), of(0, hop=2), of(1), newer, of(3, hop=2)]
    before = [stored(store, place) for place in range(4)]
    with intercept(Recorder()) as calls:
        found = store.batches.judge(asked)
    assert [call.operation for call in calls.calls] == [READ]
    assert calls.calls[0].params["RequestItems"]["flowguard"]["ConsistentRead"] is True
    assert list(map(said, found)) == [said(store.judge(one)) for one in asked]
    assert [one.verdict if isinstance(one, Refused) else None for one in found] == [
        None,
        None,
        Verdict.DONE,
        None,
        Verdict.GONE,
    ]
    assert [stored(store, place) for place in range(4)] == before


def test_a_request_has_at_most_100_keys(store: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        found = reads(store, [of(place) for place in range(101)])
    assert [len(call.params["RequestItems"]["flowguard"]["Keys"]) for call in calls.calls] == [100, 1]
    assert [claim.message.object_id for claim in found] == [f"object-{place}" for place in range(101)]


def test_nothing_is_read_where_there_is_nothing_to_read(quick: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        assert quick.batches.judge([]) == []
    assert calls.calls == []


@pytest.mark.parametrize("name", ["\ud800", "", "x" * 2_000])
def test_what_no_item_can_hold_is_left_to_its_own_call_and_harms_no_other(quick: DynamoDBStore, name: str) -> None:
    hostile = of(1)._replace(message=of(1).message._replace(object_id=ObjectId(name)))
    with intercept(Recorder()) as calls:
        first, none, last = quick.batches.judge([of(0), hostile, of(2)])
    assert len(calls.calls) == 1
    assert none is None
    assert isinstance(first, Claim)
    assert isinstance(last, Claim)


@pytest.mark.parametrize("name", ["#", "o#run", "€" * 300, "\x00\n", 'o" = ? --'])
def test_an_object_of_any_name_is_told_from_others(store: DynamoDBStore, name: str) -> None:
    hostile = of(1)._replace(message=of(1).message._replace(object_id=ObjectId(name)))
    store.commit(reads(store, [hostile])[0], commit())
    with intercept(Recorder()) as calls:
        found = store.batches.judge([of(0), hostile])
    assert len(calls.calls) == 1
    assert [isinstance(one, Claim) for one in found] == [True, False]


def test_an_item_that_cannot_be_read_is_reported_for_its_own_run_alone(quick: DynamoDBStore) -> None:
    quick._client.put_item(TableName="flowguard", Item={**run_key("flow", ObjectId("object-1")), "hop": {"S": "?"}})
    assert [isinstance(one, Claim) for one in quick.batches.judge(three())] == [True, False, True]


# -- what is not read -------------------------------------------------------------------------------------------------


def leaving(*counts: int) -> Callable[[ApiCall, Proceed], Response]:
    """Each answer in turn leaves so many keys unprocessed, from the end."""
    left = iter(counts)

    def leave(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != READ or not (some := next(left, 0)):
            return proceed()
        asked: Any = call.params["RequestItems"]["flowguard"]
        unprocessed = {"flowguard": {**asked, "Keys": asked["Keys"][-some:]}}
        asked["Keys"] = asked["Keys"][:-some]
        found = proceed() if asked["Keys"] else {"Responses": {"flowguard": []}}
        return {**found, "UnprocessedKeys": unprocessed}

    return leave


@pytest.mark.parametrize(
    ("left", "calls", "answered"),
    [((2,), 2, 4), ((3, 2, 1), 4, 4), ((4,), 1, 0), ((2, 2), 2, 2), ((3, 2, 2), 3, 2)],
)
def test_what_is_left_unprocessed_is_asked_for_again_while_an_answer_brings_some(
    quick: DynamoDBStore, left: tuple[int, ...], calls: int, answered: int
) -> None:
    made: list[str] = []

    def counted(call: ApiCall, proceed: Proceed) -> Response:
        made.append(call.operation)
        return proceed()

    with intercept(counted), intercept(leaving(*left)):
        found = quick.batches.judge([of(place) for place in range(4)])
    assert [one is not None for one in found] == [True] * answered + [False] * (4 - answered)
    assert made == [READ] * calls


@pytest.mark.parametrize(
    ("error", "asked_again"),
    [
        (EndpointConnectionError(endpoint_url="https://nowhere"), True),
        (ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, READ), True),
        (ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow"}}, READ), True),
        (ClientError({"Error": {"Code": "ValidationException", "Message": "duplicates"}}, READ), True),
        (ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no table"}}, READ), True),
        (ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, READ), True),
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not\nauthorized"}}, READ), False),
        (ClientError({"Error": {"Code": "UnknownOperationException", "Message": "what"}}, READ), False),
        (NotImplementedError("no such operation"), True),
    ],
)
def test_a_request_that_fails_leaves_each_to_its_own_call(
    quick: DynamoDBStore, error: Exception, asked_again: bool, warnings: list[str]
) -> None:
    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == READ:
            raise error
        return proceed()

    with intercept(fail):
        assert quick.batches.judge(three()) == [None] * 3
        assert quick.batches.judge(three()) == [None] * 3
    assert len(warnings) == (0 if asked_again else 1)
    assert all("dynamodb:BatchGetItem" in said and "\n" not in said for said in warnings)
    with intercept(Recorder()) as calls:
        found = quick.batches.judge(three())
        assert all(isinstance(one, Claim) for one in quick.batches.claim(three())), "statements are another permission"
    assert (calls.calls[0].operation == READ) is asked_again
    assert all(isinstance(one, Claim) for one in found) is asked_again


def test_statements_that_are_denied_say_nothing_of_reads(quick: DynamoDBStore, warnings: list[str]) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == BATCH:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, BATCH)
        return proceed()

    with intercept(deny):
        found = reads(quick, three())
        assert quick.batches.commit([(claim, commit()) for claim in found]) == [None] * 3
    assert len(warnings) == 1
    assert len(reads(quick, three())) == 3


@pytest.mark.parametrize("answer", [{}, {"Responses": None}, {"Responses": {"flowguard": [{"hop": {"N": "1"}}]}}])
def test_an_answer_that_is_none_leaves_each_to_its_own_call(quick: DynamoDBStore, answer: Response) -> None:
    with intercept(lambda call, proceed: answer if call.operation == READ else proceed()):
        assert quick.batches.judge(three()) == [None] * 3


def test_a_read_without_its_unprocessed_keys_has_answered_all(quick: DynamoDBStore) -> None:
    with intercept(lambda call, proceed: {"Responses": {}} if call.operation == READ else proceed()):
        assert len(reads(quick, three())) == 3


def test_reads_yield_by_place_and_name_no_place_that_was_not_answered(quick: DynamoDBStore) -> None:
    keys = {place: run_key("flow", ObjectId(f"object-{place}")) for place in (4, 2, 9)}
    with intercept(leaving(2, 2)):
        assert dict(BatchReads(quick._client, "flowguard").read(keys)) == {4: None}


# -- the commits of what was read -------------------------------------------------------------------------------------


@pytest.fixture(params=[one for one in ON_ENGINES if one is not MOTO])
def speaking(request: pytest.FixtureRequest) -> Iterator[DynamoDBStore]:
    """The store of an engine that takes statements."""
    if request.param == "memory":
        with on_memory() as clients:
            yield aws_store(Settings(), clients)
    else:
        from tests.aws.engines import on_dynamodb_local

        yield aws_store(Settings(), on_dynamodb_local(request.getfixturevalue("dynamodb_local_url")))


def test_items_are_inserted_and_updated_in_one_request(speaking: DynamoDBStore) -> None:
    store = speaking
    store.commit(reads(store, [of(1)])[0], commit())
    found = reads(store, [of(0), of(1, hop=2), of(2)])
    with intercept(Recorder()) as calls:
        answers = store.batches.commit([(claim, commit(status=Status.COMPLETED)) for claim in found])
    assert [call.operation for call in calls.calls] == [BATCH]
    assert answers == [Committed()] * 3
    assert [(stored(store, place).hop, stored(store, place).epoch) for place in range(3)] == [(1, 1), (2, 2), (1, 1)]


def test_each_that_finds_another_item_gets_the_verdict_of_now(speaking: DynamoDBStore) -> None:
    store = speaking
    for claim in reads(store, three()):
        store.commit(claim, commit())
    found = reads(store, three(hop=2))
    store.commit(reads(store, [other(of(0, hop=2))])[0], commit())
    newer = request((501, "request-n"))
    taker = store.claim(newer._replace(message=newer.message._replace(object_id=ObjectId("object-1"))))
    assert isinstance(taker, Claim)
    answers = store.batches.commit([(claim, commit()) for claim in found])
    verdicts = [one.verdict if isinstance(one, Refused) else one for one in answers]
    assert verdicts == [Verdict.DONE, Verdict.SUPERSEDED, Committed()]


def test_who_finds_an_item_where_there_was_none_asks_alone(speaking: DynamoDBStore) -> None:
    store = speaking
    found = reads(store, three())
    store.commit(reads(store, [other(of(1))])[0], commit())
    answers = store.batches.commit([(claim, commit()) for claim in found])
    assert answers == [Committed(), None, Committed()]
    alone = store.commit(found[1], commit())
    assert isinstance(alone, Refused)
    assert alone.verdict is Verdict.DONE


@pytest.mark.parametrize("hop", [1, 2])
def test_commits_whose_answer_was_lost_are_successes(speaking: DynamoDBStore, hop: int) -> None:
    store = speaking
    if hop == 2:
        for claim in reads(store, three()):
            store.commit(claim, commit())
    found = reads(store, three(hop=hop))
    with intercept(repeated):
        answers = store.batches.commit([(claim, commit()) for claim in found])
    assert answers == ([None] * 3 if hop == 1 else [Committed()] * 3)
    assert [store.commit(claim, commit()) for claim in found] == [Committed()] * 3
    assert [stored(store, place).epoch for place in range(3)] == [hop] * 3, "written once"


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_a_statement_that_fails_leaves_its_own_run_to_a_call_and_no_other(
    speaking: DynamoDBStore, code: str, applied: bool
) -> None:
    found = reads(speaking, three())
    with intercept(failing(1, code, applied=applied)):
        answers = speaking.batches.commit([(claim, commit()) for claim in found])
    assert answers == [Committed(), None, Committed()]
    assert speaking.commit(found[1], commit()) == Committed()
    assert [stored(speaking, place).epoch for place in range(3)] == [1] * 3


def test_a_read_that_is_repeated_reads_what_is_there_now(store: DynamoDBStore) -> None:
    """The first answer gets lost, and another worker commits before botocore asks again."""

    def late(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        claim = store.judge(other(of(1)))
        assert isinstance(claim, Claim)
        store.commit(claim, commit())
        return proceed()

    with intercept(lambda call, proceed: late(call, proceed) if call.operation == READ else proceed()):
        first, second, third = store.batches.judge(three())
    assert isinstance(second, Refused)
    assert second.verdict is Verdict.DONE
    assert isinstance(first, Claim)
    assert isinstance(third, Claim)


def test_one_that_asks_for_an_answer_is_inserted_with_its_asker(speaking: DynamoDBStore) -> None:
    asked = [one._replace(message=one.message._replace(reply_to="sqs:replies")) for one in three()]
    found = reads(speaking, asked)
    answers = speaking.batches.commit([(claim, commit()) for claim in found])
    assert answers == [Committed()] * 3
    assert [len(stored(speaking, place).askers) for place in range(3)] == [1] * 3

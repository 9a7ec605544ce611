"""Claims and commits of several runs in one request: each answer means what it means of a single call, or nothing."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.items import run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, FencedBy, Refused, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from tests.aws.engines import on_memory, on_moto
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import commit

ON_ENGINES = ("memory", pytest.param("dynamodb-local", marks=pytest.mark.proof("the same on a real engine")))
BATCH = "BatchExecuteStatement"


@pytest.fixture(params=ON_ENGINES)
def store(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        with on_memory() as clients:
            yield aws_store(Settings(), clients)
    else:
        from tests.aws.engines import on_dynamodb_local

        yield aws_store(Settings(), on_dynamodb_local(request.getfixturevalue("dynamodb_local_url")))


def of(place: int, **more: Any) -> ClaimRequest:
    """A claim of an object of its own."""
    asked = request(STORED, **more)
    return asked._replace(message=asked.message._replace(object_id=ObjectId(f"object-{place}")))


def three(**more: Any) -> list[ClaimRequest]:
    return [of(place, **more) for place in range(3)]


def claims(store: DynamoDBStore, requests: Sequence[ClaimRequest]) -> list[Claim]:
    found = store.batches.claim(requests)
    granted = [one for one in found if isinstance(one, Claim)]
    assert len(granted) == len(found)
    return granted


def stored(store: DynamoDBStore, place: int) -> Any:
    return store.read("flow", ObjectId(f"object-{place}"))


def other(asked: ClaimRequest) -> ClaimRequest:
    """The same claim of another worker."""
    return asked._replace(owner=Owner("other"))


# -- what each is answered --------------------------------------------------------------------------------------------


def test_new_objects_are_claimed_in_one_request(store: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        found = claims(store, three())
    assert [call.operation for call in calls.calls] == [BATCH]
    assert [claim.item for claim in found] == [stored(store, place) for place in range(3)]
    assert [(claim.before, claim.item.epoch) for claim in found] == [(None, 1)] * 3


def test_objects_that_are_there_are_claimed_in_one_request_each_by_its_own_policy(store: DynamoDBStore) -> None:
    for claim in claims(store, three()):
        store.commit(claim, commit())
    asked = [of(0, hop=2), of(1), of(2, owner="late")]
    newer = request((501, "request-n"), policy=OnConflict.IGNORE)
    asked[2] = newer._replace(message=newer.message._replace(object_id=ObjectId("object-2")))
    with intercept(Recorder()) as calls:
        next_hop, done, ignored = store.batches.claim(asked)
    assert [call.operation for call in calls.calls] == [BATCH, BATCH], "first hops were expected to meet nothing"
    assert isinstance(next_hop, Claim)
    assert next_hop.item == stored(store, 0)
    assert next_hop.item.state == '{"total":3}'
    assert isinstance(done, Refused)
    assert done.item is not None
    assert (done.verdict, done.item.outbox) == (Verdict.DONE, stored(store, 1).outbox)
    assert isinstance(ignored, Refused)
    assert ignored.verdict is Verdict.IGNORED


def test_what_first_hops_meet_is_learnt_from_those_before(store: DynamoDBStore) -> None:
    def requests(places: Sequence[int]) -> int:
        with intercept(Recorder()) as calls:
            answers = store.batches.claim([of(place, owner=f"worker-{len(made)}") for place in places])
        assert None not in answers
        made.append(len(calls.calls))
        return made[-1]

    made: list[int] = []
    assert [requests(range(3)), requests(range(3)), requests(range(3))] == [1, 2, 1]
    assert [requests([0, 1, 3]), requests([0, 1, 4])] == [2, 2], "most of them meet an item"
    assert [requests([0, 5, 6]), requests([7, 8])] == [2, 1]
    assert requests([0, 1, 9]) == 2


def test_later_hops_say_nothing_of_what_first_hops_meet(store: DynamoDBStore) -> None:
    for claim in claims(store, [of(place) for place in range(4)]):
        store.commit(claim, commit())
    later = [of(place, hop=2) for place in range(1, 4)]
    with intercept(Recorder()) as calls:
        store.batches.claim([of(0), of(5), of(6), *later])
        store.batches.claim([of(7), of(8)])
    assert [call.operation for call in calls.calls] == [BATCH] * 3


def test_a_retry_is_expected_to_meet_its_item(store: DynamoDBStore) -> None:
    claims(store, three())
    with intercept(Recorder()) as calls:
        claims(store, three(attempt=(0, 1)))
    assert len(calls.calls) == 1


def test_where_an_item_comes_and_goes_meanwhile_the_claim_is_left_to_its_own_call(store: DynamoDBStore) -> None:
    claims(store, three())

    def expire(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        for place in range(3):
            store._client.delete_item(TableName="flowguard", Key=run_key("flow", ObjectId(f"object-{place}")))
        return answer

    with intercept(once(expire)):
        assert store.batches.claim(three(owner="late")) == [None, None, None]


def test_a_later_hop_without_an_item_is_left_to_its_own_call(store: DynamoDBStore) -> None:
    """An engine that does not show the item of a failed condition must not make a message a dead letter."""
    with intercept(Recorder()) as calls:
        assert store.batches.claim([of(0, hop=2), of(1)])[0] is None
    assert len(calls.calls) == 1
    assert stored(store, 0) is None


def test_commits_are_written_in_one_request_or_fenced_each_by_its_own(store: DynamoDBStore) -> None:
    found = claims(store, three())
    assert isinstance(store.claim(of(1, attempt=(0, 1))), Claim)
    with intercept(Recorder()) as calls:
        answers = store.batches.commit([(claim, commit(status=Status.COMPLETED)) for claim in found])
    assert [call.operation for call in calls.calls] == [BATCH]
    assert (answers[0], answers[2]) == (Committed(), Committed())
    assert isinstance(answers[1], Fenced)
    assert answers[1].by is FencedBy.OTHER_ATTEMPT
    assert [stored(store, place).done for place in range(3)] == [True, False, True]


def test_a_commit_without_an_item_is_left_to_its_own_call(store: DynamoDBStore) -> None:
    claim = Claim(of(0).message, claims(store, [of(1)])[0].item, None)
    assert store.batches.commit([(claim, commit())]) == [None]


def test_a_claim_is_given_back_and_its_attempt_is_not_counted(store: DynamoDBStore) -> None:
    found = claims(store, three())
    assert isinstance(store.claim(of(1, attempt=(0, 1))), Claim)
    store.batches.release(found, NOW + 5)
    leases = [(stored(store, place).lease_until, stored(store, place).retry) for place in range(3)]
    assert leases == [(NOW + 5, 0), (NOW + 10_000, 1), (NOW + 5, 0)]
    assert isinstance(store.claim(other(of(0, now=NOW + 5))), Claim)


# -- what is not answered ---------------------------------------------------------------------------------------------


def test_what_cannot_be_said_is_left_to_its_own_call(store: DynamoDBStore) -> None:
    lone = of(3)._replace(message=of(3).message._replace(request_id=RequestId("\ud800")))
    hostile = of(4, hop=2)._replace(message=of(4).message._replace(hop=2, stage='x" = ? REMOVE "y'))
    with intercept(Recorder()) as calls:
        assert store.batches.claim([lone, hostile]) == [None, None]
    assert calls.calls == []


def test_a_first_hop_of_a_flow_that_takes_callers_is_inserted_or_left_to_its_own_call(store: DynamoDBStore) -> None:
    asked = three(policy=OnConflict.ATTACH)
    asked = [one._replace(message=one.message._replace(reply_to="sqs:replies")) for one in asked]
    assert [claim.item for claim in claims(store, asked)] == [stored(store, place) for place in range(3)]
    assert store.batches.claim(asked) == [None, None, None], "PartiQL has no if_not_exists"


def test_a_commit_that_is_too_large_is_left_to_its_own_call_and_harms_no_other(store: DynamoDBStore) -> None:
    found = claims(store, three())
    large = commit(state="\N{EURO SIGN}" * 200_000, status=Status.RUNNING)
    texts: list[Commit] = [commit(), large, commit()]
    answers = store.batches.commit(list(zip(found, texts, strict=True)))
    assert [isinstance(answer, Committed) for answer in answers] in ([True, False, True], [True, True, True])


CODES = (
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "TransactionConflict",
    "ValidationError",
    "InternalServerError",
    "AccessDenied",
    "ResourceNotFound",
    "ItemCollectionSizeLimitExceeded",
    "RequestLimitExceeded",
    "DuplicateItem",
    "Unheard",
)


def failing(place: int, code: str, *, applied: bool) -> Callable[[ApiCall, Proceed], Response]:
    """The one statement of a request answers with the code, whether or not it was applied."""

    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != BATCH:
            return proceed()
        answer = (
            proceed()
            if applied
            else call.client.batch_execute_statement(  # type: ignore[attr-defined]  # of a client of DynamoDB
                Statements=[one for at, one in enumerate(call.params["Statements"]) if at != place]
            )
        )
        answers = list(answer["Responses"])
        if applied:
            del answers[place]
        answers.insert(place, {"Error": {"Code": code, "Message": "no"}})
        return {**answer, "Responses": answers}

    return once(fail)


def once(interceptor: Callable[[ApiCall, Proceed], Response]) -> Callable[[ApiCall, Proceed], Response]:
    struck: list[bool] = []

    def strike(call: ApiCall, proceed: Proceed) -> Response:
        if struck or call.operation != BATCH:
            return proceed()
        struck.append(True)
        return interceptor(call, proceed)

    return strike


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_a_statement_that_fails_leaves_its_own_run_to_a_call_and_no_other(
    store: DynamoDBStore, code: str, applied: bool
) -> None:
    for claim in claims(store, three()):
        store.commit(claim, commit())
    with intercept(failing(1, code, applied=applied)):
        found = store.batches.claim(three(hop=2))
    assert [isinstance(one, Claim) for one in found] == [True, False, True]
    assert found[1] is None
    again = store.claim(of(1, hop=2))
    assert isinstance(again, Claim), "the same owner is granted it whether or not it was written"
    ready = [found[0], again, found[2]]
    pairs = [(one, commit()) for one in ready if isinstance(one, Claim)]
    with intercept(failing(1, code, applied=applied)):
        answers = store.batches.commit(pairs)
    assert answers == [Committed(), None, Committed()]
    assert store.commit(*pairs[1]) == Committed()


def test_what_fails_for_another_reason_is_not_taken_for_refused_or_fenced(store: DynamoDBStore) -> None:
    found = claims(store, three())
    keys = [run_key("flow", ObjectId(f"object-{place}")) for place in range(3)]
    shown = [store._client.get_item(TableName="flowguard", Key=key)["Item"] for key in keys]

    def conflict(call: ApiCall, proceed: Proceed) -> Response:
        return {"Responses": [{"Error": {"Code": "TransactionConflict", "Item": one}} for one in shown]}

    with intercept(conflict):
        assert store.batches.claim(three(attempt=(0, 1))) == [None] * 3
        assert store.batches.commit([(claim, commit()) for claim in found]) == [None] * 3


@pytest.mark.parametrize(
    ("error", "asked_again"),
    [
        (EndpointConnectionError(endpoint_url="https://nowhere"), True),
        (ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, BATCH), True),
        (ClientError({"Error": {"Code": "ValidationException", "Message": "duplicates"}}, BATCH), True),
        (ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no table"}}, BATCH), True),
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "denied"}}, BATCH), False),
        (ClientError({"Error": {"Code": "UnknownOperationException", "Message": "what"}}, BATCH), False),
        (AssertionError("no such parser"), False),
    ],
)
def test_a_request_that_fails_leaves_each_to_its_own_call(
    store: DynamoDBStore, error: Exception, asked_again: bool, warnings: list[str]
) -> None:
    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == BATCH:
            raise error
        return proceed()

    with intercept(fail):
        assert store.batches.claim(three()) == [None, None, None]
        assert store.batches.claim(three()) == [None, None, None]
    assert len(warnings) == (0 if asked_again else 1)
    with intercept(Recorder()) as calls:
        found = store.batches.claim(three())
    assert bool(calls.calls) is asked_again
    assert all(isinstance(one, Claim) for one in found) is asked_again


def test_a_role_that_may_not_is_denied_once_and_the_log_says_what_to_allow(
    store: DynamoDBStore, warnings: list[str]
) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        denied = {"Error": {"Code": "AccessDenied", "Message": "not\nauthorized"}}
        return {"Responses": [denied for _ in call.params["Statements"]]}

    with intercept(Recorder()) as calls, intercept(deny):
        assert store.batches.claim(three()) == [None, None, None]
        assert store.batches.claim(three()) == [None, None, None]
    assert len(calls.calls) == 1
    [said] = warnings
    assert "dynamodb:PartiQLUpdate and dynamodb:PartiQLInsert" in said
    assert "\n" not in said


def test_statements_that_are_never_valid_are_not_said_for_ever(store: DynamoDBStore, warnings: list[str]) -> None:
    invalid: list[bool] = []

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != BATCH or not invalid[-1]:
            return proceed()
        return {
            "Responses": [{"Error": {"Code": "ValidationError", "Message": "no"}} for _ in call.params["Statements"]]
        }

    with intercept(Recorder()) as calls, intercept(refuse):
        for refused in (True, True, False, True, True, True, True):
            invalid.append(refused)
            assert (store.batches.claim(three(attempt=(0, len(invalid)))) == [None] * 3) is refused
            if len(invalid) == 1:
                for one in three():
                    store.claim(one)
                calls.calls.clear()
    assert len([call for call in calls.calls if call.operation == BATCH]) == 5
    assert len(warnings) == 1


def test_moto_knows_no_such_request_and_the_log_says_so_once(warnings: list[str]) -> None:
    with on_moto() as clients:
        store = aws_store(Settings(), clients)
        assert store.batches.claim(three()) == [None, None, None]
        assert store.batches.claim(three()) == [None, None, None]
        assert [isinstance(store.claim(one), Claim) for one in three()] == [True, True, True]
    assert len(warnings) == 1


# -- answers that got lost --------------------------------------------------------------------------------------------


def repeated(call: ApiCall, proceed: Proceed) -> Response:
    """The answer never arrives, so botocore repeats the request."""
    proceed()
    return proceed()


def test_claims_whose_answer_was_lost_are_still_claims(store: DynamoDBStore) -> None:
    for claim in claims(store, three()):
        store.commit(claim, commit())
    with intercept(repeated):
        found = claims(store, three(hop=2))
    assert [(claim.item, claim.item.epoch) for claim in found] == [(stored(store, place), 3) for place in range(3)]


def test_a_first_claim_whose_answer_was_lost_is_still_a_claim(store: DynamoDBStore) -> None:
    with intercept(repeated):
        found = claims(store, three())
    assert [(claim.item, claim.item.epoch) for claim in found] == [(stored(store, place), 3) for place in range(3)]
    busy = store.claim(other(of(1)))
    assert isinstance(busy, Refused)
    assert busy.verdict is Verdict.BUSY


def test_commits_whose_answer_was_lost_are_successes(store: DynamoDBStore) -> None:
    found = claims(store, three())
    with intercept(repeated):
        assert store.batches.commit([(claim, commit()) for claim in found]) == [Committed()] * 3


# -- how many to a request --------------------------------------------------------------------------------------------


def test_a_request_has_at_most_25_statements(store: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        claims(store, [of(place) for place in range(26)])
    assert [len(call.params["Statements"]) for call in calls.calls] == [25, 1]


def test_a_request_has_a_bounded_size(store: DynamoDBStore) -> None:
    found = claims(store, [of(place) for place in range(12)])
    drawn = random.Random(0)
    results = ["".join(drawn.choices(string.ascii_letters, k=150_000)) for _ in found]
    with intercept(Recorder()) as calls:
        pairs = [(claim, commit(result=f'"{result}"')) for claim, result in zip(found, results, strict=True)]
        assert store.batches.commit(pairs) == [Committed()] * 12
    assert [len(call.params["Statements"]) for call in calls.calls] == [9, 3]


def test_nothing_is_asked_where_there_is_nothing_to_ask(store: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        assert store.batches.claim([]) == []
        assert store.batches.commit([]) == []
        store.batches.release([], NOW)
    assert calls.calls == []

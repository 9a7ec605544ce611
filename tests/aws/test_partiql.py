"""The statements of a batch do what the calls do that they are made from, in every small state of the claim's table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.aws.claim_call import claim_call
from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.aws.partiql import LONGEST_STATEMENT, Unsayable, insert_statement, update_statement
from flowguard.aws.services import aws_store
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.claims import begins_list, taken
from flowguard.protocol.outbox import Outbox
from flowguard.protocol.run import Claim, Commit, Status
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from tests.aws.states import KINDS, NOW, STORED, Meeting, item, request
from tests.aws.store.run import commit_call
from tests.aws.test_claims_agree import _lay_out, decided

ON_ENGINES = ("memory", pytest.param("dynamodb-local", marks=pytest.mark.proof("every small state, on a real engine")))
KEY = {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
CALL: dict[str, Any] = {
    "TableName": "flowguard",
    "Key": KEY,
    "UpdateExpression": "SET #status = :status REMOVE stages.#stage",
    "ConditionExpression": "#owner = :owner",
    "ExpressionAttributeNames": {"#status": "status", "#owner": "owner", "#stage": "price"},
    "ExpressionAttributeValues": {":status": {"S": "RUNNING"}, ":owner": {"S": "mine"}},
}


def execute(clients: Clients, statement: dict[str, Any]) -> dict[str, Any]:
    [answer] = clients.dynamodb.batch_execute_statement(Statements=[statement])["Responses"]  # type: ignore[list-item]  # made here as text
    return dict(answer)


def there(clients: Clients) -> dict[str, Any] | None:
    return clients.dynamodb.get_item(TableName="flowguard", Key=KEY, ConsistentRead=True).get("Item")


def batches(kind: str, step: int) -> Iterator[list[Meeting]]:
    """Each ``step``-th of the meetings that have a statement, 25 together, each of an object of its own."""
    sayable = islice((meeting for meeting in KINDS[kind]() if not begins_list(meeting.request)), None, None, step)
    while batch := list(islice(sayable, 25)):
        yield [_of_object(meeting, f"object-{place}") for place, meeting in enumerate(batch)]


def _of_object(meeting: Meeting, name: str) -> Meeting:
    message = meeting.request.message._replace(object_id=ObjectId(name))
    stored = {**meeting.item, **run_key("flow", message.object_id)} if meeting.item is not None else None
    return Meeting(meeting.says, stored, meeting.request._replace(message=message))


def lay_out(clients: Clients, batch: list[Meeting]) -> None:
    keys = [run_key("flow", meeting.request.message.object_id) for meeting in batch]
    clients.dynamodb.batch_write_item(
        RequestItems={
            "flowguard": [
                {"PutRequest": {"Item": meeting.item}} if meeting.item is not None else {"DeleteRequest": {"Key": key}}
                for meeting, key in zip(batch, keys, strict=True)
            ]
        }
    )


def stored(clients: Clients, batch: list[Meeting]) -> dict[str, dict[str, Any]]:
    """The items by the text of their partitions."""
    keys = [run_key("flow", meeting.request.message.object_id) for meeting in batch]
    answer = clients.dynamodb.batch_get_item(RequestItems={"flowguard": {"Keys": keys, "ConsistentRead": True}})
    return {one["pk"]["S"]: dict(one) for one in answer["Responses"]["flowguard"]}


@pytest.mark.parametrize("clients", ON_ENGINES, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_by_statement_is_decided_as_every_claim(clients: Clients, kind: str) -> None:
    step = 7 if clients.dynamodb.meta.endpoint_url.endswith("amazonaws.com") else 1
    for batch in batches(kind, step):
        lay_out(clients, batch)
        statements: Any = [update_statement(claim_call("flowguard", meeting.request)) for meeting in batch]
        answers = clients.dynamodb.batch_execute_statement(Statements=statements)["Responses"]
        granted = [meeting for meeting in batch if meeting.item is not None and decided(meeting) is Verdict.CLAIMED]
        for meeting, answer in zip(batch, answers, strict=True):
            error: Any = answer.get("Error", {})
            assert error.get("Code") == (None if meeting in granted else "ConditionalCheckFailed"), meeting.says
            assert answer.get("Item", error.get("Item")) == meeting.item, meeting.says
        written = stored(clients, batch)
        lay_out(clients, batch)
        for meeting in granted:
            clients.dynamodb.update_item(**claim_call("flowguard", meeting.request))
        assert written == stored(clients, batch)


@pytest.mark.parametrize("clients", ON_ENGINES, indirect=True)
def test_a_first_hop_is_inserted_where_there_is_no_item_and_only_there(clients: Clients) -> None:
    store = aws_store(Settings(), clients)
    asked = request(STORED)
    asked = asked._replace(message=asked.message._replace(reply_to="sqs:replies"))
    _lay_out(clients, Meeting("no item", None, asked))
    statement = insert_statement(claim_call("flowguard", asked))
    assert "Error" not in execute(clients, statement)
    assert store.read("flow", ObjectId("object")) == taken(None, asked)
    inserted = there(clients)
    again = insert_statement(claim_call("flowguard", request((501, "request-n"))))
    assert execute(clients, again)["Error"]["Code"] == "DuplicateItem"
    assert there(clients) == inserted


NOTE = ErrorNote("Reject", "sold out", NOW)
COMMITS = {
    "goes on": Commit(Status.RUNNING, NOW, NOW + 1_000, Outbox(RequestId(STORED[1]), NOW, ()), '{"total": 7}'),
    "completed": Commit(Status.COMPLETED, NOW, NOW + 1_000, None, None, result="7"),
    "failed": Commit(Status.FAILED, NOW, NOW + 1_000, None, None, error=NOTE),
}


@pytest.mark.parametrize("clients", ON_ENGINES, indirect=True)
@pytest.mark.parametrize("end", COMMITS)
def test_a_commit_by_statement_is_judged_and_written_as_every_commit(clients: Clients, end: str) -> None:
    store = aws_store(Settings(), clients)
    _lay_out(clients, Meeting("", item(1, "running", (0, 0), "alive", "mine"), request(STORED)))
    claim = store.claim(request(STORED))
    assert isinstance(claim, Claim)
    claimed = there(clients)
    assert claimed is not None
    call = commit_call(claim, COMMITS[end])
    for change in ({}, {"owner": {"S": "other"}}, {"epoch": {"N": "1"}}, {"request_id": {"S": "other"}}):
        _lay_out(clients, Meeting("", {**claimed, **change}, request(STORED)))
        answer = execute(clients, update_statement(call))
        written = there(clients)
        assert answer.get("Error", {}).get("Code") == ("ConditionalCheckFailed" if change else None)
        _lay_out(clients, Meeting("", {**claimed, **change}, request(STORED)))
        if change:
            assert written == answer["Error"]["Item"] == there(clients)
        else:
            clients.dynamodb.update_item(**call)
            assert written == there(clients)
    clients.dynamodb.delete_item(TableName="flowguard", Key=KEY)
    absent = execute(clients, update_statement(call))
    assert absent["Error"]["Code"] == "ConditionalCheckFailed"
    assert "Item" not in absent["Error"]
    assert there(clients) is None, "an update creates nothing"


@pytest.mark.parametrize("name", ['a"b', "a'b", "ä", "", " ", "a.b", "x" * 256, "\ud800", 'x" = ? REMOVE "y'])
def test_a_name_that_would_have_to_be_escaped_is_not_said(name: str) -> None:
    names = {**CALL["ExpressionAttributeNames"], "#stage": name}
    with pytest.raises(Unsayable):
        update_statement({**CALL, "ExpressionAttributeNames": names})
    values = {**CALL["ExpressionAttributeValues"], ":price": {"N": "1"}}
    inserting = {**CALL, "UpdateExpression": "SET #stage = :price", "ExpressionAttributeValues": values}
    with pytest.raises(Unsayable):
        insert_statement({**inserting, "ExpressionAttributeNames": names})


@pytest.mark.parametrize(
    "change",
    [
        {"TableName": 'flow"guard'},
        {"TableName": "arn:aws:dynamodb:eu-west-1:111122223333:table/flowguard"},
        {"UpdateExpression": "DELETE waiting :status"},
        {"UpdateExpression": "SET callers = if_not_exists(callers, :status)"},
        {"UpdateExpression": "SET met = if_not_exists(met, :status) + :owner"},
        {"UpdateExpression": "SET epoch = if_not_exists(epoch, :status)"},
        {"UpdateExpression": "SET callers = list_append(callers, :status)"},
        {"ConditionExpression": "contains(waiting, :owner)"},
        {"ConditionExpression": " OR ".join(["#owner = :owner"] * 700)},
    ],
)
def test_what_has_no_statement_is_not_said(change: dict[str, Any]) -> None:
    with pytest.raises(Unsayable):
        update_statement({**CALL, **change})


def long_call(clauses: int, name: str = "price") -> dict[str, Any]:
    names = {**CALL["ExpressionAttributeNames"], "#stage": name}
    return {
        **CALL,
        "ConditionExpression": " OR ".join(["#owner = :owner"] * clauses),
        "ExpressionAttributeNames": names,
    }


def test_a_statement_has_so_many_characters_at_the_most() -> None:
    def length(clauses: int, name: str = "price") -> int:
        return len(update_statement(long_call(clauses, name))["Statement"])

    clauses = 400 + (LONGEST_STATEMENT - length(400)) // (length(401) - length(400))
    name = "p" * (len("price") + LONGEST_STATEMENT - length(clauses))
    assert length(clauses, name) == LONGEST_STATEMENT
    with pytest.raises(Unsayable):
        update_statement(long_call(clauses, f"{name}p"))


def test_a_condition_names_no_value_in_its_text() -> None:
    said = update_statement({**CALL, "ExpressionAttributeValues": {":status": {"S": "'"}, ":owner": {"S": '"?'}}})
    assert said["Statement"] == (
        'UPDATE "flowguard" SET "status" = ? REMOVE "stages"."price" WHERE "pk" = ? AND "sk" = ? AND ("owner" = ?)'
    )
    assert said["Parameters"] == [{"S": "'"}, KEY["pk"], KEY["sk"], {"S": '"?'}]


def test_each_condition_of_a_claim_fits_a_statement() -> None:
    for condition in (*expressions.FIRST_HOP.values(), expressions.LATER_HOP, expressions.LATER_HOP_OF_CALLERS):
        assert len(condition) < 2_500

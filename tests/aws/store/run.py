"""The one run of these tests: how it is claimed, committed and read, and the cart that it writes."""

from __future__ import annotations

from typing import Any

from flowguard.aws.clients import Clients
from flowguard.aws.commit_call import CommitCalls
from flowguard.aws.commit_texts import CommitTexts
from flowguard.aws.packing import Packing
from flowguard.aws.store import DynamoDBStore
from flowguard.destinations import Queue
from flowguard.items.writes import Condition, Update, Write
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, FencedBy, Refused, RunItem, Status
from flowguard.verdicts import Verdict
from tests.aws.states import NOW, STORED, request

RID = RequestId(STORED[1])


def claimed(store: DynamoDBStore, run: tuple[int, str] = STORED, **more: Any) -> Claim:
    found = store.claim(request(run, **more))
    assert isinstance(found, Claim)
    return found


def commit(*writes: Write, status: Status = Status.RUNNING, body: str = "{}", **more: Any) -> Commit:
    send = Send(Kind.NEXT, Queue("next"), body, "request-m.2")
    fields: dict[str, Any] = {
        "status": status,
        "committed_at": NOW + 1,
        "expires_at": NOW + 2_000,
        "outbox": Outbox(RID, NOW + 1, (send,)),
        "state": '{"total":3}',
        "writes": writes,
    }
    return Commit(**{**fields, **more})


def commit_call(claim: Claim, end: Commit) -> Any:
    """The call of a commit into a table whose long texts all stay in the items."""

    def no_s3() -> Any:
        raise AssertionError("no bucket was named")

    return CommitCalls("flowguard", CommitTexts(Packing(no_s3, None, 32_768), "")).commit(claim, end)


def stored(store: DynamoDBStore) -> RunItem:
    item = store.read("flow", "object")
    assert item is not None
    return item


def fenced(answer: Committed | Fenced | Refused) -> FencedBy:
    assert isinstance(answer, Fenced)
    return answer.by


def refused(store: DynamoDBStore, run: tuple[int, str]) -> Verdict:
    answer = store.claim(request(run))
    assert isinstance(answer, Refused)
    return answer.verdict


def meet(clients: Clients, found: Any) -> None:
    """The table with this run item and no other."""
    if found is None:
        clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    else:
        clients.dynamodb.put_item(TableName="flowguard", Item=found)


def counted() -> Update:
    return Update("carts", {"id": "c1"}, Condition("ADD n :one", {}, {":one": 1}))


def cart(clients: Clients, name: str) -> Any:
    return clients.dynamodb.get_item(TableName="carts", Key={"id": {"S": name}}).get("Item")

"""The store's contract, judged by moto and by AWS's own DynamoDB: commits, fences, lost answers, long texts."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws import expressions
from flowguard.aws.clients import Clients
from flowguard.aws.items import number
from flowguard.aws.packing import Packed, Packing
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.claims import decide
from flowguard.destinations import Queue
from flowguard.errors import ConditionFailed, TooLarge, WriteInvalid
from flowguard.flow import OnConflict
from flowguard.ids import RequestId
from flowguard.local.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.message import ErrorNote
from flowguard.outbox import Kind, Outbox, Send
from flowguard.run import Claim, Commit, Committed, Fenced, FencedBy, Refused, RunItem, Status
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from flowguard.writes import Condition, Delete, Put, Update, Write
from tests.aws.engines import on_memory, on_moto
from tests.aws.states import NOW, STORED, item, meetings, request

RID = RequestId(STORED[1])


@pytest.fixture
def store(clients: Clients) -> DynamoDBStore:
    return aws_store(Settings(), clients)


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


def stored(store: DynamoDBStore) -> RunItem:
    item = store.read("flow", "object")
    assert item is not None
    return item


def cart(clients: Clients, name: str) -> Any:
    return clients.dynamodb.get_item(TableName="carts", Key={"id": {"S": name}}).get("Item")


def answer_lost(call: ApiCall, proceed: Proceed) -> Response:
    """The first answer never arrives, so botocore repeats the request."""
    proceed()
    return proceed()


# -- claim


def meet(clients: Clients, found: Any) -> None:
    """The table with this run item and no other."""
    if found is None:
        clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    else:
        clients.dynamodb.put_item(TableName="flowguard", Item=found)


def test_a_claim_is_granted_where_the_decision_grants_it_under_either_policy() -> None:
    """A refused claim is told what the decision says: only the grant itself shows what the condition says."""
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        for meeting in meetings():
            for policy in OnConflict:
                meet(clients, meeting.item)
                asked = meeting.request._replace(on_conflict=policy)
                granted = decide(store.read("flow", "object"), asked) is Verdict.CLAIMED
                assert isinstance(store.claim(asked), Claim) is granted, f"{meeting.says}, {policy}"


ZERO, IGNORE = (0, 0), OnConflict.IGNORE
ABANDONED_BEFORE = NOW - 100_000

MET: dict[str, tuple[dict[str, Any] | None, dict[str, Any], Verdict]] = {
    "the next hop of a run that has expired": (None, {"hop": 2}, Verdict.GONE),
    "the next hop of a run that has ended": (item(1, "completed", ZERO, "over", "other"), {"hop": 2}, Verdict.DONE),
    "a hop that lies behind": (item(2, "running", ZERO, "over", "other"), {"hop": 1}, Verdict.DUPLICATE),
    "a hop too far": (item(1, "done", ZERO, "over", "other"), {"hop": 3}, Verdict.EARLY),
    "the next hop before its time": (item(1, "running", ZERO, "over", "other"), {"hop": 2}, Verdict.EARLY),
    "a redrive of a completed run": (item(1, "completed", ZERO, "over", "other"), {"attempt": (1, 0)}, Verdict.DONE),
    "the same hop of another request": (
        item(2, "running", ZERO, "over", "other"),
        {"run": (501, "request-n"), "hop": 2},
        Verdict.SUPERSEDED,
    ),
    "a request of the moment in which the run ended": (
        item(1, "completed", ZERO, "abandoned", "other"),
        {"run": (500, "request-z"), "policy": IGNORE},
        Verdict.IGNORED,
    ),
    "a lease that ended exactly when runs count as abandoned": (
        {**item(1, "running", ZERO, "over", "other"), "lease_until": number(ABANDONED_BEFORE)},
        {"run": (501, "request-n"), "policy": IGNORE},
        Verdict.IGNORED,
    ),
}


@pytest.mark.parametrize("case", MET)
def test_a_claim_is_refused_with_the_word_for_it(case: str, clients: Clients, store: DynamoDBStore) -> None:
    found, asked, verdict = MET[case]
    meet(clients, found)
    answer = store.claim(request(**{"run": STORED, **asked}))
    assert isinstance(answer, Refused)
    assert answer.verdict is verdict


def test_a_copy_of_a_hop_that_is_done_is_told_its_outbox_and_its_result(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.COMPLETED, result='{"ok":true}'))
    answer = store.claim(request(STORED))
    assert isinstance(answer, Refused)
    assert answer.item is not None
    assert (answer.verdict, answer.item.result) == (Verdict.DONE, '{"ok":true}')
    assert answer.item.outbox == commit().outbox


# -- commit


@pytest.mark.parametrize(
    ("run", "hop", "by"),
    [
        ((501, "request-a"), 1, FencedBy.NEWER_RUN),
        ((500, "request-z"), 1, FencedBy.NEWER_RUN),
        ((499, "request-z"), 1, FencedBy.EXPIRED),
        ((500, "request-a"), 1, FencedBy.EXPIRED),
        (STORED, 2, FencedBy.FINISHED),
    ],
)
def test_a_fenced_commit_says_by_whom(
    run: tuple[int, str], hop: int, by: FencedBy, clients: Clients, store: DynamoDBStore
) -> None:
    claim = claimed(store)
    there = {"requested_at": number(run[0]), "request_id": {"S": run[1]}}
    meet(clients, {**item(hop, "running", ZERO, "alive", "other"), **there})
    assert fenced(store.commit(claim, commit())) is by


def test_a_commit_stores_state_outcome_and_outbox_at_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(Recorder()) as calls:
        assert store.commit(claim, commit()) == Committed()
    item = stored(store)
    assert calls.count("dynamodb") == 1
    assert (item.done, item.status, item.state) == (True, Status.RUNNING, '{"total":3}')
    assert item.outbox == commit().outbox
    assert item.stages == {"stage-1": RID}


def test_completion_releases_the_stages_and_keeps_a_tombstone(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit(status=Status.COMPLETED, result='{"ok":true}', outbox=None))
    item = stored(store)
    assert (item.status, item.result, item.stages, item.outbox) == (Status.COMPLETED, '{"ok":true}', {}, None)
    assert (item.request_id, item.epoch, item.ttl) == (RID, 1, (NOW + 2_000) // 1000)


def test_a_failed_run_says_why(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.FAILED, error=ErrorNote("Reject", "empty cart", NOW)))
    assert stored(store).error == "Reject: empty cart"


def test_the_claim_of_a_new_run_forgets_state_result_and_error_but_keeps_the_outbox(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW), result="1"))
    claim = claimed(store, (501, "request-n"))
    item = stored(store)
    assert (item.state, item.result, item.error) == (None, None, None)
    assert item.outbox == commit().outbox
    assert claim.item == item


def test_the_claim_of_the_next_hop_clears_the_outbox_and_hands_on_the_state(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    claim = claimed(store, hop=2)
    assert stored(store).outbox is None
    assert (claim.item.state, claim.item.epoch) == ('{"total":3}', 2)
    assert claim.item.stages == {"stage-1": RID, "stage-2": RID}


def test_the_claim_of_the_next_hop_of_a_run_that_keeps_no_state_finds_none(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(state=None))
    assert claimed(store, hop=2).item.state is None


def test_a_commit_removes_what_it_no_longer_brings(store: DynamoDBStore) -> None:
    failed = commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW), result="1")
    store.commit(claimed(store), failed)
    done = commit(state=None, outbox=None)
    assert store.commit(claimed(store, (501, "request-n")), done) == Committed()
    item = stored(store)
    assert (item.outbox, item.state, item.result, item.error) == (None, None, None, None)


def test_no_call_brings_names_or_values_that_its_expressions_do_not_use() -> None:
    """DynamoDB would refuse it."""
    with on_memory() as clients, intercept(Recorder()) as calls:
        store = aws_store(Settings(), clients)
        for policy in OnConflict:
            store.claim(request(STORED, policy=policy))
        claim = claimed(store, attempt=(0, 1))
        store.release(claim, NOW)
        store.commit(claim, commit())
        store.commit(claimed(store, hop=2), commit(status=Status.COMPLETED, outbox=None))
    updates = [call.params for call in calls.calls if call.operation == "UpdateItem"]
    assert len(updates) == len(OnConflict) + 5
    for call in updates:
        used = re.findall(r"[:#]\w+", f"{call['ConditionExpression']} {call['UpdateExpression']}")
        assert {*call["ExpressionAttributeNames"], *call["ExpressionAttributeValues"]} == set(used)


# -- the fence


def test_a_newer_run_fences_a_commit(store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, (501, "request-n"))
    assert fenced(store.commit(old, commit())) is FencedBy.NEWER_RUN
    assert stored(store).request_id == "request-n"


def test_another_attempt_of_the_same_hop_fences_a_commit(store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, attempt=(0, 1), owner="other")
    assert fenced(store.commit(old, commit())) is FencedBy.OTHER_ATTEMPT
    assert not stored(store).done


def test_an_attempt_that_finished_the_hop_fences_a_commit_and_shows_its_outbox(store: DynamoDBStore) -> None:
    old = claimed(store)
    store.commit(claimed(store, attempt=(0, 1), owner="other"), commit())
    answer = store.commit(old, commit())
    assert fenced(answer) is FencedBy.FINISHED
    assert isinstance(answer, Fenced)
    assert answer.item is not None
    assert answer.item.outbox == commit().outbox


def test_an_item_that_has_expired_fences_a_commit(clients: Clients, store: DynamoDBStore) -> None:
    old = claimed(store)
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    assert fenced(store.commit(old, commit())) is FencedBy.EXPIRED
    assert store.read("flow", "object") is None


def test_a_newer_request_is_not_taken_for_done_because_an_older_one_came_after_its_item_had_expired(
    clients: Clients, store: DynamoDBStore
) -> None:
    stalled = claimed(store, (501, "request-n"))
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    claimed(store)
    assert fenced(store.commit(stalled, commit())) is FencedBy.EXPIRED


def test_an_old_worker_stays_fenced_when_the_item_expired_and_its_epoch_came_round_again(
    clients: Clients, store: DynamoDBStore
) -> None:
    old = claimed(store, owner="old worker")
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    new = claimed(store, owner="new worker")
    assert (new.item.request_id, new.item.epoch) == (old.item.request_id, old.item.epoch)
    assert fenced(store.commit(old, commit())) is FencedBy.OTHER_ATTEMPT
    assert store.commit(new, commit()) == Committed()


def test_a_worker_that_finds_its_own_commit_of_another_ending_has_finished_before(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit())
    failed = commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW))
    assert fenced(store.commit(claim, failed)) is FencedBy.FINISHED
    assert stored(store).status is Status.RUNNING


def fenced(answer: Committed | Fenced) -> FencedBy:
    assert isinstance(answer, Fenced)
    return answer.by


COMMIT_PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "request id": ("request_id = :request_id AND ", {"request_id": RequestId("another")}),
    "epoch": ("epoch = :epoch AND ", {"epoch": 99}),
    "owner": ("#owner = :owner AND ", {"owner": "another"}),
}


@pytest.mark.parametrize("part", COMMIT_PARTS)
def test_each_part_of_the_fence_refuses_by_itself(store: DynamoDBStore, part: str) -> None:
    claim = claimed(store)
    _, wrong = COMMIT_PARTS[part]
    stranger = Claim(claim.message, claim.item._replace(**wrong), None)
    assert isinstance(store.commit(stranger, commit()), Fenced)
    assert not stored(store).done


@pytest.mark.parametrize("part", COMMIT_PARTS)
def test_without_that_part_a_stranger_would_write(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, wrong = COMMIT_PARTS[part]
    assert text in expressions.COMMIT
    with on_moto() as clients:
        store = aws_store(Settings(), clients)
        claim = claimed(store)
        monkeypatch.setattr(expressions, "COMMIT", expressions.COMMIT.replace(text, ""))
        call = store._commit_call(Claim(claim.message, claim.item._replace(**wrong), None), commit())
        used = call["ConditionExpression"] + call["UpdateExpression"]
        for kind in ("ExpressionAttributeValues", "ExpressionAttributeNames"):
            call[kind] = {name: value for name, value in call[kind].items() if name in used}
        clients.dynamodb.update_item(**call)
        assert stored(store).done


def test_a_hop_is_committed_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit())
    store.commit(claim, commit(state='{"total":4}'))
    assert stored(store).state == '{"total":3}'


# -- release


def test_a_release_ends_the_lease_and_counts_the_attempt(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.release(claim, NOW + 5)
    item = stored(store)
    assert (item.retry, item.lease_until, item.done, item.epoch) == (1, NOW + 5, False, 1)
    assert claimed(store, attempt=(0, 1), owner="next", now=NOW + 5).item.epoch == 2


def test_a_released_run_still_keeps_its_object_from_others(store: DynamoDBStore) -> None:
    store.release(claimed(store, policy=OnConflict.IGNORE), NOW + 5)
    refused = store.claim(request((501, "request-n"), policy=OnConflict.IGNORE, now=NOW + 10))
    assert isinstance(refused, Refused)
    assert refused.verdict is Verdict.IGNORED


def test_a_release_whose_answer_was_lost_counts_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        store.release(claim, NOW)
    assert stored(store).retry == 1


def test_a_release_of_another_workers_hop_writes_nothing(store: DynamoDBStore) -> None:
    old = claimed(store)
    new = claimed(store, (501, "request-n"))
    store.release(old, NOW)
    assert stored(store) == new.item


# -- lost answers


def test_a_claim_whose_answer_was_lost_is_still_a_claim(store: DynamoDBStore) -> None:
    with intercept(answer_lost):
        claim = claimed(store)
    assert claim.item == stored(store)
    assert claim.item.epoch == 2


def test_the_claim_of_a_next_hop_whose_answer_was_lost_still_has_the_state(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    with intercept(answer_lost):
        claim = claimed(store, hop=2)
    assert claim.item.state == '{"total":3}'
    assert claim.item == stored(store)


def test_a_takeover_whose_answer_was_lost_still_has_the_old_outbox(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    with intercept(answer_lost):
        claim = claimed(store, (501, "request-n"))
    assert claim.item.outbox == commit().outbox


def test_a_commit_whose_answer_was_lost_is_a_success(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        assert store.commit(claim, commit()) == Committed()


def test_a_commit_with_writes_whose_answer_was_lost_is_a_success_and_applied_once(
    clients: Clients, store: DynamoDBStore
) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        assert store.commit(claim, commit(counted())) == Committed()
    assert cart(clients, "c1")["n"] == {"N": "1"}


# -- recorded writes


def counted() -> Update:
    return Update("carts", {"id": "c1"}, Condition("ADD n :one", {}, {":one": 1}))


def test_recorded_writes_are_applied_with_the_commit_in_one_call(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "gone"}})
    claim = claimed(store)
    with intercept(Recorder()) as calls:
        store.commit(
            claim, commit(counted(), Put("carts", {"id": "c2", "price": 1.5}), Delete("carts", {"id": "gone"}))
        )
    assert [call.operation for call in calls.calls] == ["TransactWriteItems"]
    assert (cart(clients, "c1")["n"], cart(clients, "c2")["price"]) == ({"N": "1"}, {"N": "1.5"})
    assert cart(clients, "gone") is None
    assert stored(store).done


def test_a_stale_worker_writes_neither_state_nor_business_data(clients: Clients, store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, (501, "request-n"))
    assert fenced(store.commit(old, commit(counted()))) is FencedBy.NEWER_RUN
    assert cart(clients, "c1") is None


def test_a_condition_of_the_callers_own_refuses_the_whole_commit_and_shows_the_item(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "n": {"N": "7"}})
    put = Put("carts", {"id": "c1"}, Condition("attribute_not_exists(id)"))
    with pytest.raises(ConditionFailed, match=r"carts.*attribute_not_exists\(id\).*does not match") as raised:
        store.commit(claimed(store), commit(Put("carts", {"id": "c9"}), put))
    assert raised.value.item == {"id": "c1", "n": 7}
    assert not stored(store).done
    assert cart(clients, "c9") is None


def test_the_fence_is_told_rather_than_the_callers_condition_when_both_fail(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}})
    old = claimed(store)
    claimed(store, (501, "request-n"))
    put = Put("carts", {"id": "c1"}, Condition("attribute_not_exists(id)"))
    assert fenced(store.commit(old, commit(put))) is FencedBy.NEWER_RUN


def test_an_update_has_names_and_values_for_both_its_change_and_its_condition(
    clients: Clients, store: DynamoDBStore
) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    change = Condition("SET #s = :new", {"#s": "status"}, {":new": "paid", ":old": "open"})
    store.commit(claimed(store), commit(Update("carts", {"id": "c1"}, change, Condition("#s = :old"))))
    assert cart(clients, "c1")["status"] == {"S": "paid"}


def test_the_condition_of_an_update_has_names_and_values_of_its_own(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    change = Condition("SET #t = :t", {"#t": "total"}, {":t": 7})
    is_open = Condition("#s = :open", {"#s": "status"}, {":open": "open"})
    store.commit(claimed(store), commit(Update("carts", {"id": "c1"}, change, is_open)))
    assert cart(clients, "c1")["total"] == {"N": "7"}


def test_a_condition_that_fails_for_want_of_an_item_shows_none(store: DynamoDBStore) -> None:
    put = Put("carts", {"id": "c1"}, Condition("attribute_exists(id)"))
    with pytest.raises(ConditionFailed) as raised:
        store.commit(claimed(store), commit(put))
    assert raised.value.item is None


def test_a_delete_whose_condition_does_not_hold_deletes_nothing(clients: Clients, store: DynamoDBStore) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "status": {"S": "open"}})
    is_paid = Condition("#s = :paid", {"#s": "status"}, {":paid": "paid"})
    with pytest.raises(ConditionFailed) as raised:
        store.commit(claimed(store), commit(Delete("carts", {"id": "c1"}, is_paid)))
    assert raised.value.item == {"id": "c1", "status": "open"}
    assert cart(clients, "c1") is not None


def test_a_malformed_write_is_named_and_nothing_is_written(store: DynamoDBStore) -> None:
    twice = (Put("carts", {"id": "c1"}), Put("carts", {"id": "c1"}))
    with pytest.raises(WriteInvalid, match="multiple operations"):
        store.commit(claimed(store), commit(*twice))
    assert not stored(store).done


def test_a_write_that_cannot_be_applied_is_named_however_the_engine_says_so(store: DynamoDBStore) -> None:
    """AWS cancels the transaction with ValidationError for that action; DynamoDB Local refuses the whole request."""
    update = Update("carts", {"id": "c1"}, Condition("SET total = missing + :one", {}, {":one": 1}))
    with pytest.raises(WriteInvalid, match="DynamoDB refuses"):
        store.commit(claimed(store), commit(update))
    assert not stored(store).done


# -- long texts


def random_text(length: int) -> str:
    return "".join(random.Random(1).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=length))


def test_a_long_text_is_compressed_where_that_is_smaller(clients: Clients, store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(state='{"text":"' + "a" * 5_000 + '"}'))
    raw: Any = clients.dynamodb.get_item(
        TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
    )
    assert len(raw["Item"]["state"]["B"]) < 100
    assert stored(store).state == '{"text":"' + "a" * 5_000 + '"}'


def test_what_no_item_can_hold_is_refused_with_its_sizes_before_anything_is_written(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with pytest.raises(TooLarge, match=r"too large: .* bytes of at most 409,600 \(outbox .*, state .*\)"):
        store.commit(claim, commit(state=random_text(300_000), body=random_text(400_000)))
    assert not stored(store).done


class Weighed(Packing):
    """Says of every text that it takes so many bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def pack(self, text: str, key: str) -> Packed:
        return Packed({"S": text}, self._size)


def test_an_item_may_be_as_large_as_dynamodb_takes_with_a_kilobyte_for_the_rest(clients: Clients) -> None:
    claim = claimed(aws_store(Settings(), clients))
    only_state = commit(outbox=None)
    with pytest.raises(TooLarge, match=r"409,601 bytes of at most 409,600 \(state 408,577, the rest 1,024\)"):
        DynamoDBStore(clients.dynamodb, "flowguard", Weighed(409_600 - 1_024 + 1)).commit(claim, only_state)
    whole = DynamoDBStore(clients.dynamodb, "flowguard", Weighed(409_600 - 1_024))
    assert whole.commit(claim, only_state) == Committed()


@pytest.fixture
def with_bucket(with_s3: Clients) -> DynamoDBStore:
    return aws_store(Settings(bucket="long-texts"), with_s3)


def operations(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls]


def test_with_a_bucket_it_goes_to_s3_before_the_commit_under_a_key_of_the_attempts_own(
    with_bucket: DynamoDBStore,
) -> None:
    text = random_text(300_000)
    with intercept(Recorder()) as calls:
        with_bucket.commit(claimed(with_bucket), commit(state=text, body=text))
    assert operations(calls) == ["UpdateItem", "PutObject", "PutObject", "UpdateItem"]
    again = claimed(with_bucket, hop=2)
    assert again.item.state == text
    keys = [call.params["Key"] for call in calls.calls if call.operation == "PutObject"]
    assert len(set(keys)) == 2
    assert all(key.startswith("flowguard/flow/request-m/1-1-mine-") for key in keys)


def test_a_refused_claim_reads_no_long_text_that_nobody_needs(with_bucket: DynamoDBStore) -> None:
    """Neither the next hop's, nor another request's, nor that of a run which has ended at a later hop."""
    with_bucket.commit(claimed(with_bucket), commit(body=random_text(60_000)))
    with intercept(Recorder()) as calls:
        assert refused(with_bucket, (499, "request-a")) is Verdict.STALE
    claimed(with_bucket, hop=2)
    with intercept(calls):
        assert refused(with_bucket, STORED) is Verdict.DUPLICATE
    ended = commit(body=random_text(60_000), status=Status.COMPLETED)
    with_bucket.commit(claimed(with_bucket, hop=2, owner="mine"), ended)
    with intercept(calls):
        assert refused(with_bucket, STORED) is Verdict.DONE
    assert operations(calls) == ["UpdateItem"] * 3


def refused(store: DynamoDBStore, run: tuple[int, str]) -> Verdict:
    answer = store.claim(request(run))
    assert isinstance(answer, Refused)
    return answer.verdict


def test_a_commit_fenced_by_a_run_reads_no_long_text_of_it(with_bucket: DynamoDBStore) -> None:
    old = claimed(with_bucket)
    with_bucket.commit(claimed(with_bucket, (501, "request-n")), commit(body=random_text(60_000)))
    with intercept(Recorder()) as calls:
        assert fenced(with_bucket.commit(old, commit())) is FencedBy.NEWER_RUN
    assert operations(calls) == ["UpdateItem"]


# -- other errors


def test_an_error_that_is_no_refusal_is_raised_as_it_is(clients: Clients) -> None:
    claim = claimed(aws_store(Settings(), clients))
    store = aws_store(Settings(table="missing"), clients)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.claim(request(STORED))
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.release(claim, NOW)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.commit(claim, commit())

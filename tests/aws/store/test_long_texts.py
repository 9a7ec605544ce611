"""Long texts: compressed, refused before anything is written, or kept in S3."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.packing import Packed, Packing
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.destinations import Queue
from flowguard.errors import TextGone, TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.codec import About
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Claim, ClaimRequest, Committed, FencedBy, NewWait, Refused, Status
from flowguard.protocol.waiting import GivenAnswer, WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_dynamodb_local
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import RID, claimed, commit, fenced, refused, stored


@functools.cache
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


def test_a_state_that_a_failed_hop_leaves_in_place_counts_among_its_sizes(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(state=random_text(400_000)))
    failed = commit(status=Status.FAILED, state=None, body=random_text(400_000), error=ErrorNote("Reject", "no", NOW))
    with pytest.raises(TooLarge, match=r"too large: .* \(outbox .*, error .*, state .*, the rest .*\)"):
        store.commit(claimed(store, hop=2), failed)


class Weighed(Packing):
    """Stores each text as it is, and says that the state takes so many bytes."""

    def pack(
        self, text: str, key: str | None, beside: Mapping[str, Any] | None = None, *, about: About | None
    ) -> Packed:
        return Packed({"S": text}, len(text.encode()))


OBJECT, REQUEST, LONG_STAGE = "o" * 1_024, "r" * 1_024, "s" * 64


def of_the_longest_names(hop: int = 1, stage: str = LONG_STAGE, request_id: str = REQUEST) -> ClaimRequest:
    asked = request((502, request_id), hop=hop)
    message = asked.message._replace(flow="f" * 64, object_id=ObjectId(OBJECT), stage=stage)
    return asked._replace(message=message)


def test_the_largest_commit_is_taken_by_dynamodb_local_and_so_is_each_claim_after_it(dynamodb_local_url: str) -> None:
    """Counted are the longest names there are; what is left free is enough for what the next claim adds."""
    clients = on_dynamodb_local(dynamodb_local_url)
    store = DynamoDBStore(clients.dynamodb, "flowguard", Weighed(lambda: clients.s3, None, 32_768))
    claim = store.claim(of_the_longest_names())
    assert isinstance(claim, Claim)
    most = commit(outbox=None, state="x")
    with pytest.raises(TooLarge) as refused_with_sizes:
        store.commit(claim, most._replace(state="x" * 409_600))
    rest = refused_with_sizes.value.sizes["the rest"]
    with pytest.raises(TooLarge, match="409,601 bytes of at most 409,600"):
        store.commit(claim, most._replace(state="x" * (409_601 - rest)))
    assert store.commit(claim, most._replace(state="x" * (409_600 - rest))) == Committed()
    onward = store.claim(of_the_longest_names(2, "t" * 64))
    assert isinstance(onward, Claim)
    with pytest.raises(TooLarge):
        store.commit(onward, most._replace(state="x" * (409_600 - rest)))
    failed = commit(status=Status.FAILED, outbox=None, state=None, error=ErrorNote("Reject", "no", NOW))
    assert store.commit(onward, failed) == Committed()


def test_a_failed_hop_leaves_the_state_as_it_is(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(state='{"total":3}'))
    store.commit(claimed(store, hop=2), commit(status=Status.FAILED, state=None, error=ErrorNote("Reject", "no", NOW)))
    assert (stored(store).state, stored(store).error) == ('{"total":3}', "Reject: no")


LONG_ERRORS = {
    "longer than a text that is left as it is": "gateway " * 40,
    "several lines": "3 validation errors for Order\norder_id\n  Field required\n" * 5,
    "as long as a note is": "é" * 10_000,
    "half a surrogate pair": "\ud800" * 300,
    "controls": "\x00\x1b]52;c;\x07" * 100,
    "nothing": "",
}


@pytest.mark.parametrize("text", LONG_ERRORS.values(), ids=LONG_ERRORS)
def test_an_item_is_read_whatever_its_error_says(store: DynamoDBStore, text: str) -> None:
    note = ErrorNote.of(ValueError(text), NOW).because("attempt 3 of 3")
    store.commit(claimed(store), commit(status=Status.FAILED, state=None, error=note))
    assert stored(store).error == str(note)
    assert refused(store, (499, "request-a")) is Verdict.STALE


@pytest.mark.parametrize("name", ["outbox", "state", "result", "error"])
@pytest.mark.parametrize("form", ["S", "B", "M"])
def test_each_long_text_is_read_in_each_of_its_forms(with_s3: Clients, name: str, form: str) -> None:
    """Whatever version wrote it: an item is readable as long as it lives."""
    store = aws_store(Settings(bucket="long-texts"), with_s3)
    store.commit(claimed(store), commit())
    outbox = Outbox(RequestId("r"), NOW, (Send(Kind.SIDE, Queue("q"), "{}", "r.1.0"),))
    text = outbox.to_text() if name == "outbox" else '{"total":7}'
    data = zlib.compress(text.encode())
    with_s3.s3.put_object(Bucket="long-texts", Key="a", Body=data)
    pointer = {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "a"}}}
    value: Any = {"S": {"S": text}, "B": {"B": data}, "M": pointer}[form]
    key = {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
    with_s3.dynamodb.update_item(
        TableName="flowguard",
        Key=key,
        UpdateExpression="SET #name = :value",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":value": value},
    )
    item = stored(store)
    found: Any = getattr(item, name)
    assert (found.sends if name == "outbox" else found) == (outbox.sends if name == "outbox" else text)


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


def test_an_error_stays_in_the_item_however_short_a_text_may_be_there(with_s3: Clients) -> None:
    """It is read by people, and by tools that have no bucket."""
    store = DynamoDBStore(with_s3.dynamodb, "flowguard", Packing(lambda: with_s3.s3, "long-texts", 10))
    error = ErrorNote.of(ValueError(random_text(2_000)), NOW)
    with intercept(Recorder()) as calls:
        store.commit(claimed(store), commit(status=Status.FAILED, outbox=None, state=None, error=error))
    assert operations(calls) == ["UpdateItem"] * 2
    assert stored(store).error == str(error)


@pytest.mark.parametrize(("length", "is_there"), [(512, True), (513, False)])
def test_a_key_has_the_request_id_itself_up_to_half_of_what_a_key_may_have(
    with_bucket: DynamoDBStore, length: int, is_there: bool
) -> None:
    run = (500, "r" * length)
    with intercept(Recorder()) as calls:
        with_bucket.commit(claimed(with_bucket, run), commit(outbox=None, state=random_text(60_000)))
    [key] = [call.params["Key"] for call in calls.calls if call.operation == "PutObject"]
    assert (key == f"flowguard/flow/{run[1]}/1-1-mine-state") is is_there
    assert len(key) < 600


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


def test_nor_does_one_that_another_requests_result_stands_in_the_way_of(with_bucket: DynamoDBStore) -> None:
    ended = commit(outbox=None, status=Status.COMPLETED, result=f'"{random_text(60_000)}"')
    with_bucket.commit(claimed(with_bucket), ended)
    with intercept(Recorder()) as calls:
        assert refused(with_bucket, (499, "request-a")) is Verdict.STALE
    assert operations(calls) == ["UpdateItem"]


def test_a_commit_fenced_by_a_run_reads_no_long_text_of_it(with_bucket: DynamoDBStore) -> None:
    old = claimed(with_bucket)
    ended = commit(body=random_text(60_000), status=Status.COMPLETED, result=f'"{random_text(60_000)}"')
    with_bucket.commit(claimed(with_bucket, (501, "request-n")), ended)
    with intercept(Recorder()) as calls:
        assert fenced(with_bucket.commit(old, commit())) is FencedBy.NEWER_RUN
    assert operations(calls) == ["UpdateItem"]


# -- S3 that has lost a text, or refuses it ----------------------------------------------------------------------------


def forget(clients: Clients, name: str) -> None:
    key = f"flowguard/flow/request-m/1-1-mine-{name}"
    clients.s3.head_object(Bucket="long-texts", Key=key)
    clients.s3.delete_object(Bucket="long-texts", Key=key)


def test_what_decides_whether_an_outbox_is_sent_is_known_without_reading_it(
    with_bucket: DynamoDBStore, with_s3: Clients
) -> None:
    with_bucket.commit(claimed(with_bucket), commit(body=random_text(60_000)))
    forget(with_s3, "outbox")
    with intercept(Recorder()) as calls:
        outbox = claimed(with_bucket, (501, "request-n")).item.outbox
        assert outbox is not None
        assert (outbox.request_id, outbox.committed_at) == (RID, NOW + 1)
        assert outbox.left_by_another(RID, not_before=0) == ()
        assert outbox.left_by_another(RequestId("request-n"), not_before=NOW + 2) == ()
    assert operations(calls) == ["UpdateItem"]
    with pytest.raises(TextGone, match="s3://long-texts/flowguard/flow/request-m/1-1-mine-outbox is gone: NoSuchKey"):
        outbox.left_by_another(RequestId("request-n"), not_before=0)


def test_an_outbox_that_an_older_version_put_outside_is_not_read_by_a_claim(
    with_bucket: DynamoDBStore, with_s3: Clients
) -> None:
    """It says no request and no time beside its pointer. What is gone cannot keep the claim from its work."""
    with_bucket.commit(claimed(with_bucket), commit())
    with_s3.dynamodb.update_item(
        TableName="flowguard",
        Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}},
        UpdateExpression="SET outbox = :pointer",
        ExpressionAttributeValues={":pointer": {"M": {"bucket": {"S": "long-texts"}, "key": {"S": "gone"}}}},
    )
    outbox = claimed(with_bucket, (501, "request-n")).item.outbox
    assert outbox is not None
    assert (outbox.request_id, outbox.committed_at) == ("", NOW + 1)
    with pytest.raises(TextGone):
        outbox.left_by_another(RequestId("request-n"), not_before=0)


def test_a_state_that_is_gone_is_known_with_the_claim(with_bucket: DynamoDBStore, with_s3: Clients) -> None:
    with_bucket.commit(claimed(with_bucket), commit(state=random_text(60_000)))
    forget(with_s3, "state")
    claim = claimed(with_bucket, hop=2)
    assert claim.item.state is None
    assert isinstance(claim.item.lost, TextGone)
    with_bucket.commit(claim, commit(status=Status.FAILED, state=None, error=ErrorNote("TextGone", "gone", NOW)))
    assert isinstance(stored(with_bucket).lost, TextGone), "and the pointer to it is kept"


def test_a_result_that_is_gone_is_no_fault(with_bucket: DynamoDBStore, with_s3: Clients) -> None:
    with_bucket.commit(claimed(with_bucket), commit(status=Status.COMPLETED, result=f'"{random_text(60_000)}"'))
    forget(with_s3, "result")
    answer = with_bucket.claim(request(STORED))
    assert isinstance(answer, Refused)
    assert answer.item is not None
    assert (answer.verdict, answer.item.result) == (Verdict.DONE, None)
    assert "NoSuchKey" in str(answer.item.lost)


@pytest.mark.parametrize("operation", ["PutObject", "GetObject"])
def test_an_s3_that_is_down_is_not_taken_for_one_that_has_lost_a_text(
    with_bucket: DynamoDBStore, operation: str
) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            response: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(response, operation)
        return proceed()

    def work() -> None:
        with_bucket.commit(claimed(with_bucket), commit(state=random_text(60_000)))
        claimed(with_bucket, hop=2)

    with intercept(down), pytest.raises(ClientError, match="SlowDown"):
        work()


def test_an_s3_that_is_down_has_lost_no_answer_either(with_bucket: DynamoDBStore) -> None:
    wait = NewWait(WaitPlan("stage-2", {"a": None}), 0, NOW)
    with_bucket.commit(claimed(with_bucket), commit(status=Status.WAITING, outbox=None, wait=wait))
    address = AnswerAddress("flow", ObjectId("object"), RID, STORED[0], 1, "a")
    with_bucket.waits.settle(address, GivenAnswer(f'"{random_text(800_000)}"'))
    asked = request(STORED, hop=2)

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetObject":
            response: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(down), pytest.raises(ClientError, match="SlowDown"):
        with_bucket.claim(asked._replace(message=asked.message._replace(resumed=True)))


def test_a_bucket_that_refuses_for_good_leaves_the_text_in_the_item(with_s3: Clients) -> None:
    store = aws_store(Settings(bucket="no-such-bucket"), with_s3)
    text = random_text(60_000)
    store.commit(claimed(store), commit(state=text))
    assert stored(store).state == text
    with pytest.raises(TooLarge, match="state"):
        store.commit(claimed(store, hop=2), commit(state=random_text(700_000)))

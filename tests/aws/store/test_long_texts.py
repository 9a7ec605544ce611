"""Long texts: compressed, refused before anything is written, or kept in S3."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.packing import Packed, Packing
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import TooLarge
from flowguard.local.calls import Recorder, intercept
from flowguard.run import Committed, FencedBy, Status
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from tests.aws.states import STORED
from tests.aws.store.run import claimed, commit, fenced, refused, stored


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


def test_a_commit_fenced_by_a_run_reads_no_long_text_of_it(with_bucket: DynamoDBStore) -> None:
    old = claimed(with_bucket)
    with_bucket.commit(claimed(with_bucket, (501, "request-n")), commit(body=random_text(60_000)))
    with intercept(Recorder()) as calls:
        assert fenced(with_bucket.commit(old, commit())) is FencedBy.NEWER_RUN
    assert operations(calls) == ["UpdateItem"]

"""What hops remember, on each engine: under the fence of the commit, once for each name, and gone with the commit."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws import memos
from flowguard.aws.clients import Clients
from flowguard.aws.items import KEPT_FREE, rest_size, run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import ConditionFailed, TooLarge, WorkerFenced, WriteInvalid
from flowguard.items.writes import Condition, Put, Update
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Claim, Fenced, FencedBy, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.message import ErrorNote
from flowguard.worker.hop_memory import HopMemory
from tests.aws.states import STORED
from tests.aws.store.run import cart, claimed, commit, counted, meet, stored


def remember(store: DynamoDBStore, claim: Claim, name: str = "a", *writes: Any, first: bool = True) -> Fenced | None:
    answer = store.memos.remember(claim, name, f'"{name}"', is_first=first, writes=writes)
    return answer if isinstance(answer, Fenced) else None


def remembered(store: DynamoDBStore) -> dict[str, str]:
    memo = stored(store).memo
    return {} if memo is None else {name: read() for name, read in memo.results.items()}


def test_each_name_is_kept_beside_the_others(store: DynamoDBStore) -> None:
    claim = claimed(store)
    assert remember(store, claim) is None
    assert remember(store, claim, "b", first=False) is None
    assert remembered(store) == {"a": '"a"', "b": '"b"'}


def test_the_commit_removes_them(store: DynamoDBStore) -> None:
    memory = HopMemory(store, claimed(store))
    memory.remember("a", "1")
    store.commit(memory.claim, commit())
    assert stored(store).memo is None


def test_the_commit_of_a_hop_that_failed_leaves_them(store: DynamoDBStore) -> None:
    memory = HopMemory(store, claimed(store))
    memory.remember("a", "1")
    store.commit(memory.claim, commit(status=Status.FAILED))
    assert remembered(store) == {"a": "1"}


def test_the_next_attempt_finds_them_with_its_claim(store: DynamoDBStore) -> None:
    remember(store, claimed(store))
    again = HopMemory(store, claimed(store, attempt=(0, 1)))
    assert (again.recall("a"), again.recall("b")) == ('"a"', None)


def test_another_run_finds_none_and_overwrites_what_is_there(store: DynamoDBStore) -> None:
    remember(store, claimed(store))
    other = HopMemory(store, claimed(store, (501, "request-n")))
    assert other.recall("a") is None
    other.remember("a", "2")
    other.remember("b", "3")
    assert remembered(store) == {"a": "2", "b": "3"}


def test_writes_are_applied_with_their_name_or_not_at_all(clients: Clients, store: DynamoDBStore) -> None:
    claim = claimed(store)
    absent = Put("carts", {"id": "c2"}, Condition("attribute_exists(id)"))
    with pytest.raises(ConditionFailed):
        remember(store, claim, "a", counted(), absent)
    assert (cart(clients, "c1"), remembered(store)) == (None, {})
    assert remember(store, claim, "a", counted()) is None
    assert (cart(clients, "c1")["n"], remembered(store)) == ({"N": "1"}, {"a": '"a"'})


@pytest.mark.parametrize("first", [False, True])
def test_writes_are_applied_once_under_a_name(clients: Clients, store: DynamoDBStore, first: bool) -> None:
    """The same worker asks again, as after an answer that was lost."""
    claim = claimed(store)
    assert remember(store, claim, "a", counted()) is None
    assert remember(store, claim, "a", counted(), first=first) is None
    assert cart(clients, "c1")["n"] == {"N": "1"}


@pytest.mark.parametrize(
    ("other", "by"),
    [({"run": (501, "request-n")}, FencedBy.NEWER_RUN), ({"attempt": (0, 1)}, FencedBy.OTHER_ATTEMPT)],
)
@pytest.mark.parametrize("write", [False, True])
def test_a_stale_worker_keeps_and_writes_nothing(
    clients: Clients, store: DynamoDBStore, other: dict[str, Any], by: FencedBy, write: bool
) -> None:
    old = claimed(store)
    claimed(store, **other)
    answer = remember(store, old, "a", *([counted()] if write else []))
    assert isinstance(answer, Fenced)
    assert (answer.by, remembered(store), cart(clients, "c1")) == (by, {}, None)


def test_a_worker_whose_hop_is_committed_keeps_nothing(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit())
    answer = remember(store, claim)
    assert isinstance(answer, Fenced)
    assert (answer.by, stored(store).memo) == (FencedBy.FINISHED, None)


def test_a_write_to_a_table_that_is_not_there_is_named(store: DynamoDBStore) -> None:
    with pytest.raises(WriteInvalid, match="missing"):
        remember(store, claimed(store), "a", Put("missing", {"id": "c2"}))


def test_what_another_hop_has_left_is_not_taken_for_the_hops_own(store: DynamoDBStore) -> None:
    """The same request comes again with a later time, after another that committed nothing."""
    store.commit(claimed(store), commit())
    failed = HopMemory(store, claimed(store, hop=2))
    failed.remember("a", "1")
    store.commit(failed.claim, commit(status=Status.FAILED))
    claimed(store, (STORED[0] + 1, "request-n"))
    again = HopMemory(store, claimed(store, (STORED[0] + 2, STORED[1])))
    assert again.recall("a") is None
    again.remember("a", "2")
    assert remembered(store) == {"a": "2"}


def test_an_attempt_recalls_all_that_it_has_kept(store: DynamoDBStore) -> None:
    memory = HopMemory(store, claimed(store))
    for name in ("a", "b", "c"):
        memory.remember(name, f'"{name}"')
    assert [memory.recall(name) for name in ("a", "b", "c", "d")] == ['"a"', '"b"', '"c"', None]
    memo, found = memory.claim.item.memo, stored(store).memo
    assert memo is not None
    assert found is not None
    assert memo.size >= found.size


def test_an_old_worker_keeps_nothing_where_the_item_expired_and_its_epoch_came_round_again(
    clients: Clients, store: DynamoDBStore
) -> None:
    old = claimed(store)
    meet(clients, None)
    assert remember(store, old) == Fenced(FencedBy.EXPIRED, None)
    claimed(store, owner="another")
    answer = remember(store, old)
    assert isinstance(answer, Fenced)
    assert (answer.by, remembered(store)) == (FencedBy.OTHER_ATTEMPT, {})


def test_what_is_too_large_is_named_with_its_size(store: DynamoDBStore) -> None:
    noise = random.Random(0).randbytes(450_000).hex()
    with pytest.raises(TooLarge, match="what 'a' is to remember is too large") as raised:
        store.memos.remember(claimed(store), "a", noise, is_first=True)
    assert raised.value.sizes["its JSON"] > 450_000


def long(size: int) -> str:
    """JSON that takes about so many bytes of an item."""
    return json.dumps(random.Random(size).randbytes(size * 7 // 8).hex())


def test_what_a_hop_remembers_counts_where_it_stays(memory: DynamoDBStore) -> None:
    """A text that is long, and short in the item, counts as what it takes there."""
    mine = HopMemory(memory, claimed(memory))
    mine.remember("a", json.dumps("x" * 2_000_000))
    mine.remember("b", long(250_000))
    with pytest.raises(TooLarge) as raised:
        memory.commit(mine.claim, commit(status=Status.FAILED, body=long(220_000)))
    memo = mine.claim.item.memo
    assert memo is not None
    assert raised.value.sizes["what it remembers"] == memo.size
    assert 240_000 < memo.size < 300_000
    memory.commit(mine.claim, commit(body=long(220_000)))


def test_what_another_run_remembers_does_not_count_at_a_failed_end(memory: DynamoDBStore) -> None:
    HopMemory(memory, claimed(memory)).remember("a", long(250_000))
    newer = claimed(memory, (501, "request-n"))
    memory.commit(newer, commit(status=Status.FAILED, body=long(220_000)))
    assert stored(memory).memo is None


def test_the_state_that_a_run_has_left_counts_until_another_is_committed(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), commit(state=long(250_000)))
    newer = claimed(memory, (501, "request-n"))
    with pytest.raises(TooLarge) as raised:
        memory.commit(newer, commit(status=Status.FAILED, body=long(220_000)))
    assert raised.value.sizes["state"] > 240_000
    memory.commit(newer, commit(body=long(220_000)))


@pytest.mark.parametrize("hop", [1, 2])
def test_what_is_remembered_leaves_room_for_the_end_of_its_run(memory: DynamoDBStore, hop: int) -> None:
    """Without it no commit could end the run, not even as FAILED."""
    memory.commit(claimed(memory), commit(state=long(200_000)))
    claim = claimed(memory, (501, "request-n")) if hop == 1 else claimed(memory, hop=2)
    mine = HopMemory(memory, claim)
    mine.remember("a", long(100_000))
    with pytest.raises(TooLarge) as raised:
        mine.remember("b", long(104_000))
    sizes = raised.value.sizes
    assert sizes["its JSON"] > 90_000
    assert sizes["what it remembers"] > 90_000
    assert sizes["state"] > 190_000
    memory.commit(mine.claim, commit(status=Status.FAILED, outbox=None))


def test_what_another_run_remembered_takes_no_room(memory: DynamoDBStore) -> None:
    HopMemory(memory, claimed(memory)).remember("a", long(250_000))
    HopMemory(memory, claimed(memory, (501, "request-n"))).remember("a", long(250_000))


def test_a_write_that_is_malformed_is_not_called_too_large(store: DynamoDBStore) -> None:
    update = Update("carts", {"id": "c1"}, Condition("SET total = missing + :one", {}, {":one": 1}))
    with pytest.raises(WriteInvalid, match="DynamoDB refuses"):
        remember(store, claimed(store), "a", update)


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://dynamodb"),
        ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, "UpdateItem"),
    ],
)
def test_an_outage_is_no_refusal(store: DynamoDBStore, error: Exception) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        raise error

    claim = claimed(store)
    with intercept(down), pytest.raises(type(error)):
        remember(store, claim)


def test_a_call_that_is_repeated_after_a_lost_answer_says_the_same(store: DynamoDBStore) -> None:
    claim = claimed(store)
    first = store.memos.remember(claim, "a", '"1"', is_first=True)
    assert isinstance(first, int)
    assert store.memos.remember(claim, "a", '"1"', is_first=True) == first


def test_the_outbox_of_a_run_taken_over_takes_room_until_the_commit(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), commit(body=long(220_000)))
    newer = HopMemory(memory, claimed(memory, (501, "request-n")))
    with pytest.raises(TooLarge) as raised:
        newer.remember("a", long(220_000))
    assert list(raised.value.sizes) == ["its JSON"]
    memory.commit(newer.claim, commit())


def test_what_fits_to_the_byte_is_remembered(memory: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = HopMemory(memory, claimed(memory))
    monkeypatch.setattr(memos, "LARGEST_ITEM", 0)
    with pytest.raises(TooLarge) as raised:
        mine.remember("a", "1")
    sizes, item = raised.value.sizes, mine.claim.item
    assert sizes["the rest"] == KEPT_FREE + rest_size(run_key("flow", ObjectId("object")), item.request_id, item.stages)
    monkeypatch.setattr(memos, "LARGEST_ITEM", sum(sizes.values()))
    mine.remember("a", "1")


def test_what_an_earlier_run_has_left_is_forgotten_under_the_fence(store: DynamoDBStore) -> None:
    claim = claimed(store, STORED)
    remember(store, claim)
    overtaken = claim._replace(item=claim.item._replace(epoch=claim.item.epoch - 1))
    fenced = store.memos.forget(overtaken)
    assert fenced is not None
    assert fenced.by is FencedBy.OTHER_ATTEMPT
    assert stored(store).memo is not None
    assert store.memos.forget(claim) is None
    assert stored(store).memo is None
    assert store.memos.forget(claim) is None, "repeated after a lost answer it is done"


def test_a_failed_end_leaves_nothing_that_another_run_remembers(store: DynamoDBStore) -> None:
    remember(store, claimed(store, STORED))
    newer = claimed(store, (STORED[0] + 1, "newer"), owner="newer")
    store.commit(newer, commit(status=Status.FAILED, error=ErrorNote("Boom", "no", 1)))
    assert stored(store).memo is None


def test_what_is_forgotten_is_forgotten_under_the_fence_and_other_errors_come_through(
    store: DynamoDBStore, clients: Clients
) -> None:
    old = claimed(store)
    new = claimed(store, (STORED[0] + 1, "request-n"))
    by = store.memos.forget(old)
    assert by is not None
    assert by.by is FencedBy.NEWER_RUN
    assert store.memos.holds(new)
    store.commit(new, commit())
    assert not store.memos.holds(new), "it is done"
    meet(clients, None)
    gone = store.memos.forget(old)
    assert gone is not None
    assert gone.by is FencedBy.EXPIRED

    def denied(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    def broken(call: ApiCall, proceed: Proceed) -> Response:
        raise OSError("the disk")

    with intercept(denied), pytest.raises(ClientError, match="AccessDenied"):
        store.memos.forget(old)
    with intercept(broken), pytest.raises(OSError, match="the disk"):
        store.memos.forget(old)


def test_a_worker_that_is_fenced_begins_no_hop_with_an_old_memory(
    store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = claimed(store)
    claimed(store, (STORED[0] + 1, "request-n"))
    monkeypatch.setattr("flowguard.worker.hop_memory.finds_old_memory", lambda _: True)
    with pytest.raises(WorkerFenced):
        HopMemory(store, old).begin()


_AWAY: Final = (
    EndpointConnectionError(endpoint_url="https://texts.s3"),
    ClientError({"Error": {"Code": "SlowDown", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "Put"),  # type: ignore[typeddict-item]
)


@pytest.mark.parametrize("away", _AWAY, ids=["no network", "too many"])
def test_while_s3_is_away_a_long_result_stays_in_the_item_if_there_is_room(away: Exception, with_s3: Clients) -> None:
    store = aws_store(Settings(bucket="long-texts", offload_above=1_024), with_s3)
    claim = claimed(store)

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutObject":
            raise away
        return proceed()

    short, much = long(100_000), long(450_000)
    with intercept(refuse):
        size = store.memos.remember(claim, "a", short, is_first=True)
        assert isinstance(size, int)
        assert 100_000 < size < 120_000
        with pytest.raises(type(away)):
            store.memos.remember(claim, "b", much, is_first=False)
    assert remembered(store) == {"a": short}
    store.memos.remember(claim, "b", much, is_first=False)
    assert remembered(store) == {"a": short, "b": much}


def test_a_short_result_for_which_one_from_an_outage_has_left_no_room_goes_to_s3(with_s3: Clients) -> None:
    store = aws_store(Settings(bucket="long-texts"), with_s3)
    mine = HopMemory(store, claimed(store))

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutObject":
            raise _AWAY[0]
        return proceed()

    much, short = long(380_000), long(31_000)
    with intercept(refuse):
        mine.remember("a", much)
        with pytest.raises(EndpointConnectionError):
            mine.remember("b", short)
    mine.remember("b", short)
    assert remembered(store) == {"a": much, "b": short}


@pytest.mark.parametrize(
    ("length", "refused", "calls"),
    [
        (100_000, {"PutObject": ValueError("no answer of AWS")}, ["PutObject"]),
        (100_000, {"PutObject": _AWAY[0], "UpdateItem": ValueError("of DynamoDB")}, ["PutObject", "UpdateItem"]),
        (100, {"UpdateItem": ValueError("of DynamoDB")}, ["UpdateItem"]),
    ],
    ids=["while a long one is kept", "while it goes to the item instead", "while a short one is kept"],
)
def test_what_is_neither_an_outage_of_s3_nor_want_of_room_is_told_as_it_is(
    length: int, refused: dict[str, Exception], calls: list[str], with_s3: Clients
) -> None:
    store = aws_store(Settings(bucket="long-texts", offload_above=1_024), with_s3)
    claim = claimed(store)
    made: list[str] = []

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        made.append(call.operation)
        raise refused[call.operation]

    with intercept(refuse), pytest.raises(ValueError, match=r"of (AWS|DynamoDB)"):
        store.memos.remember(claim, "a", long(length), is_first=True)
    assert made == calls
    assert remembered(store) == {}

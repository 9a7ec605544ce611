"""How much of an item a wait takes: what is counted when it begins, and when its stage fails."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.items import LARGEST_ITEM, record_item, run_key, size_of_value
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import TooLarge
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Claim, Commit, Committed, NewWait, Status
from flowguard.protocol.waiting import GivenAnswer, Late, WaitPlan
from flowguard.testing.hostile import noise
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import ErrorNote
from flowguard.worker.hop_memory import HopMemory
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import claimed, commit, stored

NAMES = ("a", "name", "x" * 64)


def waiting(**about: Any) -> Commit:
    plan = WaitPlan("stage-2", dict.fromkeys(NAMES))
    return commit(status=Status.WAITING, wait=NewWait(plan, 1, NOW + 60_000), outbox=None, **about)


def resumed(store: DynamoDBStore) -> Claim:
    asked = request(STORED, hop=2)
    found = store.claim(asked._replace(message=asked.message._replace(resumed=True)))
    assert isinstance(found, Claim)
    return found


def answer(store: DynamoDBStore, name: str, text: str) -> None:
    store.waits.settle(
        AnswerAddress("flow", stored_object(), RequestId(STORED[1]), STORED[0], 1, name), GivenAnswer(text)
    )


def stored_object() -> Any:
    return "object"


def test_a_wait_begins_as_it_was_planned(store: DynamoDBStore) -> None:
    assert store.commit(claimed(store), waiting(state="{}")) == Committed()
    wait = stored(store).wait
    assert wait is not None
    assert (wait.waiting, wait.spare, wait.deadline, wait.timed_out) == (frozenset(NAMES), 1, NOW + 60_000, False)
    assert (wait.answers, wait.plan) == ({}, WaitPlan("stage-2", dict.fromkeys(NAMES)))


def test_a_wait_leaves_room_for_the_smallest_answer_to_each_name(store: DynamoDBStore) -> None:
    with pytest.raises(TooLarge) as refused:
        store.commit(claimed(store), waiting(state=noise(600_000)))
    sizes = refused.value.sizes
    assert sizes["the wait"] == 192 + sum(2 * len(name) + 256 for name in NAMES)
    left = LARGEST_ITEM - sum(size for name, size in sizes.items() if name != "state")
    assert store.commit(claimed(store, owner="mine"), waiting(state="{}")) == Committed()
    wait = stored(store).wait
    assert wait is not None
    assert wait.room == left - 2 + 3 * 256


def test_the_answers_of_a_stage_that_fails_stay_and_are_counted(store: DynamoDBStore) -> None:
    store.commit(claimed(store), waiting(state="{}"))
    for name in NAMES[:2]:
        answer(store, name, f'"{noise(150_000)}"')
    claim = resumed(store)
    assert claim.item.wait is not None
    failed = commit(status=Status.FAILED, state=None, body=noise(300_000), error=ErrorNote("Reject", "no", NOW))
    with pytest.raises(TooLarge) as refused:
        store.commit(claim, failed)
    assert refused.value.sizes["the answers"] > 180_000
    assert "the wait" not in refused.value.sizes
    assert store.commit(claim, failed._replace(outbox=None)) == Committed()
    assert stored(store).wait == claim.item.wait


def test_what_ends_well_does_not_count_the_answers_that_it_removes(store: DynamoDBStore) -> None:
    store.commit(claimed(store), waiting(state="{}"))
    for name in NAMES[:2]:
        answer(store, name, f'"{noise(150_000)}"')
    assert store.commit(resumed(store), commit(body=noise(300_000), state="{}")) == Committed()
    assert stored(store).wait is None


def test_the_names_that_came_too_late_stay_and_are_counted(store: DynamoDBStore) -> None:
    store.commit(claimed(store), waiting(state="{}"))
    answer(store, "a", "1")
    address = AnswerAddress("flow", stored_object(), RequestId(STORED[1]), STORED[0], 1, "deadline")
    assert store.waits.time_out(address, NOW + 60_000).applied
    late = Late(1, frozenset(NAMES[1:]))
    second = resumed(store)
    with pytest.raises(TooLarge) as at_once:
        store.commit(second, commit(state=noise(600_000)))
    assert at_once.value.sizes["the names without an answer"] == size_of_value(record_item(late))
    assert store.commit(second, commit(state="{}", outbox=None)) == Committed()
    assert (stored(store).late, stored(store).wait) == (late, None)
    third = store.claim(request(STORED, hop=3))
    assert isinstance(third, Claim)
    with pytest.raises(TooLarge) as refused:
        store.commit(third, commit(state=noise(600_000)))
    assert refused.value.sizes["the names without an answer"] == size_of_value(record_item(late))
    assert store.commit(third, commit(state="{}")) == Committed()
    assert stored(store).late == late


def test_a_hop_that_saw_no_wait_fails_without_counting_one(store: DynamoDBStore) -> None:
    error = ErrorNote("Reject", "no", NOW)
    with pytest.raises(TooLarge) as refused:
        store.commit(claimed(store), commit(status=Status.FAILED, state=None, body=noise(900_000), error=error))
    assert not refused.value.sizes.keys() & {"the wait", "the answers"}


def test_sizes_are_those_of_dynamodb_or_a_few_bytes_more() -> None:
    value = {"M": {"é": {"S": "é😀"}, "b": {"B": b"xx"}, "n": {"N": "1"}, "s": {"SS": ["a", "é"]}, "t": {"BOOL": True}}}
    assert size_of_value(value) == 3 + (1 + 2 + 6) + (1 + 1 + 2) + (1 + 1 + 21) + (1 + 1 + 3 + 2 + 3) + (1 + 1 + 21)


def test_the_answers_of_a_wait_take_room_from_what_its_next_hop_remembers(store: DynamoDBStore) -> None:
    store.commit(claimed(store), waiting(state="{}"))
    for name in NAMES:
        answer(store, name, "1")
    mine = HopMemory(store, resumed(store))
    with pytest.raises(TooLarge) as refused:
        mine.remember("a", noise(600_000))
    wait = mine.claim.item.wait
    assert wait is not None
    assert refused.value.sizes["the answers"] == wait.size


def test_a_wait_that_needs_no_more_answers_leaves_nothing_of_it(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), waiting(state="{}"))
    for name in NAMES[:2]:
        answer(memory, name, "1")
    claim = resumed(memory)
    assert claim.item.wait is not None
    assert claim.item.wait.waiting == {NAMES[2]}
    memory.commit(claim, commit())
    found = memory.callers.client.get_item(TableName="flowguard", Key=run_key("flow", stored_object()))
    assert not {"wait", "waiting", "late"} & found["Item"].keys()


def test_a_hop_that_fails_after_its_wait_timed_out_keeps_the_wait_itself(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), waiting(state="{}"))
    address = AnswerAddress("flow", stored_object(), RequestId(STORED[1]), STORED[0], 1, "deadline")
    assert memory.waits.time_out(address, NOW + 60_000).applied
    memory.commit(resumed(memory), commit(status=Status.FAILED, state=None))
    assert stored(memory).late is None
    assert stored(memory).wait is not None

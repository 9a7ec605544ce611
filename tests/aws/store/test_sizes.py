"""What a commit counts in its item beside its texts, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import commit_texts, memos
from flowguard.aws.items import (
    ASKER,
    KEPT_FREE,
    KEPT_FREE_AT_THE_END,
    KEPT_FREE_TO_UNDO,
    record_item,
    rest_size,
    run_key,
    size_of_value,
)
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import LARGEST_HELD, MOST_HELD, Callers
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Cancellation, Claim, Commit, Committed, LeftState, Status
from flowguard.wire.message import ErrorNote
from tests.aws.states import STORED
from tests.aws.store.run import claimed, commit

NOTE = ErrorNote("Reject", "sold out", 1)
FAILED = FailedHop(RequestId(STORED[1]), STORED[0], 1, 0, NOTE)
BEFORE = FAILED._replace(request_id=RequestId("another run"))
END = commit(status=Status.FAILED, state=None, error=NOTE)


class Sizes:
    """What commits count, part by part."""

    def __init__(self, store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.claim = claimed(store)
        self._monkeypatch = monkeypatch

    def having(self, **changes: Any) -> Claim:
        """The claim of an item that has this, too."""
        return self.claim._replace(item=self.claim.item._replace(**changes))

    def of(self, wanted: Commit, **changes: Any) -> dict[str, int]:
        with self._monkeypatch.context() as patch:
            patch.setattr(commit_texts, "LARGEST_ITEM", 0)
            with pytest.raises(TooLarge) as refused:
                self.store.commit(self.having(**changes), wanted)
        return refused.value.sizes


@pytest.fixture
def sizes(memory: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> Sizes:
    return Sizes(memory, monkeypatch)


def test_what_fits_to_the_byte_is_committed(sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sum(sizes.of(commit()).values())
    monkeypatch.setattr(commit_texts, "LARGEST_ITEM", whole - 1)
    with pytest.raises(TooLarge):
        sizes.store.commit(sizes.claim, commit())
    monkeypatch.setattr(commit_texts, "LARGEST_ITEM", whole)
    assert sizes.store.commit(sizes.claim, commit()) == Committed()


# -- who is answered

LISTS = 2 * (MOST_HELD * (LARGEST_HELD + 32) + 128)


@pytest.mark.parametrize(
    ("has", "counted"),
    [
        ({}, {}),
        ({"callers": Callers("t")}, {"its callers": LISTS}),
        ({"answered": Callers("t")}, {"its callers": LISTS}),
        ({"callers": Callers("t"), "answered": Callers("t")}, {"its callers": LISTS}),
        ({"askers": {"key": "é"}}, {"who asked": len(ASKER) + 3 + 2}),
        (
            {"callers": Callers("t"), "askers": {"a": "x", "b": "y"}},
            {"its callers": LISTS, "who asked": 2 * (len(ASKER) + 2)},
        ),
    ],
    ids=["nobody", "an open list", "an answered list", "both lists", "a request", "a list and two requests"],
)
def test_lists_of_callers_count_with_the_most_that_they_may_take(
    has: dict[str, Any], counted: dict[str, int], sizes: Sizes
) -> None:
    found = sizes.of(commit(), **has)
    assert {name: found[name] for name in found if name in {"its callers", "who asked"}} == counted


# -- where a run failed


@pytest.mark.parametrize(
    ("wanted", "free"),
    [(commit(), KEPT_FREE), (commit(failed=FAILED, state=None), KEPT_FREE_TO_UNDO), (END, KEPT_FREE_AT_THE_END)],
    ids=["goes on", "goes on at on_failed", "ends failed"],
)
def test_the_more_has_failed_the_less_is_kept_free(wanted: Commit, free: int, sizes: Sizes) -> None:
    item, key = sizes.claim.item, run_key("flow", ObjectId("object"))
    assert sizes.of(wanted)["the rest"] == rest_size(key, item.request_id, item.stages) + free


@pytest.mark.parametrize(
    ("wanted", "there", "counted"),
    [
        (commit(), None, None),
        (commit(), FAILED, FAILED),
        (commit(), BEFORE, None),
        (commit(failed=FAILED, state=None), None, FAILED),
        (commit(failed=FAILED, state=None), BEFORE, FAILED),
        (END, None, None),
        (END, BEFORE, BEFORE),
        (END._replace(undone=True), FAILED, FAILED),
    ],
)
def test_where_a_run_failed_counts_as_long_as_it_stays(
    wanted: Commit, there: FailedHop | None, counted: FailedHop | None, sizes: Sizes
) -> None:
    found = sizes.of(wanted, failed=there)
    assert found.get("the failure") == (None if counted is None else size_of_value(record_item(counted)))


CANCELLED = Cancellation(RequestId(STORED[1]), STORED[0], "a mistake")


def test_a_cancelled_run_counts_as_long_as_its_item(sizes: Sizes) -> None:
    counted = size_of_value(record_item(CANCELLED))
    assert sizes.of(commit(), cancellation=CANCELLED)["the cancelled run"] == counted
    assert "the cancelled run" not in sizes.of(commit())


def test_what_a_hop_remembers_leaves_room_for_what_its_item_says_of_failures(
    sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memos, "LARGEST_ITEM", 0)

    def counted(**changes: Any) -> dict[str, int]:
        with pytest.raises(TooLarge) as refused:
            sizes.store.memos.remember(sizes.having(**changes), "a", "1", is_first=True)
        return refused.value.sizes

    found = counted(failed=BEFORE, cancellation=CANCELLED)
    assert found["the failure"] == size_of_value(record_item(BEFORE))
    assert found["the cancelled run"] == size_of_value(record_item(CANCELLED))
    assert {"the failure", "the cancelled run"}.isdisjoint(counted())


# -- the state that stays


@pytest.mark.parametrize(
    ("wanted", "has", "size"),
    [
        (END, {"state": "{}"}, 2),
        (END, {}, None),
        (END, {"left": LeftState(lambda: "", 77)}, 77),
        (commit(state="123"), {"state": "{}"}, 3),
        (commit(state="123"), {"left": LeftState(lambda: "", 77)}, 3),
    ],
)
def test_a_state_that_stays_counts_as_one_that_is_written(
    wanted: Commit, has: dict[str, Any], size: int | None, sizes: Sizes
) -> None:
    assert sizes.of(wanted, **has).get("state") == size

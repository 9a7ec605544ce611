"""Where the run of a link stands, by what is stored of its object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flowguard.errors import CannotOpen, TextGone
from flowguard.flow import ATTACH, IGNORE, SUPERSEDE, AnyFlow, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.callers import StoredEnd
from flowguard.protocol.run import RunItem, Status
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.watch_link import WatchLink
from flowguard.worker.watched_runs import Progress, Watched, watched
from tests.scene import START, Orders, Script, two_stages

LINK = WatchLink("orders", "o1", "mine", START, START + 10**9)
DAY = 86_400_000


class Ignoring(Flow, name="orders", object_id="order_id", on_conflict=IGNORE):
    stages = two_stages(Script())


class Attaching(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, keep_result=timedelta(minutes=1)):
    stages = two_stages(Script())


class Stored:
    """A store of one object: its item, and its end where it is read."""

    def __init__(self, item: RunItem | None, end: StoredEnd | Exception | None = None) -> None:
        self.item = item
        self.end = end
        self.waits = self.groups = self.callers = self

    def run(self, address: AnswerAddress) -> RunItem | None:
        assert (address.flow, address.object_id) == ("orders", "o1")
        return self.item

    def stored_end(self, flow: str, object_id: ObjectId) -> StoredEnd | None:
        assert (flow, object_id) == ("orders", "o1")
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


def item(request: str = "mine", status: Status = Status.RUNNING, at: int = START, **more: Any) -> RunItem:
    owner = Owner("w1")
    return RunItem(RequestId(request), at, 1, status, "price-order", 1, 1, 0, 1, owner, 0, done=True)._replace(**more)


def look(flow: AnyFlow, stored: Stored, now: int = START, may_show: Callable[[], bool] = lambda: True) -> Watched:
    return watched(stored, flow, LINK, now, may_show)  # type: ignore[arg-type]  # what a look needs of a store


def end(request: str = "mine", **more: Any) -> StoredEnd:
    return StoredEnd(RequestId(request), START, "COMPLETED", '{"total": 7}')._replace(**more)


ENDED = item(status=Status.COMPLETED)
OTHER, OVER = "other", Status.COMPLETED


@pytest.mark.parametrize(
    ("flow", "stored", "progress"),
    [
        (Orders, None, Progress.ACCEPTED),
        (Orders, item(), Progress.RUNNING),
        (Orders, item(status=Status.WAITING), Progress.WAITING),
        (Orders, ENDED, Progress.DONE),
        (Orders, item(status=Status.COMPLETED, reset_at=START), Progress.RUNNING),
        (Orders, item(OTHER, at=START - 1), Progress.ACCEPTED),
        (Orders, item(OTHER, OVER, at=START - 1), Progress.ACCEPTED),
        (Orders, item(OTHER, at=START), Progress.SUPERSEDED),
        (Orders, item(OTHER, OVER, at=START + 1), Progress.SUPERSEDED),
        (Ignoring, item(OTHER, at=START - 1), Progress.IGNORED),
        (Ignoring, item(OTHER, OVER, at=START - 1, committed_at=START), Progress.IGNORED),
        (Ignoring, item(OTHER, OVER, at=START - 1, committed_at=START - 1), Progress.ACCEPTED),
        (Ignoring, item(OTHER, at=START), Progress.SUPERSEDED),
        (Attaching, item(OTHER, at=START - 1), Progress.ACCEPTED),
        (Attaching, item(OTHER, at=START + 1), Progress.ACCEPTED),
        (Attaching, item(OTHER, OVER, committed_at=START - 60_000), Progress.DONE),
        (Attaching, item(OTHER, OVER, committed_at=START - 60_001), Progress.ACCEPTED),
        (Attaching, item(OTHER, OVER, committed_at=START, reset_at=START), Progress.ACCEPTED),
    ],
)
def test_a_request_stands_where_the_item_says(flow: AnyFlow, stored: RunItem | None, progress: Progress) -> None:
    assert look(flow, Stored(stored, end(stored.request_id if stored else "mine"))).progress is progress


def test_on_conflict_is_what_these_flows_say() -> None:
    assert [flow.on_conflict for flow in (Orders, Ignoring, Attaching)] == [SUPERSEDE, IGNORE, ATTACH]


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        (end(), Watched(Progress.DONE, {"total": 7})),
        (end(result=None), Watched(Progress.DONE)),
        (end(status="FAILED", result=None, error="ValueError: s3cret"), Watched(Progress.FAILED, error="ValueError")),
        (TextGone("b", "k", "why"), Watched(Progress.DONE, error="TextGone")),
        (CannotOpen("result", "its key is gone"), Watched(Progress.DONE, error="CannotOpen")),
        (None, Watched(Progress.RUNNING)),
        (end("other"), Watched(Progress.RUNNING)),
    ],
)
def test_an_end_is_what_is_stored_of_that_run(stored: StoredEnd | Exception | None, seen: Watched) -> None:
    assert look(Orders, Stored(ENDED, stored)) == seen


def test_a_failed_run_whose_error_is_not_opened_has_failed() -> None:
    stored = Stored(item(status=Status.FAILED), CannotOpen("error", "its key is gone"))
    assert look(Orders, stored) == Watched(Progress.FAILED, error="CannotOpen")


def test_a_result_that_may_not_be_shown_is_not_read() -> None:
    away = ConnectionError("the keys are away")
    assert look(Orders, Stored(ENDED, away), may_show=lambda: False) == Watched(Progress.DONE, shows_result=False)
    failed = Stored(item(status=Status.FAILED), end(status="FAILED", result=None, error="ValueError: s3cret"))
    assert look(Orders, failed, may_show=lambda: False) == Watched(Progress.FAILED, error="ValueError")


@pytest.mark.parametrize("status", [Status.RUNNING, Status.WAITING, Status.FAILED])
def test_who_may_see_a_result_is_asked_where_there_is_one(status: Status) -> None:
    def asked() -> bool:
        raise AssertionError

    look(Orders, Stored(item(status=status), end(status="FAILED", error="ValueError")), may_show=asked)


@pytest.mark.parametrize("may", [True, False])
def test_a_run_that_completes_between_the_two_reads_shows_its_result_to_those_who_may_see_it(may: bool) -> None:
    """It had failed, and was sent back."""
    asked: list[bool] = []

    def may_show() -> bool:
        asked.append(may)
        return may

    seen = look(Orders, Stored(item(status=Status.FAILED), end()), may_show=may_show)
    assert seen == (Watched(Progress.DONE, {"total": 7}) if may else Watched(Progress.DONE, shows_result=False))
    assert asked == [may]
    asked.clear()
    look(Orders, Stored(ENDED, end()), may_show=may_show)
    assert asked == [may], "once"


def test_another_error_of_a_read_is_raised() -> None:
    with pytest.raises(ConnectionError):
        look(Orders, Stored(ENDED, ConnectionError("away")))


def test_a_request_is_forgotten_when_its_message_can_be_nowhere_any_more() -> None:
    assert look(Orders, Stored(None), START + 14 * DAY).progress is Progress.ACCEPTED
    assert look(Orders, Stored(None), START + 14 * DAY + 1).progress is Progress.FORGOTTEN


@pytest.mark.parametrize("progress", Progress)
def test_a_request_is_over_when_nothing_more_comes(progress: Progress) -> None:
    goes_on = {Progress.ACCEPTED, Progress.RUNNING, Progress.WAITING}
    assert Watched(progress).is_over is (progress not in goes_on)

"""The history of a run: what each end adds, how much of it stays, and that no text harms it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.claims import taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Cancellation, Claim, ClaimRequest, Commit, RunItem, Status
from flowguard.protocol.run_history import (
    LONGEST,
    Happened,
    How,
    after_commit,
    after_retry,
    error_of,
    newest,
    read_history,
    run_digest,
    told_by_commit,
    told_by_retry,
)
from flowguard.wire.message import ErrorNote, Message

AT = 1_800_000_000_000
MESSAGE = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), AT - 9, "{}")
RUN = run_digest("run-1", AT - 9)
ERROR = ErrorNote("Reject", "no", AT + 5)


def asked(message: Message, now: int = AT) -> ClaimRequest:
    return ClaimRequest(message, Owner(f"owner-{now}"), now, now + 30_000, OnConflict.SUPERSEDE, 0, now)


def claim(before: RunItem | None = None, now: int = AT, **changes: Any) -> Claim:
    message = MESSAGE._replace(**changes)
    return Claim(message, taken(before, asked(message, now)), before, at=now)


def commit(status: Status = Status.RUNNING, **changes: Any) -> Commit:
    return Commit(status, AT + 1, AT + 2, None, None, **{"ended_at": AT + 45, **changes})


def left(**changes: Any) -> RunItem:
    """The item that the first attempt's claim left."""
    return claim().item._replace(**changes)


def told(text: str) -> list[tuple[str, int, int, int, How, int | None, int]]:
    return [(one.run, one.hop, one.retry, one.epoch, one.how, one.ms, one.at) for one in read_history(text)]


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (commit(), How.COMMITTED),
        (commit(Status.WAITING), How.WAITED),
        (commit(Status.COMPLETED), How.COMPLETED),
        (commit(Status.FAILED), How.FAILED),
        (commit(Status.FAILED, undone=True), How.UNDONE),
        (commit(failed=FailedHop(RequestId("run-1"), AT - 9, 1, 0, ERROR)), How.GAVE_UP),
    ],
)
def test_a_commit_adds_a_line_for_its_end(end: Commit, how: How) -> None:
    text = after_commit(claim(), end)
    assert read_history(text) == (Happened(RUN, 1, 0, 0, 1, how, 45, AT + 45, "price-order"),)


def test_a_line_is_short() -> None:
    text = after_commit(claim(), commit())
    assert text == f"{RUN},1,0,0,1,c,45,{AT + 45:x},price-order"
    assert len(text) < 42


def test_where_the_time_of_the_claim_or_of_the_end_is_unknown_the_rest_is_told() -> None:
    end = commit(ended_at=0)
    assert told(after_commit(claim()._replace(at=0), end)) == [(RUN, 1, 0, 1, How.COMMITTED, None, AT + 1)]


def test_a_row_tells_what_a_commit_adds_with_the_whole_name_of_its_stage() -> None:
    long = "s" * 200
    item = left(history=f"{RUN},1,0,0,0,r,,1,first", stage=long)
    again = claim(item, AT + 20_000, retry=1, stage=long)
    before, own = read_history(told_by_commit(again, commit(ended_at=0)))
    assert (before.how, before.stage, before.epoch) == (How.RETRIED, long, 1)
    assert (own.how, own.stage, own.epoch, own.at) == (How.COMMITTED, long, 2, AT + 1)
    [*_, failed] = read_history(told_by_retry(again, AT + 20_007))
    assert (failed.how, failed.ms, failed.at) == (How.RETRIED, 7, AT + 20_007)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (commit(), None),
        (commit(Status.FAILED, error=ERROR), "Reject"),
        (commit(failed=FailedHop(RequestId("run-1"), AT - 9, 1, 0, ERROR)), "Reject"),
    ],
)
def test_a_hop_that_failed_for_good_has_the_type_of_its_error(end: Commit, error: str | None) -> None:
    assert error_of(end) == error


@pytest.mark.parametrize(("stage", "kept"), [("s" * 31 + "\n", "s" * 31 + " "), ("s" * 32 + "\n", "s" * 32 + "…")])
def test_a_name_at_the_limit_is_kept_whole(stage: str, kept: str) -> None:
    [own] = read_history(after_commit(claim(stage=stage), commit()))
    assert own.stage == kept


def test_an_attempt_that_wrote_nothing_is_told_by_the_next_one() -> None:
    first = AT + 7
    retried = claim(left(), AT + 20_000, retry=1, first_error=ERROR._replace(at=first))
    assert told(after_commit(retried, commit()))[0] == (RUN, 1, 0, 1, How.RETRIED, None, first)


def test_the_time_of_a_later_attempt_is_when_the_next_one_began() -> None:
    third = claim(left(retry=1), AT + 20_000, retry=2, first_error=ERROR)
    assert told(after_commit(third, commit()))[0] == (RUN, 1, 1, 1, How.RETRIED, None, AT + 20_000)
    again = claim(left(), AT + 20_000, redrive=1, retry=1, first_error=ERROR)
    assert told(after_commit(again, commit()))[0][-1] == AT + 20_000
    unnamed = claim(left(), AT + 20_000, retry=1)
    assert told(after_commit(unnamed, commit()))[0][-1] == AT + 20_000


@pytest.mark.parametrize(("lease", "at"), [(AT + 9, AT + 9), (AT + 99_999, AT + 20_000)])
def test_a_worker_that_died_is_told_by_the_one_who_took_over(lease: int, at: int) -> None:
    over = claim(left(lease_until=lease), AT + 20_000)
    lines = told(after_commit(over, commit(ended_at=AT + 20_300)))
    assert lines == [
        (RUN, 1, 0, 1, How.TAKEN_OVER, None, at),
        (RUN, 1, 0, 2, How.COMMITTED, 300, AT + 20_300),
    ]


def test_a_retry_in_place_tells_itself_and_nobody_tells_it_again() -> None:
    text = after_retry(claim(), AT + 11)
    assert told(text) == [(RUN, 1, 0, 1, How.RETRIED, 11, AT + 11)]
    again = claim(left(retry=1, lease_until=AT + 11, history=text), AT + 20_000, retry=1)
    lines = told(after_retry(again, AT + 20_001))
    assert [(one[2], one[3], one[4]) for one in lines] == [(0, 1, How.RETRIED), (1, 2, How.RETRIED)]


@pytest.mark.parametrize(
    ("last", "tells"),
    [(f"{RUN},1,0,0,1", True), (f"{RUN},1,0,0,2", False), ("other,1,0,0,1", False)],
)
def test_only_a_line_of_the_same_claim_tells_of_it(last: str, tells: bool) -> None:
    before = left(history=f"{last},r,,1,x")
    assert len(told(after_commit(claim(before, AT + 20_000, retry=1), commit()))) == 2 + (not tells)


def test_the_hop_before_and_an_end_that_is_redriven_have_told_themselves() -> None:
    done = left(done=True, history="kept")
    assert told(after_commit(claim(done, hop=2), commit())) == [(RUN, 2, 0, 2, How.COMMITTED, 45, AT + 45)]
    failed = left(done=True, status=Status.FAILED)
    assert [one[4] for one in told(after_commit(claim(failed, redrive=1), commit()))] == [How.COMMITTED]
    open_hop = left(hop=1)
    assert len(told(after_commit(claim(open_hop, hop=2), commit()))) == 1


def test_a_cancelled_run_says_itself_that_its_worker_was_stopped() -> None:
    cancelled = left(epoch=2, cancellation=Cancellation(RequestId("run-1"), AT, "no"))
    assert [one[4] for one in told(after_commit(claim(cancelled, AT + 1), commit(Status.FAILED)))] == [How.FAILED]


@pytest.mark.parametrize(("reset_at", "how"), [(None, How.SUPERSEDED), (AT, How.RESET)])
def test_a_run_that_a_newer_request_ends_is_told_by_that(reset_at: int | None, how: How) -> None:
    newer = claim(left(reset_at=reset_at), AT + 3, request_id=RequestId("run-2"), requested_at=AT)
    lines = told(after_commit(newer, commit()))
    assert lines[0] == (RUN, 1, 0, 1, how, None, AT + 3)
    assert lines[1][0] == run_digest("run-2", AT) != RUN


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_a_run_that_had_ended_is_not_superseded(status: Status) -> None:
    newer = claim(left(status=status, done=True), request_id=RequestId("run-2"), requested_at=AT)
    assert len(told(after_commit(newer, commit()))) == 1


def test_runs_of_one_id_at_two_times_are_told_apart() -> None:
    assert run_digest("run-1", 1) != run_digest("run-1", 2) != run_digest("run-2", 2)
    assert re.fullmatch("[0-9a-f]{4}", run_digest("ü" * 300, -5))


# -- room


@pytest.mark.parametrize(
    ("room", "kept"),
    [(11, "aaa\nbbb\nccc"), (10, "bbb\nccc"), (7, "bbb\nccc"), (6, "ccc"), (3, "ccc"), (2, ""), (0, ""), (-5, "")],
)
def test_the_newest_lines_that_fit_are_kept(room: int, kept: str) -> None:
    assert newest("aaa\nbbb\nccc", room) == kept


def test_room_is_counted_in_bytes() -> None:
    assert newest("ä\nöö", 4) == "öö"
    assert newest("ä\nöö", 3) == ""


@pytest.mark.parametrize("stage", ["s" * 255, "ü" * 127, "\U0001f600" * 63, "a\nb,c\r\x00\x1b[2J", ",", "\n"])
def test_a_hostile_stage_spoils_no_line(stage: str) -> None:
    text = after_commit(claim(stage=stage), commit())
    assert len(text.encode()) <= LONGEST
    [one] = read_history(text)
    assert one.how is How.COMMITTED
    assert one.stage.removesuffix("…") == stage.replace("\n", " ")[:32]
    assert one.stage.endswith("…") == (len(stage) > 32)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "a,1,0,0,1,c,,1",
        "a,?,0,0,1,c,,1,s",
        "a,1,0,0,1,?,,1,s",
        "a,1,0,0,1,c,x,1,s",
        "a,1,0,0,1,c,,z,s",
        "," * 200,
        "\x00",
        "{}",
    ],
)
def test_what_is_no_line_is_left_out(line: str) -> None:
    good = after_commit(claim(), commit())
    assert read_history(f"{line}\n{good}\n{line}") == read_history(good)
    assert len(read_history(after_commit(claim(left(history=line), AT + 40_000, retry=1), commit()))) == 2

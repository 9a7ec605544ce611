"""The fate of a dead letter that is sent back, by its run item."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.flow import ATTACH, IGNORE, PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.callers import Callers
from flowguard.protocol.claims import attempt_key
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.groups import Member
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import Wait
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Fate, asker_of, has_callers, judge, lost_answer, not_awaited, told_by_stage
from flowguard.worker.undeliverable import Undeliverable
from tests.protocol.run_items import run_item

NOW = 1_800_000_000_000
FIRST = Message("works", "work", 1, ObjectId("o"), RequestId("r"), 5, "{}")


def flow(**options: Any) -> AnyFlow:
    class Work(Stage[dict[str, Any]], name="work"):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class Works(Flow, name="works", **{"object_id": "id", **options}):
        stages = (Work,)

    return Works


def moved(message: Message, queue: str = "works") -> Letter:
    """A record that SQS has moved. Its redrive counts no attempt."""
    [found] = normalize(sqs_event(queue, "{}", attributes=message.attributes()))
    assert isinstance(found, Envelope)
    return Letter("m", NOW, 1, None, None, "{}", envelope=found, message=message)


def fate(letter: Letter, item: RunItem | None, **about: Any) -> tuple[Fate, str]:
    found = judge(letter, item, now=NOW, **about)
    return found.fate, found.why


def of(letter: Letter, **changes: Any) -> Letter:
    return Letter(**{name: changes.get(name, getattr(letter, name)) for name in Letter.__dataclass_fields__})


BUSY = run_item(hop=1, done=False, owner=Owner("w"), lease_until=NOW + 60_000, requested_at=5)
FAILED = FailedHop(RequestId("r"), 5, 1, 0, ErrorNote("E", "no", 1))
UNDONE = {"status": Status.FAILED, "failed": FAILED._replace(undone=True)}


def test_a_letter_whose_copy_is_worked_on_waits_behind_it() -> None:
    item = BUSY._replace(lease_until=NOW + 60_000)
    assert fate(moved(FIRST), item)[0] is Fate.REDRIVEN


@pytest.mark.parametrize(("policy", "fate_of"), [(ATTACH, Fate.REDRIVEN), (IGNORE, Fate.SUPERSEDED)])
def test_a_request_that_met_another_run_goes_by_its_flows_policy(policy: Any, fate_of: Fate) -> None:
    item = run_item(request_id=RequestId("other"), requested_at=4, lease_until=NOW + 60_000, done=False)
    newer = moved(FIRST._replace(requested_at=NOW - 1))
    assert fate(of(newer, flow=flow(on_conflict=policy)), item)[0] is fate_of
    assert fate(newer, item)[0] is Fate.REDRIVEN, "without the class the newest request wins"


@pytest.mark.parametrize(("abandoned", "fate_of"), [(1, Fate.REDRIVEN), (10, Fate.SUPERSEDED)])
def test_a_run_is_abandoned_after_what_its_flow_says(abandoned: int, fate_of: Fate) -> None:
    item = run_item(request_id=RequestId("other"), requested_at=4, lease_until=NOW - 5 * 60_000, done=False)
    patient = flow(on_conflict=IGNORE, abandoned_after=timedelta(minutes=abandoned))
    assert fate(of(moved(FIRST._replace(requested_at=NOW - 1)), flow=patient), item)[0] is fate_of


@pytest.mark.parametrize(("keeps", "why"), [(1, "newer than request"), (10, "answered with the end")])
def test_an_end_is_good_for_a_request_as_long_as_its_flow_says(keeps: int, why: str) -> None:
    item = run_item(
        request_id=RequestId("other"), requested_at=4, status=Status.COMPLETED, committed_at=NOW - 5 * 60_000
    )
    kept = flow(on_conflict=ATTACH, keep_result=timedelta(minutes=keeps))
    assert why in fate(of(moved(FIRST._replace(requested_at=NOW)), flow=kept), item)[1]


def test_a_later_hop_goes_nowhere_where_its_run_went_on() -> None:
    for changes in ({"hop": 3}, {"status": Status.WAITING, "hop": 3}):
        found, why = fate(moved(FIRST), run_item(**changes))
        assert (found, "the run went on: it is at hop 3" in why) == (Fate.SUPERSEDED, True)
        assert "to begin anew" not in why


def test_what_failed_for_good_and_was_undone_says_how_to_begin_anew() -> None:
    item = run_item(hop=2, done=False, failed=FAILED)
    found, why = fate(moved(FIRST._replace(redrive=1)), item)
    assert (found, "to begin anew" in why) == (Fate.GIVEN_UP, True)
    assert fate(moved(FIRST._replace(hop=2, stage="work")), item._replace(hop=3))[0] is Fate.SUPERSEDED


@pytest.mark.parametrize(
    ("changes", "flow_of", "why"),
    [
        ({"done": False}, None, "to begin anew once that is done, use 'flowguard retry --again'"),
        ({"done": False}, {"request_id": "id"}, "; requests of works are named by their payload"),
        (
            {"status": Status.FAILED, "failed": FAILED._replace(undone=True)},
            {"request_id": "id"},
            "; requests of works are named by their payload",
        ),
        ({"status": Status.FAILED}, None, "its on_failed stage has failed too, so it is not taken back"),
        (
            {"status": Status.FAILED, "failed": FAILED._replace(undone=True)},
            None,
            "to begin anew, use 'flowguard retry",
        ),
        (
            {"status": Status.FAILED, "failed": FAILED._replace(undone=True)},
            {"object_id": PER_REQUEST},
            "send the request under another",
        ),
        ({"status": Status.FAILED}, {"request_id": "id"}, "its on_failed stage has failed too"),
    ],
    ids=[
        "is taken back",
        "is taken back and named by its payload",
        "is undone and named by its payload",
        "its undo failed",
        "is undone",
        "an object of each request",
        "its undo failed and it is named by its payload",
    ],
)
def test_no_letter_proposes_what_a_retry_would_refuse(changes: dict[str, Any], flow_of: Any, why: str) -> None:
    item = run_item(**{"hop": 2, "done": True, "failed": FAILED, **changes})
    redriven = moved(FIRST._replace(redrive=1))
    letter = redriven if flow_of is None else of(redriven, flow=flow(**flow_of))
    found, said = fate(letter, item)
    assert (found, why in said) == (Fate.GIVEN_UP, True), said


def test_a_failed_hop_that_is_committed_says_so_too() -> None:
    item = run_item(hop=1, failed=FAILED._replace(undone=True), status=Status.FAILED)
    assert fate(moved(FIRST), item)[0] is Fate.GIVEN_UP
    other = item._replace(failed=FAILED._replace(hop=2, undone=True))
    assert fate(moved(FIRST), other)[0] is Fate.SUPERSEDED


def test_a_letter_without_an_object_is_asked_about_by_its_claim() -> None:
    nobody = moved(FIRST._replace(object_id=ObjectId("")))
    found, why = fate(nobody, run_item(request_id=RequestId("other"), requested_at=NOW))
    assert (found, "names no object" in why) == (Fate.REDRIVEN, True)


COMMITTED = run_item(hop=1, retry=1)


@pytest.mark.parametrize(
    ("letter", "item", "is_sent"),
    [
        (moved(FIRST._replace(retry=1)), COMMITTED, True),
        (moved(FIRST), COMMITTED, False),
        (moved(FIRST, "works.fifo"), COMMITTED, True),
        (of(moved(FIRST._replace(retry=1)), envelope=None), COMMITTED, True),
        (of(moved(FIRST), envelope=None), COMMITTED, False),
        (moved(FIRST._replace(redrive=1)), COMMITTED._replace(redrive=1, retry=0), False),
        (moved(FIRST._replace(retry=1)), run_item(hop=2, retry=0, status=Status.COMPLETED), False),
    ],
    ids=[
        "this attempt",
        "an earlier one",
        "one of a FIFO queue",
        "without a record",
        "an earlier one too",
        "parked",
        "of another hop",
    ],
)
def test_what_a_committed_hop_had_to_send_is_sent_by_the_record_that_may_be_its_last(
    letter: Letter, item: RunItem, is_sent: bool
) -> None:
    assert ("may be unsent" in fate(letter, item, unsent=True)[1]) is is_sent
    assert "may be unsent" not in fate(letter, item)[1]


# -- letters of what another flow has asked for


NOT_TEXT: Any = 5
ASKED = AnswerAddress("trips", ObjectId("t"), RequestId("r"), 5, 2, "seat")


def waiting(**changes: Any) -> RunItem:
    wait = Wait(frozenset({"seat", "meal"}), spare=0, deadline=NOW)
    return run_item(status=Status.WAITING, wait=wait._replace(**changes))


@pytest.mark.parametrize(
    ("item", "late"),
    [
        pytest.param(waiting(), False, id="waits"),
        pytest.param(waiting(waiting=frozenset({"meal"}), answered=frozenset({"seat"})), True, id="has its answer"),
        pytest.param(run_item(done=False), False, id="does not wait yet"),
        pytest.param(run_item(hop=3), True, id="went on"),
        pytest.param(run_item(status=Status.FAILED), True, id="ended"),
        pytest.param(run_item(request_id=RequestId("newer")), True, id="another run"),
        pytest.param(None, False, id="not in the table"),
    ],
)
def test_an_answer_is_late_where_its_asker_has_gone_on(item: RunItem | None, late: bool) -> None:
    assert (not_awaited(ASKED, item) is not None) is late


@pytest.mark.parametrize(("shards", "late"), [({"0"}, False), ({"1"}, True)])
def test_the_answer_to_a_request_of_a_group_is_late_where_its_shard_is_done(shards: set[str], late: bool) -> None:
    asker = ASKED._replace(name=Member(0, 7).text)
    item = waiting(waiting=frozenset(shards), group="g-1")
    assert (not_awaited(asker, item) is not None) is late


ENDED_THEN = run_item(request_id=RequestId("other"), requested_at=6, status=Status.COMPLETED, committed_at=NOW)
GONE_TEXT = ErrorNote("TextGone", "the text at s3://b/k is gone: NoSuchKey", NOW)
OTHER_ERROR = ErrorNote("RunFailed", "the run's item has expired", NOW)
REDRIVEN_ONCE = {"redrive": 1, "first_error": GONE_TEXT}


@pytest.mark.parametrize(
    ("message", "item", "is_lost"),
    [
        (REDRIVEN_ONCE, ENDED_THEN, True),
        ({"redrive": 2, "first_error": OTHER_ERROR, "last_error": GONE_TEXT}, ENDED_THEN, True),
        ({"redrive": 2, "first_error": GONE_TEXT, "last_error": OTHER_ERROR}, ENDED_THEN, False),
        ({}, ENDED_THEN, False),
        (REDRIVEN_ONCE, None, False),
        (REDRIVEN_ONCE, ENDED_THEN._replace(committed_at=NOW + 10_000), True),
        (REDRIVEN_ONCE, ENDED_THEN._replace(committed_at=NOW + 10_001), False),
        (REDRIVEN_ONCE, ENDED_THEN._replace(status=Status.RUNNING, done=False, lease_until=NOW + 1), False),
    ],
    ids=[
        "it says so",
        "it says so at last",
        "it said so once",
        "it says nothing",
        "no item",
        "a clock is ahead",
        "another run has ended since",
        "another run goes on",
    ],
)
def test_a_request_whose_answer_is_gone_says_so(message: dict[str, Any], item: RunItem | None, is_lost: bool) -> None:
    letter = of(moved(FIRST._replace(**message)), flow=flow(on_conflict=ATTACH))
    why = lost_answer(letter, item, now=NOW)
    said = f"it is answered with the end of request other, which is gone: {GONE_TEXT.text}"
    assert why == (said if is_lost else None)


def test_a_run_has_callers_in_its_item_or_in_rows() -> None:
    assert not has_callers(None)
    assert not has_callers(run_item())
    assert not has_callers(run_item(callers=Callers("t")))
    assert has_callers(run_item(callers=Callers("t", rows=True)))
    assert has_callers(run_item(callers=Callers("t", {"k": "[]"})))


def test_an_asker_is_named_by_the_letter_alone() -> None:
    asked = FIRST._replace(answer_to=json.dumps(ASKED.as_json()))
    assert asker_of(moved(asked)) == ASKED
    assert asker_of(moved(FIRST)) is None
    assert asker_of(moved(FIRST._replace(answer_to="{}"))) is None, "its function says so"
    assert asker_of(of(moved(asked), message=None)) is None
    unsent = Undeliverable(Kind.ASK, Queue("asked"), "id", {})
    assert asker_of(of(moved(asked), unsent=unsent)) is None, "what a hop sends is not its run"
    with pytest.raises(TypeError):
        asker_of(of(moved(FIRST), message=FIRST._replace(answer_to=NOT_TEXT)))


TAKEN = run_item(request_id=RequestId("newer"), requested_at=6)
AT_WORK = run_item(request_id=RequestId("newer"), requested_at=4, done=False, lease_until=NOW)
ASKING = FIRST._replace(reply_to="sqs:trips", answer_to=json.dumps(ASKED.as_json()))


@pytest.mark.parametrize(
    ("message", "item", "asker", "told"),
    [
        pytest.param(ASKING, TAKEN, waiting(), "'trips' of 't' waits for it, and is told so", id="stale"),
        pytest.param(ASKING, TAKEN, None, "'trips' of 't' waits for it, and is told so", id="stale, in another table"),
        pytest.param(ASKING, TAKEN, run_item(hop=3), None, id="stale, and its asker went on"),
        pytest.param(ASKING._replace(reply_to=None), TAKEN, waiting(), None, id="stale, with no way back"),
        pytest.param(ASKING._replace(answer_to=None), TAKEN, None, None, id="stale, and may be a copy"),
        pytest.param(ASKING, AT_WORK, waiting(), "'trips' of 't' waits for it, and is told so", id="ignored"),
        pytest.param(ASKING._replace(answer_to=None), AT_WORK, None, "its caller is told so", id="ignored, a caller"),
        pytest.param(ASKING._replace(hop=2), None, waiting(), "'trips' of 't' waits for it", id="expired"),
        pytest.param(ASKING._replace(hop=2), None, None, None, id="expired, and so has its asker"),
        pytest.param(ASKING._replace(hop=2), TAKEN, waiting(), None, id="was told by the run that took over"),
        pytest.param(ASKING, run_item(hop=3), waiting(), None, id="its own run went on"),
    ],
)
def test_a_request_that_no_run_takes_is_sent_where_its_stage_tells_who_waits(
    message: Message, item: RunItem | None, asker: RunItem | None, told: str | None
) -> None:
    letter = of(moved(message), flow=flow(on_conflict=IGNORE))
    found = told_by_stage(letter, item, asker, now=NOW)
    assert found is None if told is None else told in str(found)


@pytest.mark.parametrize(
    ("changes", "hop", "fate_then"),
    [
        ({"callers": Callers("t")}, 1, Fate.REDRIVEN),
        ({"answered": Callers("t")}, 1, Fate.REDRIVEN),
        ({"answered": Callers("t")}, 2, Fate.SUPERSEDED),
        ({"answered": Callers("t"), "reset_at": NOW, "request_id": FIRST.request_id, "requested_at": 5}, 3,
         Fate.REDRIVEN),
        ({}, 1, Fate.SUPERSEDED),
    ],
    ids=["has callers", "had callers", "a later hop", "a later hop of a run that was reset", "takes none"],
)  # fmt: skip
def test_an_item_shows_that_its_flow_takes_callers(changes: dict[str, Any], hop: int, fate_then: Fate) -> None:
    """An older request is answered with the end that is there, or is to come."""
    item = TAKEN._replace(**changes)
    assert fate(moved(FIRST._replace(hop=hop)), item)[0] is fate_then


def test_a_later_hop_of_a_run_that_was_reset_is_left_where_its_callers_show_that_its_stage_would_leave_it() -> None:
    """Its stage begins such a run anew with its first message. Without that it would come back at each redrive."""
    item = WAS_RESET._replace(answered=Callers("t"))
    later = moved(FIRST._replace(hop=3))
    assert fate(later, item, has_first=True)[0] is Fate.REDRIVEN
    assert fate(later, item, has_first=False) == judge(AFTER_RESET, WAS_RESET, now=NOW, has_first=False)


WAS_RESET = run_item(hop=1, request_id=FIRST.request_id, requested_at=5, reset_at=NOW, done=False)
AFTER_RESET = of(moved(FIRST._replace(hop=3, reply_to="sqs:callers")), flow=flow(on_conflict=ATTACH))


def test_a_later_hop_of_a_run_that_was_reset_goes_back_to_send_the_restart_which_may_not_be_sent() -> None:
    told = judge(AFTER_RESET, WAS_RESET, now=NOW)
    assert told == (Fate.REDRIVEN, "the run was reset; its stage sends the message that begins it anew")


def test_a_run_that_was_reset_and_cannot_be_begun_anew_takes_no_letter_back() -> None:
    """It began before its flow took callers. Its stage would make a dead letter again, each time."""
    told = judge(AFTER_RESET, WAS_RESET, now=NOW, has_first=False)
    assert told.fate is Fate.SUPERSEDED
    assert told.why.startswith("the run was reset, and its first message is not stored")
    assert told_by_stage(AFTER_RESET, WAS_RESET, None, now=NOW) is None


@pytest.mark.parametrize(
    ("noted", "queue", "fate_then"),
    [
        (3, "works", Fate.REDRIVEN),
        (2, "works", Fate.SUPERSEDED),
        (None, "works", Fate.SUPERSEDED),
        (None, "works.fifo", Fate.REDRIVEN),
    ],
    ids=["of a call", "of a call, before retries in the queue", "of retries in the queue", "of its own record"],
)
def test_a_request_goes_back_where_attempts_have_failed_that_no_message_counts(
    noted: int | None, queue: str, fate_then: Fate
) -> None:
    item = run_item(hop=1, request_id=RequestId("r"), requested_at=5, retry=3, done=False)
    if noted is not None:
        item = item._replace(called_attempt=attempt_key(item, noted))
    assert fate(moved(FIRST, queue), item)[0] is fate_then

"""How long what a flow writes is needed, and that nothing shortens the life of what something still has to find."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.errors import DefinitionError
from flowguard.flow import ATTACH, UNTIL_RESET, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.operate.moments import iso
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import GivenAnswer
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.message import Message
from flowguard.wire.resumed_body import ResumedBody
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.lifetimes import LONGEST_WAIT, Lifetimes
from tests.waits import START, AnyOf, Carts, Progress, asks, wait_scene
from tests.worker.runtime.mishaps import Died, dies_at

NOW = 1_800_000_000_000
PAID = ExternalAnswer(Carts, "paid", GivenAnswer("7"))
DAY = timedelta(days=1) // timedelta(milliseconds=1)
HELD_BACK = RetryPolicy(attempts=3, backoff=Fixed(10 * 86_400), max_delay=timedelta(days=10))


def flow(retry: RetryPolicy | None = None, **options: Any) -> AnyFlow:
    class Work(Stage[dict[str, Any]], name="work", retry=retry or RetryPolicy()):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class Works(Flow, name="works", object_id="id", **options):
        stages = (Work,)

    return Works


def days(moment: int) -> float:
    return (moment - NOW) / DAY


@pytest.mark.parametrize(
    ("options", "lives"),
    [
        ({}, 28),
        ({"retention": timedelta(days=1)}, 2),
        ({"remember": timedelta(days=365)}, 365),
        ({"retention": timedelta(days=1), "remember": timedelta(days=2)}, 2),
        ({"long_delays": True}, 28 + 900 / 86_400),
        ({"long_delays": True, "retention": timedelta(days=1), "retry": HELD_BACK}, 2 + 10),
    ],
)
def test_a_run_item_outlives_copies_and_delayed_retries_and_is_remembered(options: Any, lives: float) -> None:
    lifetimes = Lifetimes(flow(**options))
    assert days(lifetimes.of_run(NOW)) == lives
    assert days(lifetimes.of_wait(NOW + 60 * DAY)) == 60 + lives


def test_what_answers_are_found_by_outlives_their_deadline_and_is_not_remembered() -> None:
    lifetimes = Lifetimes(flow(remember=timedelta(days=365)))
    assert days(lifetimes.of_awaited(NOW + 60 * DAY)) == 88


def test_what_is_remembered_for_ever_outlives_everybody() -> None:
    lives = Lifetimes(flow(remember=timedelta.max)).of_end(NOW, Status.COMPLETED)
    assert iso(lives) == "9999-12-31T23:59:59.000Z", "and every reader can print it"


@pytest.mark.parametrize(("options", "more"), [({"on_conflict": ATTACH}, timedelta(minutes=30)), ({}, timedelta(0))])
def test_a_commit_lets_the_item_live_for_who_attaches_before_it_is_made(options: Any, more: timedelta) -> None:
    lifetimes = Lifetimes(flow(**options))
    lives = lifetimes.not_before(lives_until=NOW, needed=NOW, moment=NOW)
    assert lives == (NOW if not more else lifetimes.of_run(NOW) + more // timedelta(milliseconds=1))


def test_a_result_is_fresh_for_as_long_as_its_flow_says() -> None:
    kept = flow(keep_result=timedelta(days=60), on_conflict=ATTACH)
    assert (kept.fresh_since(NOW), kept.good_until(NOW)) == (NOW - 60 * DAY, NOW + 60 * DAY)
    assert (flow().fresh_since(NOW), flow().good_until(NOW)) == (NOW, None)
    assert flow(keep_result=UNTIL_RESET, on_conflict=ATTACH).fresh_since(NOW) == 0


def test_a_request_that_tells_nobody_is_for_a_flow_that_tells_nobody_on_request() -> None:
    class Asks(Stage[Asked], name="work"):
        def handle(self, payload: Asked, step: Step) -> Outcome:
            return Done()

    class Silent(Flow, name="works", object_id="id", reply_to=()):
        stages = (Asks,)

    message, _ = Silent.request(Asked(id="o"), request_id=RequestId("r"), requested_at=NOW)
    assert message.reply_to is None


class Asked(BaseModel):
    id: str


def resumes(until: int, **changes: Any) -> Message:
    body = ResumedBody("answered", until).to_text()
    message = Message("works", "work", 1, ObjectId("o"), RequestId("r"), NOW, body, hop=2, resumed=True)
    return message._replace(**changes)


def test_the_claim_after_a_wait_keeps_the_item_for_what_may_still_answer_it() -> None:
    lifetimes = Lifetimes(flow())
    assert days(lifetimes.of_claim(NOW, resumes(NOW + 60 * DAY))) == 88
    assert days(lifetimes.of_claim(NOW + 70 * DAY, resumes(NOW + 60 * DAY))) == 98, "and for itself"
    assert days(lifetimes.of_claim(NOW, resumes(NOW + 60 * DAY, resumed=False))) == 28, "a payload is none"
    assert days(lifetimes.of_claim(NOW, resumes(0, body='{"wait": "answered"}'))) == 28, "of another release"


def test_nobody_keeps_an_item_for_longer_than_a_wait_can_reach() -> None:
    assert days(Lifetimes(flow()).of_claim(NOW, resumes(NOW + 9_999 * DAY))) == LONGEST_WAIT.days + 28


def test_whoever_dies_after_a_long_wait_the_item_lives_until_its_deadline_and_for_copies() -> None:
    with wait_scene() as at:
        at.begin(lambda step: AnyOf.when_any(**asks(step), within=timedelta(days=60), on_timeout="late"))
        lives = int(at.raw()["ttl"]["N"])
        assert lives * 1_000 == START + 88 * DAY
        at.answer("a", 7)
        [onward] = at.waiting("carts")
        for after in (False, True):
            at.move_to(START + (2 + after) * DAY)
            with intercept(dies_at("UpdateItem", after=after)), suppress(Died):
                at.deliver(onward)
            assert int(at.raw()["ttl"]["N"]) == lives
        at.move_to(START + 4 * DAY)
        assert at.deliver(onward)
        assert int(at.raw()["ttl"]["N"]) == lives


@pytest.mark.parametrize("later", [60_000, 70 * DAY])
def test_a_late_worker_that_writes_the_rows_of_a_wait_again_keeps_no_answer_from_its_run(later: int) -> None:
    """It was at work before the attempt that committed, whose deadline is later by as much."""
    with wait_scene() as at:
        late: list[ApiCall] = []

        def stalls(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation != "BatchWriteItem":
                return proceed()
            late.append(call)
            raise Died

        def for_paid(step: Step[Progress]) -> Outcome:
            return AnyOf.when_any(a=step.event("paid"), within=timedelta(days=60))

        with intercept(stalls), suppress(Died):
            at.begin(for_paid)
        at.move_to(START + later)
        assert at.begin(for_paid)
        at.aws.client("dynamodb").batch_write_item(RequestItems=late[0].params["RequestItems"])
        (row,) = at.waits.waiting_for("carts", "paid")
        deadline = START + later + 60 * DAY
        assert (at.wait.deadline, row.expires_at) == (deadline, deadline + 28 * DAY)
        assert Callbacks((Carts,), at.services).answer(PAID) is AnswerVerdict.RESUMED


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_a_good_result_is_there_as_long_as_it_is_good(status: Status) -> None:
    kept: Any = {"keep_result": timedelta(days=60), "on_conflict": ATTACH}
    lives = days(Lifetimes(flow(**kept)).of_end(NOW, status))
    assert lives == (60 if status is Status.COMPLETED else 28)
    longer = flow(**kept, remember=timedelta(days=90))
    assert days(Lifetimes(longer).of_end(NOW, status)) == 90


def test_the_row_of_a_caller_outlives_whatever_its_run_still_waits_for() -> None:
    lifetimes = Lifetimes(flow(max_hops=3))
    assert days(lifetimes.of_caller(NOW)) == 3 * (LONGEST_WAIT.days + 28)


def test_no_commit_shortens_the_life_of_an_item() -> None:
    lifetimes = Lifetimes(flow())
    needed = lifetimes.of_run(NOW)
    assert lifetimes.not_before(NOW + 60 * DAY, needed, NOW) == NOW + 60 * DAY
    assert lifetimes.not_before(needed - 1, needed, NOW) == needed
    assert lifetimes.not_before(0, needed, NOW) == needed


def test_a_result_that_is_good_for_longer_than_any_wait_lives_so_long() -> None:
    lifetimes = Lifetimes(flow())
    needed = NOW + 2 * LONGEST_WAIT // timedelta(milliseconds=1)
    assert lifetimes.not_before(needed + DAY, needed, NOW) == needed


def test_what_was_there_for_ever_is_not_when_its_result_is_no_longer_the_last() -> None:
    kept = Lifetimes(flow(keep_result=UNTIL_RESET, on_conflict=ATTACH))
    forever = kept.of_end(NOW, Status.COMPLETED)
    found = kept.not_before(forever, kept.of_end(NOW, Status.FAILED), NOW)
    assert days(found) == LONGEST_WAIT.days + 28


@pytest.mark.parametrize(
    ("remember", "problem"),
    [
        (
            timedelta(days=27),
            "it remembers a run for 27 days, .*, and copies of its messages may come for 28 days",
        ),
        (365, r"remember is 365, which has no unit; write timedelta\(seconds=365\)"),
    ],
)
def test_a_run_that_is_remembered_shorter_than_its_copies_come_is_refused(remember: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        flow(remember=remember)
    assert flow(remember=timedelta(days=28)).remember == timedelta(days=28)

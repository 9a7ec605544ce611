"""What shares its calls with other records, and what goes alone: each condition, at its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from flowguard.clock import ManualClock
from flowguard.errors import OtherRelease, RunFailed
from flowguard.events import EventType, Tally
from flowguard.flow import Flow
from flowguard.handler import lambda_handler
from flowguard.outcome import Done, Outcome
from flowguard.protocol.claims import attempt_key
from flowguard.protocol.run import AwaitingRow, Claim, Commit, NewWait, Refused, RunItem, Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.context import FakeContext
from flowguard.verdicts import Verdict
from flowguard.wire.envelope import Envelope, Source, normalize_record
from flowguard.wire.message import Message
from flowguard.worker.asks import Claiming, Committing, Judging
from flowguard.worker.driving import Driver
from flowguard.worker.routing import Arrival
from flowguard.worker.together import PendingCommits, Shared, Turn, Waiting, can_wait
from tests.aws.states import NOW, STORED, request
from tests.protocol.run_items import run_item
from tests.scene import START, Order, Orders, OrderState, Scene, record, scene
from tests.worker.test_together import BATCH, UPDATE, order, orders, plain, together

FIRST = Message("orders", "price-order", 1, "o1", "run-1", START, body="{}")  # type: ignore[arg-type]
COMMIT = Commit(Status.RUNNING, START, START, None, "{}")
WAY = cast(Any, None)
"""Of what is asked here no way goes on."""


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(plain) as found:
        yield together(found)


def turn(
    *, envelope: dict[str, Any] | None = None, stage: object = Orders.stages[0], received: str = "1", **changes: Any
) -> Turn:
    given = record(FIRST)
    given["attributes"]["ApproximateReceiveCount"] = received
    found: Envelope = normalize_record(given)._replace(**(envelope or {}))
    return Turn(0, found, Arrival(found, Orders, cast(Any, stage), FIRST._replace(**changes)))


# -- may share --------------------------------------------------------------------------------------------------------


def test_a_first_delivery_of_a_queue_for_a_stage_with_a_lease_may_share() -> None:
    assert turn().may_share


def test_what_no_queue_has_delivered_goes_alone() -> None:
    assert not turn(envelope={"source": Source.SNS_LAMBDA}).may_share


def test_what_does_not_say_its_queue_goes_alone() -> None:
    nowhere = {key: value for key, value in record(FIRST).items() if key != "eventSourceARN"}
    assert not turn(envelope={"received": nowhere}).may_share


def test_what_is_of_another_release_goes_alone() -> None:
    """Nothing of it is claimed."""
    found = turn()
    assert found.arrival is not None
    for problem, shares in ((OtherRelease("a version"), False), (RunFailed("a payload"), True)):
        assert found._replace(arrival=found.arrival._replace(problem=problem)).may_share is shares


def test_what_is_too_deep_goes_alone() -> None:
    """Nothing of it is claimed either."""
    assert [turn(depth=Orders.max_depth + more).may_share for more in (0, 1)] == [True, False]


def test_what_was_delivered_before_may_share() -> None:
    """After an outage all of a backlog was."""
    assert turn(received="7").may_share


# -- may kill ---------------------------------------------------------------------------------------------------------


def asked(before: RunItem | None, *, received: str = "7", **changes: Any) -> Shared:
    arrival = turn(received=received).arrival
    assert arrival is not None
    arrival = arrival._replace(message=arrival.message._replace(**changes))
    claim = Claim(arrival.message, run_item(), before, at=START)
    return Shared(arrival, WAY, claim)


def left_by_another(**changes: Any) -> RunItem:
    first = {"request_id": FIRST.request_id, "hop": 1, "retry": 0, "redrive": 0, "done": False}
    return run_item()._replace(**{**first, **changes})


def test_what_another_worker_had_and_left_may_kill() -> None:
    assert asked(left_by_another()).may_kill
    assert asked(left_by_another(retry=2, redrive=1), retry=2, redrive=1).may_kill


@pytest.mark.parametrize(
    "before",
    [
        None,
        left_by_another(done=True),
        left_by_another(request_id="run-0"),
        left_by_another(hop=2),
        left_by_another(retry=1),
        left_by_another(redrive=1),
    ],
)
def test_what_no_worker_had_does_not_kill_however_often_it_was_received(before: RunItem | None) -> None:
    assert not asked(before).may_kill


@pytest.mark.parametrize(("received", "may_kill"), [("1", False), ("2", True)])
def test_where_no_item_tells_it_the_receives_do(received: str, *, may_kill: bool) -> None:
    found = asked(None, received=received)
    assert isinstance(found.answer, Claim)
    read = found.answer._replace(unwritten=request((1, "a")))
    assert found._replace(answer=read).may_kill is may_kill
    assert found._replace(answer=None).may_kill is may_kill


def test_of_a_record_that_is_retried_in_place_a_later_attempt_may_kill() -> None:
    found = asked(None)
    ahead = run_item(request_id=FIRST.request_id, hop=1, retry=1, done=False)
    duplicate = found._replace(answer=Refused(Verdict.DUPLICATE, ahead))
    assert not duplicate.may_kill
    given = {**record(FIRST), "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders.fifo"}
    in_place = normalize_record(given)
    assert in_place.retried_in_place
    in_order = duplicate._replace(arrival=found.arrival._replace(envelope=in_place))
    assert in_order.may_kill
    assert not in_order._replace(answer=Refused(Verdict.BUSY, ahead._replace(retry=0))).may_kill
    assert duplicate._replace(
        answer=Refused(Verdict.DUPLICATE, ahead._replace(called_attempt=attempt_key(ahead, 1)))
    ).may_kill


def test_what_names_no_object_goes_alone() -> None:
    assert not turn(object_id="").may_share


def test_a_stage_that_takes_no_lease_may_share() -> None:
    class Unleased(Stage[Order], name="price-order", inbox="price-order", lease=False):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    assert turn(stage=Unleased).may_share


def test_what_has_found_no_stage_goes_alone() -> None:
    assert not turn()._replace(arrival=None).may_share


@pytest.mark.parametrize("which", [0, 1])
def test_a_request_that_is_refused_as_a_whole_is_said_once_and_its_records_are_done(which: int, at: Scene) -> None:
    shared: list[str] = []

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == BATCH:
            shared.append(call.operation)
            if len(shared) == which + 1:
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, call.operation)
        return proceed()

    with intercept(refuse):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    [told] = [event for event in at.tally.events if event.type is EventType.UNSHARED]
    assert told.facts["records"] == 3
    assert str(told.facts["why"]).startswith("ClientError: An error occurred (ThrottlingException)")
    at.tally.events.clear()
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.told(EventType.UNSHARED) == 0


def test_a_read_that_is_refused_as_a_whole_is_said() -> None:
    class Unleased(Stage[Order], name="price-order", inbox="price-order", lease=False):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Flowing(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (Unleased,)

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "BatchGetItem":
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, call.operation)
        return proceed()

    with scene(lambda script: Flowing) as found, intercept(refuse):
        together(found)
        assert found.deliver(*orders(found, 3)) == [True] * 3
        assert found.told(EventType.UNSHARED) == 1


# -- can wait ---------------------------------------------------------------------------------------------------------


def committing(commit: Commit) -> Committing:
    return Committing(cast(Claim, None), commit)


def test_a_commit_that_only_changes_its_item_can_wait() -> None:
    assert can_wait(committing(COMMIT))


def test_a_commit_that_closes_a_list_of_callers_does_not_wait() -> None:
    assert not can_wait(committing(COMMIT._replace(status=Status.COMPLETED, takes_callers=True)))


def test_a_commit_that_waits_for_others_can_wait_unless_it_has_rows_to_write() -> None:
    begun = NewWait(WaitPlan("close-order", {"paid": None}), 100, START)
    rows = (AwaitingRow("paid", cast(Any, None), "close-order", START),)
    assert can_wait(committing(COMMIT._replace(wait=begun)))
    assert not can_wait(committing(COMMIT._replace(wait=begun._replace(rows=rows))))


def test_a_claim_does_not_wait() -> None:
    """What a way claims after its first ask is answered at once."""
    assert not can_wait(Claiming(request(STORED)))
    assert not can_wait(Judging(request(STORED)))


# -- due --------------------------------------------------------------------------------------------------------------


class Left:
    def __init__(self, ms: int | None) -> None:
        self.ms = ms

    def remaining(self) -> int | None:
        return self.ms


def waiting(left: int | None, *, some: bool = True) -> PendingCommits:
    pending = PendingCommits(cast(Driver, None), ManualClock(START), Left(left))
    if some:
        pending.add(0, Waiting(cast(Arrival, None), WAY, committing(COMMIT)), START)
    return pending


@pytest.mark.parametrize("left", [None, 1])
def test_nothing_is_due_where_nothing_waits(left: int | None) -> None:
    assert not waiting(left, some=False).is_due()


@pytest.mark.parametrize(("left", "due"), [(None, False), (2_001, False), (2_000, False), (1_999, True)])
def test_what_waits_is_due_when_less_than_two_seconds_are_left(left: int | None, due: bool) -> None:
    assert waiting(left).is_due() is due


class SharedCalls:
    """A driver that notes what it is asked for together, and answers nothing."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def ask_together(self, asks: Any) -> dict[int, Any]:
        self.asked = list(asks)
        return {}


@pytest.mark.parametrize(("later", "shared"), [(-1, [0, 1]), (0, [1])])
def test_a_commit_whose_read_has_grown_old_is_made_alone(later: int, shared: list[int]) -> None:
    driver, retention = SharedCalls(), Orders.retention // timedelta(milliseconds=1)
    arrival = turn().arrival
    assert arrival is not None
    pending = PendingCommits(cast(Driver, driver), ManualClock(START + retention + later), Left(None))
    claimed = Claim(FIRST, run_item(), None)
    read = claimed._replace(unwritten=request(STORED)._replace(now=START))
    for place, claim in enumerate((read, claimed)):
        pending.add(place, Waiting(arrival, WAY, Committing(claim, COMMIT)), START)
    assert [place for place, *_ in pending.flush()] == [0, 1]
    assert driver.asked == shared


# -- the records of an invocation -------------------------------------------------------------------------------------


def test_the_only_record_is_read_once(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    resolve = at.handler.routes.resolve

    def counted(*given: Any) -> Arrival:
        read.append(given)
        return resolve(*given)

    monkeypatch.setattr(at.handler.routes, "resolve", counted)
    assert at.deliver(order(at, 0)) == [True]
    assert len(read) == 1


@pytest.mark.parametrize(("lease_until", "good"), [(NOW + 99, False), (NOW + 100, True), (NOW + 101, True)])
def test_a_claim_that_was_shared_is_good_while_half_of_its_lease_is_left(lease_until: int, good: bool) -> None:
    shared = Claim(request(STORED).message, run_item(lease_until=lease_until), None)
    arrival = cast(Arrival, turn().arrival)
    assert Shared(arrival, WAY, shared).in_time(NOW, NOW + 200) == (shared if good else None)


def test_a_function_that_shares_no_calls_claims_each_record_alone(at: Scene) -> None:
    at.handler.together = False
    assert at.deliver(*orders(at, 2)) == [True] * 2
    assert at.calls == [UPDATE] * 4


def test_one_that_may_share_beside_one_that_may_not_is_claimed_by_a_call_of_its_own(at: Scene) -> None:
    records = [record(message, place) for place, message in enumerate(orders(at, 2))]
    del records[0]["eventSourceARN"]
    with intercept(Recorder()) as calls:
        assert at.handler({"Records": records}) == {"batchItemFailures": []}
    assert [call.operation for call in calls.calls if call.service == "dynamodb"] == [UPDATE] * 4


@pytest.mark.parametrize(("left", "claimed"), [(61_000, 2), (61_001, 3)])
def test_a_record_is_claimed_where_more_is_left_than_its_stage_and_the_sending_may_take(
    left: int, claimed: int
) -> None:
    class Slow(Stage[Order, OrderState], name="price-order", inbox="price-order", timeout=timedelta(seconds=20)):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            return Done()

    class Slowly(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (Slow,)

    with scene(lambda script: Slowly) as at:
        together(at)
        context = FakeContext(timeout=timedelta(milliseconds=left), clock=at.clock)
        with intercept(Recorder()) as calls:
            assert at.deliver(*orders(at, 4), context=context) == [True] * 4
    claims = next(call for call in calls.calls if call.operation == BATCH)
    assert len(claims.params["Statements"]) == claimed


def test_a_commit_that_fails_alone_too_keeps_its_own_record_and_is_told_once(at: Scene) -> None:
    batches: list[None] = []
    refused: list[None] = []

    def down(call: ApiCall, proceed: Proceed) -> Response:
        batches.extend([None] if call.operation == BATCH else [])
        alone = call.operation == UPDATE and "o1" in str(call.params["Key"])
        refused.extend([None] if alone else [])
        if alone or (call.operation == BATCH and len(batches) == 2):
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, call.operation)
        return proceed()

    with intercept(down):
        assert at.deliver(*orders(at, 3)) == [True, False, True]
    assert at.told(EventType.BROKEN) == 1
    assert len(at.script.handled) == 3
    assert len(refused) == 2, "it is not begun anew: its commit, and the end of its lease"


def test_the_warning_names_the_message_that_is_handled(at: Scene) -> None:
    rings: list[Callable[[], None]] = []

    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        rings.append(ring)
        return lambda: None

    told = Tally()
    services = at.handler._services._replace(alarm=alarm, observer=told)
    at.script.pricing = lambda step: rings[0]() if step.object_id == "o1" else None
    handler = together(replace(at, handler=lambda_handler(at.flow).using(services))).handler
    records = [record(message, place) for place, message in enumerate(orders(at, 3))]
    assert handler({"Records": records}, FakeContext(clock=at.clock)) == {"batchItemFailures": []}
    [warning] = [event for event in told.events if event.type is EventType.TIME_SHORT]
    assert warning.message is not None
    assert warning.message.object_id == "o1"

"""Functions that are killed at a hop: the item counts them, and after a few of them the hop has failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.aws.services import aws_store
from flowguard.errors import Retry
from flowguard.events import Event, EventType, Tally
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Claim, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.message import Message
from flowguard.worker.kills import MOST_KILLS, counted
from tests.aws.engines import same_clients
from tests.scene import Order, OrderState, Scene, Script, record, scene
from tests.worker.runtime.mishaps import Died, boom, die


def kill(at: Scene, message: Message, times: int = 1, **changes: Any) -> None:
    """The function dies in the handler, and SQS brings the record when the lease is over."""
    at.script.pricing = at.script.closing = die
    for _ in range(times):
        with pytest.raises(Died):
            at.handler({"Records": [received(message, **changes)]})
        at.clock.advance(seconds=31)
    at.script.pricing = at.script.closing = lambda step: None


def rest(step: Step[OrderState]) -> None:
    raise Retry(after=timedelta(minutes=10))


def received(message: Message, receives: int = 2, **changes: Any) -> dict[str, Any]:
    found = record(message)
    found["attributes"]["ApproximateReceiveCount"] = str(receives)
    return found | changes


def no_commits(call: ApiCall, proceed: Proceed) -> Response:
    if call.operation == "TransactWriteItems":
        raise EndpointConnectionError(endpoint_url="https://dynamodb")
    return proceed()


def status(at: Scene) -> Status:
    item = at.item()
    assert item is not None
    return item.status


def test_a_hop_whose_function_was_killed_five_times_ends_as_failed_and_says_so(at: Scene) -> None:
    kill(at, at.message(), MOST_KILLS)
    assert status(at) is Status.RUNNING
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert item.error is not None
    assert "the function was killed 5 times" in item.error
    assert (item.status, len(at.script.handled), len(at.sent("dead"))) == (Status.FAILED, MOST_KILLS, 1)


def test_one_that_was_killed_less_often_goes_on_and_its_claims_say_how_often(at: Scene) -> None:
    kill(at, at.message(), MOST_KILLS - 1)
    assert at.deliver(at.message()) == [True]
    assert (status(at), at.priced()) == (Status.RUNNING, 1)
    claimed = [event.facts.get("kills") for event in at.tally.events if event.type is EventType.CLAIMED]
    assert claimed == [None, 1, 2, 3, 4]


def test_an_observer_that_kills_its_function_at_a_claim_is_counted_as_a_handler_that_does(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die_at_claims(tally: Tally, event: Event) -> None:
        if event.type is EventType.CLAIMED:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Tally, "__call__", die_at_claims)
        kill(at, at.message(), MOST_KILLS)
    at.deliver(at.message())
    assert (status(at), at.script.handled) == (Status.FAILED, [])


def test_a_kill_costs_one_write_more_and_what_goes_well_none(at: Scene) -> None:
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    kill(at, at.second())
    at.deliver(at.second())
    assert at.calls == ["UpdateItem", "UpdateItem", "UpdateItem"]


def test_an_outage_is_no_kill_however_often_it_meets_the_commit(at: Scene) -> None:
    with intercept(no_commits):
        for _ in range(3 * MOST_KILLS):
            assert at.deliver(at.message()) == [False]
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1


def test_nor_does_it_hide_the_kills_around_it(at: Scene) -> None:
    kill(at, at.message(), 2)
    with intercept(no_commits):
        assert at.deliver(at.message(), at.order("o2")) == [False, False]
    kill(at, at.message(), 3)
    at.deliver(at.message())
    assert status(at) is Status.FAILED


def test_a_retry_that_its_queue_refuses_for_now_is_no_kill(at: Scene) -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise EndpointConnectionError(endpoint_url="https://sqs")
        return proceed()

    at.script.pricing = boom
    with intercept(throttled):
        for _ in range(3 * MOST_KILLS):
            assert at.deliver(at.message()) == [False]
    assert status(at) is Status.RUNNING


def test_the_kills_of_an_attempt_are_not_those_of_the_next(at: Scene) -> None:
    for retry in range(3):
        kill(at, at.message(retry=retry), MOST_KILLS - 1)
    assert at.deliver(at.message(retry=2)) == [True]
    kill(at, at.second(), MOST_KILLS - 1)
    assert at.deliver(at.second()) == [True]
    assert status(at) is Status.COMPLETED


@pytest.mark.parametrize("hop", [1, 2])
def test_who_is_killed_after_an_attempt_that_rested_long_is_counted_all_the_same(at: Scene, hop: int) -> None:
    """The item says that it rests until the next attempt claims it."""
    if hop == 2:
        at.deliver(at.message())
    message = at.message if hop == 1 else at.second
    at.script.pricing = at.script.closing = rest
    assert at.deliver(message()) == [True]
    kill(at, message(retry=1), MOST_KILLS)
    assert at.deliver(message(retry=1)) == [True]
    assert status(at) is Status.FAILED


def test_nor_are_they_those_of_another_request(at: Scene) -> None:
    kill(at, at.message(), MOST_KILLS - 1)
    kill(at, at.newer(), MOST_KILLS - 1)
    assert at.deliver(at.newer()) == [True]
    assert status(at) is Status.RUNNING


def test_a_redrive_begins_to_count_anew(at: Scene) -> None:
    kill(at, at.message(), MOST_KILLS)
    at.deliver(at.message())
    assert status(at) is Status.FAILED
    kill(at, at.message(redrive=1), MOST_KILLS - 1)
    assert at.deliver(at.message(redrive=1)) == [True]
    assert at.priced() == 1


def test_a_claim_whose_answer_is_lost_and_that_is_repeated_finds_no_kill(at: Scene) -> None:
    asked: list[None] = []

    def lost(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        asked.append(None)
        return proceed() if len(asked) == 1 else answer

    with intercept(lost):
        assert at.deliver(at.message()) == [True]
    assert [event.facts.get("kills") for event in at.tally.events if event.type is EventType.CLAIMED] == [None]


def test_a_fifo_record_is_counted_at_the_attempt_of_its_item(at: Scene) -> None:
    message = at.message()
    arn = f"{record(message)['eventSourceARN']}.fifo"
    at.script.pricing = boom
    at.handler({"Records": [received(message, eventSourceARN=arn)]})
    at.clock.advance(seconds=20)
    kill(at, message, MOST_KILLS, eventSourceARN=arn)
    at.handler({"Records": [received(message, eventSourceARN=arn)]})
    item = at.item()
    assert item is not None
    assert (item.status, item.retry, len(at.script.handled)) == (Status.FAILED, 1, 1 + MOST_KILLS)


def unleased(script: Script) -> type[Flow]:
    class PriceOrder(Stage[Order, OrderState], name="price-order", inbox="price-order", lease=False):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            script.handled.append(("price-order", step.request_id, step.attempt))
            script.pricing(step)
            return Done()

    class Unleased(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = (PriceOrder,)

    return Unleased


def test_a_stage_without_a_lease_is_claimed_from_the_third_receive_on_so_that_its_kills_are_seen() -> None:
    with scene(unleased) as at:
        for receives in range(1, 3 + MOST_KILLS):
            kill(at, at.message(), receives=receives)
            assert (at.item() is None) is (receives < 3)
        at.handler({"Records": [received(at.message(), receives=3 + MOST_KILLS)]})
        assert (status(at), len(at.script.handled)) == (Status.FAILED, 2 + MOST_KILLS)


def test_who_has_lost_the_hop_notes_no_kills(at: Scene) -> None:
    store, claims = aws_store(Settings(), same_clients()), list[Claim]()

    def take(step: Step[OrderState]) -> None:
        found = at.item()
        assert found is not None
        claims.append(Claim(at.message(), found, None))
        raise Died

    at.script.pricing = take
    with pytest.raises(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=31)
    kill(at, at.message())
    before = at.item()
    assert before is not None
    [claim] = claims
    store.note_kills(claim._replace(item=claim.item._replace(kills=4)))
    assert at.item() == before
    assert before.kills == 1


def test_what_was_only_read_has_no_kills(at: Scene) -> None:
    kill(at, at.message())
    found = at.item()
    assert found is not None
    claim = Claim(at.message(), found._replace(owner=type(found.owner)("mine")), found)
    assert counted(claim).item.kills == 1
    assert counted(claim._replace(unwritten=claim)).item.kills == 0  # type: ignore[arg-type]  # any request

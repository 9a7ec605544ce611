"""A hop that finds no place stands in line, whatever becomes of its run, of the place and of its messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws import place_items
from flowguard.client import FlowClient
from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.places import GRACE, Waiter
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.wire.message import PLACE, Place
from flowguard.wire.turn import Turn
from flowguard.worker.look_times import LONGEST_LOOK, SHORTEST_LOOK, UNCALLED_LOOK
from tests.worker.crowd import HOUR, START, Crowd, Killed
from tests.worker.limited import Order, all_end, crowd_of, flow_of, key_of, occupy, places_of, vacate

ORDER: Final = Order(order_id="o0")
MINUTE: Final = 60_000
LONG: Final = 28 * MINUTE
"""A lease that is believed: it is shorter than any can be."""


def turns(crowd: Crowd) -> list[Turn | None]:
    """The turns of the messages in the queue."""
    places = [message.attributes[PLACE]["StringValue"] for message in crowd.waiting]
    return [Place.parse(place).turn for place in places]


def parked(crowd: Crowd, order: Order = ORDER, **changes: Any) -> Turn:
    """Let a run find no place. Its look is in the queue."""
    crowd.send(order, **changes)
    crowd.run(crowd.now_ms - START + 2_000)
    [turn] = [turn for turn in turns(crowd) if turn is not None and not turn.is_call]
    return turn


def looks_at(crowd: Crowd, object_id: str = "o0") -> int:
    """When the run that waits looks again, ms."""
    until: int = crowd.item(object_id).back_off.until
    return until


def calls_of(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls if call.service == "dynamodb"]


def test_a_hop_whose_key_has_a_place_takes_one_write_before_its_handler_and_one_after_its_commit() -> None:
    """The first hop of a key, in a day, makes its item as well."""
    with crowd_of(flow_of()) as crowd:
        for number, place in enumerate((["UpdateItem", "PutItem"], ["UpdateItem"])):
            with intercept(calls := Recorder()):
                crowd.send(Order(order_id=f"o{number}"))
                crowd.run()
            assert calls_of(calls) == ["UpdateItem", *place, "UpdateItem", "UpdateItem"]
        all_end(crowd, 2)


def test_a_flow_without_limits_makes_no_further_call() -> None:
    with crowd_of(flow_of(None)) as crowd, intercept(calls := Recorder()):
        crowd.start(ORDER)
        crowd.run()
        assert calls_of(calls) == ["UpdateItem", "UpdateItem"]


def test_who_finds_no_place_stands_in_line_without_an_attempt() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd)
        turn = parked(crowd)
        assert crowd.handled == []
        item = crowd.item("o0")
        assert (item.retry, item.done, item.lease_until <= crowd.now(), item.kills) == (0, False, True, -1)
        assert item.back_off.look == turn.look == item.epoch
        assert item.back_off.error.type == "Waiting"
        [waiter] = places_of(crowd).line.values()
        assert waiter == Waiter(turn.arrival, "o0", waiter.seen_at)
        assert turn.place == key_of().place
        assert crowd.told(EventType.IN_LINE) == 1
        assert crowd.told(EventType.RETRIED) == 0
        assert len(crowd.items("run#orders#o0", "turn#")) == 1


def test_its_look_comes_when_the_place_may_lapse_and_takes_it() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=60_000)
        parked(crowd)
        crowd.run()
        [(at, _, _)] = crowd.handled
        assert 60_000 <= at < 110_000
        all_end(crowd, 1)


def test_a_look_that_finds_no_place_looks_again_and_keeps_its_turn() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd)
        first = parked(crowd)
        crowd.run(2 * HOUR)
        assert crowd.handled
        assert crowd.told(EventType.IN_LINE) >= 1
        assert first.arrival - START < 2_000
        all_end(crowd, 1)


def test_who_gives_a_place_back_calls_the_first_in_line() -> None:
    with crowd_of(flow_of(), slots=2) as crowd:
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run()
        (_, first, _), (at, second, _) = crowd.handled
        assert (first, second, at < 1_000) == ("o0", "o1", True)
        assert crowd.told(EventType.CALLED) == 1
        assert crowd.items("run#orders#o1", "turn#") == []
        all_end(crowd, 2)


def mails_of(crowd: Crowd) -> list[str]:
    """The orders that the flow has sent mails about."""
    messages = crowd.aws._sqs._named("orders-mails").messages
    return sorted(json.loads(mail.body)["order"] for mail in messages.values())


def sends_a_mail(order: Order, step: Step, crowd: Crowd) -> None:
    crowd.pass_time(200)
    step.send("orders-mails", {"order": order.order_id})


def test_a_look_that_is_left_over_finds_the_hop_done_and_sends_nothing() -> None:
    """The call by which the hop was committed comes again until all is sent, and the item says that it was a call."""
    with crowd_of(flow_of(does=sends_a_mail), slots=2) as crowd:
        crowd.aws.create_queue("orders-mails")
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run()
        assert crowd.told(EventType.DONE) == 1
        assert len(crowd.handled) == 2
        assert mails_of(crowd) == ["o0", "o1"]
        assert [crowd.item(name).by_look for name in ("o0", "o1")] == [None, 0]
        all_end(crowd, 2)


@pytest.mark.parametrize("lease", [5_000, 60_000])
def test_a_call_whose_worker_died_after_the_commit_comes_again_and_sends(lease: int) -> None:
    """Its look may come before it, and leaves that to it."""

    def dies(call: ApiCall) -> None:
        if call.operation == "SendMessageBatch" and "mails" in str(call.params["QueueUrl"]):
            seen.append(1)
            if len(seen) == 2:
                raise Killed

    seen: list[int] = []
    with crowd_of(flow_of(does=sends_a_mail), slots=2, before=dies, lease=lease) as crowd:
        crowd.aws.create_queue("orders-mails")
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run()
        assert len(seen) == 3
        assert mails_of(crowd) == ["o0", "o1"]
        all_end(crowd, 2)


def test_a_first_message_that_takes_a_place_notes_no_look() -> None:
    """So whatever look is left of it sends what it finds unsent: nothing says that another does."""
    with crowd_of(flow_of(does=sends_a_mail)) as crowd:
        crowd.aws.create_queue("orders-mails")
        crowd.send(ORDER)
        crowd.run()
        crowd.send(ORDER, request_id="run-0", requested_at=START, turn=Turn(START, key_of().place, 7))
        crowd.run()
        assert crowd.item("o0").by_look is None
        assert mails_of(crowd) == ["o0", "o0"]


@pytest.mark.parametrize("fast", [0, 20_000])
def test_a_look_whose_worker_died_after_the_commit_sends_what_is_left(fast: int) -> None:
    """Its own message comes again, and no clock says that another has sent it."""

    def dies(call: ApiCall) -> None:
        if call.operation == "SendMessageBatch" and "mails" in str(call.params["QueueUrl"]):
            seen.append(1)
            if len(seen) == 1:
                raise Killed

    seen: list[int] = []
    with crowd_of(flow_of(does=sends_a_mail), before=dies) as crowd:
        crowd.aws.create_queue("orders-mails")
        occupy(crowd, lease=MINUTE)
        crowd.now_ms += fast
        parked(crowd)
        crowd.now_ms -= fast
        crowd.run()
        assert mails_of(crowd) == ["o0"]
        assert crowd.item("o0").by_look > 0
        all_end(crowd, 1)


def test_an_earlier_look_or_a_copy_of_one_ends_and_the_last_one_goes_on() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        turn = parked(crowd)
        crowd.send(ORDER, request_id="run-0", turn=turn._replace(look=turn.look - 1), requested_at=START)
        crowd.send(ORDER, request_id="run-0", turn=turn._replace(look=turn.look - 1), requested_at=START)
        crowd.run(crowd.now_ms - START + 2_000)
        assert crowd.told(EventType.IN_LINE) == 3
        [left] = turns(crowd)
        assert left == turn
        assert crowd.item("o0").back_off.look == turn.look
        crowd.run()
        all_end(crowd, 1)


def test_a_copy_of_the_first_message_takes_over_from_its_look() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        first = parked(crowd)
        crowd.send(ORDER, request_id="run-0", requested_at=START)
        crowd.run(crowd.now_ms - START + 2_000)
        assert len(turns(crowd)) == 2
        crowd.run(looks_at(crowd) - START + 20_000)
        [heir] = turns(crowd)
        assert heir is not None
        assert heir.look > first.look
        crowd.run()
        all_end(crowd, 1)


def test_a_look_that_is_lost_leaves_the_hop_to_an_earlier_one() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        turn = parked(crowd)
        crowd.sqs.purge_queue(QueueUrl=crowd.services.sender.queue_url("orders"))  # type: ignore[attr-defined]
        crowd.at(2 * HOUR - 1_000, lambda: occupy(crowd, lease=LONG))
        crowd.at(
            2 * HOUR, lambda: crowd.send(ORDER, request_id="run-0", turn=turn._replace(look=1), requested_at=START)
        )
        crowd.run(2 * HOUR + 2_000)
        assert len(turns(crowd)) == 1


def test_a_call_that_finds_no_place_stands_in_line_again_and_its_look_goes_on() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        turn = parked(crowd)
        crowd.send(ORDER, request_id="run-0", turn=Turn(turn.arrival, turn.place), requested_at=START)
        crowd.run(crowd.now_ms - START + 2_000)
        assert turns(crowd) == [turn]
        assert [waiter.arrival for waiter in places_of(crowd).line.values()] == [turn.arrival]


def test_who_is_called_and_gets_no_call_begins_with_its_look() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        parked(crowd)
        due = looks_at(crowd)
        vacate(crowd)
        assert [waiter.called_at for waiter in places_of(crowd).line.values()] == [crowd.now()]
        crowd.run()
        [(at, _, _)] = crowd.handled
        assert due <= at + START < due + 2_000
        all_end(crowd, 1)


def test_who_stands_in_line_is_passed_by_nobody() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=60_000)
        parked(crowd)
        vacate(crowd)
        crowd.send(Order(order_id="o1"))
        crowd.run(crowd.now_ms - START + 2_000)
        assert crowd.handled == []


def test_an_attempt_that_fails_gives_its_place_back_and_waits_anew() -> None:
    failed: list[str] = []

    def fails(order: Order, step: Step, crowd: Crowd) -> None:
        crowd.pass_time(200)
        if order.order_id == "o1" and not failed:
            failed.append(order.order_id)
            raise Retry(after=timedelta(minutes=10))

    with crowd_of(flow_of(does=fails), slots=2) as crowd:
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run(5 * MINUTE)
        assert [object_id for _, object_id, _ in crowd.handled] == ["o0", "o1"]
        assert (crowd.item("o1").retry, crowd.item("o1").back_off.has_failed) == (0, True)
        assert crowd.told(EventType.DUPLICATE) == 1, "its look is left over, and begins nothing while the attempt rests"
        assert places_of(crowd).is_empty
        crowd.run()
        assert [object_id for _, object_id, _ in crowd.handled] == ["o0", "o1", "o1"]
        all_end(crowd, 2)


@pytest.mark.parametrize("seconds", [1, 50, 120])
def test_a_retry_takes_over_a_place_that_its_failed_attempt_could_not_give_back(seconds: int) -> None:
    """Its lease would hold it for a quarter of an hour, though nobody is at work."""

    def fails(call: ApiCall) -> None:
        is_of_key = (call.params.get("Key") or {}).get("pk", {}).get("S", "").startswith("limit#")
        if is_of_key and begun(crowd) == 1 and not missed:
            missed.append(1)
            raise EndpointConnectionError(endpoint_url="https://dynamodb")

    missed: list[int] = []
    with crowd_of(flow_of(does=fails_once(timedelta(seconds=seconds))), slots=2, lease=900_000, before=fails) as crowd:
        crowd.start(Order(order_id="o1"))
        crowd.run(30 * MINUTE)
        assert missed
        begins = [at for at, _, _ in crowd.handled]
        assert len(begins) == 2
        assert begins[1] - begins[0] < (seconds + 30) * 1_000
        assert crowd.item("o1").status is Status.COMPLETED


def fails_once(after: timedelta) -> Callable[[Order, Step, Crowd], object]:
    """What the second order's first attempt does, which is tried again after so long."""
    failed: list[str] = []

    def does(order: Order, step: Step, crowd: Crowd) -> None:
        crowd.pass_time(200)
        if order.order_id == "o1" and not failed:
            failed.append(order.order_id)
            raise Retry(after=after)

    return does


def begun(crowd: Crowd, object_id: str = "o1") -> int:
    return [name for _, name, _ in crowd.handled].count(object_id)


@pytest.mark.parametrize("seconds", [20, 50, 600])
def test_a_look_that_comes_while_a_failed_attempt_rests_begins_nothing(seconds: int) -> None:
    """However short the rest is: the item says that the attempt has failed. So it says to a copy of the look."""
    with crowd_of(flow_of(does=fails_once(timedelta(seconds=seconds))), slots=2, lease=5_000) as crowd:
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run(2_000)
        item = crowd.item("o1")
        turn = Turn(START, key_of().place, item.epoch - 1)
        for at in (6_000, 12_000):
            crowd.start(Order(order_id="o1"), at, request_id=item.request_id, requested_at=item.requested_at, turn=turn)
        crowd.run(19_000)
        assert begun(crowd) == 1
        assert crowd.told(EventType.DUPLICATE) >= 2
        assert (crowd.item("o1").retry, crowd.item("o1").back_off.has_failed) == (0, True)
        crowd.run()
        assert begun(crowd) == 2
        all_end(crowd, 2)


def test_a_run_that_is_cancelled_while_its_attempt_rests_ends_with_its_look() -> None:
    with crowd_of(flow_of(does=fails_once(timedelta(minutes=14))), slots=2, lease=5_000) as crowd:
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run(2_000)
        crowd.services.store.cancellations.cancel("orders", ObjectId("o1"), crowd.now(), "not wanted", crowd.now())
        crowd.run(5 * MINUTE)
        assert crowd.item("o1").status is Status.FAILED
        assert begun(crowd) == 1


def test_a_look_begins_once_more_what_nobody_could_note() -> None:
    """A note that is not written costs an attempt, as any copy during a rest does. It loses nothing."""

    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if str(call.params.get("UpdateExpression", "")).startswith("SET back_off"):
            notes.append(1)
            raise ClientError({"Error": {"Code": "InternalServerError"}}, call.operation)
        return proceed()

    notes: list[int] = []
    flow = flow_of(does=fails_once(timedelta(minutes=10)))
    with crowd_of(flow, slots=2, lease=5_000) as crowd, intercept(refused):
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run(5 * MINUTE)
        assert notes
        assert begun(crowd) == 2
        crowd.run()
        all_end(crowd, 2)


def test_a_look_that_is_left_over_is_acknowledged_where_its_note_cannot_be_kept() -> None:
    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if str(call.params.get("UpdateExpression", "")).startswith("SET back_off"):
            notes.append(1)
            if len(notes) > 1:
                raise ClientError({"Error": {"Code": "InternalServerError"}}, call.operation)
        return proceed()

    notes: list[int] = []
    flow = flow_of(does=fails_once(timedelta(minutes=10)))
    with crowd_of(flow, slots=2, lease=5_000) as crowd, intercept(refused):
        crowd.start(ORDER)
        crowd.start(Order(order_id="o1"), 100)
        crowd.run(5 * MINUTE)
        assert len(notes) == 2
        assert (begun(crowd), crowd.told(EventType.BROKEN)) == (1, 0)
        crowd.run()
        all_end(crowd, 2)


def test_a_message_that_kills_its_functions_ends_its_run_although_it_waits_in_between() -> None:
    def kills(order: Order, step: Step, crowd: Crowd) -> None:
        if order.order_id == "o0":
            crowd.pass_time(60_000)

    with crowd_of(flow_of(does=kills), lease=5_000) as crowd:
        crowd.start(ORDER)
        for turn in range(1, 12):
            crowd.at(turn * 12_000, lambda: occupy(crowd, lease=3_000) if not places_of(crowd).held else None)
        crowd.run()
        assert crowd.item("o0").status is Status.FAILED
        assert "killed" in str(crowd.item("o0").error)
        assert len([1 for _, object_id, _ in crowd.handled if object_id == "o0"]) == 5


def test_looks_that_release_their_claims_count_nothing_and_note_nothing() -> None:
    with crowd_of(flow_of()) as crowd, intercept(calls := Recorder()):
        for number in range(6):
            crowd.at(number * 20 * MINUTE, lambda: occupy(crowd, lease=25 * MINUTE))
        crowd.start(ORDER, 100)
        crowd.run(100 * MINUTE)
        assert crowd.told(EventType.IN_LINE) > 8
        assert crowd.item("o0").kills == -1
        updates = [str(call.params["UpdateExpression"]) for call in calls.calls if call.operation == "UpdateItem"]
        assert [update for update in updates if update.startswith("SET kills")] == []


def test_a_hop_that_waits_is_not_killed_where_its_claims_cannot_be_released() -> None:
    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and "kills = :kills, back_off" in str(call.params["UpdateExpression"]):
            releases.append(1)
            raise ClientError({"Error": {"Code": "InternalServerError"}}, call.operation)
        return proceed()

    releases: list[int] = []
    with crowd_of(flow_of(), lease=5_000) as crowd, intercept(refused):
        occupy(crowd, lease=20 * MINUTE)
        crowd.start(ORDER)
        crowd.run()
        assert len(releases) > 5
        all_end(crowd, 1)


@pytest.mark.parametrize("on_conflict", [OnConflict.SUPERSEDE])
def test_a_waiter_that_is_superseded_leaves_the_line(on_conflict: OnConflict) -> None:
    with crowd_of(flow_of(on_conflict=on_conflict)) as crowd:
        occupy(crowd, lease=30_000)
        parked(crowd)
        crowd.send(ORDER, request_id="newer")
        crowd.run()
        assert [object_id for _, object_id, _ in crowd.handled] == ["o0"]
        assert crowd.item("o0").request_id == "newer"
        assert places_of(crowd).is_empty
        assert crowd.items("run#orders#o0", "turn#") == []


def test_a_waiter_that_is_called_although_it_was_superseded_lets_the_next_one_go() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        parked(crowd)
        crowd.send(Order(order_id="o1"))
        crowd.run(crowd.now_ms - START + 1_000)
        crowd.send(ORDER, request_id="newer")
        crowd.run(crowd.now_ms - START + 1_000)
        token = next(token for token, waiter in places_of(crowd).line.items() if waiter.object_id == "o0")
        text = crowd.services.store.places.text("orders", "o0", token)
        assert text is not None
        vacate(crowd)
        crowd.services.sender.send([Send.from_json(json.loads(text))])
        crowd.run(crowd.now_ms - START + 3_000)
        assert crowd.handled[0][1] == "o1"


def test_a_run_that_is_cancelled_while_it_waits_needs_no_place_to_end() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        parked(crowd)
        crowd.services.store.cancellations.cancel("orders", ObjectId("o0"), crowd.now(), "not wanted", crowd.now())
        crowd.run(20 * MINUTE)
        assert crowd.item("o0").status is Status.FAILED
        assert crowd.handled == []
        assert places_of(crowd).line == {}
        assert crowd.items("run#orders#o0", "turn#") == []


def test_a_run_that_is_reset_while_it_waits_goes_on() -> None:
    with crowd_of(flow_of(on_conflict=OnConflict.ATTACH)) as crowd:
        occupy(crowd, lease=MINUTE)
        parked(crowd)
        crowd.services.store.callers.reset("orders", ObjectId("o0"), "reset-1", crowd.now(), crowd.now())
        crowd.run()
        assert [object_id for _, object_id, _ in crowd.handled] == ["o0"]
        all_end(crowd, 1)


def test_a_run_that_is_reset_while_its_handler_works_begins_anew_when_that_has_ended() -> None:
    """Nobody stops the handler of a fenced worker: it holds its place until it gives that back."""
    at_work, most, begun = [0], [0], list[int]()

    def charges(order: Order, step: Step, crowd: Crowd) -> None:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        begun.append(crowd.now_ms - START)
        if len(begun) == 1:
            FlowClient.of(crowd.services).reset(crowd.flow, "o0")
            crowd.send(ORDER, request_id=step.request_id, requested_at=START)  # the copy that SQS delivers
        crowd.pass_time(5_000)
        at_work[0] -= 1

    with crowd_of(flow_of(does=charges, on_conflict=OnConflict.ATTACH), slots=2) as crowd:
        crowd.start(ORDER)
        crowd.run()
        first, second = begun
        assert most == [1], "handlers at work at once"
        assert first + 5_000 <= second <= first + 7_000, "it is called as soon as the place is given back"
        all_end(crowd, 1)


def test_a_deployment_that_removes_the_limit_serves_those_who_wait() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        parked(crowd)
        crowd.serve(flow_of(None))
        crowd.run(20 * MINUTE)
        assert crowd.item("o0").status is Status.COMPLETED
        assert crowd.waiting == []


@pytest.mark.parametrize(("at_once", "begun"), [(1, 0), (2, 1)])
def test_a_deployment_that_changes_the_places_counts_from_then_on(at_once: int, begun: int) -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=LONG)
        parked(crowd)
        crowd.serve(flow_of(PerKey("customer", at_once=at_once)))
        crowd.run(20 * MINUTE)
        assert len(crowd.handled) == begun


def test_the_item_of_a_key_that_has_expired_loses_turns_and_no_runs() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=10_000)
        parked(crowd)
        [row] = crowd.items("limit#")
        crowd.aws.client("dynamodb").delete_item(TableName="flowguard", Key={"pk": row["pk"], "sk": row["sk"]})
        crowd.run()
        all_end(crowd, 1)


def test_a_backlog_of_hours_begins_one_after_the_other() -> None:
    """Whoever is called comes hours later. Nobody is lost, and no place is taken twice."""
    with crowd_of(flow_of(), slots=4) as crowd:
        late = [0]

        def backlog(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation == "SendMessageBatch" and call.service == "sqs":
                late[0] += 1
                entries: Any = call.params["Entries"]
                for entry in entries:
                    entry["DelaySeconds"] = 900
            return proceed()

        with intercept(backlog):
            for number in range(6):
                crowd.start(Order(order_id=f"o{number}"))
            crowd.run(24 * HOUR)
        assert late[0]
        assert max(crowd.most.values()) == 1
        all_end(crowd, 6)


def test_a_redriven_letter_waits_like_any_other() -> None:
    def fails(order: Order, step: Step, crowd: Crowd) -> None:
        if step.redrive == 0:  # type: ignore[attr-defined]
            raise ValueError("no")

    with crowd_of(flow_of(does=lambda order, step, crowd: None)) as crowd:
        occupy(crowd, lease=MINUTE)
        turn = parked(crowd, redrive=1)
        assert turn.look
        crowd.run()
        all_end(crowd, 1)


@pytest.mark.parametrize("refused", ["customer", "gateway"])
def test_who_lacks_one_of_two_places_holds_neither_and_waits_for_that_one(refused: str) -> None:
    limits = (PerKey("customer", at_once=1), PerKey("gateway", at_once=1))
    with crowd_of(flow_of(limits)) as crowd:
        keys = {name: key_of(name=name) for name in ("customer", "gateway")}
        occupy(crowd, keys[refused], lease=LONG)
        turn = parked(crowd)
        assert turn.place == keys[refused].place
        [other] = set(keys) - {refused}
        assert places_of(crowd, keys[other]).is_empty
        assert len(places_of(crowd, keys[refused]).line) == 1


def test_who_waits_for_another_limit_now_leaves_the_line_of_the_first() -> None:
    limits = (PerKey("customer", at_once=1), PerKey("gateway", at_once=1))
    with crowd_of(flow_of(limits)) as crowd:
        customer, gateway = key_of(), key_of(name="gateway")
        occupy(crowd, customer, lease=MINUTE)
        parked(crowd)
        occupy(crowd, gateway, lease=LONG)
        vacate(crowd, customer)
        crowd.run(5 * MINUTE)
        assert places_of(crowd, customer).is_empty
        assert len(places_of(crowd, gateway).line) == 1
        crowd.run()
        all_end(crowd, 1)


def test_a_limit_by_a_function_may_leave_a_payload_unlimited() -> None:
    limit = PerKey(lambda order: order.note or None, at_once=1, name="note")
    with crowd_of(flow_of(limit)) as crowd, intercept(calls := Recorder()):
        crowd.start(ORDER)
        crowd.run()
        assert calls_of(calls) == ["UpdateItem", "UpdateItem"]


def test_a_key_that_cannot_be_read_fails_the_run() -> None:
    def raises(order: Order) -> str:
        raise KeyError(order.note)

    with crowd_of(flow_of(PerKey(raises, at_once=1, name="note"))) as crowd:
        crowd.start(ORDER)
        crowd.run()
        assert crowd.item("o0").status is Status.FAILED
        assert "the key of the limit note raised KeyError" in str(crowd.item("o0").error)
        assert crowd.handled == []


def test_a_key_that_is_asked_too_often_is_waited_for() -> None:
    with crowd_of(flow_of()) as crowd:

        def throttled(call: ApiCall, proceed: Proceed) -> Response:
            if "limit#" in str(call.params) and crowd.now_ms - START < 5_000:
                raise ClientError({"Error": {"Code": "ThrottlingException"}}, call.operation)
            return proceed()

        with intercept(throttled):
            crowd.start(ORDER)
            crowd.run()
        assert crowd.told(EventType.IN_LINE) == 1
        assert crowd.told(EventType.BROKEN) == 0
        all_end(crowd, 1)


def test_what_denies_the_places_is_reported_and_keeps_the_record() -> None:
    with crowd_of(flow_of()) as crowd:

        def denied(call: ApiCall, proceed: Proceed) -> Response:
            if "limit#" in str(call.params) and crowd.now_ms - START < 60_000:
                answer: Any = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
                raise ClientError(answer, call.operation)
            return proceed()

        with intercept(denied):
            crowd.start(ORDER)
            crowd.run()
        assert crowd.told(EventType.BROKEN) >= 1
        assert crowd.item("o0").retry == 0
        all_end(crowd, 1)


@pytest.mark.parametrize("left", [0, 30, 50, 60, 65])
def test_a_message_that_no_queue_takes_with_its_turn_waits_in_its_place(left: int) -> None:
    """It has room for so many bytes more: for its call, or for neither that nor its look."""
    message, to = flow_of().request(ORDER, request_id=RequestId("run-0"), requested_at=START)
    room = 1_048_576 - Send(Kind.SIDE, to, message.body, "id", message.attributes()).size - left
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=3 * MINUTE)
        crowd.send(ORDER.model_copy(update={"note": "x" * room}), request_id="run-0")
        crowd.run(2_000)
        assert turns(crowd) == [None]
        assert crowd.told(EventType.IN_LINE) == 1
        crowd.run()
        assert max(crowd.receives.values()) <= 4
        assert crowd.told(EventType.BROKEN) == 0
        all_end(crowd, 1)


def test_a_message_that_no_row_holds_looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_items, "LONGEST_TEXT", 10_000)
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=10 * MINUTE)
        note = crowd.draw.randbytes(20_000).hex()
        parked(crowd, Order(order_id="o0", note=note))
        assert looks_at(crowd) - crowd.now_ms <= UNCALLED_LOOK * 3 // 2 < GRACE
        assert crowd.items("run#orders#o0", "turn#") == []
        crowd.run()
        all_end(crowd, 1)


def test_what_a_run_before_has_left_is_sent_once_however_often_the_hop_looks() -> None:
    def sends(order: Order, step: Step, crowd: Crowd) -> None:
        step.send("orders-mails", {"order": order.order_id})

    def dies(call: ApiCall) -> None:
        if call.operation == "SendMessageBatch" and "mails" in str(call.params["QueueUrl"]) and not seen:
            seen.append(1)
            raise Killed

    seen: list[int] = []
    with crowd_of(flow_of(does=sends), before=dies) as crowd:
        crowd.aws.create_queue("orders-mails")
        crowd.start(ORDER)
        crowd.run(1_000)
        occupy(crowd, lease=LONG)
        crowd.send(ORDER, request_id="newer")
        crowd.run(50 * MINUTE)
        assert crowd.told(EventType.IN_LINE) >= 2
        assert crowd.told(EventType.FLUSHED) == 1


def test_looks_come_within_what_a_queue_delays() -> None:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=1_000)
        parked(crowd)
        assert looks_at(crowd) - crowd.now_ms >= SHORTEST_LOOK - 2_000
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=25 * MINUTE)
        parked(crowd)
        assert looks_at(crowd) - crowd.now_ms <= LONGEST_LOOK


def test_a_run_that_another_may_take_for_abandoned_looks_often_enough() -> None:
    flow = flow_of(on_conflict=OnConflict.IGNORE, abandoned_after=timedelta(minutes=6))
    with crowd_of(flow) as crowd:
        occupy(crowd, lease=25 * MINUTE)
        parked(crowd)
        assert looks_at(crowd) - crowd.now_ms <= 2 * MINUTE


@pytest.mark.parametrize(
    ("on_conflict", "longest"), [(OnConflict.IGNORE, 2 * MINUTE), (OnConflict.SUPERSEDE, 26 * MINUTE)]
)
def test_a_record_that_waits_in_its_place_is_seen_before_its_run_is_taken_for_abandoned(
    on_conflict: OnConflict, longest: int
) -> None:
    """It has no room for a turn, so it is left in its queue."""
    flow = flow_of(on_conflict=on_conflict, abandoned_after=timedelta(minutes=6))
    message, to = flow.request(ORDER, request_id=RequestId("run-0"), requested_at=START)
    room = 1_048_576 - Send(Kind.SIDE, to, message.body, "id", message.attributes()).size
    with crowd_of(flow) as crowd:
        occupy(crowd, lease=25 * MINUTE)
        crowd.send(ORDER.model_copy(update={"note": "x" * room}), request_id="run-0")
        crowd.run(2_000)
        assert turns(crowd) == [None]
        assert longest - MINUTE <= looks_at(crowd) - START <= longest + 2_000

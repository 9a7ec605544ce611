"""The weather as it is written, and what each layer of it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.clock import ManualClock
from flowguard.errors import SettingsError
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.calls import ApiCall, intercept
from flowguard.sim.event_source import EventSource
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.away import Away
from flowguard.sim.weather.forecast import KINDS, forecast, passing
from flowguard.sim.weather.hot_items import HotItems
from flowguard.sim.weather.layer import Invoked, Layer
from flowguard.sim.weather.loops import MOST_IN_CHAIN, Loops
from flowguard.sim.weather.pollers import LONGEST, Pollers
from flowguard.sim.weather.weather import Weather
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from tests.aws.engines import kept
from tests.sim.weather.shop import put_orders, world

MINUTE = 60_000


def delivery(queue: str = "orders", message_id: str = "m1", number: int = 1) -> Delivery:
    [envelope] = normalize(sqs_event(queue, {}, message_id=message_id))
    assert isinstance(envelope, Envelope)
    return EventSource().put(envelope, envelope.received, queue, START)


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with MemoryAWS(ManualClock(START)) as aws:
        aws.create_table("runs")
        yield aws.client("dynamodb")


# -- how it is written ------------------------------------------------------------------------------------------------


def only_layer(text: str) -> Layer:
    [layer] = forecast(text, ManualClock(START)).layers
    return layer


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("dynamodb-away", 0, 60 * MINUTE),
        ("sqs-away=25m", 0, 25 * MINUTE),
        ("ssm-away=3h@5m", 5 * MINUTE, 185 * MINUTE),
        ("dynamodb-away=90s@1d", 1440 * MINUTE, 1440 * MINUTE + 90_000),
    ],
)
def test_a_layer_has_a_name_a_span_and_a_beginning(text: str, begins: int, ends: int) -> None:
    layer = only_layer(text)
    assert isinstance(layer, Away)
    assert (layer.begins - START, layer.ends - START, layer.service) == (begins, ends, text.partition("-")[0])
    assert [*passing(text, START)] == [(text.partition("=")[0], layer.begins, layer.ends)]


def test_what_lasts_is_told_with_no_end() -> None:
    assert [*passing("loops, hot-items=3,late-copies=5m, pollers", START)] == []


@pytest.mark.parametrize("text", ["rain", "dynamodb-away=", "dynamodb-away=5", "away=5m@", "DYNAMODB-AWAY", "=5m"])
def test_what_is_no_weather_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is none; write NAME\[=SPAN\]\[@SPAN\].*dynamodb-away.*hot-items"):
        forecast(text, ManualClock(START))


@pytest.mark.parametrize("most", [0, 1, 2])
def test_writes_so_few_that_no_run_can_end_are_refused(most: int) -> None:
    with pytest.raises(SettingsError, match=f"hot-items={most} lets {most} writes a second pass; .*write 3 or more"):
        forecast(f"hot-items={most}", ManualClock(START))
    assert len(forecast("hot-items=3", ManualClock(START)).layers) == 1


def test_every_layer_can_be_named_at_once() -> None:
    assert len(forecast(", ".join(KINDS), ManualClock(START)).layers) == len(KINDS)
    assert forecast("", ManualClock(START)).layers == ()


# -- calls ------------------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "dynamodb": ("get_item", {"TableName": "runs", "Key": {"pk": {"S": "a"}, "sk": {"S": "a"}}}, "InternalServerError"),
    "sqs": ("get_queue_url", {"QueueName": "orders"}, "ServiceUnavailable"),
    "ssm": ("get_parameter", {"Name": "keys"}, "InternalServerError"),
}


def code_of(call: Any, params: dict[str, Any]) -> str | None:
    """The code that the service answers with. None where it has an answer."""
    try:
        call(**params)
    except ClientError as error:
        return error.response["Error"]["Code"]
    except NotInMemory:
        return None
    return None


@pytest.mark.parametrize(
    "engine", [MemoryAWS, pytest.param(EmbeddedAWS, marks=pytest.mark.long("once more on moto, which is slow"))]
)
@pytest.mark.parametrize("service", CALLS)
def test_a_service_that_is_away_answers_none_of_a_functions_calls(service: str, engine: Any) -> None:
    clock = ManualClock(START)
    operation, params, code = CALLS[service]
    with engine(clock) if engine is MemoryAWS else engine() as aws:
        weather, client = forecast(f"{service}-away=5m@5m", clock), aws.client(service)
        with intercept(weather):
            for minutes, is_away in ((0, False), (4, False), (1, True), (4, True), (1, False)):
                clock.advance(seconds=60 * minutes)
                with weather.over(delivery()):
                    assert (code_of(getattr(client, operation), params) == code) is is_away
        assert weather.refused == 2


def test_calls_of_the_simulator_itself_are_answered(dynamodb: Any) -> None:
    weather = forecast("dynamodb-away", ManualClock(START))
    with intercept(weather):
        dynamodb.get_item(**CALLS["dynamodb"][1])
        with weather.over(delivery()), pytest.raises(dynamodb.exceptions.InternalServerError):
            dynamodb.get_item(**CALLS["dynamodb"][1])


def test_permissions_are_denied_until_they_are_known(dynamodb: Any) -> None:
    clock = ManualClock(START)
    weather = forecast("new-permissions=30s", clock)
    with intercept(weather), weather.over(delivery()):
        with pytest.raises(Exception, match=r"AccessDeniedException.*no identity-based policy allows"):
            dynamodb.get_item(**CALLS["dynamodb"][1])
        clock.advance(seconds=30)
        dynamodb.get_item(**CALLS["dynamodb"][1])


def test_an_item_takes_so_many_writes_a_second_and_another_one_as_many(dynamodb: Any) -> None:
    clock = ManualClock(START)
    weather = Weather([HotItems(3)], clock)

    def write(name: str) -> None:
        dynamodb.update_item(TableName="runs", Key={"pk": {"S": name}, "sk": {"S": "a"}})

    def transact(name: str) -> None:
        key = {"pk": {"S": name}, "sk": {"S": "a"}}
        update = {"TableName": "runs", "Key": key, "UpdateExpression": "SET n = :n"}
        update["ExpressionAttributeValues"] = {":n": {"N": "1"}}
        dynamodb.transact_write_items(TransactItems=[{"Update": update}])

    with intercept(weather), weather.over(delivery()):
        for _ in range(2):
            write("a")
        transact("a")
        for more in (write, transact):
            with pytest.raises(Exception, match="ThrottlingException"):
                more("a")
        write("b")
        dynamodb.get_item(**CALLS["dynamodb"][1])
        clock.advance(seconds=1)
        write("a")


# -- deliveries -------------------------------------------------------------------------------------------------------


def test_while_sqs_is_away_nothing_is_polled() -> None:
    layer = only_layer("sqs-away=5m@5m")
    assert [layer.polled_from(START + minutes * MINUTE) - START for minutes in (4, 5, 9, 10)] == [
        4 * MINUTE,
        10 * MINUTE,
        10 * MINUTE,
        10 * MINUTE,
    ]
    assert only_layer("dynamodb-away").polled_from(START) == START


def test_a_throttled_function_has_received_its_records() -> None:
    with world("throttled=2m") as opened:
        put_orders(opened, 1)
        rows = list(opened.run())
    throttled = [row for row in rows if row.verdict is None and not row.acked]
    assert [(row.receive, row.at - START) for row in throttled] == [(1, 0), (2, 30_000), (3, 60_000), (4, 90_000)]
    assert rows[len(throttled)].receive == 5


def test_a_message_is_delivered_once_more_after_it_was_deleted() -> None:
    with world("late-copies=1h") as opened:
        put_orders(opened, 1)
        rows = list(opened.run())
    seen = [row.at for row in rows if row.record == "m0"]
    assert len(seen) == 2
    assert 0 < seen[1] - seen[0] < 60 * MINUTE
    assert [row.verdict for row in rows if row.record == "m0"] == ["CLAIMED", "DONE"]


def test_pollers_come_back_step_by_step() -> None:
    pollers = Pollers()
    for pause in (1_000, 2_000, 4_000):
        pollers.backs_off(START)
        assert pollers.polled_from(START) - START == pause
    for _ in range(9):
        pollers.backs_off(START)
    assert pollers.polled_from(START) - START == LONGEST
    assert pollers.polled_from(START + LONGEST + 5) == START + LONGEST + 5
    assert pollers.invoked(delivery(), "orders", START) is Invoked.YES
    pollers.backs_off(START)
    assert pollers.polled_from(START) - START == LONGEST


# -- loops ------------------------------------------------------------------------------------------------------------


class Again(Stage[dict[str, Any]], name="again", then="again"):
    def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
        return Again.message(payload) if step.hop < 40 else Done()


class Long(Flow, name="long", object_id="id", max_hops=50):
    stages = (Again,)


def hops(weather: str | Weather) -> int:
    """How many hops of a long run of one function there are."""
    with VirtualTime(START) as clock, MemoryAWS(clock) as aws, kept():
        opened = World([Long], aws=aws, clock=clock, weather=weather if isinstance(weather, str) else "")
        if isinstance(weather, Weather):
            opened.weather = weather
        with opened:
            [envelope] = normalize(sqs_event("long", {"id": "o1"}, sent_at=START))
            assert isinstance(envelope, Envelope)
            opened.put(envelope, envelope.received)
            return len([row for row in opened.run() if row.verdict == "CLAIMED"])


def test_the_seventeenth_invocation_of_a_chain_is_stopped_unless_loops_are_allowed() -> None:
    assert hops("") == 40
    assert hops("loops") == MOST_IN_CHAIN == 16
    assert hops(Weather([Loops(frozenset({"long"}))], ManualClock(START))) == 40
    assert hops(Weather([Loops(frozenset({"other"}))], ManualClock(START))) == 16
    assert hops(Weather([Loops(None)], ManualClock(START))) == 40


def test_a_record_whose_function_is_stopped_is_received_until_its_queue_gives_it_up() -> None:
    with (
        VirtualTime(START) as clock,
        MemoryAWS(clock) as aws,
        kept(),
        World([Long], aws=aws, clock=clock, weather="loops", most_receives=5) as opened,
    ):
        [envelope] = normalize(sqs_event("long", {"id": "o1"}, sent_at=START))
        assert isinstance(envelope, Envelope)
        opened.put(envelope, envelope.received)
        rows = [row for _, row in zip(range(60), opened.run(), strict=False)]
    assert [row.receive for row in rows[MOST_IN_CHAIN:][:5]] == [1, 2, 3, 4, 5]
    assert rows[MOST_IN_CHAIN + 4].to_dlq


def test_what_nobody_sent_begins_a_chain_of_its_own() -> None:
    loops = Loops()
    for number in range(MOST_IN_CHAIN + 5):
        assert loops.invoked(delivery(message_id=f"m{number}"), "orders", START) is Invoked.YES
    loops.called(ApiCall("sqs", "SendMessage", {}, 1, None), {"MessageId": "next"}, None)  # type: ignore[arg-type]
    assert loops.invoked(delivery(message_id="next"), "orders", START) is Invoked.YES

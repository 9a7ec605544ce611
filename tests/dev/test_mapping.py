"""What a mapping makes of a message: an invocation, a line of the live view, and a deletion once it is acknowledged."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.dev.delivery import Listener
from flowguard.dev.functions import Order, outside_environment, settings_of, with_room
from flowguard.dev.mapping import LocalContext, QueueMapping, as_line
from flowguard.errors import NotProcessed, Reject, Retry
from flowguard.handler import lambda_handler
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION, SIMULATED_KEYS, SIMULATED_ROLE
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.weather.forecast import forecast
from flowguard.sim.weather.layer import Invoked
from flowguard.sim.weather.loops import MOST_IN_CHAIN, Loops
from flowguard.sim.weather.weather import Weather
from flowguard.step import Step
from tests.cli.test_hostile_text import HOSTILE
from tests.scene import OrderState, Scene, scene

QUEUE = "price-order"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


class Served:
    """A mapping of a scene's queue, and what it said."""

    def __init__(self, at: Scene, handler: Callable[[Any, Any], Any] | None = None) -> None:
        self.at = at
        self.said: list[dict[str, Any]] = []
        listener = Listener()
        own = lambda_handler(at.flow).using(aws_services(Settings(), clock=at.clock, observer=listener))
        self.mapping = QueueMapping(
            function="place",
            queue=QUEUE,
            region=REGION,
            account=ACCOUNT_ID,
            handler=handler or own,
            listener=listener,
            clients=Clients(),
            timeout=30,
            memory=256,
            say=self.said.append,
        )

    def send(self, body: str = '{"order_id":"o1"}') -> Served:
        sqs = self.at.aws.client("sqs")
        sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"], MessageBody=body)
        return self

    def poll(self) -> dict[str, Any]:
        self.mapping.poll()
        return self.said[-1]

    def left(self) -> int:
        """How many messages are still there, in hand or not."""
        sqs = self.at.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))


def test_a_delivery_is_told_and_its_message_deleted(at: Scene) -> None:
    served = Served(at).send()
    said = served.poll()
    assert {name: said[name] for name in ("flow", "stage", "object_id", "hop", "attempt", "verdict", "outcome")} == {
        "flow": "orders",
        "stage": "price-order",
        "object_id": "o1",
        "hop": 1,
        "attempt": 1,
        "verdict": "CLAIMED",
        "outcome": "committed",
    }
    assert (said["event"], said["acked"], said["receive"], said["raised"]) == ("delivery", True, 1, None)
    assert "sqs:close-order" in said["sent"]
    assert served.left() == 0


def test_an_empty_queue_says_nothing(at: Scene) -> None:
    served = Served(at)
    served.mapping.poll()
    assert served.said == []


def break_down(step: Step[OrderState]) -> None:
    raise RuntimeError(HOSTILE)


def test_a_handlers_exception_is_told_with_its_traceback(at: Scene) -> None:
    served = Served(at).send()
    at.script.pricing = break_down
    said = served.poll()
    assert (said["outcome"], said["why"]) == ("retried", f"RuntimeError: {HOSTILE}")
    assert "in break_down" in said["raised"]
    assert "flowguard/worker" not in said["raised"], "it begins with the user's own code"
    json.loads(as_line(said))
    served.send('{"order_id":"o2"}')
    at.script.pricing = lambda step: None
    said = served.poll()
    assert (said["why"], said["raised"]) == (None, None), "each delivery has its own"


@pytest.mark.parametrize(("meant", "outcome"), [(Reject("declined"), "failed"), (Retry("busy"), "retried")])
def test_what_a_handler_means_has_no_traceback(at: Scene, meant: Exception, outcome: str) -> None:
    def raises(step: Step[OrderState]) -> None:
        raise meant

    served = Served(at).send()
    at.script.pricing = raises
    said = served.poll()
    assert (said["outcome"], said["why"], said["raised"]) == (outcome, f"{type(meant).__name__}: {meant}", None)


def test_a_record_that_is_not_acknowledged_stays(at: Scene) -> None:
    served = Served(at, lambda event, context: {"batchItemFailures": [{"itemIdentifier": "it"}]}).send()
    assert served.poll()["acked"] is False
    assert served.left() == 1


@pytest.mark.parametrize("error", [NotProcessed({"m": "why"}), RuntimeError(HOSTILE), KeyError("x")])
def test_a_function_that_raises_leaves_its_record(at: Scene, error: Exception) -> None:
    def fails(event: Any, context: Any) -> Any:
        raise error

    served = Served(at, fails).send()
    said = served.poll()
    assert (said["acked"], said["verdict"]) == (False, None)
    assert said["why"]
    json.loads(as_line(said))
    assert served.left() == 1


def test_the_event_and_the_context_are_lambdas_own(at: Scene) -> None:
    got: list[tuple[Any, Any]] = []
    Served(at, lambda event, context: got.append((event, context))).send("text").poll()
    [(event, context)] = got
    [record] = event["Records"]
    assert (record["body"], record["eventSource"], record["awsRegion"]) == ("text", "aws:sqs", REGION)
    assert record["eventSourceARN"] == f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{QUEUE}"
    assert isinstance(context, LocalContext)
    assert 0 < context.get_remaining_time_in_millis() <= 30_000
    assert context.invoked_function_arn.endswith(":function:place")


class StopsSoon(threading.Event):
    """An event that is set once somebody has waited for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        self.set()
        return True


def test_what_aws_refuses_is_told_and_polled_again(at: Scene) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "Odd", "Message": HOSTILE}}, call.operation)

    served, stop = Served(at), StopsSoon()
    with intercept(deny):
        served.mapping.run(stop)
    [said] = served.said
    assert (said["event"], said["queue"]) == ("problem", QUEUE)


# -- settings


def test_keys_that_aws_keeps_are_those_of_simulations() -> None:
    from flowguard.deploy.derive import needs_of
    from flowguard.deploy.found import find_functions
    from flowguard.deploy.options import DeployOptions
    from tests.deploy.everything import OPTIONS

    needs = needs_of(find_functions(["tests.deploy.everything"]), DeployOptions.model_validate(OPTIONS))
    need = needs.function("everything-pack")
    found = settings_of(need, {"PATH": "x"})
    assert (found.bucket, found.prefix, found.scheduler_role) == ("long-texts", "here/", SIMULATED_ROLE)
    assert found.signing_keys is not None
    assert found.token_keys is not None
    assert found.signing_keys.get_secret_value() == found.token_keys.get_secret_value() == SIMULATED_KEYS
    told = {"FLOWGUARD_SIGNING_KEYS": SIMULATED_KEYS, "FLOWGUARD_TOKEN_KEYS": SIMULATED_KEYS}
    assert outside_environment(needs, {}) == told
    assert outside_environment(needs, {"FLOWGUARD_TABLE": "mine"}) == {"FLOWGUARD_TABLE": "mine", **told}
    own = {"FLOWGUARD_TOKEN_KEYS": "mine:0123456789abcdef0123456789abcdef"}
    assert "FLOWGUARD_TOKEN_KEYS" not in outside_environment(needs, own)
    mine = settings_of(need, {"FLOWGUARD_TOKEN_KEYS": "mine:0123456789abcdef0123456789abcdef", "FLOWGUARD_BUCKET": "b"})
    assert mine.token_keys is not None
    assert (mine.token_keys.get_secret_value()[:5], mine.bucket) == ("mine:", "b")


def test_the_lanes_of_an_inbox_need_no_bound_here() -> None:
    from flowguard.deploy.derive import needs_of
    from flowguard.deploy.found import find_functions
    from flowguard.deploy.options import DeployOptions

    needs = needs_of(find_functions(["tests.deploy.laned"]), with_room(DeployOptions()))
    assert needs.function("orders-take").reads == ("orders", "orders-answers", "orders-urgent")
    given = DeployOptions.model_validate({"defaults": {"max_concurrency": 7}})
    assert with_room(given) is given


def test_an_order_survives_its_way_to_the_process() -> None:
    order = Order(("shop.handlers", HOSTILE), None, ACCOUNT_ID, REGION)
    assert Order.of_text(order.as_text()) == order


# -- a bad day --------------------------------------------------------------------------------------------------------


def under(served: Served, weather: str) -> Weather:
    """Let the mapping have this weather, by the scene's clock."""
    day = forecast(weather, served.at.clock)
    served.mapping = replace(served.mapping, weather=day)
    return day


def test_a_record_that_meets_an_outage_stays_in_its_queue(at: Scene) -> None:
    served = Served(at).send()
    with intercept(under(served, "dynamodb-away=5m")) as day:
        said = served.poll()
        assert (said["acked"], said["outcome"], served.left()) == (False, "broken", 1)
        refused = day.refused
        at.clock.advance(seconds=300)
        said = served.send('{"order_id":"o2"}').poll()
    assert (said["acked"], said["outcome"], served.left()) == (True, "committed", 1)
    assert day.refused == refused > 0


def test_a_throttled_function_is_not_invoked(at: Scene) -> None:
    called: list[Any] = []
    served = Served(at, lambda event, context: called.append(event)).send()
    under(served, "throttled=5m")
    said = served.poll()
    assert (said["acked"], called, served.left()) == (False, [], 1)
    assert said["why"] == "by the weather it is not invoked, and the record was received all the same"


def test_what_loop_detection_stops_stays_in_its_queue(at: Scene) -> None:
    served = Served(at, lambda event, context: {}).send()
    day = under(served, "loops")
    loops = day.layers[0]
    assert isinstance(loops, Loops)
    sqs = at.aws.client("sqs")
    with intercept(day):
        url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
        served.mapping = replace(
            served.mapping, handler=lambda event, context: sqs.send_message(QueueUrl=url, MessageBody="{}")
        )
        for _ in range(MOST_IN_CHAIN):
            assert served.poll()["why"] is None
        said = served.poll()
    assert (said["acked"], said["why"]) == (False, said["why"])
    assert "not invoked in this chain any more, and the record was received all the same" in said["why"]
    assert served.left() == 1


def test_while_sqs_is_away_nothing_is_received(at: Scene) -> None:
    stop = StopsSoon()
    served = Served(at, lambda event, context: stop.set()).send()
    under(served, "sqs-away=5m")
    served.mapping.run(stop)
    assert (served.said, stop.waits, served.left()) == ([], 1, 1)


def test_a_record_that_was_deleted_comes_once_more_later(at: Scene) -> None:
    served = Served(at).send()
    under(served, "late-copies=10m")
    assert (served.poll()["outcome"], served.left()) == ("committed", 0)
    served.poll()
    assert len(served.said) == 1, "not yet"
    at.clock.advance(seconds=600)
    assert served.poll()["outcome"] != "committed"
    at.clock.advance(seconds=600)
    served.poll()
    assert len(served.said) == 2, "once"
    assert served.said[0]["record"] == served.said[1]["record"]


def test_a_record_that_cannot_be_read_has_no_copy(at: Scene) -> None:
    record = {"messageId": "m1", "body": 7, "attributes": {}, "eventSource": "aws:sqs"}
    assert forecast("late-copies", at.clock).copies_of(record, QUEUE) == ()


def test_a_record_that_cannot_be_read_has_no_weather(at: Scene) -> None:
    day = forecast("throttled=5m", at.clock)
    record = {"messageId": "m1", "body": 7, "attributes": {}, "eventSource": "aws:sqs"}
    with day.received(record, "place", QUEUE) as how:
        assert how is Invoked.YES

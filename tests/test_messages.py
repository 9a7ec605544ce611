"""Mistakes as users write them, and the errors that they get.

Each error names the thing, says what was and was not done, and has the fix.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, FlowClient, Outcome, Settings, Stage, Step, lambda_handler
from flowguard.aws.services import aws_services
from flowguard.destinations import Topic
from flowguard.errors import DefinitionError, FlowguardError, RunFailed, SettingsError
from flowguard.events import EventType, Tally
from flowguard.sim.in_process import AWSInProcess
from flowguard.testing import EmbeddedAWS, FlowClock, FlowResult, FlowRunner, MemoryAWS, invocation, sqs_event

SHOP = """
import functools
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID
from pydantic import BaseModel
from flowguard import *
from flowguard.wire.attributes import Attribute

class Colour(Enum):
    RED = "red"

class Order(BaseModel):
    order_id: str

class OrderState(BaseModel):
    pieces: int = 0
"""


def written(source: str) -> dict[str, Any]:
    """What is defined after a shop's module with this source was imported."""
    found: dict[str, Any] = {"__name__": "shop"}
    exec(SHOP + source, found)  # noqa: S102 - the source is this module's own
    return found


TABLES = {"stock": "sku", "orders": "order_id"}


class Mistake(NamedTuple):
    wrote: str
    holds: tuple[str, ...]


def stage(options: str = "", body: str = "", handle: str = "def handle(self, order, step): return Done()") -> str:
    lines = f"class PriceOrder(Stage[Order], name='price-order'{options}):\n"
    return lines + "".join(f"    {line}\n" for line in (body, handle) if line)


DEFINITIONS = {
    "a timeout in seconds": Mistake(
        stage(", timeout=30"), ("stage PriceOrder", "timeout is 30", "write timedelta(seconds=30)")
    ),
    "a timeout in seconds, in the body": Mistake(
        stage(body="timeout = 2.5"), ("timeout is 2.5", "write timedelta(seconds=2.5)")
    ),
    "a timeout that is a text": Mistake(stage(", timeout='30s'"), ("timeout is '30s'", "write timedelta(seconds=…)")),
    "a number of retries": Mistake(
        stage(", retry=3"), ("stage PriceOrder", "retry is 3", "write retry=RetryPolicy(attempts=3)")
    ),
    "retries off": Mistake(stage(", retry=False"), ("retry is False", "write retry=RetryPolicy(attempts=…)")),
    "a policy's delays in seconds": Mistake(
        stage(", retry=RetryPolicy(max_delay=60, give_up_after=3600)"),
        (
            "retry.max_delay is 60, which has no unit; write timedelta(seconds=60)",
            "retry.give_up_after is 3600, which has no unit; write timedelta(seconds=3600)",
        ),
    ),
    "a policy without a longest delay": Mistake(
        stage(", retry=RetryPolicy(max_delay=None)"), ("retry.max_delay is None",)
    ),
    "a backoff in seconds": Mistake(
        stage(", retry=RetryPolicy(backoff=5)"), ("retry.backoff is 5", "write Fixed(…), Linear(…) or Exponential(…)")
    ),
    "attempts as a text": Mistake(stage(", retry=RetryPolicy(attempts='3')"), ("retry.attempts is '3'", "attempts=5")),
    "a jitter in percent": Mistake(stage(", retry=RetryPolicy(jitter='20%')"), ("retry.jitter is '20%'", "jitter=0.2")),
    "attempts for an error": Mistake(
        stage(", retry=RetryPolicy(for_errors={KeyError: 3})"),
        ("for KeyError, retry is 3", "write retry=RetryPolicy(attempts=3)"),
    ),
    "a policy for the name of an error": Mistake(
        stage(", retry=RetryPolicy(for_errors={'KeyError': RetryPolicy()})"), ("retry.for_errors has 'KeyError'",)
    ),
    "policies in a list": Mistake(stage(", retry=RetryPolicy(for_errors=[KeyError])"), ("retry.for_errors is [",)),
    "a handler that yields": Mistake(
        stage(handle="def handle(self, order, step): yield Done()"), ("its handle yields", "return its outcome")
    ),
    "an async handler that yields": Mistake(
        stage(handle="async def handle(self, order, step): yield Done()"), ("its handle yields", "return its outcome")
    ),
    "a handler without a step": Mistake(
        stage(handle="def handle(self, order): return Done()"),
        ("stage PriceOrder", "cannot be called with a payload and a step", "write def handle(self, payload, step)"),
    ),
    "a handler with one thing more": Mistake(
        stage(handle="def handle(self, order, step, context): return Done()"), ("cannot be called with a payload",)
    ),
    "a handler without self": Mistake(
        stage(handle="def handle(order, step): return Done()"), ("cannot be called with a payload and a step",)
    ),
    "a handler that is none": Mistake(stage(handle="handle = 3"), ("its handle is 3, which cannot be called",)),
    "a retention in days": Mistake(
        stage() + "class Shop(Flow, name='shop', object_id='order_id', retention=14): stages = (PriceOrder,)",
        ("flow Shop", "retention is 14", "write timedelta(seconds=14)"),
    ),
    "a time of abandonment in hours": Mistake(
        stage()
        + "class Shop(Flow, name='shop', object_id='order_id', abandoned_after=24, long_delays=True,\n"
        + "           on_conflict=IGNORE): stages = (PriceOrder,)",
        ("flow Shop", "abandoned_after is 24", "write timedelta(seconds=24)"),
    ),
}


@pytest.mark.parametrize("mistake", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_wrong_definition_is_refused_when_its_class_is_defined(mistake: Mistake) -> None:
    with pytest.raises(DefinitionError) as caught:
        written(mistake.wrote)
    for words in mistake.holds:
        assert words in str(caught.value)


HANDLERS = {
    "a method": "def handle(self, order, step): return Done()",
    "a static one": "@staticmethod\n    def handle(order, step): return Done()",
    "one of the class": "@classmethod\n    def handle(cls, order, step): return Done()",
    "with defaults": "def handle(self, order, step, rate=3, *rest, **more): return Done()",
    "of any arguments": "def handle(self, *given): return Done()",
    "a wrapped one with other parameters": (
        "def with_rate(function):\n"
        "        return functools.wraps(function)(lambda self, order, step: function(self, order, step, 3))\n"
        "    @with_rate\n"
        "    def handle(self, order, step, rate): return Done()"
    ),
}


@pytest.mark.parametrize("handle", HANDLERS.values(), ids=HANDLERS)
def test_any_handler_that_takes_a_payload_and_a_step_is_good(handle: str) -> None:
    assert written(stage(handle=handle))["PriceOrder"].name == "price-order"


ENDINGS = {
    "a retry after seconds": Mistake("Retry(after=60)", ("after is 60", "write timedelta(seconds=60)")),
    "a retry with seconds alone": Mistake("Retry(60)", ("Retry(60)", "write Retry(after=timedelta(…))")),
    "a retry with a time alone": Mistake("Retry(timedelta(minutes=1))", ("write Retry(after=timedelta(…))",)),
}


@pytest.mark.parametrize("mistake", ENDINGS.values(), ids=ENDINGS)
def test_a_wrong_ending_is_refused_where_it_is_made(mistake: Mistake) -> None:
    with pytest.raises(TypeError) as caught:
        written(mistake.wrote)
    for words in mistake.holds:
        assert words in str(caught.value)


@pytest.mark.parametrize("ending", ["Retry", "Reject"])
def test_the_error_that_was_caught_is_a_reason(ending: str) -> None:
    made: FlowguardError = written(f"ending = {ending}(KeyError('sku'))")["ending"]
    assert str(made) == "KeyError: 'sku'"


# -- what a handler asks for


def handled(lines: str, state: str = "") -> FlowResult:
    """What comes of one order, where the handler of the shop's only stage has these lines."""
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    shop = written(
        f"class PriceOrder(Stage[Order{state}], name='price-order', retry=RetryPolicy(attempts=1)):\n"
        f"    def handle(self, order, step):\n{body}"
        "        return Done()\n"
        "class Shop(Flow, name='shop', object_id='order_id'):\n"
        "    stages = (PriceOrder,)\n"
    )
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        for table, key in TABLES.items():
            runner.table(table, key)
        runner.send(shop["Shop"], shop["Order"](order_id="o1"))
        return runner.run()


NO_TOPIC = "Topic('shipments') has a form that AWS does not know"
NO_QUEUE = "has a form that AWS does not know; a queue has a name of up to 80"

HANDLED = {
    "a topic by its name": Mistake(
        "step.send(Topic('shipments'), {})", (NO_TOPIC, "Topic('arn:aws:sns:<region>:<account>:<name>')")
    ),
    "a topic by a queue's ARN": Mistake(
        "step.send(Topic('arn:aws:sqs:eu-west-1:123456789012:shipments'), {})", ("a topic is given by its ARN",)
    ),
    "a queue with a space": Mistake("step.send('my emails', {})", (f"Queue('my emails') {NO_QUEUE}",)),
    "a queue that ends with a newline": Mistake(r"step.send('emails\n', {})", (NO_QUEUE,)),
    "a queue with no name": Mistake("step.send('', {})", (f"Queue('') {NO_QUEUE}",)),
    "a queue with a very long name": Mistake("step.send('q' * 81, {})", (NO_QUEUE,)),
    "a function with a slash": Mistake(
        "step.send(Function('fn/pay'), {})", ("Function('fn/pay')", "has a name or an ARN")
    ),
    "a bus with a space": Mistake("step.send(Bus('my bus', 's', 't'), {})", ("Bus('my bus')", "has a name or an ARN")),
    "a bus with no source": Mistake("step.send(Bus('default', '', 't'), {})", ("needs a source and a detail_type",)),
    "a destination that is none": Mistake("step.send(None, {})", ("None is no destination", "write a queue's name")),
    "a delay of one and a half": Mistake(
        "step.send('emails', {}, delay=1.5)", ("a message to sqs:emails has a delay of 1.5", "delay=2")
    ),
    "a delay as a time": Mistake("step.send('emails', {}, delay=timedelta(minutes=1))", ("delay=60",)),
    "a delay as a text": Mistake("step.send('emails', {}, delay='30')", ("has a delay of '30'", "write whole seconds")),
    "a delay that is endless": Mistake("step.send('emails', {}, delay=float('inf'))", ("has a delay of inf",)),
    "an attribute that is a number": Mistake(
        "step.send('emails', {}, attributes={'tenant': 7})",
        ("the attribute 'tenant' is a number", "write text, Attribute.number(…)"),
    ),
    "an attribute that is nothing": Mistake(
        "step.send('emails', {}, attributes={'tenant': None})", ("the attribute 'tenant' is null",)
    ),
    "attributes in a list": Mistake("step.send('emails', {}, attributes=['tenant'])", ("attributes is an array",)),
    "an empty attribute": Mistake("step.send('emails', {}, attributes={'tenant': ''})", ("'tenant' without a value",)),
    "a start with a reply to no queue": Mistake(
        "step.start(Shop, order, reply_to='my inbox')", ("reply_to: Queue('my inbox')",)
    ),
    "a time in an item": Mistake(
        "step.put('stock', {'sku': 'tea', 'seen': {'at': [datetime.now(UTC)]}})",
        ("WriteInvalid", "'stock'", "'seen.at.0' is a datetime", "write its .isoformat()"),
    ),
    "a day in a key": Mistake("step.delete('stock', {'sku': date(2026, 1, 1)})", ("'sku' is a date", ".isoformat()")),
    "no number in an item": Mistake(
        "step.put('stock', {'sku': 'tea', 'price': float('nan')})",
        ("'price' is a float that DynamoDB cannot hold: infinite, no number", "write None"),
    ),
    "no number in a change": Mistake(
        "step.update('stock', {'sku': 'tea'}, 'SET price = :p', values={':p': float('nan')})", ("':p' is a float",)
    ),
    "a member of an enum in an item": Mistake(
        "step.put('stock', {'sku': 'tea', 'colour': Colour.RED})", ("'colour' is a Colour", "write its .value")
    ),
    "a model in an item": Mistake(
        "step.put('stock', {'sku': 'tea', 'order': order})",
        ("'order' is an Order", "write its .model_dump(mode='json')"),
    ),
    "an item that is a text": Mistake(
        "step.put('stock', 'tea')", ("step.put('stock', …) takes a dict or a pydantic model, and got str",)
    ),
    "a key that is a text": Mistake(
        "step.update('stock', 'tea', 'ADD n :n')", ("step.update('stock', key, …) takes a dict", "nothing was written")
    ),
    "a key to delete that is a text": Mistake(
        "step.delete('stock', 'tea')", ("step.delete('stock', key) takes a dict",)
    ),
    "a put and an update of one item": Mistake(
        "step.put('stock', {'sku': 'tea', 'n': 1})\nstep.update('stock', {'sku': 'tea'}, 'ADD n :n', values={':n': 1})",
        ("put and update of {'sku': 'tea'} in the table 'stock'", "two writes to one item", "record one with both"),
    ),
    "an update and a put of one item": Mistake(
        "step.update('stock', {'sku': 'tea'}, 'ADD n :n', values={':n': 1})\nstep.put('stock', {'sku': 'tea', 'n': 1})",
        ("update and put of {'sku': 'tea'} in the table 'stock'",),
    ),
    "two updates of one item": Mistake(
        "for n in (1, 2): step.update('stock', {'sku': 'tea'}, 'ADD n :n', values={':n': n})",
        ("update and update of {'sku': 'tea'} in the table 'stock'",),
    ),
    "a delete and a put of one item": Mistake(
        "step.delete('stock', {'sku': 'tea'})\nstep.put('stock', {'sku': 'tea'})", ("delete and put of {'sku': 'tea'}",)
    ),
    "two puts of one item": Mistake(
        "for n in (1, 2): step.put('stock', {'sku': 'tea', 'n': n})",
        ("two of its writes to the table 'stock' are to one item, {'sku': 'tea'}; record one with both",),
    ),
    "two puts of one item with more that is equal": Mistake(
        "for n in (1, 2): step.put('stock', {'sku': 'tea', 'place': 'shelf', 'n': n, 'cold': True})",
        ("two of its writes to the table 'stock' are to one item, whose key is among 'place', 'sku'; record one",),
    ),
    "two puts of one item among others": Mistake(
        "for sku in ('tea', 'cup', 'tea'): step.put('stock', {'sku': sku, 'place': 'shelf'})",
        ("two of its writes to the table 'stock' are to one item, whose key is among 'place', 'sku'; record one",),
    ),
    "a write to the item of its own run": Mistake(
        "step.put('flowguard', {'pk': 'run#shop#o1', 'sk': 'run'})",
        ("a write to the table 'flowguard' is to the item of this very run; leave run items to flowguard",),
    ),
    "a table that is not there": Mistake(
        "step.put('stok', {'sku': 'tea'})", ("the table 'stok' does not exist", "create it", "Nothing was written")
    ),
    "one of three tables that is not there": Mistake(
        "for table in ('stock', 'stok', 'orders'): step.put(table, {'sku': 'tea', 'order_id': 'o1'})",
        ("one of the tables 'stock', 'stok', 'orders' does not exist",),
    ),
    "a state in a flow without one": Mistake(
        "step.state = {'pieces': 3}", ("'price-order' left dict in step.state", "write Stage[Payload, YourState]")
    ),
}


@pytest.mark.parametrize("mistake", HANDLED.values(), ids=HANDLED)
def test_what_a_handler_asks_for_wrongly_is_refused_by_name_and_nothing_is_done(mistake: Mistake) -> None:
    result = handled(mistake.wrote)
    [run] = result.runs()
    assert run.status == "FAILED"
    for words in mistake.holds:
        assert words in str(run.error)
    assert len(str(run.error)) < 500
    assert {one.to for one in result.messages} - {"shop"} == {"shop-dead-letters"}, "it may go back to its own queue"
    assert not result.table("stock")
    assert not result.table("orders")
    assert str(run.error).partition(" (attempt")[0] in str(result)


@pytest.mark.parametrize("left", ["{'pieces': 3}", "None", "Order(order_id='o1')", "OrderState"])
def test_a_state_of_another_type_is_refused_at_the_commit(left: str) -> None:
    [run] = handled(f"step.state = {left}", state=", OrderState").runs()
    assert run.status == "FAILED"
    assert "in step.state, which is OrderState; assign OrderState(…). Nothing was written" in str(run.error)
    assert run.state is None


def test_a_state_of_a_type_derived_from_the_flows_is_one() -> None:
    lines = "class More(OrderState): pass\nstep.state = More(pieces=3)"
    [run] = handled(lines, state=", OrderState").runs()
    assert (run.status, run.state) == ("COMPLETED", {"pieces": 3})


TAKEN = {
    "a text as an attribute": "step.send('emails', {}, attributes={'tenant': 't1'})",
    "an attribute": "step.send('emails', {}, attributes={'tenant': Attribute.string('t1')})",
}


@pytest.mark.parametrize("wrote", TAKEN.values(), ids=TAKEN)
def test_a_text_is_taken_for_an_attribute(wrote: str) -> None:
    [email] = handled(wrote).sent("emails")
    assert email.attributes["tenant"] == ("String", "t1")


# -- where it runs


class Parcel(BaseModel):
    parcel_id: str


class SendParcel(Stage[Parcel], name="send-parcel"):
    def handle(self, parcel: Parcel, step: Step) -> Outcome:
        step.send("emails", {"sent": parcel.parcel_id})
        return Done()


class Parcels(Flow, name="parcels", object_id="parcel_id"):
    stages = (SendParcel,)


def test_a_missing_table_of_the_runs_is_named_with_its_setting() -> None:
    tally = Tally()
    with FlowClock() as clock, MemoryAWS(clock) as aws:
        inbox, emails = aws.create_queue("parcels"), aws.create_queue("emails")
        services = aws_services(Settings(table="parcel-runs"), observer=tally)
        FlowClient(services.sender).start(Parcels, Parcel(parcel_id="p1"))
        sqs = aws.client("sqs")
        event = sqs.receive_message(QueueUrl=inbox, MessageAttributeNames=["All"], AttributeNames=["All"])
        answer = lambda_handler(Parcels).using(services)(event)
        assert "Messages" not in sqs.receive_message(QueueUrl=emails)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Messages"][0]["MessageId"]}]}
    [broken] = [event for event in tally.events if event.type is EventType.BROKEN]
    assert broken.facts["why"] == (
        "SettingsError: FLOWGUARD_TABLE: there is no table 'parcel-runs' in us-east-1; create it with the text keys "
        "'pk' and 'sk', or name the right one. Nothing was written, and the message stays queued"
    )


def test_a_missing_region_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "nowhere")
    with pytest.raises(SettingsError) as caught:
        FlowClient.from_environment().start(Parcels, Parcel(parcel_id="p1"))
    assert str(caught.value) == (
        "AWS_DEFAULT_REGION: no AWS region is set, so sqs was not asked; set it, or hand in Clients(a session with "
        "one). Nothing was written or sent"
    )


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"to": "my inbox"}, "to: Queue('my inbox') has a form that AWS does not know"),
        ({"reply_to": Topic("told")}, "reply_to: Topic('told') has a form that AWS does not know"),
        ({"attributes": {"tenant": 7}}, "the attribute 'tenant' is a number; write text, Attribute.number(…)"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_started(about: dict[str, Any], words: str) -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws:
        inbox = aws.create_queue("parcels")
        client = FlowClient(aws_services(Settings()).sender)
        with pytest.raises(RunFailed, match=re.escape(words)):
            client.start(Parcels, Parcel(parcel_id="p1"), **about)
        assert "Messages" not in aws.client("sqs").receive_message(QueueUrl=inbox)
        client.start(Parcels, Parcel(parcel_id="p1"), attributes={"tenant": "t1"})
        [sent] = aws.client("sqs").receive_message(QueueUrl=inbox, MessageAttributeNames=["All"])["Messages"]
    assert sent["MessageAttributes"]["tenant"] == {"DataType": "String", "StringValue": "t1"}


WRONG_PLACES = {
    "a flow's inbox": Mistake("inbox='my inbox'", ("inbox: Queue('my inbox')",)),
    "a flow's dead letters": Mistake("dead_letters='my grave'", ("dead_letters: Queue('my grave')",)),
    "whom a flow tells": Mistake("complete_to=Topic('told')", ("complete_to: Topic('told')", "Topic('arn:aws:sns:")),
    "whom a flow may reply to": Mistake(
        "reply_to=('good', Topic('told'), 'b a d')", ("reply_to: Topic('told')", "reply_to: Queue('b a d')")
    ),
}


@pytest.mark.parametrize("mistake", WRONG_PLACES.values(), ids=WRONG_PLACES)
def test_a_destination_of_no_known_form_is_refused_when_its_flow_is_defined(mistake: Mistake) -> None:
    flow = f"class Shop(Flow, name='shop', object_id='order_id', {mistake.wrote}): stages = (PriceOrder,)"
    with pytest.raises(DefinitionError) as caught:
        written(stage() + flow)
    assert len(caught.value.problems) == len(mistake.holds) - ("arn" in "".join(mistake.holds))
    for words in mistake.holds:
        assert words in str(caught.value)


def test_a_stages_inbox_of_no_known_form_is_refused_when_it_is_defined() -> None:
    with pytest.raises(DefinitionError, match=r"its inbox: Queue\('my inbox'\) has a form that AWS does not know"):
        written(stage(", inbox='my inbox'"))


READ = "boto3.resource('dynamodb').Table('prices').get_item(Key={'sku': 'tea'})"
WRITE = "boto3.resource('dynamodb').Table('prices').put_item(Item={'sku': 'tea', 'price': 4})"


def test_a_write_of_a_resource_to_a_table_that_is_not_there_says_so() -> None:
    [run] = handled(f"import boto3\n{WRITE}").runs()
    assert "ResourceNotFoundException" in str(run.error)


@pytest.mark.parametrize("engine", [MemoryAWS, EmbeddedAWS])
def test_a_resource_reads_and_writes_the_tables_of_a_test(engine: type[AWSInProcess]) -> None:
    shop = written(
        "import boto3\n"
        "class PriceOrder(Stage[Order], name='price-order'):\n"
        "    def handle(self, order, step):\n"
        f"        {READ}\n"
        f"        {WRITE}\n"
        f"        return Done(int({READ}['Item']['price']))\n"
        "class Shop(Flow, name='shop', object_id='order_id'):\n"
        "    stages = (PriceOrder,)\n"
    )
    with FlowClock() as clock:
        opened = MemoryAWS(clock) if engine is MemoryAWS else EmbeddedAWS()
        with opened as aws, FlowRunner(aws, clock) as runner:
            runner.send(shop["Shop"], shop["Order"](order_id="o1"))
            result = runner.run()
    assert (result.run("o1").result, result.item("prices", sku="tea")) == (4, {"sku": "tea", "price": 4})
    assert "put prices" in str(result)


class Weighed(BaseModel):
    parcel_id: str
    grams: int


class WeighParcel(Stage[Weighed], name="weigh-parcel"):
    def handle(self, weighed: Weighed, step: Step) -> Outcome:
        return Done()


class Weighing(Flow, name="weighing", object_id="parcel_id"):
    stages = (WeighParcel,)


def test_the_letter_of_an_invalid_payload_says_which_object_it_seems_to_be_about(flow_runner: FlowRunner) -> None:
    event = sqs_event("weighing", {"parcel_id": "p7", "grams": "heavy"})
    result = flow_runner.serve(Weighing).deliver(event).run()
    [letter] = result.dead_letters
    place = json.loads(letter.attributes["flowguard"].value)
    assert place["seems"] == "p7"
    assert place["error"][1] == (
        "the payload of weigh-parcel is no Weighed: grams: "
        "Input should be a valid integer, unable to parse string as an integer"
    )
    assert not result.runs()


class StoreParcel(Stage[Parcel], name="store-parcel"):
    def handle(self, parcel: Parcel, step: Step) -> Outcome:
        boto3.client("dynamodb").put_item(TableName="nowhere", Item={"parcel_id": {"S": parcel.parcel_id}})
        return Done()


class Storing(Flow, name="storing", object_id="parcel_id"):
    stages = (StoreParcel,)


def test_a_message_that_is_given_up_goes_back_where_its_stage_has_attempts_left(flow_runner: FlowRunner) -> None:
    result = flow_runner.serve(Storing).deliver(invocation({"parcel_id": "p1"})).run()
    [run] = result.runs()
    assert "ResourceNotFoundException: " in str(run.error)
    assert "(attempt 5 of 5)" in str(run.error)
    shown = str(result)
    assert shown.count("ResourceNotFoundException: ") >= 5
    assert "moved to the dead-letter queue of SQS after 3 receives" in shown
    assert ", by dlq_handler: " in shown

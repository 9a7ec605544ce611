"""What a flow costs: units as DynamoDB itself counts them, requests as they are made, prices of one dated table."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from flowguard.aws.clients import Clients
from flowguard.cli import main
from flowguard.deploy.flow_cost import LAMBDAS_LINES, MONTH, FlowCost, IdleMonth, Invocations, StageCost
from flowguard.deploy.meter import Meter
from flowguard.deploy.prices import Prices, Unit
from flowguard.events import Event, EventType, logged_bytes
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.text import lambda_log
from tests.aws.engines import on_dynamodb_local

SAMPLES = "samples/orders"
FLOWS = ("--flow", "flows.orders.flow:PlaceOrder", "--flow", "flows.orders.flow:ReceiveGoods")


class Consumed:
    """Adds up what DynamoDB says that each call consumed: of a read the reads, of all else the writes."""

    def __init__(self) -> None:
        self.units = 0.0

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        cast("dict[str, Any]", call.params)["ReturnConsumedCapacity"] = "TOTAL"
        answer = proceed()
        consumed = answer["ConsumedCapacity"]
        self.units += sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        return answer


def item(key: str, size: int) -> Any:
    """An item of so many bytes: the names, the key, and a text."""
    return {"id": {"S": key}, "t": {"S": "x" * (size - len("id") - len(key) - len("t"))}}


SIZES = (100, 1_024, 1_025, 4_096, 4_097)
WORK: dict[str, Callable[[Any, int], object]] = {
    "put": lambda db, size: db.put_item(TableName="carts", Item=item("new", size)),
    "put of a smaller one": lambda db, size: db.put_item(TableName="carts", Item=item(f"old-{size}", 60)),
    "delete": lambda db, size: db.delete_item(TableName="carts", Key={"id": {"S": f"old-{size}"}}),
    "delete of none": lambda db, size: db.delete_item(TableName="carts", Key={"id": {"S": "none"}}),
    "update": lambda db, size: db.update_item(
        TableName="carts",
        Key={"id": {"S": f"old-{size}"}},
        UpdateExpression="SET t = :t",
        ExpressionAttributeValues={":t": {"S": "y"}},
    ),
    "transaction": lambda db, size: db.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": "carts", "Item": item("new", size)}},
            {"Delete": {"TableName": "carts", "Key": {"id": {"S": f"old-{size}"}}}},
        ]
    ),
    "batch": lambda db, size: db.batch_write_item(
        RequestItems={
            "carts": [
                {"PutRequest": {"Item": item("new", size)}},
                {"DeleteRequest": {"Key": {"id": {"S": f"old-{size}"}}}},
            ]
        }
    ),
    "get": lambda db, size: db.get_item(TableName="carts", Key={"id": {"S": f"old-{size}"}}),
    "consistent get": lambda db, size: db.get_item(
        TableName="carts", Key={"id": {"S": f"old-{size}"}}, ConsistentRead=True, ProjectionExpression="id"
    ),
    "get of none": lambda db, size: db.get_item(TableName="carts", Key={"id": {"S": "none"}}),
    "query": lambda db, size: db.query(
        TableName="carts",
        KeyConditionExpression="id = :id",
        ExpressionAttributeValues={":id": {"S": f"old-{size}"}},
        ConsistentRead=True,
    ),
    "batch of gets": lambda db, size: db.batch_get_item(
        RequestItems={"carts": {"Keys": [{"id": {"S": f"old-{size}"}}]}}
    ),
    "transaction of gets": lambda db, size: db.transact_get_items(
        TransactItems=[{"Get": {"TableName": "carts", "Key": {"id": {"S": f"old-{size}"}}}}]
    ),
}


READS = {name for name in WORK if "get" in name or name == "query"}


def filled(clients: Clients, size: int) -> Any:
    """DynamoDB, whose table has one item, of that size."""
    clients.dynamodb.delete_item(TableName="carts", Key={"id": {"S": "new"}})
    clients.dynamodb.put_item(TableName="carts", Item=item(f"old-{size}", size))
    return clients.dynamodb


@pytest.mark.slow("counts units on DynamoDB Local")
@pytest.mark.parametrize("work", WORK)
def test_units_are_those_that_dynamodb_local_counts(work: str, dynamodb_local_url: str) -> None:
    clients = on_dynamodb_local(dynamodb_local_url)
    for size in SIZES:
        dynamodb = filled(clients, size)
        with intercept(Consumed()) as consumed:
            WORK[work](dynamodb, size)
        filled(clients, size)
        with intercept(Meter()) as meter:
            WORK[work](dynamodb, size)
        kind, other = (Unit.READS, Unit.WRITES) if work in READS else (Unit.WRITES, Unit.READS)
        used = meter.take()
        assert (used[kind], used[other]) == (consumed.units, 0), size


@pytest.mark.parametrize("size", SIZES)
def test_a_statement_is_counted_as_the_write_that_it_is(size: int, dynamodb_local_url: str) -> None:
    """DynamoDB Local says nothing of what statements consume."""
    clients = on_dynamodb_local(dynamodb_local_url)
    insert = "INSERT INTO \"carts\" VALUE {'id': ?, 't': ?}"
    update = 'UPDATE "carts" SET "t" = ? WHERE "id" = ? AND ("t" IS NOT MISSING)'
    statements: Any = [
        {"Statement": insert, "Parameters": list(item("new", size).values())},
        {"Statement": update, "Parameters": [{"S": "y"}, {"S": f"old-{size}"}]},
    ]
    dynamodb = filled(clients, size)
    with intercept(Consumed()) as consumed:
        WORK["put"](dynamodb, size)
        WORK["update"](dynamodb, size)
    filled(clients, size)
    with intercept(Meter()) as meter:
        answer = dynamodb.batch_execute_statement(Statements=statements)
    assert not [one for one in answer["Responses"] if "Error" in one]
    assert meter.take()[Unit.WRITES] == consumed.units


def test_a_write_whose_condition_does_not_hold_is_counted(dynamodb_local_url: str) -> None:
    dynamodb = filled(on_dynamodb_local(dynamodb_local_url), 1_025)
    none = {"ConditionExpression": "attribute_not_exists(id)"}
    with intercept(Meter()) as meter:
        with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.put_item(TableName="carts", Item=item("old-1025", 60), **none)
        assert meter.take()[Unit.WRITES] == 2, "of the item that is there"
        put = {"TableName": "carts", "Item": item("old-1025", 60), **none}
        with pytest.raises(dynamodb.exceptions.TransactionCanceledException):
            dynamodb.transact_write_items(TransactItems=[{"Put": put}])
        assert meter.take()[Unit.WRITES] == 4
        with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
            dynamodb.delete_item(TableName="nowhere", Key={"id": {"S": "1"}})
        assert meter.take()[Unit.WRITES] == 0


def test_a_call_that_sends_is_a_request_for_each_64_kb() -> None:
    with MemoryAWS() as aws:
        sqs, events, s3 = aws.client("sqs"), aws.client("events"), aws.client("s3")
        queue = sqs.create_queue(QueueName="parcels")["QueueUrl"]
        s3.create_bucket(Bucket="texts", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        with intercept(Meter()) as meter:
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 65_536)
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 65_537)
            entries: Any = [{"Id": str(number), "MessageBody": "x" * 30_000} for number in range(3)]
            sqs.send_message_batch(QueueUrl=queue, Entries=entries)
            sqs.receive_message(QueueUrl=queue)
            event: Any = {"Source": "shop", "DetailType": "sold", "Detail": "{}"}
            events.put_events(Entries=[event, event])
            s3.put_object(Bucket="texts", Key="a", Body=b"a")
            s3.get_object(Bucket="texts", Key="a")
    assert meter.take() == {Unit.SQS: 1 + 2 + 2, Unit.EVENTS: 2, Unit.S3_WRITES: 1, Unit.S3_READS: 1}


# -- the price


def test_a_price_is_the_sum_of_its_units() -> None:
    assumed = Invocations(batch=4, milliseconds=1_000, memory=512, cold=0)
    lambda_ = {Unit.INVOCATIONS: 0.25, Unit.GB_SECONDS: 0.125, Unit.LOGS: LAMBDAS_LINES / 4e6}
    assert assumed.of_delivery(polled=False) == lambda_
    assert assumed.of_delivery(polled=True) == {**lambda_, Unit.SQS: 0.5}
    stage = StageCost("shop", "sell", 2, {Unit.WRITES: 4, Unit.SQS: 1})
    prices = Prices(dynamodb_writes=10, sqs_requests=2)
    assert stage.dollars(prices) == pytest.approx(42 / 1_000_000)
    assert FlowCost(2, (stage, stage)).per_million(prices) == pytest.approx(42)
    assert FlowCost(2, (stage,)).per_month(prices, rate=1) == pytest.approx(21 / 1_000_000 * MONTH)


def test_a_cold_start_is_charged_like_its_invocation() -> None:
    warm, cold = Invocations(cold=0), Invocations(cold=0.5, init_milliseconds=200)
    used = [one.of_delivery(polled=True) for one in (warm, cold)]
    assert used[1][Unit.GB_SECONDS] == pytest.approx(2 * used[0][Unit.GB_SECONDS])
    assert used[1][Unit.INVOCATIONS] == used[0][Unit.INVOCATIONS]


def test_what_stands_there_has_its_price_while_nothing_comes() -> None:
    idle = IdleMonth(queues=2, alarms=3)
    assert idle.used == {Unit.SQS: 2 * 5 * 30 * 24 * 180, Unit.ALARMS: 3}
    assert idle.dollars(Prices()) == pytest.approx(0.30 + 2 * 0.648 * 0.40)


def test_the_log_has_the_lines_of_the_events_from_info_on(capsys: pytest.CaptureFixture[str]) -> None:
    for type_, shown in ((EventType.DONE, True), (EventType.CLAIMED, False)):
        event = Event(type_, None, {"why": "ä" * 10})
        lambda_log.write(logging.INFO, type_.value, event.fields())
        assert logged_bytes(event) == (len(capsys.readouterr().out.encode()) if shown else 0)


def cost(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["cost", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_flow_is_priced_by_its_stages() -> None:
    found = json.loads(cost("samples/take_payment", "--flow", "flows.take_payment.flow:TakePayment", "--json").stdout)
    assert found["runs"] == 1
    stages = {one["stage"]: one for one in found["stages"]}
    assert [*stages] == ["charge-card", "book-payment"]
    assert found["dollars_a_million"] == pytest.approx(1e6 * sum(one["dollars"] for one in found["stages"]))
    assert all(one["used"]["lambda_invocations"] == one["deliveries"] for one in stages.values())


def test_writes_and_requests_are_those_of_the_calls_that_are_made() -> None:
    """A claim and a commit, which writes the reservation and the stock, for each of two stages of a fresh run."""
    with intercept(Recorder()) as recorder:
        shown = cost(
            "samples/validate_cart/01-request.json", "--flow", "flows.validate_cart.flow:ValidateCart", "--json"
        )
    found = json.loads(shown.stdout)
    used = {unit: sum(one["used"].get(unit, 0) for one in found["stages"]) for unit in ("sqs_requests",)}
    sent = sum(one.operation in ("SendMessage", "SendMessageBatch") for one in recorder.calls)
    deliveries = sum(one["deliveries"] for one in found["stages"])
    assert used["sqs_requests"] == sent + 2 * deliveries
    actions = sum(
        2 * len(one.params["TransactItems"]) if one.operation == "TransactWriteItems" else 1
        for one in recorder.calls
        if one.operation in ("TransactWriteItems", "UpdateItem", "PutItem")
    )
    writes = sum(one["used"]["dynamodb_writes"] for one in found["stages"])
    assert writes == actions, "all items are below a KB"


def test_what_no_stage_had_has_a_row_that_says_what_it_is() -> None:
    samples = [f"samples/approval/{name}.json" for name in ("01-request", "03-approved")]
    flows = ["flows.approval.flow:ApproveExpense", "flows.approval.flow:RemindApprover"]
    shown = cost(*samples, *(part for flow in flows for part in ("--flow", flow))).stdout
    assert "\n(answers, deadlines and other messages) " in shown


def test_it_is_shown_with_what_is_assumed_and_the_date_of_the_prices() -> None:
    shown = cost(SAMPLES, *FLOWS, "--flow", "flows.orders.flow:AddToOrder", "--rate", "10", "--batch", "10").stdout
    lines = shown.splitlines()
    assert lines[0].split() == ["stage", "a", "run", "writes", "reads", "SQS", "other", "$", "a", "million", "runs"]
    assert any(line.startswith("place-order/take-order") for line in lines)
    assert lines[-4].startswith("3 runs measured; a million of them: $")
    assert lines[-3].startswith("10 a second for 30 days: $")
    assert lines[-2:] == [
        "assumed: 100 ms of 256 MB an invocation, 1% of them begin with 500 ms more, batches of 10",
        "prices: us-east-1, 2025-07, on demand",
    ]


def test_what_is_deployed_has_the_queues_and_alarms_of_its_template() -> None:
    arguments = ("samples/take_payment", "--flow", "flows.take_payment.flow:TakePayment", "--json")
    measured = json.loads(cost(*arguments, "--deployed", "flows.take_payment.handlers").stdout)
    template = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers"]).stdout
    assert measured["idle_month"]["alarms"] == template.count("AWS::CloudWatch::Alarm")
    assert measured["idle_month"]["queues"] == template.count("AWS::Lambda::EventSourceMapping")
    assert "idle_month" not in json.loads(cost(*arguments).stdout)


def test_prices_of_another_region_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    free = "\n".join(f"{unit.value} = 0" for unit in Unit if unit is not Unit.INVOCATIONS)
    file.write_text(f'region = "eu-west-1"\nas_of = "2026-01"\nlambda_invocations = 1\n{free}\n')
    shown = cost(SAMPLES, *FLOWS, "--flow", "flows.orders.flow:AddToOrder", "--prices", str(file), "--json")
    found = json.loads(shown.stdout)
    deliveries = sum(one["deliveries"] for one in found["stages"])
    assert found["dollars_a_million"] == pytest.approx(deliveries / found["runs"])
    assert (found["prices"]["region"], found["prices"]["as_of"]) == ("eu-west-1", "2026-01")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sqs_requests = 1\n", "it does not say region and as_of"),
        ('region = "a"\nas_of = "b"\nsqs_requests = -1\n', "sqs_requests: Input should be greater than or equal to 0"),
        ('region = "a"\nas_of = "b"\nsqs_requests = nan\n', "sqs_requests: Input should be a finite number"),
        ('region = "a"\nas_of = "b"\nsqs = 1\n', "sqs: Extra inputs are not permitted"),
        ("[", "cannot be read"),
    ],
)
def test_prices_that_are_wrong_are_refused(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    shown = cost(SAMPLES, *FLOWS, "--prices", str(file))
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.json", *FLOWS), "nowhere.json"),
        ((SAMPLES, "--flow", "flows.orders.flow:Nothing"), "has no 'Nothing'"),
        (
            ("samples/envelopes/direct-sqs.json", *FLOWS),
            "none of these records is of a run of flows.orders.flow:PlaceOrder",
        ),
        ((SAMPLES, *FLOWS, "--rate", "nan"), "is no number"),
        ((SAMPLES, *FLOWS, "--rate", "inf"), "is no number"),
        ((SAMPLES, *FLOWS, "--rate", "-1"), "-1"),
        ((SAMPLES, *FLOWS, "--cold", "nan"), "is no number"),
        ((SAMPLES, *FLOWS, "--init", "nan"), "is no number"),
        ((SAMPLES, *FLOWS, "--duration", "nan"), "is no number"),
        ((SAMPLES, *FLOWS, "--options", "deploy.toml"), "it is for --deployed"),
        ((SAMPLES, *FLOWS, "--deployed", "flows.nowhere"), "flows.nowhere"),
        ((SAMPLES,), "--flow"),
    ],
)
def test_what_cannot_be_priced_is_exit_code_2(arguments: tuple[str, ...], told: str) -> None:
    shown = cost(*arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in shown.stderr

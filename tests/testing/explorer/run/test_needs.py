"""What a handler needs and there is not is named as that, and can be given."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing import bus_event, sns_event, sqs_event
from flowguard.testing.explorer import PlainFunction, Report, Violation, explore, replay
from tests.testing.explorer.handlers import TABLES
from tests.testing.explorer.needy import (
    append,
    asks,
    asks_and_swallows,
    aws,
    exits,
    posts,
    put,
    reads_no_bucket,
    sends,
    store,
    uses_a_reserved_word,
    uses_no_index,
    writes_to_no_table,
)

ORDER = {"order_id": "o1", "amount": 5}


def explored(handler: Any, **about: Any) -> Report:
    return explore(PlainFunction("orders", handler), [ORDER], **{"bound": 0, "walks": 0, "tables": TABLES, **about})


def finding(handler: Any, **about: Any) -> Violation:
    (violation,) = explored(handler, **about).violations
    assert (violation.rule, violation.schedule) == ("undisturbed", "none")
    return violation


# -- the engine --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [asks, asks_and_swallows])
def test_what_the_engine_lacks_is_no_error_of_the_handlers(handler: Any) -> None:
    violation = finding(handler)
    assert violation.problems[0].text.startswith("calls ssm GetParameter: moto, in which nothing is there, answers")
    assert 'stubs={"ssm.GetParameter": …}' in violation.fix
    assert violation.site is not None
    assert violation.site.function == "asks"


@pytest.mark.parametrize(
    "answer",
    [
        {"Parameter": {"Value": "tea"}},
        lambda params: {"Parameter": {"Value": {"/shop/by": "tea"}[params["Name"]]}},
    ],
)
def test_an_answer_can_be_given(answer: Any) -> None:
    seen: set[str] = set()
    report = explored(
        asks,
        stubs={"ssm.GetParameter": answer},
        invariants=[lambda view: seen.update(item["text"] for item in view.table("orders"))],
    )
    assert report.ok, str(report)
    assert seen == {"tea"}
    assert any("GetParameter" in call for call in report.coverage), "it meets the faults too"


def test_a_function_that_is_called_answers_as_the_user_says() -> None:
    def handler(event: Any, context: Any) -> None:
        answer = aws("lambda").invoke(FunctionName="price", Payload=json.dumps({"sku": "tea"}))
        put(text=str(json.load(answer["Payload"])["price"]))

    texts: set[str] = set()
    explored(
        handler,
        stubs={"lambda.Invoke": {"Payload": {"price": 4}}},
        invariants=[lambda view: texts.update(item["text"] for item in view.table("orders"))],
    )
    assert texts == {"4"}


@pytest.mark.parametrize("wrong", [[1], {"ssm": {}}, {"ssm.GetParameter": 3}, {"": {}}])
def test_what_is_no_answer_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="name a service and its operation"):
        explored(asks, stubs=wrong)


# -- what does not work ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (exits, "SystemExit: 3"),
        (uses_a_reserved_word, "reserved keyword: status"),
        (uses_no_index, "index"),
        (writes_to_no_table, "ResourceNotFoundException"),
        (reads_no_bucket, "NoSuchBucket"),
    ],
)
def test_a_handler_that_never_works_is_a_finding_with_its_error_and_line(handler: Any, why: str) -> None:
    violation = finding(handler)
    assert why in violation.problems[0].text
    assert violation.site is not None
    assert violation.site.function == handler.__name__


def test_an_index_that_the_table_has_not_is_named() -> None:
    violation = finding(uses_no_index)
    assert violation.fix.startswith("the table 'orders' has no index 'by-day': look whether the name is spelled")
    assert """{"key": …, "indexes": {'by-day': …}}""" in violation.fix
    assert violation.site is not None
    assert violation.site.function == "uses_no_index"
    assert "make it work first" in finding(uses_a_reserved_word).fix


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_objects_of_s3_are_compared() -> None:
    assert explored(store, buckets=["reports"]).ok
    violations = explored(append, buckets={"reports": {"all.csv": "1\n"}}).violations
    (violation,) = violations
    assert violation.problems[0].where == "s3:reports"
    assert (violation.problems[0].expected, violation.problems[0].found) == ("1\n5\n", "1\n5\n5\n")
    assert violation.site is not None
    assert violation.site.function == "append"


def test_each_schedule_begins_with_the_buckets_as_they_were_given() -> None:
    texts: list[dict[str, str]] = []
    explored(
        store,
        buckets={"reports": {"a": "1", "b": b"\xff"}},
        invariants=[lambda view: texts.append(dict(view.objects("reports")))],
    )
    assert len({json.dumps(one, sort_keys=True) for one in texts if "o1.json" in one}) == 1
    assert texts[0].keys() == {"a", "b", "o1.json"}


@pytest.mark.parametrize("wrong", ["reports", 3, {"reports": 3}, {"": {}}, {"reports": {"a": 3}}])
def test_what_is_no_bucket_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="names no buckets"):
        explored(store, buckets=wrong)


# -- the network -------------------------------------------------------------------------------------------------------


def test_nothing_goes_out_and_the_host_is_named() -> None:
    violation = finding(posts)
    assert "goes out to localhost" in violation.problems[0].text
    assert 'network=["localhost"]' in violation.fix


def test_an_allowed_host_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def connects(event: Any, context: Any) -> None:
            socket.create_connection(("127.0.0.1", port)).close()

        assert replay(PlainFunction("orders", connects), [ORDER], "none", network=["127.0.0.1"]).ok
        socket.create_connection(("127.0.0.1", port)).close()  # outside an exploration nothing is refused


# -- copies that a receiver drops --------------------------------------------------------------------------------------


def test_copies_that_their_receiver_drops_by_a_field_are_no_finding() -> None:
    assert not explored(sends).ok
    assert explored(sends, same={"emails": "id"}).ok
    assert not explored(sends, same={"emails": "number"}).ok, "no message has that field"
    with pytest.raises(SettingsError, match="nothing is sent to 'letters'; there is emails"):
        explored(sends, same={"letters": "id"})


# -- invocations without a queue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "order_of"),
    [
        (sns_event("news", ORDER), lambda event: json.loads(event["Records"][0]["Sns"]["Message"])),
        (bus_event(ORDER), lambda event: event["detail"]),
        ({"httpMethod": "POST", "body": json.dumps(ORDER)}, lambda event: json.loads(event["body"])),
        (ORDER, lambda event: event),
    ],
    ids=["sns", "eventbridge", "api", "direct"],
)
def test_a_function_is_invoked_with_its_event(message: Any, order_of: Any) -> None:
    def handler(event: Any, context: Any) -> dict[str, int]:
        put(order_of(event)["order_id"])
        return {"statusCode": 200}

    def counts(event: Any, context: Any) -> None:
        aws("dynamodb").update_item(
            TableName="totals",
            Key={"day": {"S": order_of(event)["order_id"]}},
            UpdateExpression="ADD n :n",
            ExpressionAttributeValues={":n": {"N": "1"}},
        )

    few: Any = {"bound": 5, "walks": 5, "tables": TABLES}
    report = explore(PlainFunction("orders", handler, direct=True), [message], **few)
    assert report.ok, str(report)
    (violation,) = explore(PlainFunction("orders", counts, direct=True), [message], **few).violations
    assert violation.problems[0].where == "totals"


def test_a_record_of_a_queue_is_none_of_a_direct_function() -> None:
    with pytest.raises(SettingsError, match="leave out direct=True"):
        explore(PlainFunction("orders", store, direct=True), [sqs_event("orders", ORDER)])


def test_a_coroutine_is_refused_for_lambda_does_not_await_it() -> None:
    async def handler(event: Any, context: Any) -> None:
        """Never runs."""

    with pytest.raises(SettingsError, match="which Lambda does not await"):
        PlainFunction("orders", handler)

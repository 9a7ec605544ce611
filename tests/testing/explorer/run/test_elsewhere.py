"""Services that the engine in memory lacks: moto answers for them, and the report says so, and what it did not see."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from flowguard.clock import Clock
from flowguard.testing import replay
from flowguard.testing.explorer import Engine, PlainFunction, explore, in_memory
from tests.testing.explorer import needy

ORDER = {"order_id": "o1"}
FEW: Any = {"tables": {"orders": "order_id"}, "bound": 0, "walks": 0}
PARAMETERS: Any = {"Name": "/orders/last", "Value": "o1", "Type": "String", "Overwrite": True}


def aws(service: str) -> Any:
    return boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]  # its name comes from a test


def memory_alone(clock: Clock) -> Engine:
    return in_memory(clock)


def measures(event: Any, context: Any) -> None:
    needy.put()
    aws("cloudwatch").put_metric_data(Namespace="shop", MetricData=[{"MetricName": "orders", "Value": 1}])


def copies(event: Any, context: Any) -> None:
    s3 = aws("s3")
    s3.put_object(Bucket="reports", Key="a", Body=json.dumps(ORDER))
    s3.put_object_tagging(Bucket="reports", Key="a", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    s3.put_object(Bucket="reports", Key="b", Body=s3.get_object(Bucket="reports", Key="a")["Body"].read())


def keeps_a_parameter(event: Any, context: Any) -> None:
    ssm = aws("ssm")
    names = [one["Name"] for one in ssm.describe_parameters()["Parameters"]]
    needy.put(text=str(names))
    ssm.put_parameter(**PARAMETERS)


def measures_what_fails(event: Any, context: Any) -> None:
    try:
        needy.put()
    except Exception:
        measures(event, context)
        raise


@pytest.mark.proof("explores handlers, on moto")
@pytest.mark.parametrize(("handler", "service"), [(measures, "cloudwatch"), (copies, "s3")])
def test_moto_answers_what_the_memory_lacks(handler: Any, service: str) -> None:
    report = explore(PlainFunction("orders", handler), [ORDER], buckets=["reports"], **FEW)
    assert report.ok, str(report)
    assert report.elsewhere == (service,)
    assert f"answered by moto: {service}" in report.summary()


@pytest.mark.proof("explores handlers, on moto")
def test_what_is_not_compared_is_named() -> None:
    report = explore(PlainFunction("orders", measures), [ORDER], **FEW)
    assert "not compared, what these leave: cloudwatch PutMetricData" in report.summary()
    assert report.as_json()["uncounted"] == ["cloudwatch PutMetricData"]
    plain = explore(PlainFunction("orders", needy.put_order), [ORDER], **FEW)
    assert not any("not compared" in line or "moto" in line for line in plain.summary())


@pytest.mark.proof("explores handlers, on moto")
def test_what_only_a_fault_leads_to_is_answered_too() -> None:
    report = explore(PlainFunction("orders", measures_what_fails), [ORDER], **FEW)
    assert report.ok, str(report)
    assert report.elsewhere == ("cloudwatch",)
    assert replay(PlainFunction("orders", measures_what_fails), [ORDER], "e1", tables=FEW["tables"]).ok


@pytest.mark.slow("explores flows and handlers")
def test_what_moto_keeps_is_gone_in_the_next_schedule() -> None:
    trace = replay(PlainFunction("orders", keeps_a_parameter), [ORDER], "d2", tables=FEW["tables"])
    assert trace.ok, str(trace)


def test_what_is_not_there_is_no_error_of_the_handlers_own() -> None:
    report = explore(PlainFunction("orders", needy.asks_and_swallows), [ORDER], **FEW)
    (found,) = report.violations
    assert found.rule == "undisturbed"
    assert "moto, in which nothing is there, answers: An error occurred (ParameterNotFound)" in found.problems[0].text
    assert 'stubs={"ssm.GetParameter": …}' in found.fix


@pytest.mark.slow("explores flows and handlers")
def test_stubs_come_first() -> None:
    stubs: Any = {"cloudwatch.PutMetricData": {}}
    report = explore(PlainFunction("orders", measures), [ORDER], stubs=stubs, **FEW)
    assert report.ok, str(report)
    assert report.elsewhere == ()
    assert "not compared, what these leave: cloudwatch PutMetricData" in report.summary()


@pytest.mark.proof("explores handlers, on moto")
def test_an_operation_of_a_service_that_others_need_takes_all_to_moto() -> None:
    def tags(event: Any, context: Any) -> None:
        needy.put()
        sqs = aws("sqs")
        url = sqs.get_queue_url(QueueName="emails")["QueueUrl"]
        sqs.tag_queue(QueueUrl=url, Tags={"a": "b"})

    report = explore(PlainFunction("orders", tags), [ORDER], **{**FEW, "most": 1})
    assert report.ok, str(report)
    assert "not compared, what these leave: sqs TagQueue" in report.summary()


def test_without_moto_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.sim.engines.find_spec", lambda name: None)
    report = explore(PlainFunction("orders", measures), [ORDER], **FEW)
    assert "cloudwatch is not there in memory" in report.violations[0].problems[0].text


def test_an_engine_of_ones_own_stays_alone() -> None:
    report = explore(PlainFunction("orders", measures), [ORDER], engine=memory_alone, **FEW)
    assert "cloudwatch is not there in memory" in report.violations[0].problems[0].text

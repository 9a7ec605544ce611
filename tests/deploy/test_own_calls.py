"""Calls of boto3 in handlers are named: a template gives no permission for them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import find_functions
from flowguard.deploy.options import DeployOptions

SOURCE = """
import boto3
from flowguard import PER_REQUEST, Done, Flow, Stage, Step, dlq_handler, lambda_handler, once

SQS = boto3.client("sqs")


class Count(Stage[dict], name="count", then="plain", inbox="counts"):
    def handle(self, counted: dict, step: Step):
        step.send("mails", counted)
        DYNAMODB = boto3.resource("dynamodb")
        DYNAMODB.Table("rooms").get_item(Key={"room": "1"})
        SQS.get_queue_url(QueueName="mails")
        return told(counted, step)


def told(counted: dict, step: Step):
    for number in range(2):
        boto3.client("sns").publish(TopicArn="arn", Message="1")
    SQS.delete_message(QueueUrl="url", ReceiptHandle="r")
    return Done()


class Plain(Stage[dict], name="plain", inbox="plain"):
    def handle(self, counted: dict, step: Step):
        return Done({"sqs": str(SQS)})


class Counts(Flow, name="counts", object_id=PER_REQUEST, reply_to=()):
    stages = (Count, Plain)


@once("charge", key="body.id")
def charge(record: dict) -> None:
    SQS.send_message(QueueUrl="url", MessageBody="paid")


counts = lambda_handler(Counts)
dead = dlq_handler(Counts)
charged = charge.batch
"""


def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> list[str]:
    (tmp_path / "counted.py").write_text(SOURCE)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "counted", raising=False)
    importlib.invalidate_caches()
    needed = needs_of(find_functions(["counted"]), DeployOptions.model_validate(options))
    monkeypatch.delitem(sys.modules, "counted")
    return [note for note in needed.notes if "boto3" in note]


def test_each_function_that_calls_aws_itself_is_named_with_the_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_stages, of_once = notes(tmp_path, monkeypatch, {})
    assert of_stages == (
        "counted.counts calls AWS by boto3 (counted.py:12, counted.py:13, counted.py:19 and 1 more), and its role "
        "allows nothing of that; name a policy in the options: policies = […] of [functions.counts]"
    )
    assert of_once.startswith("counted.charged calls AWS by boto3 (counted.py:35), and ")


@pytest.mark.parametrize(
    "chosen",
    [
        {"policies": ["arn:aws:iam::123456789012:policy/counts"]},
        {"role": "arn:aws:iam::123456789012:role/counts"},
    ],
)
def test_one_with_a_policy_or_a_role_of_its_own_is_not(
    chosen: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert notes(tmp_path, monkeypatch, {"functions": {"counts": chosen, "charged": chosen}}) == []

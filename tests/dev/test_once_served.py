"""``flowguard dev`` brings records to a function under ``@once``, as it does to those of flows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.dev.functions import Order, mapping_of
from flowguard.dev.provided import Provider
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.moto import EmbeddedAWS
from tests.deploy.charging import CHARGED
from tests.deploy.exercised import needs

ORDER = Order(("tests.deploy.charging",), None, ACCOUNT_ID, REGION)


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    CHARGED.clear()
    with EmbeddedAWS() as found:
        yield found


def deliveries(aws: EmbeddedAWS, *orders: str) -> list[dict[str, Any]]:
    """What is said of a message for each order, in the queue of the function under ``@once``."""
    needed, said = needs(*ORDER.modules), list[dict[str, Any]]()
    Provider(Clients(), ACCOUNT_ID, REGION).provide(needed)
    mapping = mapping_of(needed.function("charge-charging"), "charge", ORDER, Clients(), said.append)
    sqs = aws.client("sqs")
    for order in orders:
        url = sqs.get_queue_url(QueueName="charge")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"order_id": order}))
        mapping.poll()
    return said


def test_a_record_is_worked_on_once_for_its_key(aws: EmbeddedAWS) -> None:
    said = deliveries(aws, "o-1", "o-1", "o-2")
    assert [(one["verdict"], one["outcome"], one["acked"]) for one in said] == [
        ("CLAIMED", "completed", True),
        ("DONE", None, True),
        ("CLAIMED", "completed", True),
    ]
    assert CHARGED == ["o-1", "o-2"]
    assert aws.client("dynamodb").scan(TableName="flowguard")["Count"] == 2


def test_one_that_fails_stays_in_its_queue_and_says_why(aws: EmbeddedAWS) -> None:
    [said] = deliveries(aws, "o-13")
    assert (said["acked"], said["why"], said["outcome"]) == (False, "ValueError", None)

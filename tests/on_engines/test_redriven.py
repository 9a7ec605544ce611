"""A run that failed, was redriven and completed: whoever waits hears of both ends, through real queues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Reject, Stage, Step, lambda_handler
from flowguard.events import Tally
from tests.engines.polling import comes_true
from tests.proofs.soak.mapping import Mapping
from tests.proofs.soak.sandbox import Sandbox, id_of

pytestmark = pytest.mark.proof("starts ElasticMQ")

CLOSED: set[str] = set()


class Enter(Stage[dict[str, Any]], name="enter"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        if step.object_id in CLOSED:
            raise Reject("it is closed")
        return Done()


class Entry(Flow, name="entry", object_id="id", dead_letters="entry-dead"):
    stages = (Enter,)


@pytest.fixture(params=["entry-told", "entry-told.fifo"])
def told(sandbox: Sandbox, request: pytest.FixtureRequest) -> list[Any]:
    """The Complete messages of a run that is rejected, redriven, and done; from a standard and from a FIFO queue."""
    sandbox.create_tables()
    for queue in ("entry", "entry-dead", request.param):
        sandbox.create_queue(queue)
    mapping = Mapping(sandbox.clients.sqs, sandbox.url("entry"), lambda_handler(Entry).using(sandbox.services(Tally())))
    CLOSED.add("e1")
    sandbox.client.start(Entry, {"id": "e1"}, request_id="request-e1", reply_to=request.param)
    assert mapping.once() == 1
    CLOSED.clear()
    first = sandbox.take(request.param)
    sandbox.clients.sqs.start_message_move_task(
        SourceArn=sandbox.arn("entry-dead"), DestinationArn=sandbox.arn("entry")
    )
    assert comes_true(lambda: mapping.once() == 1)
    return [*first, *sandbox.take(request.param)]


def test_the_end_after_a_redrive_is_told_under_an_id_of_its_own(told: list[Any]) -> None:
    assert [json.loads(message["Body"])["status"] for message in told] == ["FAILED", "COMPLETED"]
    assert len({id_of(message) for message in told}) == 2

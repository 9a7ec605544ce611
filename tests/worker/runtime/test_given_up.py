"""The dead-letter queue that SQS itself fills: what it gave up ends its run, and is parked for a redrive."""

from __future__ import annotations

import json
from typing import Any

from flowguard.handler import dlq_handler
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from tests.scene import OrderState, Scene, message_id, record


def test_what_sqs_gave_up_ends_its_run_and_is_parked_in_the_form_that_a_redrive_needs(at: Scene) -> None:
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    answer = ender({"Records": [record(at.message())]})
    assert answer == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.status, at.script.handled) == (Status.FAILED, [])
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], "SQS gave the message up" in place["error"][1]) == (1, True)
    [told] = at.sent("completed")
    assert json.loads(told["Body"])["status"] == "FAILED"
    assert at.deliver(at.message(redrive=1)) == [True]
    assert at.priced() == 1


def test_a_run_that_went_on_meanwhile_is_left_as_it_is(at: Scene) -> None:
    at.deliver(at.message())
    at.sent("close-order")
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    assert ender({"Records": [record(at.message())]}) == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert item.status is Status.RUNNING
    assert (len(at.sent("close-order")), at.sent("dead")) == (1, []), "what the dead worker had to send is sent"


def test_a_message_whose_worker_may_still_live_stays_in_the_dead_letter_queue(at: Scene) -> None:
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    answers: list[Any] = []

    def given_up_too_early(step: Step[OrderState]) -> None:
        answers.append(ender({"Records": [record(at.message())]}))

    at.script.pricing = given_up_too_early
    with intercept(no_visibility):
        at.deliver(at.message())
    assert answers == [{"batchItemFailures": [{"itemIdentifier": message_id(0)}]}]
    assert at.priced() == 1


def no_visibility(call: ApiCall, proceed: Proceed) -> Response:
    return {} if call.operation == "ChangeMessageVisibility" else proceed()

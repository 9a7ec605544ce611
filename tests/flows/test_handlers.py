"""What the Lambda functions of the shipped flows point at: each is the function of its stage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard import Flow, LambdaHandler, Settings
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from flowguard.wire.signing import simulated
from flowguard.worker.ports import Services
from flows.take_payment import handlers as take_payment
from flows.take_payment.flow import TakePayment
from flows.triggered_cache import handlers as triggered_cache
from flows.triggered_cache.flow import TriggeredCache
from flows.validate_cart import handlers as validate_cart
from flows.validate_cart.flow import ValidateCart
from tests.flows.samples import sample


@pytest.mark.parametrize(
    ("flow", "event", "first", "others"),
    [
        (
            ValidateCart,
            "validate_cart/01-request.json",
            validate_cart.price_cart,
            {"carts-to-check": validate_cart.check_cart, "carts-to-confirm": validate_cart.confirm_cart},
        ),
        (
            TriggeredCache,
            "triggered_cache/01-reset.json",
            triggered_cache.collect_parts,
            {"cache-to-build": triggered_cache.build_entry, "cache-to-publish": triggered_cache.publish_entry},
        ),
        (
            TakePayment,
            "failures/01-flaky-gateway.json",
            take_payment.charge_card,
            {"payments-to-book": take_payment.book_payment},
        ),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else None,
)
def test_the_functions_carry_a_request_to_its_end(
    flow: type[Flow],
    event: str,
    first: LambdaHandler,
    others: dict[str, LambdaHandler],
    flow_runner: FlowRunner,
    flow_engine: MemoryAWS,
    flow_clock: FlowClock,
) -> None:
    flow_runner.serve(flow)  # its tables and queues
    services = signing(aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=flow_clock))
    request = json.loads(json.dumps(sample(event)).replace('[\\"down\\",\\"timeout\\",\\"ok\\"]', '[\\"ok\\"]'))
    assert first.using(services)(request) == {"batchItemFailures": []}
    for queue, function in others.items():
        assert function.using(services)(received(flow_engine, queue)) == {"batchItemFailures": []}
    [run] = flow_runner.run().runs()
    assert run.status == "COMPLETED"


def test_the_functions_of_a_cart_that_waits_take_the_answers_and_go_on(
    flow_runner: FlowRunner, flow_engine: MemoryAWS, flow_clock: FlowClock
) -> None:
    flow_runner.serve(ValidateCart)
    services = signing(aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=flow_clock))
    request = sample("validate_cart/09-request-with-a-wish.json")
    assert validate_cart.price_cart.using(services)(request) == {"batchItemFailures": []}
    for name in ("10-search-result", "13-filter-result"):
        result = sample(f"validate_cart/{name}.json")
        assert validate_cart.answers.using(services)(result) == {"batchItemFailures": []}
    resumed = received(flow_engine, "carts-to-complete")
    assert validate_cart.add_found.using(services)(resumed) == {"batchItemFailures": []}
    [run] = flow_runner.run().runs()
    assert run.status == "COMPLETED"


def test_the_function_of_the_killed_queue_sends_back_what_was_never_begun(
    flow_runner: FlowRunner, flow_clock: FlowClock
) -> None:
    flow_runner.serve(TakePayment)
    services = signing(aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=flow_clock))
    given_up = sample("failures/01-flaky-gateway.json")
    assert take_payment.dead_letters.using(services)(given_up) == {"batchItemFailures": []}
    [run] = flow_runner.run().runs()
    assert (run.status, run.error) == ("COMPLETED", None)


def received(engine: MemoryAWS, queue: str) -> Any:
    """What is in a queue, as its function gets it."""
    sqs = engine.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    found: Any = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])[
        "Messages"
    ]
    for message in found:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return {"Messages": found}


def signing(services: Services) -> Services:
    """Return them with a signer as the runner has it, which knows nothing of who sent the samples."""
    return services._replace(signer=simulated(services.signer))

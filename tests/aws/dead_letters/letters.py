"""Dead letters on an engine of the process: made, read, redriven."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.redriver import Outcome as Redriven
from flowguard.aws.redriver import Redriver
from flowguard.clock import ManualClock
from flowguard.errors import Reject
from flowguard.flow import AnyFlow
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import Message
from flowguard.worker.redrive import Fate
from tests.scene import START, OrderState, Scene


def arn(queue: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}"


def url(at: Scene, queue: str) -> str:
    return at.aws.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]


def reject(step: Step[OrderState]) -> None:
    raise Reject("no such tariff")


def works(step: Step[OrderState]) -> None:
    """What the handler does once its mistake is put right."""


def die(at: Scene, *messages: Message) -> None:
    """The messages end among the dead letters."""
    at.script.pricing = reject
    at.deliver(*(messages or (at.message(),)))
    at.script.pricing = works


def put(at: Scene, queue: str, message: Message, **changes: Any) -> None:
    attributes: Any = attributes_to(Attribute.to_sqs_api, message.attributes())
    at.aws.client("sqs").send_message(
        QueueUrl=url(at, queue), **{"MessageBody": message.body, "MessageAttributes": attributes, **changes}
    )


def sent_again(found: Any) -> dict[str, Any]:
    return {"MessageBody": found["Body"], "MessageAttributes": found["MessageAttributes"]}


def reading(queue: str = "dead", flow: AnyFlow | None = None) -> Reading:
    clients = Clients()
    return Reading(clients, DeadLetterQueue.find(clients, queue), flow=flow, wait=0, clock=ManualClock(START))


def redrive(queue: str = "dead", *, flow: AnyFlow | None = None, **options: Any) -> list[Redriven]:
    with reading(queue, flow) as open_:
        redriver = Redriver(Clients(), "flowguard", open_, **options)
        return [outcome for page in open_.pages() for outcome in redriver.redrive(page)]


def fates(outcomes: list[Redriven]) -> list[Fate | None]:
    return [outcome.judgement.fate if outcome.judgement else None for outcome in outcomes]


def work(at: Scene, queue: str) -> Any:
    """The function takes what is in the queue, as Lambda's trigger hands it over."""
    records = [{**found, "EventSourceARN": arn(queue)} for found in at.sent(queue)]
    return at.handler(records)


def denying(operation: str) -> Any:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation)
        return proceed()

    return deny


def moved_from(source: str) -> Any:
    """SQS says that it moved each letter from this queue. moto's does not say it."""

    def say(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "ReceiveMessage":
            for found in answer.get("Messages", []):
                found["Attributes"]["DeadLetterQueueSourceArn"] = source
        return answer

    return say

"""What can go wrong with a stage or around it, as the tests of the runtime need it."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from flowguard.errors import Reject
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.step import Step
from tests.scene import OrderState, Scene


def boom(step: Step[OrderState]) -> None:
    raise RuntimeError("gateway down")


class Died(KeyboardInterrupt):
    """The process is gone: nothing of ours catches it."""


def die(step: Step[OrderState]) -> None:
    raise Died


def dies_at(operation: str, *, after: bool = False) -> Any:
    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != operation:
            return proceed()
        if after:
            proceed()
        raise Died

    return interceptor


def supersede(at: Scene) -> None:
    at.script.pricing = lambda step: None
    at.deliver(at.newer())


def reject_once(at: Scene) -> None:
    at.script.pricing = lambda step: None
    raise Reject("out of stock")


def drop_queue(at: Scene, name: str) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])


def refuses_writes(code: str) -> Any:
    """DynamoDB refuses every transaction, which a commit without writes of the user's is none."""

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(response, call.operation)
        return proceed()

    return interceptor


def refuses(queue: str, code: str = "AccessDenied", status: int = 403) -> Any:
    """The queue refuses every send, in SQS's words."""

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith(f"/{queue}"):
            response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, call.operation)
        return proceed()

    return interceptor

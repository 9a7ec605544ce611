"""Delays longer than SQS has, as one-time schedules of EventBridge Scheduler.

Each schedule deletes itself when it has run. Its name is made of its message's id, so that a repeated call finds the
schedule there and makes no second one. Its target can carry a body and no attributes; such messages say everything
inside the body.

A deadline is scheduled for its own moment, however late it is sent. Nobody deletes the schedule of a wait that is over:
its message finds that, and changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code, is_final, is_for_minutes
from flowguard.clock import Clock, SystemClock
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.waiting import DEADLINE
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.wire.notification import new_notification, to_json
from flowguard.worker.ports import Refusal

if TYPE_CHECKING:
    from mypy_boto3_scheduler.type_defs import TargetTypeDef

    from flowguard.aws.clients import Clients

NO_SCHEDULER: Final = "a delay above 15 minutes needs FLOWGUARD_SCHEDULER_ROLE, the ARN of a role"


class _Encryption(TypedDict, total=False):
    KmsKeyArn: str


class Schedules:
    """The one-time schedules of a group.

    ``role`` is the ARN by which the scheduler may send to the queues; without one, nothing can be scheduled.
    ``undelivered`` is the ARN of the queue that gets what the scheduler cannot deliver; without one, that is dropped.
    ``key`` is the ARN of the key of KMS that encrypts the messages; without one, the scheduler takes a key of AWS.
    """

    def __init__(
        self,
        clients: Clients,
        role: str | None = None,
        group: str = "default",
        *,
        undelivered: str | None = None,
        key: str | None = None,
        clock: Clock | None = None,
        names: Names = AS_IN_CODE,
    ) -> None:
        self._clients = clients
        self._role = role
        self._group = group
        self._undelivered = undelivered
        self._encryption: _Encryption = {} if key is None else {"KmsKeyArn": key}
        self._clock = clock if clock is not None else SystemClock()
        self._names = names
        self._arns: dict[str, str] = {}

    def timed(self, send: Send) -> Send:
        """Return the message with the delay that it has left. That of a deadline ends at its moment, not later."""
        if send.kind is not Kind.DEADLINE or send.delay <= LONGEST_SQS_DELAY.total_seconds():
            return send
        left = -((self._clock.now() - _moment(send)) // 1000)
        return send._replace(delay=max(0, left))

    def create(self, sends: Mapping[int, Send]) -> Mapping[int, Refusal]:
        """Schedule as many sends as possible. The answer has those that were refused, by the caller's numbers."""
        refusals: dict[int, Refusal] = {}
        for place, send in sends.items():
            try:
                self._create(send)
            except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
                if not isinstance(error, botocore_errors.ClientError) or error_code(error) != "ConflictException":
                    refusals[place] = Refusal(
                        f"{type(error).__name__}: {error}", is_final(error), is_for_minutes(error)
                    )
            except ValueError as error:  # a setting is missing: a deployment may bring it after the code
                refusals[place] = Refusal(str(error), final=False, for_minutes=True)
        return refusals

    def _create(self, send: Send) -> None:
        if self._role is None:
            raise ValueError(NO_SCHEDULER)
        now = self._clock.now()
        named = str(getattr(send.to, "name", ""))
        queue, name = self._arn(named), schedule_name(send, self._names.queue(named))
        begun = datetime.fromtimestamp(-(-now // 1000), UTC)  # whole seconds, and never early
        due = begun + timedelta(seconds=self.timed(send).delay)
        self._clients.scheduler.create_schedule(
            Name=name,
            GroupName=self._group,
            ScheduleExpression=f"at({due:%Y-%m-%dT%H:%M:%S})",
            ScheduleExpressionTimezone="UTC",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            ClientToken=name,
            Target=self._target(queue, self._role, _whole(send, queue, now)),
            **self._encryption,
        )

    def _target(self, queue: str, role: str, body: str) -> TargetTypeDef:
        target: TargetTypeDef = {"Arn": queue, "RoleArn": role, "Input": body}
        if self._undelivered is not None:
            target["DeadLetterConfig"] = {"Arn": self._undelivered}
        return target

    def _arn(self, queue: str) -> str:
        """Return the ARN of a queue given by name, ARN or URL. It is looked up once a queue, with two calls."""
        queue = self._names.queue(queue)
        if queue.startswith("arn:"):
            return queue
        if queue not in self._arns:
            sqs = self._clients.sqs
            url = queue if "://" in queue else sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            self._arns[queue] = answer["Attributes"]["QueueArn"]
        return self._arns[queue]


def _moment(send: Send) -> int:
    """Return the moment of a deadline, in ms."""
    return int(json.loads(send.body)[DEADLINE])


CONTEXT: Final = "<aws.scheduler."
"""What the names of context attributes begin with, in whose place the scheduler writes what they stand for."""


def _whole(send: Send, queue: str, now: int) -> str:
    """Return the body with the attributes inside it, as JSON in which the scheduler finds none of its own attributes.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-schedule-context-attributes.html
    """
    text = send.body
    if send.attributes:
        notification = new_notification(
            send.body, message_id=send.id, arn=queue, sent_at=now, attributes=send.attributes
        )
        text = to_json(notification)
    return text.replace(CONTEXT, f"\\u003c{CONTEXT[1:]}")


def schedule_name(send: Send, queue: str) -> str:
    """Return the name of a message's schedule, the same for every copy of the message.

    ``queue`` is its queue's name at AWS: deployments that share a group may send messages of one id.
    """
    return "flowguard-" + hashlib.sha256(f"sqs:{queue}\n{send.id}".encode("utf-8", "surrogatepass")).hexdigest()[:48]

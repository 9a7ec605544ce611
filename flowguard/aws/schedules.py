"""Delays longer than SQS has, as one-time schedules of EventBridge Scheduler.

Each schedule deletes itself when it has run. Its name is made of its message's id, so that a repeated call finds the
schedule there and makes no second one. Its target can carry a body and no attributes; such messages say everything
inside the body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.faults import error_code, is_final
from flowguard.clock import Clock, SystemClock
from flowguard.protocol.outbox import Send
from flowguard.worker.ports import Refusal

if TYPE_CHECKING:
    from flowguard.aws.clients import Clients


class Schedules:
    """The one-time schedules of a group.

    ``role`` is the ARN by which the scheduler may send to the queues; without one, nothing can be scheduled.
    """

    def __init__(
        self, clients: Clients, role: str | None = None, group: str = "default", *, clock: Clock | None = None
    ) -> None:
        self._clients = clients
        self._role = role
        self._group = group
        self._clock = clock if clock is not None else SystemClock()

    def create(self, sends: Mapping[int, Send]) -> Mapping[int, Refusal]:
        """Schedule as many sends as possible. The answer has those that were refused, by the caller's numbers."""
        refusals: dict[int, Refusal] = {}
        for place, send in sends.items():
            try:
                self._create(send)
            except (ClientError, BotoCoreError) as error:
                if not isinstance(error, ClientError) or error_code(error) != "ConflictException":
                    refusals[place] = Refusal(f"{type(error).__name__}: {error}", is_final(error))
            except ValueError as error:  # a setting is missing: no repetition brings it
                refusals[place] = Refusal(str(error), final=True)
        return refusals

    def _create(self, send: Send) -> None:
        if self._role is None:
            raise ValueError("a delay above 15 minutes needs FLOWGUARD_SCHEDULER_ROLE, the ARN of a role")
        queue: Any = getattr(send.to, "name", "")
        if not queue.startswith("arn:"):
            raise ValueError(f"a delay above 15 minutes needs the queue's ARN, and {send.to} is none")
        begun = datetime.fromtimestamp(-(-self._clock.now() // 1000), UTC)  # whole seconds, and never early
        due = begun + timedelta(seconds=send.delay)
        self._clients.scheduler.create_schedule(
            Name=schedule_name(send),
            GroupName=self._group,
            ScheduleExpression=f"at({due:%Y-%m-%dT%H:%M:%S})",
            ScheduleExpressionTimezone="UTC",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            ClientToken=schedule_name(send),
            Target={"Arn": queue, "RoleArn": self._role, "Input": send.body},
        )


def schedule_name(send: Send) -> str:
    """Return the name of a message's schedule, the same for every copy of the message."""
    return "flowguard-" + hashlib.sha256(f"{send.to}\n{send.id}".encode("utf-8", "surrogatepass")).hexdigest()[:48]

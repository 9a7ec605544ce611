"""The permissions of the role with which EventBridge Scheduler sends messages, as far as a template makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from flowguard.deploy.arns import Arn
from flowguard.deploy.key_uses import READS, SENDS, only_through
from flowguard.deploy.needs import Deployment, Permission, Target

OF_SCHEDULE: Final = "kms:EncryptionContext:aws:scheduler:schedule:arn"
"""The condition key that names a schedule with an encrypted message."""


class References(Protocol):
    """What a policy names. In a template these are references to its resources."""

    def queue_arn(self, name: str) -> Any: ...

    def arn(self, arn: Arn) -> Any: ...


def scheduler_statements(needed: Deployment, names: References) -> Iterator[dict[str, Any]]:
    """Yield the statements of the scheduler's role, for queues and keys."""
    queues = _queues(needed)
    yield {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [names.queue_arn(name) for name in queues]}
    for key in _keys(needed, queues):
        condition: dict[str, Any] = {"StringEquals": only_through(key, ["sqs"])}
        yield {"Effect": "Allow", "Action": [*SENDS], "Resource": key, "Condition": condition}
    if needed.kms_key is not None:
        schedules = names.arn(Arn("scheduler", f"schedule/{needed.scheduler_group}/*"))
        condition = {"ArnLike": {OF_SCHEDULE: schedules}}
        yield {"Effect": "Allow", "Action": [*READS], "Resource": needed.kms_key, "Condition": condition}


def scheduler_permissions(needed: Deployment) -> Iterator[Permission]:
    """Yield what these statements allow."""
    queues = _queues(needed)
    for name in queues:
        yield Permission(Target.QUEUE.value, name, ("sqs:SendMessage",))
    for key in _keys(needed, queues):
        yield Permission(Target.KEY.value, key, SENDS, ("sqs",))
    if needed.kms_key is not None:
        yield Permission(Target.KEY.value, needed.kms_key, READS, ("scheduler",))


def _queues(needed: Deployment) -> list[str]:
    """Return the names of the queues to which the scheduler sends."""
    targets = [queue.name for queue in needed.schedule_targets()]
    return [*dict.fromkeys((*targets, *needed.undelivered_by_scheduler))]


def _keys(needed: Deployment, queues: list[str]) -> list[str]:
    keys = dict.fromkeys(needed.queue(name).kms_key for name in queues)
    return [key for key in keys if key is not None]

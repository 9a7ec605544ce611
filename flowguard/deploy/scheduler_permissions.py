"""The permissions of the role with which EventBridge Scheduler sends messages, as far as a template makes it."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.key_uses import READS, SENDS
from flowguard.deploy.needs import Deployment, Permission, Target


def scheduler_permissions(needed: Deployment) -> tuple[Permission, ...]:
    """Return what the scheduler may do: send to queues, and use their keys and that of its schedules."""
    return tuple(dict.fromkeys(_allowed(needed)))


def _allowed(needed: Deployment) -> Iterator[Permission]:
    targets = [queue.name for queue in needed.schedule_targets()]
    queues = [*dict.fromkeys((*targets, *needed.undelivered_by_scheduler))]
    for name in queues:
        yield Permission(Target.QUEUE.value, name, ("sqs:SendMessage",))
    for key in (needed.queue(name).kms_key for name in queues):
        if key is not None:
            yield Permission(Target.KEY.value, key, SENDS, ("sqs",))
    if needed.kms_key is not None:
        yield Permission(Target.KEY.value, needed.kms_key, READS, ("scheduler",))

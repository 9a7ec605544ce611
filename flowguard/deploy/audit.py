"""Who may do what to what in a deployment, as lines of text: what a reviewer of permissions asks first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.template import is_closed, operators_of

_ALL = "all network interfaces of the account"


def audited(needed: Deployment, options: DeployOptions) -> str:
    """Return the permissions of each function, and who may send to and read each queue."""
    functions = [line for function in needed.functions for line in _of_function(function)]
    queues = [line for queue in needed.queues for line in _of_queue(queue, needed, options)]
    return "\n".join(["functions", *functions, "", "queues", *queues])


def _of_function(function: FunctionNeed) -> Iterator[str]:
    yield f"  {function.name}, {_role(function)}"
    if function.role is None:
        for permission in function.permissions:
            resource = _ALL if permission.on is Target.NETWORK else f"{permission.target} {permission.name}".rstrip()
            yield f"    {resource}: {', '.join(permission.actions)}"
    for policy in function.policies:
        yield f"    and what {policy} allows"
    if function.has_url:
        yield "    anybody may call its URL; it answers those who have a token"


def _role(function: FunctionNeed) -> str:
    return "by a role of its own" if function.role is None else f"by {function.role}, which is not looked at here"


def _of_queue(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> Iterator[str]:
    yield f"  {queue.name}, {queue.role.value}{'' if queue.made else ', not made here'}"
    yield f"    read by {queue.reader or 'nobody here'}"
    senders = [*(function.name for function in needed.senders(queue.name)), *_others(queue, needed, options)]
    yield f"    sent to by {', '.join(senders) or 'nobody here'}"
    if queue.made:
        yield f"    {_rest(closed=is_closed(queue, options))}"


def _others(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> Sequence[str]:
    """Return who sends to a queue beside the functions."""
    scheduled = queue in needed.schedule_targets() or queue.name == needed.undelivered_schedules
    moved = [f"SQS from {source.name}" for source in needed.queues if source.give_up_to == queue.name]
    return [
        *(f"the topic {arn}" for arn in queue.topics),
        *(f"the bus {bus.name}" for bus in queue.rules),
        *(["EventBridge Scheduler"] if scheduled else []),
        *moved,
        *queue.senders,
        *(operators_of(queue, options) if is_closed(queue, options) else ()),
    ]


def _rest(*, closed: bool) -> str:
    if closed:
        return "its policy denies all others to send"
    return "others may send whose own policies allow it: name senders or operators in the options to deny them"

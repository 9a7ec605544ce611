"""The permissions of a deployment for a reviewer, as lines of text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from flowguard.deploy.closed_queues import is_closed, operators_of
from flowguard.deploy.found import FunctionKind
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of

_ALL = {Target.NETWORK.value: "all network interfaces of the account", Target.TRACES.value: "all traces of the account"}

Facts = dict[str, Any]


def audited(needed: Deployment, options: DeployOptions) -> str:
    """Return the permissions of each function, and who may send to and read each queue."""
    functions = [line for function in needed.functions for line in _lines_of_function(_function(function))]
    queues = [line for queue in needed.queues for line in _lines_of_queue(_queue(queue, needed, options))]
    return "\n".join(["functions", *functions, "", "queues", *queues])


def audited_json(needed: Deployment, options: DeployOptions) -> str:
    """Return the same as one line of JSON."""
    facts = {
        "functions": [_function(function) for function in needed.functions],
        "queues": [_queue(queue, needed, options) for queue in needed.queues],
    }
    return json.dumps(facts, ensure_ascii=False)


# -- functions


def _function(function: FunctionNeed) -> Facts:
    return {
        "name": function.name,
        "role": function.role,
        "permissions": [
            {
                "on": permission.target,
                "name": permission.name,
                "actions": [*permission.actions],
                "through": [*permission.via],
            }
            for permission in (function.permissions if function.role is None else ())
        ],
        "policies": [*function.policies],
        "url": _url(function) if function.has_url else None,
    }


def _url(function: FunctionNeed) -> str:
    """Return who may call the URL of a function, and for what."""
    if function.url_auth != "NONE":
        return "who may by IAM calls its URL, and starts runs"
    if function.definition.kind is FunctionKind.STARTS:
        return "anybody may call its URL, and starts runs"
    return "anybody may call its URL; it answers those who have a token"


def _lines_of_function(facts: Facts) -> Iterator[str]:
    role = "a role of its own" if facts["role"] is None else f"{facts['role']}, which is not looked at here"
    yield f"  {facts['name']}, by {role}"
    for allowed in facts["permissions"]:
        resource = _ALL.get(allowed["on"], f"{allowed['on']} {allowed['name']}".rstrip())
        word = "for" if allowed["on"] == Target.CODEC_KEY.value else "through"
        through = f" {word} {', '.join(allowed['through'])}" if allowed["through"] else ""
        yield f"    {resource}: {', '.join(allowed['actions'])}{through}"
    for policy in facts["policies"]:
        yield f"    and what {policy} allows"
    if facts["url"] is not None:
        yield f"    {facts['url']}"


# -- queues


def _queue(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> Facts:
    senders = [*(function.name for function in needed.senders(queue.name)), *_others(queue, needed, options)]
    return {
        "name": queue.name,
        "role": queue.role.value,
        "made": queue.made,
        "key": queue.kms_key,
        "reader": queue.reader,
        "senders": senders,
        "denies_others": queue.made and is_closed(queue, options),
    }


def _lines_of_queue(facts: Facts) -> Iterator[str]:
    yield f"  {facts['name']}, {facts['role']}{'' if facts['made'] else ', not made here'}"
    yield f"    read by {facts['reader'] or 'nobody here'}"
    yield f"    sent to by {', '.join(facts['senders']) or 'nobody here'}"
    if facts["key"] is not None:
        yield f"    under the key {facts['key']}"
    if facts["made"]:
        yield f"    {_rest(closed=facts['denies_others'])}"


def _others(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> Sequence[str]:
    """Return who sends to a queue beside the functions."""
    scheduled = queue in needed.schedule_targets() or queue.name in needed.undelivered_by_scheduler
    given_up = [source for source in needed.queues if source.give_up_to == queue.name]
    moved = [f"SQS from {source.name}" for source in given_up if _in_one_account(source, queue, options)]
    return [
        *(f"the topic {arn}" for arn in queue.topics),
        *(f"the bus {bus.name}" for bus in queue.rules),
        *(f"the bucket {bucket}" for bucket in queue.buckets),
        *(["EventBridge Scheduler"] if scheduled else []),
        *moved,
        *queue.senders,
        *(operators_of(queue, options) if is_closed(queue, options) else ()),
    ]


def _in_one_account(source: QueueNeed, queue: QueueNeed, options: DeployOptions) -> bool:
    """Answer whether SQS may move what a queue gives up to another. It is not known where no account is named."""
    accounts = (account_of(source.arn) or options.account, account_of(queue.arn) or options.account)
    return None in accounts or len(set(accounts)) == 1


def _rest(*, closed: bool) -> str:
    if closed:
        return "its policy denies all others to send"
    return "others may send whose own policies allow it: name its senders in the options to deny them"

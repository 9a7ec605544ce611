"""The permissions of a deployment for a reviewer, as lines of text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from flowguard.deploy.arns import LAMBDA, SCHEDULER
from flowguard.deploy.closed_queues import is_closed, operators_of
from flowguard.deploy.found import FunctionKind
from flowguard.deploy.key_policy import key_policy, keys_of
from flowguard.deploy.needs import Deployment, FunctionNeed, Permission, QueueNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of
from flowguard.deploy.scheduler_permissions import scheduler_permissions

_ALL = {Target.NETWORK.value: "all network interfaces of the account", Target.TRACES.value: "all traces of the account"}

Facts = dict[str, Any]


def audited(needed: Deployment, options: DeployOptions) -> str:
    """Return the roles with their permissions, the queues with their senders, and the keys with their users."""
    facts = _facts(needed, options)
    parts = {
        "functions": map(_lines_of_function, facts["functions"]),
        "scheduler": map(_lines_of_scheduler, facts["scheduler"]),
        "queues": map(_lines_of_queue, facts["queues"]),
        "keys": map(_lines_of_key, facts["keys"]),
    }
    lines = {head: [line for each in lines for line in each] for head, lines in parts.items()}
    return "\n\n".join("\n".join([head, *rest]) for head, rest in lines.items() if rest)


def audited_json(needed: Deployment, options: DeployOptions) -> str:
    """Return the same as one line of JSON."""
    return json.dumps(_facts(needed, options), ensure_ascii=False)


def _facts(needed: Deployment, options: DeployOptions) -> Facts:
    return {
        "functions": [_function(function, options) for function in needed.functions],
        "scheduler": [_scheduler(needed, options)] if needed.has_scheduler else [],
        "queues": [_queue(queue, needed, options) for queue in needed.queues],
        "keys": [_key(key, needed, options) for key in keys_of(needed, options)],
    }


# -- roles


def _function(function: FunctionNeed, options: DeployOptions) -> Facts:
    return {
        "name": function.name,
        **_role(function.role, LAMBDA, function.permissions, options),
        "policies": [*function.policies],
        "url": _url(function) if function.has_url else None,
    }


def _scheduler(needed: Deployment, options: DeployOptions) -> Facts:
    return {
        **_role(needed.scheduler_role, SCHEDULER, [*scheduler_permissions(needed)], options),
        "group": needed.scheduler_group,
    }


def _role(role: str | None, service: str, permissions: Sequence[Permission], options: DeployOptions) -> Facts:
    """Return the permissions of a role and the service that assumes it. Of one that is there nothing is known."""
    return {
        "role": role,
        "assumed_by": service if role is None else None,
        "boundary": options.permissions_boundary if role is None else None,
        "permissions": [*map(_permission, permissions if role is None else ())],
    }


def _permission(allowed: Permission) -> Facts:
    bucket, _, keys = allowed.name.partition("/")
    is_bucket = allowed.on is Target.BUCKET
    return {
        "on": allowed.target,
        "name": bucket if is_bucket else allowed.name,
        "actions": [*allowed.actions],
        "through": [*allowed.via],
        **({"prefix": keys} if is_bucket else {}),
    }


def _url(function: FunctionNeed) -> str:
    """Return who may call the URL of a function, and for what."""
    if function.url_auth != "NONE":
        return "who may by IAM calls its URL, and starts runs"
    if function.definition.kind is FunctionKind.STARTS:
        return "anybody may call its URL, and starts runs"
    return "anybody may call its URL; it answers those who have a token"


def _lines_of_function(facts: Facts) -> Iterator[str]:
    yield f"  {facts['name']}, by {_named(facts)}"
    yield from _lines_of_role(facts, "")
    for policy in facts["policies"]:
        yield f"    and what {policy} allows"
    if facts["url"] is not None:
        yield f"    {facts['url']}"


def _lines_of_scheduler(facts: Facts) -> Iterator[str]:
    yield f"  EventBridge Scheduler, by {_named(facts)}"
    yield from _lines_of_role(facts, f", for the group of schedules {facts['group']} of this account")


def _named(facts: Facts) -> str:
    return "a role of its own" if facts["role"] is None else f"{facts['role']}, which is not looked at here"


def _lines_of_role(facts: Facts, bounds: str) -> Iterator[str]:
    if facts["assumed_by"] is not None:
        yield f"    assumed by {facts['assumed_by']} alone{bounds}"
    if facts["boundary"] is not None:
        yield f"    within the boundary {facts['boundary']}"
    for allowed in facts["permissions"]:
        resource = _ALL.get(allowed["on"], f"{allowed['on']} {allowed['name']}".rstrip())
        word = "for" if allowed["on"] == Target.CODEC_KEY.value else "through"
        through = f" {word} {', '.join(allowed['through'])}" if allowed["through"] else ""
        listed = f" of {allowed['prefix']}" if "prefix" in allowed else ""
        yield f"    {resource}: {', '.join(allowed['actions'])}{through}{listed}"


# -- queues


def _queue(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> Facts:
    functions = (function.name for function in needed.senders(queue.name))
    senders = [*dict.fromkeys((*functions, *_others(queue, needed, options)))]
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
    return "others may send whose own policies allow it: list its senders in the options, be it none, to deny them"


# -- keys


def _key(key: str, needed: Deployment, options: DeployOptions) -> Facts:
    """Return what the policy of a key has to allow, and to whom. Of a key that another stack exports it is unknown."""
    statements = [] if key in options.imports else key_policy(needed, key, options)["Statement"]
    return {
        "key": key,
        "statements": [
            {
                "name": statement["Sid"],
                "who": [*_principals(statement["Principal"])],
                "actions": statement["Action"],
                "condition": statement["Condition"],
            }
            for statement in statements
        ],
    }


def _principals(principal: Facts) -> Iterator[str]:
    for named in principal.values():
        yield from [named] if isinstance(named, str) else named


def _lines_of_key(facts: Facts) -> Iterator[str]:
    yield f"  {facts['key']}, whose policy needs{'' if facts['statements'] else ' what the deployment tells'}"
    for statement in facts["statements"]:
        bounds = [f"{name} {_values(each)}" for test in statement["condition"].values() for name, each in test.items()]
        who, actions = ", ".join(statement["who"]), ", ".join(statement["actions"])
        yield f"    {statement['name']}, for {who}: {actions} where {' and '.join(bounds)}"


def _values(given: Any) -> str:
    return f"is {' or '.join([given] if isinstance(given, str) else given)}"

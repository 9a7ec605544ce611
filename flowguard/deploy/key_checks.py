"""Checks of keys that resources are under and that no option names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from flowguard.deploy.account import Account, NotKnown, known
from flowguard.deploy.codec_uses import OF_NO_CODEC
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.key_policy import ALARMS
from flowguard.deploy.key_uses import SENDS, through, using_keys
from flowguard.deploy.needs import Deployment, FunctionNeed, Permission, QueueNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.policies import key_lets_role, key_lets_service

_NAME_IT: Final = "say its kms_key in the options, and see flowguard iac --audit and --key-policy"


def check_keys(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield what keeps functions, topics and rules from using keys that the options do not name."""
    placed = _placed(needed, live)
    using = using_keys(placed, options)
    for before, after in zip(needed.functions, using.functions, strict=True):
        for permission in after.permissions:
            if permission not in before.permissions:
                yield from known(_role(after, permission, live))
    for old, queue in zip(needed.queues, placed.queues, strict=True):
        if old.kms_key is None and queue.kms_key is not None:
            yield from known(_services(queue, queue.kms_key, live))
    if options.alarm_topic is not None and options.alarm_topic.kms_key is not None:
        yield from known(_alarms(options.alarm_topic.arn, options.alarm_topic.kms_key, live))


def _alarms(topic: str, key: str, live: Account) -> Iterator[LiveFinding]:
    """Yield that the key of the topic of the alarms does not let them in."""
    policy = live.key_policy(key)
    if lacking := [each for each in SENDS if key_lets_service(policy, ALARMS, each) is False]:
        yield error(
            "key-denied",
            topic,
            f"the policy of its key {key} does not let {ALARMS} {', '.join(lacking)}",
            "no alarm reaches anybody, and nothing but the alarm's own history says so",
            f"add a statement for {ALARMS}: flowguard iac --key-policy has it",
        )


def _placed(needed: Deployment, live: Account) -> Deployment:
    """Return a deployment whose resources are under the keys that they have."""
    return replace(
        needed,
        tables=tuple(
            replace(table, kms_key=_key(partial(live.table_key, table.name), live)) if table.kms_key is None else table
            for table in needed.tables
        ),
        queues=tuple(
            replace(queue, kms_key=_key(partial(_of_queue, queue, live), live)) if queue.kms_key is None else queue
            for queue in needed.queues
        ),
        topics=tuple(
            replace(topic, kms_key=_key(partial(live.topic_key, topic.arn), live)) if topic.kms_key is None else topic
            for topic in needed.topics
        ),
    )


def _of_queue(queue: QueueNeed, live: Account) -> str | None:
    attributes = live.queue(queue.name) if queue.arn is None else None
    return None if attributes is None else attributes.get("KmsMasterKeyId")


def _key(ask: Callable[[], str | None], live: Account) -> str | None:
    """Return the ARN of a customer's key. None for a key of AWS, which lets all of the account use it."""
    with suppress(NotKnown):
        if name := ask():
            return live.key(name)
    return None


def _role(function: FunctionNeed, permission: Permission, live: Account) -> Iterator[LiveFinding]:
    there = live.function(function.name)
    if there is None or not there.get("Role"):
        return
    key, role = permission.name, str(there["Role"])
    policy = live.key_policy(key)
    for service, place in zip(permission.via, through(key, permission.via), strict=True):
        context = {**OF_NO_CODEC, "kms:ViaService": place}
        denied = live.denied(role, [*permission.actions], key, context)
        yield from _judged(function, service, key, role, policy, denied, permission.actions, context)


def _judged(
    function: FunctionNeed,
    service: str,
    key: str,
    role: str,
    policy: Any,
    denied: list[str] | None,
    actions: tuple[str, ...],
    context: Mapping[str, str | None],
) -> Iterator[LiveFinding]:
    """Yield what neither the role's policies nor the key's allow."""
    refused = [] if denied is None else denied
    lets = {action: "account" if policy is None else key_lets_role(policy, role, action, context) for action in actions}
    lacking = [action for action, by in lets.items() if by is False or (by == "account" and action in refused)]
    if lacking:
        yield (warning if policy is None else error)(
            "key-denied",
            function.name,
            f"its role may not {', '.join(lacking)} with the key {key}, through {service}",
            "what it reads, writes or sends there is refused, and its runs or records fail or stop",
            f"allow it to {role}; {_NAME_IT}",
        )


def _services(queue: QueueNeed, key: str, live: Account) -> Iterator[LiveFinding]:
    """Yield the services that feed a queue and that its key does not let in."""
    feeding = [
        service for service, by in (("sns.amazonaws.com", queue.topics), ("events.amazonaws.com", queue.rules)) if by
    ]
    policy = live.key_policy(key) if feeding else None
    for service in feeding:
        if lacking := [action for action in SENDS if key_lets_service(policy, service, action) is False]:
            yield error(
                "key-denied",
                queue.name,
                f"the policy of its key {key} does not let {service} {', '.join(lacking)}",
                "what topics and rules send there is dropped, and nothing says so",
                f"add a statement for {service}; {_NAME_IT}",
            )

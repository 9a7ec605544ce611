"""The ARNs of the resources in policies. Partition, region and account are filled in by the deployment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple, assert_never

from flowguard.deploy.codec_uses import ALIAS, FLOW, OF_CODEC, OF_ENVIRONMENT, OF_NO_CODEC, alias_of
from flowguard.deploy.key_uses import only_through
from flowguard.deploy.needs import Deployment, FunctionNeed, Permission, Target
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import arn_of
from flowguard.destinations import Bus, Queue

DEFAULT_BUS: Final = "default"

LARGEST_POLICY: Final = 10_240
"""Characters of all inline policies of a role, without white space."""

_LONGEST_PLACE: Final = len("arn:aws-us-gov:secretsmanager:ap-southeast-1:123456789012:")


class Arn(NamedTuple):
    """An ARN of the deployment's own account, or the ``whole`` ARN of another.

    ``region`` and ``account`` say whether it names them.
    """

    service: str = ""
    resource: str = ""
    region: bool = True
    account: bool = True
    whole: str | None = None

    def filled(self, partition: str, region: str, account: str) -> str:
        """Return the ARN with these parts filled in."""
        if self.whole is not None:
            return self.whole
        return ":".join(
            (
                "arn",
                partition,
                self.service,
                region if self.region else "",
                account if self.account else "",
                self.resource,
            )
        )


POLICY_VERSION: Final = "2012-10-17"
"""The version of IAM's policy language."""

S3: Final = "s3.amazonaws.com"
"""S3, as a principal."""

LAMBDA: Final = "lambda.amazonaws.com"
"""Lambda, as a principal."""

SCHEDULER: Final = "scheduler.amazonaws.com"
"""EventBridge Scheduler, as a principal."""

SCHEDULER_ROLE: Final = Arn(whole="the scheduler's role")
"""Stands for the role that the template makes for EventBridge Scheduler."""


class AllowedActions(NamedTuple):
    """A statement of a policy. The order of everything in it is fixed.

    ``is_owned`` says that its bucket must be the deployment's own account's; of that, keys under ``prefix`` are listed.
    ``via`` are the services through which alone a key of KMS is used, ``passed_to`` the one that a role is given to.
    ``flows`` are those that a codec's key is used for, ``environment`` is the rule of their names, ``alias`` is what
    names the key.
    """

    actions: tuple[str, ...]
    arns: tuple[Arn, ...]
    is_owned: bool = False
    prefix: str | None = None
    via: tuple[str, ...] = ()
    passed_to: str | None = None
    flows: tuple[str, ...] = ()
    alias: str | None = None
    environment: str = "*"

    def condition(self, account: Any) -> dict[str, Any]:
        """Return the statement's condition, if it has one. ``account`` is the deployment's, or the reference to it."""
        equal: dict[str, Any] = {"aws:ResourceAccount": account} if self.is_owned else {}
        if self.via:
            equal |= only_through(str(self.arns[0].whole), self.via)
        if self.flows:
            equal |= {FLOW: [*self.flows], OF_ENVIRONMENT: self.environment}
        if self.alias is not None:
            equal[ALIAS] = self.alias
        if self.passed_to is not None:
            equal["iam:PassedToService"] = self.passed_to
        owned = {"StringEquals": equal} if equal else {}
        listed = {"StringLike": {"s3:prefix": self.prefix}} if self.prefix is not None else {}
        return {"Condition": {**owned, **listed}} if owned or listed else {}

    def contexts(self, account: str) -> Iterator[dict[str, str | None]]:
        """Yield the condition keys of each request that the statement allows. It does not have those that are None."""
        equal = self.condition(account).get("Condition", {}).get("StringEquals", {})
        prefix = {} if self.prefix is None else {"s3:prefix": self.prefix}
        lacking = OF_NO_CODEC if self.via else OF_CODEC if self.flows else {}
        for values in product(*([value] if isinstance(value, str) else value for value in equal.values())):
            yield {**lacking, **dict(zip(equal, values, strict=True)), **prefix}


def statements_of(needed: Deployment, function: FunctionNeed) -> tuple[AllowedActions, ...]:
    """Return the statements of a function's policy. Resources with the same actions share one.

    Raises :class:`CannotDeploy` for a policy that is too large for a role.
    """
    grouped: dict[_Alike, list[Arn]] = {}
    for permission in function.permissions:
        grouped.setdefault(_alike(permission), []).append(_arn(needed, permission))
    statements = tuple(
        AllowedActions(
            alike.actions,
            tuple(dict.fromkeys(arns)),
            alike.is_owned,
            alike.prefix,
            () if alike.of_codec else alike.via,
            alike.passed_to,
            alike.via if alike.of_codec else (),
            alias_of(alike.key) if alike.of_codec else None,
            needed.at_aws.rule,
        )
        for alike, arns in sorted(grouped.items(), key=lambda group: (group[0].actions, group[0].key, group[0].via))
    )
    size = sum(_size(statement) for statement in statements)
    if size > LARGEST_POLICY:
        problem = (
            f"its policy may take {size:,} characters of {LARGEST_POLICY:,}; serve its stages by several functions"
        )
        raise CannotDeploy(function.name, (problem,))
    return statements


class _Alike(NamedTuple):
    """What permissions have in common that share a statement. Each key of KMS has statements of its own."""

    actions: tuple[str, ...]
    key: str
    via: tuple[str, ...]
    is_owned: bool
    prefix: str | None
    passed_to: str | None
    of_codec: bool


def _alike(permission: Permission) -> _Alike:
    on, name = permission.on, permission.name
    return _Alike(
        permission.actions,
        name if on in (Target.KEY, Target.CODEC_KEY) else "",
        permission.via,
        is_owned=on in (Target.OBJECTS, Target.BUCKET),
        prefix=name.partition("/")[2] if on is Target.BUCKET else None,
        passed_to=SCHEDULER if on is Target.SCHEDULER_ROLE else None,
        of_codec=on is Target.CODEC_KEY,
    )


def _size(statement: AllowedActions) -> int:
    arns = [arn.resource + "x" * _LONGEST_PLACE if arn.whole is None else arn.whole for arn in statement.arns]
    texts = [*statement.actions, *arns]
    condition = len(json.dumps(statement.condition("x" * 12)))
    return condition + sum(len(text) + 3 for text in texts) + len('{"Effect":"Allow","Action":[],"Resource":[]},')


def queue_arn(needed: Deployment, name: str) -> Arn:
    """Return the ARN of a queue of the deployment, by its short name."""
    queue = needed.queue(name)
    return Arn("sqs", queue.name) if queue.arn is None else Arn(whole=queue.arn)


def table_arn(name: str) -> Arn:
    """Return the ARN of a table."""
    return Arn(whole=name) if name.startswith("arn:") else Arn("dynamodb", f"table/{name}")


def role_arn(role: str) -> Arn:
    """Return the ARN of a role from its name, with its path, or from its ARN."""
    return Arn(whole=role) if role.startswith("arn:") else Arn("iam", f"role/{role}", region=False)


def stream_arn(place: str) -> Arn:
    """Return the ARN of a stream from what a permission calls it. A table's streams have all the same one."""
    if place.startswith("arn:"):
        return Arn(whole=place)
    return Arn("dynamodb" if place.startswith("table/") else "kinesis", place)


def codec_key_arn(key: str) -> Arn:
    """Return the ARN of a codec's key. An alias stands for any key of its account, which a condition narrows."""
    is_alias = alias_of(key) is not None
    if key.startswith("arn:"):
        return Arn(whole=f"{':'.join(key.split(':')[:5])}:key/*" if is_alias else key)
    return Arn("kms", "key/*" if is_alias else f"key/{key}")


def rule_name(queue: str, bus: Bus) -> str:
    """Return the name of the rule that sends events of a bus to a queue."""
    return f"flowguard-{hashlib.sha256(f'{queue} {bus}'.encode()).hexdigest()[:32]}"


def rule_arn(queue: str, bus: Bus) -> Arn:
    """Return the ARN of that rule. One of the bus ``default`` does not name its bus."""
    return Arn("events", rule_place(rule_name(queue, bus), bus.name))


def rule_place(name: str, bus: str) -> str:
    """Return the last part of the ARN of a rule, by its name and by the name or ARN of its bus."""
    short = bus.rpartition("/")[2]
    return f"rule/{name}" if short == DEFAULT_BUS else f"rule/{short}/{name}"


def _arn(needed: Deployment, permission: Permission) -> Arn:
    name = permission.name
    match permission.on:
        case Target.QUEUE:
            given = arn_of(Queue(name))
            return Arn("sqs", name) if given is None else Arn(whole=given)
        case Target.TABLE:
            return table_arn(name)
        case Target.STREAM:
            return stream_arn(name)
        case Target.TOPIC | Target.NETWORK | Target.TRACES | Target.KEY | Target.DATABASE | Target.DATABASE_USER:
            return Arn(whole=name)
        case Target.CODEC_KEY:
            return codec_key_arn(name)
        case Target.OBJECTS | Target.BUCKET:
            place = name if permission.on is Target.OBJECTS else name.partition("/")[0]
            return Arn("s3", place, region=False, account=False)
        case Target.SCHEDULER_ROLE:
            return role_arn(name) if name else SCHEDULER_ROLE
        case Target.BUS | Target.FUNCTION | Target.PARAMETER | Target.SECRET | Target.SCHEDULES | Target.LOGS:
            return Arn(whole=name) if name.startswith("arn:") else _of_kind(permission.on, name)
        case _:
            assert_never(permission.on)


def _of_kind(on: Target, name: str) -> Arn:
    forms = {
        Target.BUS: Arn("events", f"event-bus/{name}"),
        Target.FUNCTION: Arn("lambda", f"function:{name}"),
        Target.PARAMETER: Arn("ssm", f"parameter/{name.removeprefix('/')}"),
        Target.SECRET: Arn("secretsmanager", f"secret:{name}-??????"),
        Target.SCHEDULES: Arn("scheduler", f"schedule/{name}/*"),
        Target.LOGS: Arn("logs", f"log-group:/aws/lambda/{name}:*"),
    }
    return forms[on]

"""The statements that the policy of a customer's key needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from flowguard.deploy.arns import Arn, queue_arn
from flowguard.deploy.key_uses import READS, SENDS, only_through, through
from flowguard.deploy.needs import Deployment, Permission, QueueNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.template import OF_SCHEDULE, POLICY_VERSION, S3

Statement = Mapping[str, Any]

_OF_LOGS: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_MADE_THROUGH: Final = ("dynamodb", "lambda", "secretsmanager", "sns", "sqs")


_FEEDING: Final[Mapping[str, tuple[str, Callable[[QueueNeed], tuple[str, ...]]]]] = {
    "Topics": ("sns.amazonaws.com", lambda queue: (queue.name, *queue.undelivered) if queue.topics else ()),
    "Rules": ("events.amazonaws.com", lambda queue: (queue.name, *queue.undelivered) if queue.rules else ()),
    "Notices": (S3, lambda queue: (queue.name,) if queue.buckets else ()),
}
"""The services that send to queues in their own name. Each with the queues to which it sends for one that it feeds."""


def key_policies(needed: Deployment, options: DeployOptions) -> str:
    """Return the statements that the policies of a deployment's keys need, as JSON.

    Raises :class:`CannotDeploy` where it uses none, or one that another stack exports.
    """
    if not (keys := keys_of(needed)):
        raise CannotDeploy("the key policy", ('no key is used; say kms_key = "arn:…" in the options',))
    if imported := [str(options.imports[key]) for key in keys if key in options.imports]:
        problem = f"which key {', '.join(imported)} is, the deployment tells; here say the ARN, which has its region"
        raise CannotDeploy("the key policy", (problem,))
    return json.dumps({key: key_policy(needed, key, options.account) for key in keys}, indent=2)


def key_policy(needed: Deployment, key: str, account: str | None = None) -> Statement:
    """Return what a deployment needs in the policy of a key.

    ``account`` is the deployment's, where that is not the key's.
    """
    _, partition, _, region, owner, _ = key.split(":", 5)
    place = (partition, region, owner if account is None else account)
    statements = [*_of_account(needed, key, place), *_of_services(needed, key, place)]
    return {"Version": POLICY_VERSION, "Statement": statements}


def keys_of(needed: Deployment) -> Sequence[str]:
    """Return the keys that a deployment uses."""
    return sorted({permission.name for permission in _on_keys(needed)})


def _of_account(needed: Deployment, key: str, place: tuple[str, str, str]) -> Iterator[Statement]:
    """Yield what the account's policies may allow its roles."""
    root = f"arn:{place[0]}:iam::{place[2]}:root"
    whole: dict[str, Any] = {"Effect": "Allow", "Principal": {"AWS": root}}
    uses = [permission for permission in _on_keys(needed) if permission.name == key]
    actions = sorted({action for permission in uses for action in permission.actions} | {*SENDS})
    services = sorted({service for permission in uses for service in permission.via} | {"sqs"})
    yield _named("Functions", whole, actions, {"StringEquals": only_through(key, services)})
    if needed.kms_key != key:
        return
    grants = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    making = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    making_through = [*_MADE_THROUGH, *(["scheduler"] if needed.schedules else [])]
    yield _named("WhoDeploys", whole, making, {"StringEquals": {"kms:ViaService": through(key, making_through)}})
    yield _named("WhoDeploysGrants", whole, ["kms:CreateGrant"], grants)
    if needed.has_scheduler:
        schedules = Arn("scheduler", f"schedule/{needed.scheduler_group}/*").filled(*place)
        yield _named("SchedulesAreSent", whole, [*READS], {"ArnLike": {OF_SCHEDULE: schedules}})


def _of_services(needed: Deployment, key: str, place: tuple[str, str, str]) -> Iterator[Statement]:
    """Yield the statements for services that act in their own name."""
    if needed.kms_key == key and needed.functions:
        names = [function.name for function in needed.functions]
        groups = [Arn("logs", f"log-group:/aws/lambda/{name}").filled(*place) for name in names]
        condition = {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": groups}}
        yield _named("Logs", _service(f"logs.{place[1]}.amazonaws.com"), _OF_LOGS, condition)
    for name, (service, feeds) in _FEEDING.items():
        fed = dict.fromkeys(each for queue in needed.queues for each in feeds(queue))
        under_key = [each for each in fed if needed.queue(each).kms_key == key]
        if queues := [queue_arn(needed, each).filled(*place) for each in under_key]:
            condition = {"ArnEquals": {"kms:EncryptionContext:aws:sqs:arn": queues}}
            yield _named(name, _service(service), SENDS, condition)
    yield from _of_topics(needed, key)


def _of_topics(needed: Deployment, key: str) -> Iterator[Statement]:
    """Yield the statement for what buckets publish to topics under a key."""
    if topics := [topic.arn for topic in needed.topics if topic.buckets and topic.kms_key == key]:
        condition = {"ArnEquals": {"kms:EncryptionContext:aws:sns:topicArn": topics}}
        yield _named("NoticesToTopics", _service(S3), SENDS, condition)


def _on_keys(needed: Deployment) -> Iterator[Permission]:
    """Yield the permissions of all functions on keys."""
    for function in needed.functions:
        yield from (permission for permission in function.permissions if permission.on is Target.KEY)


def _service(name: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": {"Service": name}}


def _named(name: str, principal: Mapping[str, Any], actions: Sequence[str], condition: Mapping[str, Any]) -> Statement:
    return {"Sid": name, **principal, "Action": [*actions], "Resource": "*", "Condition": condition}

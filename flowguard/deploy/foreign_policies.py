"""The statements that a deployment needs in the policies of other accounts' resources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flowguard.deploy.arns import POLICY_VERSION, queue_arn, table_arn
from flowguard.deploy.codec_uses import alias_of
from flowguard.deploy.key_policy import ALARMS, key_statements, keys_of, of_codecs, on_keys
from flowguard.deploy.needs import Deployment, Permission, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import arn_of, partition_of
from flowguard.deploy.statement_names import of_environment
from flowguard.destinations import Queue

Statement = Mapping[str, Any]

LOOKS_AT_TOPIC: Final = ("sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic")
"""What CloudFormation does with a topic as it makes, reads and removes a subscription, and ``flowguard doctor`` too."""


def policies_of_others(needed: Deployment, options: DeployOptions) -> str:
    """Return the statements as JSON, by the ARNs of the resources.

    Raises :class:`CannotDeploy` where the options do not name the account of the deployment.
    """
    if options.account is None:
        raise CannotDeploy("the policies of others", ('say account = "…" in the options: it is deployed to that',))
    partition = "aws" if options.region is None else partition_of(options.region)
    by_arn: dict[str, list[Statement]] = {}
    of_functions, of_topics = _used(needed, options.account, partition), _subscribed(needed, options.account)
    of_keys = (*_of_keys(needed, options), *_by_alias(needed, options.account, partition))
    for arn, statement in (*of_functions, *of_topics, *_alarmed(options), *of_keys):
        if _is_of_another(arn, options):
            by_arn.setdefault(arn, []).append(statement)
    policies = {
        arn: {"Version": POLICY_VERSION, "Statement": [*of_environment(_numbered(statements), needed.at_aws.rule)]}
        for arn, statements in sorted(by_arn.items())
    }
    return json.dumps(policies, indent=2)


def _allowing(name: str, account: str, actions: Sequence[str], resource: str) -> dict[str, Any]:
    """Return the statement that allows it to the roles of an account whose own policies do."""
    return {
        "Sid": name,
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:{resource.split(':')[1]}:iam::{account}:root"},
        "Action": [*actions],
        "Resource": resource,
    }


def _numbered(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements with a ``Sid`` each: a policy may have none twice."""
    times: Counter[str] = Counter()
    for statement in statements:
        name = statement["Sid"]
        times[name] += 1
        yield {**statement, "Sid": name if times[name] == 1 else f"{name}{times[name]}"}


def _is_of_another(arn: str, options: DeployOptions) -> bool:
    """Answer whether a resource is of another account. The ARN of a bucket does not say."""
    if arn.split(":")[2] == "s3":
        return options.settings.bucket_owner not in (None, options.account)
    return arn.split(":")[4] != options.account


def _used(needed: Deployment, account: str, partition: str) -> Iterator[tuple[str, Statement]]:
    """Yield what the functions do with each resource that is named by its ARN."""
    actions: dict[tuple[str, str], set[str]] = {}
    for function in needed.functions:
        for permission in function.permissions:
            if (place := _place(permission, partition)) is not None:
                actions.setdefault(place, set()).update(permission.actions)
    for (arn, resource), allowed in sorted(actions.items()):
        yield arn, _allowing("Functions", account, sorted(allowed), resource)


def _place(permission: Permission, partition: str) -> tuple[str, str] | None:
    """Return the ARN of the resource with the policy, and that of what is used of it. Buckets are of ``partition``."""
    name = permission.name
    match permission.on:
        case Target.QUEUE:
            given = arn_of(Queue(name))
            return None if given is None else (given, given)
        case Target.TABLE:
            whole = table_arn(name).whole
            return None if whole is None else (whole, whole)
        case Target.TOPIC | Target.BUS | Target.FUNCTION | Target.SECRET:
            return (name, name) if name.startswith("arn:") else None
        case Target.STREAM:
            return (name, name) if name.startswith("arn:") and ":kafka:" not in name else None
        case Target.OBJECTS:
            return f"arn:{partition}:s3:::{name.partition('/')[0]}", f"arn:{partition}:s3:::{name}"
        case Target.BUCKET:
            bucket = f"arn:{partition}:s3:::{name.partition('/')[0]}"
            return bucket, bucket
        case _:
            return None


def _of_keys(needed: Deployment, options: DeployOptions) -> Iterator[tuple[str, Statement]]:
    """Yield what each key needs: a customer's key of resources, or that of a codec."""
    for key in keys_of(needed, options):
        if key not in options.imports:
            yield from ((key, statement) for statement in key_statements(needed, key, options))


def _by_alias(needed: Deployment, account: str, partition: str) -> Iterator[tuple[str, Statement]]:
    """Yield what the functions do with each key of a codec that has the ARN of an alias of it."""
    names = {each.name for each in on_keys(needed, Target.CODEC_KEY)}
    for arn in sorted(name for name in names if name.startswith("arn:") and alias_of(name) is not None):
        for statement in of_codecs(needed, arn, (partition, arn.split(":")[3], account)):
            yield arn, statement


def _subscribed(needed: Deployment, account: str) -> Iterator[tuple[str, Statement]]:
    """Yield what subscribes queues to topics as the template is deployed."""
    for topic in needed.topics:
        queues = [queue.name for queue in needed.queues if topic.arn in queue.topics]
        _, partition, _, region, *_ = topic.arn.split(":")
        endpoints = [queue_arn(needed, name).filled(partition, region, account) for name in queues]
        if endpoints:
            bounded = {"StringEquals": {"sns:Protocol": "sqs", "sns:Endpoint": endpoints}}
            subscribing = _allowing("Subscriptions", account, ["sns:Subscribe"], topic.arn)
            yield topic.arn, {**subscribing, "Condition": bounded}
            yield topic.arn, _allowing("SubscriptionsAreRead", account, LOOKS_AT_TOPIC, topic.arn)


def _alarmed(options: DeployOptions) -> Iterator[tuple[str, Statement]]:
    """Yield what lets the alarms of the account publish to their topic."""
    if options.alarm_topic is not None:
        topic = options.alarm_topic.arn
        _, partition, _, region, *_ = topic.split(":")
        alarms = f"arn:{partition}:cloudwatch:{region}:{options.account}:alarm:*"
        yield (
            topic,
            {
                "Sid": "AlarmsAreSent",
                "Effect": "Allow",
                "Principal": {"Service": ALARMS},
                "Action": ["sns:Publish"],
                "Resource": topic,
                "Condition": {"ArnLike": {"aws:SourceArn": alarms}},
            },
        )

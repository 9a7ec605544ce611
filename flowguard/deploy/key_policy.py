"""The statements that the policy of a customer's key needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from flowguard.deploy.arns import POLICY_VERSION, S3, Arn, queue_arn
from flowguard.deploy.closed_queues import accounts_of, given_senders, is_closed, senders_elsewhere
from flowguard.deploy.codec_uses import ALIAS, FLOW, OF_ENVIRONMENT, alias_of
from flowguard.deploy.key_uses import READS, SENDS, grouped, only_through
from flowguard.deploy.needs import Deployment, Permission, QueueNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import domain_of
from flowguard.deploy.resource_policies import one_or_all, size_of
from flowguard.deploy.scheduler_permissions import OF_SCHEDULE
from flowguard.deploy.statement_names import of_environment

Statement = Mapping[str, Any]

LARGEST_KEY_POLICY: Final = 32_768
"""Bytes of the policy of a key."""

_OF_LOGS: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")

OF_QUEUE: Final = "kms:EncryptionContext:aws:sqs:arn"
"""The condition key that names the queue that a key is used for."""

OF_TOPIC: Final = "kms:EncryptionContext:aws:sns:topicArn"
"""The condition key that names the topic that a key is used for."""

ALARMS: Final = "cloudwatch.amazonaws.com"
"""The alarms of CloudWatch, as a principal."""


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
    if not (keys := keys_of(needed, options)):
        raise CannotDeploy("the key policy", ('no key is used; say kms_key = "arn:…" in the options',))
    if imported := [str(options.imports[key]) for key in keys if key in options.imports]:
        problem = f"which key {', '.join(imported)} is, the deployment tells; here say the ARN, which has its region"
        raise CannotDeploy("the key policy", (problem,))
    policies = {key: key_policy(needed, key, options) for key in keys}
    sizes = {key: size_of(policy) for key, policy in policies.items()}
    if large := tuple(_too_large(key, size) for key, size in sizes.items() if size > LARGEST_KEY_POLICY):
        raise CannotDeploy("the key policy", large)
    return json.dumps(policies, indent=2)


def key_policy(needed: Deployment, key: str, options: DeployOptions) -> Statement:
    """Return what a deployment needs in the policy of a key."""
    statements = of_environment([*key_statements(needed, key, options)], needed.at_aws.rule)
    return {"Version": POLICY_VERSION, "Statement": [*statements]}


def key_statements(needed: Deployment, key: str, options: DeployOptions) -> Iterator[Statement]:
    """Yield what a deployment needs in the policy of a key.

    The ``account`` of the options is the deployment's, where that is not the key's.
    """
    _, partition, _, region, owner, _ = key.split(":", 5)
    place = (partition, region, owner if options.account is None else options.account)
    yield from _of_functions(needed, key, place)
    yield from _of_senders(needed, key, options, place)
    yield from _of_who_deploys(needed, key, place)
    yield from _of_services(needed, key, place)
    yield from _of_alarms(key, options)
    yield from of_codecs(needed, key, place)


def _too_large(key: str, size: int) -> str:
    return (
        f"the statements for {key} take {size:,} bytes, and KMS takes a policy of {LARGEST_KEY_POLICY:,}; give some of "
        "the queues a key of their own (kms_key), or let several senders assume one role"
    )


def keys_of(needed: Deployment, options: DeployOptions) -> Sequence[str]:
    """Return the keys that a deployment uses."""
    alarms = options.alarm_topic.kms_key if options.alarm_topic is not None else None
    named = {each.name for each in on_keys(needed, Target.CODEC_KEY)}
    codecs = {name for name in named if name.startswith("arn:") and alias_of(name) is None}
    return sorted({each.name for each in on_keys(needed)} | codecs | ({alarms} if alarms is not None else set()))


_Place = tuple[str, str, str]
"""The partition, region and account of the deployment."""


def _account(place: _Place) -> dict[str, Any]:
    """Return the principal that stands for what the account's own policies allow."""
    return {"Effect": "Allow", "Principal": {"AWS": f"arn:{place[0]}:iam::{place[2]}:root"}}


def _of_functions(needed: Deployment, key: str, place: _Place) -> Iterator[Statement]:
    """Yield what the account's policies may allow the roles of functions, through each service as much as it takes."""
    used = [(key, via, each.actions) for each in on_keys(needed) if each.name == key for via in each.via]
    for permission in grouped(used):
        name = "Functions" + "".join(service.title() for service in permission.via)
        yield _named(name, _account(place), permission.actions, {"StringEquals": only_through(key, permission.via)})


def _of_senders(needed: Deployment, key: str, options: DeployOptions, place: _Place) -> Iterator[Statement]:
    """Yield what other senders to queues under the key may do."""
    through_sqs = {"StringEquals": only_through(key, ["sqs"])}
    made = [queue for queue in needed.queues if queue.kms_key == key and queue.made]
    if queues := [queue_arn(needed, queue.name).filled(*place) for queue in made if _takes(queue, needed, options)]:
        yield _named("Senders", _account(place), SENDS, {**through_sqs, "ArnEquals": {OF_QUEUE: queues}})
    elsewhere = {queue.name: roles for queue in made if (roles := senders_elsewhere(queue, options))}
    if roles := list(dict.fromkeys(role for each in elsewhere.values() for role in each)):
        queues = [queue_arn(needed, name).filled(*place) for name in elsewhere]
        condition = {**through_sqs, "ArnEquals": {"aws:PrincipalArn": roles, OF_QUEUE: queues}}
        whose = {"Effect": "Allow", "Principal": {"AWS": one_or_all(accounts_of(roles))}}
        yield _named("SendersElsewhere", whose, SENDS, condition)


def _takes(queue: QueueNeed, needed: Deployment, options: DeployOptions) -> bool:
    """Answer whether anybody else of the account sends to a queue, beside functions."""
    if queue in needed.schedule_targets() or queue.name in needed.undelivered_by_scheduler:
        return True
    return not is_closed(queue, options) or bool(given_senders(queue, options))


def _of_who_deploys(needed: Deployment, key: str, place: _Place) -> Iterator[Statement]:
    """Yield the statements for a deployment itself, and for the scheduler."""
    if making := [*_made_under(needed, key)]:
        actions = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
        yield _named("WhoDeploys", _account(place), actions, {"StringEquals": only_through(key, making)})
    if {"dynamodb", "lambda"} & {*making}:
        grants: dict[str, Any] = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        if "lambda" not in making:  # no page says that Lambda asks for grants in a way that kms:ViaService sees
            grants["StringEquals"] = only_through(key, ["dynamodb"])
        yield _named("WhoDeploysGrants", _account(place), ["kms:CreateGrant"], grants)
    if needed.kms_key == key and needed.has_scheduler:
        schedules = Arn("scheduler", f"schedule/{needed.scheduler_group}/*").filled(*place)
        yield _named("SchedulesAreSent", _account(place), [*READS], {"ArnLike": {OF_SCHEDULE: schedules}})


def _made_under(needed: Deployment, key: str) -> Iterator[str]:
    """Yield the services in which the template makes something under the key."""
    is_its = needed.kms_key == key
    made = {
        "dynamodb": any(table.kms_key == key and not table.existing for table in needed.tables),
        "lambda": is_its and bool(needed.functions),
        "secretsmanager": is_its and needed.signing_secret is not None,
        "sns": any(topic.kms_key == key and not topic.existing for topic in needed.topics),
        "sqs": any(queue.kms_key == key and queue.made for queue in needed.queues),
        "scheduler": is_its and bool(needed.schedules),
    }
    return (service for service, is_made in made.items() if is_made)


def _of_services(needed: Deployment, key: str, place: _Place) -> Iterator[Statement]:
    """Yield the statements for services that act in their own name."""
    if needed.kms_key == key and needed.functions:
        names = [function.name for function in needed.functions]
        groups = [Arn("logs", f"log-group:/aws/lambda/{name}").filled(*place) for name in names]
        condition = {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": groups}}
        yield _named("Logs", _service(f"logs.{place[1]}.{domain_of(place[0])}"), _OF_LOGS, condition)
    for name, (service, feeds) in _FEEDING.items():
        fed = dict.fromkeys(each for queue in needed.queues for each in feeds(queue))
        under_key = [each for each in fed if needed.queue(each).kms_key == key]
        if queues := [queue_arn(needed, each).filled(*place) for each in under_key]:
            yield _named(name, _service(service), SENDS, {"ArnEquals": {OF_QUEUE: queues}})
    yield from _of_topics(needed, key)


def _of_alarms(key: str, options: DeployOptions) -> Iterator[Statement]:
    """Yield the statement for what CloudWatch publishes to the topic of the alarms."""
    topic = options.alarm_topic
    if topic is not None and topic.kms_key == key:
        yield _named("AlarmsAreSent", _service(ALARMS), SENDS, {"ArnEquals": {OF_TOPIC: [topic.arn]}})


def _of_topics(needed: Deployment, key: str) -> Iterator[Statement]:
    """Yield the statement for what buckets publish to topics under a key."""
    if topics := [topic.arn for topic in needed.topics if topic.buckets and topic.kms_key == key]:
        condition = {"ArnEquals": {OF_TOPIC: topics}}
        yield _named("NoticesToTopics", _service(S3), SENDS, condition)


def of_codecs(needed: Deployment, key: str, place: _Place) -> Iterator[Statement]:
    """Yield what roles may do with the key of a codec, for their flows alone.

    ``key`` is its ARN, or that of an alias of it, as the codec has it: then it may be used by that alias.
    """
    uses: dict[tuple[str, ...], set[str]] = {}
    for permission in on_keys(needed, Target.CODEC_KEY):
        if permission.name in (key, key.rpartition("/")[2]):
            uses.setdefault(permission.via, set()).update(permission.actions)
    for number, (flows, actions) in enumerate(sorted(uses.items())):
        context: dict[str, Any] = {FLOW: [*flows], OF_ENVIRONMENT: needed.at_aws.rule}
        if (alias := alias_of(key)) is not None:
            context[ALIAS] = alias
        yield _named(f"Codecs{number or ''}", _account(place), sorted(actions), {"StringEquals": context})


def on_keys(needed: Deployment, on: Target = Target.KEY) -> Iterator[Permission]:
    """Yield the permissions of all functions on keys of a kind."""
    for function in needed.functions:
        yield from (permission for permission in function.permissions if permission.on is on)


def _service(name: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": {"Service": name}}


def _named(name: str, principal: Mapping[str, Any], actions: Sequence[str], condition: Mapping[str, Any]) -> Statement:
    return {"Sid": name, **principal, "Action": [*actions], "Resource": "*", "Condition": condition}

"""The policies of queues and topics, which say what services and roles of other accounts may send there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from flowguard.deploy.arns import LARGEST_POLICY, POLICY_VERSION, S3, Arn, queue_arn, role_arn, rule_arn
from flowguard.deploy.closed_queues import SENDING, accounts_of, given_senders, is_closed, senders_elsewhere
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Role, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import partition_of
from flowguard.deploy.scheduler_permissions import References as SchedulerReferences
from flowguard.deploy.scheduler_permissions import scheduler_statements

Json = dict[str, Any]

LARGEST_QUEUE_POLICY: Final = 8_192
"""Bytes of the policy of a queue."""

MOST_PRINCIPALS: Final = 50
"""Principals in the policy of a queue."""

LARGEST_TOPIC_POLICY: Final = 30_000
"""Bytes of the policy of a topic: 30 KB, of whatever bytes."""

_LONGEST_ROLE: Final = 64
"""Characters of a role's name."""

_LONGEST_PARTITION, _LONGEST_REGION = "aws-us-gov", "ap-southeast-1"


class References(Protocol):
    """What a policy names. In a template these are references to its resources."""

    def queue_arn(self, name: str) -> Any: ...

    def topic_arn(self, topic: TopicNeed) -> Any: ...

    def arn(self, arn: Arn) -> Any: ...

    def text(self, text: str) -> str: ...

    def account_reference(self) -> Any: ...

    def function_role_reference(self, function: FunctionNeed, /) -> Any: ...

    def scheduler_role_arn(self) -> Any: ...


class ResourcePolicies:
    """The policies of a deployment's queues and topics, with the references of a template.

    Statements that differ in one name alone are one with a list: a queue takes 20 with 10 conditions.
    """

    def __init__(self, needed: Deployment, options: DeployOptions, references: References) -> None:
        self._needed = needed
        self._options = options
        self._names = references

    def of_queues(self) -> Iterator[tuple[QueueNeed, Json]]:
        """Yield the queues that get a policy, each with it."""
        feeding = self._feeding()
        for queue in sorted(self._needed.queues, key=lambda queue: queue.name):
            if queue.made and (statements := [*self._statements(queue, feeding.get(queue.name, {}))]):
                yield queue, {"Version": POLICY_VERSION, "Statement": statements}

    def of_topic(self, topic: TopicNeed) -> Json:
        """Return the policy by which buckets publish to a topic, as long as they are of this account."""
        buckets = list(map(self._bucket, topic.buckets))
        return {
            "Version": POLICY_VERSION,
            "Statement": [self._of_service(S3, "sns:Publish", self._names.topic_arn(topic), buckets)],
        }

    def _feeding(self) -> Mapping[str, Mapping[str, list[Any]]]:
        """Return the services that send to each queue, each with its topics, rules or buckets."""
        feeding: dict[str, dict[str, list[Any]]] = {}
        for queue in self._needed.queues:
            for service, source, fifo in self._sources(queue):
                kept_in = () if fifo is None else (self._needed.undelivered(queue, fifo=fifo).name,)
                for name in dict.fromkeys((queue.name, *kept_in)):
                    feeding.setdefault(name, {}).setdefault(service, []).append(source)
        return feeding

    def _statements(self, queue: QueueNeed, feeding: Mapping[str, list[Any]]) -> Iterator[Json]:
        arn = self._names.queue_arn(queue.name)
        for service, sources in feeding.items():
            yield self._of_service(service, "sqs:SendMessage", arn, sources)
        if elsewhere := senders_elsewhere(queue, self._options):
            yield {
                "Effect": "Allow",
                "Principal": {"AWS": one_or_all(accounts_of(elsewhere))},
                "Action": [*SENDING],
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:PrincipalArn": [*map(self._names.text, elsewhere)]}},
            }
        if is_closed(queue, self._options):
            moved = bool(feeding) or queue.role in (Role.KILLED, Role.DEAD_LETTERS)
            yield {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:SendMessage",
                "Resource": arn,
                **_but(self._allowed_roles(queue), moved=moved),
            }

    def _of_service(self, service: str, action: str, arn: Any, sources: Sequence[Any]) -> Json:
        """Return the statement that lets a service act for these topics, rules or buckets.

        The ARN of a bucket names no account, so there a condition does: that the bucket is still of this one.
        """
        owned = {"StringEquals": {"aws:SourceAccount": self._names.account_reference()}} if service == S3 else {}
        return {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": action,
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": one_or_all(sources)}} | owned,
        }

    def _sources(self, queue: QueueNeed) -> Iterator[tuple[str, Any, bool | None]]:
        """Yield the service and ARN of what feeds a queue, and the kind of the queue of what it cannot deliver.

        Of a bucket that is None: S3 keeps nothing.
        """
        for arn in queue.topics:
            topic = self._needed.topic(arn)
            yield "sns.amazonaws.com", self._names.topic_arn(topic), topic.fifo
        for bus in queue.rules:
            yield "events.amazonaws.com", self._names.arn(rule_arn(queue.name, bus)), False
        for bucket in queue.buckets:
            yield S3, self._bucket(bucket), None

    def _bucket(self, name: str) -> Any:
        """Return the ARN of a bucket."""
        return self._names.arn(Arn("s3", name, region=False, account=False))

    def _allowed_roles(self, queue: QueueNeed) -> list[Any]:
        """Return the roles that a closed queue takes messages of."""
        senders = [*self._needed.senders(queue.name)]
        roles = [self._names.function_role_reference(each) for each in senders if each.role is None]
        if queue in self._needed.schedule_targets() or queue.name in self._needed.undelivered_by_scheduler:
            roles.append(self._names.scheduler_role_arn())
        named = [each.role for each in senders if each.role is not None]
        named += given_senders(queue, self._options)
        return [*roles, *map(self._names.arn, dict.fromkeys(map(role_arn, named)))]


def _but(roles: Sequence[Any], *, moved: bool) -> Json:
    """Return the condition of a statement that denies, so that it leaves out these roles.

    A service that sends in its own name has no role, and is denied. Where SQS itself moves messages to the queue
    (``moved``), or a topic or rule feeds it, only requests are denied that are no service's: moves say no principal.
    """
    named = {"aws:PrincipalArn": [*roles]}
    if moved:
        compared = {"ArnNotEquals": named} if roles else {}
        return {"Condition": {"Bool": {"aws:PrincipalIsAWSService": "false"}, **compared}}
    return {"Condition": {"ArnNotEqualsIfExists": named}} if roles else {}


def one_or_all(values: Sequence[Any]) -> Any:
    """Return what a policy has for these values: a list only of several."""
    return [*values] if len(values) > 1 else values[0]


# -- what AWS takes ---------------------------------------------------------------------------------------------------


def check_sizes(needed: Deployment, options: DeployOptions) -> None:
    """Raise :class:`CannotDeploy` with the policies that may be larger than AWS takes.

    They are those of queues and topics, and that of the scheduler's role, where one is made.
    """
    longest = _Longest(needed, options)
    policies = ResourcePolicies(needed, options, longest)
    problems = [problem for queue, policy in policies.of_queues() for problem in _of_queue(queue.name, policy)]
    for topic in needed.topics:
        size = size_of(policies.of_topic(topic)) if topic.buckets and not topic.existing else 0
        if size > LARGEST_TOPIC_POLICY:
            problems.append(
                f"the policy of {topic.name} may take {size:,} bytes for {len(topic.buckets)} buckets, and SNS takes "
                f"{LARGEST_TOPIC_POLICY:,}; let some of the buckets tell another topic"
            )
    if needed.makes_scheduler_role:
        problems += _of_scheduler(needed, longest, "" if options.region else 'say region = "…", which may be shorter; ')
    if problems:
        raise CannotDeploy("the policies of the deployment", tuple(problems))


def scheduler_policy(needed: Deployment, names: SchedulerReferences) -> Json:
    """Return the policy of the role that is made for EventBridge Scheduler."""
    return {"Version": POLICY_VERSION, "Statement": [*scheduler_statements(needed, names)]}


def _of_scheduler(needed: Deployment, longest: SchedulerReferences, fix: str) -> Iterator[str]:
    policy = scheduler_policy(needed, longest)
    if (size := size_of(policy)) > LARGEST_POLICY:
        yield (
            f"the policy of the role of the scheduler may take {size:,} characters for "
            f"{len(policy['Statement'][0]['Resource'])} queues, and IAM takes {LARGEST_POLICY:,}; {fix}deploy some "
            "of the flows apart, or name a role of yours as scheduler_role of [settings]"
        )


def size_of(policy: Mapping[str, Any]) -> int:
    """Return the bytes of a policy, without white space."""
    return len(json.dumps(policy, separators=(",", ":"), ensure_ascii=False).encode())


def _of_queue(name: str, policy: Json) -> Iterator[str]:
    size = size_of(policy)
    principals = sum(map(_principals, policy["Statement"]))
    fix = "let several of them assume one role, and name that alone"
    if size > LARGEST_QUEUE_POLICY:
        yield (
            f"the policy of {name} may take {size:,} bytes for the roles, topics, rules and buckets that send there, "
            f"and SQS takes {LARGEST_QUEUE_POLICY:,}; {fix}"
        )
    elif principals > MOST_PRINCIPALS:
        yield (
            f"the policy of {name} names {principals} principals, most of them accounts of senders and operators, and "
            f"SQS takes {MOST_PRINCIPALS}; {fix}"
        )


def _principals(statement: Json) -> int:
    named = statement["Principal"]
    accounts = named.get("AWS", "") if isinstance(named, dict) else named
    return len(accounts) if isinstance(accounts, list) else 1


class _Longest:
    """References as long as they may be at AWS. A template makes the names of its roles, so these are not known."""

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self._needed = needed
        region = options.region
        partition = _LONGEST_PARTITION if region is None else partition_of(region)
        self._place = (partition, _LONGEST_REGION if region is None else region, self.account_reference())
        self._role = Arn("iam", f"role{options.role_path}{'r' * _LONGEST_ROLE}", region=False)

    def queue_arn(self, name: str) -> str:
        return self.arn(queue_arn(self._needed, name))

    def topic_arn(self, topic: TopicNeed) -> str:
        return topic.arn

    def arn(self, arn: Arn) -> str:
        return arn.filled(*self._place)

    def text(self, text: str) -> str:
        return text

    def account_reference(self) -> str:
        return "1" * 12

    def function_role_reference(self, _: FunctionNeed) -> str:
        return self.arn(self._role)

    def scheduler_role_arn(self) -> str:
        return self.arn(self._role)

"""The template of a deployment, whatever its language. It has the resources and their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowguard.aws.indexed_runs import INDEX_KEY
from flowguard.deploy.alarms import LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import SCHEDULER_ROLE, Arn, queue_arn, role_arn, rule_arn, statements_of, stream_arn
from flowguard.deploy.closed_queues import SENDING, given_senders, is_closed, senders_elsewhere
from flowguard.deploy.key_uses import READS, SENDS, only_through
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import (
    ANSWERS_URL,
    Deployment,
    FunctionNeed,
    QueueNeed,
    Role,
    ScheduleNeed,
    StreamNeed,
    TableNeed,
    TopicNeed,
)
from flowguard.deploy.options import DeployOptions
from flowguard.destinations import Bus

Json = dict[str, Any]

POLICY_VERSION: Final = "2012-10-17"
"""The version of IAM's policy language."""

TAG: Final = "flowguard"
"""The key of the tag that names the flow of a resource, or the rule of ``@once``.

``flowguard doctor`` finds queues by it that are left over.
"""

VIEW: Final = "NEW_AND_OLD_IMAGES"
"""What the stream of a table shows of a change."""

SYSTEM_LOG_LEVEL: Final = "INFO"
"""Of Lambda's own lines, which have how long each invocation took."""

S3: Final = "s3.amazonaws.com"
"""S3, as a principal."""

ABOUT_SCHEDULER: Final = "The ARN of the role with which EventBridge Scheduler sends messages."

OF_SCHEDULE: Final = "kms:EncryptionContext:aws:scheduler:schedule:arn"
"""The condition key that names a schedule with an encrypted message."""

LOOPS: Final = "Allow"
"""Of a function's loop detection, which otherwise stops a chain of requests after about 16 of its invocations."""


class Template(ABC):
    """Adds the resources of a deployment. Each language is a subclass.

    The type of a reference to another resource is the language's own.
    """

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self.needed = needed
        self.options = options
        self.ids = LogicalIds()
        self._policies: set[str] = set()

    def add_resources(self) -> None:
        """Add everything that is needed and not there yet."""
        self._add_tables_queues_and_topics()
        if self.needed.signing_secret is not None:
            self.add_secret(self.needed.signing_secret)
        self._add_senders()
        if self.needed.has_scheduler:
            self._add_scheduler()
        for function in self.needed.functions:
            self._add_function(function)
        for metric in metrics_of(self.needed):
            self.add_metric(metric)
        for alarm in alarms_of(self.needed, self.options.oldest_message):
            self.add_alarm(alarm)

    def tagged(self, owner: str) -> dict[str, str]:
        """Return the tags of a resource of a flow, or of several."""
        return {**self.options.tags, TAG: owner}

    # -- tables, queues, topics

    def _add_tables_queues_and_topics(self) -> None:
        for table in self.needed.tables:
            if not table.existing:
                self.add_table(table)
        for queue in self.needed.queues:
            if queue.made:
                self.add_queue(queue, self._redrive_policy(queue))
        for topic in self.needed.topics:
            if not topic.existing:
                self.add_topic(topic)
            if not topic.existing and topic.buckets:
                self.add_topic_policy(topic, self._bucket_policy(topic))

    @abstractmethod
    def add_table(self, table: TableNeed) -> None: ...

    @abstractmethod
    def add_queue(self, queue: QueueNeed, redrive_policy: Json | None) -> None: ...

    @abstractmethod
    def add_topic(self, topic: TopicNeed) -> None: ...

    def _bucket_policy(self, topic: TopicNeed) -> Json:
        """Return the policy by which buckets publish to a topic, as long as they are of this account.

        It is one statement for all of them. Several would need a ``Sid`` each.
        """
        buckets = [self._bucket(bucket) for bucket in topic.buckets]
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": S3},
            "Action": "sns:Publish",
            "Resource": self.topic_arn(topic),
            "Condition": {"ArnEquals": {"aws:SourceArn": buckets if len(buckets) > 1 else buckets[0]}}
            | self._owned(S3),
        }
        return {"Version": POLICY_VERSION, "Statement": [statement]}

    def _bucket(self, name: str) -> Any:
        """Return the ARN of a bucket."""
        return self.arn(Arn("s3", name, region=False, account=False))

    @abstractmethod
    def add_topic_policy(self, topic: TopicNeed, policy: Json) -> None: ...

    def _redrive_policy(self, queue: QueueNeed) -> Json | None:
        if queue.give_up_to is None:
            return None
        return {"deadLetterTargetArn": self.queue_arn(queue.give_up_to), "maxReceiveCount": queue.max_receive_count}

    def _add_senders(self) -> None:
        """Let topics, rules and buckets feed the queues. Each queue's policy lets them send there before they do."""
        allowed: dict[str, list[tuple[str, Any]]] = {}
        for queue in self.needed.queues:
            for service, source, fifo in self._senders(queue):
                kept_in = () if fifo is None else (self.needed.undelivered(queue, fifo=fifo).name,)
                for name in dict.fromkeys((queue.name, *kept_in)):
                    allowed.setdefault(name, []).append((service, source))
        for queue in self.needed.queues:
            if is_closed(queue, self.options) or senders_elsewhere(queue, self.options):
                allowed.setdefault(queue.name, [])
        self._policies = {name for name in allowed if self.needed.queue(name).made}
        for name in sorted(self._policies):
            self._allow_senders(self.needed.queue(name), allowed[name])
        for queue in self.needed.queues:
            for arn in queue.topics:
                undelivered = self.needed.undelivered(queue, fifo=self._topic(arn).fifo)
                self.add_subscription(queue, self._topic(arn), undelivered)
            for bus in queue.rules:
                self.add_rule(queue, bus, self.needed.undelivered(queue, fifo=False))

    def _only_senders(self, queue: QueueNeed, sources: Sequence[tuple[str, Any]]) -> Json:
        """Return the statement that denies a queue to all roles but those that have to send there."""
        return {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:SendMessage",
            "Resource": self.queue_arn(queue.name),
            **_but(self._allowed_roles(queue), moved=bool(sources) or queue.role in (Role.KILLED, Role.DEAD_LETTERS)),
        }

    def _allowed_roles(self, queue: QueueNeed) -> list[Any]:
        """Return the roles that a queue takes messages of."""
        roles = [self._role_arn(function) for function in self.needed.senders(queue.name)]
        if queue in self.needed.schedule_targets() or queue.name in self.needed.undelivered_by_scheduler:
            roles.append(self.scheduler_role_arn())
        return [*roles, *map(self.arn, dict.fromkeys(map(role_arn, given_senders(queue, self.options))))]

    def _role_arn(self, function: FunctionNeed) -> Any:
        return self.function_role_reference(function) if function.role is None else self.arn(role_arn(function.role))

    @abstractmethod
    def function_role_reference(self, function: FunctionNeed) -> Any:
        """Return the reference to the ARN of the role that the template makes for a function."""
        ...

    def _senders(self, queue: QueueNeed) -> Iterator[tuple[str, Any, bool | None]]:
        """Yield the service and ARN of what feeds a queue, and the kind of the queue of what it cannot deliver.

        Of a bucket that is None: S3 keeps nothing.
        """
        for arn in queue.topics:
            topic = self._topic(arn)
            yield "sns.amazonaws.com", self.topic_arn(topic), topic.fifo
        for bus in queue.rules:
            yield "events.amazonaws.com", self.arn(rule_arn(queue.name, bus)), False
        for bucket in queue.buckets:
            yield S3, self._bucket(bucket), None

    def _topic(self, arn: str) -> TopicNeed:
        return next(topic for topic in self.needed.topics if topic.arn == arn)

    def _allow_senders(self, queue: QueueNeed, sources: Sequence[tuple[str, Any]]) -> None:
        statements: list[Json] = [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": "sqs:SendMessage",
                "Resource": self.queue_arn(queue.name),
                "Condition": {"ArnEquals": {"aws:SourceArn": source}} | self._owned(service),
            }
            for service, source in sources
        ]
        statements += [self._roles_elsewhere(queue, *given) for given in senders_elsewhere(queue, self.options).items()]
        if is_closed(queue, self.options):
            statements.append(self._only_senders(queue, sources))
        self.add_queue_policy(queue, {"Version": POLICY_VERSION, "Statement": statements})

    def _roles_elsewhere(self, queue: QueueNeed, account: str, roles: Sequence[str]) -> Json:
        """Return the statement that lets roles of another account send. Policies there have to allow it to them too."""
        return {
            "Effect": "Allow",
            "Principal": {"AWS": account},
            "Action": [*SENDING],
            "Resource": self.queue_arn(queue.name),
            "Condition": {"ArnEquals": {"aws:PrincipalArn": [*map(self.text, roles)]}},
        }

    def _owned(self, service: str) -> Json:
        """Return the condition that a bucket is still of this account: its ARN names none."""
        return {"StringEquals": {"aws:SourceAccount": self.account_reference()}} if service == S3 else {}

    def policies_of(self, *queues: QueueNeed) -> list[str]:
        """Return the names of the queues among these that get a policy, each once."""
        return [name for name in dict.fromkeys(queue.name for queue in queues) if name in self._policies]

    @abstractmethod
    def add_subscription(self, queue: QueueNeed, topic: TopicNeed, undelivered: QueueNeed) -> None:
        """Subscribe a queue to a topic, once the policies of both queues are there."""
        ...

    @abstractmethod
    def add_rule(self, queue: QueueNeed, bus: Bus, undelivered: QueueNeed) -> None:
        """Add the rule that sends events of a bus to a queue, once the policies of both queues are there."""
        ...

    @abstractmethod
    def add_queue_policy(self, queue: QueueNeed, policy: Json) -> None: ...

    @abstractmethod
    def add_secret(self, name: str) -> None:
        """Add a secret whose text is generated, and never changed by another deployment of the template."""
        ...

    # -- the scheduler

    @property
    def makes_group(self) -> bool:
        """Answer whether the template makes the group of schedules."""
        return self.needed.scheduler_group != "default" and not self.needed.existing_group

    def _add_scheduler(self) -> None:
        if self.makes_group:
            self.add_schedule_group(self.needed.scheduler_group)
        if self.needed.scheduler_role is None:
            names = [queue.name for queue in self.needed.schedule_targets()]
            targets = list(dict.fromkeys((*names, *self.needed.undelivered_by_scheduler)))
            self.add_scheduler_role([*self._scheduler_statements(targets)])
        for schedule in self.needed.schedules:
            self.add_schedule(schedule)

    def scheduler_role_arn(self) -> Any:
        """Return the ARN of the role of the scheduler, made here or given."""
        given = self.needed.scheduler_role
        return self.arn(SCHEDULER_ROLE if given is None else role_arn(given))

    def _scheduler_statements(self, queues: Sequence[str]) -> Iterator[Json]:
        """Yield what the scheduler may do: send to the queues, and use keys."""
        arns = [self.queue_arn(name) for name in queues]
        yield {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": arns}
        for key in dict.fromkeys(self.needed.queue(name).kms_key for name in queues):
            if key is not None:
                condition = {"StringEquals": only_through(key, ["sqs"])}
                yield {"Effect": "Allow", "Action": [*SENDS], "Resource": key, "Condition": condition}
        if self.needed.kms_key is not None:
            schedules = self.arn(Arn("scheduler", f"schedule/{self.needed.scheduler_group}/*"))
            condition = {"ArnLike": {OF_SCHEDULE: schedules}}
            yield {"Effect": "Allow", "Action": [*READS], "Resource": self.needed.kms_key, "Condition": condition}

    def scheduler_trust(self) -> Json:
        """Return the condition of the scheduler's role: it acts for this account's schedule group."""
        group = self.arn(Arn("scheduler", f"schedule-group/{self.needed.scheduler_group}"))
        return {"StringEquals": {"aws:SourceAccount": self.account_reference(), "aws:SourceArn": group}}

    @abstractmethod
    def add_schedule_group(self, name: str) -> None: ...

    @abstractmethod
    def add_schedule(self, schedule: ScheduleNeed) -> None: ...

    @abstractmethod
    def add_scheduler_role(self, statements: Sequence[Json]) -> None: ...

    @staticmethod
    def trusting(service: str, condition: Json) -> Json:
        """Return the trust policy of a role."""
        statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        return {"Version": POLICY_VERSION, "Statement": [statement | ({"Condition": condition} if condition else {})]}

    # -- functions

    def _add_function(self, function: FunctionNeed) -> None:
        if function.role is not None:
            role = self.arn(role_arn(function.role))
        else:
            statements = [
                {
                    "Effect": "Allow",
                    "Action": [*statement.actions],
                    "Resource": [self.arn(arn) for arn in statement.arns],
                }
                | statement.condition(
                    dict(function.environment).get("FLOWGUARD_BUCKET_OWNER", self.account_reference())
                )
                for statement in statements_of(self.needed, function)
            ]
            role = self.add_function_role(function, statements)
        self.add_function(function, role, self.add_log_group(function))

    @abstractmethod
    def add_function_role(self, function: FunctionNeed, statements: Sequence[Json]) -> Any:
        """Add the role of a function. Returns the reference to its ARN."""
        ...

    @abstractmethod
    def add_log_group(self, function: FunctionNeed) -> Any:
        """Add the log group of a function. Returns the reference to its name."""
        ...

    @abstractmethod
    def add_function(self, function: FunctionNeed, role: Any, log_group: Any) -> None:
        """Add a function with its event sources and URL."""
        ...

    def environment(self, function: FunctionNeed) -> Json:
        """Return the variables of a function."""
        variables = {name: self.text(value) for name, value in function.environment}
        if function.links_to is not None:
            variables[ANSWERS_URL] = self.url_reference(function.links_to)
        if "FLOWGUARD_SCHEDULER_GROUP" in variables:
            variables["FLOWGUARD_SCHEDULER_ROLE"] = self.scheduler_role_arn()
            if (undelivered := self.needed.undelivered_schedules) is not None:
                variables["FLOWGUARD_SCHEDULER_UNDELIVERED"] = self.queue_arn(undelivered)
        if "FLOWGUARD_BUCKET" in variables:
            variables.setdefault("FLOWGUARD_BUCKET_OWNER", self.account_reference())
        return dict(sorted(variables.items()))

    # -- what is watched

    @abstractmethod
    def add_metric(self, metric: LoggedMetric) -> None: ...

    @abstractmethod
    def add_alarm(self, alarm: MetricAlarm) -> None: ...

    # -- references

    def queue_arn(self, name: str) -> Any:
        """Return the ARN of a queue of the deployment, or the reference to it."""
        queue = self.needed.queue(name)
        return self.queue_reference(queue) if queue.made else self.arn(queue_arn(self.needed, name))

    def stream_arn(self, stream: StreamNeed) -> Any:
        """Return the ARN by which a mapping reads a stream, or the reference to it."""
        if stream.arn is not None:
            return self.text(stream.arn)
        return self.table_stream_reference(stream.name) if stream.of_table else self.arn(stream_arn(stream.place))

    def topic_arn(self, topic: TopicNeed) -> Any:
        """Return the ARN of a topic, or the reference to it."""
        return self.text(topic.arn) if topic.existing else self.topic_reference(topic)

    def arn(self, arn: Arn) -> Any:
        """Return an ARN whose open parts the deployment fills in."""
        if arn == SCHEDULER_ROLE:
            return self.scheduler_role_reference()
        return self.open_arn(arn) if arn.whole is None else self.text(arn.whole)

    @abstractmethod
    def queue_reference(self, queue: QueueNeed) -> Any: ...

    @abstractmethod
    def table_stream_reference(self, table: str) -> Any: ...

    @abstractmethod
    def url_reference(self, function: str) -> Any: ...

    @abstractmethod
    def account_reference(self) -> Any: ...

    @abstractmethod
    def topic_reference(self, topic: TopicNeed) -> Any: ...

    @abstractmethod
    def scheduler_role_reference(self) -> Any: ...

    @abstractmethod
    def open_arn(self, arn: Arn) -> Any: ...

    @abstractmethod
    def text(self, text: str) -> str:
        """Return a text that the language takes as it is."""
        ...


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


def key_types(table: TableNeed) -> dict[str, str]:
    """Return the types of what the table, and its index, has as a key."""
    index = dict.fromkeys(INDEX_KEY, "S") if table.run_index else {}
    return dict(zip(table.key.names, table.key.types, strict=True)) | index


def warm_units(table: TableNeed, writes: str, reads: str) -> Json:
    """Return the units a second that a table is to take from its first day, under these names."""
    given = {writes: table.warm_writes, reads: table.warm_reads}
    return {name: units for name, units in given.items() if units is not None}

"""The template of a deployment, whatever its language. It has the resources and their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from flowguard.deploy.alarms import LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import POLICY_VERSION, SCHEDULER_ROLE, Arn, queue_arn, role_arn, statements_of, stream_arn
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import (
    ANSWERS_URL,
    Deployment,
    FunctionNeed,
    QueueNeed,
    ScheduleNeed,
    StreamNeed,
    TableNeed,
    Target,
    TopicNeed,
)
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.resource_policies import ResourcePolicies, check_sizes, one_or_all
from flowguard.deploy.scheduler_permissions import scheduler_statements
from flowguard.destinations import Bus

Json = dict[str, Any]

TAG: Final = "flowguard"
"""The key of the tag that names the flow of a resource, or the rule of ``@once``.

``flowguard doctor`` finds queues by it that are left over.
"""

VIEW: Final = "NEW_AND_OLD_IMAGES"
"""What the stream of a table shows of a change."""

SYSTEM_LOG_LEVEL: Final = "INFO"
"""Of Lambda's own lines, which have how long each invocation took."""

ABOUT_SCHEDULER: Final = "The ARN of the role with which EventBridge Scheduler sends messages."

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
        self._policies = ResourcePolicies(needed, options, self)
        self._with_policy: set[str] = set()

    def add_resources(self) -> None:
        """Add everything that is needed and not there yet. Raises :class:`CannotDeploy` for policies too large."""
        check_sizes(self.needed, self.options)
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
                self.add_topic_policy(topic, self._policies.of_topic(topic))

    @abstractmethod
    def add_table(self, table: TableNeed) -> None: ...

    @abstractmethod
    def add_queue(self, queue: QueueNeed, redrive_policy: Json | None) -> None: ...

    @abstractmethod
    def add_topic(self, topic: TopicNeed) -> None: ...

    @abstractmethod
    def add_topic_policy(self, topic: TopicNeed, policy: Json) -> None: ...

    def _redrive_policy(self, queue: QueueNeed) -> Json | None:
        if queue.give_up_to is None:
            return None
        return {"deadLetterTargetArn": self.queue_arn(queue.give_up_to), "maxReceiveCount": queue.max_receive_count}

    def _add_senders(self) -> None:
        """Let topics, rules and buckets feed the queues. Each queue's policy lets them send there before they do."""
        for queue, policy in self._policies.of_queues():
            self._with_policy.add(queue.name)
            self.add_queue_policy(queue, policy)
        for queue in self.needed.queues:
            for arn in queue.topics:
                topic = self.needed.topic(arn)
                self.add_subscription(queue, topic, self.needed.undelivered(queue, fifo=topic.fifo))
            for bus in queue.rules:
                self.add_rule(queue, bus, self.needed.undelivered(queue, fifo=False))

    @abstractmethod
    def function_role_reference(self, function: FunctionNeed) -> Any:
        """Return the reference to the ARN of the role that the template makes for a function."""
        ...

    def policies_of(self, *queues: QueueNeed) -> list[str]:
        """Return the names of the queues among these that get a policy, each once."""
        return [name for name in dict.fromkeys(queue.name for queue in queues) if name in self._with_policy]

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
            self.add_scheduler_role([*scheduler_statements(self.needed, self)])
        for schedule in self.needed.schedules:
            self.add_schedule(schedule)

    def scheduler_role_arn(self) -> Any:
        """Return the ARN of the role of the scheduler, made here or given."""
        given = self.needed.scheduler_role
        return self.arn(SCHEDULER_ROLE if given is None else role_arn(given))

    def scheduler_trust(self) -> Json:
        """Return the condition of the scheduler's role: it acts for this account's schedule group, and former ones.

        What is scheduled in a group of a release before has the role too, and is lost where that trusts it no more.
        """
        former = [name for name, chosen in sorted(self.options.schedule_groups.items()) if chosen.former]
        names = dict.fromkeys([self.needed.scheduler_group, *map(self.needed.at_aws.by_rule, former)])
        groups = [self.arn(Arn("scheduler", f"schedule-group/{name}")) for name in names]
        return {"StringEquals": {"aws:SourceAccount": self.account_reference(), "aws:SourceArn": one_or_all(groups)}}

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

    def made_before(self, function: FunctionNeed) -> list[tuple[str, str]]:
        """Return what a function uses and the template makes, by its type and name. New code runs once it is there.

        Without that a release which adds a queue sends to it before it is made, and a message is parked.
        """
        made = {
            (Target.TABLE.value, table.name): ("Table", table.name)
            for table in self.needed.tables
            if not table.existing
        }
        made |= {(Target.QUEUE.value, queue.name): ("Queue", queue.name) for queue in self.needed.queues if queue.made}
        made |= {
            (Target.TOPIC.value, topic.arn): ("Topic", topic.arn) for topic in self.needed.topics if not topic.existing
        }
        used = {(each.target, each.name): None for each in function.permissions}
        return [made[each] for each in used if each in made]

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


def key_types(table: TableNeed) -> dict[str, str]:
    """Return the types of the key attributes of a table and its indexes."""
    types = dict(zip(table.key.names, table.key.types, strict=True))
    for index in table.indexes:
        types |= zip(index.names, index.types, strict=True)
    return types


def warm_units(table: TableNeed, writes: str, reads: str) -> Json:
    """Return the units a second that a table is to take from its first day, under these names."""
    given = {writes: table.warm_writes, reads: table.warm_reads}
    return {name: units for name, units in given.items() if units is not None}

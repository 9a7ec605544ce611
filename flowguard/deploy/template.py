"""The template of a deployment, whatever its language. It has the resources and their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowguard.deploy.alarms import LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import SCHEDULER_ROLE, Arn, queue_arn, statements_of
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.destinations import Bus

Json = dict[str, Any]

POLICY_VERSION: Final = "2012-10-17"
"""The version of IAM's policy language."""


class Template(ABC):
    """Adds the resources of a deployment. Each language is a subclass.

    The type of a reference to another resource is the language's own.
    """

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self.needed = needed
        self.options = options
        self.ids = LogicalIds()

    def add_resources(self) -> None:
        """Add everything that is needed and not there yet."""
        self._add_tables_queues_and_topics()
        for queue in self.needed.queues:
            self._allow_senders(queue)
        if self.needed.long_delays:
            self._add_scheduler()
        for function in self.needed.functions:
            self._add_function(function)
        for metric in metrics_of(self.needed):
            self.add_metric(metric)
        for alarm in alarms_of(self.needed, self.options.oldest_message):
            self.add_alarm(alarm)

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

    @abstractmethod
    def add_table(self, table: TableNeed) -> None: ...

    @abstractmethod
    def add_queue(self, queue: QueueNeed, redrive_policy: Json | None) -> None: ...

    @abstractmethod
    def add_topic(self, topic: TopicNeed) -> None: ...

    def _redrive_policy(self, queue: QueueNeed) -> Json | None:
        if queue.give_up_to is None:
            return None
        return {"deadLetterTargetArn": self.queue_arn(queue.give_up_to), "maxReceiveCount": queue.max_receive_count}

    def _allow_senders(self, queue: QueueNeed) -> None:
        """Let the topics and rules that feed a queue send to it."""
        sources = [
            *self._subscriptions(queue),
            *(("events.amazonaws.com", self.add_rule(queue, b)) for b in queue.rules),
        ]
        if sources and queue.made:
            statements = [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": service},
                    "Action": "sqs:SendMessage",
                    "Resource": self.queue_arn(queue.name),
                    "Condition": {"ArnEquals": {"aws:SourceArn": source}},
                }
                for service, source in sources
            ]
            self.add_queue_policy(queue, {"Version": POLICY_VERSION, "Statement": statements})

    def _subscriptions(self, queue: QueueNeed) -> Iterator[tuple[str, Any]]:
        for arn in queue.topics:
            topic = next(one for one in self.needed.topics if one.arn == arn)
            found = self.text(arn) if topic.existing else self.topic_reference(topic)
            self.add_subscription(queue, topic, found)
            yield "sns.amazonaws.com", found

    @abstractmethod
    def add_subscription(self, queue: QueueNeed, topic: TopicNeed, topic_arn: Any) -> None: ...

    @abstractmethod
    def add_rule(self, queue: QueueNeed, bus: Bus) -> Any:
        """Add the rule that sends events of a bus to a queue. Returns the reference to its ARN."""
        ...

    @abstractmethod
    def add_queue_policy(self, queue: QueueNeed, policy: Json) -> None: ...

    # -- the scheduler

    def _add_scheduler(self) -> None:
        if self.needed.scheduler_group != "default":
            self.add_schedule_group(self.needed.scheduler_group)
        if self.needed.scheduler_role is None:
            targets = [self.queue_arn(queue.name) for queue in self.needed.schedule_targets()]
            self.add_scheduler_role([{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": targets}])

    @abstractmethod
    def add_schedule_group(self, name: str) -> None: ...

    @abstractmethod
    def add_scheduler_role(self, statements: Sequence[Json]) -> None: ...

    # -- functions

    def _add_function(self, function: FunctionNeed) -> None:
        role: Any = function.role
        if role is None:
            statements = [
                {"Effect": "Allow", "Action": [*one.actions], "Resource": [self.arn(arn) for arn in one.arns]}
                for one in statements_of(self.needed, function)
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
        found = {name: self.text(value) for name, value in function.environment}
        if "FLOWGUARD_SCHEDULER_GROUP" in found:
            given = self.needed.scheduler_role
            found["FLOWGUARD_SCHEDULER_ROLE"] = self.arn(SCHEDULER_ROLE if given is None else Arn(whole=given))
        return dict(sorted(found.items()))

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

    def arn(self, arn: Arn) -> Any:
        """Return an ARN whose open parts the deployment fills in."""
        if arn == SCHEDULER_ROLE:
            return self.scheduler_role_reference()
        return self.open_arn(arn) if arn.whole is None else self.text(arn.whole)

    @abstractmethod
    def queue_reference(self, queue: QueueNeed) -> Any: ...

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

"""The description of a deployment. Templates and examinations are made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.kafka_need import KafkaNeed
from flowguard.deploy.options import LONGEST_TAG
from flowguard.deploy.used import SourcePlace
from flowguard.destinations import Bus
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.project.declared import TableIndex, TableKey
from flowguard.worker.patience import MANY_RECEIVES

_OF_RUNS: Final = TableIndex(RUN_INDEX, INDEX_KEY, ("S", "S"), keys_only=True)
"""The index of runs by status."""

ANSWERS_URL: Final = "FLOWGUARD_ANSWERS_URL"
"""The variable that names the base of the links that a function makes."""


class Role(Enum):
    """The purpose of a queue."""

    INBOX = "inbox"
    ANSWERS = "answers"
    CALLBACK = "callback"
    KILLED = "killed"
    """It gets the records that SQS gives up."""
    DEAD_LETTERS = "dead letters"
    OUTSIDE = "outside"
    """Somebody else reads it."""


class Target(Enum):
    """The kind of resource of a permission."""

    TABLE = "table"
    QUEUE = "queue"
    TOPIC = "topic"
    STREAM = "stream"
    BUS = "bus"
    FUNCTION = "function"
    OBJECTS = "objects"
    BUCKET = "bucket"
    """The keys under a prefix of a bucket."""
    PARAMETER = "parameter"
    SECRET = "secret"  # noqa: S105 - the word, not one
    SCHEDULES = "schedules"
    SCHEDULER_ROLE = "scheduler role"
    KEY = "key"
    """A key of KMS, which a service uses for its callers."""
    CODEC_KEY = "codec key"
    """A key of KMS, or its alias, by which a function makes and opens data keys itself."""
    DATABASE = "database"
    """A cluster of Aurora, by its ARN."""
    DATABASE_USER = "database user"
    """A user of a database who connects by IAM, by its ARN."""
    LOGS = "logs"
    NETWORK = "network"
    """The network interfaces of a VPC, which have no ARN before they are made."""
    TRACES = "traces"
    """X-Ray, which has no resources."""


@dataclass(frozen=True, order=True)
class Permission:
    """Actions on one resource. ``name`` is the resource's name or ARN.

    ``via`` are the services that use a key for the function, which does not call KMS then; of a codec's key they are
    the flows that it is used for.
    """

    target: str
    name: str
    actions: tuple[str, ...]
    via: tuple[str, ...] = ()

    @property
    def on(self) -> Target:
        return Target(self.target)


@dataclass(frozen=True)
class TableNeed:
    """A table. ``ttl`` is the attribute by which its items expire, if they do."""

    name: str
    key: TableKey
    ttl: str | None
    existing: bool
    warm_writes: int | None = None
    warm_reads: int | None = None
    kms_key: str | None = None
    """The ARN of the customer's key that encrypts it."""
    run_index: bool = False
    """Whether it has the index of runs by status."""
    has_stream: bool = False
    """Whether a function reads its changes from a stream of it."""

    @property
    def indexes(self) -> tuple[TableIndex, ...]:
        """Return its global secondary indexes."""
        return (*self.key.indexes, *([_OF_RUNS] if self.run_index else []))


@dataclass(frozen=True)
class QueueNeed:
    """A queue. ``reader`` is the function's name, ``give_up_to`` the queue of its redrive policy.

    ``arn`` is that of a queue given by its ARN or URL: it is in another account, or named so, and never made.
    ``undelivered`` are the queues, standard or FIFO, of what the topics and rules that feed it cannot deliver.
    """

    name: str
    role: Role
    existing: bool
    retention: int
    visibility: int = 30
    reader: str | None = None
    give_up_to: str | None = None
    max_receive_count: int = MANY_RECEIVES
    topics: tuple[str, ...] = ()
    rules: tuple[Bus, ...] = ()
    arn: str | None = None
    undelivered: tuple[str, ...] = ()
    owner: str = ""
    """The first flow that it is for, or the rule of ``@once``."""
    senders: tuple[str, ...] = ()
    """The ARNs of further roles that send to it."""
    lists_senders: bool = False
    """Whether the options list these, be it none: all others are kept out."""
    buckets: tuple[str, ...] = ()
    """The names of the buckets that tell it what happens to their objects."""
    hops_only: bool = False
    """Whether nothing arrives there but hops of later stages, with their retries and redrives."""
    kms_key: str | None = None
    """The ARN of the customer's key that encrypts it."""

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def made(self) -> bool:
        """Answer whether a template makes the queue."""
        return not self.existing and self.arn is None


@dataclass(frozen=True)
class TopicNeed:
    """A topic, by the ARN that the flow names."""

    arn: str
    existing: bool
    kms_key: str | None = None
    """The ARN of the customer's key that encrypts it."""
    buckets: tuple[str, ...] = ()
    """The names of the buckets that tell it what happens to their objects."""

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]

    @property
    def fifo(self) -> bool:
        return self.arn.endswith(".fifo")


FOR_EVER: Final = -1
"""The age or the attempts of a stream's mapping that has no bound."""


@dataclass(frozen=True)
class StreamNeed:
    """A stream that a function reads, and how. ``name`` is the stream's, or that of the table whose changes it has.

    A topic of Kafka is one, too.

    ``undelivered`` is the queue that gets a notice of the records that Lambda gives up, ``max_age`` is in seconds or
    ``FOR_EVER``. Without an ``arn`` it is a stream of Kinesis in the deployment's account, or of a table that the
    template makes.
    """

    name: str
    of_table: bool
    undelivered: str
    start: str
    batch_size: int
    window: int
    parallel: int
    max_age: int
    max_attempts: int | None
    arn: str | None = None
    kms_key: str | None = None
    """The ARN of the customer's key that encrypts it. Of Kafka it is the key of the secret."""
    kafka: KafkaNeed | None = None
    """Where it is, if it is a topic of Kafka."""

    @property
    def kind(self) -> str:
        if self.kafka is not None:
            return "Kafka"
        return "DynamoDB" if self.of_table else "Kinesis"

    @property
    def lane(self) -> str:
        """Return what its records are worked on in order in."""
        return "shard" if self.kafka is None else "partition"

    @property
    def whole(self) -> str:
        """Return the word for it."""
        return "stream" if self.kafka is None else "topic"

    @property
    def place(self) -> str:
        """Return what a permission calls it: its ARN, or the end of that."""
        if self.arn is not None:
            return stream_of(self.arn)
        return f"table/{self.name}/stream/*" if self.of_table else f"stream/{self.name}"

    @property
    def consumer(self) -> str | None:
        """Return the ARN of the consumer through which it is read. None where it is read itself."""
        return self.arn if self.arn is not None and stream_of(self.arn) != self.arn else None

    def is_brought_by(self, mapping: Mapping[str, Any]) -> bool:
        """Answer whether a mapping brings its records."""
        if self.kafka is not None:
            return self.kafka.is_brought_by(mapping)
        return self.is_in(str(mapping.get("EventSourceArn", "")))

    def is_in(self, arn: str) -> bool:
        """Answer whether a mapping of that ARN brings its records."""
        if self.arn is not None:
            return stream_of(arn) == stream_of(self.arn)
        service, _, resource = f"{stream_of(arn)}/".rpartition(":table/" if self.of_table else ":stream/")
        return f":{self.kind.lower()}:" in service and resource.startswith(f"{self.name}/")


def stream_of(arn: str) -> str:
    """Return the ARN of a stream, where one of a consumer of it may be given."""
    return arn.partition("/consumer/")[0]


@dataclass(frozen=True)
class FunctionNeed:
    """A Lambda function with its permissions and settings."""

    name: str
    definition: FoundFunction
    timeout: int
    memory: int
    batch_size: int
    window: int
    max_concurrency: int | None
    reads: tuple[str, ...]
    permissions: tuple[Permission, ...]
    environment: tuple[tuple[str, str], ...]
    role: str | None = None
    policies: tuple[str, ...] = ()
    has_url: bool = False
    url_auth: str = "NONE"
    """Who may call its URL: ``NONE`` for all, ``AWS_IAM`` for who may by IAM."""
    links_to: str | None = None
    """The name of the function whose URL is the base of the links that it makes. None where it makes none, or the
    options name the base."""
    reserved: int | None = None
    """Invocations at once that are kept for it, and the most that it has."""
    streams: tuple[StreamNeed, ...] = ()
    at_aws: Names = AS_IN_CODE
    shares: tuple[tuple[str, int], ...] = ()
    """What the queues of lanes have of ``max_concurrency``, by their names."""

    def at_once(self, queue: str) -> int | None:
        """Return the largest concurrency of the mapping that brings it a queue. None where it has none."""
        return dict(self.shares).get(queue, self.max_concurrency)

    @property
    def owner(self) -> str:
        """Return the name at AWS of the first of its flows, or of its rule."""
        return self.at_aws.by_rule(self.definition.owner)

    @property
    def url_note(self) -> str:
        """Return what its URL is for, as the template says it."""
        if self.definition.kind is FunctionKind.STARTS:
            return f"Where {self.name} starts runs."
        return f"Where answers for {self.name} arrive."

    @property
    def brings_work(self) -> bool:
        """Answer whether it reads the inboxes of a flow. The records that SQS gave up are no inbox."""
        return bool(self.reads) and self.definition.once is None and self.definition.kind is not FunctionKind.KILLED


@dataclass(frozen=True)
class ScheduleNeed:
    """A schedule that sends requests to the inbox ``queue`` of a flow, which owns it. ``input`` is their body.

    ``undelivered`` is the queue of what it cannot deliver.
    """

    name: str
    owner: str
    queue: str
    expression: str
    timezone: str
    input: str
    undelivered: str
    enabled: bool = True


@dataclass(frozen=True)
class Deployment:
    """Everything that some functions need. ``notes`` are about source that could not be read.

    ``names`` are those of the flows, and of what is under ``@once``.
    """

    names: tuple[str, ...]
    flows: tuple[AnyFlow, ...]
    functions: tuple[FunctionNeed, ...]
    tables: tuple[TableNeed, ...]
    queues: tuple[QueueNeed, ...]
    topics: tuple[TopicNeed, ...]
    run_table: str
    long_delays: bool
    scheduler_group: str
    scheduler_role: str | None
    existing_group: bool = False
    undelivered_schedules: str | None = None
    """The queue of what the scheduler cannot deliver of long delays."""
    schedules: tuple[ScheduleNeed, ...] = ()
    signing_secret: str | None = None
    """The name of the secret with the keys of signatures that the template makes. None where none is to be made."""
    kms_key: str | None = None
    """The ARN of the customer's key that encrypts what has none of its own."""
    notes: tuple[str, ...] = ()
    unknown: tuple[SourcePlace, ...] = ()
    at_aws: Names = AS_IN_CODE
    account: str | None = None
    """The account that is deployed to, where the options name it."""
    named_roles: bool = False
    """Whether the options let the roles of functions have names, which they have under a rule alone."""

    @property
    def names_roles(self) -> bool:
        """Answer whether the roles that are made for functions have names. AWS names that of the scheduler."""
        return self.named_roles and self.at_aws.rule != AS_IN_CODE.rule

    def role_name(self, function: FunctionNeed) -> str | None:
        """Return the name of the role that is made for a function. None where AWS names it."""
        return function.name if self.names_roles else None

    @property
    def tags(self) -> list[str]:
        """Return the names in the tags of its resources. Another deployment of the flows has other ones."""
        return list(map(self.at_aws.by_rule, self.names))

    @property
    def owners(self) -> str:
        """Return the names, as many as a tag takes."""
        return " ".join(self.tags)[:LONGEST_TAG]

    @property
    def makes_scheduler_role(self) -> bool:
        """Answer whether a template makes the role with which EventBridge Scheduler sends."""
        return self.has_scheduler and self.scheduler_role is None

    @property
    def has_scheduler(self) -> bool:
        """Answer whether EventBridge Scheduler sends anything: long delays, or requests by the clock."""
        return self.long_delays or bool(self.schedules)

    @property
    def undelivered_by_scheduler(self) -> list[str]:
        """Return the queues of what the scheduler cannot deliver, of long delays and of requests by the clock."""
        delayed = [] if self.undelivered_schedules is None else [self.undelivered_schedules]
        return list(dict.fromkeys([*delayed, *(schedule.undelivered for schedule in self.schedules)]))

    def queue(self, name: str) -> QueueNeed:
        """Return the queue of that name."""
        return next(queue for queue in self.queues if queue.name == name)

    def topic(self, arn: str) -> TopicNeed:
        """Return the topic of that ARN."""
        return next(topic for topic in self.topics if topic.arn == arn)

    def function(self, name: str) -> FunctionNeed:
        """Return the function of that name."""
        return next(function for function in self.functions if function.name == name)

    def undelivered(self, queue: QueueNeed, *, fifo: bool) -> QueueNeed:
        """Return the queue of what a topic or rule of that kind cannot deliver to a queue."""
        return next(queue for queue in map(self.queue, queue.undelivered) if queue.fifo == fifo)

    def senders(self, queue: str) -> Iterator[FunctionNeed]:
        """Yield the functions that send to a queue."""
        for function in self.functions:
            for permission in function.permissions:
                short = permission.name.rpartition("/")[2].rpartition(":")[2]
                if permission.on is Target.QUEUE and short == queue and "sqs:SendMessage" in permission.actions:
                    yield function

    def schedule_targets(self) -> Iterator[QueueNeed]:
        """Yield the queues to which the scheduler sends delayed retries, the deadlines of waits, and requests."""
        late = {flow.name for flow in self.flows if flow.long_delays}
        begun = {schedule.queue for schedule in self.schedules}
        for queue in self.queues:
            reader = None if queue.reader is None else self.function(queue.reader)
            if queue.role not in (Role.INBOX, Role.ANSWERS) or reader is None:
                continue
            if queue.name in begun or late & {flow.name for flow in reader.definition.flows}:
                yield queue

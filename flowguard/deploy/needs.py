"""The description of a deployment. Templates and examinations are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from flowguard.deploy.found import FoundFunction
from flowguard.deploy.used import SourcePlace
from flowguard.destinations import Bus
from flowguard.flow import AnyFlow
from flowguard.sim.declared import TableKey


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
    BUS = "bus"
    FUNCTION = "function"
    OBJECTS = "objects"
    PARAMETER = "parameter"
    SECRET = "secret"  # noqa: S105 - the word, not one
    SCHEDULES = "schedules"
    SCHEDULER_ROLE = "scheduler role"
    LOGS = "logs"


@dataclass(frozen=True, order=True)
class Permission:
    """Actions on one resource. ``name`` is the resource's name or ARN."""

    target: str
    name: str
    actions: tuple[str, ...]

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


@dataclass(frozen=True)
class QueueNeed:
    """A queue. ``reader`` is the function's name, ``give_up_to`` the queue of its redrive policy.

    ``arn`` is that of a queue given by its ARN or URL: it is in another account, or named so, and never made.
    """

    name: str
    role: Role
    existing: bool
    retention: int
    visibility: int = 30
    reader: str | None = None
    give_up_to: str | None = None
    max_receive_count: int = 5
    topics: tuple[str, ...] = ()
    rules: tuple[Bus, ...] = ()
    arn: str | None = None

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

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]

    @property
    def fifo(self) -> bool:
        return self.arn.endswith(".fifo")


@dataclass(frozen=True)
class FunctionNeed:
    """A Lambda function with its permissions and settings."""

    name: str
    found: FoundFunction
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


@dataclass(frozen=True)
class Deployment:
    """Everything that some functions need. ``notes`` are about source that could not be read."""

    flows: tuple[AnyFlow, ...]
    functions: tuple[FunctionNeed, ...]
    tables: tuple[TableNeed, ...]
    queues: tuple[QueueNeed, ...]
    topics: tuple[TopicNeed, ...]
    run_table: str
    long_delays: bool
    scheduler_group: str
    scheduler_role: str | None
    notes: tuple[str, ...] = ()
    unknown: tuple[SourcePlace, ...] = ()

    def queue(self, name: str) -> QueueNeed:
        """Return the queue of that name."""
        return next(one for one in self.queues if one.name == name)

    def function(self, name: str) -> FunctionNeed:
        """Return the function of that name."""
        return next(one for one in self.functions if one.name == name)

    def schedule_targets(self) -> Iterator[QueueNeed]:
        """Yield the queues to which the scheduler sends delayed retries and the deadlines of waits."""
        late = {flow.name for flow in self.flows if flow.long_delays}
        for queue in self.queues:
            reader = None if queue.reader is None else self.function(queue.reader)
            if queue.role not in (Role.INBOX, Role.ANSWERS) or reader is None:
                continue
            if late & {one.name for one in reader.found.flows}:
                yield queue

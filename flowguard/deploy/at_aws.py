"""A deployment under the names that its resources have at AWS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from flowguard.deploy.needs import (
    Deployment,
    FunctionNeed,
    Permission,
    QueueNeed,
    ScheduleNeed,
    StreamNeed,
    TableNeed,
    Target,
    TopicNeed,
)
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import arn_of
from flowguard.destinations import Queue
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import AS_IN_CODE, NameKind, Names

DEFAULT_GROUP: Final = "default"
"""The group of schedules that each account has."""

_SECRETS: Final = "secretsmanager:"

_FORMS: Final = {
    "function": (re.compile("[A-Za-z0-9_-]{1,64}"), "Lambda takes up to 64 of a-z, A-Z, 0-9, '-', '_'"),
    "queue": (re.compile(r"(?=.{1,80}\Z)[A-Za-z0-9_-]+(?:\.fifo)?"), "SQS takes up to 80 of a-z, A-Z, 0-9, '-', '_'"),
    "table": (re.compile("[A-Za-z0-9_.-]{3,255}"), "DynamoDB takes 3 to 255 of a-z, A-Z, 0-9, '-', '_', '.'"),
    "topic": (re.compile(r"[A-Za-z0-9_-]{1,256}(?:\.fifo)?"), "SNS takes up to 256 of a-z, A-Z, 0-9, '-', '_'"),
    "schedule group": (
        re.compile("[0-9a-zA-Z_.-]{1,64}"),
        "it has up to 64 of a-z, A-Z, 0-9, '-', '_', '.'",
    ),
    "schedule": (re.compile("[0-9a-zA-Z_.-]{1,64}"), "EventBridge Scheduler takes up to 64 characters"),
}


def names_of(options: DeployOptions) -> Names:
    """Return the names at AWS that the options ask for."""
    names = options.settings.at_aws
    for kind, given in (
        (NameKind.TABLES, options.tables),
        (NameKind.QUEUES, options.queues),
        (NameKind.TOPICS, options.topics),
    ):
        names = names.with_given(
            kind, {name: resource.name for name, resource in given.items() if resource.name is not None}
        )
    return names


def under_names(needed: Deployment, names: Names, *, group_is_given: bool = False) -> Deployment:
    """Return a deployment whose resources are called by their names at AWS, and whose functions know these.

    ``group_is_given`` keeps the name of the schedule group. Raises :class:`CannotDeploy` where AWS does not take a
    name, or two resources would have the same one.
    """
    if names.are_those_of_the_code:
        return needed
    renamed = _Renaming(needed, names, group_is_given=group_is_given).done()
    if problems := tuple(_problems(renamed)):
        raise CannotDeploy(f"FLOWGUARD_NAMES={names}", problems)
    return renamed


class _Renaming:
    def __init__(self, needed: Deployment, names: Names, *, group_is_given: bool) -> None:
        self._needed = needed
        self._names = names
        self._group_is_given = group_is_given
        self._exact = {queue.name for queue in needed.queues if queue.arn is not None}

    def done(self) -> Deployment:
        needed = self._needed
        return replace(
            needed,
            functions=tuple(map(self._function, needed.functions)),
            tables=tuple(map(self._table, needed.tables)),
            queues=tuple(map(self._queue, needed.queues)),
            topics=tuple(map(self._topic, needed.topics)),
            run_table=self._names.table(needed.run_table),
            scheduler_group=self._group(needed.scheduler_group),
            undelivered_schedules=self._some_queue(needed.undelivered_schedules),
            schedules=tuple(map(self._schedule, needed.schedules)),
            signing_secret=None if needed.signing_secret is None else self._names.by_rule(needed.signing_secret),
            at_aws=self._names,
        )

    def _queue_name(self, name: str) -> str:
        """Return the name of a queue of the deployment, also of one that is given by its ARN."""
        return name if name in self._exact else Queue(self._names.queue(name)).short_name

    def _some_queue(self, name: str | None) -> str | None:
        return None if name is None else self._queue_name(name)

    def _schedule(self, schedule: ScheduleNeed) -> ScheduleNeed:
        name, owner = map(self._names.by_rule, (schedule.name, schedule.owner))
        queue, undelivered = map(self._queue_name, (schedule.queue, schedule.undelivered))
        return replace(schedule, name=name, owner=owner, queue=queue, undelivered=undelivered)

    def _group(self, name: str) -> str:
        return name if self._group_is_given or name == DEFAULT_GROUP else self._names.by_rule(name)

    def _table(self, table: TableNeed) -> TableNeed:
        name = self._names.table(table.name)
        return replace(table, name=name, existing=table.existing or _is_elsewhere(name))

    def _topic(self, topic: TopicNeed) -> TopicNeed:
        given = self._names.given.get(f"{NameKind.TOPICS}.{topic.name}", "")
        arn = self._names.topic(topic.arn)
        return replace(topic, arn=arn, existing=topic.existing or _is_elsewhere(given))

    def _queue(self, queue: QueueNeed) -> QueueNeed:
        return replace(
            queue,
            name=self._queue_name(queue.name),
            reader=None if queue.reader is None else self._names.by_rule(queue.reader),
            give_up_to=self._some_queue(queue.give_up_to),
            topics=tuple(map(self._names.topic, queue.topics)),
            rules=tuple(bus._replace(name=self._names.bus(bus.name)) for bus in queue.rules),
            arn=queue.arn if queue.arn is not None else arn_of(Queue(self._names.queue(queue.name))),
            undelivered=tuple(map(self._queue_name, queue.undelivered)),
            owner=self._names.by_rule(queue.owner),
        )

    def _function(self, function: FunctionNeed) -> FunctionNeed:
        places = {stream.place: self._stream(stream).place for stream in function.streams}
        places |= self._groups(function)
        return replace(
            function,
            name=self._names.by_rule(function.name),
            reads=tuple(map(self._queue_name, function.reads)),
            shares=tuple((self._queue_name(queue), share) for queue, share in function.shares),
            permissions=tuple(
                replace(permission, name=places.get(permission.name, self._resource(permission)))
                for permission in function.permissions
            ),
            environment=tuple(sorted({**dict(function.environment), **self._settings(function)}.items())),
            links_to=None if function.links_to is None else self._names.by_rule(function.links_to),
            streams=tuple(map(self._stream, function.streams)),
            at_aws=self._names,
        )

    def _groups(self, function: FunctionNeed) -> Mapping[str, str]:
        """Return the ARNs of the consumer groups of Kafka that have the function's name, by those that they had."""
        topics = [stream.kafka for stream in function.streams if stream.kafka is not None]
        of_code, at_aws = function.name, self._names.by_rule(function.name)
        return {
            topic.within("group", topic.group_of(of_code)): topic.within("group", topic.group_of(at_aws))
            for topic in topics
        }

    def _stream(self, stream: StreamNeed) -> StreamNeed:
        undelivered = self._queue_name(stream.undelivered)
        if stream.arn is not None or stream.kafka is not None:
            return replace(stream, undelivered=undelivered)
        name = self._names.table(stream.name) if stream.of_table else self._names.by_rule(stream.name)
        return replace(stream, name=name, undelivered=undelivered)

    def _settings(self, function: FunctionNeed) -> dict[str, str]:
        given = dict(function.environment)
        changed = {"FLOWGUARD_NAMES": str(self._names._replace(given=self._used_by(function)))}
        if "FLOWGUARD_SCHEDULER_GROUP" in given:
            changed["FLOWGUARD_SCHEDULER_GROUP"] = self._group(given["FLOWGUARD_SCHEDULER_GROUP"])
        for variable in ("FLOWGUARD_SIGNING_KEYS", "FLOWGUARD_TOKEN_KEYS"):
            if given.get(variable) == f"{_SECRETS}{self._needed.signing_secret}":
                changed[variable] = f"{_SECRETS}{self._secret(given[variable].removeprefix(_SECRETS))}"
        return changed

    def _used_by(self, function: FunctionNeed) -> Mapping[str, str]:
        """Return the single names that a function needs."""
        read = [queue for queue in self._needed.queues if queue.name in function.reads]
        topics = [arn for queue in read for arn in queue.topics]
        buses = [bus.name for queue in read for bus in queue.rules]
        used = {
            f"{NameKind.TABLES}.{self._needed.run_table}",
            *(f"{NameKind.QUEUES}.{name}" for name in (*function.reads, *_queues_of(function.definition.flows))),
            *(f"{NameKind.TOPICS}.{arn.rpartition(':')[2]}" for arn in topics),
            *(f"{NameKind.BUSES}.{name}" for name in buses),
            *(_place(permission) for permission in function.permissions),
        }
        return {place: name for place, name in self._names.given.items() if place in used}

    def _secret(self, name: str) -> str:
        """Return the name of a secret. One that is not made by the template stays as it is."""
        return self._names.by_rule(name) if name == self._needed.signing_secret else name

    def _resource(self, permission: Permission) -> str:
        names: dict[Target, Callable[[str], str]] = {
            Target.TABLE: self._names.table,
            Target.QUEUE: self._names.queue,
            Target.TOPIC: self._names.topic,
            Target.FUNCTION: self._names.function,
            Target.BUS: self._names.bus,
            Target.LOGS: self._names.by_rule,
            Target.SCHEDULES: self._group,
            Target.SECRET: self._secret,
        }
        return names[permission.on](permission.name) if permission.on in names else permission.name


def _place(permission: Permission) -> str:
    """Return the place of the resource of a permission among the names given one by one."""
    kinds = {
        Target.TABLE: NameKind.TABLES,
        Target.QUEUE: NameKind.QUEUES,
        Target.TOPIC: NameKind.TOPICS,
        Target.FUNCTION: NameKind.FUNCTIONS,
        Target.BUS: NameKind.BUSES,
    }
    first, _, _ = permission.name.partition(":")  # of a function, behind which an alias stands
    name = first if permission.on is Target.FUNCTION else permission.name.rpartition(":")[2]
    return f"{kinds.get(permission.on, '')}.{name}"


def _queues_of(flows: Iterable[AnyFlow]) -> Iterator[str]:
    """Yield the names of the queues by which flows know what came from where."""
    for flow in flows:
        inboxes = [inbox for stage in flow.stages for inbox in flow.inboxes_of(stage)]
        for place in (*inboxes, flow.answers, flow.dead_letters):
            if isinstance(place, Queue):
                yield place.name


def _is_elsewhere(name: str) -> bool:
    """Answer whether a name is an ARN. The template makes no such resource."""
    return name.startswith("arn:")


def rule_notes(needed: Deployment, options: DeployOptions) -> Iterator[str]:
    """Yield what a rule of the names asks of who deploys, and what it does not change."""
    if needed.at_aws.rule == AS_IN_CODE.rule:
        return
    if _roles(needed):
        yield (
            "roles of functions are named by the rule: CloudFormation takes the template with --capabilities "
            "CAPABILITY_NAMED_IAM; named_roles = false of the options leaves their names to AWS"
        )
    if needed.makes_scheduler_role:
        yield (
            "the scheduler's role sends to queues of this rule alone: where this stack or state had another rule, or "
            "none, what is scheduled already is lost when it is due; let it be sent before, or make a new stack or "
            "state"
        )
    for setting in ("signing_keys", "token_keys"):
        place = getattr(options.settings, setting)
        if place is not None and not _is_made(place, needed):
            yield (
                f"{setting} is {place}, which no rule of the names changes: an environment with the same keys believes "
                "what this one signs; name other ones for each"
            )


def _is_made(place: str, needed: Deployment) -> bool:
    """Answer whether keys are in the secret that the template makes, under its rule."""
    return needed.at_aws.by_rule(place.removeprefix(_SECRETS)) == needed.signing_secret


def _roles(needed: Deployment) -> list[str]:
    """Return the names of the roles that the template names."""
    names = (needed.role_name(function) for function in needed.functions if function.role is None)
    return [name for name in names if name is not None]


def _problems(needed: Deployment) -> Iterator[str]:
    made = [topic.arn for topic in needed.topics if not topic.existing]
    names: dict[str, Iterable[str]] = {
        "function": [function.name for function in needed.functions],
        "queue": [queue.name for queue in needed.queues],
        "table": [table.name for table in needed.tables if not table.name.startswith("arn:")],
        "topic": [topic.name for topic in needed.topics if topic.arn in made],
        "schedule group": [needed.scheduler_group] if needed.has_scheduler else [],
        "schedule": [schedule.name for schedule in needed.schedules],
    }
    for kind, (form, rule) in _FORMS.items():
        for name, times in Counter(names[kind]).items():
            if not form.fullmatch(name):
                yield f"a {kind} would be named {name!r} ({len(name)} characters), and {rule}; shorten the rule"
            elif times > 1:
                yield f"{times} {kind}s would be named {name!r}; give one of them another name"
    yield from _roles_alike(needed)


def _roles_alike(needed: Deployment) -> Iterator[str]:
    """Yield the roles whose names differ in case alone. Two functions of one name are another problem."""
    alike: dict[str, set[str]] = {}
    for name in _roles(needed):
        alike.setdefault(name.lower(), set()).add(name)
    for names in alike.values():
        if len(names) > 1:
            yield (
                f"roles would be named {' and '.join(map(repr, sorted(names)))}, and IAM does not tell names apart by "
                "case; give one of these functions another name, or say named_roles = false"
            )

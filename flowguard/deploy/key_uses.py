"""The use that resources and functions make of a customer's keys.

No role calls KMS for these. A service uses a key in the name of its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from flowguard.deploy.needs import Deployment, FunctionNeed, Permission, QueueNeed, Target
from flowguard.deploy.options import DeployOptions, QueueOptions, TableOptions, TopicOptions
from flowguard.destinations import Queue

READS: Final = ("kms:Decrypt",)
SENDS: Final = ("kms:Decrypt", "kms:GenerateDataKey")
"""For sending to a queue or topic, or writing to a bucket. A new data key is opened once, as a check."""

SCHEDULES: Final = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey")
ITEMS: Final = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""For reading and writing a table. Making one takes ``kms:CreateGrant`` too."""

Use = tuple[str, str, tuple[str, ...]]
"""A key, the service that uses it, and the actions that it takes."""


def under_keys(needed: Deployment, options: DeployOptions) -> Deployment:
    """Return a deployment whose resources are under the keys of the options, and whose functions may use these."""
    placed = replace(
        needed,
        kms_key=options.kms_key,
        tables=tuple(
            replace(table, kms_key=_key(options, options.tables.get(table.name), made=not table.existing))
            for table in needed.tables
        ),
        queues=tuple(
            replace(queue, kms_key=_key(options, options.queues.get(queue.name), made=queue.made))
            for queue in needed.queues
        ),
        topics=tuple(
            replace(
                topic,
                kms_key=_key(
                    options, options.topics.get(topic.arn, options.topics.get(topic.name)), made=not topic.existing
                ),
            )
            for topic in needed.topics
        ),
    )
    return using_keys(placed, options)


def using_keys(placed: Deployment, options: DeployOptions) -> Deployment:
    """Return a deployment whose functions may use the keys that its resources are under."""
    placed = replace(placed, functions=tuple(_with_stream_keys(placed, function) for function in placed.functions))
    uses = _Uses(placed, options)
    return replace(placed, functions=tuple(map(uses.of_function, placed.functions)))


def _with_stream_keys(placed: Deployment, function: FunctionNeed) -> FunctionNeed:
    """Return a function whose streams are under their keys. A table's key is that of its stream."""
    tables = {table.name: table.kms_key for table in placed.tables}
    return replace(
        function,
        streams=tuple(
            replace(stream, kms_key=tables.get(stream.name)) if stream.of_table and stream.kms_key is None else stream
            for stream in function.streams
        ),
    )


def _key(options: DeployOptions, given: TableOptions | QueueOptions | TopicOptions | None, *, made: bool) -> str | None:
    """Return the key of a resource. One that is there already, or elsewhere, is not under the deployment's."""
    if given is not None and given.kms_key is not None:
        return given.kms_key
    is_elsewhere = given is not None and given.name is not None and given.name.startswith("arn:")
    return options.kms_key if made and not is_elsewhere else None


class _Uses:
    """What functions do with keys, seen from their permissions."""

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self._options = options
        self._queues = {queue.name: queue for queue in needed.queues}
        self._tables = {table.name: table.kms_key for table in needed.tables}
        self._topics = {topic.arn: topic.kms_key for topic in needed.topics}
        streams = [stream for function in needed.functions for stream in function.streams]
        self._streams = {stream.place: stream for stream in streams if stream.kafka is None}
        self._secrets = {
            stream.kafka.secret: stream.kms_key
            for stream in streams
            if stream.kafka is not None and stream.kafka.secret is not None
        }
        self._made_secret = needed.signing_secret
        self._bucket = options.bucket_key if options.bucket_key is not None else options.kms_key

    def of_function(self, function: FunctionNeed) -> FunctionNeed:
        """Return the function with its permissions on keys. If it makes schedules, their key is a setting."""
        key = self._options.kms_key
        uses = [use for permission in function.permissions for use in self._of(permission)]
        if key is not None:
            uses.append((key, "lambda", READS))  # its variables
        environment = dict(function.environment)
        if key is not None and "FLOWGUARD_SCHEDULER_GROUP" in environment:
            environment["FLOWGUARD_SCHEDULER_KEY"] = key
        return replace(
            function,
            permissions=tuple(sorted({*function.permissions, *grouped(uses)})),
            environment=tuple(sorted(environment.items())),
        )

    def _of(self, permission: Permission) -> Iterator[Use]:
        match permission.on:
            case Target.TABLE:
                yield from _used(self._tables.get(permission.name), "dynamodb", ITEMS)
            case Target.QUEUE:
                yield from self._of_queue(Queue(permission.name).short_name, permission.actions)
            case Target.TOPIC:
                yield from _used(self._topics.get(permission.name), "sns", SENDS)
            case Target.STREAM:
                if (stream := self._streams.get(permission.name)) is not None:  # none by a consumer's ARN
                    yield from _used(stream.kms_key, stream.kind.lower(), READS)
            case Target.OBJECTS:
                yield from _used(self._bucket, "s3", SENDS)
            case Target.PARAMETER:
                yield from _used(self._key_of_secret(permission.name), "ssm", READS)
            case Target.SECRET:
                yield from _used(self._key_of_secret(permission.name), "secretsmanager", READS)
            case Target.SCHEDULES:
                yield from _used(self._options.kms_key, "scheduler", SCHEDULES)
            case _:
                pass

    def _key_of_secret(self, name: str) -> str | None:
        """Return the key of a secret or parameter. One that the template makes is under that of the deployment."""
        given = self._options.secrets.get(name)
        if given is None or name == self._made_secret:
            return self._secrets.get(name, self._options.kms_key)
        return given.kms_key

    def _of_queue(self, name: str, actions: Iterable[str]) -> Iterator[Use]:
        """Yield the uses of a queue's key, and of the keys of queues from which SQS moves messages there."""
        queue = self._queues.get(name)
        if queue is None:
            return
        if "sqs:SendMessage" in actions:
            yield from _used(queue.kms_key, "sqs", SENDS)
        if "sqs:ReceiveMessage" in actions:
            for source in (queue, *self._given_up_to(queue)):
                yield from _used(source.kms_key, "sqs", READS)

    def _given_up_to(self, queue: QueueNeed) -> Iterator[QueueNeed]:
        return (source for source in self._queues.values() if source.give_up_to == queue.name)


def _used(key: str | None, service: str, actions: tuple[str, ...]) -> Iterator[Use]:
    if key is not None:
        yield key, service, actions


def grouped(uses: Iterable[Use]) -> Iterator[Permission]:
    """Yield the permissions that the uses take: the services that do the same with a key share one."""
    actions: dict[tuple[str, str], set[str]] = {}
    for key, service, taken in uses:
        actions.setdefault((key, service), set()).update(taken)
    services: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (key, service), all_taken in sorted(actions.items()):
        services.setdefault((key, tuple(sorted(all_taken))), []).append(service)
    for (key, taken), via in services.items():
        yield Permission(Target.KEY.value, key, taken, tuple(via))


def through(key: str, services: Iterable[str]) -> list[str]:
    """Return the names of services in ``kms:ViaService``. They use a key in its own region."""
    region = key.split(":")[3]
    return [f"{service}.{region}.amazonaws.com" for service in services]


def only_through(key: str, services: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the condition that a key is used through these services alone."""
    return {"kms:ViaService": through(key, services)}

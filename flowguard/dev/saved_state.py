"""The state that is kept between two starts.

It has tables with their items, queues with their messages, and schedules.

It is taken and put back through the AWS API alone. SQS shows no message that is delayed or in somebody's hands, so the
clock of this process is moved ahead while it is taken, step by step: a message that shows up at a step was due by then.
"""

from __future__ import annotations

import os
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowguard.dev.cannot_serve import StateRefused
from flowguard.payload.encoding import problems_of
from flowguard.text.printable import bounded

FILE: Final = "flowguard-dev.json"
LOCK: Final = "flowguard-dev.lock"
_MOVE: Final = "move it away to begin without it"
STEPS: Final = (0, 1, 5, 15, 30, 60, 120, 300, 600, 900, 43_200, 43_201)
"""Seconds by which the clock is moved ahead. SQS hides a message for twelve hours at most; the last look finds what the
one before it moved to a queue of dead letters."""
_LONGEST_DELAY: Final = 900
_OF_QUEUES: Final = (
    "ContentBasedDeduplication",
    "DelaySeconds",
    "FifoQueue",
    "MessageRetentionPeriod",
    "RedrivePolicy",
    "VisibilityTimeout",
)
_OF_MESSAGES: Final = ("MessageDeduplicationId", "MessageGroupId")
_BATCH: Final = 25

Travel = Callable[[float], AbstractContextManager[object]]
"""Moves the clock of this process to a moment, in seconds since 1970, for a block."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, ser_json_bytes="base64")


class SavedTable(_Frozen):
    """A table. ``items`` are in low-level form, bytes as ``{"B64": …}``."""

    name: str
    key: list[dict[str, str]]
    attributes: list[dict[str, str]]
    ttl: str | None
    items: list[dict[str, Any]]


class SavedMessage(_Frozen):
    """A message that is due at a moment, in seconds since 1970."""

    body: str
    attributes: dict[str, Any]
    system: dict[str, str]
    due: float


class SavedQueue(_Frozen):
    """A queue with its messages in their order."""

    name: str
    attributes: dict[str, str]
    messages: list[SavedMessage]


class SavedSchedule(_Frozen):
    """A message that EventBridge Scheduler sends later. ``target`` has its queue and its text."""

    name: str
    group: str
    expression: str
    target: dict[str, str]


class SavedState(_Frozen):
    """All that is kept."""

    version: Literal[1] = Field(alias="flowguard_dev")
    tables: list[SavedTable]
    queues: list[SavedQueue]
    schedules: list[SavedSchedule]


@contextmanager
def only_user(directory: Path) -> Iterator[None]:
    """Hold a directory for the block, for of two that keep their state there one would be lost.

    The system lets go of it where the process is killed. Raises :class:`StateRefused` where another one holds it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(_unlinked(directory / LOCK), "w")
    except OSError as error:
        raise StateRefused(str(directory), f"it cannot be used: {error.strerror}") from None
    with lock:
        _hold(lock, directory)
        yield


def _unlinked(file: Path) -> int:
    """Open a file for writing. Refuses a link, which may lead to anybody's file."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)  # Windows has none


def _hold(lock: IO[str], directory: Path) -> None:
    try:
        import fcntl  # Windows has none
    except ImportError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateRefused(str(directory), "another flowguard dev keeps its state here", "stop it first") from None


def read_state(directory: Path) -> SavedState | None:
    """Read what a directory keeps. None where nothing is kept yet.

    Raises :class:`StateRefused` for a file that cannot be read, is damaged or of another version.
    """
    file = directory / FILE
    try:
        return SavedState.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateRefused(str(file), f"it cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise StateRefused(str(file), f"it is damaged, or of another version: {problems_of(error)}", _MOVE) from None


def write_state(directory: Path, state: SavedState) -> None:
    """Write the state. A reader, now or after a crash, gets the whole old one or the whole new one.

    Raises :class:`StateRefused` where it cannot be written.
    """
    try:
        number, name = tempfile.mkstemp(dir=directory, prefix=FILE)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as opened:
                opened.write(state.model_dump_json(by_alias=True))
                opened.flush()
                os.fsync(opened.fileno())
            Path(name).replace(directory / FILE)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StateRefused(str(directory / FILE), f"it cannot be written: {error.strerror}") from None


# -- taken ------------------------------------------------------------------------------------------------------------


def take_state(client: Callable[[str], Any], travel: Travel, now: float) -> SavedState:
    """Take the state of an engine that nobody else uses any more. Its queues are empty then.

    Raises :class:`StateRefused` where the engine does not answer.
    """
    try:
        return _taken(client, travel, now)
    except (ClientError, BotoCoreError) as error:
        raise StateRefused(FILE, f"the state cannot be taken: {bounded(str(error))}") from None


def _taken(client: Callable[[str], Any], travel: Travel, now: float) -> SavedState:
    dynamodb, sqs = client("dynamodb"), client("sqs")
    names = [name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]]
    tables = [_table(dynamodb, name) for name in names]
    urls = [url for page in sqs.get_paginator("list_queues").paginate() for url in page.get("QueueUrls", [])]
    messages: dict[str, list[SavedMessage]] = {url: [] for url in urls}
    attributes = {url: _attributes(sqs, url) for url in urls}
    for step in STEPS:
        with travel(now + step):
            for url in urls:
                messages[url] += _messages(sqs, url, now + min(step, _LONGEST_DELAY))
    queues = [
        SavedQueue(name=url.rpartition("/")[2], attributes=attributes[url], messages=messages[url]) for url in urls
    ]
    schedules = [*_schedules(client("scheduler"))]
    return SavedState(flowguard_dev=1, tables=tables, queues=queues, schedules=schedules)


def _schedules(scheduler: Any) -> Iterator[SavedSchedule]:
    for page in scheduler.get_paginator("list_schedules").paginate():
        for entry in page["Schedules"]:
            schedule = scheduler.get_schedule(Name=entry["Name"], GroupName=entry["GroupName"])
            target = {name: value for name, value in schedule["Target"].items() if isinstance(value, str)}
            yield SavedSchedule(
                name=schedule["Name"],
                group=schedule["GroupName"],
                expression=schedule["ScheduleExpression"],
                target=target,
            )


def _table(dynamodb: Any, name: str) -> SavedTable:
    about = dynamodb.describe_table(TableName=name)["Table"]
    ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    pages = dynamodb.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
    return SavedTable(
        name=name,
        key=about["KeySchema"],
        attributes=about["AttributeDefinitions"],
        ttl=ttl.get("AttributeName") if ttl["TimeToLiveStatus"] == "ENABLED" else None,
        items=[_written(item) for page in pages for item in page["Items"]],
    )


def _attributes(sqs: Any, url: str) -> dict[str, str]:
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return {name: attributes[name] for name in _OF_QUEUES if name in attributes and attributes[name] != "false"}


def _messages(sqs: Any, url: str, due: float) -> Iterator[SavedMessage]:
    while True:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        )
        if not (received := answer.get("Messages")):
            return
        for message in received:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            yield SavedMessage(
                body=message["Body"],
                attributes=_written(message.get("MessageAttributes", {})),
                system={name: message["Attributes"][name] for name in _OF_MESSAGES if name in message["Attributes"]},
                due=due,
            )


# -- put back ---------------------------------------------------------------------------------------------------------


def put_back(state: SavedState, client: Callable[[str], Any], now: float, *, where: str) -> None:
    """Create tables, items, queues and messages on an empty engine. Messages get new ids.

    Raises :class:`StateRefused`, naming ``where`` it is from, for what the engine does not take.
    """
    try:
        _put_back(state, client, now)
    except (ClientError, BotoCoreError) as error:
        raise StateRefused(where, f"it cannot be put back: {bounded(str(error))}", _MOVE) from None


def _put_back(state: SavedState, client: Callable[[str], Any], now: float) -> None:
    dynamodb, sqs = client("dynamodb"), client("sqs")
    for table in state.tables:
        _create(dynamodb, table)
    # a redrive policy names a queue that has to be there
    urls = {queue.name: _created(sqs, queue) for queue in state.queues}
    for queue in state.queues:
        if policy := queue.attributes.get("RedrivePolicy"):
            sqs.set_queue_attributes(QueueUrl=urls[queue.name], Attributes={"RedrivePolicy": policy})
        for message in queue.messages:
            _send(sqs, urls[queue.name], message, now, fifo="FifoQueue" in queue.attributes)

    _schedule(client("scheduler"), state.schedules)


def _schedule(scheduler: Any, schedules: Sequence[SavedSchedule]) -> None:
    for group in {schedule.group for schedule in schedules} - {"default"}:
        scheduler.create_schedule_group(Name=group)
    for schedule in schedules:
        scheduler.create_schedule(
            Name=schedule.name,
            GroupName=schedule.group,
            ScheduleExpression=schedule.expression,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=schedule.target,
        )


def _create(dynamodb: Any, table: SavedTable) -> None:
    used = {attribute["AttributeName"] for attribute in table.key}
    dynamodb.create_table(
        TableName=table.name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=table.key,
        AttributeDefinitions=[attribute for attribute in table.attributes if attribute["AttributeName"] in used],
    )
    if table.ttl is not None:
        ttl = {"Enabled": True, "AttributeName": table.ttl}
        dynamodb.update_time_to_live(TableName=table.name, TimeToLiveSpecification=ttl)
    for first in range(0, len(table.items), _BATCH):
        puts = [{"PutRequest": {"Item": _read(item)}} for item in table.items[first : first + _BATCH]]
        left: Any = {table.name: puts}
        while left:
            left = dynamodb.batch_write_item(RequestItems=left).get("UnprocessedItems")


def _created(sqs: Any, queue: SavedQueue) -> str:
    attributes = {name: value for name, value in queue.attributes.items() if name != "RedrivePolicy"}
    return str(sqs.create_queue(QueueName=queue.name, Attributes=attributes)["QueueUrl"])


def _send(sqs: Any, url: str, message: SavedMessage, now: float, *, fifo: bool) -> None:
    delay = 0 if fifo else min(_LONGEST_DELAY, max(0, int(message.due - now)))
    attributes = {name: value for name, value in message.system.items() if fifo or name == "MessageGroupId"}
    sqs.send_message(
        QueueUrl=url,
        MessageBody=message.body,
        MessageAttributes=_read(message.attributes),
        **({} if fifo else {"DelaySeconds": delay}),
        **attributes,
    )


# -- values that JSON has not -----------------------------------------------------------------------------------------

_BYTES: Final = "base64"


def _written(value: Any) -> Any:
    """Return a value of the API with its bytes as ``{"base64": …}``."""
    match value:
        case bytes():
            return {_BYTES: b64encode(value).decode()}
        case dict():
            return {name: _written(inner) for name, inner in value.items()}
        case list():
            return [_written(inner) for inner in value]
        case _:
            return value


def _read(value: Any) -> Any:
    match value:
        case {"base64": str(text)} if len(value) == 1:
            return b64decode(text)
        case dict():
            return {name: _read(inner) for name, inner in value.items()}
        case list():
            return [_read(inner) for inner in value]
        case _:
            return value


def travelling(to: float) -> AbstractContextManager[object]:
    """Move the clock of this process for a block."""
    import time_machine  # comes with an extra

    travel: AbstractContextManager[object] = time_machine.travel(to, tick=True)
    return travel


def seconds_now() -> float:
    return time.time()

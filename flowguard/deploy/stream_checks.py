"""Checks of the mappings that bring live functions the records of streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.batch_plan import time_for
from flowguard.deploy.finding import LiveFinding, error, note, warning
from flowguard.deploy.kafka_checks import TRIES_WITH_DESTINATION, check_kafka
from flowguard.deploy.needs import FOR_EVER, Deployment, FunctionNeed, StreamNeed, stream_of
from flowguard.deploy.options import TABLE_KEEPS
from flowguard.deploy.other_readers import other_readers
from flowguard.deploy.template import VIEW
from flowguard.deploy.time_spans import spoken
from flowguard.worker.patience import MANY_RECEIVES

_OFF: Final = ("Disabled", "Disabling")
_LACKING: Final = {"KEYS_ONLY": ("new", "old"), "NEW_IMAGE": ("old",), "OLD_IMAGE": ("new",)}
"""What a record lacks of a change, by the view of its stream."""


def check_streams(function: FunctionNeed, deployed: Mapping[str, Any], live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about what brings a function the records of its streams."""
    sources = live.event_sources(function.name) if function.streams else None
    if sources is None:
        return
    for stream in function.streams:
        yield from known(_view(function, stream, live))
        mappings = [source for source in sources if stream.is_brought_by(source)]
        if not mappings:
            yield error(
                "source-missing",
                function.name,
                f"no event source mapping brings it {_called(stream)}",
                f"its records begin no runs, and expire in the {stream.whole}",
                "map it to the function, with ReportBatchItemFailures",
            )
        for mapping in mappings:
            yield from known(
                _answers(function, stream, mapping),
                _age(function, stream, mapping, live),
                _attempts(function, stream, mapping),
                _told(function, stream, mapping),
                _start(function, stream, mapping),
                _time(function, stream, mapping, deployed),
            )
            if stream.kafka is not None:
                yield from check_kafka(function, stream.kafka, mapping, deployed, live)


def check_shared_streams(needed: Deployment, function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    """Yield what else reads the streams of a function. A table's serves two readers."""
    sources = live.event_sources(function.name) if function.streams else None
    arns = [] if sources is None else [str(source.get("EventSourceArn", "")) for source in sources]
    for stream in (stream for stream in function.streams if stream.kafka is None):  # groups of Kafka share nothing
        for arn in dict.fromkeys(stream_of(arn) for arn in arns if stream.is_in(arn)):
            yield from known(_shared(function, stream, other_readers(needed, arn, live)))


def _shared(function: FunctionNeed, stream: StreamNeed, readers: Iterator[str]) -> Iterator[LiveFinding]:
    if others := [*readers]:
        yield (warning if stream.of_table and len(others) > 1 else note)(
            "stream-shared",
            function.name,
            f"{_called(stream)} is read by {' and '.join(others)} too",
            "each gets every record; but more than two readers of a table's stream, or those of one of Kinesis that "
            "want more than a shard gives, are throttled, and its records come late",
            "let one of them read it and tell the others, or give readers of Kinesis consumers of their own",
        )


def check_own_table(needed: Deployment, function: FunctionNeed, live: Account) -> Iterator[LiveFinding]:
    """Yield an error for a mapping that brings a function the changes of the run items' table."""
    run_stream = f":table/{needed.run_table.rpartition('/')[2]}/stream/"
    sources = live.event_sources(function.name)
    for source in [] if sources is None else sources:
        if run_stream in str(source.get("EventSourceArn", "")):
            yield error(
                "source-own-table",
                function.name,
                f"a mapping brings it the changes of {needed.run_table}, the table of the run items",
                "it acks each of them and begins nothing, for each run would begin others; each change costs a call",
                "remove the mapping",
            )


def _called(stream: StreamNeed) -> str:
    return f"the stream of the table {stream.name}" if stream.of_table else f"the {stream.whole} {stream.name}"


def _answers(function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield what keeps records from the function, or its answers from Lambda."""
    which = f"its mapping from {_called(stream)}"
    if mapping.get("State") in _OFF:
        why = f"its records begin no runs, and expire in the {stream.whole}"
        yield error("source-off", function.name, f"{which} is off", why, "enable the mapping")
    if "ReportBatchItemFailures" not in mapping.get("FunctionResponseTypes", ()):
        yield error(
            "report-failures-missing",
            function.name,
            f"{which} has no ReportBatchItemFailures",
            "Lambda goes on behind failed records as if they had succeeded: requests are lost",
            "set FunctionResponseTypes to ReportBatchItemFailures",
        )
    if mapping.get("TumblingWindowInSeconds"):
        yield error(
            "stream-windowed",
            function.name,
            f"{which} gathers windows",
            "Lambda wants a state in each answer, and takes those of a flow as failures: no record is ever taken",
            "set TumblingWindowInSeconds to 0",
        )


def _age(
    function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any], live: Account
) -> Iterator[LiveFinding]:
    """Yield what lets a record hold up its shard until it expires, or ends it too soon."""
    which, age = f"its mapping from {_called(stream)}", _bound(mapping, "MaximumRecordAgeInSeconds")
    kept = _kept(stream, mapping, live)
    is_late = age == FOR_EVER or (kept is not None and age >= kept)
    if is_late and _tries(stream, mapping) == FOR_EVER:
        yield error(
            "stream-age-open",
            function.name,
            f"{which} tries a record until it has expired",
            f"one that is never acked holds up its {stream.lane} until then, and is gone without a trace",
            f"set MaximumRetryAttempts to {stream.max_attempts}"
            if stream.max_age == FOR_EVER
            else f"set MaximumRecordAgeInSeconds to {stream.max_age}",
        )
    if age > FOR_EVER and (stream.max_age == FOR_EVER or age < stream.max_age):
        yield warning(
            "stream-age-short",
            function.name,
            f"{which} gives a record up when it is {spoken(timedelta(seconds=age))} old",
            "also one that the function has never got: an outage or a throttle that is longer loses requests, and "
            "so does a mapping that begins with older records",
            f"set MaximumRecordAgeInSeconds to {stream.max_age}, or say max_age of the stream in the options",
        )


def _attempts(function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield a bound of attempts that no option names and that an outage uses up."""
    tries = _tries(stream, mapping)
    wanted = stream.max_attempts if stream.max_attempts is not None else MANY_RECEIVES
    if FOR_EVER < tries < wanted:
        yield (warning if tries else error)(
            "stream-attempts-few",
            function.name,
            f"its mapping from {_called(stream)} gives a record up after {tries} retries",
            "busy objects and each minute of an outage use retries up, and the record has not failed",
            "leave MaximumRetryAttempts out, or say max_attempts of the stream in the options"
            if stream.max_attempts is None
            else f"set MaximumRetryAttempts to {stream.max_attempts}",
        )


def _kept(stream: StreamNeed, mapping: Mapping[str, Any], live: Account) -> int | None:
    """Return for how many seconds a record is kept. None where nobody says: a topic of Kafka says it to its readers."""
    if stream.kafka is not None:
        return None
    return TABLE_KEEPS if stream.of_table else live.stream_keeps(str(mapping["EventSourceArn"]))


def _tries(stream: StreamNeed, mapping: Mapping[str, Any]) -> int:
    """Return after how many retries Lambda gives a record up. A destination bounds them, of Kafka."""
    tries = _bound(mapping, "MaximumRetryAttempts")
    if stream.kafka is not None and tries == FOR_EVER and _destination(mapping):
        return TRIES_WITH_DESTINATION
    return tries


def _told(function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield what hides from the flow the records that Lambda gives up."""
    which, told = f"its mapping from {_called(stream)}", _destination(mapping)
    if not told:
        yield error(
            "stream-undelivered-missing",
            function.name,
            f"{which} has no OnFailure destination",
            "records that Lambda gives up are dropped, and nothing says so",
            f"set DestinationConfig to the queue {stream.undelivered}",
        )
    elif told.rpartition(":")[2] != stream.undelivered:
        yield warning(
            "stream-undelivered-other",
            function.name,
            f"{which} tells {told} of the records that it gives up",
            "no alarm and no command of the flow looks there, so nobody hears of what is lost",
            f"set DestinationConfig to the queue {stream.undelivered}",
        )
    if not mapping.get("BisectBatchOnFunctionError"):
        yield warning(
            "stream-whole",
            function.name,
            f"{which} does not split a batch that fails as a whole",
            "a record that kills its function is given up together with those around it",
            "set BisectBatchOnFunctionError",
        )


def _start(function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any]) -> Iterator[LiveFinding]:
    if mapping.get("StartingPosition") == "LATEST" != stream.start:
        yield note(
            "stream-start-latest",
            function.name,
            f"its mapping from {_called(stream)} begins with what comes after it is made",
            "records from before that, and from the minute in which it is made, begin no runs",
            f'set StartingPosition to {stream.start}, or say start = "LATEST" of the stream in the options',
        )


def _view(function: FunctionNeed, stream: StreamNeed, live: Account) -> Iterator[LiveFinding]:
    """Yield what the stream of a table leaves out of the changes that the first stage reads."""
    name = stream.name if stream.arn is None else stream.arn.partition("/stream/")[0]
    if not stream.of_table or (table := live.table(name)) is None:
        return
    if "StreamSpecification" not in table:
        yield error(
            "stream-off",
            function.name,
            f"the table {stream.name} has no stream",
            "no change of its items begins a run",
            f"turn its stream on, with the view {VIEW}",
        )
        return
    view = table["StreamSpecification"].get("StreamViewType")
    if lacking := [part for part in _LACKING.get(view, ()) if _reads(function, part)]:
        yield warning(
            "stream-view-short",
            function.name,
            f"{_called(stream)} has the view {view}, and the first stage reads {' and '.join(lacking)}",
            "its records lack that, and their runs fail or do nothing",
            f"set StreamViewType to {VIEW}",
        )


def _reads(function: FunctionNeed, part: str) -> bool:
    """Answer whether the first stage may read a part of a change. That of a payload without fields may read any."""
    flow, _ = function.definition.stages[0]
    fields: Mapping[str, Any] = getattr(flow.entry().payload, "model_fields", {})
    return not fields or any(part in (name, field.alias, field.validation_alias) for name, field in fields.items())


def _bound(mapping: Mapping[str, Any], which: str) -> int:
    """Return a bound of a mapping. It is ``FOR_EVER`` where nothing is said."""
    given = mapping.get(which)
    return FOR_EVER if given is None else int(given)


def _destination(mapping: Mapping[str, Any]) -> str | None:
    given: Mapping[str, Mapping[str, str]] = mapping.get("DestinationConfig") or {}
    return (given.get("OnFailure") or {}).get("Destination")


def _time(
    function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any], deployed: Mapping[str, Any]
) -> Iterator[LiveFinding]:
    size, timeout = int(mapping.get("BatchSize", 1)), int(deployed["Timeout"])
    if (wanted := time_for(size, function.definition)) > timeout:
        yield error(
            "batch-slow",
            function.name,
            f"it gets up to {size} records of {_called(stream)} at once, which may take {wanted} s, and is stopped "
            f"after {timeout} s",
            "records that it has no time for come again and again, and may be given up unread",
            f"set BatchSize to {stream.batch_size} and Timeout to {function.timeout} s",
        )


def is_any_stream(resource: str) -> bool:
    """Answer whether an ARN stands for all streams of a table. That of one ends with a time."""
    return resource.endswith("/stream/*")


def streams_there(function: FunctionNeed, resources: Sequence[str], live: Account) -> Iterator[str]:
    """Yield the streams of tables that mappings bring a function. A role may name these alone."""
    for resource in filter(is_any_stream, resources):
        [stream] = [each for each in function.streams if resource.endswith(f":{each.place}")]
        sources = live.event_sources(function.name)
        there = [] if sources is None else [str(source.get("EventSourceArn", "")) for source in sources]
        yield from [arn for arn in there if stream.is_in(arn)] or [resource]


def brings_queues(sources: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of queues. Those of streams have no largest concurrency: their shards bound it."""
    return (source for source in sources if ":sqs:" in str(source.get("EventSourceArn", "")))

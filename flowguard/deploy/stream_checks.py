"""Checks of the mappings that bring live functions the records of streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.batch_plan import time_for
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import Deployment, FunctionNeed, StreamNeed
from flowguard.deploy.options import TABLE_KEEPS

_OFF: Final = ("Disabled", "Disabling")
_FOR_EVER: Final = -1
"""The age or the attempts of a mapping that has no bound."""


def check_streams(function: FunctionNeed, deployed: Mapping[str, Any], live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about what brings a function the records of its streams."""
    sources = live.event_sources(function.name) if function.streams else None
    if sources is None:
        return
    for stream in function.streams:
        mappings = [source for source in sources if stream.is_in(str(source.get("EventSourceArn", "")))]
        if not mappings:
            yield error(
                "source-missing",
                function.name,
                f"no event source mapping brings it {_called(stream)}",
                "its records begin no runs, and expire in the stream",
                "map it to the function, with ReportBatchItemFailures",
            )
        for mapping in mappings:
            yield from known(
                _answers(function, stream, mapping),
                _given_up(function, stream, mapping, live),
                _time(function, stream, mapping, deployed),
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
    return f"the stream of the table {stream.name}" if stream.of_table else f"the stream {stream.name}"


def _answers(function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield what keeps records from the function, or its answers from Lambda."""
    which = f"its mapping from {_called(stream)}"
    if mapping.get("State") in _OFF:
        why = "its records begin no runs, and expire in the stream"
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


def _given_up(
    function: FunctionNeed, stream: StreamNeed, mapping: Mapping[str, Any], live: Account
) -> Iterator[LiveFinding]:
    """Yield what lets a record hold up its shard until it expires, or vanish."""
    which, age = f"its mapping from {_called(stream)}", int(mapping.get("MaximumRecordAgeInSeconds") or _FOR_EVER)
    tries = int(mapping.get("MaximumRetryAttempts", _FOR_EVER))
    kept = TABLE_KEEPS if stream.of_table else live.stream_keeps(str(mapping["EventSourceArn"]))
    is_late = age == _FOR_EVER or (kept is not None and age >= kept)
    if is_late and tries == _FOR_EVER:
        yield error(
            "stream-age-open",
            function.name,
            f"{which} tries a record until it has expired",
            "one that is never acked holds up its shard until then, and is gone without a trace",
            f"set MaximumRecordAgeInSeconds to {stream.max_age}",
        )
    if not _destination(mapping):
        yield error(
            "stream-undelivered-missing",
            function.name,
            f"{which} has no OnFailure destination",
            "records that Lambda gives up are dropped, and nothing says so",
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

"""Plan the mappings of streams: batch sizes, ages of records, and queues for the notices of failed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from flowguard.deploy.at_aws import names_of
from flowguard.deploy.batch_plan import BatchPlan, time_for
from flowguard.deploy.found import FoundFunction
from flowguard.deploy.kafka_plan import kafka_need, kafka_problems, tries_of
from flowguard.deploy.needs import FOR_EVER, StreamNeed
from flowguard.deploy.options import TABLE_KEEPS, DeployOptions, StreamOptions
from flowguard.deploy.permissions import tables_of_stage
from flowguard.flow import AnyFlow
from flowguard.streams import KafkaTopic, KinesisStream, Stream, TableStream

_SERVICES: Final = {KinesisStream: ":kinesis:", TableStream: ":dynamodb:", KafkaTopic: ":kafka:"}
_CHANGES: Final = frozenset({"DeleteItem", "PutItem", "UpdateItem"})


def streams_of(
    function: FoundFunction, undelivered: Mapping[AnyFlow, str], batching: BatchPlan, options: DeployOptions
) -> tuple[StreamNeed, ...]:
    """Return the streams that a function reads: those of each flow whose first stage it serves."""
    return tuple(
        _need(stream, undelivered[flow], batching, options.of_stream(stream.name))
        for flow in _entered(function)
        for stream in flow.streams
    )


def tables_with_stream(flows: Iterable[AnyFlow]) -> frozenset[str]:
    """Return the names of the tables whose changes begin runs of these flows."""
    return frozenset(stream.name for flow in flows for stream in flow.streams if isinstance(stream, TableStream))


def _entered(function: FoundFunction) -> Iterator[AnyFlow]:
    return (flow for flow, stage in function.stages if stage is flow.entry())


def _need(stream: Stream, undelivered: str, batching: BatchPlan, chosen: StreamOptions) -> StreamNeed:
    return StreamNeed(
        name=stream.name,
        of_table=isinstance(stream, TableStream),
        undelivered=undelivered,
        start=chosen.start,
        batch_size=batching.size if chosen.batch_size is None else chosen.batch_size,
        window=chosen.window,
        parallel=chosen.parallel,
        max_age=FOR_EVER if chosen.max_age is None else chosen.max_age,
        max_attempts=tries_of(stream, chosen),
        arn=chosen.arn,
        kms_key=chosen.kms_key,
        kafka=kafka_need(stream, chosen),
    )


# -- what is wrong ----------------------------------------------------------------------------------------------------


def stream_problems(
    function: FoundFunction, name: str, batching: BatchPlan, made: frozenset[str], options: DeployOptions
) -> Iterator[str]:
    """Yield what keeps a function from reading its streams.

    ``name`` is the function's at Lambda, ``made`` are the tables that the template makes.
    """
    for flow in _entered(function):
        if flow.streams and len(function.flows) > 1:
            others = ", ".join(other.name for other in function.flows if other is not flow)
            yield (
                f"{function.handler} serves {flow.name}, which begins with streams, beside {others}, and a stream's "
                f"record names no flow; serve {flow.name} by a function of its own"
            )
        for stream in flow.streams:
            yield from _problems(function, stream, batching, made, options)
            called = options.settings.at_aws.by_rule(name)
            yield from kafka_problems(
                stream, options.of_stream(stream.name), _section(stream), called, batching.timeout
            )


def _section(stream: Stream) -> str:
    return f'[streams."{stream.name}"]'


def _problems(
    function: FoundFunction, stream: Stream, batching: BatchPlan, made: frozenset[str], options: DeployOptions
) -> Iterator[str]:
    chosen, section = options.of_stream(stream.name), _section(stream)
    of_table = isinstance(stream, TableStream)
    if chosen.arn is not None and _SERVICES[type(stream)] not in chosen.arn:
        yield f"{section} arn is that of another service than {stream} has; give streams of two services two names"
    elif of_table and stream.name == options.settings.table:
        yield f"{stream} is the table of the run items: each run would begin others without end; take another table"
    elif of_table and chosen.arn is None and stream.name not in made:
        is_there = stream.name in options.tables
        otherwise = "; it takes no import" if is_there else ", or name it in TABLES of the flow's module"
        yield (
            f"{stream} is the stream of a table that is there already, and only AWS knows its ARN; say {section} "
            f'arn = "arn:aws:dynamodb:…:table/{stream.name}/stream/…"{otherwise}'
        )
    elif of_table and chosen.arn is not None and stream.name in made:
        yield f"{section} gives an arn, and {stream.name!r} is a table that the template makes; leave the arn out"
    elif of_table and chosen.arn is not None:
        yield from _of_another_table(stream, chosen.arn, section, options)
    if of_table and chosen.max_age is not None and chosen.max_age >= TABLE_KEEPS:
        yield (
            f"{section} has max_age = {chosen.max_age}, and the stream of a table keeps a change for {TABLE_KEEPS} s: "
            f"what is given up then is gone; lower it"
        )
    if chosen.batch_size is not None and (wanted := time_for(chosen.batch_size, function)) > batching.timeout:
        yield (
            f"{section} has batch_size = {chosen.batch_size}, which takes up to {wanted} s, and {function.handler} is "
            f"stopped after {batching.timeout} s; lower the one or raise the other"
        )


def _of_another_table(stream: Stream, arn: str, section: str, options: DeployOptions) -> Iterator[str]:
    """Yield what is wrong with the ARN of a table's stream that is of another table.

    A table without a name of its own may be shared by deployments whose rules call it differently.
    """
    chosen, table = options.tables.get(stream.name), arn.partition("/stream/")[0]
    given = None if chosen is None else chosen.name
    if given in options.imports:
        return
    names = (stream.name, names_of(options).table(stream.name)) if given is None else (given,)
    if table not in names and table.rpartition("/")[2] not in names:
        yield (
            f"{section} arn is of the table {table.rpartition('/')[2]!r}, and {stream} is the stream of {names[-1]!r}; "
            f'say the ARN of that, or what it is called at AWS: [tables."{stream.name}"] name = "…"'
        )


def stream_notes(flows: Sequence[AnyFlow]) -> Iterator[str]:
    """Yield a note for each flow that changes a table whose changes begin its runs."""
    for flow in flows:
        for table in sorted(tables_with_stream([flow])):
            changing = [
                stage.name for stage in flow.stages if _CHANGES & tables_of_stage(flow, stage).get(table, set())
            ]
            if changing:
                yield (
                    f"{', '.join(changing)} of {flow.name} may change the table {table!r}, whose changes begin runs of "
                    f"{flow.name}: each run then begins another, and no max_depth ends that; write elsewhere, or only "
                    "where a change comes from others"
                )

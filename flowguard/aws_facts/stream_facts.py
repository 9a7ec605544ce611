"""What streams of Kinesis and of DynamoDB tables do, and the mappings that bring their records to functions."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_FAILURES: Final = Document(
    "Configuring partial batch response with Kinesis Data Streams and Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-batchfailurereporting.html",
)
_PARAMETERS: Final = Document(
    "Lambda parameters for Amazon DynamoDB event source mappings",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-params.html",
)
_DISCARDED: Final = Document(
    "Retain discarded records for a DynamoDB event source in Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html",
)
_MAPPING: Final = Document(
    "EventSourceMappingConfiguration",
    "https://docs.aws.amazon.com/lambda/latest/api/API_EventSourceMappingConfiguration.html",
)
_WINDOWS: Final = Document(
    "Implementing stateful Kinesis Data Streams processing in Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-windows.html",
)
_STREAM_RECORD: Final = Document(
    "StreamRecord",
    "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamRecord.html",
)
_TTL: Final = Document(
    "DynamoDB Streams and Time to Live",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html",
)
_AGGREGATION: Final = Document(
    "KPL key concepts",
    "https://docs.aws.amazon.com/streams/latest/dev/kinesis-kpl-concepts.html",
)
_SUMMARY: Final = Document(
    "StreamDescriptionSummary",
    "https://docs.aws.amazon.com/kinesis/latest/APIReference/API_StreamDescriptionSummary.html",
)
_GET_RECORDS: Final = Document(
    "GetRecords", "https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html"
)
_PUT_RECORD: Final = Document("PutRecord", "https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecord.html")
_CHANGES: Final = Document(
    "Change data capture for DynamoDB Streams",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html",
)
_DISCARDED_KINESIS: Final = Document(
    "Retain discarded batch records for a Kinesis Data Streams event source in Lambda",
    "https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html",
)
_TWO_READERS: Final = Document(
    "GetRecords",
    "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetRecords.html",
)
_NEEDS_A_STREAM: Final = "Needs a stream with a mapping, whose hours cost."
_READ_BY_CLIENTS: Final = like("ministack", moto="breaks: its streams of tables cannot be read there")

STREAM_FACTS: Final = (
    Fact(
        name="mapping-stream-checkpoint",
        sentence="Of a stream the answer names records by their sequence numbers. Lambda goes on from the lowest one, "
        "so that later records of the batch come again.",
        source=_FAILURES,
        read="2026-11",
        relied_on_by=(
            "handler.py:lambda_answer",
            "wire/stream_records.py:position_of",
            "sim/shards.py:delivered_again",
        ),
        words=("SequenceNumber",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-age",
        sentence="By default a failed record of a stream is tried until it expires, and holds up its shard. "
        "`MaximumRecordAgeInSeconds` and `MaximumRetryAttempts` bound that; -1 is no bound. With "
        "`BisectBatchOnFunctionError` a batch that fails as a whole is split, which uses up no attempt.",
        source=_DISCARDED,
        read="2026-11",
        relied_on_by=(
            "deploy/options.py:StreamOptions",
            "deploy/stream_checks.py:check_streams",
            "sim/event_source.py:EventSource.end",
        ),
        words=("MaximumRecordAgeInSeconds", "MaximumRetryAttempts", "BisectBatchOnFunctionError"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-too-old",
        sentence="`MaximumRecordAgeInSeconds` is the age of the oldest record that Lambda sends to the function: an "
        "older one is discarded, whether the function has had it or not.",
        source=_MAPPING,
        read="2026-11",
        relied_on_by=("deploy/options.py:StreamOptions", "deploy/stream_checks.py:check_streams"),
        words=("MaximumRecordAgeInSeconds",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-given-up",
        sentence="A record that is given up is dropped. A queue that is the `OnFailure` destination gets a JSON text "
        "that names stream, shard and sequence numbers, and has none of the records. A bucket gets the event as "
        "well.",
        source=_DISCARDED_KINESIS,
        read="2026-11",
        relied_on_by=("wire/stream_letters.py:stream_letter_problem",),
        words=("DestinationConfig", "OnFailure", "Destination", "KinesisBatchInfo", "DDBStreamBatchInfo"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-start",
        sentence="A new mapping begins at its `StartingPosition`: the oldest record that the stream still has, or what "
        "comes from then on. `ParallelizationFactor` batches of a shard are worked on at once; those of one partition "
        "key stay in order.",
        source=_PARAMETERS,
        read="2026-11",
        relied_on_by=("deploy/options.py:StreamOptions",),
        words=("StartingPosition", "ParallelizationFactor"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-window",
        sentence="With `TumblingWindowInSeconds` an event has `window` and `isFinalInvokeForWindow`, and an answer "
        "without `state` is a failed invocation.",
        source=_WINDOWS,
        read="2026-11",
        relied_on_by=("wire/stream_records.py:is_windowed",),
        words=("TumblingWindowInSeconds",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="mapping-stream-change",
        sentence="A change in a table's stream has the item's `Keys`, `NewImage` and `OldImage` as far as the stream's "
        "view has them, and a time in whole seconds, `ApproximateCreationDateTime`.",
        source=_STREAM_RECORD,
        relied_on_by=("wire/stream_records.py:read_stream_record", "deploy/stream_checks.py:check_streams"),
        words=(
            *("Keys", "NewImage", "OldImage", "ApproximateCreationDateTime", "NS"),
            *("StreamSpecification", "StreamViewType", "StreamArn"),
        ),
        engines=_READ_BY_CLIENTS,
    ),
    Fact(
        name="stream-two-readers",
        sentence="More than two readers of one shard of a table's stream at once may be throttled.",
        source=_TWO_READERS,
        read="2026-11",
        relied_on_by=("deploy/stream_checks.py:check_shared_streams",),
        engines=NOWHERE,
        by_hand="Needs a table's stream with three mappings.",
    ),
    Fact(
        name="stream-numbers",
        sentence="The sequence numbers of a shard grow with time. Those of two shards are not comparable.",
        source=_PUT_RECORD,
        relied_on_by=("wire/stream_records.py:read_stream_record", "protocol/series.py:later_in_series"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="stream-times",
        sentence="The times of a shard's records are approximate, and may be out of order.",
        source=_GET_RECORDS,
        relied_on_by=("protocol/series.py:later_in_series",),
        words=("approximateArrivalTimestamp",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="stream-items-in-order",
        sentence="The changes of one item are in its table's stream once each, and in their order. Nothing is said of "
        "two items.",
        source=_CHANGES,
        relied_on_by=("wire/stream_records.py:read_stream_record", "protocol/series.py:later_in_series"),
        engines=_READ_BY_CLIENTS,
    ),
    Fact(
        name="stream-table-keeps",
        sentence="The stream of a table keeps a change for 24 hours.",
        source=_PARAMETERS,
        read="2026-11",
        relied_on_by=("deploy/stream_plan.py:stream_problems",),
        engines=NOWHERE,
        by_hand="Takes a day.",
    ),
    Fact(
        name="stream-kinesis-keeps",
        sentence="A stream of Kinesis says for how many hours it keeps a record, by default 24.",
        source=_SUMMARY,
        relied_on_by=("deploy/live.py:LiveAccount.stream_keeps", "deploy/planned/account.py:_DAY_HOURS"),
        limit=24,
        words=("RetentionPeriodHours", "StreamARN", "StreamDescriptionSummary"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_STREAM,
    ),
    Fact(
        name="stream-expired-item",
        sentence="The deletion of an item whose time to live is over has `userIdentity` with the `principalId` "
        "`dynamodb.amazonaws.com`.",
        source=_TTL,
        relied_on_by=("wire/stream_records.py:read_stream_record",),
        engines=NOWHERE,
        by_hand="Takes up to two days.",
    ),
    Fact(
        name="stream-aggregated",
        sentence="The Kinesis Producer Library may put several records into one, which has one sequence number and "
        "begins with the bytes F3 89 9A C2.",
        source=_AGGREGATION,
        relied_on_by=("wire/stream_records.py:read_stream_record",),
        engines=NOWHERE,
        by_hand="Needs that library, which is no Python.",
    ),
)

"""What mappings of Kafka do, of MSK clusters and of others."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact

_GUIDE: Final = "https://docs.aws.amazon.com/lambda/latest/dg"
_EVENT: Final = Document("Using Lambda with Amazon MSK", f"{_GUIDE}/with-msk.html")
_OUTSIDE: Final = Document("Using Lambda with self-managed Apache Kafka", f"{_GUIDE}/with-kafka.html")
_CONTROLS: Final = Document(
    "Configuring error handling controls for Kafka event sources", f"{_GUIDE}/kafka-retry-configurations.html"
)
_DISCARDED: Final = Document(
    "Retaining discarded batches for an Amazon MSK event source", f"{_GUIDE}/kafka-on-failure.html"
)
_NEEDS_A_CLUSTER: Final = "Needs a cluster with a mapping, whose hours cost."

KAFKA_FACTS: Final = (
    Fact(
        name="mapping-kafka-event",
        sentence="An event of Kafka has lists of records by the names of their partitions, `topic-partition`. A record "
        "has `topic`, `partition`, `offset`, `timestamp` in milliseconds, `timestampType`, key and value in base64, "
        "and headers as lists of bytes. The `eventSource` is `aws:kafka`, with the cluster's ARN.",
        source=_EVENT,
        read="2026-11",
        relied_on_by=("wire/kafka_records.py:kafka_records", "wire/kafka_records.py:KafkaRecord"),
        words=("eventSourceArn",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-outside",
        sentence="An event of a cluster outside MSK has the `eventSource` `SelfManagedKafka`, and the servers as the "
        "mapping names them in place of an ARN.",
        source=_OUTSIDE,
        read="2026-11",
        relied_on_by=("wire/kafka_records.py:kafka_records",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-checkpoint",
        sentence="Of Kafka the answer names a record by its partition's name and its offset, as an object. Lambda goes "
        "on there in that partition. A name that is not in the batch fails all of it.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("wire/kafka_records.py:named_for_lambda", "handler.py:lambda_answer"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-controls",
        sentence="`ReportBatchItemFailures`, the age, the attempts and the splitting of batches are settings of a "
        "mapping in provisioned mode alone, which has `ProvisionedPollerConfig`.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("docs/guides/streams.md",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-attempts",
        sentence="A mapping of Kafka without a bound of attempts tries a record again and again; with a destination "
        "for what has failed it gives up after ten.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("docs/guides/streams.md",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-given-up",
        sentence="What Lambda gives up of Kafka is told to a queue as JSON with `KafkaBatchInfo`, which names "
        "partitions and offsets and has none of the records.",
        source=_DISCARDED,
        relied_on_by=("wire/stream_letters.py:stream_letter_problem",),
        words=("KafkaBatchInfo", "recordsInfo"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
)

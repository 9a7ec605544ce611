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
_CONFIGURED: Final = Document("Configuring Amazon MSK event sources for Lambda", f"{_GUIDE}/with-msk-configure.html")
_PERMISSIONS: Final = Document(
    "Configuring Lambda permissions for Amazon MSK event source mappings", f"{_GUIDE}/with-msk-permissions.html"
)
_OUTSIDE_PERMISSIONS: Final = Document(
    "Configuring Lambda execution role permissions", f"{_GUIDE}/with-kafka-permissions.html"
)
_AUTH: Final = Document(
    "Configuring Amazon MSK cluster authentication methods in Lambda", f"{_GUIDE}/msk-cluster-auth.html"
)
_OUTSIDE_AUTH: Final = Document(
    "Configuring cluster authentication methods in Lambda", f"{_GUIDE}/kafka-cluster-auth.html"
)
_GROUP: Final = Document("Customizable consumer group ID in Lambda", f"{_GUIDE}/kafka-consumer-group-id.html")
_CREATE: Final = Document(
    "CreateEventSourceMapping", "https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html"
)
_SCRAM_SECRETS: Final = Document(
    "Set up SASL/SCRAM authentication for an Amazon MSK cluster",
    "https://docs.aws.amazon.com/msk/latest/developerguide/msk-password-tutorial.html",
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
        sentence="An event of a cluster outside MSK has the `eventSource` `SelfManagedKafka`, in published events also "
        "`aws:SelfManagedKafka`, and the servers as the "
        "mapping names them in place of an ARN.",
        source=_OUTSIDE,
        read="2026-11",
        relied_on_by=("wire/kafka_records.py:kafka_records",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-checkpoint",
        sentence="Of Kafka the answer names each failed record by an object with its `partition`, such as `orders-0`, "
        "and its `offset`, and Lambda retries those that are named. A name that is not in the batch fails all of it; "
        "an empty answer fails none. An older text of the page calls the first field `topic-partition`.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("wire/kafka_records.py:named_for_lambda", "handler.py:lambda_answer"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-controls",
        sentence="`ReportBatchItemFailures`, the age, the attempts and the splitting of batches are set where a "
        "mapping is in provisioned mode, which has `ProvisionedPollerConfig`.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("deploy/kafka_mapping.py:kafka_properties", "deploy/kafka_checks.py:check_kafka"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-attempts",
        sentence="A mapping of Kafka without a bound of attempts tries a record again and again; with a destination "
        "for what has failed it gives up after ten.",
        source=_CONTROLS,
        read="2026-11",
        relied_on_by=("deploy/kafka_checks.py:TRIES_WITH_DESTINATION", "deploy/kafka_plan.py:tries_of"),
        limit=10,
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-most-attempts",
        sentence="The most attempts that a mapping takes as its bound are 10,000.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("deploy/kafka_plan.py:MOST_TRIES",),
        limit=10_000,
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-timeout",
        sentence="A function that gets records of Kafka may run for 14 minutes at most.",
        source=_CONFIGURED,
        read="2026-11",
        relied_on_by=("deploy/kafka_need.py:LONGEST_TIMEOUT",),
        limit=840,
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-group",
        sentence="A mapping joins the consumer group that it names, or one of its own. Where the group is there "
        "already, it goes on at the group's offsets, whatever its `StartingPosition`. Of a group with several members "
        "each gets some of the records. The name has up to 200 characters, and nobody can change it later.",
        source=_GROUP,
        read="2026-11",
        relied_on_by=("deploy/kafka_plan.py:LONGEST_GROUP", "deploy/kafka_checks.py:check_kafka"),
        limit=200,
        words=("AmazonManagedKafkaEventSourceConfig", "SelfManagedKafkaEventSourceConfig", "ConsumerGroupId"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-topics",
        sentence="A mapping reads one topic, whose name has 2 to 249 characters and no dot first. Of MSK it names the "
        "cluster by its ARN, of another one up to ten servers under `KAFKA_BOOTSTRAP_SERVERS`. "
        "`SourceAccessConfigurations` name secrets, subnets and security groups. Provisioned mode has 1 to 2,000 "
        "pollers, by default up to 200.",
        source=_CREATE,
        read="2026-11",
        relied_on_by=("deploy/kafka_mapping.py:kafka_properties", "deploy/options.py:StreamOptions"),
        words=("SelfManagedEventSource", "Endpoints", "SourceAccessConfigurations", "URI", "MinimumPollers"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-role",
        sentence="To read a topic of MSK Lambda needs of the function's role `kafka:DescribeClusterV2` and "
        "`kafka:GetBootstrapBrokers`, six actions on network interfaces, of a secret with a name and a password "
        "`kafka:ListScramSecrets`, of any secret `secretsmanager:GetSecretValue` and `kms:Decrypt` of its key; with "
        "IAM `kafka-cluster:Connect`, `DescribeGroup`, `AlterGroup`, `DescribeTopic` and `ReadData`. Examples of AWS "
        "allow `DescribeClusterDynamicConfiguration`, too.",
        source=_PERMISSIONS,
        read="2026-11",
        relied_on_by=("deploy/kafka_access.py:kafka_access",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-role-outside",
        sentence="For a cluster outside MSK Lambda needs of the function's role `secretsmanager:GetSecretValue` and "
        "`kms:Decrypt` of the secret's key, and the actions on network interfaces where the mapping names subnets.",
        source=_OUTSIDE_PERMISSIONS,
        read="2026-11",
        relied_on_by=("deploy/kafka_access.py:kafka_access",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-auth",
        sentence="A mapping of MSK takes a secret with a name and a password (SCRAM, SHA-512) or a certificate. "
        "Without one Lambda takes the function's role where the cluster has IAM, else it comes unnamed. MSK has no "
        "`BASIC_AUTH`.",
        source=_AUTH,
        read="2026-11",
        relied_on_by=("deploy/kafka_need.py:KafkaNeed", "deploy/kafka_plan.py:kafka_problems"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-secret-key",
        sentence="MSK takes a secret with a name and a password (SCRAM) only where it is under a key of the customer's "
        "own, and not under that of Secrets Manager.",
        source=_SCRAM_SECRETS,
        read="2026-11",
        relied_on_by=("deploy/kafka_plan.py:kafka_notes",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-auth-outside",
        sentence="A mapping of a cluster outside MSK takes a secret with a name and a password (SCRAM or PLAIN, over "
        "TLS) or a certificate. The secret is in the function's region.",
        source=_OUTSIDE_AUTH,
        read="2026-11",
        relied_on_by=("deploy/options.py:StreamOptions",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="mapping-kafka-given-up",
        sentence="What Lambda gives up of Kafka is told to a queue as JSON with `KafkaBatchInfo`, which names "
        "partitions and offsets and has none of the records.",
        source=_DISCARDED,
        read="2026-11",
        relied_on_by=("wire/stream_letters.py:stream_letter_problem",),
        words=("KafkaBatchInfo", "recordsInfo"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
)

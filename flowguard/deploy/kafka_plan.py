"""Plan the mappings of Kafka's topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from flowguard.deploy.kafka_need import LONGEST_TIMEOUT, SCRAM, KafkaNeed
from flowguard.deploy.options import DeployOptions, StreamOptions
from flowguard.flow import AnyFlow
from flowguard.streams import KafkaTopic, Stream

MOST_TRIES: Final = 10_000
"""Retries of a failed record where the options bound nothing: the most that Lambda takes.

Without a bound it would give up a record of Kafka sooner, and one of a shard never."""

LONGEST_GROUP: Final = 200
"""Characters of the name of a consumer group."""

_OF_MSK: Final = frozenset({SCRAM, "CLIENT_CERTIFICATE_TLS_AUTH"})
_OF_KAFKA: Final = ("servers", "group", "secret", "auth", "subnets", "security_groups", "pollers", "largest_lag")


def kafka_need(stream: Stream, chosen: StreamOptions) -> KafkaNeed | None:
    """Return where a topic is. None for another stream."""
    if not isinstance(stream, KafkaTopic):
        return None
    return KafkaNeed(
        topic=stream.name,
        cluster=chosen.arn,
        servers=chosen.servers,
        group=chosen.group,
        secret=chosen.secret,
        auth=chosen.auth,
        subnets=chosen.subnets,
        security_groups=chosen.security_groups,
        pollers=chosen.pollers,
        largest_lag=chosen.largest_lag,
    )


def tries_of(stream: Stream, chosen: StreamOptions) -> int | None:
    """Return how many times Lambda retries a record. None: until it is too old, which Kafka's mappings cannot say."""
    if chosen.max_attempts is not None:
        return chosen.max_attempts
    return MOST_TRIES if chosen.max_age is None or isinstance(stream, KafkaTopic) else None


def kafka_problems(stream: Stream, chosen: StreamOptions, section: str, function: str, timeout: int) -> Iterator[str]:
    """Yield what is wrong with the options of a topic, or with those of Kafka's that another stream has."""
    topic = kafka_need(stream, chosen)
    if topic is None:
        if given := [name for name in _OF_KAFKA if name in chosen.model_fields_set]:
            yield f"{section} has {', '.join(given)}, which is for topics of Kafka, and it is {stream}; take it out"
        return
    yield from _place_problems(topic, section)
    if topic.cluster is not None and topic.auth not in _OF_MSK:
        yield f"{section} has auth = {topic.auth}, which MSK does not take; it takes {' and '.join(sorted(_OF_MSK))}"
    if topic.secret is None and "auth" in chosen.model_fields_set:
        yield f'{section} says auth, and no secret = "arn:aws:secretsmanager:…" for it; name the secret'
    if topic.secret is None and chosen.kms_key is not None:
        yield f"{section} has kms_key, which is the key of the secret of a topic of Kafka, and no secret; take it out"
    if chosen.parallel > 1:
        yield f"{section} has parallel = {chosen.parallel}, which is for shards; for partitions it is pollers"
    if timeout > LONGEST_TIMEOUT:
        yield (
            f"{function} is stopped after {timeout} s, and Lambda gives records of Kafka only to functions that it "
            f"stops after {LONGEST_TIMEOUT} s at most; lower its timeout, or that of its slowest stage"
        )
    if len(group := topic.group_of(function)) > LONGEST_GROUP:
        yield (
            f"{section}: the consumer group would be named {group[:40]!r}… ({len(group)} characters), and Lambda takes "
            f'{LONGEST_GROUP}; say group = "…"'
        )


def kafka_notes(flows: Iterable[AnyFlow], options: DeployOptions) -> Iterator[str]:
    """Yield a note for each secret of MSK whose key is not said: it has one, which the function's role may not use."""
    for name in sorted({stream.name for flow in flows for stream in flow.streams}):
        chosen = options.of_stream(name)
        is_told = chosen.kms_key is not None or chosen.secret in options.secrets
        if chosen.arn is not None and chosen.secret is not None and chosen.auth == SCRAM and not is_told:
            yield (
                f'[streams."{name}"] has a secret of MSK, which is under a key of yours, and no kms_key: the role of '
                "its function may not open it, unless policies of yours allow it; say its ARN as kms_key"
            )


def group_problems(flows: Iterable[AnyFlow], options: DeployOptions) -> Iterator[str]:
    """Yield the topics of several flows for which the options name one consumer group."""
    listed = Counter(stream.name for flow in flows for stream in flow.streams if isinstance(stream, KafkaTopic))
    for name, times in listed.items():
        if times > 1 and options.of_stream(name).group is not None:
            yield (
                f'[streams."{name}"] names a group, and {times} flows begin with kafka:{name}: each would get some of '
                "the records; leave it out, and each function has a group of its own"
            )


def _place_problems(topic: KafkaNeed, section: str) -> Iterator[str]:
    if topic.cluster is None and not topic.servers:
        yield (
            f'{section} does not say where kafka:{topic.topic} is; say arn = "arn:aws:kafka:…:cluster/…" of MSK, or '
            'servers = ["kafka-1.example.com:9096"]'
        )
    elif topic.cluster is not None and (topic.servers or topic.subnets or topic.security_groups):
        yield (
            f"{section} has the arn of a cluster of MSK, whose servers and network Lambda finds; leave out servers, "
            "subnets and security_groups"
        )
    elif bool(topic.subnets) != bool(topic.security_groups):
        yield f"{section} has subnets or security_groups alone; Lambda needs both, or neither"
    elif topic.cluster is None and not [*topic.access()]:
        yield f"{section} has neither secret nor subnets; Lambda reads a cluster without a network only by a secret"

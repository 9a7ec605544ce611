"""Checks of the mappings that bring live functions the records of Kafka, beside those that all streams have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.kafka_need import LONGEST_TIMEOUT, KafkaNeed
from flowguard.deploy.needs import FunctionNeed

TRIES_WITH_DESTINATION: Final = 10
"""Retries of a mapping that bounds them not, and that tells a destination what has failed."""


def check_kafka(
    function: FunctionNeed, topic: KafkaNeed, mapping: Mapping[str, Any], deployed: Mapping[str, Any], live: Account
) -> Iterator[LiveFinding]:
    """Yield the findings about a mapping of a topic."""
    yield from known(_mode(function, topic, mapping, deployed), _group(function, topic, mapping, live))


def _mode(
    function: FunctionNeed, topic: KafkaNeed, mapping: Mapping[str, Any], deployed: Mapping[str, Any]
) -> Iterator[LiveFinding]:
    if (timeout := int(deployed["Timeout"])) > LONGEST_TIMEOUT:
        yield error(
            "kafka-timeout-long",
            function.name,
            f"it is stopped after {timeout} s, and reads the topic {topic.topic}",
            f"Lambda gives records of Kafka only to functions that it stops after {LONGEST_TIMEOUT} s at most",
            f"set Timeout to {function.timeout} s",
        )
    if not mapping.get("ProvisionedPollerConfig"):
        yield error(
            "kafka-unprovisioned",
            function.name,
            f"its mapping from the topic {topic.topic} is not in provisioned mode",
            "only that mode has ReportBatchItemFailures, an age and retries: else Lambda goes on behind failed records",
            "set ProvisionedPollerConfig, with MinimumPollers",
        )


def _group(
    function: FunctionNeed, topic: KafkaNeed, mapping: Mapping[str, Any], live: Account
) -> Iterator[LiveFinding]:
    which, group = f"its mapping from the topic {topic.topic}", topic.group_in(mapping)
    if topic.group is not None and group != topic.group:
        yield warning(
            "kafka-group-other",
            function.name,
            f"{which} is of the consumer group {group}",
            f"it goes on where that group is, and not where {topic.group} is",
            "make the mapping anew, for AWS never changes its group; or say group of the stream in the options",
        )
    if group is not None and _readers(function, topic, group, live) > 1:
        yield error(
            "kafka-group-shared",
            function.name,
            f"{which} is of the consumer group {group}, as another mapping is",
            "Kafka gives each of them some of the records: those of the other begin no runs here",
            "give each mapping a group of its own, with group of the stream in the options",
        )


def _readers(function: FunctionNeed, topic: KafkaNeed, group: str, live: Account) -> int:
    """Return how many mappings of the cluster are of a group. Of one outside AWS only the function's are known."""
    there = live.event_sources(function.name) if topic.cluster is None else live.readers(topic.cluster)
    return sum(topic.group_in(mapping) == group for mapping in ([] if there is None else there))

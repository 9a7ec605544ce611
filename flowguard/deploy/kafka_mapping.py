"""What each language of templates says of a topic of Kafka."""

from __future__ import annotations

from typing import Any

from flowguard.deploy.kafka_need import SERVERS, KafkaNeed

Json = dict[str, Any]


def kafka_properties(topic: KafkaNeed, function: str) -> Json:
    """Return the properties of a mapping of CloudFormation."""
    outside = {"SelfManagedEventSource": {"Endpoints": {"KafkaBootstrapServers": [*topic.servers]}}}
    return {
        **_shared(topic),
        topic.config: {"ConsumerGroupId": topic.group_of(function)},
        **(outside if topic.cluster is None else {}),
    }


def kafka_event(topic: KafkaNeed, function: str) -> Json:
    """Return the properties of an event of SAM."""
    return {
        **_shared(topic),
        "ConsumerGroupId": topic.group_of(function),
        **({"KafkaBootstrapServers": [*topic.servers]} if topic.cluster is None else {}),
    }


def _shared(topic: KafkaNeed) -> Json:
    """Return what both say alike. Only in provisioned mode does a mapping take what becomes of failures."""
    most = {} if topic.pollers is None else {"MaximumPollers": topic.pollers}
    access = [{"Type": kind, "URI": what} for kind, what in topic.access()]
    return {
        "Topics": [topic.topic],
        "ProvisionedPollerConfig": {"MinimumPollers": 1, **most},
        **({"SourceAccessConfigurations": access} if access else {}),
    }


def kafka_arguments(topic: KafkaNeed, function: str) -> Json:
    """Return the arguments of a mapping of Terraform."""
    whose = "amazon_managed" if topic.cluster is not None else "self_managed"
    most = {} if topic.pollers is None else {"maximum_pollers": topic.pollers}
    access = [{"type": kind, "uri": what} for kind, what in topic.access()]
    outside = {"self_managed_event_source": {"endpoints": {SERVERS: ",".join(topic.servers)}}}
    return {
        "topics": [topic.topic],
        f"{whose}_kafka_event_source_config": {"consumer_group_id": topic.group_of(function)},
        "provisioned_poller_config": {"minimum_pollers": 1, **most},
        **({"source_access_configuration": access} if access else {}),
        **(outside if topic.cluster is None else {}),
    }

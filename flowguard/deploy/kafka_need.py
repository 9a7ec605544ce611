"""A topic of Kafka that a function reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SCRAM: Final = "SASL_SCRAM_512_AUTH"
"""How Lambda shows a user's name and password, if nothing else is said. It is the only such way of MSK."""

LONGEST_TIMEOUT: Final = 840
"""Seconds that a function may run that gets records of Kafka."""

SERVERS: Final = "KAFKA_BOOTSTRAP_SERVERS"
_CONFIGS: Final = ("AmazonManagedKafkaEventSourceConfig", "SelfManagedKafkaEventSourceConfig")


@dataclass(frozen=True)
class KafkaNeed:
    """Where a topic is, and how Lambda gets there.

    ``cluster`` is the ARN of one of MSK; a cluster outside has ``servers``, and perhaps a network. ``auth`` is what the
    ``secret`` is for. ``pollers`` are the most at once; None leaves that to Lambda. More records than
    ``largest_lag`` that wait are an alarm.
    """

    topic: str
    cluster: str | None
    servers: tuple[str, ...]
    group: str | None
    secret: str | None
    auth: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    pollers: int | None
    largest_lag: int

    @property
    def config(self) -> str:
        """Return the name of the part of a mapping that names its consumer group."""
        return _CONFIGS[0] if self.cluster is not None else _CONFIGS[1]

    @property
    def is_by_iam(self) -> bool:
        """Answer whether the function's role opens the cluster: Lambda takes it where MSK asks for a role."""
        return self.cluster is not None and self.secret is None

    @property
    def has_network(self) -> bool:
        """Answer whether Lambda makes network interfaces to get there."""
        return self.cluster is not None or bool(self.subnets)

    def group_of(self, function: str) -> str:
        """Return the consumer group of a function. One of its own goes on where it was when a mapping is made anew."""
        return f"{function}-{self.topic}" if self.group is None else self.group

    def group_in(self, mapping: Mapping[str, Any]) -> str | None:
        """Return the consumer group of a mapping of its cluster. None where it names none."""
        given: Mapping[str, str] = mapping.get(self.config, {})
        return given.get("ConsumerGroupId")

    def within(self, kind: str, name: str) -> str:
        """Return the ARN of a ``topic`` or ``group`` of the cluster, by which IAM knows it."""
        return f"{str(self.cluster).replace(':cluster/', f':{kind}/')}/{name}"

    def access(self) -> Iterator[tuple[str, str]]:
        """Yield what a mapping needs to get to the servers, each with its kind."""
        if self.secret is not None:
            yield self.auth, self.secret
        yield from (("VPC_SUBNET", f"subnet:{subnet}") for subnet in self.subnets)
        yield from (("VPC_SECURITY_GROUP", f"security_group:{group}") for group in self.security_groups)

    def is_brought_by(self, mapping: Mapping[str, Any]) -> bool:
        """Answer whether a mapping brings the topic's records."""
        if self.topic not in mapping.get("Topics", ()):
            return False
        if self.cluster is not None:
            return bool(mapping.get("EventSourceArn") == self.cluster)
        endpoints = mapping.get("SelfManagedEventSource", {}).get("Endpoints", {})
        return {*endpoints.get(SERVERS, ())} == {*self.servers}

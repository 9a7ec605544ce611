"""What Lambda does with a function's role to read a topic of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowguard.deploy.kafka_need import SCRAM, KafkaNeed
from flowguard.deploy.needs import Target

_FINDS: Final = ("kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers")
_CONNECTS: Final = ("kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration")
_INTERFACES: Final = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)

Access = tuple[Target, str, tuple[str, ...]]
"""The kind and the name of a resource, and the actions on it."""


def kafka_access(topic: KafkaNeed, group: str) -> Iterator[Access]:
    """Yield the actions that Lambda takes to get there."""
    if topic.cluster is not None:
        scram = ("kafka:ListScramSecrets",) if topic.secret is not None and topic.auth == SCRAM else ()
        yield Target.STREAM, topic.cluster, (*_FINDS, *scram, *(_CONNECTS if topic.is_by_iam else ()))
    if topic.is_by_iam:
        reads = ("kafka-cluster:DescribeTopic", "kafka-cluster:ReadData")
        yield Target.STREAM, topic.within("topic", topic.topic), reads
        yield Target.STREAM, topic.within("group", group), ("kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup")
    if topic.secret is not None:
        yield Target.SECRET, topic.secret, ("secretsmanager:GetSecretValue",)
    if topic.has_network:
        yield Target.NETWORK, "*", _INTERFACES

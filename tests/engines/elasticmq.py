"""ElasticMQ: SQS over real connections, for races, soaks and redrive.

A message keeps its id when a redrive moves it, where AWS documents a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tests.engines.process import LOOPBACK, engine_home, free_port, running


@contextmanager
def elasticmq(limits: Literal["strict", "relaxed"] = "strict") -> Iterator[str]:
    """The endpoint URL of an ElasticMQ that lives as long as the block.

    ``strict`` holds messages to SQS's limits as they were before 2025-08 (256 KiB); ``relaxed`` lets larger ones pass.
    """
    home = engine_home("elasticmq", "java")
    port = free_port()
    options = {
        "rest-sqs.bind-hostname": LOOPBACK,
        "rest-sqs.bind-port": str(port),
        "rest-sqs.sqs-limits": limits,
        "rest-stats.enabled": "false",
        "node-address.host": LOOPBACK,
        "node-address.port": str(port),
        "aws.region": "us-east-1",
        "aws.accountId": "123456789012",
    }
    command = [
        "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"-D{name}={value}" for name, value in options.items()),
        "-cp",
        f"{home}/*",
        "org.elasticmq.server.Main",
    ]
    with running(home, command, port=port) as endpoint_url:
        yield endpoint_url

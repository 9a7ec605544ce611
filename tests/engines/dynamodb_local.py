"""AWS's own DynamoDB implementation, in memory: for races, transactions and consumed capacity.

It keeps one database for each access key and region, so tests that use different access keys do not meet. It listens
on all interfaces: no option says otherwise. It serialises transactions, so it never reports a TransactionConflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.engines.process import engine_home, free_port, running


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """The endpoint URL of a DynamoDB Local that lives as long as the block."""
    home = engine_home("dynamodb-local", "java")
    port = free_port()
    command = [
        "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Djava.library.path={home}",
        "-cp",
        f"{home}/*",
        "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
        "-inMemory",
        "-disableTelemetry",
        "-port",
        str(port),
    ]
    with running(home, command, port=port) as endpoint_url:
        yield endpoint_url

"""The tests that run workers on the lean client run them on it, and see each call all the same."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from flowguard.sim.calls import Recorder, intercept
from tests.aws.transport.beneath import Beneath
from tests.proofs.soak.sandbox import Sandbox


def test_calls_are_made_by_the_lean_client_and_seen_by_who_watches(dynamodb_local_url: str) -> None:
    sandbox = Sandbox(dynamodb_local_url, "no queues here")
    client = sandbox.clients.dynamodb
    with intercept(Recorder()) as recorder, intercept(Beneath(), innermost=True) as beneath:
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            client.get_item(TableName="nowhere", Key={"pk": {"S": "a"}})
        assert client.list_tables()["TableNames"] == []
    assert [call.operation for call in recorder.calls] == ["GetItem", "ListTables"]
    assert beneath.made == 1

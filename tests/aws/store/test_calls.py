"""What holds for each call of the store: its names and values are used, and errors stay what they are."""

from __future__ import annotations

import re

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.errors import SettingsError
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from tests.aws.engines import on_memory
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import claimed, commit


def test_no_call_brings_names_or_values_that_its_expressions_do_not_use() -> None:
    """DynamoDB would refuse it."""
    with on_memory() as clients, intercept(Recorder()) as calls:
        store = aws_store(Settings(), clients)
        for policy in OnConflict:
            store.claim(request(STORED, policy=policy))
        claim = claimed(store, attempt=(0, 1))
        store.release(claim, NOW, failed=True)
        store.commit(claim, commit())
        store.commit(claimed(store, hop=2), commit(status=Status.COMPLETED, outbox=None))
    updates = [call.params for call in calls.calls if call.operation == "UpdateItem"]
    assert len(updates) == len(OnConflict) + 5
    for call in updates:
        used = re.findall(r"[:#]\w+", f"{call['ConditionExpression']} {call['UpdateExpression']}")
        assert {*call["ExpressionAttributeNames"], *call["ExpressionAttributeValues"]} == set(used)


def test_a_missing_table_is_named_with_its_setting(clients: Clients) -> None:
    with pytest.raises(SettingsError, match=r"FLOWGUARD_TABLE: there is no table 'missing' in .*; create it with"):
        aws_store(Settings(table="missing"), clients).claim(request(STORED))


def test_an_error_that_is_no_refusal_is_raised_as_it_is(clients: Clients) -> None:
    claim = claimed(aws_store(Settings(), clients))
    store = aws_store(Settings(table="missing"), clients)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.release(claim, NOW, failed=True)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.commit(claim, commit())

"""What a function under ``@once`` logs: which function and key, and never a payload or a result."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flowguard import once
from flowguard.aws.ledger import ledger_of
from flowguard.errors import KeyMissing
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.testing import sqs_event
from tests.aws.engines import on_memory

SECRET = "4111-1111"


def charge(order: dict[str, Any]) -> str:
    if "body" in order:
        raise ValueError(SECRET)
    return SECRET


@pytest.mark.parametrize("form", ["Text", "JSON"])
def test_nothing_of_a_payload_or_result_is_logged(
    form: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_LOG_FORMAT", form)
    with on_memory() as clients, caplog.at_level(logging.DEBUG, "flowguard"):
        services = OnceServices(ledger_of(Settings(), clients))
        guarded = once("charge", key="order_id", payload="card")(charge).using(services)
        batch = once("charge", key="messageId")(charge).using(services)
        for _ in range(2):
            guarded({"order_id": "o-1", "card": SECRET})
        batch.batch(sqs_event("orders", {"card": SECRET}))
        with pytest.raises(KeyMissing):
            guarded({"id": SECRET})
    assert len(caplog.records) == 6
    assert SECRET not in caplog.text
    assert SECRET not in str([vars(record) for record in caplog.records])

"""The Lambda function for answers from outside, where a setting is missing."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Callback, Done, Flow, Outcome, Stage, Step, callback_handler
from tests.worker.test_callbacks import url_event


class Answered(Stage[dict[str, Any]], name="answered"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Asking(Flow, name="asking", object_id="id", callbacks=(Callback("from-others", id="ref"),)):
    stages = (Answered,)


def test_a_missing_setting_is_a_status_and_no_bare_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("FLOWGUARD_TOKEN_KEYS", "too short")
    found = callback_handler(Asking)(url_event("token", {}))
    assert found["statusCode"] == 503
    assert "FLOWGUARD_TOKEN_KEYS" not in found["body"]
    assert "FLOWGUARD_TOKEN_KEYS" in caplog.text
    assert "too short" not in caplog.text

"""What a function that starts runs over HTTP writes into its log."""

from __future__ import annotations

import logging

import pytest

from flowguard.events import log
from tests.scene import scene
from tests.start_door import Door, ask_with_secrets


def test_no_log_has_a_key_or_a_payload(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="flowguard")
    with scene() as shop:
        door = Door(shop)
        door.observe = log
        ask_with_secrets(door)
    lines = [line for line in caplog.records if line.name.startswith("flowguard")]
    assert len([line for line in lines if line.levelno > logging.DEBUG]) == 4
    assert "s3cret" not in "".join(f"{line.getMessage()}{vars(line)}" for line in lines)

"""A start of a plain function loads no module that only other messages need (docs/decisions/0099)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.proofs.bench.starts import FLOWGUARD, ROOT

MOST: Final = 187
"""Modules of flowguard and of the project. It may grow with what a first message needs, and not by what it does not."""

LATE: Final = (
    "boto3",
    "botocore.client",
    "botocore.exceptions",
    "concurrent.futures",
    "http.client",
    "pydantic.type_adapter",
    "flowguard.aws.batch_calls",
    "flowguard.aws.caller_lists",
    "flowguard.aws.memos",
    "flowguard.aws.transport.container_token",
    "flowguard.aws.wait_calls",
    "flowguard.aws.waits",
    "flowguard.group",
    "flowguard.pause_after",
    "flowguard.protocol.breaker",
    "flowguard.recorded.read_answers",
    "flowguard.worker.given_up",
    "flowguard.worker.key_pauses",
    "flowguard.worker.orders",
    "flowguard.worker.resumed_payload",
    "flowguard.worker.settler",
    "flowguard.worker.undeliverable",
    "flowguard.worker.unread_payload",
    "flowguard.worker.wait_planner",
)


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """The modules of a process that has made ready to handle, with the lean client."""
    environment = {
        "PATH": os.defpath,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "FLOWGUARD_CLIENT": "lean",
    }
    command = [sys.executable, "-c", f"{FLOWGUARD}\nimport sys\nprint(*sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("name", LATE)
def test_what_few_messages_need_is_loaded_by_the_first_of_them(loaded: frozenset[str], name: str) -> None:
    assert name not in loaded


def test_a_start_loads_no_more_modules_than_it_did(loaded: frozenset[str]) -> None:
    assert len([name for name in loaded if name.split(".")[0] in ("flowguard", "flows")]) <= MOST

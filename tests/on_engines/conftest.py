from __future__ import annotations

import pytest

from tests.proofs.soak.sandbox import Sandbox


@pytest.fixture
def sandbox(dynamodb_local_url: str, elasticmq_url: str) -> Sandbox:
    """Tables of the test's own, none yet; queues are shared, so that each test makes its own."""
    return Sandbox(dynamodb_local_url, elasticmq_url)

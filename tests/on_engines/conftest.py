from __future__ import annotations

import pytest

from tests.proofs.soak.ground import Ground


@pytest.fixture
def ground(dynamodb_local_url: str, elasticmq_url: str) -> Ground:
    """Tables of the test's own, none yet; queues are shared, so that each test makes its own."""
    return Ground(dynamodb_local_url, elasticmq_url)

"""``run_sync`` of Pydantic AI leaves an event loop in its thread, for the next call. Here each test closes its own."""

from __future__ import annotations

import pytest

from tests.event_loops import closed_loop

own_loop = pytest.fixture(autouse=True)(closed_loop)

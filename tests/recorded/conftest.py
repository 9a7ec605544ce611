"""The step that these tests record with."""

from __future__ import annotations

import pytest

from flowguard.step import Step
from tests.recorded.carts import CartState, price_step


@pytest.fixture
def step() -> Step[CartState]:
    return price_step()

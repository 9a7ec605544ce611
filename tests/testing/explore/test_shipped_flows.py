"""The shipped flows survive every single fault at every call."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flowguard.testing.explore import explore
from flows.take_payment.flow import TakePayment
from flows.take_payment.models import PaymentRequested
from flows.triggered_cache.flow import TriggeredCache
from flows.validate_cart.flow import ValidateCart

SAMPLES = Path(__file__).parents[3] / "samples"
PAYMENT = PaymentRequested(payment_id="p1", merchant_id="m1", card="c1", amount=Decimal(5))
FLAKY = PaymentRequested(payment_id="p2", merchant_id="m1", card="c1", amount=Decimal(7), gateway_script=("down", "ok"))


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


@pytest.mark.parametrize(
    ("flow", "messages", "free"),
    [
        (ValidateCart, [sample("validate_cart/01-request.json")], {}),
        (TriggeredCache, [sample("triggered_cache/01-reset.json")], {}),
        (TakePayment, [PAYMENT], {}),
        (TakePayment, [FLAKY], {"payments": ["attempt"]}),
    ],
    ids=["ValidateCart", "TriggeredCache", "TakePayment", "TakePayment-retried"],
)
def test_every_single_fault_leaves_the_undisturbed_end(flow: Any, messages: list[Any], free: Any) -> None:
    report = explore(flow, messages, free=free, bound=0, walks=5)
    assert report.ok, str(report)
    assert report.ends == 1
    assert report.coverage[f"{flow.stages[-1].name}: UpdateItem of claim"] == "adeltvz"

"""What a test is told of an error that its handler has raised."""

from __future__ import annotations

import pytest

from flowguard.testing import FlowRunner, raised
from tests.testing.test_runner import Order, Shop


class Silent(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


class Numbered(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307 - which nobody type-checked


@pytest.mark.parametrize("error", [Silent(), Numbered()])
def test_an_error_without_a_text_is_told_by_its_kind(error: Exception) -> None:
    assert raised.described(error) == f"{type(error).__name__}: (its text cannot be read)"


def test_a_handler_that_raises_an_error_without_a_text_ends_its_run(
    flow_runner: FlowRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: object, order: Order, step: object) -> None:
        raise Silent

    monkeypatch.setattr(Shop.entry(), "handle", fails)
    flow_runner.send(Shop, Order(order_id="o1"))
    assert "Silent: (its text cannot be read)" in str(flow_runner.run().run("o1").error)

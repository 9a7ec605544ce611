"""What charges cards: as the flow sees it, and a stand-in that plays a recording.

A real gateway is a service far away. This one answers each attempt with the next word of the payment's own
``gateway_script`` (the last word goes on for ever), so that a failure can be sent as a message and looks the same every
time: nothing is random, nothing sleeps. To charge real cards, write a class with the method ``charge`` and return it
from ``gateway_for``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Protocol

from flows.take_payment.models import PaymentRequested


class GatewayDown(Exception):
    """Nobody answers: nothing was charged."""


class GatewayTimeout(Exception):
    """No answer in time: it may or may not have charged the card."""


class RateLimited(Exception):
    """Too many requests: the gateway says how long to stay away."""

    def __init__(self, pause: timedelta) -> None:
        super().__init__(pause)
        self.pause = pause


class CardDeclined(Exception):
    """The bank says no, and will say so again."""


@dataclass(frozen=True, slots=True)
class Charge:
    """``key`` is the same at every attempt: a gateway that has charged under it says so again, and charges no more."""

    key: str
    card: str
    amount: Decimal


class Gateway(Protocol):
    def charge(self, charge: Charge) -> str:
        """Return the id of the authorization. Raises the errors above."""
        ...


class RecordedGateway:
    """Plays ``script``: this is attempt number ``attempt``, from 1."""

    def __init__(self, script: Sequence[str], attempt: int) -> None:
        self._answer = script[min(attempt, len(script)) - 1]

    def charge(self, charge: Charge) -> str:
        word, _, seconds = self._answer.partition(":")
        match word:
            case "ok":
                return f"auth-{charge.key}"
            case "timeout":
                raise GatewayTimeout("no answer within 2 s")
            case "limited":
                raise RateLimited(timedelta(seconds=int(seconds)))
            case "declined":
                raise CardDeclined("insufficient funds")
            case _:
                raise GatewayDown("connection refused")


def gateway_for(payment: PaymentRequested, attempt: int) -> Gateway:
    """Return the gateway that charges this payment at this attempt."""
    return RecordedGateway(payment.gateway_script, attempt)

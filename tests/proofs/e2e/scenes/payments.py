"""Payments whose functions are killed in the middle; one that waits; and one whose card is declined, and redriven."""

from __future__ import annotations

import json
from typing import Any

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.command import flowguard
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.take_payment.handlers"
LETTERS = "take-payment-dead-letters"
DEATHS = (
    ("charge-card", "claimed"),
    ("charge-card", "committed"),
    ("charge-card", "sent"),
    ("book-payment", "claimed"),
    ("book-payment", "completed"),
)


def scene(cloud: Cloud) -> Scene:
    for stage, event in DEATHS:
        cloud.kill(stage, event, f"{stage}.{event}")
        _pay(cloud, f"{stage}.{event}")
    _pay(cloud, "limited", "limited:1", "ok")
    _pay(cloud, "declined", "declined", copies=1)  # a duplicate would send a copy of its dead letter
    yield from _declined(cloud)
    yield Until("six payments are booked, and one failed", lambda: len(_results(cloud)) >= 7)
    yield Until("the queues are empty", lambda: cloud.settled("payments", "payments-to-book", "take-payment-killed"))
    for stage, event in DEATHS:
        died = cloud.deaths(stage, event)
        yield Check(f"the function of {stage} was killed after it had {event}, and the payment is booked", 1, died)
    statuses = sorted(one["status"] for one in cloud.items("payments"))
    yield Check("every payment but the declined one is booked", ["BOOKED"] * 6, statuses)
    balances = [(one["balance"], one["payments"]) for one in cloud.items("merchant-balances")]
    yield Check("each is in the merchant's balance once", [(60, 6)], balances)
    yield Check("each end is told once, copies apart", 7 + 1, len(cloud.distinct("payment-results")))
    attempts = {one["payment_id"]: one["attempt"] for one in cloud.items("payments")}
    yield Check("a pause that the gateway asks for is a second attempt", 2, attempts["limited"])


def _declined(cloud: Cloud) -> Scene:
    """Redrive the dead letter. The card is still declined, so a letter of the next redrive comes of it."""
    yield Until("the declined payment is a dead letter", lambda: cloud.depth(LETTERS) >= 1)
    letter, *_ = _letters(cloud)
    yield Check("the dead letter says why", ("declined", "Reject"), (letter["object_id"], letter["error"]["type"]))
    given = ["--flow-class", "flows.take_payment.flow:TakePayment", "--all", "--yes", "--json"]
    # 1 where the function is so quick that the command sees the next letter too, and leaves it
    said = flowguard("dlq", "redrive", LETTERS, *given, env=cloud.environment, expected=(0, 1))
    verdicts = [json.loads(line).get("verdict") for line in said.splitlines()]
    yield Check("it is redriven", ["REDRIVEN"], verdicts[:1])
    yield Until("it is declined once more", lambda: 2 in _redrives(cloud))
    yield Check("the next letter names the next redrive", (1, [2]), (letter["redrive"], _redrives(cloud)))


def _letters(cloud: Cloud) -> list[Any]:
    said = flowguard("dlq", "list", LETTERS, "--json", "--visibility", "5", env=cloud.environment)
    return [json.loads(line) for line in said.splitlines()]


def _redrives(cloud: Cloud) -> list[int]:
    return sorted({one["redrive"] for one in _letters(cloud)})


def _pay(cloud: Cloud, payment: str, *script: str, copies: int = 2) -> None:
    request = {"uniquerequestid": f"request-{payment}", "requestedat": "1767323520000"}
    asked = {"payment_id": payment, "merchant_id": "tea", "card": "4242", "amount": "10.00"}
    cloud.send("payments", {**asked, "gateway_script": script or ["ok"]}, request, copies=copies)


def _results(cloud: Cloud) -> set[str]:
    """The payments that have ended. A declined one has no result, so its request names it."""
    return {
        json.dumps(one.body.get("result") or one.attributes.get("uniquerequestid"))
        for one in cloud.distinct("payment-results")
    }

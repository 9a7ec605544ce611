"""Each action that a function may do is missed: the samples are worked off under mishaps, and some run needs it.

What no such run needs is named here, with the reason. The table is exact: neither an action too many in a template nor
one that is needed by now goes unnoticed.
"""

from __future__ import annotations

from typing import Final

import pytest

from flowguard.deploy.options import DeployOptions
from tests.deploy.exercised import Made, exercised, granted, needs
from tests.deploy.mishaps import REPLIES, mishaps
from tests.deploy.test_permissions import NOT_BY_SAMPLES, OF_LAMBDA, OF_THE_WORLD, SHIPPED

LAMBDAS_OWN: Final = OF_LAMBDA | {"logs:PutLogEvents"}


def _sent(function: str, *queues: str, why: str) -> dict[Made, str]:
    actions = ("sqs:GetQueueUrl", "sqs:SendMessage")
    return {(function, action, queue): why for queue in queues for action in actions}


OTHERWISE: Final[dict[Made, str]] = {
    **{one: why for one, why in NOT_BY_SAMPLES.items() if one[0] != "take-payment-dead-letters"},
    **_sent("validate-cart-add-found", "filter-requests", "search-requests", why="one that is asked may be sent to"),
    **_sent("validate-cart-price-cart", "carts-to-complete", why="its stage names the next one in then="),
    **_sent("validate-cart-answers", "validate-cart-dead-letters", why="SQS or SNS refuses a resume for good"),
    **_sent("approve-expense-answers", "approve-expense-dead-letters", why="SQS refuses a resume for good"),
    **_sent("approve-expense-answers", "remind-approver-dead-letters", why="SQS refuses a resume for good"),
    **_sent("remind-approver", REPLIES, why="a request for a reminder may name a place; those of samples name none"),
    **_sent("take-payment-dead-letters", "payments-to-book", why="the killed run had committed: `make e2e`, payments"),
    **_sent("count-shop-count-stock", REPLIES, why="a request for a count may name a place; no sample's does"),
    **{
        (function, "sqs:ChangeMessageVisibility", queue): "no sample of it meets a worker at its work"
        for function, queue in (
            ("count-shop-count-stock", "shops-to-count"),
            ("recount-night-add-up", "nights-counted"),
            ("recount-night-ask-shops", "recount-night"),
        )
    },
    **_sent("search-cache-search", "search-cache", why="an order to reset is tried again; no sample's fails"),
    ("search-cache-search", "sqs:ChangeMessageVisibility", "search-cache"): "no sample's order to reset is busy",
    ("take-payment-dead-letters", "sqs:ChangeMessageVisibility", "take-payment-killed"): "the world gives it no record",
    ("take-payment-dead-letters", "sqs:GetQueueUrl", "take-payment-killed"): "the world gives it no record",
    **{
        (function, "ssm:GetParameter", "/flowguard/token-keys"): "the world has keys of its own: `make e2e`, approvals"
        for function in ("approve-expense", "approve-expense-answers")
    },
}
"""What is granted, and needed by no run here."""


@pytest.mark.proof("works off the samples of each flow under a dozen mishaps")
@pytest.mark.parametrize("flow", SHIPPED)
def test_each_action_is_needed_by_some_run(flow: str) -> None:
    options = DeployOptions(reply_to=(REPLIES,), settings=OF_THE_WORLD)
    needed = needs(f"flows.{flow}.handlers", options=options)
    made: set[Made] = set()
    for mishap in mishaps(needed.flows):
        made |= exercised(needed, SHIPPED[flow], mishap)
    allowed = {one for one in granted(needed) if one[1] not in LAMBDAS_OWN}
    functions = {function.name for function in needed.functions}
    assert sorted(made - granted(needed)) == []
    assert sorted(allowed - made) == sorted(one for one in OTHERWISE if one[0] in functions)

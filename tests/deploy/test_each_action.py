"""Each action that a function may do is missed: the samples are worked off under mishaps, and some run needs it.

What no such run needs is named here, with the reason and what fails without it. The table is exact: neither an action
too many in a template nor one that is needed by now goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from flowguard.client import FlowClient
from flowguard.deploy.options import DeployOptions
from flows.approval.flow import RemindApprover
from flows.approval.models import ReminderWanted
from flows.nightly_recount.flow import CountShop
from flows.nightly_recount.models import ShopAsked
from flows.take_payment.flow import TakePayment
from flows.take_payment.models import PaymentRequested
from tests.deploy.exercised import Made, exercised, granted, needs, nobody
from tests.deploy.mishaps import REPLIES, mishaps
from tests.deploy.test_permissions import OF_LAMBDA, OF_THE_WORLD, SHIPPED

LAMBDAS_OWN: Final = OF_LAMBDA | {"logs:PutLogEvents"}


def _asks_shop(client: FlowClient) -> None:
    client.start(
        CountShop, ShopAsked(shop_night="shop-00003/tonight", shop="shop-00003", night="tonight"), reply_to=REPLIES
    )


def _asks_payment(client: FlowClient) -> None:
    client.start(TakePayment, PaymentRequested(payment_id="p-1", merchant_id="m-1", card="4000", amount=Decimal(7)))


def _asks_reminder(client: FlowClient) -> None:
    wanted = ReminderWanted(expense_id="e-1", decision_id="decided/e-1", approver="Ada", link="https://example.com")
    client.start(RemindApprover, wanted, reply_to=REPLIES)


ASKS: Final[dict[str, Callable[[FlowClient], object]]] = {
    "nightly_recount": _asks_shop,
    "approval": _asks_reminder,
    "take_payment": _asks_payment,
}
"""Requests that no sample has: for a flow that another one asks or starts, and one whose payment is taken at once."""

_RARER = "tests/deploy/test_rarer_actions.py::"
_MODIFIED = _RARER + "test_an_item_is_made_changed_left_and_removed_by_what_it_is"
_MEASURED = _RARER + "test_an_answer_that_is_too_long_is_measured_by_a_read"
_OUTAGE = (
    "tests/worker/test_outages.py::test_answers_that_meet_an_outage_come_back_after_a_pause_and_only_the_first_asks"
)
_REFUSED = (
    "tests/worker/runtime/test_given_up.py::"
    "test_a_request_that_is_too_deep_does_not_go_round_while_its_dead_letter_is_refused"
)
_PARTS = "tests/worker/test_external_answers.py::test_a_worker_that_dies_in_a_part_leaves_the_place_before_it"

SIGNING_SECRET: Final = ("secretsmanager:GetSecretValue", "flowguard/signing-keys")
"""What ``tests/aws/test_signing_keys.py`` reads keys with. Functions read theirs with their first signature."""

OTHERWISE: Final[dict[Made, str]] = {
    # step.modify may return any item, or none; here it returns what it got, or always an item
    ("book-appointment-give-appointments", "dynamodb:DeleteItem", "diaries"): _MODIFIED,
    ("page-cache-collect-parts", "dynamodb:PutItem", "page-sources"): _MODIFIED,
    ("page-cache-collect-parts", "dynamodb:UpdateItem", "page-sources"): _MODIFIED,
    ("page-cache-collect-parts", "dynamodb:DeleteItem", "page-sources"): _MODIFIED,
    # what is answered over HTTP is short: its copy is too long only for an item that is all but full
    ("approve-expense", "dynamodb:GetItem", "flowguard"): _MEASURED,
    ("answer-ticket", "dynamodb:GetItem", "flowguard"): _MEASURED,
    # an answer that very many runs wait for is settled in parts, and its place is kept
    ("validate-cart-answers", "dynamodb:PutItem", "flowguard"): _PARTS,
    # no service is out while a sample is worked off
    ("take-payment-dead-letters", "sqs:ChangeMessageVisibility", "take-payment-killed"): _REFUSED,
    ("take-payment-dead-letters", "sqs:GetQueueUrl", "take-payment-killed"): _REFUSED,
    ("search-cache-search", "sqs:ChangeMessageVisibility", "search-cache"): _OUTAGE,
    ("search-cache-search", "sqs:GetQueueUrl", "search-cache"): _OUTAGE,
    ("recount-night-ask-shops", "sqs:ChangeMessageVisibility", "recount-night"): _OUTAGE,
}
"""What is granted, and needed by no run here, with what fails without it."""

SEEN: Final = ("approval", "orders", "page_cache")
"""Flows that together need each kind of action."""


@pytest.mark.parametrize("witness", sorted(set(OTHERWISE.values())))
def test_what_fails_without_the_others_is_there(witness: str) -> None:
    file, _, name = witness.partition("::")
    assert f"\ndef {name}(" in (Path(__file__).parents[2] / file).read_text(encoding="utf-8")


@pytest.mark.proof("works off the samples of each flow under a dozen mishaps")
@pytest.mark.parametrize(
    "flow", [flow if flow in SEEN else pytest.param(flow, marks=pytest.mark.long("another flow")) for flow in SHIPPED]
)
def test_each_action_is_needed_by_some_run(flow: str) -> None:
    options = DeployOptions(reply_to=(REPLIES,), settings=OF_THE_WORLD)
    needed = needs(f"flows.{flow}.handlers", options=options)
    made: set[Made] = set()
    for mishap in mishaps(needed.flows):
        made |= exercised(needed, SHIPPED[flow], mishap, ASKS.get(flow, nobody))
    allowed = {one for one in granted(needed) if one[1] not in LAMBDAS_OWN}
    functions = {function.name for function in needed.functions}
    assert sorted(made - granted(needed)) == []
    unmade = {one for one in allowed - made if one[1:] != SIGNING_SECRET}  # the world has keys of its own
    assert sorted(unmade) == sorted(one for one in OTHERWISE if one[0] in functions)

"""ValidateCart: a cart is confirmed once, and only as the newest request left it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from flowguard import Done, Reject, Settings
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.events import EventType
from flowguard.items.writes import Put, Update
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.sim.calls import intercept
from flowguard.testing import FlowClock, FlowResult, FlowRunner, MemoryAWS, step_for
from flowguard.wire.signing import simulated
from flowguard.worker.ports import Services
from flows.validate_cart import handlers
from flows.validate_cart.flow import AddFound, CheckCart, ConfirmCart, PriceCart, ValidateCart
from flows.validate_cart.models import (
    CartAnswers,
    CartChecked,
    CartConfirmed,
    CartLine,
    CartPriced,
    CartState,
    CartSubmitted,
    FilterResult,
    PricedLine,
    SearchResult,
)
from tests.flows.mishaps import Copies, Death, Meanwhile
from tests.flows.samples import sample

DAY = "2026-01-02"
ANSWERS = {"search": "10-search-result", "filter": "13-filter-result"}
REPLIES = "shop-replies"


@pytest.fixture
def carts(flow_runner: FlowRunner) -> FlowRunner:
    return flow_runner.serve(ValidateCart)


def confirmed(result: FlowResult) -> int | None:
    totals = result.item("cart-totals", day=DAY)
    return None if totals is None else totals["confirmed"]


def cart(result: FlowResult, cart_id: str = "cart-2001") -> Mapping[str, Any]:
    found = result.item("carts", cart_id=cart_id)
    assert found is not None
    return found


def totals_mailed(result: FlowResult) -> list[str]:
    return [mail.body["total"] for mail in result.sent("emails")]


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def submitted(*lines: tuple[str, int]) -> CartSubmitted:
    return CartSubmitted(cart_id="c-1", lines=tuple(CartLine(sku=sku, quantity=quantity) for sku, quantity in lines))


def priced(*lines: tuple[str, int]) -> CartState:
    found = tuple(PricedLine(sku=sku, quantity=quantity, unit_price=Decimal("4.20")) for sku, quantity in lines)
    return CartState(lines=found, total=Decimal("8.40"))


def test_a_cart_is_priced_line_by_line() -> None:
    step = step_for(PriceCart, object_id="c-1", request_id="r-1")
    assert PriceCart().handle(submitted(("tea", 2), ("cup", 6)), step) == CheckCart.message(CartPriced(cart_id="c-1"))
    assert [line.unit_price for line in step.state.lines] == [Decimal("4.20"), Decimal("7.95")]
    assert step.state.total == Decimal("56.10")
    (write,) = step.writes
    assert isinstance(write, Put)
    assert (write.table, write.item["status"], write.item["request_id"]) == ("carts", "PRICED", "r-1")
    assert not step.sends


@pytest.mark.parametrize(
    ("cart", "why"),
    [(submitted(), "the cart is empty"), (submitted(("tea", 1), ("unicorn", 1)), "no price for unicorn")],
)
def test_what_cannot_be_priced_is_rejected(cart: CartSubmitted, why: str) -> None:
    step = step_for(PriceCart)
    with pytest.raises(Reject, match=why):
        PriceCart().handle(cart, step)
    assert not step.writes


def test_no_one_can_order_more_than_a_hundred_of_a_thing_in_however_many_lines() -> None:
    step = step_for(CheckCart, state=priced(("tea", 60), ("tea", 41)), hop=2)
    with pytest.raises(Reject, match="more than 100 of tea"):
        CheckCart().handle(CartPriced(cart_id="c-1"), step)


def test_a_cart_that_can_be_delivered_goes_on() -> None:
    step = step_for(CheckCart, state=priced(("tea", 60), ("tea", 40)), hop=2)
    assert CheckCart().handle(CartPriced(cart_id="c-1"), step) == ConfirmCart.message(CartChecked(cart_id="c-1"))
    assert not step.writes


def test_a_confirmed_cart_is_written_counted_and_mailed() -> None:
    step = step_for(ConfirmCart, state=priced(("tea", 2)), object_id="c-1", request_id="r-1", hop=3)
    outcome = ConfirmCart().handle(CartChecked(cart_id="c-1"), step)
    assert outcome == Done(CartConfirmed(cart_id="c-1", total=Decimal("8.40")))
    cart, totals = step.writes
    assert isinstance(cart, Put)
    assert cart.item["status"] == "CONFIRMED"
    assert isinstance(totals, Update)
    assert (totals.table, totals.change.expression) == ("cart-totals", "ADD confirmed :one, revenue :total")
    (mail,) = step.sends
    assert (str(mail.to), mail.body) == ("sqs:emails", '{"cart_id":"c-1","total":"8.40"}')


# -- the whole flow ---------------------------------------------------------------------------------------------------


def test_a_submitted_cart_is_confirmed_and_whoever_asked_is_told(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/01-request.json")).run()
    assert [one.acked for one in result.deliveries] == [True] * 3
    assert cart(result) == {
        "cart_id": "cart-2001",
        "status": "CONFIRMED",
        "lines": [{"sku": "tea", "quantity": 2, "unit_price": 4.2}, {"sku": "cup", "quantity": 6, "unit_price": 7.95}],
        "total": 56.1,
        "request_id": "cart-2001-request-1",
    }
    assert result.item("cart-totals", day=DAY) == {"day": DAY, "confirmed": 1, "revenue": 56.1}
    assert [mail.body for mail in result.sent("emails")] == [{"cart_id": "cart-2001", "total": "56.10"}]
    (reply,) = result.sent(REPLIES)
    assert (reply.body["status"], reply.body["result"]) == ("COMPLETED", {"cart_id": "cart-2001", "total": "56.10"})
    assert result.run("cart-2001").status == "COMPLETED"


def test_duplicates_of_every_message_change_nothing(carts: FlowRunner) -> None:
    request, duplicate = sample("validate_cart/01-request.json"), sample("validate_cart/02-duplicate.json")
    with intercept(Copies(3)):
        carts.deliver(request, duplicate, duplicate)
        first = carts.run()
    again = carts.deliver(duplicate, duplicate).run()
    assert confirmed(again) == 1
    assert (len(first.sent("emails")), len(first.sent(REPLIES))) == (1, 1)
    known = {one.id for one in first.messages}
    assert {one.id for one in again.messages} <= known, "copies, which their receivers drop"
    assert first.count(EventType.COMMITTED, EventType.COMPLETED) == 3
    assert again.count(EventType.COMMITTED, EventType.COMPLETED) == 0


@pytest.mark.parametrize("committed", [False, True])
def test_a_worker_that_dies_at_its_commit_is_made_good_by_the_next_delivery(carts: FlowRunner, committed: bool) -> None:
    carts.deliver(sample("validate_cart/01-request.json"))
    with intercept(Death("TransactWriteItems", made=committed)):
        died = carts.step()
    assert (died.item("carts", cart_id="cart-2001") is not None) is committed
    assert [one.acked for one in died.deliveries] == [False]
    result = carts.run()
    assert result.deliveries[0].receive == 2, "when its lease is over"
    assert confirmed(result) == 1
    assert died.count(EventType.COMMITTED) == 0, "the dead tell nothing"
    assert result.count(EventType.COMMITTED, EventType.COMPLETED) == (2 if committed else 3)


def test_a_newer_request_takes_over_and_only_it_is_confirmed(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/01-request.json"), sample("validate_cart/03-newer.json")).run()
    assert result.run("cart-2001").request_id == "cart-2001-request-2"
    assert (cart(result)["status"], cart(result)["total"]) == ("CONFIRMED", 36.6)
    assert confirmed(result) == 1
    assert totals_mailed(result) == ["36.60"]
    assert result.count(EventType.TOOK_OVER) == 1
    assert result.count(EventType.SUPERSEDED) == 1


@pytest.mark.parametrize("ended", [False, True])
def test_an_older_request_that_comes_late_is_dropped(carts: FlowRunner, ended: bool) -> None:
    carts.deliver(sample("validate_cart/03-newer.json"))
    before = carts.run() if ended else carts.step()
    result = carts.deliver(sample("validate_cart/04-older.json")).run()
    assert [one.acked for one in result.deliveries] == [True] * len(result.deliveries)
    assert (cart(result)["request_id"], cart(result)["total"]) == ("cart-2001-request-2", 36.6)
    assert confirmed(result) == 1
    assert before.count(EventType.STALE) + result.count(EventType.STALE) == 1


def test_a_stale_workers_business_writes_are_refused_together_with_its_state(carts: FlowRunner) -> None:
    """The old run has claimed its last stage; just before its commit the newer request is claimed and priced."""
    carts.deliver(sample("validate_cart/01-request.json"))
    for _ in ("price-cart", "check-cart"):
        carts.step()

    def a_newer_request_is_priced() -> None:
        carts.deliver(sample("validate_cart/03-newer.json")).step()

    with intercept(Meanwhile("TransactWriteItems", a_newer_request_is_priced)):
        stale = carts.step()
    assert stale.count(EventType.FENCED) == 1
    assert (cart(stale)["status"], cart(stale)["request_id"]) == ("PRICED", "cart-2001-request-2")
    assert confirmed(stale) is None
    assert [one.to for one in stale.messages] == ["shop-replies", "carts-to-check"], "no e-mail, and no reply but one"
    assert stale.messages[0].body["error"].startswith("Superseded")
    run = stale.run("cart-2001")
    assert run.status == "RUNNING"
    assert CartState.model_validate(run.state).total == Decimal("36.60")

    result = carts.run()
    assert confirmed(result) == 1
    assert totals_mailed(result) == ["36.60"]


def test_a_cart_published_to_the_topic_runs_under_the_notifications_id(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/05-sns-to-sqs.json")).run()
    assert (cart(result, "cart-2002")["status"], cart(result, "cart-2002")["total"]) == ("CONFIRMED", 36.4)
    assert result.count(EventType.WEAK_ID) == 0


def test_a_direct_invocation_is_answered_at_once(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/06-invocation.json")).run()
    assert result.verdicts[0] == "CLAIMED"
    assert confirmed(result) == 1


def test_an_empty_cart_ends_in_the_dead_letters_and_whoever_asked_is_told(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/07-empty-cart.json")).run()
    assert [one.acked for one in result.deliveries] == [True]
    assert [one.id for one in result.dead_letters] == ["cart-2004-request-1"]
    run = result.run("cart-2004")
    assert (run.status, run.error) == ("FAILED", "Reject: the cart is empty")
    assert result.item("carts", cart_id="cart-2004") is None
    (reply,) = result.sent(REPLIES)
    assert (reply.body["status"], reply.body["error"]) == ("FAILED", "Reject: the cart is empty")


def test_a_payload_that_does_not_validate_starts_no_run(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/08-bad-payload.json")).run()
    assert [one.acked for one in result.deliveries] == [True]
    assert [one.id for one in result.dead_letters] == ["cart-2005-request-1"]
    assert result.count(EventType.CLAIMED) == 0


def test_one_bad_record_does_not_harm_the_others_of_its_batch(
    carts: FlowRunner, flow_engine: MemoryAWS, flow_clock: FlowClock
) -> None:
    """The function itself gets the batch: the runner hands over a record at a time."""
    services = signing(aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=flow_clock))
    batch = sample("envelopes/mixed-batch.json")
    assert handlers.price_cart.using(services)(batch) == {"batchItemFailures": []}
    assert cart(carts.run(), "cart-1001")["status"] == "CONFIRMED"


# -- a cart that waits ------------------------------------------------------------------------------------------------


def test_a_cart_with_a_wish_asks_search_and_filter_under_ids_that_carry_its_request(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/09-request-with-a-wish.json")).step()
    assert result.run("cart-2006").status == "WAITING"
    [search], [allowed] = result.sent("search-requests"), result.sent("filter-requests")
    assert search.body == {"search_id": search.id, "wishes": ["something to keep the tea dry"]}
    assert allowed.body == {"filter_id": allowed.id, "cart_id": "cart-2006"}
    assert "cart-2006-request-1" in str(search.id)


@pytest.mark.parametrize("order", list(permutations(ANSWERS)), ids="-".join)
def test_it_goes_on_once_with_both_answers_in_whatever_order_and_number(
    carts: FlowRunner, order: tuple[str, ...]
) -> None:
    carts.deliver(sample("validate_cart/09-request-with-a-wish.json")).step()
    result = carts.deliver(*[sample(f"validate_cart/{ANSWERS[one]}.json") for one in order * 2]).run()
    found = cart(result, "cart-2006")
    assert [line["sku"] for line in found["lines"]] == ["tea", "tin"], "the pot was found, and may not be sold"
    assert (found["status"], found["total"]) == ("CONFIRMED", 11.5)
    assert confirmed(result) == 1
    assert result.count(EventType.COMPLETED) == 1


@pytest.mark.parametrize("party", ["search", "filter"])
def test_where_one_of_them_fails_the_cart_goes_on_without_its_wishes(carts: FlowRunner, party: str) -> None:
    carts.deliver(sample("validate_cart/09-request-with-a-wish.json")).step()
    for one in ("search", "filter"):
        event = sample(f"validate_cart/{ANSWERS[one]}.json")
        carts.deliver(failed(event) if one == party else event)
    assert [line["sku"] for line in cart(carts.run(), "cart-2006")["lines"]] == ["tea"]


def failed(event: Any) -> Any:
    """The same answer as a failure. Its text is in the body, or in the notification that is there."""
    record = event["Records"][0]
    body = json.loads(record["body"])
    inner = {**json.loads(body.get("Message", record["body"])), "error": "down"}
    body = {**body, "Message": json.dumps(inner)} if "Message" in body else inner
    return {"Records": [{**record, "body": json.dumps(body)}]}


def test_after_half_an_hour_it_goes_on_without_its_wishes_and_a_late_answer_is_told_so(carts: FlowRunner) -> None:
    result = carts.deliver(sample("validate_cart/15-request-nobody-answers.json")).run()
    assert (cart(result, "cart-2007")["status"], cart(result, "cart-2007")["total"]) == ("CONFIRMED", 7.95)
    late = carts.deliver(sample("validate_cart/16-search-result-late.json")).run()
    assert (late.verdicts, confirmed(late)) == (["EXPIRED"], 1)


def test_an_answer_for_nothing_that_is_awaited_changes_nothing(carts: FlowRunner) -> None:
    carts.deliver(sample("validate_cart/09-request-with-a-wish.json")).step()
    forged = carts.deliver(sample("validate_cart/12-search-result-forged.json")).step()
    assert [(one.verdict, one.acked) for one in forged.deliveries] == [("UNKNOWN", True)]
    assert forged.run("cart-2006").status == "WAITING"


def test_an_answer_to_an_older_request_never_counts_for_the_newer_one(carts: FlowRunner) -> None:
    carts.deliver(sample("validate_cart/09-request-with-a-wish.json")).step()
    newer = CartSubmitted(cart_id="cart-2006", lines=(CartLine(sku="cup", quantity=1),), wishes=("a saucer",))
    later = sample("validate_cart/09-request-with-a-wish.json")["Records"][0]["messageAttributes"]["requestedat"]
    carts.send(ValidateCart, newer, requested_at=int(later["stringValue"]) + 1)
    carts.step()
    old = carts.deliver(sample("validate_cart/10-search-result.json")).step()
    assert old.verdicts == ["SUPERSEDED"]
    assert old.run("cart-2006").status == "WAITING"


def test_a_cart_of_wishes_alone_for_which_nothing_is_found_is_rejected() -> None:
    step = step_for(AddFound, state=CartState(), hop=2)
    with pytest.raises(Reject, match="nothing was found"):
        AddFound().handle(CartAnswers(search=SearchResult(skus=("yak",)), filter=FilterResult(refused=())), step)


def signing(services: Services) -> Services:
    """Return them with a signer as the runner has it, which knows nothing of who sent the samples."""
    return services._replace(signer=simulated(services.signer))

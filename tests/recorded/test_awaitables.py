"""A handler builds what its run waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.errors import RunFailed
from flowguard.flow import ATTACH, Flow
from flowguard.outcome import AskFlow, AskGroup, AwaitedToken
from flowguard.sim.account import SIMULATED_ANSWERS
from flowguard.testing import step_for
from tests.recorded.carts import Cart, Price, PriceCart


def test_a_token_makes_the_link_with_which_a_person_answers() -> None:
    token = step_for(Price).token("approval")
    link = token.link("https://example.com/answers/", choices=("yes", "no"), with_comment=True)
    assert link == f"https://example.com/answers/{token.text}?answers=yes%2Cno&comment=yes"
    assert token.link("https://example.com", failed=True) == f"https://example.com/{token.text}?failed=true"


def test_a_token_is_sent_as_its_link_or_not_at_all() -> None:
    step = step_for(Price)
    token = step.token("approval")
    with pytest.raises(TypeError, match=r"cannot become JSON: .*AwaitedToken"):
        step.send("mails", {"approve": token})
    assert step.sends == []
    assert token.text not in repr(token)


def test_the_base_of_links_is_a_setting() -> None:
    token = step_for(Price).token("approval", title="Pay?")
    assert token.link().startswith(f"{SIMULATED_ANSWERS}/{token.text}?shown=")
    with pytest.raises(RunFailed, match="no link can be made: set FLOWGUARD_ANSWERS_URL, or give the URL above"):
        AwaitedToken("k1.x", "row").link()


def test_a_link_that_cannot_be_made_ends_the_run_and_shows_no_token() -> None:
    token = step_for(Price).token("approval")
    with pytest.raises(RunFailed, match="no link can be made: the base of a link is a URL without query") as refused:
        token.link("example.com/answers?to=you")
    assert token.text not in str(refused.value)
    with pytest.raises(RunFailed, match="no link can be made: the choices of a link: there are more than 8"):
        token.link("https://example.com", choices=("yes",) * 9)


class Shared(Flow, name="shared-carts", object_id="cart_id", inbox="carts", on_conflict=ATTACH):
    stages = (Price,)


def test_a_flow_that_answers_others_with_the_same_run_is_asked_but_not_cancelled() -> None:
    step, cart = step_for(Price), Cart(cart_id="c-1")
    assert isinstance(step.ask(Shared, cart), AskFlow)
    with pytest.raises(RunFailed, match="they would be cancelled too; leave cancel_too out"):
        step.ask(Shared, cart, cancel_too=True)


class Carted(Flow, name="carted", object_id="cart_id", inbox="carts"):
    stages = (Price,)


def test_the_requests_of_a_group_are_cancelled_with_the_run_as_others_are() -> None:
    step = step_for(Price)
    assert step.group(Carted, [], cancel_too=True).cancel_too
    assert not step.group(Carted, []).cancel_too
    with pytest.raises(RunFailed, match="they would be cancelled too; leave cancel_too out"):
        step.group(Shared, [], cancel_too=True)
    assert isinstance(step.group(Shared, []), AskGroup)
    with pytest.raises(RunFailed, match="cancel_too is for another flow, and 'sqs:shops' is none; leave it out"):
        step.group(Queue("shops"), [], cancel_too=True)


def asks(step: Any, *what: Any, **options: Any) -> Any:
    """Ask as code does that nobody has checked."""
    return step.ask(*what, **options)


def test_nothing_but_a_flow_or_a_destination_is_asked() -> None:
    step, cart = step_for(Price), Cart(cart_id="c-1")
    nowhere: Any = Price
    with pytest.raises(RunFailed, match="is no flow, nor a destination; nothing can be asked there"):
        step.ask(nowhere, cart)
    with pytest.raises(RunFailed, match="is no flow, nor a destination; nothing can be asked there"):
        step.group(nowhere, [("one", cart)])
    with pytest.raises(RunFailed, match="cancel_too is for another flow, and 'sqs:shops' is none; leave it out"):
        asks(step, Queue("shops"), cart, cancel_too=True)
    with pytest.raises(RunFailed, match="nothing can be asked there: "):
        step.ask(Queue(""), cart)
    with pytest.raises(RunFailed, match="attributes are for parties outside, and price-cart is a flow"):
        step.group(PriceCart, [("one", cart)], attributes={"a": "b"})
    with pytest.raises(RunFailed, match="nothing can be asked there: "):
        step.group(Queue(""), [("one", cart)])
    for to in (PriceCart, Queue("shops")):
        assert isinstance(step.group(to, [("one", cart)]), AskGroup)


@pytest.mark.parametrize(
    ("valid", "problem"),
    [
        (timedelta(0), "valid is 0:00:00; it must be positive"),
        (timedelta(seconds=-1), "valid is -1 day, 23:59:59; it must be positive"),
        (600, r"valid is 600, which has no unit; write timedelta\(seconds=600\)"),
    ],
)
def test_a_token_is_valid_for_a_span_that_can_be(valid: Any, problem: str) -> None:
    with pytest.raises(RunFailed, match=rf"step.token\('approval'\): {problem}"):
        step_for(Price).token("approval", valid=valid)


def test_a_page_that_would_show_too_much_makes_no_token() -> None:
    with pytest.raises(RunFailed, match=r"step.token\('approval'\): "):
        step_for(Price).token("approval", title="x" * 10_000)

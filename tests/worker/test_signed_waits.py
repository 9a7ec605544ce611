"""Waits where messages are signed: an address that the asking function did not write is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from flowguard import callback_handler
from flowguard.events import EventType
from flowguard.outcome import Outcome
from flowguard.protocol.run_orders import answer_statement
from flowguard.protocol.waiting import Use, WaitEnd
from flowguard.settings import Settings
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import PLACE
from tests.waits import (
    DEADLINE,
    SCRIPT,
    WITHIN,
    Admits,
    Admitting,
    Cart,
    Late,
    Progress,
    Search,
    SignedCarts,
    WaitScene,
    answered,
    deadline,
    wait_scene,
)

KEYS = "k1:" + "s" * 40


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene(SignedCarts, settings=Settings(signing_keys=SecretStr(KEYS))) as found:
        yield found


def for_searches(step: Step[Progress]) -> Outcome:
    asked: dict[str, Any] = {name: step.ask(Search, Cart(cart_id=name * 3)) for name in "abc"}
    return Admits.when_all(**asked, within=WITHIN)


def place(one: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(one["messageAttributes"][PLACE]["stringValue"]))


def replaced(one: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    attributes = {**one["messageAttributes"], PLACE: {"dataType": "String", "stringValue": json.dumps(found)}}
    return {**one, "messageAttributes": attributes}


def test_a_signed_run_waits_and_goes_on(at: WaitScene) -> None:
    at.begin(for_searches)
    for one in at.waiting("searches"):
        assert at.deliver(one)
    answers = at.waiting("answers")
    assert all(at.deliver(one) for one in answers)
    assert at.resume() == 1
    assert SCRIPT.got == [("admits", Admitting(a=3, b=3, c=3))]


def test_a_forged_answer_is_refused_and_changes_nothing(at: WaitScene) -> None:
    at.begin(for_searches)
    before = at.item()
    given = AnswerAddress.parse(place(at.waiting("searches")[0])["answer_to"])
    end = {"status": "COMPLETED", "result": 1}
    forged = [
        given._replace(signature=None),
        given._replace(signature="k1.00"),
        given._replace(signature="k2." + "0" * 64),
        given._replace(name="b"),
        given._replace(hop=2),
        given._replace(admits=not given.admits),
    ]
    for one in forged:
        assert not at.deliver(answered(one, end))
    assert at.told(EventType.UNTRUSTED) == len(forged)
    assert at.item() == before
    assert at.deliver(answered(given, end))
    assert at.wait.answered == {"a"}


def test_whom_an_answer_is_for_is_signed_with_how_it_is_used(at: WaitScene) -> None:
    """Another flow knows its address, and not that a kept answer is used by it."""
    at.begin(for_searches)
    given = AnswerAddress.parse(place(at.waiting("searches")[0])["answer_to"])
    plain = answered(given, {"status": "COMPLETED", "result": 1})
    use = ["paid", "event-1", "nobody"]
    assert not at.deliver(replaced(plain, {**place(plain), "use": use}))
    callback_handler(SignedCarts).using(at.services)({"Records": [replaced(plain, {**place(plain), "use": use})]})
    assert at.told(EventType.UNTRUSTED) == 2
    signed = given._replace(signature=at.services.signer.sign(answer_statement(given, Use(*use))))
    copy = answered(signed, {"status": "COMPLETED", "result": 1})
    assert not at.deliver(copy), "its address alone is not signed so"
    assert not at.deliver(replaced(copy, {**place(copy), "use": [*use[:2], "another"]}))
    other = answered(signed._replace(name="b"), {"status": "COMPLETED", "result": 1})
    assert not at.deliver(replaced(other, {**place(other), "use": use}))
    assert at.deliver(replaced(copy, {**place(copy), "use": use}))


def test_a_forged_deadline_is_refused(at: WaitScene) -> None:
    at.begin(for_searches)
    (sent,) = at.waiting("answers")
    given = AnswerAddress.parse(place(sent)["deadline"])
    at.move_to(DEADLINE)
    for one in (given._replace(signature=None), given._replace(hop=2)):
        assert not at.deliver(deadline(one))
    assert at.wait.end is None
    assert at.deliver(sent)
    assert at.wait.end is WaitEnd.TIMED_OUT


def test_a_deadline_that_is_sent_again_is_still_signed(at: WaitScene) -> None:
    at.begin(for_searches)
    (sent,) = at.waiting("answers")
    assert at.deliver(sent)
    (again,) = at.waiting("answers")
    at.move_to(DEADLINE)
    assert at.deliver(again)
    assert at.wait.end is WaitEnd.TIMED_OUT


def test_the_tenant_of_a_deadline_is_signed_and_goes_along_when_it_is_sent_again(at: WaitScene) -> None:
    at.begin(for_searches, tenant="acme")
    (sent,) = at.waiting("answers")
    found = place(sent)
    assert (found["deadline"]["tenant"], found["tenant"]) == ("acme", "acme")
    for tenant in ("another", "no tenant", None):
        assert not at.deliver(replaced(sent, {**found, "deadline": {**found["deadline"], "tenant": tenant}}))
    assert at.told(EventType.UNTRUSTED) == 3
    assert at.deliver(replaced(sent, {**found, "tenant": "another"})), "what stands beside it is not looked at"
    (again,) = at.waiting("answers")
    assert (place(again)["deadline"], place(again)["tenant"]) == (found["deadline"], "acme")
    at.move_to(DEADLINE)
    assert at.deliver(again)
    assert at.wait.end is WaitEnd.TIMED_OUT


def test_a_deadline_whose_signature_covers_no_tenant_has_none(at: WaitScene) -> None:
    """So they were sent before."""
    at.begin(for_searches)
    (sent,) = at.waiting("answers")
    assert at.deliver(replaced(sent, {**place(sent), "tenant": "acme"}))
    (again,) = at.waiting("answers")
    assert "tenant" not in place(again)


def test_the_tenant_of_a_groups_deadline_is_signed(at: WaitScene) -> None:
    def for_group(step: Step[Progress]) -> Outcome:
        return Late.when_group(step.group("asked", [("a", {"of": "a"})]), within=WITHIN)

    at.begin(for_group, tenant="acme")
    sent = next(one for one in at.waiting("answers") if "deadline" in place(one))
    found = place(sent)
    assert not at.deliver(replaced(sent, {**found, "deadline": {**found["deadline"], "tenant": "another"}}))
    assert at.told(EventType.UNTRUSTED) == 1
    assert at.deliver(sent)


@pytest.mark.parametrize("change", [{"resumed": None}, {"resumed": 1}, {"sig": None}])
def test_a_message_that_goes_on_is_signed_with_what_it_says_of_its_wait(change: dict[str, Any], at: WaitScene) -> None:
    at.begin(for_searches)
    at.move_to(DEADLINE)
    at.deliver(at.waiting("answers")[0])
    (onward,) = at.waiting("carts")
    found = {name: value for name, value in {**place(onward), **change}.items() if value is not None}
    assert not at.deliver(replaced(onward, found))
    assert at.told(EventType.UNTRUSTED) == 1
    assert at.deliver(onward)


@pytest.mark.parametrize("change", [{"name": "b"}, None])
def test_a_request_is_signed_with_the_address_of_its_answer(change: dict[str, Any] | None, at: WaitScene) -> None:
    at.begin(for_searches)
    request = at.waiting("searches")[0]
    found = place(request)
    answer_to = {} if change is None else {"answer_to": {**found["answer_to"], **change}}
    forged = {**{name: value for name, value in found.items() if name != "answer_to"}, **answer_to}
    assert not at.deliver(replaced(request, forged))
    assert at.told(EventType.UNTRUSTED) == 1
    assert at.deliver(request)

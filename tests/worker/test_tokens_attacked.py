"""Whoever has the link of one question tries to answer others with it, of other runs, objects, flows and times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard import callback_handler
from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.flow import Flow
from flowguard.names.ids import RequestId
from flowguard.protocol.run import RunItem
from flowguard.wire.signing import Keyring, Keys, KeySigner
from flowguard.wire.tokens import Tokens, token_row_id
from tests.aws.engines import empty
from tests.worker.test_callbacks import AskAll, Buying, GoOn, Order, Shop, TooLate, url_event

SECRET: Final = "a-secret-of-the-tests-that-is-long-enough"
YES: Final = {"answer": "yes"}


@pytest.fixture
def shop() -> Iterator[Shop]:
    with empty("memory") as aws:
        yield Shop(aws)


def made_by(keys: str) -> Tokens:
    return Tokens(Keyring(lambda: Keys.parse(keys), ManualClock()))


def row_of(run: RunItem, **changes: Any) -> str:
    said = {
        "flow": "buying",
        "object_id": "o2",
        "request_id": run.request_id,
        "requested_at": run.requested_at,
        "hop": 1,
        "name": "decision",
    }
    return token_row_id(**{**said, **changes})


ATTACKS: Final[dict[str, Callable[[str, str, RunItem], str]]] = {
    "the tag of one token, the claim of another": lambda mine, theirs, run: mine[:45] + theirs[45:],
    "the claim of one token, the tag of another": lambda mine, theirs, run: theirs[:45] + mine[45:],
    "half of each": lambda mine, theirs, run: mine[: len(mine) // 2] + theirs[len(theirs) // 2 :],
    "cut": lambda mine, theirs, run: theirs[:-1],
    "one character more": lambda mine, theirs, run: f"{theirs}A",
    "in capitals": lambda mine, theirs, run: theirs.upper(),
    "in small letters": lambda mine, theirs, run: theirs.lower(),
    "in another alphabet of base64": lambda mine, theirs, run: theirs.replace("-", "+").replace("_", "/") + "=",
    "a point encoded once more": lambda mine, theirs, run: theirs.replace(".", "%2E"),
    "under a key id that is not there": lambda mine, theirs, run: f"k2{theirs[2:]}",
    "by a secret of their own": lambda mine, theirs, run: made_by("k1:" + "z" * 40).make(
        "buying", row_of(run), 1 << 45
    ),
    "a signature of a message": lambda mine, theirs, run: str(
        KeySigner(Keyring(lambda: Keys.parse(f"k1:{SECRET}"), ManualClock())).sign(row_of(run))
    ),
    "the row's id": lambda mine, theirs, run: row_of(run),
    "of their own run": lambda mine, theirs, run: mine,
}


@pytest.mark.parametrize("header", ["authorization", "X-Token", "token", "TOKEN"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_link_answers_a_question_of_another_run(attack: str, header: str, shop: Shop) -> None:
    """Wherever else in the request the token of the other run stands, only its path names what is answered."""
    mine, _ = shop.begin("o1")
    theirs, _ = shop.begin("o2")
    before = shop.run("o2")
    event = url_event(ATTACKS[attack](mine, theirs, before), YES, f"token={theirs}")
    event["headers"] = {**event["headers"], header: theirs}
    shop.answers(event)
    assert shop.run("o2") == before


@pytest.mark.parametrize(
    "changes",
    [{"flow": "selling"}, {"object_id": "o1"}, {"request_id": "r"}, {"requested_at": 1}, {"hop": 2}, {"name": "paid"}],
    ids=str,
)
def test_a_genuine_token_of_anything_else_answers_nothing_of_a_run(changes: dict[str, Any], shop: Shop) -> None:
    """As a function with the same key makes it, for another flow, object, request, time, hop or name."""
    shop.begin("o2")
    before = shop.run("o2")
    token = made_by(f"k1:{SECRET}").make("buying", row_of(before, **changes), shop.clock.now() + 1_000)
    status, said = shop.post(token, YES)
    assert (status, said["verdict"]) == (503, "EARLY"), "it might be of a wait that is not committed yet"
    assert shop.run("o2") == before


def test_a_token_of_an_earlier_run_with_the_same_request_id_answers_none_of_the_later_one(shop: Shop) -> None:
    shop.client.start(Buying, Order(order_id="o1"), request_id="r1", requested_at=shop.clock.now())
    shop.settle()
    [mail] = shop.received("mails")
    shop.clock.advance(seconds=1)
    shop.client.start(Buying, Order(order_id="o1"), request_id="between", requested_at=shop.clock.now())
    shop.settle()
    shop.clock.advance(seconds=1)
    shop.client.start(Buying, Order(order_id="o1"), request_id="r1", requested_at=shop.clock.now())
    shop.settle()
    before = shop.run()
    assert (before.request_id, before.requested_at) == (RequestId("r1"), shop.clock.now())
    assert shop.post(json.loads(mail["Body"])["token"], YES)[1]["verdict"] == "SUPERSEDED"
    assert shop.run() == before


def test_a_token_is_no_use_to_a_function_of_another_flow_nor_after_its_time_nor_without_its_key(shop: Shop) -> None:
    token, _ = shop.begin()
    before = shop.run()

    class Selling(Flow, name="selling", object_id="order_id", answers=Queue("buying"), trust_senders=True):
        stages = (AskAll, GoOn, TooLate)

    others = callback_handler(Selling).using(shop.services)
    keyless = shop.answers.using(shop.services._replace(tokens=made_by("k2:" + "y" * 40)))
    assert [function(url_event(token, YES))["statusCode"] for function in (others, keyless)] == [403, 403]
    shop.clock.advance(seconds=timedelta(days=3) // timedelta(seconds=1))
    assert shop.post(token, YES)[1]["verdict"] == "EXPIRED"
    assert shop.run() == before


def test_an_answer_that_is_sent_again_changes_nothing_whatever_it_says(shop: Shop) -> None:
    token, _ = shop.begin()
    shop.post(token, YES)
    before = shop.run()
    for query in ("", "failed=true"):
        assert shop.post(token, {"answer": "no"}, query)[1]["verdict"] == "DUPLICATE"
    assert shop.run() == before

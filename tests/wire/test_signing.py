"""Signatures: what they cover, which keys make and check them, and that no secret is ever shown."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.clock import ManualClock
from flowguard.errors import SettingsError
from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire import signing
from flowguard.wire.message import PLACE, Message, Place
from flowguard.wire.signing import (
    FRESH_FOR,
    JITTER,
    LOADED_AGAIN_AFTER,
    NOT_ASKED_FOR,
    TRIED_AGAIN_AFTER,
    UNSIGNED,
    USED_FOR,
    Keyring,
    Keys,
    KeySigner,
    check_signs,
    is_claim,
    signed_attributes,
    statement,
)

OLD, NEW = "old-secret-" + "o" * 32, "new-secret-" + "n" * 32
MESSAGE = Message(
    flow="price-cart",
    stage="price",
    version=1,
    object_id=ObjectId("c-1"),
    request_id=RequestId("r-1"),
    requested_at=1_000,
    body='{"cart_id":"c-1"}',
    reply_to="sqs:replies",
)


def signer(text: str) -> KeySigner:
    return KeySigner(Keyring(lambda: Keys.parse(text), ManualClock()))


def said(message: Message) -> str:
    return statement(message, version=message.version, object_id=message.object_id)


def signature(message: Message, keys: str = f"new:{NEW}") -> str:
    found = Place.parse(signed_attributes(message, signer(keys))[PLACE].value).signature
    assert found is not None
    return found


# -- what is signed ---------------------------------------------------------------------------------------------------


def test_a_signature_names_its_key_and_is_good_for_its_message() -> None:
    assert signature(MESSAGE).startswith("new.")
    assert len(signature(MESSAGE)) == len("new.") + 64
    assert signer(f"new:{NEW}").problem(said(MESSAGE), signature(MESSAGE)) is None


CHANGES: dict[str, Any] = {
    "flow": "other",
    "stage": "confirm",
    "version": 2,
    "object_id": "c-2",
    "request_id": "r-2",
    "requested_at": 1_001,
    "hop": 2,
    "retry": 1,
    "redrive": 1,
    "reply_to": "sqs:mine",
    "body": "{}",
    "resumed": True,
    "answer_to": "sqs:answers",
    "cancelled": "a mistake",
}


@pytest.mark.parametrize("field", CHANGES)
def test_whatever_is_changed_the_signature_is_of_another_message(field: str) -> None:
    changed = MESSAGE._replace(**{field: CHANGES[field]})
    assert signer(f"new:{NEW}").problem(said(changed), signature(MESSAGE)) == (
        "its signature is of another message or another secret"
    )


def test_a_plain_message_is_signed_as_it_always_was() -> None:
    body = "f6046644345696ab9c27d29a9a196e3e093b9f6a62c5562f763283678c7f8d15"
    assert said(MESSAGE) == (f'["flowguard-1","price-cart","price",1,"c-1","r-1",1000,1,0,0,"sqs:replies","{body}"]'), (
        "a function of an older version signs and checks the same"
    )


def test_the_address_of_an_answer_is_signed_as_what_it_is() -> None:
    one, other = (said(MESSAGE._replace(answer_to=to)) for to in ("sqs:a", "sqs:b"))
    resumed, named_so = said(MESSAGE._replace(resumed=True)), said(MESSAGE._replace(answer_to="resumed"))
    assert len({one, other, resumed, named_so, said(MESSAGE)}) == 5
    assert resumed == said(MESSAGE)[:-1] + ',"resumed"]'
    assert one == said(MESSAGE)[:-1] + ',"answer_to","sqs:a"]'
    assert said(MESSAGE._replace(cancelled="a mistake")) == said(MESSAGE)[:-1] + ',"cancelled","a mistake"]'


def test_a_version_that_is_left_out_is_another_than_one_that_is_said() -> None:
    assert statement(MESSAGE, version=None, object_id="c-1") != said(MESSAGE)


texts = st.text(st.characters(), max_size=20)


@given(st.tuples(texts, texts, texts, texts), st.tuples(texts, texts, texts, texts))
def test_two_messages_never_say_the_same(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    def made(flow: str, stage: str, object_id: str, body: str) -> str:
        return said(MESSAGE._replace(flow=flow, stage=stage, object_id=ObjectId(object_id), body=body))

    assert (made(*one) == made(*other)) is (one == other)


def test_nothing_is_signed_where_no_keys_are_set() -> None:
    assert signed_attributes(MESSAGE, UNSIGNED) == MESSAGE.own_attributes()
    assert UNSIGNED.sign("it") is None
    assert UNSIGNED.problem("it", "k.00") == "signatures cannot be checked; FLOWGUARD_SIGNING_KEYS is not set"


def test_what_is_believed_only_when_it_is_signed_needs_keys() -> None:
    check_signs(signer(f"new:{NEW}"), "price-cart", "answers")
    with pytest.raises(SettingsError, match="is not set, and price-cart believes answers only with a signature"):
        check_signs(UNSIGNED, "price-cart", "answers")


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"reply_to": None}, False),
        ({}, True),
        ({"reply_to": None, "hop": 2}, True),
        ({"reply_to": None, "retry": 1}, True),
        ({"reply_to": None, "redrive": 1}, True),
        ({"reply_to": None, "cancelled": "a mistake"}, True),
    ],
)
def test_a_plain_request_claims_nothing(changes: dict[str, int | str | None], claim: bool) -> None:
    assert is_claim(MESSAGE._replace(**changes)) is claim  # type: ignore[arg-type]  # one row for all fields


# -- what is believed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_signature", "told"),
    [
        (None, "it carries no signature"),
        ("", "its signature names a key that is not known here"),
        ("none.00", "its signature names a key that is not known here"),
        ("new", "its signature is of another message or another secret"),
        ("new.", "its signature is of another message or another secret"),
        ("new.é\ud800", "its signature is of another message or another secret"),
        (f"new.{signature(MESSAGE, f'new:{OLD}').partition('.')[2]}", "its signature is of another message or another"),
        (signature(MESSAGE).upper(), "its signature names a key that is not known here"),
        (signature(MESSAGE) + "0", "its signature is of another message or another secret"),
    ],
)
def test_what_is_no_valid_signature_says_why(given_signature: str | None, told: str) -> None:
    found = signer(f"new:{NEW}").problem(said(MESSAGE), given_signature)
    assert found is not None
    assert found.startswith(told)


def test_the_first_key_signs_and_all_verify() -> None:
    both = signer(f"new:{NEW}, old:{OLD}\n")
    assert signature(MESSAGE, f"new:{NEW},old:{OLD}").startswith("new.")
    assert both.problem(said(MESSAGE), signature(MESSAGE, f"old:{OLD}")) is None
    assert both.problem(said(MESSAGE), signature(MESSAGE, f"new:{NEW}")) is None
    assert signer(f"new:{NEW}").problem(said(MESSAGE), signature(MESSAGE, f"old:{OLD}")) is not None


# -- when keys are loaded ---------------------------------------------------------------------------------------------


class Stored:
    """A place where keys are kept, which counts who looks there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.loads = 0

    def load(self) -> Keys:
        self.loads += 1
        if not self.text:
            raise OSError("it does not answer")
        return Keys.parse(self.text)


def test_keys_are_loaded_when_first_needed_and_again_when_they_are_no_longer_fresh() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    assert stored.loads == 0
    for _ in range(3):
        lazy.sign("it")
        lazy.problem("it", "old.00")
    assert stored.loads == 1
    clock.advance(ms=FRESH_FOR - 1)
    lazy.sign("it")
    lazy.problem("it", "old.00")
    assert stored.loads == 1, "a key that is known is not looked for"
    clock.advance(ms=1)
    lazy.sign("it")
    assert stored.loads == 2


def test_a_key_that_was_removed_signs_and_verifies_no_longer_than_the_keys_are_fresh() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    assert lazy.problem(said(MESSAGE), signature(MESSAGE, f"old:{OLD}")) is None
    stored.text = f"new:{NEW}"
    clock.advance(ms=FRESH_FOR)
    assert str(lazy.sign("it")).startswith("new.")
    problem = lazy.problem(said(MESSAGE), signature(MESSAGE, f"old:{OLD}"))
    assert problem == "its signature names a key that is not known here"


def test_environments_that_began_together_load_their_keys_again_at_different_moments() -> None:
    clock, moments = ManualClock(), []
    for seed in range(20):
        stored = Stored(f"old:{OLD}")
        ring, began = Keyring(stored.load, clock, random.Random(seed)), clock.now()
        ring.keys()
        while stored.loads == 1:
            clock.advance(seconds=1)
            ring.keys()
        moments.append(clock.now() - began)
    assert min(moments) >= FRESH_FOR * (1 - JITTER)
    assert max(moments) <= FRESH_FOR
    assert len(set(moments)) > 10


def test_a_key_that_is_not_known_is_looked_for_at_most_once_a_minute() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    lazy.sign("it")
    stored.text = f"new:{NEW},old:{OLD}"
    clock.advance(ms=LOADED_AGAIN_AFTER - 1)
    assert lazy.problem(said(MESSAGE), signature(MESSAGE)) == "its signature names a key that is not known here"
    assert stored.loads == 1
    clock.advance(ms=1)
    assert lazy.problem(said(MESSAGE), signature(MESSAGE)) is None
    for _ in range(3):
        lazy.problem("it", "nobodys.00")
    assert stored.loads == 2


def test_a_store_that_refuses_is_not_asked_for_each_bad_message_and_the_known_keys_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(signing.logger, "warning", lambda text, *about: warnings.append(text % about))
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    lazy.sign("it")
    stored.text = ""
    clock.advance(ms=LOADED_AGAIN_AFTER)
    for _ in range(3):
        assert lazy.problem("it", "nobodys.00") == "its signature names a key that is not known here"
    assert lazy.problem(said(MESSAGE), signature(MESSAGE, f"old:{OLD}")) is None
    assert stored.loads == 2
    told = "the keys cannot be loaded again (OSError); those that are known are used for 840 s more"
    assert warnings == [told]


def test_keys_are_used_on_for_a_quarter_of_an_hour_while_their_store_does_not_answer() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    lazy.sign("it")
    stored.text = ""
    clock.advance(ms=USED_FOR - TRIED_AGAIN_AFTER - 1)
    assert lazy.sign("it") is not None
    clock.advance(ms=TRIED_AGAIN_AFTER - 1)
    assert lazy.sign("it") is not None
    assert stored.loads == 2, "the store is asked again when half a minute is over"
    clock.advance(ms=1)
    assert lazy.sign("it") is not None
    clock.advance(ms=1)
    with pytest.raises(OSError, match="does not answer"):
        lazy.sign("it")
    stored.text = f"new:{NEW}"
    clock.advance(ms=NOT_ASKED_FOR)
    assert str(lazy.sign("it")).startswith("new.")


def test_a_store_that_never_answered_is_not_asked_for_each_message_of_a_batch() -> None:
    stored, clock = Stored(""), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    for _ in range(3):
        with pytest.raises(OSError, match="does not answer"):
            lazy.sign("it")
    clock.advance(ms=NOT_ASKED_FOR - 1)
    with pytest.raises(OSError, match="does not answer"):
        lazy.problem("it", "old.00")
    assert stored.loads == 1
    stored.text = f"old:{OLD}"
    clock.advance(ms=1)
    assert lazy.sign("it") is not None


def test_a_clock_that_has_not_been_set_makes_no_keys_of_none() -> None:
    ring = Keyring(Stored("").load, ManualClock(0))
    with pytest.raises(OSError, match="does not answer"):
        ring.keys()


def test_keys_that_were_just_loaded_again_are_fresh_whatever_failed_before() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    lazy.sign("it")
    stored.text = ""
    clock.advance(ms=FRESH_FOR)
    lazy.sign("it")
    stored.text = f"new:{NEW}"
    clock.advance(ms=TRIED_AGAIN_AFTER)
    assert str(lazy.sign("it")).startswith("new.")
    clock.advance(ms=FRESH_FOR - 1)
    lazy.sign("it")
    assert stored.loads == 3


@pytest.mark.parametrize("text", ["", f"old:{OLD}"], ids=["no answer", "keys"])
def test_after_the_clock_has_stepped_back_the_store_is_asked_at_once(text: str) -> None:
    stored, clock = Stored(text), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    with suppress(OSError):
        lazy.sign("it")
    stored.text = f"new:{NEW}"
    clock.advance(ms=-1)
    assert str(lazy.sign("it")).startswith("new.")
    lazy.sign("it")
    assert stored.loads == 2


def test_after_the_clock_has_stepped_back_keys_are_used_no_longer_than_from_then_on() -> None:
    stored, clock = Stored(f"old:{OLD}"), ManualClock()
    lazy = KeySigner(Keyring(stored.load, clock))
    lazy.sign("it")
    stored.text = ""
    clock.advance(seconds=-3_600)
    lazy.sign("it")
    clock.advance(ms=USED_FOR - 1)
    lazy.sign("it")
    clock.advance(ms=1)
    with pytest.raises(OSError, match="does not answer"):
        lazy.sign("it")


# -- keys as they are written -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "key 1 is not id:secret with an id of 1 to 32 of: a-z, A-Z, 0-9, '-', '_'"),
        (NEW, "key 1 is not id:secret"),
        ("id", "key 1 is not id:secret"),
        (f":{NEW}", "key 1 is not id:secret"),
        (f"a.b:{NEW}", "key 1 is not id:secret"),
        (f"{NEW}:new", "key 1 is not id:secret"),
        (f"new:{NEW},", "key 2 is not id:secret"),
        ("new:" + "x" * 31, "key 1 has a secret of 31 bytes; it needs 32"),
        (f"new:{NEW},old:short", "key 2 has a secret of 5 bytes; it needs 32"),
        (f"new:{NEW},new:{OLD}", "key 2 has the id of one before it"),
    ],
)
def test_malformed_keys_are_refused_by_their_place_and_nothing_of_them_is_shown(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Keys.parse(text)
    assert caught.value.setting == "FLOWGUARD_SIGNING_KEYS"
    assert caught.value.problem.startswith(told)
    shown = str(caught.value) + json.dumps(caught.value.args)
    assert not any(part in shown for part in (NEW, OLD, "short", "xxx", "a.b"))


def test_a_secret_is_counted_in_bytes_and_may_have_colons() -> None:
    assert "a" in Keys.parse("a:" + "é" * 16)
    assert Keys.parse(f"a:{NEW}:x").digest("a", "it") != Keys.parse(f"a:{NEW}").digest("a", "it")


def test_keys_show_nothing_of_themselves() -> None:
    keys = Keys.parse(f"new:{NEW}")
    assert NEW not in f"{keys!r} {keys} {signer(f'new:{NEW}')!r}"


def test_a_signature_covers_what_a_message_says_of_waits_and_of_others_it_is_what_it_was() -> None:
    waits = [MESSAGE, MESSAGE._replace(resumed=True), MESSAGE._replace(answer_to="resumed")]
    assert len({said(one) for one in [*waits, MESSAGE._replace(resumed=True, answer_to="{}")]}) == 4
    assert len(json.loads(said(MESSAGE))) == 12
    assert json.loads(said(MESSAGE._replace(since=5)))[12:] == ["since", 5]

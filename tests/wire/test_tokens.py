"""Tokens: what they say to a holder of the key, and that everybody else can neither read nor make nor change one."""

from __future__ import annotations

import base64
import hmac
import string
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.clock import ManualClock
from flowguard.errors import SettingsError, TokenProblem, TokenRefused
from flowguard.wire import tokens as module
from flowguard.wire.shown_facts import ShownFacts
from flowguard.wire.signing import FRESH_FOR, LOADED_AGAIN_AFTER, Keyring, Keys
from flowguard.wire.token_form import without_tokens
from flowguard.wire.tokens import (
    LONGEST_TOKEN,
    NO_TOKENS,
    SEALED_IDS,
    TokenClaim,
    Tokens,
    awaited_id_problem,
    is_token,
    token_awaited_id,
    token_of,
    token_row_id,
)

OLD, NEW = "old-secret-" + "o" * 32, "new-secret-" + "n" * 32
ROW = token_row_id("approvals", "order-17", "request-4711", 99, 2, "approval")
EXPIRY = 1_767_225_600_000
FLOWS = ("orders", "approvals")
ALPHABET = string.ascii_letters + string.digits + "-_"


def made_with(keys: str) -> Tokens:
    return Tokens(Keyring(lambda: Keys.parse(keys), ManualClock()))


TOKENS = made_with(f"k1:{NEW}")
TOKEN = TOKENS.make("approvals", ROW, EXPIRY)


def refused(text: object, *, tokens: Tokens = TOKENS, now: int = 0) -> TokenProblem:
    with pytest.raises(TokenRefused) as caught:
        tokens.read(text, FLOWS, now)
    return caught.value.reason


# -- what a token is --------------------------------------------------------------------------------------------------


def test_a_token_is_read_as_what_it_was_made_of() -> None:
    assert TOKENS.read(TOKEN, FLOWS, EXPIRY - 1) == TokenClaim("approvals", ROW, EXPIRY)


def test_a_token_stands_in_a_url_as_it_is_and_is_short() -> None:
    assert set(TOKEN) <= set(ALPHABET + ".")
    assert len(TOKEN) == len("k1.") + 84
    longest = made_with(f"{'k' * 32}:{NEW}").make("approvals", ROW, EXPIRY)
    assert len(longest) == LONGEST_TOKEN
    assert made_with(f"{'k' * 32}:{NEW}").read(longest, FLOWS, 0).row_id == ROW
    assert is_token(longest)


def test_the_same_attempt_makes_the_same_token() -> None:
    assert made_with(f"k1:{NEW}").make("approvals", ROW, EXPIRY) == TOKEN


rows = st.binary(min_size=16, max_size=16).map(bytes.hex)
expiries = st.integers(0, 2**48 - 1)
flows = st.text(st.characters(codec="utf-8"), max_size=20)


@given(flow=flows, row=rows, expiry=expiries)
def test_whatever_is_put_into_a_token_comes_out(flow: str, row: str, expiry: int) -> None:
    token = TOKENS.make(flow, row, expiry)
    if expiry:
        assert TOKENS.read(token, [flow], expiry - 1) == (flow, row, expiry)
    with pytest.raises(TokenRefused) as caught:
        TOKENS.read(token, [flow], expiry)
    assert caught.value.reason is TokenProblem.EXPIRED


@given(one=st.tuples(flows, rows, expiries), other=st.tuples(flows, rows, expiries))
def test_two_claims_never_make_one_token(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    assert (TOKENS.make(*one) == TOKENS.make(*other)) is (one == other)


# -- what can be read from it without a key ---------------------------------------------------------------------------


def test_nothing_of_the_claim_stands_in_the_token() -> None:
    packed = base64.urlsafe_b64decode(TOKEN.partition(".")[2])
    for part in (bytes.fromhex(ROW), EXPIRY.to_bytes(6), b"approvals", b"order-17", b"4711"):
        assert part not in packed
    for other in (
        TOKENS.make("approvals", ROW, EXPIRY + 1),
        TOKENS.make("orders", ROW, EXPIRY),
        TOKENS.make("approvals", token_row_id("approvals", "order-18", "request-4711", 99, 2, "approval"), EXPIRY),
    ):
        same = sum(a == b for a, b in zip(packed, base64.urlsafe_b64decode(other.partition(".")[2]), strict=True))
        assert same < 8, "each byte is another one, whatever of the claim changes"


def test_a_token_and_a_signature_of_a_message_prove_nothing_of_each_other() -> None:
    keys = Keys.parse(f"k1:{NEW}")
    purposes = [module._SIGN, module._MASK]
    derived = [keys.derive("k1", purpose) for purpose in purposes]
    assert len({*derived, NEW.encode()}) == 3
    assert not any(purpose.startswith("[") for purpose in purposes), "a signed statement is a JSON list"
    packed = base64.urlsafe_b64decode(TOKEN.partition(".")[2])
    claim = bytes.fromhex(ROW) + EXPIRY.to_bytes(6) + module._flow_digest("approvals")
    assert packed[:32] != hmac.digest(NEW.encode(), b"k1." + claim, "sha256")


@pytest.mark.parametrize(
    "changed",
    [
        ("orders", "order-17", "request-4711", 99, 2, "approval"),
        ("approvals", "order-18", "request-4711", 99, 2, "approval"),
        ("approvals", "order-17", "request-4712", 99, 2, "approval"),
        ("approvals", "order-17", "request-4711", 98, 2, "approval"),
        ("approvals", "order-17", "request-4711", 99, 3, "approval"),
        ("approvals", "order-17", "request-4711", 99, 2, "reminder"),
        ("approvals", "order-1", "7request-4711", 99, 2, "approval"),
    ],
)
def test_each_awaited_name_of_each_hop_has_a_row_of_its_own(changed: tuple[str, str, str, int, int, str]) -> None:
    assert token_row_id(*changed) != ROW


def test_a_row_id_is_the_same_everywhere_and_takes_any_text() -> None:
    assert ROW == "8f860b63adaec9d747a65bf1645661cf"
    assert len(token_row_id("f", "\ud800", "\x00" * 100_000, 0, 1, "é")) == 32


# -- what is refused --------------------------------------------------------------------------------------------------


def changes(token: str) -> Iterator[str]:
    for place, old in enumerate(token):
        for new in ALPHABET + ".=+/ \n\x00é\ud800":
            if new != old:
                yield token[:place] + new + token[place + 1 :]


def test_every_change_of_one_character_is_refused() -> None:
    both = made_with(f"k1:{NEW},k2:{OLD},K1:{NEW}")
    seen = {refused(changed, tokens=both) for changed in changes(TOKEN)}
    assert seen == {TokenProblem.FORGED, TokenProblem.UNKNOWN_KEY, TokenProblem.MALFORMED}


def test_every_cut_and_every_extension_by_one_character_is_refused() -> None:
    for place in range(len(TOKEN)):
        assert refused(TOKEN[:place]) is TokenProblem.MALFORMED
        assert refused(TOKEN[:place] + TOKEN[place + 1 :]) in {TokenProblem.MALFORMED, TokenProblem.UNKNOWN_KEY}
    for place in range(len(TOKEN) + 1):
        for new in "A_.=\n ":
            found = refused(TOKEN[:place] + new + TOKEN[place:])
            assert found in {TokenProblem.MALFORMED, TokenProblem.UNKNOWN_KEY}


@given(st.one_of(st.none(), st.integers(), st.binary(), st.text(), st.text(ALPHABET + ".=", min_size=80, max_size=120)))
def test_whatever_is_read_nothing_but_the_typed_error_is_raised(text: object) -> None:
    refused(text)


@given(st.text(ALPHABET, min_size=84, max_size=84))
def test_what_has_the_form_of_a_token_is_a_forgery_all_the_same(text: str) -> None:
    assert refused(f"k1.{text}") is TokenProblem.FORGED


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "k1",
        "k1.",
        TOKEN.upper().lower()[:-1],
        TOKEN.replace(".", ".."),
        TOKEN + "=",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN.partition(".")[2],
        TOKEN.replace("k1.", ".", 1),
        TOKEN.replace("k1.", "k" * 33 + ".", 1),
        TOKEN.replace("k1.", "é.", 1),
        "k1." + "\uff21" * 84,
        "k1." + "A" * 1_000_000,
        None,
        TOKEN.encode(),
        7,
        [TOKEN],
    ],
    ids=range(19),
)
def test_what_is_no_token_is_malformed(text: object) -> None:
    assert refused(text) is TokenProblem.MALFORMED
    assert not (isinstance(text, str) and is_token(text))


def test_what_has_the_form_of_a_token_may_be_forged() -> None:
    assert is_token(TOKEN)
    assert is_token(f"k9.{'A' * 84}")


def test_a_long_text_is_refused_before_any_work() -> None:
    class Long(str):
        __slots__ = ()

        def __len__(self) -> int:
            return LONGEST_TOKEN + 1

    assert refused(Long(TOKEN)) is TokenProblem.MALFORMED
    assert not is_token(Long(TOKEN))


def test_another_spelling_of_the_same_bytes_is_refused() -> None:
    packed = base64.urlsafe_b64decode(TOKEN.partition(".")[2])
    assert len(packed) == 63, "a multiple of three: no bit of the last character is free"
    plus = TOKEN.replace("-", "+").replace("_", "/")
    assert plus != TOKEN
    assert refused(plus) is TokenProblem.MALFORMED


def test_a_token_of_another_flow_is_told_from_a_forgery() -> None:
    assert refused(TOKENS.make("refunds", ROW, EXPIRY)) is TokenProblem.OTHER_FLOW
    with pytest.raises(TokenRefused) as caught:
        TOKENS.read(TOKEN, (), 0)
    assert caught.value.reason is TokenProblem.OTHER_FLOW


@pytest.mark.parametrize("now", [EXPIRY, EXPIRY + 1, 2**60])
def test_a_token_expires_at_its_expiry_and_not_before(now: int) -> None:
    assert refused(TOKEN, now=now) is TokenProblem.EXPIRED
    assert TOKENS.read(TOKEN, FLOWS, EXPIRY - 1).expires_at == EXPIRY


def test_a_forgery_is_never_called_expired() -> None:
    assert refused(TOKEN[:-1] + ("A" if TOKEN[-1] != "A" else "B"), now=EXPIRY) is TokenProblem.FORGED
    assert refused(TOKENS.make("refunds", ROW, EXPIRY), now=EXPIRY) is TokenProblem.OTHER_FLOW


def test_another_secret_under_the_same_key_id_makes_a_forgery() -> None:
    assert refused(made_with(f"k1:{OLD}").make("approvals", ROW, EXPIRY)) is TokenProblem.FORGED


def test_the_same_secret_under_another_key_id_makes_another_token() -> None:
    twice = made_with(f"k1:{NEW},k2:{NEW}")
    assert refused("k2" + TOKEN.removeprefix("k1"), tokens=twice) is TokenProblem.FORGED


def test_an_error_shows_nothing_of_the_token() -> None:
    for text in (TOKEN[:-1], TOKEN[:-1] + "!", f"k9{TOKEN[2:]}", "<script>"):
        with pytest.raises(TokenRefused) as caught:
            TOKENS.read(text, FLOWS, 0)
        assert text not in f"{caught.value} {caught.value!r} {caught.value.args}"


# -- keys -------------------------------------------------------------------------------------------------------------


def test_the_first_key_makes_and_all_read() -> None:
    before, during, after = made_with(f"k1:{OLD}"), made_with(f"k2:{NEW},k1:{OLD}"), made_with(f"k2:{NEW}")
    old, new = before.make("approvals", ROW, EXPIRY), during.make("approvals", ROW, EXPIRY)
    assert (old[:3], new[:3]) == ("k1.", "k2.")
    assert during.read(old, FLOWS, 0) == during.read(new, FLOWS, 0) == after.read(new, FLOWS, 0)
    assert refused(old, tokens=after) is TokenProblem.UNKNOWN_KEY
    assert refused(new, tokens=before) is TokenProblem.UNKNOWN_KEY


def test_an_unknown_key_is_looked_for_at_most_once_a_minute() -> None:
    loads, clock = [f"k2:{NEW},k1:{OLD}", f"k1:{OLD}"], ManualClock()
    tokens = Tokens(Keyring(lambda: Keys.parse(loads.pop()), clock))
    new = made_with(f"k2:{NEW}").make("approvals", ROW, EXPIRY)
    assert refused(new, tokens=tokens) is TokenProblem.UNKNOWN_KEY
    clock.advance(ms=LOADED_AGAIN_AFTER - 1)
    assert refused(new, tokens=tokens) is TokenProblem.UNKNOWN_KEY
    clock.advance(ms=1)
    assert tokens.read(new, FLOWS, 0).row_id == ROW
    assert loads == []


def test_a_token_of_a_key_that_was_removed_opens_nothing_once_the_keys_are_no_longer_fresh() -> None:
    loads, clock = [f"k2:{NEW}", f"k1:{OLD}"], ManualClock()
    tokens = Tokens(Keyring(lambda: Keys.parse(loads.pop()), clock))
    old = tokens.make("approvals", ROW, EXPIRY)
    assert tokens.read(old, FLOWS, 0).row_id == ROW
    clock.advance(ms=FRESH_FOR)
    assert refused(old, tokens=tokens) is TokenProblem.UNKNOWN_KEY
    assert tokens.make("approvals", ROW, EXPIRY).startswith("k2.")


def test_what_is_malformed_loads_no_keys() -> None:
    def load() -> Keys:
        raise AssertionError("the keys were loaded")

    assert refused("no token", tokens=Tokens(Keyring(load, ManualClock()))) is TokenProblem.MALFORMED


@pytest.mark.parametrize("call", [lambda t: t.make("approvals", ROW, EXPIRY), lambda t: t.read(TOKEN, FLOWS, 0)])
def test_where_no_keys_are_set_the_setting_is_named(call: Any) -> None:
    with pytest.raises(SettingsError, match="FLOWGUARD_TOKEN_KEYS: is not set, and tokens need a key; write id:secret"):
        call(NO_TOKENS)


@pytest.mark.parametrize("row", ["", ROW[:-1], ROW + "0", ROW.upper(), "g" * 32, ROW + "\n", "x" * 100_000])
def test_a_row_id_of_another_form_is_refused_when_the_token_is_made(row: str) -> None:
    with pytest.raises(ValueError, match=r"the row id .* is not 32 hex digits in lower case") as caught:
        TOKENS.make("approvals", row, EXPIRY)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("expires_at", [-1, 2**48])
def test_an_expiry_that_does_not_fit_is_refused_when_the_token_is_made(expires_at: int) -> None:
    with pytest.raises(ValueError, match="a token cannot expire at"):
        TOKENS.make("approvals", ROW, expires_at)


def test_tokens_show_nothing_of_their_keys() -> None:
    assert NEW not in f"{TOKENS!r} {TOKENS} {vars(TOKENS)}"


@pytest.mark.parametrize("awaited_id", [token_awaited_id("row"), token_awaited_id(""), f"{SEALED_IDS}x#y"])
def test_the_row_of_a_token_is_no_id_that_anybody_may_name(awaited_id: str) -> None:
    assert "names the row of a token" in str(awaited_id_problem(awaited_id))


@pytest.mark.parametrize("awaited_id", ["payment/o1", f"x{SEALED_IDS}", "token"])
def test_other_ids_may_be_awaited(awaited_id: str) -> None:
    assert awaited_id_problem(awaited_id) is None


def test_each_token_in_a_text_is_masked_and_nothing_else() -> None:
    token = f"k1.{'A' * 84}"
    assert without_tokens(f"a {token}, then https://x.example/{token}?k=1.5") == (
        "a <token>, then https://x.example/<token>?k=1.5"
    )
    assert without_tokens(token[:-1]) == token[:-1]


def test_what_a_page_shows_is_read_with_the_key_of_its_token_alone() -> None:
    case = ShownFacts("Pay claim 4711?", {"Amount": "420 €"})
    sealed = TOKENS.seal(TOKEN, case)
    assert TOKENS.unseal(TOKEN, sealed) == case
    assert made_with(f"k2:{NEW}").unseal(TOKEN, sealed) is None


@pytest.mark.parametrize("after", ["", "?answer=yes&shown=x/y", "#top"])
def test_a_link_names_its_token(after: str) -> None:
    token = f"k1.{'A' * 84}"
    assert token_of(f"https://example.com/answers/{token}{after}") == token


@pytest.mark.parametrize("text", ["paid/o1", "https://example.com/orders/o1", f"ftp://example.com/k1.{'A' * 84}", 7])
def test_a_text_that_is_no_link_of_a_token_stays(text: Any) -> None:
    assert token_of(text) == text

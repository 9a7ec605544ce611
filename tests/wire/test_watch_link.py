"""The links at which runs are watched: whoever has no key can make none."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.clock import ManualClock
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.watch_link import LONGEST_LINK, WatchLink, read_watch_link

LINK = WatchLink("orders", "o/1", "run-1", 1_800_000_000_000, 1_800_000_100_000)


def ring(text: str = "k1:an-example-that-is-long-enough-to-be-a-secret") -> Keyring:
    return Keyring(lambda: Keys.parse(text), ManualClock())


SEALED = LINK.sealed(ring().keys())


@given(st.text(), st.text(), st.text(), st.integers(0), st.integers(0))
def test_what_was_sealed_is_read(flow: str, object_id: str, request_id: str, at: int, until: int) -> None:
    link = WatchLink(flow, object_id, request_id, at, until)
    assert read_watch_link(ring(), link.sealed(ring().keys()), flow) == link


def test_a_link_has_no_character_that_a_url_escapes() -> None:
    text = WatchLink("orders", "ö / & ? \ud800", "r", 1, 2).sealed(ring().keys())
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert read_watch_link(ring(), text, "orders") is not None


@pytest.mark.parametrize("place", range(len(SEALED)))
def test_no_character_of_it_can_be_changed(place: int) -> None:
    for other in "Ab.é":
        changed = SEALED[:place] + other + SEALED[place + 1 :]
        assert changed == SEALED or read_watch_link(ring(), changed, "orders") is None


@given(st.text())
def test_any_other_text_is_no_link(text: str) -> None:
    assert read_watch_link(ring(), text, "orders") is None
    assert read_watch_link(ring(), f"k1.{text}.{text}", "orders") is None


def test_a_link_of_another_flow_or_key_or_purpose_is_none() -> None:
    assert read_watch_link(ring(), SEALED, "others") is None
    assert read_watch_link(ring("k1:another-secret-that-is-long-enough-for-this"), SEALED, "orders") is None
    keys, (name, body, _) = ring().keys(), SEALED.split(".")
    seal = hmac.digest(keys.derive(name, "flowguard/1/token/sign"), f"{name}.{body}".encode(), "sha256")[:16]
    text = base64.urlsafe_b64encode(seal).decode().rstrip("=")
    assert read_watch_link(ring(), f"{name}.{body}.{text}", "orders") is None


def test_the_id_of_the_key_is_sealed_too() -> None:
    secret = "an-example-that-is-long-enough-to-be-a-secret"
    both = ring(f"k2:{secret},k1:{secret}")
    assert read_watch_link(both, SEALED, "orders") == LINK
    assert read_watch_link(both, SEALED.replace("k1.", "k2.", 1), "orders") is None


def test_a_link_outlives_a_rotation_of_its_key() -> None:
    rotated = ring("k2:another-secret-that-is-long-enough-for-this,k1:an-example-that-is-long-enough-to-be-a-secret")
    assert read_watch_link(rotated, SEALED, "orders") == LINK
    assert LINK.sealed(rotated.keys()).startswith("k2.")


def test_the_largest_names_fit_and_nothing_larger_is_looked_at() -> None:
    largest = WatchLink("f" * 64, "é" * 512, "é" * 512, 10**15, 10**15).sealed(ring().keys())
    assert len(largest) <= LONGEST_LINK
    assert read_watch_link(ring(), largest, "f" * 64) is not None
    longer = WatchLink("orders", "o" * LONGEST_LINK, "r", 1, 2).sealed(ring().keys())
    assert read_watch_link(ring(), longer, "orders") is None


@pytest.mark.parametrize("text", [SEALED, f"{SEALED[:-1]}-", SEALED.replace("k1.", "k9.", 1), "k9.a.b", ""])
def test_whatever_is_wrong_one_seal_is_made_and_compared(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []
    compare = hmac.compare_digest

    def compared(*pair: Any) -> bool:
        made.append(pair)
        return compare(*pair)

    monkeypatch.setattr(hmac, "compare_digest", compared)
    link = read_watch_link(ring(), text, "orders")
    assert len(made) == 1
    assert (link is not None) is (text == SEALED)


def test_it_can_be_read_by_its_owner() -> None:
    _, body, _ = SEALED.split(".")
    assert json.loads(base64.urlsafe_b64decode(body + "==")) == list(LINK)

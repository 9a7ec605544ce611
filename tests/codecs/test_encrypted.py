"""Encryption under data keys: what is opened, by whom, and for how long a key is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from types import ModuleType
from typing import Any

import pytest

from flowguard.aws.data_keys import KmsDataKeys
from flowguard.clock import ManualClock
from flowguard.codecs.encrypted import _HEAD, MARK, Encrypted, OpensAny, _decrypted, _read
from flowguard.codecs.kept_keys import KeptKeys, data_keys_here, standing_in
from flowguard.errors import CannotOpen, DefinitionError, KeyUnavailable, SettingsError, TooLarge
from flowguard.payload.codec import About
from tests.codecs.fakes import Vault

ABOUT = About("orders", "o1", "state run")
MINUTES = timedelta(minutes=5)
FEW = 5


@pytest.fixture
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.codecs.kept_keys.MOST_OPENED", FEW)


def codec(vault: Vault, clock: ManualClock | None = None, key: str = "k", **options: Any) -> Encrypted:
    return Encrypted(key, data_keys=vault, clock=clock or ManualClock(), **options)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("text", [b"", b"fge1", b"fgz1", b'{"a":1}', b"long " * 10_000])
def test_what_is_sealed_is_opened_again(text: bytes, compress: bool) -> None:
    vault = Vault()
    sealed = codec(vault, compress=compress).seal(text, ABOUT)
    assert codec(vault).open(sealed, ABOUT) == text
    assert not text or text not in sealed[4:]


def test_a_compressed_text_is_shorter_and_one_that_is_not_says_its_length() -> None:
    vault, text = Vault(), b"long " * 10_000
    assert len(codec(vault).seal(text, ABOUT)) < 1_000
    plain = codec(vault, compress=False)
    assert len(plain.seal(text, ABOUT)) - len(plain.seal(b"", ABOUT)) == len(text)


def test_no_two_values_are_sealed_alike() -> None:
    each = codec(Vault())
    assert each.seal(b"text", ABOUT) != each.seal(b"text", ABOUT)


@pytest.mark.parametrize(
    "other", [ABOUT._replace(flow="carts"), ABOUT._replace(object_id="o2"), ABOUT._replace(kind="result run")]
)
def test_what_is_about_something_else_is_not_opened(other: About) -> None:
    vault = Vault()
    sealed = codec(vault).seal(b"text", ABOUT)
    with pytest.raises(CannotOpen):
        codec(vault).open(sealed, other)


@pytest.mark.parametrize("place", range(200))
def test_a_changed_byte_is_noticed_wherever_it_is(place: int) -> None:
    vault = Vault()
    sealed = bytearray(codec(vault).seal(b"a text of some length, which does not compress", ABOUT))
    sealed[place % len(sealed)] ^= 1
    with pytest.raises(CannotOpen):
        codec(vault).open(bytes(sealed), ABOUT)


@pytest.mark.parametrize("length", range(0, 64, 3))
def test_what_is_not_whole_is_not_opened(length: int) -> None:
    vault = Vault()
    sealed = codec(vault).seal(b"text", ABOUT)
    assert length < len(sealed)
    with pytest.raises(CannotOpen):
        codec(vault).open(sealed[:length], ABOUT)


@pytest.mark.parametrize(
    "sealed", [b"", b"plain", MARK, MARK + b"\x00\x00\xff\x00\x00key", MARK + b"\0\0\1\0\0\xff" * 9]
)
def test_what_is_no_sealed_value_is_not_opened(sealed: bytes) -> None:
    with pytest.raises(CannotOpen):
        codec(Vault()).open(sealed, ABOUT)


def test_each_says_what_is_wrong_with_it() -> None:
    each = codec(Vault())
    with pytest.raises(CannotOpen, match="another codec has sealed it than Encrypted"):
        each.open(b"fgz1" + bytes(40), ABOUT)
    whole = each.seal(b"", ABOUT)
    head = len(whole) - len(each.seal(b"", ABOUT)[_HEAD.size + len(b"id-of-k") + len(b"sealed-1") + 12 :])
    with pytest.raises(CannotOpen, match="it is not whole"):
        each.open(whole[:head], ABOUT)
    with pytest.raises(CannotOpen, match="it was changed, or sealed as something else"):
        each.open(whole[: head + 1], ABOUT)


class Broken(bytes):
    def __getitem__(self, place: object) -> Any:
        raise LookupError("broken")


class BrokenCipher:
    def decrypt(self, *_: object) -> bytes:
        raise LookupError("broken")


def test_a_mistake_of_ours_is_no_changed_value() -> None:
    sealed = codec(Vault()).seal(b"text", ABOUT)
    with pytest.raises(LookupError):
        _read(Broken(sealed), ABOUT)
    cipher: Any = BrokenCipher()
    with pytest.raises(LookupError):
        _decrypted(cipher, _read(sealed, ABOUT), ABOUT)


class Unloadable(ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise LookupError("broken")


def test_where_the_extra_is_missing_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "cryptography.hazmat.primitives.ciphers.aead"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match=r"pip install 'flowguard-aws\[codec\]'"):
        codec(Vault()).seal(b"text", ABOUT)
    monkeypatch.setitem(sys.modules, name, Unloadable(name))
    with pytest.raises(LookupError):
        codec(Vault()).seal(b"text", ABOUT)


@pytest.mark.parametrize(
    ("names", "rule"),
    [(None, "*"), ("", "*"), ("staging-*", "staging-*"), ("*-dev, queues.parcels=parcels-of-all", "*-dev")],
)
def test_a_data_key_is_made_for_its_flow_and_environment(
    monkeypatch: pytest.MonkeyPatch, names: str | None, rule: str
) -> None:
    monkeypatch.delenv("FLOWGUARD_NAMES", raising=False)
    if names is not None:
        monkeypatch.setenv("FLOWGUARD_NAMES", names)
    vault = Vault()
    codec(vault).seal(b"text", ABOUT)
    context = {"flowguard-flow": "orders", "flowguard-environment": rule}
    assert [made_for for _, made_for, _ in vault.known.values()] == [context]


def test_one_environment_opens_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault()
    each = codec(vault)
    monkeypatch.setenv("FLOWGUARD_NAMES", "prod-*")
    sealed = each.seal(b"text", ABOUT)
    monkeypatch.setenv("FLOWGUARD_NAMES", "dev-*,tables.stock=prod-stock")
    for opening in (each, codec(vault), OpensAny(lambda: vault)):
        with pytest.raises(CannotOpen):
            opening.open(sealed, ABOUT)
    assert each.seal(b"text", ABOUT) != sealed
    assert vault.made == 2, "the data key of the other environment seals nothing here"
    monkeypatch.setenv("FLOWGUARD_NAMES", "prod-*,queues.parcels=parcels")
    assert each.open(sealed, ABOUT) == codec(vault).open(sealed, ABOUT) == b"text"


def test_what_stands_in_does_so_in_its_block_alone() -> None:
    first, second, each = Vault(), Vault(), Encrypted("k")
    for vault in (first, second):
        with standing_in(vault):
            each.seal(b"text", ABOUT)
            assert data_keys_here(Vault) is vault
    assert (first.made, second.made) == (1, 1)
    other = Vault()
    assert data_keys_here(lambda: other) is other


def test_elsewhere_the_keys_of_kms_are_made_once() -> None:
    each = Encrypted("k")
    assert isinstance(each._of_aws(), KmsDataKeys)
    assert each._of_aws() is each._of_aws()
    people = OpensAny(Vault)
    assert people._of_aws() is people._of_aws()


@pytest.mark.usefixtures("few_kept")
def test_a_data_key_that_is_opened_anew_is_the_newest() -> None:
    vault, clock = Vault(), ManualClock()
    kept = KeptKeys(vault, clock, 60_000)
    names = [f"s-{number}".encode() for number in range(FEW + 1)]
    for name in names:
        vault.known[name] = ("k", {}, b"secret")
    for name in names[:-1]:
        kept.opening(name, "orders", ["k"], {})
    clock.advance(seconds=60)
    kept.opening(names[0], "orders", ["k"], {})
    kept.opening(names[-1], "orders", ["k"], {})
    asked = len(vault.asked)
    kept.opening(names[0], "orders", ["k"], {})
    assert len(vault.asked) == asked


def test_a_text_that_is_too_long_is_refused_when_it_is_sealed() -> None:
    with pytest.raises(TooLarge, match="the state run to be sealed is too large"):
        codec(Vault(), largest=10).seal(b"x" * 11, ABOUT)


def test_a_bomb_is_not_opened_beyond_the_bound() -> None:
    vault = Vault()
    sealed = codec(vault).seal(b"\x00" * 5_000_000, ABOUT)
    with pytest.raises(CannotOpen, match="it has more than 1,000 bytes"):
        codec(vault, largest=1_000).open(sealed, ABOUT)


def test_the_id_of_the_key_stands_in_the_sealed_form() -> None:
    assert b"id-of-k" in codec(Vault()).seal(b"text", ABOUT)


# -- keys


def test_a_key_that_has_sealed_before_opens_and_another_does_not() -> None:
    vault = Vault()
    sealed = codec(vault, key="old").seal(b"text", ABOUT)
    assert codec(vault, key="new", opens=["old"]).open(sealed, ABOUT) == b"text"
    with pytest.raises(CannotOpen, match="it says that 'id-of-old' has sealed it, which may not open here"):
        codec(vault, key="new").open(sealed, ABOUT)


def test_the_key_that_is_named_is_asked_first() -> None:
    vault = Vault()
    sealed = codec(vault, key="old").seal(b"text", ABOUT)
    with pytest.raises(CannotOpen):
        codec(vault, key="new", opens=["id-of-old", "old"]).open(b"fge1" + sealed[4:-1], ABOUT)
    assert vault.asked[-1] == ("open", "id-of-old new old")


def test_people_are_asked_for_the_key_that_is_named_alone() -> None:
    vault = Vault()
    sealed = codec(vault).seal(b"text", ABOUT)
    assert OpensAny(lambda: vault).open(sealed, ABOUT) == b"text"
    assert vault.asked[-1] == ("open", "id-of-k")


def test_a_process_makes_one_data_key_for_each_flow_and_interval() -> None:
    vault, clock = Vault(), ManualClock()
    each = codec(vault, clock)
    for _ in range(3):
        each.seal(b"text", ABOUT)
    assert vault.made == 1
    each.seal(b"text", ABOUT._replace(flow="carts"))
    assert vault.made == 2
    clock.advance(seconds=299)
    each.seal(b"text", ABOUT)
    assert vault.made == 2
    clock.advance(seconds=1)
    each.seal(b"text", ABOUT)
    assert vault.made == 3


def test_a_data_key_seals_a_bounded_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.codecs.kept_keys.MOST_SEALED", 3)
    vault = Vault()
    each = codec(vault)
    made = []
    for _ in range(7):
        each.seal(b"text", ABOUT)
        made.append(vault.made)
    assert made == [1, 1, 1, 2, 2, 2, 3]


def test_what_a_process_has_sealed_it_opens_without_a_call() -> None:
    vault = Vault()
    each = codec(vault)
    each.open(each.seal(b"text", ABOUT), ABOUT)
    assert vault.asked == [("make", "k")]


def test_an_opened_data_key_is_kept_for_the_interval() -> None:
    vault, clock = Vault(), ManualClock()
    sealed, reader = codec(vault).seal(b"text", ABOUT), codec(vault, clock, interval=timedelta(minutes=1))
    for seconds, calls in ((0, 1), (59, 1), (1, 2)):
        clock.advance(seconds=seconds)
        reader.open(sealed, ABOUT)
        assert sum(what == "open" for what, _ in vault.asked) == calls


@pytest.mark.usefixtures("few_kept")
def test_a_process_keeps_a_bounded_number_of_opened_data_keys() -> None:
    vault, clock = Vault(), ManualClock()
    kept = KeptKeys(vault, clock, 60_000)
    sealed = []
    for number in range(FEW + 1):
        name = f"s-{number}".encode()
        vault.known[name] = ("k", {}, b"secret")
        sealed.append(name)
        assert kept.opening(name, "orders", ["k"], {}) == b"secret"
    asked = len(vault.asked)
    assert len(kept._opened) == FEW
    kept.opening(sealed[1], "orders", ["k"], {})
    assert len(vault.asked) == asked
    kept.opening(sealed[0], "orders", ["k"], {})
    assert len(vault.asked) == asked + 1


def sealing_ones(vault: Vault, count: int) -> list[bytes]:
    """Make data keys of as many other processes."""
    names = [f"s-{number}".encode() for number in range(count)]
    vault.known |= {name: ("k", {}, b"secret") for name in names}
    return names


@pytest.mark.usefixtures("few_kept")
def test_the_data_key_that_was_used_least_recently_makes_room() -> None:
    vault = Vault()
    kept = KeptKeys(vault, ManualClock(), 60_000)
    first, second, *others = sealing_ones(vault, FEW + 1)
    for name in (first, second, *others[:-1], first, others[-1]):
        kept.opening(name, "orders", ["k"], {})
    asked = len(vault.asked)
    kept.opening(first, "orders", ["k"], {})
    assert len(vault.asked) == asked
    kept.opening(second, "orders", ["k"], {})
    assert len(vault.asked) == asked + 1


def test_among_a_thousand_senders_each_data_key_is_asked_for_once_in_an_interval() -> None:
    vault, clock, chosen = Vault(), ManualClock(), Random(7)
    kept = KeptKeys(vault, clock, 300_000)
    names = sealing_ones(vault, 1_000)
    for _ in range(6_000):
        clock.advance(ms=40)
        kept.opening(chosen.choice(names), "orders", ["k"], {})
    assert len(vault.asked) == len(kept._opened) <= 1_000


def test_no_secret_is_kept_beyond_its_time_once_another_is_opened() -> None:
    vault, clock = Vault(), ManualClock()
    kept = KeptKeys(vault, clock, 60_000)
    first, second, third = sealing_ones(vault, 3)
    kept.opening(first, "orders", ["k"], {})
    clock.advance(seconds=30)
    kept.opening(second, "orders", ["k"], {})
    kept.opening(first, "orders", ["k"], {})
    clock.advance(seconds=30)
    kept.opening(third, "orders", ["k"], {})
    assert [name for name, _ in kept._opened] == [second, third]


def test_what_was_noted_of_keys_that_were_away_leaves_after_five_seconds_and_holds_no_frames() -> None:
    vault, clock = Vault(), ManualClock()
    kept, vault.away = KeptKeys(vault, clock, 60_000), True
    for name in (b"first", b"second"):
        with pytest.raises(KeyUnavailable):
            kept.opening(name, "orders", ["k"], {})
        clock.advance(seconds=5)
    [((name, _), (error, _))] = kept._away.items()
    assert (name, error.__traceback__) == (b"second", None)


def test_a_data_key_that_nobody_opens_is_not_kept() -> None:
    vault = Vault()
    kept = KeptKeys(vault, ManualClock(), 60_000)
    assert kept.opening(b"unknown", "orders", ["k"], {}) is None
    assert kept.opening(b"unknown", "orders", ["k"], {}) is None
    assert len(vault.asked) == 2


def test_while_its_keys_are_away_nothing_is_sealed_and_what_is_kept_goes_on() -> None:
    vault, clock = Vault(), ManualClock()
    each = codec(vault, clock)
    sealed = each.seal(b"text", ABOUT)
    vault.away = True
    assert each.open(each.seal(b"more", ABOUT), ABOUT) == b"more"
    clock.advance(seconds=300)
    with pytest.raises(KeyUnavailable, match="the key k cannot be used now: ThrottlingException"):
        each.seal(b"text", ABOUT)
    with pytest.raises(KeyUnavailable):
        each.open(sealed, ABOUT)
    vault.away = False
    clock.advance(seconds=5)
    assert each.open(sealed, ABOUT) == b"text"


def test_a_data_key_that_was_not_opened_is_not_asked_for_again_at_once_and_others_are() -> None:
    vault, clock = Vault(), ManualClock()
    sealed, other = codec(vault).seal(b"text", ABOUT), codec(vault).seal(b"other", ABOUT)
    reader = codec(vault, clock)
    vault.away = True
    for seconds, asked in ((0, 1), (0, 1), (4.999, 1), (0.001, 2)):
        clock.advance(seconds=seconds)
        with pytest.raises(KeyUnavailable, match="the key k cannot be used now: ThrottlingException"):
            reader.open(sealed, ABOUT)
        assert sum(what == "open" for what, _ in vault.asked) == asked
    vault.away = False
    assert reader.open(other, ABOUT) == b"other"
    with pytest.raises(KeyUnavailable):
        reader.open(sealed, ABOUT)
    assert codec(vault).open(sealed, ABOUT) == b"text"


@pytest.mark.parametrize("step", [0, 1, 3_600_000])
def test_after_the_clock_has_stepped_back_nothing_that_was_noted_before_holds(step: int) -> None:
    vault, clock = Vault(), ManualClock()
    kept = KeptKeys(vault, clock, 300_000)
    vault.known[b"away"] = vault.known[b"open"] = ("k", {}, b"secret")
    vault.away = True
    with pytest.raises(KeyUnavailable):
        kept.opening(b"away", "orders", ["k"], {})
    vault.away = False
    kept.opening(b"open", "orders", ["k"], {})
    kept.sealing("k", "orders", {})
    vault.asked.clear()
    clock.advance(ms=-step)
    with suppress(KeyUnavailable):
        kept.opening(b"away", "orders", ["k"], {})
    kept.opening(b"open", "orders", ["k"], {})
    kept.sealing("k", "orders", {})
    assert [what for what, _ in vault.asked] == (["open", "open", "make"] if step else [])


def test_whatever_else_a_source_raises_is_not_kept() -> None:
    class Broken(Vault):
        def opened(self, sealed: bytes, keys: Sequence[str], context: Mapping[str, str]) -> bytes | None:
            raise LookupError("a bug")

    kept = KeptKeys(Broken(), ManualClock(), 60_000)
    for _ in range(2):
        with pytest.raises(LookupError, match="a bug"):
            kept.opening(b"sealed", "orders", ["k"], {})


def test_what_one_flow_may_not_open_now_another_is_asked_for() -> None:
    vault = Vault()
    kept = KeptKeys(vault, ManualClock(), 60_000)
    vault.known[b"sealed"] = ("k", {}, b"secret")
    vault.away = True
    with pytest.raises(KeyUnavailable):
        kept.opening(b"sealed", "orders", ["k"], {})
    vault.away = False
    assert kept.opening(b"sealed", "carts", ["k"], {}) == b"secret"


def test_a_forged_name_of_a_key_is_quoted_and_cut() -> None:
    head = _HEAD.pack(MARK, 0, 5_000, 1) + b"\n" * 5_000 + b"x"
    with pytest.raises(CannotOpen) as raised:
        codec(Vault()).open(head + b"n" * 12 + b"data", ABOUT)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


# -- its definition


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Encrypted(""), "key is ''; write the alias, id or ARN of a KMS key"),
        (lambda: Encrypted(None), "key is None"),  # type: ignore[arg-type]  # a mistake
        (lambda: Encrypted("k", opens="alias/a"), "opens is 'alias/a'; write a tuple of keys"),
        (lambda: Encrypted("k", opens=("",)), "opens is"),
        (lambda: Encrypted("k", interval=5), "interval is 5, which has no unit"),  # type: ignore[arg-type]  # a mistake
        (lambda: Encrypted("k", interval=timedelta(0)), "it is positive, and at most 1:00:00"),
        (lambda: Encrypted("k", interval=timedelta(hours=2)), "it is positive, and at most 1:00:00"),
        (lambda: Encrypted("k", largest=0), "largest is 0; write how many bytes"),
    ],
)
def test_a_mistake_is_refused_when_it_is_made(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        make()


def test_nothing_of_a_key_is_shown() -> None:
    vault = Vault()
    each = codec(vault)
    each.seal(b"text", ABOUT)
    shown = f"{each!r} {vars(each)!r} {vault.make('k', {})!r}"
    assert repr(bytes([1]) * 32)[2:-1] not in shown
    assert repr(each) == "Encrypted('k')"

"""People who look: nothing is opened unasked, and what is opened is opened with their own permission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from flowguard.aws.clients import Clients
from flowguard.aws.sender import AWSSender
from flowguard.aws.services import aws_store
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.client import FlowClient
from flowguard.codecs import Compressed, Encrypted
from flowguard.codecs.kept_keys import standing_in
from flowguard.codecs.reading import ReadingCodecs, readable_body
from flowguard.errors import CannotOpen, Reject, SettingsError
from flowguard.flow import AnyFlow
from flowguard.payload.codec import About, Codec
from flowguard.settings import Settings
from flowguard.ui.inspected import Inspected
from flowguard.wire.sealed_message import sealed_message
from tests.aws.engines import same_clients
from tests.codecs.fakes import Vault
from tests.codecs.test_outage import sealing
from tests.payload.test_codec import Raises
from tests.scene import Scene, Script, scene

ABOUT = About("orders", "o1", "state run")
SECRET = "MARKERWORD"


def failing(step: Any) -> None:
    raise Reject(f"no {SECRET}")


@contextmanager
def ended(codec: Codec, vault: Vault, *, fails: bool = False) -> Iterator[tuple[Scene, Vault]]:
    """A run of the scene that has ended, whose keys are asked anew by whoever looks."""
    with scene(sealing(codec)) as at, standing_in(vault):
        if fails:
            at.script.closing = failing
        at.deliver(sealed_message(codec, at.message(body=json.dumps({"order_id": "o1", "note": SECRET}))))
        at.deliver(sealed_message(codec, at.second()))
        vault.asked.clear()
        yield at, vault


def command(at: Scene, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments], obj=CommandTime(at.clock), terminal_width=200)
    assert result.exception is None, result.output
    return result.stdout


@pytest.mark.parametrize("arguments", [("show", "orders", "o1"), ("show", "orders", "o1", "--json"), ("list",)])
def test_nothing_is_opened_unasked(arguments: tuple[str, ...]) -> None:
    with ended(Encrypted("k"), Vault(), fails=True) as (at, vault):
        shown = command(at, *arguments)
        assert vault.asked == []
        assert SECRET not in shown
        assert "(sealed, and shown with payloads alone)" in shown


def test_payloads_are_opened_where_they_are_asked_for() -> None:
    with ended(Encrypted("k"), Vault()) as (at, vault):
        facts = json.loads(command(at, "show", "orders", "o1", "--json", "--payloads"))
        assert facts["result"] == {"total": 7}
        assert facts["state"] == {"total": 7}
        assert {what for what, _ in vault.asked} == {"open"}


def test_so_is_the_error_of_a_run_that_failed() -> None:
    with ended(Encrypted("k"), Vault(), fails=True) as (at, _):
        facts = json.loads(command(at, "show", "orders", "o1", "--json", "--payloads"))
        assert facts["error"] == f"Reject: no {SECRET}"
        assert facts["outbox"]["sends"]


def test_whose_permission_is_missing_is_told_so() -> None:
    with ended(Encrypted("k"), Vault()) as (at, vault):
        vault.away = True
        facts = json.loads(command(at, "show", "orders", "o1", "--json", "--payloads"))
        assert facts["result"] == "the key id-of-k cannot be used now: ThrottlingException: slow down"


def test_a_dead_letter_is_opened_where_its_payload_is_asked_for() -> None:
    with ended(Encrypted("k"), Vault(), fails=True) as (at, vault):
        assert "(sealed)" in command(at, "dlq", "list", "dead")
        assert vault.asked == []
        assert '{"total":7}' in command(at, "dlq", "list", "dead", "--payload")
        [letter] = [json.loads(line) for line in command(at, "dlq", "list", "dead", "--json").splitlines()]
        shown = command(at, "dlq", "show", "dead", letter["message_id"], "--payload")
        assert '{"total":7}' in shown
        assert vault.asked != []


@pytest.mark.parametrize("payloads", [True, False])
def test_the_inspector_opens_with_payloads_alone(payloads: bool) -> None:
    with ended(Encrypted("k"), Vault(), fails=True) as (at, vault):
        inspected = Inspected(Settings(), Clients(), at.clock, {"orders": at.flow}, payloads=payloads, wait=0)
        found = inspected.run("orders", "o1")
        assert found is not None
        assert (SECRET in str(found[1]["error"])) is payloads
        [letter] = inspected.letters("dead").letters
        assert inspected.payload_of(letter) == ('{"total":7}' if payloads else None)
        assert bool(vault.asked) is payloads


# -- the codecs


class Own:
    """A codec of a user's own."""

    def seal(self, data: bytes, about: About) -> bytes:
        return b"own" + data[::-1]

    def open(self, sealed: bytes, about: About) -> bytes:
        return sealed[3:][::-1]


def flow(codec: Codec) -> AnyFlow:
    return sealing(codec)(Script())


def test_each_value_is_opened_by_the_form_of_its_codec() -> None:
    vault = Vault()
    codecs = ReadingCodecs(lambda: vault)
    for codec in (Compressed(), Encrypted("k", data_keys=vault)):
        assert codecs.of("whatever").open(codec.seal(b"text", ABOUT), ABOUT) == b"text"


def test_a_codec_of_ones_own_opens_where_its_flow_is_known() -> None:
    sealed = Own().seal(b"text", ABOUT)
    assert ReadingCodecs(Vault, [flow(Own())]).of("orders").open(sealed, ABOUT) == b"text"
    with pytest.raises(CannotOpen, match="give its flow's class, as MODULE:FLOW"):
        ReadingCodecs(Vault).of("orders").open(sealed, ABOUT)


def test_a_flow_that_encrypts_is_opened_by_those_who_look() -> None:
    flows, reader = Vault(), Vault()
    codec = Encrypted("k", data_keys=flows)
    sealed = codec.seal(b"text", ABOUT)
    reader.known = flows.known
    assert ReadingCodecs(lambda: reader, [flow(codec)]).of("orders").open(sealed, ABOUT) == b"text"
    assert flows.asked == [("make", "k")]
    assert reader.asked == [("open", "id-of-k")]


def test_who_looks_seals_nothing() -> None:
    with pytest.raises(SettingsError, match="is to be sealed by those who only look"):
        ReadingCodecs(Vault).of("orders").seal(b"text", ABOUT)


def test_a_body_that_cannot_be_opened_says_why(at: Scene) -> None:
    message = at.message()
    assert readable_body(ReadingCodecs(Vault), message) == message.body
    sealed = sealed_message(Encrypted("k", data_keys=Vault()), message)._replace(body="")
    assert readable_body(ReadingCodecs(Vault), sealed).startswith("(the payload cannot be opened")
    away = Vault()
    away.away = True
    with standing_in(away):
        assert "cannot be used now" in readable_body(ReadingCodecs(Vault), sealed)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def test_a_setting_that_is_missing_is_said() -> None:
    codecs = ReadingCodecs(Vault, [flow(Raises(SettingsError("Own", "no key")))])
    sealed = sealed_message(Own(), Scene.message(Scene.__new__(Scene)))._replace(body="")
    with pytest.raises(SettingsError, match="Own: no key"):
        readable_body(codecs, sealed)


def test_a_client_reads_a_result_that_is_sealed() -> None:
    with ended(Encrypted("k"), Vault()) as (at, _):
        client = FlowClient(
            AWSSender(same_clients()), clock=at.clock, store=lambda: aws_store(Settings(), same_clients())
        )
        kept = client.result(at.flow, "o1")
        assert kept is not None
        assert kept.value == {"total": 7}

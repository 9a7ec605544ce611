"""``flowguard once``, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from flowguard.aws.ledger import ledger_of
from flowguard.cli import main
from flowguard.key_table import KeyTable
from flowguard.names.ids import Owner
from flowguard.protocol.entry import Completion, KeyAsk, KeyClaim
from flowguard.settings import Settings
from flowguard.sim.table_keys import create_table
from tests.aws.engines import on_memory

NOW = 1_800_000_000_000


@pytest.fixture
def entries() -> Iterator[None]:
    """Two keys of flowguard's table, and one of another."""
    with on_memory() as clients:
        create_table(clients.dynamodb, "idempotency", "id")
        ours, others = ledger_of(Settings(), clients), ledger_of(Settings(), clients, KeyTable("idempotency"))
        for ledger, key in ((ours, "o-1"), (ours, "bad\x1b"), (others, "o-9")):
            claim = ledger.claim(KeyAsk("charge", key, Owner("me"), NOW, NOW + 30_000, NOW + 60_000))
            assert isinstance(claim, KeyClaim)
            if key == "bad\x1b":
                ledger.free(claim, "ValueError", NOW + 1)
            else:
                ledger.finish(claim, Completion('{"paid":true}', None, NOW + 5, NOW + 60_000))
        yield


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["once", "show", *arguments])


@pytest.mark.usefixtures("entries")
def test_an_entry_is_shown_without_its_result() -> None:
    result = show("charge", "o-1")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "name           charge\n"
        "key            o-1\n"
        "status         COMPLETED\n"
        "met            1\n"
        "begun at       2027-01-15T08:00:00.000+00:00\n"
        "updated at     2027-01-15T08:00:00.005+00:00\n"
        "lease until    2027-01-15T08:00:30.000+00:00\n"
        "completed at   2027-01-15T08:00:00.005+00:00\n"
        "expires at     2027-01-15T08:01:00.000+00:00\n"
    )
    assert 'result         {"paid":true}\n' in show("charge", "o-1", "--result").stdout


@pytest.mark.usefixtures("entries")
def test_for_programs_it_is_a_line_of_json() -> None:
    told = json.loads(show("charge", "o-9", "--table", "idempotency", "--table-key", "id", "--json", "--result").stdout)
    assert (told["key"], told["status"], told["met"], told["result"]) == ("o-9", "COMPLETED", 1, '{"paid":true}')


@pytest.mark.usefixtures("entries")
def test_a_hostile_key_is_printable() -> None:
    result = show("charge", "bad\x1b")
    assert "key            bad\\x1b\n" in result.stdout
    assert "status         FAILED\n" in result.stdout
    assert "failure        ValueError\n" in result.stdout
    assert json.loads(show("charge", "bad\x1b", "--json").stdout)["key"] == "bad\x1b"


@pytest.mark.usefixtures("entries")
def test_a_key_that_nobody_met_is_said_to_be_unknown() -> None:
    result = show("charge", "o-2")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "charge: no entry for o-2\n")


@pytest.mark.usefixtures("entries")
def test_a_table_that_is_not_there_is_named() -> None:
    result = show("charge", "o-1", "--table", "nope")
    assert result.exit_code == 2
    assert "there is no table 'nope'" in result.stderr

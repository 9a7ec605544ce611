"""``flowguard once``, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
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


def forget(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["once", "forget", *arguments])


@pytest.mark.usefixtures("entries")
def test_an_entry_is_forgotten_with_yes_alone() -> None:
    assert forget("charge", "o-1").stdout == "FOUND      charge: the entry of o-1 is COMPLETED\n"
    assert show("charge", "o-1").exit_code == 0
    assert forget("charge", "o-1", "--yes").stdout == "FORGOTTEN  charge: the entry of o-1 is COMPLETED\n"
    assert show("charge", "o-1").exit_code == 1
    assert forget("charge", "o-1", "--yes").exit_code == 1


@pytest.mark.usefixtures("entries")
def test_an_entry_whose_attempt_has_failed_is_forgotten_and_one_of_another_table() -> None:
    assert forget("charge", "bad\x1b", "--yes").exit_code == 0
    assert forget("charge", "o-9", "--table", "idempotency", "--table-key", "id", "--yes").exit_code == 0


def test_an_entry_of_an_idempotency_key_is_refused_and_stays() -> None:
    with on_memory() as clients:
        ledger = ledger_of(Settings(), clients)
        claim = ledger.claim(KeyAsk("start/orders", "k", Owner("me"), NOW, NOW + 30_000, NOW + 60_000))
        assert isinstance(claim, KeyClaim)
        ledger.finish(claim, Completion('["o1","r1",1]', None, NOW + 5, NOW + 60_000))
        result = forget("start/orders", "k", "--yes")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "flowguard forget empties those of an object; nothing was removed" in result.stderr
        assert ledger.read("start/orders", "k") is not None


def test_an_entry_at_which_a_call_is_at_work_stays_until_its_lease_is_over() -> None:
    with on_memory() as clients:
        ledger = ledger_of(Settings(), clients)
        ledger.claim(KeyAsk("charge", "o-1", Owner("me"), NOW, NOW + 30_000, NOW + 60_000))
        assert ledger.remove("charge", "o-1", NOW + 30_000) is None
        assert ledger.remove("charge", "o-1", NOW + 30_001) is not None
        assert ledger.read("charge", "o-1") is None


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DeleteItem"),
        EndpointConnectionError(endpoint_url="https://nowhere"),
    ],
)
def test_another_error_of_the_table_is_its_own(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(**_: object) -> object:
        raise error

    with on_memory() as clients:
        ledger = ledger_of(Settings(), clients)
        monkeypatch.setattr(clients.dynamodb, "delete_item", failing)
        with pytest.raises(type(error)):
            ledger.remove("charge", "o-1", NOW)


def test_what_cannot_be_forgotten_is_said() -> None:
    with on_memory():
        result = forget("charge", "o-1", "--table", "no-such", "--yes")
    assert result.exit_code == 2
    assert "no-such" in result.output

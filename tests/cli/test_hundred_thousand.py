"""A table of a hundred thousand runs on DynamoDB Local: what it takes to find some of them, and to go through all.

``python -m pytest -m long -s tests/cli/test_hundred_thousand.py`` prints the figures of the documentation.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.clock import SystemClock, no_pause
from flowguard.names.ids import ObjectId
from tests.aws.engines import on_dynamodb_local
from tests.aws.test_indexed_runs import TABLE, create_indexed
from tests.aws.test_run_pages import item
from tests.cli.test_many import ORDERS

RUNS: Final = 100_000
FAILED: Final = 1_000
TOGETHER: Final = 25
TEXT: Final = "x" * 1_700
"""With it an item has 2 KB."""

INDEX: Final = ("--index", "runs-by-status")
pytestmark = pytest.mark.long("the same commands as tests/cli/test_many.py, on a table of a hundred thousand runs")


@pytest.fixture(scope="module")
def url(dynamodb_local_url: str) -> Iterator[str]:
    clients = on_dynamodb_local(dynamodb_local_url)
    create_indexed(clients)
    begin = time.monotonic()
    for first in range(0, RUNS, TOGETHER):
        puts: Any = [{"PutRequest": {"Item": run_item(number)}} for number in range(first, first + TOGETHER)]
        clients.dynamodb.batch_write_item(RequestItems={TABLE: puts})
    say(f"{RUNS:,} runs are written in {time.monotonic() - begin:.0f} s")
    with pytest.MonkeyPatch.context() as patch:
        access_key = credentials_of(clients)
        patch.setenv("AWS_ACCESS_KEY_ID", access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", "local")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield dynamodb_local_url


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def credentials_of(clients: Clients) -> str:
    """The access key of the client, which names the engine's database."""
    given: Any = clients.dynamodb
    return str(given._request_signer._credentials.access_key)


def run_item(number: int) -> Any:
    status = "FAILED" if number % (RUNS // FAILED) == 0 else "RUNNING"
    changes = {"state": {"S": TEXT}, "request_id": {"S": f"r{number}"}}
    return run_key("orders", ObjectId(f"o{number:06}")) | item(status) | changes


def run(url: str, *arguments: str, code: int = 0, answer: str | None = None) -> tuple[Result, float]:
    at = ("--dynamodb-endpoint-url", url, "--table", TABLE)
    begin = time.monotonic()
    time_of = CommandTime(SystemClock(), no_pause)
    result = CliRunner().invoke(main, [*arguments, *at], obj=time_of, input=answer)
    assert result.exit_code == code, result.output
    return result, time.monotonic() - begin


def units_in(result: Result) -> float:
    found = re.search(r"([\d,.]+) read units", result.stderr)
    assert found is not None
    return float(found[1].replace(",", ""))


def told(what: str, result: Result, seconds: float) -> float:
    units = units_in(result)
    say(f"{what}: {units:,.1f} read units, {seconds:.1f} s")
    return units


def test_the_failed_ones_are_found_by_the_index_for_a_fraction(url: str) -> None:
    listing = ("list", "--flow", "orders", "--status", "failed", "--limit", "10000", "--json")
    whole, seconds = run(url, *listing)
    by_scan = told("a list of 1,000 failed of 100,000, by Scan", whole, seconds)
    indexed, seconds = run(url, *listing, *INDEX)
    by_index = told("the same by the index", indexed, seconds)
    assert len(whole.stdout.splitlines()) == len(indexed.stdout.splitlines()) == FAILED
    assert by_index * 20 < by_scan


def test_all_of_them_are_counted_before_somebody_is_asked(url: str) -> None:
    command = ("cancel", ORDERS, "--all", "--why", "x", "--status", "running")
    for name, more in (("by Scan", ()), ("by the index", (*INDEX, "--read", "1000000"))):
        result, seconds = run(url, *command, *more, code=1, answer="n\n")
        assert f"{RUNS - FAILED:,} runs to cancel:" in result.stderr
        told(f"99,000 runs are counted {name}", result, seconds)


def test_many_are_cancelled_in_parts_and_none_twice(url: str) -> None:
    command = ("cancel", ORDERS, "--all", "--why", "x", "--status", "running", *INDEX, "--yes", "--json")
    place: tuple[str, ...] = ()
    done: list[str] = []
    for _ in range(2):
        result, seconds = run(url, *command, "--limit", "1000", "--per-second", "1000", *place)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert {row["end"] for row in rows} == {"CANCELLED"}
        done += [row["object_id"] for row in rows]
        place = ("--after", result.stderr.split()[-1])
        say(f"1,000 runs are cancelled in {seconds:.1f} s")
    assert len({*done}) == 2_000

"""The commands of ``flowguard once``."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final

import boto3
import click
from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.ledger import DynamoDBLedger, ledger_of
from flowguard.cli.connection import command_time
from flowguard.cli.printing import complain, say, say_json
from flowguard.errors import SettingsError, TextGone
from flowguard.key_table import KeyTable
from flowguard.protocol.entry import Entry
from flowguard.settings import Settings

NOT_FOUND: Final = 1  # the exit code where there is no such entry
OF_STARTS: Final = "start/"
_TIMES: Final = ("begun_at", "updated_at", "lease_until", "completed_at", "expires_at")


class UnreadableEntry(click.ClickException):
    """The entry cannot be read, such as one of a table that does not exist."""

    exit_code = click.UsageError.exit_code


@click.group()
def once() -> None:
    """Look at the keys of functions that are guarded by @once, or forget one.

    The exit code is 0 where the entry is shown, 1 where there is none, 2 where it cannot be read: there is no such
    table or region, or its result is gone from S3.
    """


@once.command()
@click.argument("name")
@click.argument("key")
@click.option("--table", metavar="NAME", help="The table of the entries; FLOWGUARD_TABLE by default.")
@click.option("--table-key", metavar="ATTRIBUTE", help="The hash key of a table that has one key: id, of Powertools.")
@click.option("--region", metavar="NAME", help="AWS's region; the environment's or the profile's by default.")
@click.option("--endpoint-url", metavar="URL", help="Where all services are, if not at AWS.")
@click.option("--result", "with_result", is_flag=True, help="Show the stored result too.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def show(*, name: str, key: str, with_result: bool, as_json: bool, **options: Any) -> None:
    """Show the entry of a key: its status, how often it was met, and when.

    NAME is that of the function, as @once was given it. The exit code is 1 where there is no such entry.
    """
    try:
        entry = _read(name, key, options)
    except (SettingsError, TextGone, ClientError, BotoCoreError) as error:
        raise UnreadableEntry(str(error)) from None
    if entry is None:
        complain(f"{name}: no entry for {key}")
        sys.exit(NOT_FOUND)
    facts = _facts(name, key, entry, with_result=with_result)
    if as_json:
        say_json(json.dumps(facts, ensure_ascii=False))
        return
    for label, value in facts.items():
        if value is not None:
            say(f"{label.replace('_', ' '):<13}  {value}")


@once.command()
@click.argument("name")
@click.argument("key")
@click.option("--table", metavar="NAME", help="The table of the entries; FLOWGUARD_TABLE by default.")
@click.option("--table-key", metavar="ATTRIBUTE", help="The hash key of a table that has one key: id, of Powertools.")
@click.option("--region", metavar="NAME", help="AWS's region; the environment's or the profile's by default.")
@click.option("--endpoint-url", metavar="URL", help="Where all services are, if not at AWS.")
@click.option("--yes", is_flag=True, help="Really remove it. Without this, only say what there is.")
def forget(*, name: str, key: str, yes: bool, **options: Any) -> None:
    """Remove the entry of a key, with the result that it has.

    A call that comes with the key afterwards is a new one, and runs the function. Without --yes nothing is changed. A
    result that was too long for the item is in S3, where the bucket's rules remove it. The exit code is 1 where there
    is no such entry, or a call is at work. Entries of an Idempotency-Key, whose names begin with start/, are refused:
    without one a repeat of the request would start a second run.
    """
    if name.startswith(OF_STARTS):
        problem = f"{name} has the entries of Idempotency-Key, without which a repeat starts a second run"
        raise UnreadableEntry(f"{problem}; flowguard forget empties those of an object; nothing was removed")
    try:
        entry = _ledger(options).remove(name, key, command_time().clock.now()) if yes else _read(name, key, options)
    except (SettingsError, TextGone, ClientError, BotoCoreError) as error:
        raise UnreadableEntry(str(error)) from None
    if entry is None:
        complain(f"{name}: no entry for {key}, or a call is at work; nothing was removed")
        sys.exit(NOT_FOUND)
    say(f"{'FORGOTTEN' if yes else 'FOUND    '}  {name}: the entry of {key} is {entry.status.value}")


def _read(name: str, key: str, options: dict[str, Any]) -> Entry | None:
    return _ledger(options).read(name, key)


def _ledger(options: dict[str, Any]) -> DynamoDBLedger:
    settings = Settings.from_environment(os.environ)
    if options["table"]:
        settings = settings.model_copy(update={"table": options["table"]})
    table = KeyTable(settings.table, options["table_key"]) if options["table_key"] else None
    session = boto3.session.Session(region_name=options["region"])
    urls = dict.fromkeys(("dynamodb", "s3"), options["endpoint_url"]) if options["endpoint_url"] else {}
    return ledger_of(settings, Clients(session, urls), table)


def _facts(name: str, key: str, entry: Entry, *, with_result: bool) -> dict[str, Any]:
    """Return the facts to show. Times are texts."""
    fields = entry._asdict()
    facts: dict[str, Any] = {"name": name, "key": key, "status": entry.status.value, "met": entry.met}
    facts |= {field: _time(fields[field]) for field in _TIMES}
    facts |= {field: fields[field] for field in ("failure", "refusal")}
    return facts | ({"result": entry.result} if with_result else {})


def _time(ms: int) -> str | None:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds") if ms else None

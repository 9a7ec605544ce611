"""The command ``flowguard waits``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from flowguard.aws.services import aws_store
from flowguard.cli.connection import check_id, clients_of, connected, connection_errors, settings_of
from flowguard.cli.console import cell, console, line
from flowguard.cli.letter_rows import duration
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import complain, say_json
from flowguard.clock import SystemClock
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import Wait, WaitEnd, WaitPlan
from flowguard.sim.loading import load_flows
from flowguard.wire.notification import to_json
from flowguard.wire.tokens import SEALED_IDS

MISSING: Final = 1  # the exit code where there is no such run
_COLUMNS: Final = (*map(Column, ("name", "what", "answer")), Column("under the id", folds=True))
_EXCERPT: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command()
@click.argument("flow")
@click.argument("object_id", metavar="OBJECT")
@connected
@click.option("--payload", is_flag=True, help="Show the answers too.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def waits(flow: str, object_id: str, *, payload: bool, as_json: bool, **options: Any) -> None:
    """Show what the run of OBJECT waits for, until when, and which answers it has.

    FLOW is the name of a flow, or its class as MODULE:NAME. Nothing is changed. Answers are not shown unless asked for,
    and tokens never: nobody can make one of what is shown.

    The exit code is 0 where there is a run, whether it waits or not, 1 where there is none, 2 where the command cannot
    be run.
    """
    check_id("FLOW", flow)
    check_id("OBJECT", object_id)
    with connection_errors():
        name = load_flows([flow])[0].name if ":" in flow else flow
    settings = settings_of(options)
    with connection_errors(settings.table):
        item = aws_store(settings, clients_of(options)).read(name, object_id)
    if item is None:
        complain(f"{name} of {object_id}: there is no run; is it the right table and region?")
        sys.exit(MISSING)
    facts = _facts(name, object_id, item, payload=payload)
    if as_json:
        say_json(to_json(facts))
    else:
        _show(facts, SystemClock().now(), payload=payload)


def _facts(flow: str, object_id: str, item: RunItem, *, payload: bool) -> dict[str, Any]:
    """Return the facts to show, as JSON values. ``wait`` is None for a run that does not wait."""
    wait = item.wait if item.status is Status.WAITING else None
    return {
        "flow": flow,
        "object_id": object_id,
        "request_id": item.request_id,
        "status": item.status.value,
        "stage": item.stage,
        "hop": item.hop,
        "wait": None if wait is None or wait.plan is None else _of_wait(wait, wait.plan, payload=payload),
    }


def _of_wait(wait: Wait, plan: WaitPlan, *, payload: bool) -> dict[str, Any]:
    return {
        "deadline": wait.deadline,
        "ended": wait.end.value if wait.end is not None else None,
        "missing": max(0, len(wait.waiting) - max(0, wait.spare)) if wait.end is None else 0,
        "goes_on_at": plan.stage_at(wait.end or WaitEnd.ANSWERED),
        "on_timeout": plan.stage_at(WaitEnd.TIMED_OUT),
        "on_error": plan.stage_at(WaitEnd.FAILED),
        "names": [_of_name(name, wait, plan, payload=payload) for name in plan.names],
    }


def _of_name(name: str, wait: Wait, plan: WaitPlan, *, payload: bool) -> dict[str, Any]:
    answer, own = wait.answers.get(name), plan.names[name]
    sealed = own is not None and own.startswith(SEALED_IDS)
    found: dict[str, Any] = {
        "name": name,
        "what": "token" if sealed else _what(name, own),
        "id": None if sealed else own,
        "answer": None if answer is None else "failed" if answer.failed else "answered",
    }
    if payload and answer is not None:
        found["payload"] = json.loads(answer.text)
    return found


def _what(name: str, own: str | None) -> str:
    """Return the kind of what is awaited. The id of an ask begins with its name."""
    if own is None:
        return "flow"
    return "asked" if own.startswith(f"{name}#") else "event"


# -- for people -------------------------------------------------------------------------------------------------------


def _show(facts: Mapping[str, Any], now: int, *, payload: bool) -> None:
    out, wait = console(), facts["wait"]
    where = f"{facts['flow']} of {facts['object_id']}: {facts['status']} at {facts['stage']}, hop {facts['hop']}"
    out.print(line(f"{where}, request {facts['request_id']}"), soft_wrap=True)
    if wait is None:
        out.print(line("it waits for nothing"))
        return
    for said in _said(wait, now):
        out.print(line(said), soft_wrap=True)
    columns = [*_COLUMNS, *([Column("payload", folds=True)] if payload else [])]
    show_table(out, columns, [[cell(text) for text in _cells(one, payload=payload)] for one in wait["names"]])


def _said(wait: Mapping[str, Any], now: int) -> Iterator[str]:
    moment = (_EPOCH + timedelta(milliseconds=wait["deadline"])).strftime("%Y-%m-%d %H:%M:%S UTC")
    left = (wait["deadline"] - now) // 1000
    when = f"in {duration(left)}" if left >= 0 else f"over for {duration(-left)}"
    if wait["ended"] is not None:
        yield f"the wait is over ({wait['ended']}); the run goes on at {wait['goes_on_at']}"
        return
    yield f"until {moment} ({when}), then at {wait['on_timeout']}"
    yield f"goes on at {wait['goes_on_at']} with {wait['missing']} more of these answers"


def _cells(one: Mapping[str, Any], *, payload: bool) -> list[str]:
    own = [one["name"], one["what"], one["answer"] or "awaited", one["id"] or ""]
    return [*own, to_json(one["payload"])[:_EXCERPT] if "payload" in one else ""] if payload else own

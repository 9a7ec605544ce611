"""The command ``flowguard reset``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from flowguard.aws.run_reader import SeenRun
from flowguard.cli.connection import CannotRun, check_id, connected, flow_class, flow_client, table_errors
from flowguard.cli.many import check_choice, do_to_many, for_many
from flowguard.cli.printing import complain, say_json
from flowguard.cli.run_lines import say_line
from flowguard.client import Started
from flowguard.errors import SendFailed
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.operate.bulk import CHANGED, LEFT, End
from flowguard.protocol.run import RunItem, Status
from flowguard.verdicts import ResetVerdict
from flowguard.wire.notification import to_json
from flowguard.worker.replies import takes_callers
from flowguard.worker.restart import needs_restart

NOT_DONE: Final = 1  # the exit code where nothing was reset, or the message of the restart was not sent
_SAYS: Final = {
    ResetVerdict.RESTARTED: "its worker was fenced, and its work begins once more for all who wait for it",
    ResetVerdict.DROPPED: "its result is good for no newer request",
    ResetVerdict.NOTHING: "there is no run that could be reset; it may have failed, or be cancelled",
}


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@connected
@for_many
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def reset(flow: str, object_id: str | None, *, every: bool, as_json: bool, **options: Any) -> None:
    """Reset the run of OBJECT, as FlowClient.reset does.

    A run at work is fenced, and its work begins once more with the same payload. A kept result answers no newer request
    any more. It is for flows with on_conflict=ATTACH.

    With --all the runs that pass the filters are reset, one after the other. Their number and the first of them are
    shown, and you are asked. A run that has changed meanwhile is left alone. --after goes on where that stopped.

    The exit code is 0 where something was reset, 1 where nothing was, or where the message that restarts the run could
    not be sent, 2 where the command cannot be run. With --all it is 0 where all are reset or left; 1 where some
    failed, the table was not read to its end or has items that this version cannot read, you said no, or Ctrl-C ended
    the work; 2 where it cannot go on, either; 130 after Ctrl-C before anything was done.
    """
    check_choice(object_id, every=every)
    loaded = flow_class(flow)
    if not takes_callers(loaded):
        raise CannotRun(f"{loaded.name} keeps no result that could be reset; that is for on_conflict=ATTACH")
    if object_id is None:
        sys.exit(_reset_many(loaded, options, as_json=as_json))
    check_id("OBJECT", object_id)
    sys.exit(_reset_one(loaded, object_id, options, as_json=as_json))


def _reset_one(flow: AnyFlow, object_id: str, options: Mapping[str, Any], *, as_json: bool) -> int:
    unsent: str | None = None
    with table_errors(options):
        try:
            verdict = flow_client(options).reset(flow, object_id)
        except SendFailed as error:
            verdict, unsent = ResetVerdict.RESTARTED, str(error)
    if as_json:
        facts = {"flow": flow.name, "object_id": object_id, "verdict": verdict.value, "problem": unsent}
        say_json(to_json(facts))
    elif verdict is ResetVerdict.NOTHING:
        complain(f"{flow.name} of {object_id}: nothing was reset: {_SAYS[verdict]}")
    else:
        say_line(f"{verdict.value}  {flow.name} of {object_id}: {_SAYS[verdict]}")
    if unsent is not None:
        complain(f"{flow.name} of {object_id}: {unsent}; the reset may be repeated")
    return NOT_DONE if unsent is not None or verdict is ResetVerdict.NOTHING else 0


def _reset_many(flow: AnyFlow, options: Mapping[str, Any], *, as_json: bool) -> int:
    client = flow_client(options)

    def act(seen: SeenRun) -> End:
        only = Started(seen.item.request_id, seen.item.requested_at, ObjectId(seen.object_id))
        verdict = client.reset(flow, seen.object_id, only=only)
        return End(LEFT, CHANGED) if verdict is ResetVerdict.NOTHING else End(verdict.value, _SAYS[verdict])

    return do_to_many("reset", flow, lambda seen: _can_be_reset(seen.item), act, options, as_json=as_json)


def _can_be_reset(item: RunItem) -> bool:
    """Answer whether there is something to reset.

    A run may be reset again until its work has begun once more: it may be that the message for that was never sent.
    """
    if item.status is Status.FAILED or item.own_failure is not None or item.cancelled_because is not None:
        return False
    return item.reset_at is None or needs_restart(item)

"""The command ``flowguard callback``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from flowguard.aws.run_reader import SeenRun
from flowguard.cli.connection import CannotRun, check_id, connected, flow_class, flow_client, table_errors
from flowguard.cli.many import check_choice, counted, do_to_many, for_many
from flowguard.cli.printing import complain, say, say_json
from flowguard.cli.recordings import read_text
from flowguard.client import FlowClient, Started
from flowguard.errors import Reject, SendFailed, TokenRefused
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.operate.bulk import LEFT, End
from flowguard.operate.wait_facts import awaited_under, awaited_without_id
from flowguard.payload.encoding import encode_json
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.notification import to_json
from flowguard.wire.tokens import is_token, token_of

UNUSED: Final = 1  # the exit code where the answer was not used
_USED: Final = frozenset({AnswerVerdict.RESUMED, AnswerVerdict.RECORDED, AnswerVerdict.DUPLICATE, AnswerVerdict.EARLY})

_ALONE: Final = {
    "token": "by a token, which only its holder has: each is answered by its link, or not at all",
    "flow": "from another flow, which alone answers",
}
"""Who answers what has no id, by its kind."""


@click.command()
@click.argument("awaited", metavar="[TOKEN|ID]")
@click.argument("file", metavar="FILE", required=False)
@click.option("--flow", "flow_name", metavar="MODULE:FLOW", required=True, help="The class of the flow that waits.")
@click.option("--fail", is_flag=True, help="Report a failure; FILE has its text.")
@click.option("--kind", metavar="TYPE", default="Failed", show_default=True, help="The failure's type.")
@click.option("--name", metavar="NAME", help="With --all: what the runs wait for, by its name in the flow.")
@connected
@for_many
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.")
def callback(
    awaited: str,
    file: str | None,
    *,
    flow_name: str,
    fail: bool,
    kind: str,
    name: str | None,
    every: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer by hand what runs of a flow wait for, and print the verdict.

    TOKEN is that of a link, or the whole link; ID is what is awaited, as 'flowguard waits' shows it. FILE has the
    answer as JSON, or the text of a failure; a dash is standard input. A token needs the keys in FLOWGUARD_TOKEN_KEYS.

    All runs that wait for the ID get the answer. With --all it is for the runs of the flow that pass the filters and
    wait for --name, one after the other, and for no other run that waits for the same id. Their number and the first of
    them are shown, and you are asked. A run that waits no more is left alone. Runs that wait for --name by a token, or
    from another flow, get no answer, and are counted. --after goes on where that stopped, and what is answered twice
    does no harm.

    The exit code is 0 for RESUMED, RECORDED, DUPLICATE and EARLY, 1 for an answer that was not used or not sent, as
    one with a token whose wait is not committed (EARLY), of which nothing is kept. It is 2 where the command cannot be
    run: a forged token, or an answer that the awaiting stage cannot read, too. With --all it is 0 where all are
    answered or left; 1 where some failed or wait by a token or from a flow, the table was not read to its end or has
    items that this version cannot read, you said no, or Ctrl-C ended the work; 2 where it cannot go on, either; 130
    after Ctrl-C before anything was done.
    """
    awaited, file = _check_arguments(awaited, file, name, every=every)
    if name is not None:
        sys.exit(_answer_many(flow_class(flow_name), name, file, kind if fail else None, options, as_json=as_json))
    awaited = token_of(awaited)
    check_id("TOKEN|ID", awaited)
    payload = _read(file, fail=fail)
    flow = flow_class(flow_name)
    with table_errors(options):
        try:
            verdict = _given(flow, awaited, payload, kind if fail else None, flow_client(options))
        except TokenRefused as error:
            raise CannotRun(str(error)) from None
        except Reject as error:
            raise CannotRun(f"{error}. Nothing was answered") from None
        except SendFailed as error:
            complain(f"{error}; nothing was answered")
            sys.exit(UNUSED)
    say_json(to_json({"verdict": verdict.value})) if as_json else say(verdict.value)
    is_kept = verdict is not AnswerVerdict.EARLY or not is_token(awaited)
    sys.exit(0 if verdict in _USED and is_kept else UNUSED)


def _check_arguments(awaited: str, file: str | None, name: str | None, *, every: bool) -> tuple[str, str]:
    """Return the two arguments. With --all the only one is FILE."""
    check_choice(None if every and file is None else awaited, every=every, what="TOKEN|ID")
    if every and name is None:
        raise click.UsageError("--all needs the --name of what the runs wait for")
    if not every and name is not None:
        raise click.UsageError("--name goes with --all")
    if every:
        return "", awaited
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    return awaited, file


def _answer_many(
    flow: AnyFlow, name: str, file: str, kind: str | None, options: Mapping[str, Any], *, as_json: bool
) -> int:
    payload, client, waiting = _read(file, fail=kind is not None), flow_client(options), _Waiting(name)

    def act(seen: SeenRun) -> End:
        only = Started(seen.item.request_id, seen.item.requested_at, ObjectId(seen.object_id))
        verdict = _given(flow, str(awaited_under(seen, name)), payload, kind, client, only)
        return End(verdict.value if verdict in _USED else LEFT, f"the answer was {verdict.value}")

    return do_to_many("answer", flow, waiting.fits, act, options, as_json=as_json, left_out=waiting.left_out)


class _Waiting:
    """Chooses the runs that can be answered by an id, and notes the others that wait for the name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._others: dict[str, set[str]] = {kind: set() for kind in _ALONE}

    def fits(self, seen: SeenRun) -> bool:
        """Answer whether the run waits for the name under an id."""
        kind = awaited_without_id(seen, self._name)
        if kind is not None:
            self._others[kind].add(seen.object_id)
        return awaited_under(seen, self._name) is not None

    def left_out(self) -> list[str]:
        """Say how many runs wait for the name and cannot be answered here."""
        return [
            f"{counted(len(runs))} {'waits' if len(runs) == 1 else 'wait'} for {self._name!r} {_ALONE[kind]}"
            for kind, runs in self._others.items()
            if runs
        ]


def _given(
    flow: AnyFlow, awaited: str, payload: Any, kind: str | None, client: FlowClient, only: Started | None = None
) -> AnswerVerdict:
    if kind is None:
        return client.answer(flow, awaited, payload, only=only)
    return client.fail(flow, awaited, str(payload), kind=kind, only=only)


def _read(file: str, *, fail: bool) -> Any:
    """Return the answer, or the text of a failure. A failure's text is no JSON."""
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        raise CannotRun(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if fail:
        return text.strip()
    try:
        data = json.loads(text, parse_constant=_refuse)
        encode_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        why = f"not JSON: {error}" if text.strip() else "empty"
        raise CannotRun(f"{file}: {why}; nothing was answered") from None
    return data


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")

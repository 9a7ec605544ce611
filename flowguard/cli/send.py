"""The command ``flowguard send``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import click

from flowguard.aws.schedules import NO_SCHEDULER
from flowguard.aws.sender import AWSSender
from flowguard.aws.services import aws_sender
from flowguard.cli.connection import (
    CannotRun,
    check_id,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_class,
    flow_client,
    settings_of,
)
from flowguard.cli.printing import complain, say_json
from flowguard.cli.recordings import Unreadable, read_files, read_payload
from flowguard.cli.run_lines import say_line
from flowguard.destinations import Destination, Queue, Topic, form_problem
from flowguard.errors import FlowguardError, KeyUnavailable, RunFailed, SendFailed, TooLarge
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import Names
from flowguard.operate.moments import iso, remaining, seconds_in
from flowguard.payload.encoding import decode
from flowguard.protocol.outbox import Kind, Send
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.recording import read_recording
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute, read_attributes
from flowguard.wire.envelope import BadRecord, Envelope
from flowguard.wire.message import LANE
from flowguard.wire.notification import to_json
from flowguard.wire.tenant import plain_id
from flowguard.worker.ports import Refusal

REFUSED: Final = 1  # the exit code where AWS did not take a message


class KeptBack:
    """A sender that keeps what it is given: for ``--dry-run``."""

    def __init__(self) -> None:
        self.kept: list[Send] = []

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.kept += sends
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """Do nothing: no message was received."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Do nothing: no message was received."""


class MessageIds:
    """An interceptor that notes the ids which SQS and SNS give to messages."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation.startswith(("SendMessage", "Publish")):
            self.found += [entry["MessageId"] for entry in answer.get("Successful", [answer]) if "MessageId" in entry]
        return answer

    @property
    def last(self) -> str | None:
        return self.found[-1] if self.found else None


@click.command()
@click.argument("target", metavar="MODULE:FLOW|QUEUE")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--payload", metavar="TEXT", help="The payload itself, instead of a FILE.")
@click.option("--object", "object_id", metavar="ID", help="The object, where the payload does not name it.")
@click.option("--request-id", metavar="ID", help="The request's id; the same twice is one run.")
@click.option("--at", metavar="TIME", help="Send it then, as in 2027-03-01T06:00:00+01:00; above 15m a schedule does.")
@click.option("--after", metavar="SPAN", help="Send it so much later, as in 90s, 10m, 2h, 1d.")
@click.option("--group", metavar="TEXT", help="Whose work it is: the message group.")
@click.option("--lane", metavar="NAME", help="The lane, where the flow's inbox has several; by default the first.")
@connected
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
def send(  # noqa: PLR0913 - the options of a command
    target: str,
    file: str | None,
    *,
    payload: str | None,
    object_id: str | None,
    request_id: str | None,
    at: str | None,
    after: str | None,
    group: str | None,
    lane: str | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Send a request that starts a run of MODULE:FLOW, or messages to QUEUE.

    To a flow goes its payload: the text of FILE, or --payload. A dash is standard input. It is checked by the model of
    the first stage, and sent as FlowClient.start does, with all attributes and the signature.

    To a QUEUE, given by name, ARN or URL, goes each record of a recorded event in FILE as it is: its body, its
    attributes and its group. --payload is one message without attributes.

    --group is the message group: of a FIFO queue what orders messages, of a standard one the tenant. All messages of
    a flow's run have the tenant, before the one that the flow reads from the payload.

    The exit code is 0 where all was sent, 1 where AWS did not take a message, 2 where the command cannot be run or
    something cannot be read; then nothing was sent.
    """
    if (file is None) == (payload is None):
        raise click.UsageError("give either a FILE or --payload")
    if group == "":
        raise click.BadParameter("a group is no empty text; leave the option out", param_hint="--group")
    if _is_flow(target):
        text = payload if payload is not None else read_payload(str(file))
        when = _When(_moment(at), _span(after))
        about = _About(object_id, request_id, group, lane)
        _send_request(flow_class(target), text, about, when, options, dry_run=dry_run, as_json=as_json)
        return
    if any(given is not None for given in (object_id, request_id, at, after, lane)):
        raise click.UsageError(
            "--object, --request-id, --at, --after and --lane are for a flow; write MODULE:FLOW, no queue"
        )
    queue = Queue(settings_of(options).at_aws.queue_in_code(target))
    if problem := form_problem(queue):
        raise click.BadParameter(problem, param_hint="QUEUE")
    sends = [_plain(queue, payload)] if payload is not None else _recorded(queue, str(file))
    if group is not None:
        sends = [message._replace(group=group, tenant=plain_id(group)) for message in sends]
    _send_all(queue, sends, options, dry_run=dry_run, as_json=as_json)


def _is_flow(target: str) -> bool:
    return ":" in target and not target.startswith(("arn:", "http://", "https://"))


class _About(NamedTuple):
    object_id: str | None
    request_id: str | None
    group: str | None
    lane: str | None


class _When(NamedTuple):
    at: datetime | None
    after: timedelta | None


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} is no time with its zone; write 2027-03-01T06:00:00Z or …+01:00", param_hint="--at"
        )
    return moment


def _span(text: str | None) -> timedelta | None:
    seconds = None if text is None else seconds_in(text)
    if text is not None and seconds is None:
        raise click.BadParameter(f"{text!r} is no length of time; write 90s, 10m, 2h or 1d", param_hint="--after")
    return None if seconds is None else timedelta(seconds=seconds)


# -- a request --------------------------------------------------------------------------------------------------------


def _send_request(
    flow: AnyFlow,
    text: str,
    about: _About,
    when: _When,
    options: Mapping[str, Any],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    for option, given in (("--object", about.object_id), ("--request-id", about.request_id)):
        if given is not None:
            check_id(option, given)
    kept_back, ids = KeptBack(), MessageIds()
    _, inbox = flow.entrance({} if about.lane is None else {LANE: Attribute.string(about.lane)})
    with _as_errors_of(str(inbox)), intercept(ids):
        payload = decode(flow.entry().payload, text, what=f"the payload of {flow.name}/{flow.entry().name}")
        clients = clients_of(options)
        if not dry_run:
            _find(aws_sender(settings_of(options), clients), inbox)
            if isinstance(inbox, Queue):  # nothing else can delay, which is said below
                _check_scheduler(when, settings_of(options))
        client = flow_client(options, kept_back if dry_run else None)
        started = client.start(
            flow,
            payload,
            object_id=about.object_id,
            request_id=about.request_id,
            at=when.at,
            after=when.after,
            tenant=about.group,
            lane=about.lane,
        )
    if dry_run:
        _show(kept_back.kept, settings_of(options).at_aws, as_json=as_json)
    elif as_json:
        facts = {"flow": flow.name, "to": str(inbox), **vars(started)}
        say_json(to_json({**facts, "message_id": ids.last}))
    else:
        for_when = "" if when == (None, None) else f", for {iso(started.requested_at)}"
        what = f"{flow.name} of {bounded(started.object_id)}: request {started.request_id}"
        say_line(f"SENT  {what} to {_place(inbox, settings_of(options).at_aws)}{for_when}")


def _check_scheduler(when: _When, settings: Settings) -> None:
    """Check that a schedule can be made, where SQS delays no message so long."""
    now = datetime.fromtimestamp(command_time().clock.now() / 1000, UTC)
    delay = when.at - now if when.at is not None else when.after
    if delay is not None and delay > LONGEST_SQS_DELAY and settings.scheduler_role is None:
        raise CannotRun(f"{NO_SCHEDULER}. Nothing was sent")


@contextmanager
def _as_errors_of(subject: str) -> Iterator[None]:
    """Turn what keeps a message from being sent into errors of the command."""
    try:
        with connection_errors(subject):
            yield
    except (KeyUnavailable, RunFailed, TooLarge, TypeError) as error:
        raise CannotRun(f"{error}. Nothing was sent") from None
    except SendFailed as error:
        complain(str(error))
        sys.exit(REFUSED)


def _find(sender: AWSSender, inbox: Destination) -> None:
    """Look a queue up, so that one which is not there is named as that."""
    if isinstance(inbox, Queue):
        with connection_errors(f"queue {inbox.name}"):
            sender.queue_url(inbox.name)


# -- messages as they are ---------------------------------------------------------------------------------------------


def _plain(queue: Queue, text: str) -> Send:
    return _checked("--payload", Send(Kind.SIDE, queue, text, str(uuid4())))


def _recorded(queue: Queue, file: str) -> list[Send]:
    """Read the records of a file. Raises :class:`CannotRun` for a record that cannot be read or cannot be sent."""
    sends: list[Send] = []
    for read in read_files([file]):
        if isinstance(read, Unreadable):
            raise CannotRun(f"{read}. Nothing was sent")
        name, event = read
        for record in read_recording(event):
            if isinstance(record, BadRecord):
                raise CannotRun(f"{name}: {record.error}. Nothing was sent")
            sends.append(_checked(name, _as_it_is(queue, record.envelope)))
    if not sends:
        raise CannotRun(f"{file}: no record is in it. Nothing was sent")
    return sends


def _as_it_is(queue: Queue, envelope: Envelope) -> Send:
    received = envelope.received
    message_id = str(received["attributes"].get("MessageDeduplicationId") or uuid4())
    attributes = read_attributes(
        received.get("messageAttributes"), Attribute.of_sqs_record, envelope.message_id, "messageAttributes"
    )
    return Send(
        Kind.SIDE, queue, str(received["body"]), message_id, attributes, group=envelope.group_id, tenant=envelope.tenant
    )


def _checked(name: str, send: Send) -> Send:
    """Return a message that SQS takes. Raises :class:`CannotRun` for another."""
    try:
        return send.checked()
    except FlowguardError as error:
        raise CannotRun(f"{name}: {error}. Nothing was sent") from None


def _send_all(queue: Queue, sends: Sequence[Send], options: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    names = settings_of(options).at_aws
    if dry_run:
        _show(sends, names, as_json=as_json)
        return
    sender, refused = aws_sender(settings_of(options), clients_of(options)), 0
    _find(sender, queue)
    for number, message in enumerate(sends, 1):
        ids = MessageIds()
        with connection_errors(f"queue {queue.name}"), intercept(ids):
            refusals = sender.send([message])
        for refusal in refusals.values():
            refused += 1
            complain(f"message {number} of {len(sends)} was not sent to {queue}: {refusal.why}")
        if refusals:
            continue
        if as_json:
            say_json(to_json({"to": str(queue), "message_id": ids.last}))
        else:
            say_line(f"SENT  message {number} of {len(sends)} to {_place(queue, names)}: id {ids.last}")
    if refused:
        sys.exit(REFUSED)


def _place(to: Destination, names: Names) -> str:
    """Return a destination as the code names it, and what it is called at AWS where that is something else."""
    match to:
        case Queue(name):
            at_aws = names.queue(name)
        case Topic(name):
            at_aws = names.topic(name)
        case _:
            return str(to)
    return str(to) if at_aws == name else f"{to} ({at_aws} at AWS)"


def _show(sends: Sequence[Send], names: Names, *, as_json: bool) -> None:
    """Print messages as their receivers would get them."""
    for message in sends:
        attributes = {name: given.value for name, given in sorted(message.attributes.items())}
        if as_json:
            delay = {"delay": message.delay} if message.delay else {}
            group = {"group": message.tenant} if message.tenant else {}
            say_json(to_json({"to": str(message.to), **delay, **group, "body": message.body, "attributes": attributes}))
            continue
        later = f" in {remaining(message.delay)}" if message.delay else ""
        say_line(f"would be sent to {_place(message.to, names)}{later}")
        if message.tenant:
            say_line(f"  group: {message.tenant}")
        for name, value in attributes.items():
            say_line(f"  {name}: {value}")
        say_line(f"  {message.body}")

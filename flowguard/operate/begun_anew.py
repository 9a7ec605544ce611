"""What ``flowguard retry --again`` and the inspector do: begin a run anew that was taken back."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from flowguard.aws.dead_letter_queue import Reading
from flowguard.errors import FlowguardError
from flowguard.flow import AnyFlow
from flowguard.protocol.run import RunItem
from flowguard.wire.message import Message
from flowguard.wire.signing import Signer
from flowguard.worker.again import again_refusal, again_request, is_first_of, kept_first_message
from flowguard.worker.dead_letters import Letter
from flowguard.worker.ports import Sender
from flowguard.worker.redriven_messages import check_returnable

NOT_KEPT: Final = (
    "its first message is not kept, for it failed at hop {hop}, and a run begins anew at its first stage. Type "
    "{command} where FILE is the {payload} that {stage} takes"
)


class NotAnew(FlowguardError):
    """The run was not begun anew. The text says why."""


class Begun(NamedTuple):
    """The request that was sent."""

    message: Message
    to: str


def begin_again(flow: AnyFlow, first: Message, item: RunItem, now: int, *, sender: Sender, signer: Signer) -> Begun:
    """Send the request that begins the run anew. Raises :class:`NotAnew` where its service did not take it."""
    check_again(flow, item)
    message, send = again_request(flow, first, item, now, signer)
    for refusal in sender.send([send]).values():
        raise NotAnew(f"{send.to} did not take the request: {refusal.why}")
    return Begun(message, str(send.to))


def check_again(flow: AnyFlow, item: RunItem) -> None:
    """Raise :class:`NotAnew` for a run that is not begun anew."""
    if (why := again_refusal(item, flow)) is not None:
        raise NotAnew(why)


def first_in_letters(
    flow: AnyFlow, object_id: str, item: RunItem, reading: AbstractContextManager[Reading], signer: Signer
) -> Message:
    """Find the run's first message among the dead letters, which all stay.

    Raises :class:`NotAnew` where it is not there, or where its letter may not be flowguard's.
    """
    check_again(flow, item)
    failed = item.own_failure
    if failed is not None and not kept_first_message(item):
        entry = flow.entry()
        payload, command = getattr(entry.payload, "__name__", "payload"), _command(flow, object_id)
        raise NotAnew(NOT_KEPT.format(hop=failed.hop, command=command, payload=payload, stage=entry.name))
    with reading as opened:
        for page in opened.pages():
            for letter in _first(page, flow, object_id, item):
                return _believed(letter, signer)
        name = opened.queue.name
    raise NotAnew(
        f"queue {name} shows no letter of request {item.request_id} with its first message; type "
        f"{_command(flow, object_id)} where FILE is its payload"
    )


def _command(flow: AnyFlow, object_id: str) -> str:
    """Return the command that begins the run anew with the payload of a file."""
    command = ["flowguard", "retry", f"{flow.__module__}:{flow.__qualname__}", object_id, "--again", "--from", "FILE"]
    return shlex.join(command) + (" [--lane NAME]" if flow.lanes_of(flow.entry()) else "")


def _first(page: Iterable[Letter], flow: AnyFlow, object_id: str, item: RunItem) -> list[Letter]:
    return [
        letter
        for letter in page
        if letter.unsent is None and letter.message is not None and is_first_of(letter.message, flow, object_id, item)
    ]


def _believed(letter: Letter, signer: Signer) -> Message:
    """Return the letter's message, which a new signature would make a true one."""
    try:
        check_returnable(letter, signer)
    except ValueError as error:
        raise NotAnew(str(error)) from None
    return letter.returning()._replace(carried=letter.carried)

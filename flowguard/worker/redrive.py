"""The fate of a dead letter that is sent back. It is decided from the run item, by the claim's own table.

Of a letter that another flow has asked for, the run item of the asker is read too.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final, assert_never

from flowguard.errors import TextGone, shown
from flowguard.flow import AnyFlow
from flowguard.names.ids import Owner
from flowguard.protocol.answers import AskShard, judge_member
from flowguard.protocol.answers import judge as verdict_on
from flowguard.protocol.claims import decide, goes_on_as
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.forgotten import NOW, is_forgotten
from flowguard.protocol.groups import Member
from flowguard.protocol.run import ENDED, ClaimRequest, RunItem, Status
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict, Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from flowguard.worker.again import again_command, again_refusal, again_refusal_of
from flowguard.worker.dead_letters import Letter
from flowguard.worker.routing import depth_problem


class Fate(StrEnum):
    """The outcome of a redrive for one letter."""

    REDRIVEN = "REDRIVEN"
    """Sent back to its stage, or an unsent message to where it was to go. The stage may only tell who waits for it."""
    SUPERSEDED = "SUPERSEDED"
    """Not sent: another request holds the object and nobody waits for an answer, or the run went on without it."""
    COMPLETED = "COMPLETED"
    """Not sent: its run is complete."""
    GIVEN_UP = "GIVEN_UP"
    """Not sent: its run went on at its flow's ``on_failed`` stage. Send the request anew under another id."""
    EXPIRED = "EXPIRED"
    """Not sent: its run item is gone, and with it what the hops before had done."""
    TOO_DEEP = "TOO_DEEP"
    """Not sent: no run begins so deep in a chain of them. Raise the flow's ``max_depth`` first."""
    NOT_AWAITED = "NOT_AWAITED"
    """Not sent unless it is named: the run that asked for it has gone on without its answer."""


_AWAITED: Final = frozenset({AnswerVerdict.EARLY, AnswerVerdict.RECORDED, AnswerVerdict.RESUMED})
"""Verdicts on an answer with which the run that asked goes on, or may."""

_TOLD: Final = frozenset({Verdict.STALE, Verdict.IGNORED, Verdict.GONE})
"""Verdicts with which a stage tells a run that waits for the request that nothing is carried out for it."""


_CLOCKS_DIFFER: Final = 10_000
"""How many ms the clock of the worker that ended a run may be ahead of that of another."""


class Judgement(NamedTuple):
    fate: Fate
    why: str


def judge(letter: Letter, item: RunItem | None, *, now: int, unsent: bool = False, has_first: bool = True) -> Judgement:
    """Decide the fate of the letter, by the very table that its claim will be answered from.

    ``unsent`` says that the item holds an outbox, ``has_first`` that it holds the message with which its run began.
    Without its flow's class, the newest request is taken to win, unless the item shows that its runs take callers.
    """
    message = letter.returning()
    if (unread := _without_reading(letter, message)) is not None:
        return unread
    verdict = _verdict(letter, item, now)
    if item is None:
        return _without_item(message, verdict)
    match verdict:
        case Verdict.CLAIMED:
            return Judgement(Fate.REDRIVEN, _claimed(message, item))
        case Verdict.BUSY | Verdict.ATTACHED | Verdict.KEPT:
            return Judgement(Fate.REDRIVEN, _elsewhere(verdict, item))
        case Verdict.STALE | Verdict.SUPERSEDED | Verdict.IGNORED:
            return Judgement(Fate.SUPERSEDED, f"request {item.request_id} holds the object")
        case Verdict.RESET:
            return _reset(has_first)
        case Verdict.GIVEN_UP | Verdict.DUPLICATE | Verdict.EARLY | Verdict.GONE:
            for_good = verdict is Verdict.GIVEN_UP
            return _failed_for_good(item, letter.flow) if for_good else Judgement(Fate.SUPERSEDED, _went_on(item))
        case Verdict.DONE:
            return _done(letter, item, unsent)
        case _:
            assert_never(verdict)


def asker_of(letter: Letter) -> AnswerAddress | None:
    """Return what waits for the end of the letter's run. None where no flow has asked for it."""
    m = letter.message
    if m is None or m.answer_to is None or letter.unsent is not None:
        return None
    try:
        return AnswerAddress.parse(json.loads(m.answer_to))
    except ValueError:
        return None  # its function says so


def told_by_stage(letter: Letter, item: RunItem | None, asker: RunItem | None, *, now: int) -> str | None:
    """Say whom the letter's stage tells that it is carried out by no run. None where nobody waits for that.

    Such a letter is sent all the same: nothing else may answer. ``asker`` is the item of the run that has asked. An
    asker without an item may be in another table. No letter of an expired run is sent for that, since each time it
    becomes a dead letter again.
    """
    if letter.returning().reply_to is None:
        return None
    verdict, address = _verdict(letter, item, now), asker_of(letter)
    if address is None:
        return "its caller is told so" if verdict is Verdict.IGNORED else None
    if verdict not in _TOLD or (verdict is Verdict.GONE and asker is None) or not_awaited(address, asker) is not None:
        return None
    return f"{shown(address.flow)} of {shown(address.object_id)} waits for it, and is told so"


def lost_answer(letter: Letter, item: RunItem | None, *, now: int) -> str | None:
    """Say that the end which would answer the letter's request was gone when that last asked. None elsewhere.

    Each time it becomes a dead letter again. A run that has ended since may have another end.
    """
    met = letter.last_error or letter.error
    if item is None or met is None or met.type != TextGone.__name__ or met.at + _CLOCKS_DIFFER < item.committed_at:
        return None
    if _verdict(letter, item, now) is not Verdict.KEPT:
        return None
    return f"it is answered with the end of request {item.request_id}, which is gone: {met.text}"


def has_callers(item: RunItem | None) -> bool:
    """Answer whether others than the run's own request wait for its end."""
    return item is not None and item.callers is not None and bool(item.callers.held or item.callers.rows)


def not_awaited(asker: AnswerAddress, item: RunItem | None) -> str | None:
    """Say why an answer would come too late, ``item`` being the asker's. None where it is awaited, or not known.

    An asker without an item may be in another table.
    """
    if item is None:
        return None
    member = Member.parse(asker.name)
    verdict = verdict_on(item, asker) if member is None else judge_member(item, asker, member)
    if verdict in _AWAITED or (isinstance(verdict, AskShard) and verdict.is_open):
        return None
    return f"{shown(asker.flow)} of {shown(asker.object_id)} has asked for it, and has gone on without its answer"


def _without_reading(letter: Letter, message: Message) -> Judgement | None:
    """Decide the fate of a letter that no run item has a say in. None for others."""
    if letter.unsent is not None:
        return Judgement(Fate.REDRIVEN, "sent to where it was to go")
    if not message.object_id:
        return Judgement(Fate.REDRIVEN, "it names no object, so no run item is read: its stage decides")
    problem = None if letter.flow is None else depth_problem(letter.flow, message)
    return None if problem is None else Judgement(Fate.TOO_DEEP, problem)


def _verdict(letter: Letter, item: RunItem | None, now: int) -> Verdict:
    message = letter.returning()
    is_in_place = letter.envelope is not None and letter.envelope.is_fifo
    asked = goes_on_as(item, message, is_in_place=is_in_place) or message
    return decide(item, _request(asked, item, now, letter.flow))


def _request(message: Message, item: RunItem | None, now: int, flow: AnyFlow | None) -> ClaimRequest:
    return ClaimRequest(
        message=message,
        owner=Owner(""),
        now=now,
        lease_until=now,
        on_conflict=_conflict(item) if flow is None else flow.on_conflict,
        abandoned_before=0 if flow is None else flow.abandoned_before(now, message.requested_at),
        expires_at=now,
        fresh_since=message.requested_at if flow is None else flow.fresh_since(message.requested_at),
    )


def _conflict(item: RunItem | None) -> OnConflict:
    """Return what a flow does whose class is not known. The newest request wins, unless the item has had callers."""
    has_had_callers = item is not None and (item.callers is not None or item.answered is not None)
    return OnConflict.ATTACH if has_had_callers else OnConflict.SUPERSEDE


def _without_item(message: Message, verdict: Verdict) -> Judgement:
    if verdict is Verdict.CLAIMED:
        return Judgement(Fate.REDRIVEN, "no run item: the run starts with it")
    return Judgement(Fate.EXPIRED, f"no run item: what was done before hop {message.hop} has expired")


def _elsewhere(verdict: Verdict, item: RunItem) -> str:
    if verdict is Verdict.BUSY:
        return "a copy of it is being worked on; this one waits behind it"
    return f"it is answered with the end of request {item.request_id}"


def _claimed(message: Message, item: RunItem) -> str:
    if item.request_id != message.request_id:
        return f"it is newer than request {item.request_id}, which holds the object"
    if item.hop < message.hop:
        return f"hop {message.hop} has not been claimed yet"
    return f"the run {'failed' if item.status is Status.FAILED else 'stopped'} at hop {item.hop} and waits there"


def _reset(has_first: bool) -> Judgement:
    """Decide the fate of a letter whose run was reset. Its stage begins that anew with the message that is stored."""
    if has_first:
        return Judgement(Fate.REDRIVEN, "the run was reset; its stage sends the message that begins it anew")
    why = "its first message is not stored, so no stage can begin it anew; send a newer request"
    return Judgement(Fate.SUPERSEDED, f"the run was reset, and {why}")


def _went_on(item: RunItem) -> str:
    if is_forgotten(item):
        return NOW
    return f"the run went on: it is at hop {item.hop} ({item.stage}), redrive {item.redrive}, {item.status.value}"


def _failed_for_good(item: RunItem, flow: AnyFlow | None) -> Judgement:
    gone_on = f"{_went_on(item)}, to undo what it had done before it failed"
    if (why := _not_anew(item, flow)) is not None:
        return Judgement(Fate.GIVEN_UP, f"{gone_on}; {why}")
    command = again_command(item)
    file = ", FILE being the payload of its first stage" if command.endswith("FILE") else ""
    then = "" if item.status in ENDED else " once that is done"
    fix = f"to begin anew{then}, use '{command}'{file}, or send the request under another id"
    return Judgement(Fate.GIVEN_UP, f"{gone_on}; {fix}")


def _not_anew(item: RunItem, flow: AnyFlow | None) -> str | None:
    """Return why the run is not begun anew, now or once it is taken back. None where it may be."""
    if item.status in ENDED:
        return again_refusal(item, flow)
    return None if flow is None else again_refusal_of(flow)


def _done(letter: Letter, item: RunItem, unsent: bool) -> Judgement:
    """Decide the fate of a letter whose hop is committed.

    A record that SQS moved may be the one whose worker died between commit and dispatch: its outbox is sent only when
    that record is claimed again. From a FIFO queue nothing is copied, so it always is that one.

    ::

        worker ── commit ──▶ DynamoDB ── dies ─✗   the outbox is in the item, nobody has sent it
        SQS    ── delivers again, the worker dies again, maxReceiveCount times ──▶ dead-letter queue
        redrive ── the same record ──▶ stage: DONE, so its outbox is sent
    """
    m = letter.message
    if unsent and m is not None and not letter.is_parked and m.hop == item.hop:
        is_fifo = letter.envelope is not None and letter.envelope.is_fifo
        if is_fifo or m.attempt >= (item.redrive, item.retry):
            return Judgement(Fate.REDRIVEN, f"hop {m.hop} is committed, but what it had to send may be unsent")
    if (failed := item.own_failure) is not None and m is not None and m.hop == failed.hop:
        return _failed_for_good(item, letter.flow)
    if item.status is Status.COMPLETED:
        return Judgement(Fate.COMPLETED, f"the run was completed at hop {item.hop} ({item.stage})")
    return Judgement(Fate.SUPERSEDED, _went_on(item))

"""Checks of the runs that wait (I8, I9 and I15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.groups import Member
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import Wait
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import DeliveryRecord, History, Version
from flowguard.testing.explorer.record.wait_messages import OF_STAGES, asked_as, asks_in
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.message import Message

_KEPT: Final = (AnswerVerdict.RESUMED, AnswerVerdict.RECORDED)


def waits_end_once(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that each awaited name is answered once and each wait ends once (I8).

    A wait that is over stays as it is until the run goes on with it, and a run goes on with no other.
    """
    before: dict[str, RunItem | None] = {}
    for version in history.versions:
        was, item = before.get(version.key), version.item
        before[version.key] = item
        if was is None or item is None or _run(was) != _run(item) or was.wait is None:
            continue
        if _is_same_hop(was, item) and item.wait is not None:
            yield from _changed(version.key, was.wait, item.wait)
        elif item.hop == was.hop + 1 and was.status is Status.WAITING:
            yield from _went_on(version.key, was.wait, item)


def _is_same_hop(was: RunItem, item: RunItem) -> bool:
    return was.status is item.status is Status.WAITING and (was.hop, was.epoch) == (item.hop, item.epoch)


def _changed(key: str, was: Wait, now: Wait) -> Iterator[Problem]:
    """Yield what is wrong with one change of a wait."""
    gone, new = was.waiting - now.waiting, now.answered - was.answered
    if was.end is not None and (gone or new or now.timed_out is not was.timed_out or now.spare != was.spare):
        yield Problem("I8", key, f"a wait that was over ({was.end.value}) was changed", _said(was), _said(now))
    if again := [name for name in was.answered if was.answers.get(name) != now.answers.get(name)]:
        yield Problem("I8", key, f"{', '.join(sorted(again))} was answered twice", 1, 2)
    if (gone != new and was.group is None) or now.waiting - was.waiting:
        yield Problem("I8", key, "an answer was kept and still awaited, or the other way round", _said(was), _said(now))
    if len(new) > 1:
        yield Problem("I8", key, "one answer is that of several names", 1, ", ".join(sorted(new)))
    if new and now.timed_out and not was.timed_out:
        yield Problem("I8", key, "a wait was answered and timed out at once")


def _went_on(key: str, was: Wait, item: RunItem) -> Iterator[Problem]:
    if was.end is None:
        yield Problem("I8", key, "the run went on, and its wait was not over", None, _said(was))
    elif item.wait is None or _said(item.wait) != _said(was):
        after = _said(item.wait) if item.wait is not None else None
        yield Problem("I8", key, "the run went on with other answers than it had", _said(was), after)


def _said(wait: Wait) -> str:
    """Describe a wait without what was answered."""
    end = wait.end.value if wait.end is not None else "goes on"
    return f"{end}; answered: {', '.join(sorted(wait.answered)) or 'nothing'}"


def verdicts_of_answers_are_true(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that each verdict is true, and that an answer to a superseded run changes nothing (I8 and I9)."""
    for worked in history.deliveries:
        answered = [event for event in worked.events if event.type is EventType.ANSWERED and event.message is not None]
        written = [
            version
            for version in history.versions
            if version.worker == worked.worker and _is_its(history, worked, version)
        ]
        if worked.settles:
            yield from _of_another_run(written, [event.message for event in answered if event.message is not None])
        for event in answered:
            yield from _is_kept(event, written)
        if len(answered) == 1 and worked.settles:
            yield from _of_verdict(history, worked, answered[0])


def _is_its(history: History, worked: DeliveryRecord, version: Version) -> bool:
    """Answer whether a record may have led to a write. A stage's message leads to those of its own run."""
    return not (worked.shared and worked.settles) or str(history.calls[version.call - 1].site) not in OF_STAGES


def _of_another_run(written: Sequence[Version], answered: Sequence[Message]) -> Iterator[Problem]:
    """Yield each run that was changed by an answer to an earlier run of its object."""
    for version in written:
        runs = {_run(message) for message in answered if _key(message) == version.key}
        if version.item is not None and runs and _run(version.item) not in runs:
            text = (
                f"an answer to {', '.join(sorted(map(_shown, runs)))} changed the run of {_shown(_run(version.item))}"
            )
            yield Problem("I9", version.key, text)


def _is_kept(event: Event, written: Sequence[Version]) -> Iterator[Problem]:
    message, verdict, name = event.message, event.facts.get("verdict"), str(event.facts.get("name"))
    if message is None or verdict not in _KEPT:
        return
    key = _key(message)
    if Member.parse(name) is not None:  # the answer to a group's request is in a row, not in the run item
        return
    if not any(version.key == key and _has(version.item, message, name) for version in written):
        yield Problem("I8", key, f"the answer {name!r} was said to be {verdict}, and was not kept")


def _has(item: RunItem | None, message: Message, name: str) -> bool:
    here = item is not None and (_run(item), item.hop) == (_run(message), message.hop)
    return here and item is not None and item.wait is not None and name in item.wait.answered


def _of_verdict(history: History, worked: DeliveryRecord, event: Event) -> Iterator[Problem]:
    """Yield a verdict that contradicts the run item."""
    settled = [number for number in worked.calls if str(history.calls[number - 1].site) == "settle"]
    if event.message is None or not settled:
        return
    message, verdict = event.message, str(event.facts.get("verdict"))
    key = _key(message)
    items = [_before(history, key, call) for call in (settled if worked.shared else settled[-1:])]
    item = items[-1]
    is_superseded = verdict == AnswerVerdict.SUPERSEDED
    if all((met is not None and _run(met) != _run(message)) is not is_superseded for met in items):
        of = _shown(_run(item)) if item is not None else None
        text = f"an answer to {message.request_id} got the verdict {verdict}, and the item was that of"
        yield Problem("I9", key, text, _shown(_run(message)), of)


def _before(history: History, key: str, call: int) -> RunItem | None:
    """Return the run item as a call met it."""
    items = [version.item for version in history.versions if version.key == key and version.call < call]
    return items[-1] if items else None


def _run(of: RunItem | Message) -> tuple[str, int]:
    """Return what names a run of its object: a request id may come again with another time."""
    return of.request_id, of.requested_at


def _shown(run: tuple[str, int]) -> str:
    return f"{run[0]} at {run[1]}"


def _key(message: Message) -> str:
    return f"run#{message.flow}#{message.object_id}"


def nothing_is_asked_for_another_run(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that no run sends the asks of a run that it has superseded (I9)."""
    asks = dict(asks_in(history))
    working: dict[tuple[str, int], list[str]] = {}
    for version in history.versions:
        if version.item is not None:
            working.setdefault((version.key, version.worker), []).append(version.item.request_id)
    for sent in history.posted:
        if (ask := asked_as(sent.attributes)) not in asks or not sent.call:
            continue
        key, request = asks[ask]
        worker = history.calls[sent.call - 1].worker
        by = working.get((key, worker), [request])
        is_its = request in by if history.deliveries[worker - 1].shared else request == by[-1]
        if not is_its:
            yield Problem("I9", key, f"{by[-1]} sent what {request} had asked for", None, sent.id)


def waits_have_deadlines(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that each wait begins with a deadline ahead and its message (I15).

    No wait ends at its deadline before that has passed, but for that of a run that is cancelled.
    """
    before: dict[str, RunItem | None] = {}
    for version in history.versions:
        was, item = before.get(version.key), version.item
        before[version.key] = item
        if item is None or item.status is not Status.WAITING or not version.call:
            continue
        at, wait = history.calls[version.call - 1].at, item.wait
        if wait is None:
            yield Problem("I15", version.key, "a run waits, and its item says not for what")
            continue
        is_new = was is None or (was.epoch, was.done) != (item.epoch, True)
        if is_new and (wait.deadline <= at or not _has_deadline(item)):
            yield Problem("I15", version.key, f"a run waits from {at} on without a deadline ahead", None, wait.deadline)
        is_ended = wait.timed_out and not is_new and was and was.wait and not was.wait.timed_out
        if is_ended and at < wait.deadline and item.cancelled_because is None:
            yield Problem("I15", version.key, "a wait was ended before its deadline", wait.deadline, at)


def _has_deadline(item: RunItem) -> bool:
    return item.outbox is not None and any(send.kind is Kind.DEADLINE for send in item.outbox.sends)

"""Checks of what is tried again and when (I10 for retries and I13 for redrives)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.run import RunItem, Status
from flowguard.retry import LONGEST_DELAY, LONGEST_SQS_DELAY, LONGEST_VISIBILITY, RetryPolicy
from flowguard.sim.posted_messages import Posted
from flowguard.stage import AnyStage
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import DeliveryRecord, History, Redriven
from flowguard.testing.explorer.record.parked import is_of_another_release
from flowguard.wire.message import Message
from flowguard.worker.redrive import Fate


def retries_keep_to_their_policy(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I10: no more attempts than the policy says and delays as it declares them."""
    stages = {f"{flow.name}/{stage.name}": (flow, stage) for flow in flows for stage in flow.stages}
    for message in history.posted:
        place = message.attributes.get("flowstage")
        if place is not None and place.value in stages:
            most = max(policy.attempts for policy in _policies(stages[place.value][1].retry))
            if message.place.retry >= most:
                yield Problem(
                    "I10", place.value, "tried more often than its policy says", most, message.place.retry + 1
                )
    for worked, event in history.events(EventType.RETRIED):
        if (message_ := event.message) is not None and (name := f"{message_.flow}/{message_.stage}") in stages:
            yield from _delays(history, worked, message_, event.facts, *stages[name])


def _delays(
    history: History, worked: DeliveryRecord, message: Message, facts: Any, flow: AnyFlow, stage: AnyStage
) -> Iterator[Problem]:
    name, reported = f"{flow.name}/{stage.name}", int(facts["delay"])
    allowed = list(_bounds(flow, stage.retry, message.retry + 1, str(facts["error"])))
    if not any(least <= reported <= most for least, most in allowed):
        yield Problem("I10", name, f"retry {message.retry + 1} is delayed otherwise than declared", allowed, reported)
    for sent in history.posted:
        if (
            sent.call in worked.calls
            and _is_retry_of(sent, message)
            and (delay := _delay(sent, worked, reported)) != reported
        ):
            yield Problem("I10", name, f"retry {message.retry + 1} was sent with another delay", reported, delay)


def _delay(sent: Posted, worked: DeliveryRecord, reported: int) -> int:
    """Return the delay in seconds with which a retry was sent.

    For a schedule it is the reported delay where that fits: the due time less the delay lies between when its worker
    began and when the schedule was made. A schedule names whole seconds.
    """
    if sent.due is None:
        return sent.delay
    is_right = worked.at <= sent.due - reported * 1000 <= sent.at + 1000
    return reported if is_right else (sent.due - sent.at) // 1000


def _is_retry_of(sent: Posted, message: Message) -> bool:
    place = sent.place
    return (sent.id, place.hop, place.redrive, place.retry) == (
        message.request_id,
        message.hop,
        message.redrive,
        message.retry + 1,
    )


def _bounds(flow: AnyFlow, policy: RetryPolicy, retry: int, error: str) -> Iterator[tuple[int, int]]:
    """Yield the least and the longest delay in seconds for each policy that the error may have.

    The error is known by its name.
    """
    for possible in _policies(policy):
        longest = possible.longest(retry)
        yield round(longest * (1 - possible.jitter)), round(longest)
    if error in _names(Retry):  # Retry(after=…) asks for its own delay
        most = LONGEST_DELAY if flow.long_delays else max(LONGEST_SQS_DELAY, LONGEST_VISIBILITY)
        yield 0, int(most.total_seconds())


def _policies(policy: RetryPolicy) -> Iterable[RetryPolicy]:
    return [policy, *(inner for error in policy.for_errors.values() for inner in _policies(error))]


def _names(kind: type[BaseException]) -> set[str]:
    return {kind.__name__}.union(*(_names(subclass) for subclass in kind.__subclasses__()))


def redrives_are_judged_right(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I13: exactly what is said to be REDRIVEN is redriven.

    A redrive after a newer run, or of what has gone on, changes nothing.
    """
    for redriven in history.redriven:
        if not redriven.message.object_id:
            continue
        if _is_answered(history, redriven):
            if redriven.fate is not Fate.REDRIVEN:
                yield Problem("I13", redriven.key, f"a redrive was said to be {redriven.fate}, and was answered")
        elif (why := _too_late(redriven)) is not None:
            yield from _changed_nothing(history, redriven, why)
            if redriven.fate is Fate.REDRIVEN:
                yield Problem("I13", redriven.key, f"a redrive was said to be REDRIVEN, though {why}")
        elif redriven.fate is Fate.REDRIVEN and not (
            _is_taken(history, redriven) or _is_parked_again(history, redriven)
        ):
            yield Problem("I13", redriven.key, "a redrive was said to be REDRIVEN, and no worker was given its hop")
        elif redriven.fate is not Fate.REDRIVEN and _was_given(history, redriven):
            yield Problem("I13", redriven.key, f"a redrive was said to be {redriven.fate}, and was given its hop")


def _is_answered(history: History, redriven: Redriven) -> bool:
    """Answer whether the redrive met the run of another request, and gets its end as any caller does."""
    workers = {delivery.worker for delivery in history.deliveries if delivery.record in redriven.records}
    return any(worked.worker in workers for worked, _ in history.events(EventType.ATTACHED, EventType.KEPT))


def _too_late(redriven: Redriven) -> str | None:
    item, message = redriven.before, redriven.message
    if item is None:
        return None
    if item.request_id != message.request_id:
        newer = item.requested_at >= message.requested_at
        return f"another request, {item.request_id}, held the object" if newer else None
    if item.status is Status.COMPLETED:
        return "its run was complete"
    if (item.hop, item.redrive, item.done) >= (message.hop, message.redrive, True):
        return f"its run had come to hop {item.hop}, redrive {item.redrive}"
    return None


def _changed_nothing(history: History, redriven: Redriven, why: str) -> Iterator[Problem]:
    workers = {delivery.worker for delivery in history.deliveries if delivery.record in redriven.records}
    calls = {call for delivery in history.deliveries if delivery.worker in workers for call in delivery.calls}
    changed = [version for version in history.versions[redriven.after_version :] if version.worker in workers]
    if any(version.key == redriven.key or not history.deliveries[version.worker - 1].shared for version in changed):
        yield Problem("I13", redriven.key, f"a redrive changed the run item, though {why}")
    known = {(posted.to, posted.id) for posted in history.posted[: redriven.after_post]}
    for sent in history.posted[redriven.after_post :]:
        if sent.call not in calls or sent.from_user or (sent.to, sent.id) in known:
            continue
        if _is_of(history, redriven, sent):
            yield Problem(
                "I13", redriven.key, f"a redrive sent something new to {sent.to}, though {why}", None, sent.id
            )


def _is_of(history: History, redriven: Redriven, sent: Posted) -> bool:
    """Answer whether a message may be of the redrive, and not of a record that its worker got with it."""
    is_shared = history.deliveries[history.calls[sent.call - 1].worker - 1].shared
    return not is_shared or sent.run == redriven.key or str(sent.id).startswith(redriven.message.request_id)


def _was_given(history: History, redriven: Redriven) -> bool:
    """Answer whether a worker that received the redrive was granted its hop."""
    workers = {delivery.worker for delivery in history.deliveries if delivery.record in redriven.records}
    mine = (version.item for version in history.versions[redriven.after_version :] if version.worker in workers)
    wanted = redriven.message.request_id, redriven.message.hop, redriven.message.redrive, False
    return any(item is not None and (item.request_id, item.hop, item.redrive, item.done) == wanted for item in mine)


def _is_taken(history: History, redriven: Redriven) -> bool:
    """Answer whether a worker of this attempt took the redrive, or the run was taken over before it arrived."""
    later = [version.item for version in history.versions[redriven.after_version :] if version.key == redriven.key]
    return any(item is not None and _reached(item, redriven.message) for item in later)


def _is_parked_again(history: History, redriven: Redriven) -> bool:
    """Answer whether the redrive came back as a letter because the code still does not read it.

    Where the object has to be read from the payload, that letter names none.
    """
    return any(
        sent.is_letter
        and (sent.run == redriven.key or sent.place.object_id is None)
        and is_of_another_release(sent.place)
        for sent in history.posted[redriven.after_post :]
    )


def _reached(item: RunItem, message: Message) -> bool:
    if item.request_id != message.request_id:
        return item.requested_at >= message.requested_at
    return (item.hop, item.redrive) >= (message.hop, message.redrive)

"""What flowguard promises beside the explorer's own invariants, of run items and messages: checked in own cases."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from flowguard.events import EventType
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import DEADLINE
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer import View
from flowguard.testing.explorer.record.history import DeliveryRecord, History, Version
from flowguard.testing.explorer.record.parked import parked
from flowguard.wire.message import PLACE, REQUESTED_AT, ErrorNote, Place

_TWO_RETENTIONS: Final = 2 * 14 * 86_400_000
_SECOND: Final = 1_000
"""What DynamoDB rounds a time to live to."""

_LATEST: Final = 14 * 86_400_000 + 1_000
TENANT: Final = "tenant"


def an_item_lives_for_two_retentions(view: View) -> str | None:
    """From each claim and each commit on (docs/decisions/0003), and from the deadline of its wait."""
    begun = {one.worker: one.at for one in _history(view).deliveries if not (one.settles or _cancels(one))}
    return next(
        (
            f"{version.key} may go at {version.item.ttl}"
            for version in _history(view).versions
            if version.item is not None
            if version.item.ttl * 1000 < _latest(begun.get(version.worker, 0), version.item) + _TWO_RETENTIONS - _SECOND
        ),
        None,
    )


def _cancels(one: DeliveryRecord) -> bool:
    """A cancellation changes an item whose run goes on by another message."""
    return any(event.type is EventType.WAS_CANCELLED for event in one.events)


def _latest(begun: int, item: RunItem) -> int:
    """When its worker began, or its wait's deadline is."""
    return max(begun, item.wait.deadline) if item.wait is not None and item.status is Status.WAITING else begun


def an_item_says_what_is_so(view: View) -> str | None:
    """Stages passed until the run is complete; a result, or an error, of a run that has ended and of no other."""
    return next((found for item in _items(view) for found in _untrue(item)), None)


def _untrue(item: RunItem) -> Iterator[str]:
    wanted = item.status is not Status.COMPLETED
    if (item.stages.get(item.stage) == item.request_id) is not wanted:
        yield f"{item.status} at hop {item.hop} with the stages {dict(item.stages)}"
    if (item.error is not None) is not (item.status is Status.FAILED):
        yield f"{item.status} with the error {item.error}"
    is_undone = item.own_failure is not None and item.own_failure.undone
    if item.result is not None and item.status is not Status.COMPLETED and not is_undone:
        yield f"{item.status} with the result {item.result}"
    if item.status is Status.FAILED and not item.done:
        yield "FAILED and not done"


def a_dead_letter_says_why(view: View) -> str | None:
    """Its first error, and after how many attempts it became one. What could not be sent was not attempted."""
    for one in _history(view).posted:
        if one.name == "dead.fifo" or one.name.endswith("-dead-letters"):
            place = _place(one)
            wanted = {"error", "version"} if one.is_unsent or one.says_to else {"error", "attempts", "version"}
            if missing := wanted - place.keys():
                return f"{one.id} does not say {', '.join(sorted(missing))}"
    return None


def a_group_is_an_object(view: View) -> str | None:
    """What FIFO queues get of flowguard's own is grouped by the object that it is for: by a digest of what they take
    in no group. What SQS gave up goes back to the group that it had."""
    for one in _history(view).posted:
        if one.place.since:
            continue
        own = _place(one).get("object")
        digest = sha256((own or "").encode()).hexdigest()
        if one.to.endswith(".fifo") and own is not None and one.group not in (own, digest):
            return f"{one.id} to {one.name} has the group {one.group}"
    return None


def what_is_carried_goes_along(view: View) -> str | None:
    """Where a request has the attribute, everything that is sent for it has; what is sent again, inside its body; what
    is parked, among the attributes that it keeps."""
    for one in _history(view).posted:
        kept = parked(one)
        if TENANT not in (one if kept is None else kept).attributes and f'"{TENANT}"' not in one.body:
            return f"{one.id} to {one.to}"
    return None


def a_result_stays(view: View) -> str | None:
    """In the item of a run that has one."""
    done = [item for item in _items(view) if item.status is Status.COMPLETED]
    return next((f"{item.request_id} has no result" for item in done if item.result is None), None)


def an_item_says_where_it_is(view: View) -> str | None:
    """The stage whose worker wrote it. What settles a wait leaves it."""
    at_work = {one.worker: one.stage for one in _history(view).deliveries if one.stage is not None and not one.settles}
    return next(
        (
            f"{version.key} says {version.item.stage}, and {at_work[version.worker]} wrote it"
            for version in _history(view).versions
            if version.item is not None and version.worker in at_work
            if version.item.stage != at_work[version.worker]
        ),
        None,
    )


def nothing_breaks_by_itself(view: View) -> str | None:
    """A service may fail, and the network; flowguard's own code does not."""
    told = (str(event.facts.get("why", "")) for _, event in _history(view).events(EventType.BROKEN))
    crashed = (one.why or "" for one in _history(view).deliveries)
    return next((why for why in (*told, *crashed) if why.startswith(_MISTAKES)), None)


def what_sqs_gave_up_is_ended(view: View) -> str | None:
    """The function of the dead-letter queue handles nothing: what killed a worker would kill it too. It settles, and
    cancels what waits."""
    given_up = [one for one in _history(view).deliveries if one.from_dlq]
    from_dlq = {one.worker for one in given_up if not (one.settles or _cancels(one))}
    return next(
        (
            f"{version.key} is {version.item.status}"
            for version in _history(view).versions
            if version.worker in from_dlq and version.item is not None
            if version.item.done and version.item.status is not Status.FAILED and version.item.own_failure is None
        ),
        None,
    )


def a_dead_letter_names_the_mistake(view: View) -> str | None:
    """Of a message that can never work: not that nobody could work with it."""
    letters = [one for one in _history(view).posted if one.name.endswith("-dead-letters")]
    errors = (str(_place(one).get("error")) for one in letters)
    return next((error for error in errors if not any(mistake in error for mistake in _OF_MESSAGES)), None)


def a_run_starts_with_nothing(view: View) -> str | None:
    """But for the state that the run before it has left, which is there until the first hop is committed; of its result
    and error the promise above says so."""
    last: dict[str, RunItem | None] = {}
    for version in _history(view).versions:
        item, before = version.item, last.get(version.key)
        last[version.key] = item
        if item is None or item.hop > 1 or item.done or not item.state:
            continue
        if before is None or before.state != item.state:
            return f"{item.request_id} starts with the state {item.state}"
    return None


def a_commit_is_later_than_the_one_before(view: View) -> str | None:
    """Of the same run, by the times that it says: receivers compare them."""
    last: dict[str, RunItem | None] = {}
    for version in _history(view).versions:
        item, before = version.item, last.get(version.key)
        if item is not None and not item.done:
            continue
        is_next = item and before and item.epoch > before.epoch and item.request_id == before.request_id
        if item and before and is_next and item.committed_at <= before.committed_at:
            return f"{version.key}: hop {item.hop} at {item.committed_at}, after {before.committed_at}"
        last[version.key] = item
    return None


def the_first_error_stays(view: View) -> str | None:
    """A retry and a dead letter say what the retry before them said; what is sent back begins anew."""
    said: dict[tuple[object, ...], set[ErrorNote]] = defaultdict(set)
    posted = [(one, one.place) for one in _history(view).posted]
    for one, place in posted:
        if place.first_error is not None and place.retry:
            said[one.run, one.id, place.hop, place.redrive, place.retry].add(place.first_error)
    for one, place in posted:
        if place.retry and place.first_error is None:
            return f"{one.id} does not say why it is tried again"
        earlier = said.get((one.run, one.id, place.hop, *_attempt_before(place)))
        if earlier and place.first_error not in earlier:
            return f"{one.id}, attempt {place.retry + 1}, has {place.first_error} for the first error"
    return None


def _attempt_before(place: Place) -> tuple[int, int]:
    """Its redrive and its retry; of a dead letter that of the attempt that failed."""
    if place.retry:
        return place.redrive, place.retry - 1
    return place.redrive - 1, (place.attempts or 0) - 1


def a_dead_letter_says_how_it_ended(view: View) -> str | None:
    """The last error and the number of attempts are those of the run item; one error is not said twice."""
    failed = [(one.key, one.item) for one in _history(view).versions if one.item is not None and one.item.error]
    for one, place in _letters(view):
        ends = [
            (item.error or "", item.retry + 1)
            for key, item in failed
            if (key, item.request_id, item.hop, item.redrive + 1) == (one.run, one.id, place.hop, place.redrive)
        ]
        last = str(place.last_error or place.first_error)
        if ends and not any(_says(last, error) and place.attempts == attempts for error, attempts in ends):
            return f"{one.id} says {place.last_error or place.first_error} after {place.attempts} attempts"
        if place.last_error is not None and place.last_error == place.first_error:
            return f"{one.id} says {place.last_error} twice"
    return None


def _says(last: str, error: str) -> bool:
    """Whether the item's error is the letter's. That of a run which was to be undone has it, cut, after the first."""
    _, also, own = error.rpartition(" (and ")[2].partition(" failed: ")
    return last == error or (also != "" and last.startswith(own.removesuffix(")")))


def whoever_waits_is_told_before(view: View) -> str | None:
    """The dead letter goes last: who gets it may rely on it that everybody else has been told."""
    first: dict[str | None, int] = {}
    posted = _history(view).posted
    for number, one in enumerate(posted):
        kept = parked(one)
        first.setdefault(one.id if kept is None else kept.id, number)
    sent = {(one.run, one.id, place.hop, place.redrive): posted.index(one) for one, place in reversed(_letters(view))}
    for version in _history(view).versions:
        item = version.item
        if item is None or item.outbox is None or item.status is not Status.FAILED:
            continue
        letter = sent.get((version.key, item.request_id, item.hop, item.redrive + 1), len(posted))
        told = [send.id for send in item.outbox.sends if send.kind is Kind.COMPLETE]
        if late := [own for own in told if first.get(own, len(posted)) > letter]:
            return f"{version.key}: the dead letter went before {', '.join(late)}"
    return None


def a_dead_letter_is_written_once(view: View) -> str | None:
    """Not again by the worker that gets it back."""
    history = _history(view)
    for back in history.redriven:
        own = (back.key, back.message.request_id, back.message.hop, back.message.redrive)
        workers = {one.worker for one in history.deliveries if one.record in back.records}
        for one, place in _letters(view):
            if (one.run, one.id, place.hop, place.redrive) == own and history.calls[one.call - 1].worker in workers:
                return f"{one.id}, redrive {place.redrive}, became a dead letter again"
    return None


def nothing_is_sent_too_late(view: View) -> str | None:
    """On behalf of a run that was taken over: receivers may have forgotten by then that they have it."""
    flushing = {one.worker for one, _ in _history(view).events(EventType.FLUSHED)}
    committed: dict[str, int] = {}
    for version in _history(view).versions:
        if version.item is not None and (outbox := version.item.outbox) is not None:
            for send in outbox.sends:
                committed.setdefault(send.id, outbox.committed_at)
    sent = (one for one in _history(view).posted if one.id in committed)
    late = (one for one in sent if _history(view).calls[one.call - 1].worker in flushing)
    return next((f"{one.id} to {one.to}" for one in late if one.at > committed[one.id or ""] + _LATEST), None)


def nobody_takes_an_attempt_from_who_is_at_work(view: View) -> str | None:
    """While his lease lasts: the work would be done twice, for nothing."""
    calls = _history(view).calls
    last: dict[str, RunItem | None] = {}
    for version in _history(view).versions:
        item, before = version.item, last.get(version.key)
        last[version.key] = item
        if item is None or before is None or before.done or _attempt(item) != _attempt(before):
            continue
        if item.owner != before.owner and calls[version.call - 1].at < before.lease_until:
            return f"{version.key}: hop {item.hop} was taken from {before.owner}, whose lease was not over"
    return None


def who_claims_has_time(view: View) -> str | None:
    """His lease begins when he claims, and not with the hop before."""
    begun = {one.worker: one.at for one in _history(view).deliveries}
    claimed = ((one, one.item) for one in _history(view).versions if one.item is not None and not one.item.done)
    return next(
        (
            f"{version.key}: hop {item.hop} was claimed under a lease that was over"
            for version, item in claimed
            if item.lease_until <= begun[version.worker] and item.owner != _owner_before(view, version)
        ),
        None,
    )


def _owner_before(view: View, version: Version) -> str | None:
    """A release writes the item too, and ends the lease; its owner stays."""
    before = [one.item for one in _history(view).versions if one.key == version.key and one.call < version.call]
    return before[-1].owner if before and before[-1] is not None else None


def _attempt(item: RunItem) -> tuple[object, ...]:
    return item.request_id, item.hop, item.redrive, item.retry


def copies_are_alike(view: View) -> str | None:
    """What is sent again for the same commit has the same delay and the same group. A look at a wait sends its deadline
    on, which is no copy, nor is what goes back to its queue after SQS has given it up."""
    sent: dict[tuple[object, ...], tuple[int, str | None]] = {}
    on = _sent_on(view)
    for one in _history(view).posted:
        if one.id is not None and not (one.place.retry or one.place.since or one.from_user or one in on):
            found = (one.delay, one.group)
            if sent.setdefault((one.to, one.id, one.place.hop, one.place.redrive), found) != found:
                return f"{one.id} to {one.to} has now the delay {one.delay} and the group {one.group}"
    return None


def a_deadline_is_sent_on_for_the_rest_of_its_wait(view: View) -> str | None:
    """Or for the longest delay that SQS has. Whoever looked may be held up before he sends, or send again."""
    for one in _sent_on(view):
        moment = int(json.loads(one.body)[DEADLINE])
        least, most = (_delay(moment - at) for at in (one.at, int(one.attributes[REQUESTED_AT].value)))
        if not least <= one.delay <= most:
            return f"{one.id} has the delay {one.delay}, and not {least} to {most}"
    return None


def _sent_on(view: View) -> list[Posted]:
    """Deadlines of waits that somebody has looked at too early."""
    history = _history(view)
    settling = {one.worker for one in history.deliveries if one.settles}
    return [one for one in history.posted if DEADLINE in _place(one) if history.calls[one.call - 1].worker in settling]


def _delay(left: int) -> int:
    """In whole seconds, of ms that are left."""
    return min(max(0, -(-left // 1000)), int(LONGEST_SQS_DELAY.total_seconds()))


_OF_MESSAGES: Final = ("does not read version 9", "the payload of alone", "the payload has no usable 'fail'")

_MISTAKES: Final = ("AssertionError", "AttributeError", "KeyError", "NameError", "TypeError", "UnboundLocalError")

ALWAYS: Final = (
    nothing_breaks_by_itself,
    what_sqs_gave_up_is_ended,
    an_item_says_where_it_is,
    an_item_lives_for_two_retentions,
    an_item_says_what_is_so,
    a_dead_letter_says_why,
    a_group_is_an_object,
    a_run_starts_with_nothing,
    a_commit_is_later_than_the_one_before,
    the_first_error_stays,
    a_dead_letter_says_how_it_ended,
    whoever_waits_is_told_before,
    a_dead_letter_is_written_once,
    nothing_is_sent_too_late,
    nobody_takes_an_attempt_from_who_is_at_work,
    who_claims_has_time,
    copies_are_alike,
    a_deadline_is_sent_on_for_the_rest_of_its_wait,
)


def _history(view: View) -> History:
    return view._history


def _items(view: View) -> list[RunItem]:
    return [version.item for version in _history(view).versions if version.item is not None]


def _place(message: Posted) -> dict[str, Any]:
    found = message.attributes.get(PLACE)
    said: Any = json.loads(found.value) if found is not None else {}
    return dict(said)


def _letters(view: View) -> list[tuple[Posted, Place]]:
    return [(one, one.place) for one in _history(view).posted if one.is_letter]

"""Decisions about claims, made from the run item alone. They are pure functions, the protocol's table in code.

The store asks DynamoDB the same question as one condition expression; a test goes through every small state of the
table and holds the two to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from flowguard.names.ids import Owner, RequestId
from flowguard.protocol.callers import Caller, Callers, asker_key, caller_key, listed_key
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.fields import REMOVED_BY_CLAIM, claiming
from flowguard.protocol.run import (
    ENDED,
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    FencedBy,
    RunItem,
    Status,
)
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message


def decide(item: RunItem | None, request: ClaimRequest) -> Verdict:
    """Decide the verdict on the message, given the item as it stands."""
    m = request.message
    if item is None:
        return Verdict.CLAIMED if m.hop == 1 else Verdict.GONE
    if m.request_id != item.request_id or _is_of_another_time(item, request):
        return _another_run(item, request)
    if item.reset_at is not None and m.hop > 1 and request.on_conflict is OnConflict.ATTACH:
        return Verdict.DONE if item.status in ENDED else Verdict.RESET
    if m.hop == item.hop:
        return _same_hop(item, request)
    failed = item.own_failure
    if failed is not None and m.hop == failed.hop and m.redrive > failed.redrive:
        return Verdict.GIVEN_UP
    if item.status in ENDED:
        return Verdict.DONE
    if m.hop < item.hop:
        return Verdict.DUPLICATE
    return Verdict.CLAIMED if m.hop == item.hop + 1 and item.done and not is_waiting(item) else Verdict.EARLY


def is_waiting(item: RunItem) -> bool:
    """Answer whether the run still waits for answers."""
    return item.status is Status.WAITING and (item.wait is None or item.wait.end is None)


def _is_of_another_time(item: RunItem, request: ClaimRequest) -> bool:
    """Answer whether a later hop is of another run with the item's request id.

    An id may come again with another time, after another request has had the object. The time of one run does not
    change after its first hop is committed.
    """
    m = request.message
    return m.hop > 1 and m.requested_at != item.requested_at


def _another_run(item: RunItem, request: ClaimRequest) -> Verdict:
    m = request.message
    if m.hop > 1:
        return Verdict.SUPERSEDED
    if request.on_conflict is OnConflict.ATTACH:
        return _calling(item, request)
    if m.requested_at <= item.requested_at:
        return Verdict.STALE
    if request.on_conflict is OnConflict.SUPERSEDE or _ended_before(item, request) or is_abandoned(item, request):
        return Verdict.CLAIMED
    return Verdict.IGNORED


def _ended_before(item: RunItem, request: ClaimRequest) -> bool:
    """Answer whether the run had ended when another was requested.

    An end that lies ahead is of a worker whose clock is fast. It keeps nobody away until then.
    """
    ended = item.committed_at < request.message.requested_at or item.committed_at > request.believed_until
    return item.status in ENDED and ended


def _calling(item: RunItem, request: ClaimRequest) -> Verdict:
    """Decide for a request that may be answered with another's end.

    One that was answered, or is about to be, is not answered by a later run: it is a copy.
    """
    m = request.message
    was_carried_out = caller_key(m.request_id, m.requested_at) == item.answered_key
    if was_carried_out or (item.answered is not None and listed_key(m) in item.answered.held):
        return Verdict.KEPT if item.status in ENDED else Verdict.DUPLICATE
    newer = m.requested_at > item.requested_at
    if newer and (is_abandoned(item, request) or _is_past(item, request)):
        return Verdict.CLAIMED
    return Verdict.KEPT if item.status in ENDED else Verdict.ATTACHED


def _is_past(item: RunItem, request: ClaimRequest) -> bool:
    """Answer whether the run was reset, or has ended and its end is not good for the request.

    Only the request's own time is compared: the answer is the same whenever its message is delivered.
    """
    if item.reset_at is not None:
        return True
    if item.status is Status.COMPLETED:
        return item.committed_at < request.fresh_since
    return item.status is Status.FAILED and item.committed_at < request.message.requested_at


def is_abandoned(item: RunItem, request: ClaimRequest) -> bool:
    """Answer whether the run has not ended, and no worker has worked on it for longer than its flow allows.

    A run that waits is not abandoned before its deadline is over by so much. A lease that ends later than any can is of
    a worker whose clock is fast: then the run's request and its last commit count.
    """
    if item.status is Status.WAITING:
        return item.wait is not None and item.wait.deadline < request.abandoned_before
    is_fast = item.lease_until > request.believed_until
    worked_on = max(item.requested_at, item.committed_at) if is_fast else item.lease_until
    return item.status is Status.RUNNING and worked_on < request.abandoned_before


def _same_hop(item: RunItem, request: ClaimRequest) -> Verdict:
    """Decide the claim of the hop that the item is at.

    A copy of the request with an earlier time is never granted: the copy with the later time is carried out. Only
    first hops come here with another time. Nor is one with another text: the text that came first gets the run.
    """
    m = request.message
    older = m.requested_at < item.requested_at
    if item.done:
        is_open = item.status is Status.FAILED and not (item.own_failure is not None and item.own_failure.undone)
        redriven = is_open and m.redrive > item.redrive
        return Verdict.CLAIMED if redriven and not older else Verdict.DONE
    stored = (item.redrive, item.retry)
    if m.attempt < stored:
        return Verdict.DUPLICATE
    if m.attempt == stored and m.hop == 1 and not _has_text(item, request):
        return Verdict.DUPLICATE
    is_alive = request.now < item.lease_until <= request.believed_until
    if m.attempt == stored and is_alive and item.owner != request.owner:
        return Verdict.BUSY
    return Verdict.DUPLICATE if older else Verdict.CLAIMED


def _has_text(item: RunItem, request: ClaimRequest) -> bool:
    """Answer whether a message may claim the attempt of a first hop again: by its text, or because it cancels it."""
    return request.message.cancelled is not None or item.first_text in (None, request.text)


def other_text(item: RunItem | None, message: Message, text: str) -> str | None:
    """Return what the item keeps of the text that has the message's first hop and attempt, if it is another one.

    ``text`` is what the claim of the message would have written.
    """
    if item is None or item.done:
        return None
    if (item.request_id, item.hop, item.redrive, item.retry) != (message.request_id, message.hop, *message.attempt):
        return None
    return None if item.first_text == text else item.first_text


def begins_anew(item: RunItem | None, message: Message) -> bool:
    """Answer whether the hop starts from an empty state: what the item has is the state that the run before left.

    That is a first hop, and the ``on_failed`` stage of a run whose first hop has failed.
    """
    if item is None or message.hop == 1:
        return True
    return message.hop == 2 and item.own_failure is not None and item.own_failure.hop == 1


def taken(item: RunItem | None, request: ClaimRequest) -> RunItem:
    """Return the item as a granted claim leaves it.

    It removes what :mod:`flowguard.protocol.fields` says, and what it neither removes nor writes stays as it is.
    A first hop starts from an empty state. It touches neither the outbox, which is of a run taken over or of this run's
    own end, nor the state that the run before has left. A later hop clears the outbox, for its message was the last
    that the outbox had to send. A resumed hop keeps it: an answer from outside may come before anything was sent.
    """
    m, first = request.message, request.message.hop == 1
    before = _NOTHING if item is None else item
    return before._replace(
        **REMOVED_BY_CLAIM[claiming(request)],
        request_id=m.request_id,
        requested_at=m.requested_at,
        version=m.version,
        status=Status.RUNNING,
        stage=m.stage,
        hop=m.hop,
        retry=m.retry,
        redrive=m.redrive,
        epoch=before.epoch + 1,
        owner=request.owner,
        lease_until=request.lease_until,
        done=False,
        ttl=request.expires_at // 1000,
        state=None if begins_anew(item, m) else before.state,
        stages={m.stage: m.request_id} if first else {**before.stages, m.stage: m.request_id},
        first_text=request.text if first else None,
        callers=_callers(item, request),
        askers=_askers(item, request),
        lost=None if first else before.lost,
        left_end=before.left_end if first else None,
    )


_NOTHING: Final = RunItem(RequestId(""), 0, 0, Status.RUNNING, "", 0, 0, 0, 0, Owner(""), 0, False)


def kills_before(item: RunItem | None, message: Message, owner: Owner | None = None) -> int:
    """Return how many workers of the message's own attempt were killed, given the item that its claim has found.

    ``owner`` is the claim's: it may find itself, where its answer was lost. The item counts those that were seen by an
    earlier claim. The last is the one whose lease is over: one that lives gives its claim back, which takes it off, or
    notes why its attempt has failed. One that a reset has fenced was not killed: nobody owns its hop then. Nor was one
    that found no place for the hop, sent the look that comes now, and could not release the claim any more.
    """
    if item is None or item.done or item.owner == owner or has_failed(item):
        return 0
    here = item.request_id, item.hop, item.redrive, item.retry
    if here != (message.request_id, message.hop, message.redrive, message.retry):
        return 0
    was_in_line = message.turn is not None and message.turn.look == item.epoch and item.back_off is None
    return item.kills if was_in_line or item.owner == item.reset_by else item.kills + 1


def stood_in_line(claim: Claim) -> bool:
    """Answer whether an earlier claim of this very hop has noted that it waits for a place. It has flushed the item."""
    before, item = claim.before, claim.item
    if before is None or before.back_off is None or before.back_off.has_failed:
        return False
    mine = (item.request_id, item.requested_at, item.hop, item.redrive)
    return (before.request_id, before.requested_at, before.hop, before.redrive) == mine


def found_note(claim: Claim) -> BackOff | None:
    """Return the note on this very attempt that the claim has found and removed."""
    before, item = claim.before, claim.item
    if before is None:
        return None
    mine, theirs = ((of.request_id, of.requested_at, of.hop, of.redrive, of.retry) for of in (item, before))
    return before.back_off if mine == theirs else None


def is_left_over(claim: Claim) -> bool:
    """Answer whether a look or a call was claimed whose attempt has failed: the message of the next one has gone.

    A direct call that fails counts its attempt, as the kills say. Nobody may repeat it, so a look goes on from there.
    """
    if claim.message.turn is None or claim.before is None or claim.before.kills < 0:
        return False
    note = found_note(claim)
    return note is not None and note.has_failed


def sends_by_another(item: RunItem, message: Message) -> bool:
    """Answer whether a look or a call finds a hop that came to its commit by another one.

    That one comes again until all is sent, so this one sends nothing.
    """
    return message.turn is not None and item.by_look is not None and item.by_look != message.turn.look


def has_failed(item: RunItem) -> bool:
    """Answer whether the item notes that its last attempt has failed. One that waits for a place has not."""
    return item.back_off is not None and item.back_off.has_failed


def attempt_key(item: RunItem, retry: int) -> str:
    """Return what names an attempt of the item's hop among those of all hops and runs: ``3f1b0c2d.1.0.2``."""
    return f"{crc32(item.request_id.encode()):08x}.{item.hop}.{item.redrive}.{retry}"


def queued_key(item: RunItem) -> str:
    """Return what names an attempt of a stream's record whose message a queue has. Its time is a part of it."""
    return f"{attempt_key(item, item.retry)}.{item.requested_at}"


def goes_on_as(item: RunItem | None, message: Message, *, is_in_place: bool) -> Message | None:
    """Return the message as the attempt that the item is at, to be claimed as that. None for one that is as it is.

    A record that is tried again in its place (``is_in_place``) carries no count. A call may have brought the item to
    its count, and to a later time of the request, beside a message that was sent for the hop. Nobody may repeat the
    call, so that message goes on from there: to drop it would lose the run.
    """
    if item is None or item.done:
        return None
    if (item.request_id, item.hop, item.redrive) != (message.request_id, message.hop, message.redrive):
        return None
    later = message
    if item.retry > message.retry and (is_in_place or _follows_a_call(item)):
        later = later.at_retry(item.retry)
    if (
        item.retry == later.retry
        and item.hop == 1
        and item.requested_at > message.requested_at
        and _follows_a_call(item)
    ):
        later = later._replace(requested_at=item.requested_at)
    return None if later is message else later


def _follows_a_call(item: RunItem) -> bool:
    return item.called_attempt == attempt_key(item, item.retry)


def needs_lease(claim: Claim) -> bool:
    """Answer whether a hop that was only read is claimed all the same, since it takes the object from a run at work.

    That run has to stop at once, and its requester is notified before the commit. The claim is written before both.
    """
    before = claim.before
    if claim.unwritten is None or before is None:
        return False
    return before.request_id != claim.message.request_id and before.status not in ENDED


def finds_old_memory(claim: Claim) -> bool:
    """Answer whether the item remembers something under the request's id that an earlier run has done.

    An id may come again with a later time, when another request has had the object. If that has committed nothing, what
    the first run's hop remembers is still there. A copy of one request with a later time finds its own run.
    """
    item, before = claim.item, claim.before
    if before is None or before.memo is None or claim.unwritten is not None:
        return False
    return before.request_id != item.request_id and before.memo.is_of(item.request_id, item.hop)


def takes_object(claim: Claim) -> bool:
    """Answer whether the claim has found no item, or that of another request."""
    return claim.before is None or claim.before.request_id != claim.item.request_id


def committed_before(claim: Claim) -> int | None:
    """Return when the item was committed before the run, which tells runs of one request id apart (ms).

    It is the same in each attempt of the run's first hop. None for a later hop, and for one that has failed for good.
    """
    return claim.item.committed_at if claim.item.hop == 1 and claim.item.redrive == 0 else None


def outlived(claim: Claim, now: int, retention: int) -> bool:
    """Answer whether a worker that has read no item may write one after another has been there and expired.

    ::

        worker ── read ──▶ DynamoDB: no item
                  another worker carries the run out, and its item expires, after twice the retention
               ── commit, if there is no item ──▶ DynamoDB: applied once more

    So what was read is good for one retention. Both are in ms.
    """
    read = claim.unwritten
    return read is not None and claim.before is None and now - read.now >= retention


def waits_unseen(claim: Claim, commit: Commit) -> bool:
    """Answer whether an answer from outside may come while nothing in the table says that its hop is at work.

    It is found by its row, which is saved before the commit. Beside the hop before it is early, and comes again. Beside
    no item, an end, or another run's item it would be taken for too late.
    """
    if claim.unwritten is None or commit.wait is None or not commit.wait.rows:
        return False
    before = claim.before
    return before is None or before.hop >= claim.message.hop


def can_be_reset(item: RunItem | None, by: str, at: int) -> bool:
    """Answer whether a reset changes the item. One run that was asked for after the reset is as good as reset.

    A run that has failed is let to end, also while it undoes what it did: there is no result to drop, and the reset
    would take its undo away. So is one that was cancelled: it must not be restarted.
    """
    if item is None or item.status is Status.FAILED:
        return False
    if item.own_failure is not None or item.cancelled_because is not None or _restart_is_cancelled(item):
        return False
    return item.requested_at <= at and item.reset_by != by


def _restart_is_cancelled(item: RunItem) -> bool:
    """Answer whether the run was cancelled after its reset: then the request is that is to begin the work anew."""
    return item.cancellation is not None and item.reset_at is not None and item.cancellation.at >= item.reset_at


def _callers(item: RunItem | None, request: ClaimRequest) -> Callers | None:
    """Return the list of callers after the claim. One that is open goes on."""
    callers = item.callers if item is not None else None
    return Callers(request.owner) if callers is None and begins_list(request) else callers


def begins_list(request: ClaimRequest) -> bool:
    """Answer whether a claim begins a list of callers where none is open."""
    return request.on_conflict is OnConflict.ATTACH and (request.message.hop == 1 or request.message.redrive > 0)


def _askers(item: RunItem | None, request: ClaimRequest) -> Mapping[str, str]:
    """Return the callers to answer when the run ends. The request of this claim is one of them."""
    askers = item.askers if item is not None else {}
    caller = noted_asker(request.message)
    return askers if caller is None else {**askers, asker_key(caller.request_id): caller.to_text()}


def noted_asker(message: Message) -> Caller | None:
    """Return the caller that the claim writes into the item.

    A later hop writes none, because the first hop has, unless it is redriven: then its run had ended.
    """
    if message.reply_to is None or (message.hop > 1 and message.redrive == 0):
        return None
    return Caller.asking(message)


def answered_askers(claim: Claim, commit: Commit) -> list[str]:
    """Return the keys of those who need not be answered any more once the commit is written.

    The runs that were taken over were answered, or became callers, before the hop was handled. The commit of an end
    has the answer to its own request in its outbox.
    """
    asker = asker_key(claim.message.request_id)
    return [key for key in claim.item.askers if key != asker or commit.status in ENDED]


def refused_commit(claim: Claim, wanted: Commit, item: RunItem | None) -> Committed | Fenced:
    """Return what a commit whose condition failed means, given the item that stood in its way.

    ``wanted`` is what was to be written: a worker that finds its own earlier commit, of another ending, has finished
    the hop before.

    ::

        worker ── commit ──▶ DynamoDB: applied
               ◀─ answer lost ─✗
               ── commit, repeated by botocore ──▶ condition fails, for the first one has set ``done``
               ◀─ the item, with this worker's own owner and epoch: that was a success
    """
    if item is not None and is_claimed_by(claim, item) and _is_end(item, wanted):
        return Committed()
    return fenced_by(claim, item)


def _is_end(item: RunItem, wanted: Commit) -> bool:
    """Answer whether the item's hop has ended as the commit was to end it."""
    failed = item.own_failure
    gave_up = failed is not None and failed.hop == item.hop
    undone = failed is not None and failed.undone
    return (item.status, gave_up, undone) == (wanted.status, wanted.failed is not None, wanted.undone)


def is_claimed_by(claim: Claim, item: RunItem) -> bool:
    """Answer whether no other claim of the item was granted since."""
    mine = claim.item
    return (item.request_id, item.epoch, item.owner) == (mine.request_id, mine.epoch, mine.owner)


def fenced_by(claim: Claim, item: RunItem | None) -> Fenced:
    """Return the request that has the item, if the claim has lost it."""
    mine = claim.item
    if item is None:
        return Fenced(FencedBy.EXPIRED, None)
    if item.request_id != mine.request_id:
        older = item.requested_at <= mine.requested_at
        return Fenced(FencedBy.EXPIRED if older else FencedBy.NEWER_RUN, item)
    finished = item.hop > mine.hop or item.done
    return Fenced(FencedBy.FINISHED if finished else FencedBy.OTHER_ATTEMPT, item)

"""The protocol's conditions in the syntax of DynamoDB. They stand in this one place.

``flowguard.protocol.claims`` decides the same in Python, and a test holds the two together over every small state. Each
line below is one row of that decision.
"""

from __future__ import annotations

from typing import Final

from flowguard.protocol import fields
from flowguard.protocol.conflict import OnConflict

CLAIM_NAMES: Final = {
    field.placeholder: field.attribute
    for field in fields.FIELDS
    if field.reserved and (field.written_by | field.removed_by) & fields.CLAIMS
}
"""Attribute names that DynamoDB reserves."""

ABSENT: Final = "attribute_not_exists(pk)"
ALWAYS_THERE: Final = frozenset({"epoch"})
"""Attributes of every run item that ``if_not_exists`` asks for: it does so for where there is no item."""

# another request that is newer; of two of the same time the first keeps the object. It must have another id: a sender
# that repeats its id with a later time must not supersede itself, nor one that gives no time, for which the time of
# arrival stands
_NEWER: Final = "(request_id <> :request_id AND requested_at < :requested_at)"

# the object is free for another request: its run had ended when that was requested, or its lease ran out long ago. An
# end that lies ahead is of a worker whose clock is fast
_ENDED: Final = (
    "(#status IN (:completed, :failed) AND (committed_at < :requested_at OR committed_at > :believed_until))"
)
# a lease that ends later than any can says nothing: then the run counts from its request and its last commit
_FAST: Final = (
    "(lease_until > :believed_until AND requested_at < :abandoned_before AND NOT committed_at >= :abandoned_before)"
)
# of a run that waits the lease says nothing: it is abandoned when its deadline is long over
_ABANDONED: Final = (
    f"((#status = :running AND (lease_until < :abandoned_before OR {_FAST})) OR "
    "(#status = :waiting AND #wait.deadline < :abandoned_before))"
)
_FREE: Final = f"({_ENDED} OR {_ABANDONED})"

# of a flow that takes callers: the run was reset, or its stored end is not good for the request. The request's own time
# decides, not when it comes
_PAST: Final = (
    "(attribute_exists(reset_at) OR (#status = :completed AND committed_at < :fresh_since) OR "
    "(#status = :failed AND committed_at < :requested_at))"
)
# the request is no copy of one that was answered. An attribute that is not there differs from every value
_UNANSWERED: Final = "attribute_not_exists(answered.held.#caller) AND answered_key <> :caller"

# the same attempt is granted again in three cases: its worker's lease is over; the lease ends later than any lease can,
# so the clock of that worker is fast; or this very call is repeated because its answer was lost
_SAME_ATTEMPT: Final = "(retry = :retry AND (lease_until <= :now OR lease_until > :believed_until OR #owner = :owner))"

# and only to the text that has claimed it, so that nobody else gives a first hop another payload. A release that wrote
# no text may have claimed since: then the item's epoch is another than the text's. What cancels a request has none
_SAME_TEXT: Final = "(first_text = :first_text OR text_epoch <> epoch)"

# attempts are ordered by redrive, then retry
_LATER_ATTEMPT: Final = f"(redrive < :redrive OR (redrive = :redrive AND (retry < :retry OR {_SAME_ATTEMPT})))"
_LATER_ATTEMPT_OF_TEXT: Final = _LATER_ATTEMPT.replace(_SAME_ATTEMPT, f"({_SAME_ATTEMPT} AND {_SAME_TEXT})")

# a dead letter sent back: the one way in which a committed hop opens again, unless its on_failed stage ended the run
_UNDONE: Final = (
    "attribute_exists(failed.undone) AND failed.request_id = :request_id AND failed.requested_at = requested_at"
)
_REDRIVEN: Final = f"(#status = :failed AND redrive < :redrive AND NOT ({_UNDONE}))"

_SAME_HOP: Final = f"request_id = :request_id AND hop = :hop AND ((done = :no AND {_LATER_ATTEMPT}) OR {_REDRIVEN})"

# a request id may come again with another time, after another request has had the object. That is another run. Within
# one run the time does not change any more when its first hop is committed
_SAME_TIME: Final = "requested_at = :requested_at"

# where a sender repeats its request id with another time, the latest time counts, whichever copy comes first
_SAME_REQUEST: Final = f"({_SAME_HOP} AND requested_at <= :requested_at)"
_SAME_REQUEST_AND_TEXT: Final = _SAME_REQUEST.replace(_LATER_ATTEMPT, _LATER_ATTEMPT_OF_TEXT)

# the wait is over: it timed out, it failed, or enough names are answered. The set is gone with its last name
_OVER: Final = (
    "(attribute_exists(#wait.timed_out) OR #wait.spare < :zero OR "
    "attribute_not_exists(waiting) OR size(waiting) <= #wait.spare)"
)

# the hop before is committed and has not ended the run; what it waited for is there
_NEXT_HOP: Final = (
    f"({_SAME_TIME} AND request_id = :request_id AND hop = :hop_before AND done = :yes AND "
    f"(#status = :running OR (#status = :waiting AND {_OVER})))"
)

CANCELLED_FIRST_HOP: Final = {
    OnConflict.SUPERSEDE: f"{ABSENT} OR {_NEWER} OR {_SAME_REQUEST}",
    OnConflict.IGNORE: f"{ABSENT} OR ({_NEWER} AND {_FREE}) OR {_SAME_REQUEST}",
    OnConflict.ATTACH: (f"{ABSENT} OR ({_NEWER} AND {_UNANSWERED} AND ({_PAST} OR {_ABANDONED})) OR {_SAME_REQUEST}"),
}
"""Of what cancels a request: the request with another text."""

FIRST_HOP: Final = {
    policy: condition.replace(_SAME_REQUEST, _SAME_REQUEST_AND_TEXT)
    for policy, condition in CANCELLED_FIRST_HOP.items()
}
LATER_HOP: Final = f"{_NEXT_HOP} OR ({_SAME_TIME} AND {_SAME_HOP})"
LATER_HOP_OF_CALLERS: Final = f"attribute_not_exists(reset_at) AND ({LATER_HOP})"
"""A run that was reset does not go on: another message restarts it."""


def _assigned(field: fields.Field) -> str:
    """Return what a claim assigns to a field."""
    match field.attribute:
        case "status":
            return ":running"
        case "epoch":
            return "if_not_exists(epoch, :zero) + :one"
        case "done":
            return ":no"
        case attribute:
            return f":{attribute}"


def _removed(claim: fields.Writer) -> str:
    return ", ".join(field.placeholder for field in fields.removed_by(claim))


_CLAIM: Final = ", ".join(f"{field.placeholder} = {_assigned(field)}" for field in fields.OF_EVERY_CLAIM)
_CLAIM_FIRST: Final = (
    f"{_CLAIM}, stages = :stages, first_text = :first_text, text_epoch = if_not_exists(epoch, :zero) + :one"
)
CLAIM_FIRST_HOP: Final = f"SET {_CLAIM_FIRST} REMOVE {_removed(fields.FIRST_HOP)}"
"""Leaves the outbox, the state and the failure of a run that is taken over, for this run's first stage."""

CLAIM_FIRST_HOP_OF_CALLERS: Final = f"SET {_CLAIM_FIRST} REMOVE {_removed(fields.CALLERS_FIRST_HOP)}"
"""Leaves the result or error of an end as well: its callers may not have been answered yet."""

BEGIN_LIST: Final = "callers = if_not_exists(callers, :nobody)"
NOTE_ASKER: Final = "#asker = :asker"

CLAIM_LATER_HOP: Final = f"SET {_CLAIM}, stages.#stage = :request_id REMOVE {_removed(fields.LATER_HOP)}"
"""Clears the outbox: this hop's message was the last of it."""

CLAIM_RESUMED_HOP: Final = f"SET {_CLAIM}, stages.#stage = :request_id REMOVE {_removed(fields.RESUMED_HOP)}"
"""Leaves the outbox: an answer from outside may have come before anything of it was sent."""

# only the run, the attempt and the very worker that claimed may commit, and only once. The owner is compared because
# the epoch begins anew after the item has expired.
COMMIT: Final = "request_id = :request_id AND epoch = :epoch AND #owner = :owner AND done = :no"

NOTE_KILLS: Final = "SET kills = :kills"
"""How many workers of an attempt were killed. Every claim removes what is there, and knows it from its answer."""

# a hop that was only read is taken by its commit, if the item is what was read: nothing has claimed or committed since.
# No two claims or commits have one owner
UNCHANGED: Final = (
    "request_id = :read_request_id AND epoch = :read_epoch AND #owner = :read_owner AND done = :read_done"
)
TAKE: Final = ", ".join(f"{field.placeholder} = :{field.attribute}" for field in fields.IN_PLACE_OF_A_CLAIM)
"""Of such a commit: what a claim would have written, beside what the commit writes in any case."""

# -- those who are answered with the end of a run

# the list is open: nothing has closed it since it was read
_OPEN: Final = "callers.term = :term"
# nobody shortens the life of an item: a commit since may have begun a wait. An item without a ttl lives for ever
_LIVES_LONGER: Final = "NOT #ttl > :ttl"
HOLD_CALLER: Final = (
    f"{_OPEN} AND {_LIVES_LONGER} AND (attribute_exists(callers.held.#caller) OR size(callers.held) < :most)"
)
SET_CALLER: Final = "SET callers.held.#caller = if_not_exists(callers.held.#caller, :caller), #ttl = :ttl"
"""A caller that is there stays as it was."""

NOTE_ROWS: Final = f"{_OPEN} AND {_LIVES_LONGER}"
SET_ROWS: Final = "SET callers.#rows = :yes, #ttl = :ttl"

# a reset that comes twice is one; a run that was asked for after it is as good as reset. One that has failed, and
# undoes what it did, is let to end, and so is one that was cancelled. Its epoch is the fence. Where there is no item
# there is no time to compare, and no reset
_FAILED_BEFORE: Final = "failed.request_id = request_id AND failed.requested_at = requested_at"
# it was cancelled itself, or after its reset: then the request is that is to begin the work anew
_CANCELLED: Final = "(cancelled.request_id = request_id AND cancelled.#at >= requested_at) OR cancelled.#at >= reset_at"
CAN_RESET: Final = (
    "#status <> :failed AND requested_at <= :latest AND reset_by <> :by AND "
    f"NOT ({_FAILED_BEFORE}) AND NOT ({_CANCELLED})"
)
# the text that has the first hop keeps it: where there is none, the number stays behind the epoch. What its hop
# remembers is of the work that is not good any more
RESET: Final = (
    "SET reset_at = :at, reset_by = :by, epoch = epoch + :one, #owner = :by, lease_until = :now, "
    "text_epoch = if_not_exists(text_epoch, :zero) + :one REMOVE memo"
)

# an order to reset is carried out once, whatever was reset since
IS_NEW: Final = "attribute_not_exists(pk)"

SAME_NONCE: Final = "nonce = :nonce"
"""Nobody has written the item since it was read: each write of it has a nonce of its own."""

PLACE_IS_FREE: Final = (
    "attribute_exists(held) AND size(held) < :at_once AND size(line) = :nobody AND attribute_not_exists(held.#hop) "
    "AND #ttl <= :ttl"
)
TAKE_PLACE: Final = "SET held.#hop = :holder, nonce = :nonce, #ttl = :ttl"
"""Nobody stands in line, and the hop has no place yet. Others may take and free places meanwhile.

The item of a key that is paused has no ttl, so it refuses this.
"""

PLACE_IS_MINE: Final = "held.#hop = :holder AND size(line) = :nobody"
FREE_PLACE: Final = "SET nonce = :nonce REMOVE held.#hop"
"""Nobody stands in line, who would have to be called."""

FEW_HAVE_FAILED: Final = (
    f"{PLACE_IS_MINE} AND attribute_not_exists(pause) AND (attribute_not_exists(failed) OR size(failed) < :few)"
)
FREE_AND_NOTE: Final = (
    "SET nonce = :nonce, failed = list_append(if_not_exists(failed, :none), :failed_at) REMOVE held.#hop"
)
"""Fewer attempts have failed, or are still noted, than pause the key with one more."""

BY_ITSELF: Final = "attribute_exists(#until)"
NOT_BY_HAND: Final = f"attribute_not_exists(pk) OR {BY_ITSELF}"
"""Of the row of a pause: a key has paused itself. What somebody has paused stays so."""

NOT_SHORTENED: Final = _LIVES_LONGER
"""Who was held up, and writes an earlier text, leaves the one that is there."""

NOTE_ORDER: Final = "SET #ttl = :ttl"

CLOSE_CALLERS: Final = "answered = if_not_exists(callers, :nobody), answered_by = :request_id, answered_key = :caller"
"""Of the commit that ends a run: who comes later finds an ended run."""

FIRST_TEXT: Final = ("first_text", "text_epoch")
"""What a commit of a first hop removes: the text has got its run."""

REMEMBER: Final = (
    f"{COMMIT} AND (attribute_not_exists(memo.results.#name) OR memo.request_id <> :request_id OR memo.hop <> :hop)"
)
"""Once for each name of a hop. What is there of another hop or run is overwritten."""

FORGET: Final = "REMOVE memo"
"""Under the commit's own fence."""

END_NAMES: Final = {
    "#status": "status",
    "#owner": "owner",
    "#ttl": "ttl",
    "#outbox": "outbox",
    "#result": "result",
    "#error": "error",
}
"""Of a commit that ends a run FAILED: it leaves the state as it is."""

COMMIT_NAMES: Final = {**END_NAMES, "#state": "state"}

# an absent set is smaller than any number, but moto refuses to ask for its size
_NOT_OVER: Final = (
    "attribute_not_exists(#wait.timed_out) AND #wait.spare >= :zero AND attribute_exists(waiting) AND "
    "size(waiting) > #wait.spare"
)
_GOES_ON: Final = f"#status = :waiting AND {_NOT_OVER}"
_OF_WAIT: Final = f"{_SAME_TIME} AND request_id = :request_id AND hop = :hop"
_WAITING: Final = f"{_OF_WAIT} AND {_GOES_ON}"
WAIT_NAMES: Final = {"#status": "status", "#wait": "wait"}

ANSWER: Final = (
    f"{_WAITING} AND attribute_not_exists(#wait.#group) AND contains(waiting, :name) AND #wait.room >= :size"
)
ANSWER_NAMES: Final = {**WAIT_NAMES, "#group": "group"}
KEEP_ANSWER: Final = "SET #wait.answers.#name = :answer, #wait.room = #wait.room - :size DELETE waiting :names"
KEEP_FAILURE: Final = KEEP_ANSWER.replace(" DELETE", ", #wait.spare = #wait.spare - :one DELETE")
"""A failure that does not count as an answer: one name less may stay without one."""

TIME_OUT: Final = f"{_WAITING} AND #wait.deadline <= :now"
END_WAIT: Final = "SET #wait.timed_out = :yes"

# a cancelled run: its epoch is the fence of its worker, and a wait that goes on ends as one that has timed out
CAN_CANCEL: Final = "epoch = :epoch AND done = :done"
CANCEL: Final = "SET cancelled = :cancelled, epoch = epoch + :one, lease_until = :now"
CANCEL_OF_TEXT: Final = f"{CANCEL}, text_epoch = epoch + :one"
# an order to cancel is for one run, whenever it comes again: what stands there stays
NOTE_CANCEL: Final = "SET of_run = if_not_exists(of_run, :run), #ttl = if_not_exists(#ttl, :ttl)"
# a run that was reset is fenced already; a claim raises the epoch, and so does another reset
CAN_CANCEL_RESTART: Final = "epoch = :epoch"
CANCEL_RESTART: Final = "SET cancelled = :cancelled"
CAN_CANCEL_WAIT: Final = f"{_SAME_TIME} AND request_id = :request_id AND attribute_not_exists(reset_at) AND {_GOES_ON}"
CANCEL_WAIT: Final = f"SET cancelled = :cancelled, lease_until = :now, {END_WAIT.removeprefix('SET ')}"

# of the copies of a deadline's message only one goes on: the first that comes after the message before them had sent
# it, or one that comes when all others must be lost. The first is noted also where the wait is over: it proves what was
# sent to the hop that goes on
TIME_OUT_LATER: Final = (
    f"{_OF_WAIT} AND #status = :waiting AND attribute_exists(#wait) AND (attribute_not_exists(#wait.looked_at) OR "
    f"({_NOT_OVER} AND (#wait.looked_at <= :since OR #wait.looked_at < :long_ago)))"
)
LOOK: Final = "SET #wait.looked_at = :at, #wait.looked_by = :by"

# the newest early answer is kept. It replaces an older one, used or not, and one whose time is further ahead than
# clocks may differ. A copy of the kept answer, whatever its time, and an older answer change nothing
KEEP_EARLY: Final = (
    "#ttl <= :now OR attribute_not_exists(given_at) OR (given_at = :at AND given_by < :by) OR "
    "(given_by <> :by AND (given_at < :at OR given_at > :believed))"
)
# only one wait may use it, or those that waited when it came. The same transaction gives it to a run
USE_EARLY: Final = (
    "attribute_exists(pk) AND (given_by = :by OR attribute_not_exists(given_by)) AND "
    "(attribute_not_exists(used_by) OR used_by = :who)"
)
SET_USED: Final = "SET used_by = :who"
# nobody of those who waited has used it: it is for the next wait
IS_UNUSED: Final = "given_by = :by AND attribute_not_exists(used_by)"
FORGET_WAITED: Final = "REMOVE waited"
# all who waited have it
IS_KEPT: Final = "given_by = :by"

# -- groups: a shard is settled like a wait, and so is the run item's set of open shards

_OF_GROUP: Final = f"{_WAITING} AND #wait.#group = :group"

CLOSE_SHARD: Final = _OF_GROUP
"""To take out a shard that is not there changes nothing."""

DROP_SHARD: Final = "DELETE waiting :names"

# a group's message notes its place where it finds the one that it begins at. An older release goes on from there only
# with the message that ``asked_by`` names
ASK_ON: Final = f"{_OF_GROUP} AND #wait.asked = :from"
ASKED: Final = "SET #wait.asked = :to, #wait.asked_by = :by"
ASKING: Final = "SET #wait.asking = :to"

# a row keeps the first answer. Where there is no row there is no room
FIRST_ANSWER: Final = "attribute_not_exists(answer) AND room >= :size"
SET_ANSWER: Final = "SET answer = :answer"

SETTLE_MEMBER: Final = "attribute_not_exists(closed) AND contains(waiting, :member)"
DROP_MEMBER: Final = "DELETE waiting :members"
CAN_CLOSE: Final = "attribute_exists(pk)"
CLOSE: Final = "SET closed = :yes"

# of the copies of a message that cancels what a group has asked only one goes on: the first that has done its shards
CAN_CANCEL_SHARD: Final = "attribute_exists(pk) AND (attribute_not_exists(cancelled_by) OR cancelled_by = :by)"
CANCEL_SHARD: Final = "SET cancelled_by = :by"

# -- keys of ``@once``: ``flowguard.protocol.entry`` decides the same in Python

KEY_NAMES: Final = {"#status": "status", "#owner": "owner"}

# A call may take the key if
# - nobody holds it,
# - the holder's lease has ended,
# - the lease ends later than any lease can: a worker whose clock is fast wrote it,
# - the holder is this call itself, which is repeated because its first answer was lost.
# Where payloads are compared, what a call with another payload has begun is taken only after that has raised: it may
# have died after its effect.
_NOBODY: Final = (
    "(attribute_not_exists(#owner) OR lease_until <= :now OR lease_until > :believed_until OR #owner = :owner)"
)
_NEW_OR_FREE: Final = f"attribute_not_exists(#key) OR (#status = :running AND {_NOBODY})"

# a repeat is let through as well: it is only counted, and the answer brings the result. Only what is completed expires.
# One that would shorten the entry's life, since its function keeps results for less time by now, is refused instead
_REPEATED: Final = "expires_at > :now AND NOT #ttl > :ttl"

CLAIM_KEY: Final = f"{_NEW_OR_FREE} OR ({_REPEATED})"
_MATCHES: Final = "(attribute_not_exists(digest) OR digest = :digest)"
CLAIM_PAYLOADS_KEY: Final = (
    "attribute_not_exists(#key) OR (#status = :running AND attribute_not_exists(#owner)) OR "
    f"({_MATCHES} AND ((#status = :running AND {_NOBODY}) OR ({_REPEATED})))"
)
CLAIM_EXPIRED_KEY: Final = "expires_at <= :now"
HOLD_KEY: Final = "#status = :running AND #owner = :owner"

_AT_WORK: Final = "#owner = :owner, lease_until = :lease_until, updated_at = :now, #ttl = :ttl"
_MEET: Final = f"SET {_AT_WORK}, #status = if_not_exists(#status, :running), begun_at = if_not_exists(begun_at, :now)"
MEET_KEY: Final = f"{_MEET} REMOVE failure ADD met :one"
"""Leaves a completed entry COMPLETED: there the owner and the lease mean nothing."""

MEET_PAYLOADS_KEY: Final = f"{_MEET}, digest = :digest REMOVE failure ADD met :one"
_BEGIN: Final = f"SET {_AT_WORK}, #status = :running, begun_at = :now, met = :one"
_OF_BEFORE: Final = "#result, refusal, completed_at, completed_by, expires_at"
BEGIN_KEY: Final = f"{_BEGIN} REMOVE {_OF_BEFORE}, digest"
BEGIN_PAYLOADS_KEY: Final = f"{_BEGIN}, digest = :digest REMOVE {_OF_BEFORE}"

_END: Final = (
    "SET #status = :completed, completed_by = :owner, completed_at = :now, updated_at = :now, "
    "expires_at = :expires_at, #ttl = :ttl"
)
FINISH_KEY: Final = f"{_END}, #result = :result"
REFUSE_KEY: Final = f"{_END}, refusal = :refusal"
_FREED: Final = "SET updated_at = :now, lease_until = :now"
FREE_KEY: Final = f"{_FREED}, failure = :failure REMOVE #owner"
FREE_HOLDING_KEY: Final = f"{_FREED}, failure = :failure, ended = :owner REMOVE #owner"
"""The same of a call that may hold places of limits: the next call of the key takes them over."""

LEAVE_KEY: Final = f"{_FREED} REMOVE #owner ADD met :less"
"""Of a call whose function was not called: neither a failure, nor one that counts."""
LEAVE_HOLDING_KEY: Final = f"{_FREED}, ended = :owner REMOVE #owner ADD met :less"
HAND_BACK_KEY: Final = f"{_FREED}, #owner = :died ADD met :less"
"""The same of a key that was taken from a call that has died: other payloads are refused as before."""

HAND_BACK_HOLDING_KEY: Final = f"{_FREED}, #owner = :died, ended = :owner ADD met :less"

# -- forgetting a run: only if its item is as it was read, so that a claim or cancellation since then is kept
AS_READ: Final = ("request_id", "requested_at", "epoch", "done", "status")
IS_AS_READ: Final = (
    f"{_SAME_TIME} AND request_id = :request_id AND epoch = :epoch AND done = :done AND #status = :status"
)
LEAVE_TRACE: Final = (
    "SET #status = :failed, #error = :error, redrive = :last, epoch = epoch + :one, done = :yes, "
    "lease_until = :works_until, committed_at = :at, #ttl = :ttl"
)
TRACE_NAMES: Final = {"#status": "status", "#error": "error", "#ttl": "ttl"}
# an answer that came early stays as a mark, if it is what was read, so that a copy of its message is no new answer
IS_USED: Final = "given_by = :by AND used_by = :used"
IS_AT_REST: Final = (
    "attribute_exists(#status) AND (#status <> :running OR attribute_not_exists(#owner) OR lease_until < :now)"
)
IS_STARTED: Final = "#result = :read"
EMPTY_STARTED: Final = "SET #result = :nothing"
EMPTY_EARLY: Final = "SET #text = :nothing, forgotten = :yes, used_by = if_not_exists(used_by, :who)"

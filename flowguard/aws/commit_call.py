"""The commit of a hop and the release of its lease, each as one call to DynamoDB."""

from __future__ import annotations

from typing import Any

from flowguard.aws import expressions
from flowguard.aws.commit_texts import (
    FIRST_MESSAGE,
    PLAN,
    SMALLEST_ANSWER,
    CommitTexts,
    PackedTexts,
    keeps_failed,
    kept_late,
)
from flowguard.aws.history_room import NAME as HISTORY
from flowguard.aws.history_room import room_after_commit, room_in_claimed
from flowguard.aws.items import ASKER, Item, expression_values, number, record_item, run_key, values_of
from flowguard.protocol.callers import Callers, asker_key, caller_key
from flowguard.protocol.claims import answered_askers, noted_asker
from flowguard.protocol.fields import IN_PLACE_OF_A_CLAIM
from flowguard.protocol.run import ENDED, BackOff, Burst, Claim, ClaimRequest, Commit, NewWait, Rest, RunItem, Status
from flowguard.protocol.run_history import after_commit, after_retry, newest

_IN_PLACE_OF_A_CLAIM = values_of(IN_PLACE_OF_A_CLAIM)
_YES, _NO = {"BOOL": True}, {"BOOL": False}


class _Update:
    """An UpdateItem in the making."""

    def __init__(self, changes: list[str], removed: list[str], names: dict[str, str], values: dict[str, Any]) -> None:
        self.changes = changes
        self.removed = removed
        self.names = names
        self.values = values

    def set(self, attribute: str, value: str, stored: Any) -> None:
        """Set the attribute to a value, given by its name in the expression."""
        self.changes.append(f"{attribute} = {value}")
        self.values[value] = stored

    def expression(self) -> str:
        """Return the update expression."""
        removed = f" REMOVE {', '.join(self.removed)}" if self.removed else ""
        return f"SET {', '.join(self.changes)}{removed}"


def release_call(
    table: str,
    claim: Claim,
    now: int,
    *,
    failed: bool,
    history: str = "",
    rest: Rest = None,
    called_attempt: str = "",
) -> Any:
    """Build the UpdateItem that ends a lease. With ``failed`` the item counts the attempt.

    ``called_attempt`` is the key of the next one, after a direct call. ``history`` tells of the attempt. ``rest`` notes
    why it failed, or until when the run is put off. The worker was not killed: ``kills`` is one less, since the next
    claim of the attempt adds one for each lease.
    """
    item = claim.item
    update = _Update(
        changes=["retry = :retry", "lease_until = :over", "kills = :kills"],
        removed=[],
        names={"#owner": "owner"},
        values={
            ":request_id": {"S": item.request_id},
            ":epoch": number(item.epoch),
            ":owner": {"S": item.owner},
            ":no": _NO,
            ":retry": number(item.retry + 1 if failed else item.retry),
            ":over": number(now),
            ":kills": number(-1 if failed else item.kills - 1),
        },
    )
    if called_attempt:
        update.set("called_attempt", ":called_attempt", {"S": called_attempt})
    if history:
        update.set(HISTORY, ":history", {"S": history})
    if isinstance(rest, BackOff):
        update.set("back_off", ":back_off", record_item(rest))
    elif rest is not None:
        _put_off(update, claim, now, rest)
    return {
        "TableName": table,
        "Key": run_key(claim.message.flow, claim.message.object_id),
        "UpdateExpression": update.expression(),
        "ConditionExpression": expressions.COMMIT,
        "ExpressionAttributeNames": update.names,
        "ExpressionAttributeValues": update.values,
    }


def _put_off(update: _Update, claim: Claim, now: int, burst: Burst) -> None:
    """Note until when the run is put off. What a run before it had committed to send was sent, and goes.

    The lease is over by the sender's clock too, for this worker's may be fast.
    """
    update.set("burst", ":burst", record_item(burst))
    update.values[":over"] = number(min(now, burst.requested_at))
    if claim.item.outbox is not None:
        update.removed.append("outbox")


def back_off_call(table: str, claim: Claim, back_off: BackOff) -> Any:
    """Build the UpdateItem that notes why a hop rests, under the commit's own fence. The next claim removes it."""
    return _noting(table, claim, "SET back_off = :back_off", {":back_off": record_item(back_off)})


def note_kills_call(table: str, claim: Claim) -> Any:
    """Build the UpdateItem that notes how many workers were killed before the claim. The next claim removes it."""
    return _noting(table, claim, expressions.NOTE_KILLS, {":kills": number(claim.item.kills)})


def _noting(table: str, claim: Claim, update: str, values: dict[str, Any]) -> Any:
    item = claim.item
    return {
        "TableName": table,
        "Key": run_key(claim.message.flow, claim.message.object_id),
        "UpdateExpression": update,
        "ConditionExpression": expressions.COMMIT,
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {
            ":request_id": {"S": item.request_id},
            ":epoch": number(item.epoch),
            ":owner": {"S": item.owner},
            ":no": _NO,
            **values,
        },
    }


class CommitCalls:
    """Builds the calls that commit hops."""

    def __init__(self, table: str, texts: CommitTexts) -> None:
        self._table = table
        self._texts = texts

    def commit(self, claim: Claim, commit: Commit) -> Any:
        """Build the update of a commit without ``ReturnValues``, for transactions.

        Raises :class:`flowguard.errors.TooLarge` for what no item can hold.
        """
        key = run_key(claim.message.flow, claim.message.object_id)
        texts = self._texts.pack(claim, commit, key)
        update = _ending(claim.item, commit)
        _add_look(update, claim)
        _add_failed(update, claim.item, commit)
        _add_callers(update, claim, commit)
        _add_wait(update, claim.item, commit, texts)
        _add_texts(update, texts)
        _add_history(update, claim, commit, texts, key)
        if claim.unwritten is None:
            condition, update.values[":no"] = expressions.COMMIT, _NO
        else:
            condition = _take(update, claim, claim.unwritten, commit)
        return {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": update.expression(),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": update.names,
            "ExpressionAttributeValues": update.values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def history_after_retry(self, claim: Claim, now: int, rest: Rest, called_attempt: str) -> str:
        """Return the history with an attempt that has failed, as much as the item has room for beside its error."""
        key = run_key(claim.message.flow, claim.message.object_id)
        state = self._texts.stored_state(claim)
        return newest(after_retry(claim, now), room_in_claimed(claim, key, state, rest, called_attempt))


def _ending(item: RunItem, commit: Commit) -> _Update:
    """Return the update that every commit begins with."""
    return _Update(
        changes=["#status = :status", "done = :yes", "committed_at = :committed_at", "#ttl = :ttl"],
        removed=[
            *(["stages"] if commit.status is Status.COMPLETED else []),
            *(["burst"] if item.burst is not None else []),
            *(["called_attempt"] if item.called_attempt else []),
            *expressions.FIRST_TEXT,
        ],
        names=dict(expressions.END_NAMES if commit.leaves_state else expressions.COMMIT_NAMES),
        values={
            ":request_id": {"S": item.request_id},
            ":epoch": number(item.epoch),
            ":owner": {"S": item.owner},
            ":status": {"S": commit.status.value},
            ":committed_at": number(commit.committed_at),
            ":ttl": number(commit.expires_at // 1000),
            ":yes": _YES,
        },
    )


def _add_look(update: _Update, claim: Claim) -> None:
    """Note by which look the hop came, where it stood in the line of a limit. The note of another hop goes."""
    turn = claim.message.turn
    if turn is not None:
        update.set("by_look", ":by_look", number(turn.look))
    elif claim.item.by_look is not None:
        update.removed.append("by_look")


def _add_failed(update: _Update, item: RunItem, commit: Commit) -> None:
    """Add what the commit says of where a run failed. What the hop remembers is kept for a redrive alone.

    What another hop or run has left goes: a new run under the old id of that one must not take it for its own.
    """
    memo = item.memo
    if memo is not None and not (commit.can_be_redriven and memo.is_of(item.request_id, item.hop)):
        update.removed.append("memo")
    if commit.failed is not None:
        update.set("failed", ":failed", record_item(commit.failed))
    elif commit.undone:
        update.changes.append("failed.undone = :yes")
    elif not keeps_failed(item, commit):
        update.removed.append("failed")


def _add_callers(update: _Update, claim: Claim, commit: Commit) -> None:
    """Close the list of callers, where the commit ends it, and remove what has been answered."""
    item = claim.item
    if item.askers:
        askers = {f"#asker_{place}": f"{ASKER}{key}" for place, key in enumerate(answered_askers(claim, commit))}
        update.names |= askers
        update.removed += askers
    if commit.closes_list:
        update.removed.append("callers")
        key = caller_key(item.request_id, item.requested_at)
        update.changes.append(expressions.CLOSE_CALLERS)
        update.values |= {":nobody": record_item(Callers(item.owner)), ":caller": {"S": key}}
    elif item.answered_by is not None:  # they were answered before the hop; their result goes now
        update.removed.append("answered_by")


def _add_wait(update: _Update, item: RunItem, commit: Commit, texts: PackedTexts) -> None:
    """Write the wait that the hop begins, or remove the one that it has ended."""
    if (late := kept_late(item, commit)) is not None:
        update.set("late", ":late", record_item(late))
    if commit.wait is not None:
        update.set("waiting", ":names", {"SS": sorted(commit.wait.plan.awaited)})
        update.names["#wait"] = "wait"
        update.set("#wait", ":wait", _new_wait(commit.wait, texts))
    elif item.wait is not None and not commit.can_be_redriven:
        update.names["#wait"] = "wait"
        update.removed += ["waiting", "#wait"]


def _new_wait(wait: NewWait, texts: PackedTexts) -> Item:
    """Return the wait as the commit writes it."""
    plan = texts.by_name[PLAN]
    stored = {
        "spare": number(wait.spare),
        "deadline": number(wait.deadline),
        "room": number(texts.room + SMALLEST_ANSWER * len(wait.plan.names)),
        "answers": {"M": {}},
        PLAN: plan.value if plan is not None else {"S": ""},
    }
    if wait.plan.group is not None:
        stored |= {"group": {"S": wait.plan.group.key}, "asked": number(0)}
    return {"M": stored}


def _add_texts(update: _Update, texts: PackedTexts) -> None:
    """Set or remove each long text but a wait's plan, which is a part of the wait."""
    for name, packed in texts.by_name.items():
        if name == FIRST_MESSAGE:
            update.names[f"#{name}"] = name
        if packed is None:
            update.removed.append(f"#{name}")
        elif name != PLAN:
            update.set(f"#{name}", f":{name}", packed.value)


def _add_history(update: _Update, claim: Claim, commit: Commit, texts: PackedTexts, key: Item) -> None:
    """Write what happened, as much of it as costs no write unit."""
    room = room_after_commit(claim, commit, key, texts, update.values)
    if text := newest(after_commit(claim, commit), room):
        update.set(HISTORY, ":history", {"S": text})
    elif claim.item.history:
        update.removed.append(HISTORY)
    if commit.told_until is not None and not claim.item.full_history:
        update.set("full_history", ":full_history", _YES)


def _take(update: _Update, claim: Claim, request: ClaimRequest, commit: Commit) -> str:
    """Add to a commit what the claim of its hop would have written. Return the condition for both."""
    m, before = claim.message, claim.before
    update.values |= expression_values(_IN_PLACE_OF_A_CLAIM, claim.item)
    update.changes.append(expressions.TAKE)
    if commit.status is not Status.COMPLETED and m.hop == 1:
        update.set("stages", ":stages", {"M": {m.stage: {"S": m.request_id}}})
    elif commit.status is not Status.COMPLETED:
        update.changes.append("stages.#stage = :request_id")
        update.names["#stage"] = m.stage
    if (asker := noted_asker(m)) is not None and commit.status not in ENDED:
        update.changes.append(expressions.NOTE_ASKER)
        update.names["#asker"] = f"{ASKER}{asker_key(asker.request_id)}"
        update.values[":asker"] = {"S": asker.to_text()}
    if m.hop == 1:
        update.removed.append("late")
        if commit.wait is None:
            update.removed += ["waiting", "#wait"]
            update.names["#wait"] = "wait"
    if before is None:
        return expressions.ABSENT
    update.values |= {
        ":read_request_id": {"S": before.request_id},
        ":read_epoch": number(before.epoch),
        ":read_owner": {"S": before.owner},
        ":read_done": {"BOOL": before.done},
    }
    return expressions.UNCHANGED

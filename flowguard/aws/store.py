"""The run items in DynamoDB.

A claim is one call, a commit is one call, and the answer is from that call alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, assert_never
from urllib.parse import quote

from botocore.exceptions import ClientError

from flowguard.aws import expressions
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import (
    ASKER,
    KEPT_FREE,
    KEPT_FREE_AT_THE_END,
    KEPT_FREE_TO_UNDO,
    LARGEST_ITEM,
    Item,
    callers_item,
    cancellation_item,
    failed_item,
    late_item,
    message_problem,
    number,
    read_callers,
    read_item,
    rest_size,
    run_key,
    size_of_value,
)
from flowguard.aws.packing import Packed, Packing
from flowguard.aws.refused_writes import is_at_fence, item_at_fence, refusal_of
from flowguard.aws.waits import DynamoDBWaits
from flowguard.aws.writes import write_action
from flowguard.errors import RunFailed, SettingsError, TextGone, TooLarge, shown
from flowguard.ids import RequestId
from flowguard.protocol.callers import LARGEST_HELD, MOST_HELD, Callers, LeftEnd, StoredEnd, asker_key, caller_key
from flowguard.protocol.claims import (
    answered_askers,
    begins_anew,
    begins_list,
    decide,
    noted_asker,
    refused_commit,
    taken,
)
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Outbox, StoredOutbox
from flowguard.protocol.run import (
    ENDED,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    FencedBy,
    LeftState,
    NewWait,
    Refused,
    RunItem,
    Status,
)
from flowguard.protocol.verdicts import Verdict
from flowguard.protocol.waiting import GivenAnswer, Late, WaitPlan

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.batch_calls import DynamoDBBatches
    from flowguard.aws.caller_lists import DynamoDBCallers
    from flowguard.aws.cancellations import DynamoDBCancellations
    from flowguard.aws.memos import DynamoDBMemos

PLAN = "plan"
"""The part of a wait that no answer changes, a long text."""

FIRST_MESSAGE = "first_message"
"""What a run that is reset begins anew with, a long text."""

SMALLEST_ANSWER = 256
"""Bytes that a commit leaves for the answer to each name: a failure's text, or a pointer to S3."""

_FIXED_OF_A_WAIT = 192

_SIZE_OF_CALLERS = 2 * (MOST_HELD * (LARGEST_HELD + 32) + 128)
"""Bytes reserved in the item for two lists of callers: the open one and the last one answered."""

LONGEST_IN_KEY = 512
"""Characters of a request id, quoted, within a key of S3, which has at most 1,024; a longer one becomes a digest."""

_YES, _NO = {"BOOL": True}, {"BOOL": False}
_WAITING = {"S": Status.WAITING.value}

# the values that every claim writes or compares
_SAID = {
    ":running": {"S": Status.RUNNING.value},
    ":failed": {"S": Status.FAILED.value},
    ":no": _NO,
    ":zero": number(0),
    ":one": number(1),
}


class DynamoDBStore:
    """Implements :class:`flowguard.worker.ports.Store` on one table. Safe to share between threads."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        packing: Packing,
        prefix: str = "flowguard/",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table
        self._packing = packing
        self._prefix = prefix
        self._pause = pause

    # -- claim

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        """Claim the run item with one UpdateItem.

        Both answers bring the item as the claim found it: what the item is now follows from that.

        Raises :class:`flowguard.errors.RunFailed` for a message that no run item can hold. Nothing was written then.
        """
        if problem := message_problem(request.message):
            raise RunFailed(f"the message can have no run: {problem}")
        call = self._claim_call(request)
        try:
            answer = patiently(lambda: self._client.update_item(**call), self._pause)
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return self._refused(request, error.response.get("Item"))
        found = answer.get("Attributes")
        before = self._claimed_item(request, found) if found else None
        return Claim(request.message, taken(before, request), before)

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        """Decide the claim by one consistent GetItem. Nothing is written: the commit of the hop takes it.

        Raises as :meth:`claim` does.
        """
        m = request.message
        if problem := message_problem(m):
            raise RunFailed(f"the message can have no run: {problem}")
        key = run_key(m.flow, m.object_id)
        try:
            answer: Any = patiently(
                lambda: self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True), self._pause
            )
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            raise
        found = answer.get("Item")
        if (refused := self._refused(request, found)).verdict is not Verdict.CLAIMED:
            return refused
        before = self._claimed_item(request, found) if found else None
        return Claim(m, taken(before, request), before, unwritten=request)

    def _no_table(self) -> SettingsError:
        where = f"there is no table {shown(self._table)} in {self._client.meta.region_name}"
        fix = "create it with the text keys 'pk' and 'sk', or name the right one"
        return SettingsError("FLOWGUARD_TABLE", f"{where}; {fix}. Nothing was written, and the message stays queued")

    def _claim_call(self, request: ClaimRequest) -> Any:
        m, first = request.message, request.message.hop == 1
        values: dict[str, Any] = {
            ":request_id": {"S": m.request_id},
            ":requested_at": number(m.requested_at),
            ":version": number(m.version),
            ":stage": {"S": m.stage},
            ":hop": number(m.hop),
            ":retry": number(m.retry),
            ":redrive": number(m.redrive),
            ":owner": {"S": request.owner},
            ":now": number(request.now),
            ":lease_until": number(request.lease_until),
            ":ttl": number(request.expires_at // 1000),
            **_SAID,
        }
        if first:
            names = dict(expressions.CLAIM_NAMES)
            condition, update = expressions.FIRST_HOP[request.on_conflict], expressions.CLAIM_FIRST_HOP
            values[":stages"] = {"M": {m.stage: {"S": m.request_id}}}
            if request.on_conflict is not OnConflict.SUPERSEDE:
                values[":abandoned_before"] = number(request.abandoned_before)
                values[":completed"] = {"S": Status.COMPLETED.value}
                values[":waiting"] = _WAITING
            if request.on_conflict is OnConflict.ATTACH:
                update = expressions.CLAIM_FIRST_HOP_OF_CALLERS
                names["#caller"] = caller_key(m.request_id, m.requested_at)
                values[":caller"], values[":fresh_since"] = {"S": names["#caller"]}, number(request.fresh_since)
                del names["#result"], names["#error"]
        else:
            takes_callers = request.on_conflict is OnConflict.ATTACH
            condition = expressions.LATER_HOP_OF_CALLERS if takes_callers else expressions.LATER_HOP
            update = expressions.CLAIM_RESUMED_HOP if m.resumed else expressions.CLAIM_LATER_HOP
            values[":hop_before"], values[":yes"], values[":waiting"] = number(m.hop - 1), _YES, _WAITING
            names = {**expressions.CLAIM_NAMES, "#stage": m.stage}
        noted = []
        if begins_list(request):
            noted.append(expressions.BEGIN_LIST)
            values[":nobody"] = callers_item(Callers(request.owner))
        if (asker := noted_asker(m)) is not None:
            noted.append(expressions.NOTE_ASKER)
            names["#asker"], values[":asker"] = f"{ASKER}{asker_key(asker.request_id)}", {"S": asker.to_text()}
        return {
            "TableName": self._table,
            "Key": run_key(m.flow, m.object_id),
            "UpdateExpression": update.replace(" REMOVE ", f", {', '.join(noted)} REMOVE ") if noted else update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_OLD",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _claimed_item(self, request: ClaimRequest, found: Any) -> RunItem:
        item = self._with_memo(read_item(found), found)
        if request.message.hop == 1:
            item = self._with_outbox(item, found)._replace(left=self._left(found))
            return self._with_left_end(item, found) if request.on_conflict is OnConflict.ATTACH else item
        if begins_anew(item, request.message):
            return item._replace(left=self._left(found))
        if request.message.resumed:
            item = self.with_wait(self._with_outbox(item, found), found)
        return self._with_text(item, found, "state")

    def _refused(self, request: ClaimRequest, found: Any) -> Refused:
        item = read_item(found) if found else None
        verdict = decide(item, request)
        if item is not None and verdict in (Verdict.DONE, Verdict.KEPT):
            item = self._with_text(self._with_outbox(item, found), found, "result")
            item = self._with_text(self.with_wait(item, found), found, "error")
        if item is not None and verdict is Verdict.STALE:
            item = self._with_outbox(item, found)
        if item is not None and verdict is Verdict.RESET:
            item = self.with_first_message(item, found)
        return Refused(verdict, item)

    # -- release

    def release(self, claim: Claim, now: int, *, failed: bool) -> None:
        """End the lease with one UpdateItem under the commit's own fence.

        Repeated after a lost answer it writes the same again.
        """
        call = self._release_call(claim, now, failed=failed)
        try:
            patiently(lambda: self._client.update_item(**call), self._pause)
        except ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise

    def _release_call(self, claim: Claim, now: int, *, failed: bool) -> Any:
        item = claim.item
        return {
            "TableName": self._table,
            "Key": run_key(claim.message.flow, claim.message.object_id),
            "UpdateExpression": "SET retry = :retry, lease_until = :over",
            "ConditionExpression": expressions.COMMIT,
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": {
                ":request_id": {"S": item.request_id},
                ":epoch": number(item.epoch),
                ":owner": {"S": item.owner},
                ":no": _NO,
                ":retry": number(item.retry + 1 if failed else item.retry),
                ":over": number(now),
            },
        }

    # -- commit

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        """Commit with one UpdateItem, or one TransactWriteItems where the handler recorded writes.

        Of a hop that was only read, a refusal is the verdict on its message now.
        """
        update = self._commit_call(claim, commit)
        actions: Any = [{"Update": update}, *(write_action(write) for write in commit.writes)]
        try:
            if commit.writes:
                patiently(lambda: self._client.transact_write_items(TransactItems=actions), self._pause)
                answer: Any = None
            elif commit.closes_list:  # UPDATED_NEW would do, but moto answers that without what was there before
                answer = patiently(lambda: self._client.update_item(**update, ReturnValues="ALL_NEW"), self._pause)
            else:
                answer = patiently(lambda: self._client.update_item(**update), self._pause)
        except ClientError as error:
            if is_at_fence(error):
                found = item_at_fence(error)
                refused = self._fenced(claim, commit, found)
                if claim.unwritten is not None and isinstance(refused, Fenced):
                    return self._refused(claim.unwritten, found)
                return refused
            raise refusal_of(commit.writes, error) from None
        return Committed(self._closed(claim, answer) if commit.closes_list else None)

    def _closed(self, claim: Claim, answer: Any) -> Callers:
        """Return the list that the commit has closed, from its answer. A transaction answers nothing, so it is read."""
        if answer is not None:
            return read_callers(answer["Attributes"]["answered"])
        key = run_key(claim.message.flow, claim.message.object_id)
        read: Any = patiently(
            lambda: self._client.get_item(
                TableName=self._table, Key=key, ConsistentRead=True, ProjectionExpression="answered, answered_by"
            ),
            self._pause,
        )
        found = read.get("Item", {})
        mine = found.get("answered_by", {}).get("S") == claim.item.request_id
        return read_callers(found["answered"]) if mine else Callers("")  # whoever closed another list has answered this

    def _commit_call(self, claim: Claim, commit: Commit) -> Any:
        item = claim.item
        values: dict[str, Any] = {
            ":request_id": {"S": item.request_id},
            ":epoch": number(item.epoch),
            ":owner": {"S": item.owner},
            ":status": {"S": commit.status.value},
            ":committed_at": number(commit.committed_at),
            ":ttl": number(commit.expires_at // 1000),
            ":yes": _YES,
        }
        changes = ["#status = :status", "done = :yes", "committed_at = :committed_at", "#ttl = :ttl"]
        removed = ["stages"] if commit.status is Status.COMPLETED else []
        packed, room = self._packed(claim, commit)
        names = dict(expressions.END_NAMES if commit.leaves_state else expressions.COMMIT_NAMES)
        _say_failed(item, commit, changes, removed, values)
        askers = _askers(claim, commit)
        names |= {f"#{name}": name for name in packed if name == FIRST_MESSAGE}
        names, removed = {**names, **askers}, [*removed, *askers, *(["callers"] if commit.closes_list else [])]
        values |= (closing := _closing(item, commit))
        changes += [expressions.CLOSE_CALLERS] if closing else []
        if not closing and item.answered_by is not None:  # they were answered before the hop; their result goes now
            removed.append("answered_by")
        if (late := _late(item, commit)) is not None:
            changes.append("late = :late")
            values[":late"] = late_item(late)
        if commit.wait is not None:
            names["#wait"] = "wait"
            changes += ["waiting = :names", "#wait = :wait"]
            values[":names"] = {"SS": sorted(commit.wait.plan.names)}
            values[":wait"] = _new_wait(commit.wait, packed.pop(PLAN), room)
        elif item.wait is not None and not commit.can_be_redriven:
            names["#wait"] = "wait"
            removed += ["waiting", "#wait"]
        for name, one in packed.items():
            if one is None:
                removed.append(f"#{name}")
            else:
                changes.append(f"#{name} = :{name}")
                values[f":{name}"] = one.value
        if claim.unwritten is None:
            condition, values[":no"] = expressions.COMMIT, _NO
        else:
            condition = _take(claim, claim.unwritten, commit, changes, removed, names, values)
        return {
            "TableName": self._table,
            "Key": run_key(claim.message.flow, claim.message.object_id),
            "UpdateExpression": f"SET {', '.join(changes)}" + (f" REMOVE {', '.join(removed)}" if removed else ""),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _packed(self, claim: Claim, commit: Commit) -> tuple[dict[str, Packed | None], int]:
        """Pack each long text that the commit writes, and return the bytes that are left beside them.

        None stands for a text that is removed. Raises :class:`TooLarge`, naming each size, for what no item can hold.
        """
        packed = {
            name: None if text is None else self._pack(claim, commit, name, text)
            for name, text in _long_texts(commit).items()
        }
        sizes = {name: one.size for name, one in packed.items() if one is not None}
        if "state" not in packed and claim.item.state is not None:
            sizes["state"] = self._packing.size_of(claim.item.state)
        elif "state" not in packed and claim.item.left is not None:
            sizes["state"] = claim.item.left.size
        item, key = claim.item, run_key(claim.message.flow, claim.message.object_id)
        sizes["the rest"] = rest_size(key, item.request_id, item.stages) + _kept_free(commit)
        if commit.wait is not None:
            sizes["the wait"] = _size_of_names(commit.wait)
        sizes |= {**_failed_sizes(item, commit), **_sizes_of_callers(item)}
        if item.cancellation is not None:
            sizes["the cancelled run"] = size_of_value(cancellation_item(item.cancellation))
        if (late := _late(item, commit) or item.late) is not None:
            sizes["the names without an answer"] = size_of_value(late_item(late))
        if sum(sizes.values()) > LARGEST_ITEM:
            raise TooLarge(f"the commit of {claim.message.flow}/{claim.message.stage}", sizes, LARGEST_ITEM)
        return packed, LARGEST_ITEM - sum(sizes.values())

    def _pack(self, claim: Claim, commit: Commit, name: str, text: str) -> Packed:
        """Pack one long text of the commit.

        An error always stays in the item, and so does a wait's plan: without it nobody could go on. Beside an outbox
        stands what decides whether to send it.
        """
        if name == "outbox":
            beside: dict[str, Any] = {
                "request_id": {"S": claim.item.request_id},
                "committed_at": number(commit.committed_at),
            }
            return self._packing.pack(text, self._key(claim, name), beside)
        return self._packing.pack(text, None if name in ("error", PLAN) else self._key(claim, name))

    def _key(self, claim: Claim, name: str) -> str:
        """Return a text's S3 key, another for each attempt so that none overwrites another's."""
        m, item = claim.message, claim.item
        run = quote(m.request_id, safe="")
        if len(run) > LONGEST_IN_KEY:
            run = sha256(m.request_id.encode()).hexdigest()
        return f"{self._prefix}{m.flow}/{run}/{m.hop}-{item.epoch}-{item.owner}-{name}"

    def _fenced(self, claim: Claim, commit: Commit, found: Any) -> Committed | Fenced:
        item = read_item(found) if found else None
        answer = refused_commit(claim, commit, item)
        if isinstance(answer, Committed) and commit.closes_list and item is not None:
            return Committed(item.answered)
        if isinstance(answer, Fenced) and answer.by is FencedBy.FINISHED and item is not None:
            item = self.with_wait(self._with_outbox(item, found), found)
            return Fenced(answer.by, self._with_text(self._with_text(item, found, "result"), found, "error"))
        return answer

    # -- long texts, unpacked only where they are needed

    def with_wait(self, item: RunItem, found: Item) -> RunItem:
        """Return the item with its wait's plan and answers, or with the reason why an answer is lost."""
        planned = self._with_plan(item, found)
        if planned.wait is None:
            return item
        try:
            answers = {
                name: GivenAnswer(self._packing.unpack(one["M"]["text"]), "failed" in one["M"])
                for name, one in found["wait"]["M"]["answers"]["M"].items()
            }
        except TextGone as gone:
            return planned._replace(lost=gone)
        return planned._replace(wait=planned.wait._replace(answers=answers))

    def _with_plan(self, item: RunItem, found: Item) -> RunItem:
        """Return the item with its wait's plan. That is all that settling an answer needs."""
        if item.wait is None:
            return item
        plan = WaitPlan.from_text(self._packing.unpack(found["wait"]["M"][PLAN]))
        return item._replace(wait=item.wait._replace(plan=plan))

    @property
    def waits(self) -> DynamoDBWaits:
        """Return what keeps answers and the rows that they are found by, in the same table."""
        return DynamoDBWaits(self._client, self._table, self._packing, self._with_plan, self._prefix, self._pause)

    def _with_left_end(self, item: RunItem, found: Item) -> RunItem:
        """Return the item with the end of the run before, whose callers may not have been answered yet."""
        if item.answered is None or item.answered_by is None:
            return item
        by, at, unpack = item.answered_by, item.committed_at, self._packing.unpack

        def read() -> StoredEnd:
            result = unpack(found["result"]) if "result" in found else None
            if "error" in found:
                return StoredEnd(by, at, Status.FAILED.value, result, unpack(found["error"]))
            return StoredEnd(by, at, Status.COMPLETED.value, result)

        return item._replace(left_end=LeftEnd(by, at, item.answered, read))

    @property
    def callers(self) -> DynamoDBCallers:
        """Return what keeps those who are answered with the end of a run, in the same table."""
        from flowguard.aws.caller_lists import DynamoDBCallers  # a function without callers starts quicker

        return DynamoDBCallers(self._client, self._table, self.with_first_message, self._with_end, self._pause)

    @functools.cached_property
    def batches(self) -> DynamoDBBatches:
        """Return what claims and commits several runs in one request, in the same table."""
        from flowguard.aws.batch_calls import DynamoDBBatches, RunCalls  # a function without batches starts quicker

        release = functools.partial(self._release_call, failed=False)
        calls = RunCalls(self._claim_call, self._claimed_item, self._refused, self._commit_call, self._fenced, release)
        return DynamoDBBatches(self._client, calls)

    @property
    def cancellations(self) -> DynamoDBCancellations:
        """Return what cancels runs, in the same table."""
        from flowguard.aws.cancellations import DynamoDBCancellations  # most functions cancel nothing

        return DynamoDBCancellations(self._client, self._table, self._with_plan, self._pause)

    def with_first_message(self, item: RunItem, found: Item) -> RunItem:
        """Return the item with what its work begins anew with."""
        if FIRST_MESSAGE not in found:
            return item
        return item._replace(first_message=self._packing.unpack(found[FIRST_MESSAGE]))

    def _left(self, found: Item) -> LeftState | None:
        """Return the state that the run before has left. Nothing is read before it is asked for."""
        if "state" not in found:
            return None
        return LeftState(functools.partial(self._packing.unpack, found["state"]), size_of_value(found["state"]))

    def _with_memo(self, item: RunItem, found: Item) -> RunItem:
        if "memo" not in found:
            return item
        from flowguard.aws.memos import read_memo  # a function that remembers nothing starts quicker

        return item._replace(memo=read_memo(found, self._packing.unpack))

    @property
    def memos(self) -> DynamoDBMemos:
        """Return what keeps the memory of hops, in the same table."""
        from flowguard.aws.memos import DynamoDBMemos  # a function that remembers nothing starts quicker

        return DynamoDBMemos(self._client, self._table, self._packing, self._key, self._pause)

    def _with_outbox(self, item: RunItem, found: Any) -> RunItem:
        if "outbox" not in found:
            return item
        stored = found["outbox"]
        match stored:
            case {"M": {"request_id": {"S": request_id}, "committed_at": {"N": at}}}:
                read = functools.partial(self._packing.unpack, stored)
                return item._replace(outbox=StoredOutbox(RequestId(request_id), int(at), read))
            case {"M": _}:  # as versions before this one wrote it: of a run that the item may not name any more
                read = functools.partial(self._packing.unpack, stored)
                return item._replace(outbox=StoredOutbox(RequestId(""), item.committed_at, read))
            case _:
                return item._replace(outbox=Outbox.from_text(self._packing.unpack(stored)))

    def _with_text(self, item: RunItem, found: Any, name: Literal["state", "result", "error"]) -> RunItem:
        """Return the item with one of its long texts, or with the reason why that is lost."""
        if name not in found:
            return item
        try:
            text = self._packing.unpack(found[name])
        except TextGone as gone:
            return item._replace(lost=gone)
        match name:
            case "state":
                return item._replace(state=text)
            case "result":
                return item._replace(result=text)
            case "error":
                return item._replace(error=text)
            case _:
                assert_never(name)

    # -- for tools and tests, never called while a message is handled

    def read(self, flow: str, object_id: Any) -> RunItem | None:
        """Read the whole item consistently."""
        key = run_key(flow, object_id)
        found: Any = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return self.whole(found) if found else None

    def whole(self, found: Item) -> RunItem:
        """Return everything an item holds, its long texts too."""
        item = self._with_memo(self.with_wait(self._with_outbox(read_item(found), found), found), found)
        item = self._with_text(item, found, "state")
        if item.status not in ENDED and not item.done:  # what is there is of the run before
            return self._with_left_end(item, found) if item.hop == 1 else item
        return self._with_end(item, found)

    def _with_end(self, item: RunItem, found: Item) -> RunItem:
        return self._with_text(self._with_text(item, found, "result"), found, "error")


def _long_texts(commit: Commit) -> dict[str, str | None]:
    """Return what the commit says of each long text. A hop that failed leaves the state as it is."""
    texts = {
        "outbox": commit.outbox.to_text() if commit.outbox is not None else None,
        "result": commit.result,
        "error": str(commit.error) if commit.error is not None else None,
    }
    if commit.wait is not None:
        texts[PLAN] = commit.wait.plan.to_text()
    if commit.first_message is not None or commit.closes_list:
        texts[FIRST_MESSAGE] = commit.first_message
    return texts if commit.leaves_state else {**texts, "state": commit.state}


def _take(
    claim: Claim,
    request: ClaimRequest,
    commit: Commit,
    changes: list[str],
    removed: list[str],
    names: dict[str, str],
    values: dict[str, Any],
) -> str:
    """Add to a commit what the claim of its hop would have written. Return the condition for both."""
    m, found = claim.message, claim.before
    values |= {
        ":requested_at": number(m.requested_at),
        ":version": number(m.version),
        ":stage": {"S": m.stage},
        ":hop": number(m.hop),
        ":retry": number(m.retry),
        ":redrive": number(m.redrive),
        ":lease_until": number(request.lease_until),
    }
    changes.append(expressions.TAKE)
    if commit.status is not Status.COMPLETED and m.hop == 1:
        changes.append("stages = :stages")
        values[":stages"] = {"M": {m.stage: {"S": m.request_id}}}
    elif commit.status is not Status.COMPLETED:
        changes.append("stages.#stage = :request_id")
        names["#stage"] = m.stage
    if (asker := noted_asker(m)) is not None and commit.status not in ENDED:
        changes.append(expressions.NOTE_ASKER)
        names["#asker"], values[":asker"] = f"{ASKER}{asker_key(asker.request_id)}", {"S": asker.to_text()}
    if m.hop == 1:
        removed.append("late")
        if commit.wait is None:
            removed += ["waiting", "#wait"]
            names["#wait"] = "wait"
    if found is None:
        return expressions.ABSENT
    values |= {
        ":read_request_id": {"S": found.request_id},
        ":read_epoch": number(found.epoch),
        ":read_owner": {"S": found.owner},
        ":read_done": {"BOOL": found.done},
    }
    return expressions.UNCHANGED


def _say_failed(item: RunItem, commit: Commit, changes: list[str], removed: list[str], values: dict[str, Any]) -> None:
    """Add what the commit says of where a run failed. What the hop remembers is kept for a redrive alone."""
    if item.memo is not None and not commit.can_be_redriven:
        removed.append("memo")
    if commit.failed is not None:
        changes.append("failed = :failed")
        values[":failed"] = failed_item(commit.failed)
    elif commit.undone:
        changes.append("failed.undone = :yes")
    elif not _keeps_failed(item, commit):
        removed.append("failed")


def _failed_sizes(item: RunItem, commit: Commit) -> dict[str, int]:
    """Return the bytes of what the item keeps because a hop has failed."""
    sizes: dict[str, int] = {}
    failed = commit.failed or (item.failed if _keeps_failed(item, commit) else None)
    if failed is not None:
        sizes["the failure"] = size_of_value(failed_item(failed))
    if item.wait is not None and commit.can_be_redriven:  # its answers stay, for a redrive
        sizes["the answers"] = item.wait.size
    if item.memo is not None and commit.can_be_redriven:  # nor is what was done once done again then
        sizes["what it remembers"] = item.memo.size
    return sizes


def _kept_free(commit: Commit) -> int:
    if commit.can_be_redriven:
        return KEPT_FREE_AT_THE_END
    return KEPT_FREE if commit.failed is None else KEPT_FREE_TO_UNDO


def _keeps_failed(item: RunItem, commit: Commit) -> bool:
    """Answer whether the commit keeps the item's note of where a run failed."""
    return item.failed is None or item.own_failure is not None or commit.can_be_redriven


def _closing(item: RunItem, commit: Commit) -> Item:
    """Return the values by which a commit closes the list of callers. Nothing where it leaves that open."""
    if not commit.closes_list:
        return {}
    own = caller_key(item.request_id, item.requested_at)
    return {":nobody": callers_item(Callers(item.owner)), ":caller": {"S": own}}


def _askers(claim: Claim, commit: Commit) -> dict[str, str]:
    """Return the attributes of those who need not be answered any more, by names for an expression."""
    return {f"#asker_{place}": f"{ASKER}{key}" for place, key in enumerate(answered_askers(claim, commit))}


def _sizes_of_callers(item: RunItem) -> dict[str, int]:
    """Return the bytes of the callers by name. Lists count with the most that they may take."""
    lists = {} if item.callers is None and item.answered is None else {"its callers": _SIZE_OF_CALLERS}
    asked = sum(len(ASKER) + len(key) + len(text.encode()) for key, text in item.askers.items())
    return {**lists, "who asked": asked} if asked else lists


def _late(item: RunItem, commit: Commit) -> Late | None:
    """Return what the commit keeps of a wait that timed out. A failed hop keeps the whole wait, for a redrive."""
    wait = item.wait
    if wait is None or not wait.timed_out or commit.can_be_redriven:
        return None
    return Late(item.hop - 1, wait.waiting)  # a wait that times out has names without an answer


def _new_wait(wait: NewWait, plan: Packed | None, room: int) -> Item:
    """Return the wait as the commit writes it."""
    stored = {
        "spare": number(wait.spare),
        "deadline": number(wait.deadline),
        "room": number(room + SMALLEST_ANSWER * len(wait.plan.names)),
        "answers": {"M": {}},
        PLAN: plan.value if plan is not None else {"S": ""},
    }
    return {"M": stored}


def _size_of_names(wait: NewWait) -> int:
    """Return the bytes of a new wait beside its plan, with what the smallest answer to each name takes."""
    return _FIXED_OF_A_WAIT + sum(2 * len(name.encode()) + SMALLEST_ANSWER for name in wait.plan.names)

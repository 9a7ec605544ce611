"""The run items in DynamoDB.

A claim is one call, a commit is one call, and the answer is from that call alone.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors
from flowguard.aws.claim_call import claim_call
from flowguard.aws.commit_call import CommitCalls, back_off_call, note_kills_call, release_call
from flowguard.aws.commit_texts import CommitTexts
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.item_texts import ItemTexts
from flowguard.aws.items import Item, message_problem, read_item, read_record, run_key
from flowguard.aws.packing import Packing
from flowguard.aws.refused_writes import is_at_fence, item_at_fence, refusal_of
from flowguard.aws.writes import write_action
from flowguard.errors import RunFailed, SettingsError, shown
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.payload.codec import Codecs
from flowguard.protocol.callers import Callers
from flowguard.protocol.claims import begins_anew, decide, refused_commit, taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import (
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    FencedBy,
    Refused,
    Rest,
    RunItem,
)
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.batch_calls import DynamoDBBatches
    from flowguard.aws.caller_lists import DynamoDBCallers
    from flowguard.aws.cancellations import DynamoDBCancellations
    from flowguard.aws.memos import DynamoDBMemos
    from flowguard.aws.place_items import DynamoDBPlaces
    from flowguard.aws.waits import DynamoDBWaits


class DynamoDBStore:
    """Implements :class:`flowguard.worker.ports.Store` on one table. Safe to share between threads."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        packing: Packing,
        prefix: str = "flowguard/",
        pause: Callable[[float], None] = time.sleep,
        once: Callable[[], DynamoDBClient] | None = None,
        names: Names = AS_IN_CODE,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``once`` returns a client that makes no call twice by itself, for the requests of groups.

        ``table`` is a name at AWS; ``names`` say what tables of recorded writes are called there. ``draw`` returns the
        jitter of pauses, from 0 to 1.
        """
        self._client = client
        self._once = once
        self._table = table
        self._packing = packing
        self._prefix = prefix
        self._pause = pause
        self._draw = draw
        self._names = names
        self._item_texts = ItemTexts(packing)
        self._commit_texts = CommitTexts(packing, prefix)
        self._calls = CommitCalls(table, self._commit_texts)

    # -- claim

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        """Claim the run item with one UpdateItem.

        Both answers bring the item as the claim found it: what the item is now follows from that.

        Raises :class:`flowguard.errors.RunFailed` for a message that no run item can hold. Nothing was written then.
        """
        if problem := message_problem(request.message):
            raise RunFailed(f"the message can have no run: {problem}")
        call = claim_call(self._table, request)
        try:
            answer = patiently(lambda: self._client.update_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return self._refused(request, error.response.get("Item"))
        raw = answer.get("Attributes")
        before = self._claimed_item(request, raw) if raw else None
        return Claim(request.message, taken(before, request), before, at=request.now)

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
        except botocore_errors.ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            raise
        return self._judged(request, answer.get("Item"))

    def _judged(self, request: ClaimRequest, raw: Any) -> Claim | Refused:
        if (refused := self._refused(request, raw)).verdict is not Verdict.CLAIMED:
            return refused
        before = self._claimed_item(request, raw) if raw else None
        return Claim(request.message, taken(before, request), before, unwritten=request, at=request.now)

    def _no_table(self) -> SettingsError:
        where = f"there is no table {shown(self._table)} in {self._client.meta.region_name}"
        fix = "create it with the text keys 'pk' and 'sk', or name the right one"
        return SettingsError("FLOWGUARD_TABLE", f"{where}; {fix}. Nothing was written, and the message stays queued")

    def _claimed_item(self, request: ClaimRequest, raw: Any) -> RunItem:
        item = self._item_texts.with_memo(read_item(raw), raw)
        if request.message.hop == 1:
            item = self._item_texts.with_outbox(item, raw)._replace(left=self._item_texts.left(raw))
            return self._item_texts.with_left_end(item, raw) if request.on_conflict is OnConflict.ATTACH else item
        if begins_anew(item, request.message):
            return item._replace(left=self._item_texts.left(raw))
        if request.message.resumed:
            item = self._item_texts.with_wait(self._item_texts.with_outbox(item, raw), raw)
        return self._item_texts.with_text(item, raw, "state")

    def _refused(self, request: ClaimRequest, raw: Any) -> Refused:
        item = read_item(raw) if raw else None
        verdict = decide(item, request)
        if item is not None and verdict in (Verdict.DONE, Verdict.KEPT):
            item = self._item_texts.with_text(self._item_texts.with_outbox(item, raw), raw, "result")
            item = self._item_texts.with_text(self._item_texts.with_wait(item, raw), raw, "error")
        if item is not None and verdict is Verdict.STALE:
            item = self._item_texts.with_outbox(item, raw)
        if item is not None and verdict is Verdict.RESET:
            item = self._item_texts.with_first_message(item, raw)
        return Refused(verdict, item)

    # -- release

    def release(self, claim: Claim, now: int, *, failed: bool, rest: Rest = None, called_attempt: str = "") -> None:
        """End the lease with one UpdateItem under the commit's own fence, and note why the attempt failed.

        Repeated after a lost answer it writes the same again.
        """
        history = self._calls.history_after_retry(claim, now, rest, called_attempt) if failed else ""
        call = release_call(
            self._table, claim, now, failed=failed, history=history, rest=rest, called_attempt=called_attempt
        )
        self._write_fenced(call)

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        """Note with one UpdateItem why the hop rests. Nothing is written where its worker is fenced."""
        self._write_fenced(back_off_call(self._table, claim, back_off))

    def note_kills(self, claim: Claim) -> None:
        """Note them with one UpdateItem under the commit's own fence. Repeated after a lost answer it is the same."""
        self._write_fenced(note_kills_call(self._table, claim))

    def _write_fenced(self, call: Any) -> None:
        """Write under the commit's own fence. A worker that is fenced writes nothing."""
        try:
            patiently(lambda: self._client.update_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        """Write the row of a failed attempt with one TransactWriteItems, under the commit's own fence."""
        from flowguard.aws.history_rows import tell  # most flows have no full history

        tell(self._client, self._table, claim, error, self._pause)

    # -- commit

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        """Commit with one UpdateItem, or one TransactWriteItems where something else is written with it.

        That is what the handler recorded, and the row of a full history.

        Of a hop that was only read, a refusal is the verdict on its message now.
        """
        update = self._calls.commit(claim, commit)
        actions: Any = [{"Update": update}, *(write_action(write, self._names) for write in commit.writes)]
        if commit.told_until is not None:
            from flowguard.aws.history_rows import row_of_commit  # most flows have no full history

            actions.append(row_of_commit(self._table, claim, commit, commit.told_until))
        try:
            if len(actions) > 1:
                patiently(lambda: self._client.transact_write_items(TransactItems=actions), self._pause)
                answer: Any = None
            elif commit.closes_list:  # UPDATED_NEW would do, but moto answers that without what was there before
                answer = patiently(lambda: self._client.update_item(**update, ReturnValues="ALL_NEW"), self._pause)
            else:
                answer = patiently(lambda: self._client.update_item(**update), self._pause)
        except botocore_errors.ClientError as error:
            if is_at_fence(error):
                return self._fenced(claim, commit, item_at_fence(error))
            raise refusal_of(commit.writes, error) from None
        return Committed(self._closed(claim, answer) if commit.closes_list else None)

    def _closed(self, claim: Claim, answer: Any) -> Callers:
        """Return the list that the commit has closed, from its answer. A transaction answers nothing, so it is read."""
        if answer is not None:
            return read_record(Callers, answer["Attributes"]["answered"])
        key = run_key(claim.message.flow, claim.message.object_id)
        read: Any = patiently(
            lambda: self._client.get_item(
                TableName=self._table, Key=key, ConsistentRead=True, ProjectionExpression="answered, answered_by"
            ),
            self._pause,
        )
        raw = read.get("Item", {})
        mine = raw.get("answered_by", {}).get("S") == claim.item.request_id
        # where another run has ended since, it has answered these callers too: nobody is left
        return read_record(Callers, raw["answered"]) if mine else Callers("")

    def _fenced(self, claim: Claim, commit: Commit, raw: Any) -> Committed | Fenced | Refused:
        item = read_item(raw) if raw else None
        answer = refused_commit(claim, commit, item)
        if isinstance(answer, Fenced) and claim.unwritten is not None:
            return self._refused(claim.unwritten, raw)
        if isinstance(answer, Committed) and commit.closes_list and item is not None:
            return Committed(item.answered)
        if isinstance(answer, Fenced) and answer.by is FencedBy.FINISHED and item is not None:
            item = self._item_texts.with_wait(self._item_texts.with_outbox(item, raw), raw)
            return Fenced(answer.by, self._item_texts.with_end(item, raw))
        return answer

    # -- long texts, unpacked only where they are needed

    @property
    def codecs(self) -> Codecs:
        """Return the codecs by which texts are packed."""
        return self._packing.codecs

    @property
    def waits(self) -> DynamoDBWaits:
        """Return what keeps answers and the rows that they are found by, in the same table."""
        from flowguard.aws.wait_calls import WaitCalls  # a function that waits for nothing starts quicker
        from flowguard.aws.waits import DynamoDBWaits  # the same

        with_plan, packing = self._item_texts.with_plan, self._packing
        return DynamoDBWaits(
            WaitCalls(self._client, self._table, packing, with_plan, self._prefix, self._pause, self._once)
        )

    @property
    def callers(self) -> DynamoDBCallers:
        """Return what keeps those who are answered with the end of a run, in the same table."""
        from flowguard.aws.caller_lists import DynamoDBCallers  # a function without callers starts quicker

        return DynamoDBCallers(
            self._client, self._table, self._item_texts.with_first_message, self._item_texts.with_end, self._pause
        )

    @functools.cached_property
    def batches(self) -> DynamoDBBatches:
        """Return what claims, reads and commits several runs in one request, in the same table."""
        from flowguard.aws.batch_calls import DynamoDBBatches, RunCalls  # a function without batches starts quicker

        release = functools.partial(release_call, self._table, failed=False)
        calls = RunCalls(
            functools.partial(claim_call, self._table),
            self._claimed_item,
            self._refused,
            self._judged,
            self._calls.commit,
            self.commit,
            self._fenced,
            release,
        )
        return DynamoDBBatches(self._client, self._table, calls)

    @property
    def cancellations(self) -> DynamoDBCancellations:
        """Return what cancels runs, in the same table."""
        from flowguard.aws.cancellations import DynamoDBCancellations  # most functions cancel nothing

        return DynamoDBCancellations(self._client, self._table, self._item_texts.with_plan, self._pause)

    @property
    def memos(self) -> DynamoDBMemos:
        """Return what keeps the memory of hops, in the same table."""
        from flowguard.aws.memos import DynamoDBMemos  # a function that remembers nothing starts quicker

        return DynamoDBMemos(self._client, self._table, self._packing, self._commit_texts.key, self._pause, self._names)

    @property
    def places(self) -> DynamoDBPlaces:
        """Return what keeps the places of limits, in the same table."""
        from flowguard.aws.place_items import DynamoDBPlaces  # most stages have no limit

        return DynamoDBPlaces(self._client, self._table, self._packing, self._pause, self._draw)

    # -- for tools and tests, never called while a message is handled

    def read(self, flow: str, object_id: Any) -> RunItem | None:
        """Read the whole item consistently."""
        key = run_key(flow, object_id)
        raw: Any = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        return self.whole(raw) if raw else None

    def whole(self, raw: Item) -> RunItem:
        """Return everything an item holds, its long texts too."""
        return self._item_texts.whole(raw)

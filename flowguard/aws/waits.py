"""The store of waits. It settles answers, and keeps the rows by which they find their runs.

::

    pk run#<flow>#<object>   sk run        the run item: the names without an answer, and the answers
    pk wait#<flow>#<id>      sk <digest>#…  a row for each run that waits for the id: flow, object, request, hop, name
    pk wait#<flow>#<id>      sk early       an answer that came before anything waited for it
    pk wait#<flow>#<id>      sk #place#…    the row up to which an answer for many is settled
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.batch_writes import write_rows
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import (
    KEPT_FREE,
    LARGEST_ITEM,
    Item,
    about_of,
    awaiting_key,
    number,
    read_item,
    run_key,
    size_of_value,
)
from flowguard.aws.packing import Packed
from flowguard.aws.refused_writes import is_at_fence, is_only_beside_fence, item_at_fence
from flowguard.aws.wait_calls import WaitCalls, ended_by, is_at, message_name, read_run, run_values, stored_answer
from flowguard.errors import RowsUnwritten, TooLarge, shown
from flowguard.protocol.answers import judge
from flowguard.protocol.groups import Member, request_of
from flowguard.protocol.run import AwaitingRow, Looked, RunItem, Settled, TimedOut
from flowguard.protocol.waiting import ALL_HAVE_IT, EarlyAnswer, GivenAnswer, Kept, Look, Use
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.worker.routing import CLOCKS_DIFFER_BY_MS

if TYPE_CHECKING:
    from flowguard.aws.group_items import DynamoDBGroups

LARGEST_EARLY = LARGEST_ITEM - KEPT_FREE
"""Bytes of an answer that is kept before its wait, beside which its keys have to fit."""

PLACE = "#place#"
"""The prefix of the sort keys that mark how far an answer for many was settled. No row sorts before them."""

EARLY = "early"
"""The sort key of an answer that came before its wait. Rows have a digest there."""


class _NotKept(Enum):
    """Why an answer that its run waits for was not kept."""

    NO_ROOM = auto()
    USED = auto()


class DynamoDBWaits(NamedTuple):
    """Implements :class:`flowguard.worker.ports.Waits` on the run table.

    The answers, which may be in S3, are read by the resumed hop's claim alone.
    """

    calls: WaitCalls

    @property
    def groups(self) -> DynamoDBGroups:
        """Return what keeps groups of requests, in the same table."""
        from flowguard.aws.group_items import DynamoDBGroups  # a function without groups starts quicker

        return DynamoDBGroups(self.calls)

    # -- answers

    def settle(self, address: AnswerAddress, answer: GivenAnswer) -> Settled:
        """Keep the answer with one UpdateItem, if the run waits for it. Both replies bring the item.

        An answer that the item has no room for goes to S3, with a second call. Raises :class:`TooLarge` without a
        bucket; then nothing was kept. The answer to a group's request is kept by :attr:`groups`.
        """
        if (member := Member.parse(address.name)) is not None:
            return self.groups.settle(address, member, answer)
        settled = self._settled(address, answer, None)
        assert isinstance(settled, Settled)  # noqa: S101 - nothing was to be used
        return settled

    def take(self, address: AnswerAddress, answer: GivenAnswer, use: Use) -> Settled | None:
        """Settle an answer that is kept and use it up, with one TransactWriteItems and a read of what it has made.

        None where another has used it, or a newer one has come since; then nothing was written. The id of a group's
        request is of one run alone, so that is settled as any answer.
        """
        if Member.parse(address.name) is not None:
            return self.settle(address, answer)
        settled = self._settled(address, answer, use)
        return settled if isinstance(settled, Settled) else None

    def _settled(self, address: AnswerAddress, answer: GivenAnswer, use: Use | None) -> Settled | _NotKept:
        about = about_of(run_key(address.flow, address.object_id), f"answer {address.name}")
        for packed in self.calls.forms(address, answer, "answers", about):
            settled = self._settle(address, answer, packed, use)
            if settled is not _NotKept.NO_ROOM:
                return settled
        size = self.calls.packing.size_of(answer.text, about=about)
        raise TooLarge(f"the answer {address.name!r}", {"answer": size}, self._room(address))

    def verdict(self, address: AnswerAddress) -> AnswerVerdict:
        """Return the verdict that an answer would get, with one consistent GetItem. Nothing is kept."""
        if (member := Member.parse(address.name)) is not None:
            return self.groups.verdict(address, member)
        return judge(read_run(self.calls.run(address)), address)

    def _settle(
        self, address: AnswerAddress, answer: GivenAnswer, packed: Packed, use: Use | None
    ) -> Settled | _NotKept:
        counts = address.admits or not answer.failed
        call = self._answer_call(address, answer, counts, packed)
        try:
            if use is not None:
                return self._taken(address, call, use)
            answered: Any = patiently(
                lambda: self.calls.client.update_item(**call, ReturnValues="ALL_OLD"), self.calls.pause
            )
        except botocore_errors.ClientError as error:
            if not is_at_fence(error):
                raise
            return self._refused(address, counts, item_at_fence(error))
        before = read_item(raw := answered["Attributes"])
        after = _after(before, address, counts)
        is_over = after.wait is not None and after.wait.end is not None
        return Settled(judge(before, address, counts=counts), self.calls.with_plan(after, raw) if is_over else after)

    def _taken(self, address: AnswerAddress, call: Any, use: Use) -> Settled | _NotKept:
        """Make the call and use up what is kept, both or nothing. Then read the item."""
        used: Any = {
            "TableName": self.calls.table,
            "Key": _early_key(address.flow, use.id),
            "UpdateExpression": expressions.SET_USED,
            "ConditionExpression": expressions.USE_EARLY,
            "ExpressionAttributeValues": {":by": {"S": use.by}, ":who": {"S": use.user}},
        }
        actions: Any = [{"Update": call}, {"Update": used}]
        try:
            patiently(lambda: self.calls.client.transact_write_items(TransactItems=actions), self.calls.pause)
        except botocore_errors.ClientError as error:
            if not is_only_beside_fence(error):
                raise
            return _NotKept.USED
        raw = self.calls.run(address)
        item = self.calls.at_rest(address, read_run(raw), raw)
        is_over = item is not None and item.wait is not None and item.wait.plan is not None
        return Settled(AnswerVerdict.RESUMED if is_over else AnswerVerdict.RECORDED, item)

    def _refused(self, address: AnswerAddress, counts: bool, raw: Any) -> Settled | _NotKept:
        item = read_run(raw)
        verdict = judge(item, address, counts=counts)
        if verdict in (AnswerVerdict.RESUMED, AnswerVerdict.RECORDED):
            return _NotKept.NO_ROOM
        may_have_ended_it = item is not None and ended_by(item, address.name)
        return Settled(verdict, self.calls.at_rest(address, item, raw) if may_have_ended_it else item)

    def _answer_call(self, address: AnswerAddress, answer: GivenAnswer, counts: bool, packed: Packed) -> Any:
        stored = stored_answer(packed, answer)
        values: dict[str, Any] = {
            **run_values(address),
            ":name": {"S": address.name},
            ":names": {"SS": [address.name]},
            ":answer": stored,
            ":size": number(size_of_value(stored) + len(address.name.encode()) + 1),
        }
        if not counts:
            values[":one"] = number(1)
        return {
            "TableName": self.calls.table,
            "Key": run_key(address.flow, address.object_id),
            "UpdateExpression": expressions.KEEP_ANSWER if counts else expressions.KEEP_FAILURE,
            "ConditionExpression": expressions.ANSWER,
            "ExpressionAttributeNames": {**expressions.ANSWER_NAMES, "#name": address.name},
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _room(self, address: AnswerAddress) -> int:
        """Read how many bytes the item has left for answers."""
        item = read_run(self.calls.run(address))
        return item.wait.room if item is not None and item.wait is not None else 0

    # -- the deadline

    def time_out(self, address: AnswerAddress, now: int) -> TimedOut:
        """End the wait with one UpdateItem, if it goes on and its deadline has passed at ``now`` (ms)."""
        changes = {":yes": {"BOOL": True}, ":now": number(now)}
        applied, item = self._changed(address, expressions.END_WAIT, expressions.TIME_OUT, changes, ends=True)
        if not applied or item is None or item.wait is None:
            return TimedOut(False, item)
        return TimedOut(True, item._replace(wait=item.wait._replace(timed_out=True)))

    def look(self, address: AnswerAddress, look: Look) -> Looked:
        """Note the look with one UpdateItem, if no copy of the message has looked before.

        The first look is noted also where the wait is over and the run has not gone on; then it does not go on.
        """
        by = message_name(look.by)
        changes = {
            ":since": number(look.since),
            ":long_ago": number(look.long_ago),
            ":at": number(look.at),
            ":by": {"S": by},
        }
        applied, item = self._changed(address, expressions.LOOK, expressions.TIME_OUT_LATER, changes)
        if item is None or item.wait is None:
            return Looked(False, item)
        if applied:
            return Looked(item.wait.end is None, item._replace(wait=item.wait.looked(look._replace(by=by))))
        here = is_at(item, address) and item.wait.end is None
        return Looked(here and item.wait.looked_by == by, item)

    def _changed(
        self, address: AnswerAddress, update: str, condition: str, changes: Item, *, ends: bool = False
    ) -> tuple[bool, RunItem | None]:
        """Change a wait. Returns whether that was done, and the item as it was found.

        ``ends`` says that the wait is over then, so that its plan is needed. So it is where the wait was over before.
        """
        applied, raw = self.calls.change_run(address, update, condition, changes, expressions.WAIT_NAMES)
        if not applied or raw is None:
            return False, self.calls.at_rest(address, read_run(raw), raw)
        item = read_item(raw)
        is_over = ends or (item.wait is not None and item.wait.end is not None)
        return True, self.calls.with_plan(item, raw) if is_over else item

    # -- rows

    def save(self, rows: Sequence[AwaitingRow]) -> None:
        """Write the rows, 25 to a BatchWriteItem. What DynamoDB leaves unprocessed is written again."""
        requests = [{"PutRequest": {"Item": _item(row)}} for row in rows]
        if left := write_rows(self.calls.client, self.calls.table, requests, self.calls.pause):
            raise RowsUnwritten(left, "rows of what is awaited")

    def waiting_for(self, flow: str, awaited_id: str, by: str = "") -> Iterator[AwaitingRow]:
        """Yield who waits for the id, with one consistent query a page. A group has one row for all its requests.

        Those whom the message ``by`` has reached in an earlier invocation are left out.
        """
        if (pair := request_of(awaited_id)) is not None:
            for row in self.waiting_for(flow, pair[0]):
                yield row._replace(id=awaited_id, address=row.address._replace(name=pair[1].text))
        for _, rows in groupby(self._rows(flow, awaited_id, by), key=lambda row: row.address):
            yield self._committed(list(rows))

    def _rows(self, flow: str, awaited_id: str, by: str) -> Iterator[AwaitingRow]:
        pk = awaiting_key(flow, awaited_id)["pk"]
        for page in self.calls.query(pk):
            if (after := _after_place(page["Items"], by)) is not None:
                for later in self.calls.query(pk, after):
                    yield from _rows(awaited_id, later["Items"])
                return
            yield from _rows(awaited_id, page["Items"])

    def _committed(self, rows: Sequence[AwaitingRow]) -> AwaitingRow:
        """Return the row of the attempt that was committed. Of several for its stage the last to expire stands for it.

        Until one is committed, the last stands for all: the answer is early, and comes again.
        """
        if len(rows) == 1:
            return rows[0]
        stored: Any = self.calls.run(rows[0].address)
        item = read_run(stored)
        wait = None if item is None else self.calls.with_plan(item, stored).wait
        committed = None if wait is None or wait.plan is None else wait.plan.stage
        return ([row for row in rows if row.stage == committed] or rows)[-1]

    def keep_place(self, flow: str, awaited_id: str, by: str, row: AwaitingRow, until: int) -> None:
        """Keep the row up to which the message ``by`` is settled, with one PutItem. It stands before all rows."""
        item: Any = {
            **awaiting_key(flow, awaited_id),
            "sk": {"S": _place_of(by)},
            "after": _item(row)["sk"],
            "ttl": number(until // 1000),
        }
        calls = self.calls
        patiently(lambda: calls.client.put_item(TableName=calls.table, Item=item), calls.pause)

    # -- answers that come before their wait

    def keep_early(  # noqa: PLR0913 - everything but the first three is named
        self,
        flow: str,
        awaited_id: str,
        answer: GivenAnswer,
        *,
        now: int,
        expires_at: int,
        known_until: int = 0,
        by: str = "",
        at: int = 0,
        names: Sequence[str] = (),
        waited: str = "",
    ) -> Kept:
        """Keep an answer that nothing may wait for yet, for waits that begin until ``expires_at``. Times are in ms.

        ``by`` names its message, sent at ``at``: a newer one takes the place of an older one. The item stays until
        ``known_until``, so that a copy of the message is no new one. ``names`` are those that its sender may answer;
        none stand for all. ``waited`` names who waits already, and has it first. DynamoDB may remove an expired item
        days later, so one that is still there does not count.

        Raises :class:`TooLarge` for one that no item can hold, where there is no bucket; then nothing was kept.
        """
        key, packing = _early_key(flow, awaited_id), self.calls.packing
        place = self.calls.text_key(flow, "answers", awaited_id, packing.tells_apart(answer.text, flow))
        packed = packing.pack(answer.text, place, about=about_of(key, "answer"))
        if packed.size > LARGEST_EARLY:
            raise TooLarge(f"the answer for {shown(awaited_id)}", {"answer": packed.size}, LARGEST_EARLY)
        item = {
            **key,
            "text": packed.value,
            "good_until": number(expires_at // 1000),
            "ttl": number(max(expires_at, known_until) // 1000),
            "given_by": {"S": by},
            "given_at": number(at),
            "waited": {"S": waited},
            **({"failed": {"BOOL": True}} if answer.failed else {}),
            **({"names": {"SS": sorted(set(names))}} if names else {}),
        }
        call: Any = {
            "TableName": self.calls.table,
            "Item": item,
            "ConditionExpression": expressions.KEEP_EARLY,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {
                ":now": number(now // 1000),
                ":at": number(at),
                ":by": {"S": by},
                ":believed": number(now + CLOCKS_DIFFER_BY_MS),
            },
            "ReturnValues": "ALL_OLD",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            before: Any = patiently(lambda: self.calls.client.put_item(**call), self.calls.pause).get("Attributes")
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return _kept_before(error.response.get("Item"), by, frozenset(names))
        return Kept(is_new=True, replaces=bool(before) and "used_by" not in before and not _is_over(before, now))

    def early(self, flow: str, awaited_id: str, now: int, reader: str = "") -> EarlyAnswer | None:
        """Read the answer that is kept for the id at ``now`` (ms), consistently. None where another has used it.

        A wait finds the answer that it has used whenever it looks: its first worker may have died.
        """
        kept = self.calls.get(_early_key(flow, awaited_id))
        user = _text(kept, "used_by") if kept else ""
        if not kept or (user != reader if user else _is_over(kept, now)):
            return None
        answer = self.calls.read_answer(kept, about_of(kept, "answer"))
        return EarlyAnswer(answer, _text(kept, "given_by"), _names(kept), _text(kept, "waited"))

    def free_early(self, flow: str, awaited_id: str, by: str) -> bool:
        """Leave what is kept to the next wait that takes it, with one UpdateItem. False where it is used, or gone."""
        values: Item = {":by": {"S": by}}
        return self._change_early(flow, awaited_id, expressions.FORGET_WAITED, expressions.IS_UNUSED, values)

    def close_early(self, flow: str, awaited_id: str, by: str) -> None:
        """Note with one UpdateItem that all who waited have it, so that a copy of its message is for nobody."""
        values: Item = {":by": {"S": by}, ":who": {"S": ALL_HAVE_IT}}
        self._change_early(flow, awaited_id, expressions.SET_USED, expressions.IS_KEPT, values)

    def _change_early(self, flow: str, awaited_id: str, update: str, condition: str, values: Item) -> bool:
        return self.calls.change(_early_key(flow, awaited_id), update, condition, values)[0]


def _place_of(by: str) -> str:
    return f"{PLACE}{message_name(by)}"


def _after_place(items: Sequence[Any], by: str) -> Any:
    """Return the sort key of the last row that the message has reached. None where it begins."""
    return next((item["after"] for item in items if item["sk"]["S"] == _place_of(by)), None)


def _rows(awaited_id: str, items: Sequence[Any]) -> Iterator[AwaitingRow]:
    return (awaiting_row(awaited_id, item) for item in items if "object_id" in item)


def _early_key(flow: str, awaited_id: str) -> Any:
    return {**awaiting_key(flow, awaited_id), "sk": {"S": EARLY}}


def _is_over(kept: Any, now: int) -> bool:
    """Answer whether it is kept no longer for waits that begin."""
    return int(kept.get("good_until", kept["ttl"])["N"]) <= now // 1000


def _text(kept: Any, name: str) -> str:
    return str(kept[name]["S"]) if name in kept else ""


def _names(kept: Any) -> frozenset[str]:
    return frozenset(kept["names"]["SS"]) if "names" in kept else frozenset()


def _kept_before(kept: Any, by: str, names: frozenset[str]) -> Kept:
    """Return what stands in the way of an answer."""
    if _text(kept, "given_by") == by:
        return Kept(is_new=False, used_by=_text(kept, "used_by"), waited=_text(kept, "waited"))
    is_same = _names(kept) == names
    return Kept(is_new=False, is_outdated=is_same, is_beside=not is_same)


def _after(before: RunItem, address: AnswerAddress, counts: bool) -> RunItem:
    wait = before.wait
    assert wait is not None  # noqa: S101 - its status is WAITING
    return before._replace(wait=wait.after(address.name, counts=counts))


def _item(row: AwaitingRow) -> Item:
    """Return the row as it is stored.

    Attempts of one hop may write at any time, also after another was committed. So each that says something else has a
    row of its own.
    """
    a = row.address
    run = [a.object_id, a.request_id, a.requested_at, a.hop, a.name]
    digest = hashlib.sha256(json.dumps(run).encode()).hexdigest()
    return {
        **awaiting_key(a.flow, row.id),
        "sk": {"S": f"{digest}#{row.expires_at // 1000}#{row.stage}"},
        "flow": {"S": a.flow},
        "object_id": {"S": a.object_id},
        "request_id": {"S": a.request_id},
        "requested_at": number(a.requested_at),
        "hop": number(a.hop),
        "name": {"S": a.name},
        "stage": {"S": row.stage},
        "ttl": number(row.expires_at // 1000),
    }


def awaiting_row(awaited_id: str, item: Item) -> AwaitingRow:
    """Read the row of a run that waits for an id."""
    address = AnswerAddress.parse(
        {
            "flow": item["flow"]["S"],
            "object": item["object_id"]["S"],
            "request": item["request_id"]["S"],
            "at": int(item["requested_at"]["N"]),
            "hop": int(item["hop"]["N"]),
            "name": item["name"]["S"],
        }
    )
    return AwaitingRow(awaited_id, address, item["stage"]["S"], int(item["ttl"]["N"]) * 1000)

"""The store of groups. Each shard is an item of its own, with the rows of its requests in the same partition.

::

    pk group#<flow>#<key>#<shard>   sk shard       the numbers without an answer
    pk group#<flow>#<key>#<shard>   sk row#<n>     a request, and its answer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from flowguard.aws import expressions
from flowguard.aws.batch_writes import write_rows
from flowguard.aws.items import (
    KEPT_FREE,
    LARGEST_ITEM,
    Item,
    about_of,
    number,
    read_item,
    shard_key,
    size_of_value,
)
from flowguard.aws.packing import Packed
from flowguard.aws.wait_calls import WaitCalls, message_name, read_run, stored_answer
from flowguard.errors import RowsUnwritten, TooLarge, shown
from flowguard.protocol.answers import AskShard, judge_by_shard, judge_member
from flowguard.protocol.groups import GroupRequest, Member, NewShard, Shard
from flowguard.protocol.run import RunItem, Settled
from flowguard.protocol.waiting import GivenAnswer
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress

_SHARD: Final = {"sk": {"S": "shard"}}
_ROW: Final = "row#"
_MOST_TRIES: Final = 3
"""How often an answer is judged anew: once more is enough after its shard was closed, for then its run has gone on."""


class _RowAnswer(Enum):
    """What a row holds after an answer was offered to it: this one, the same from before, or another one."""

    NOW = auto()
    BEFORE = auto()
    ANOTHER = auto()


class DynamoDBGroups(NamedTuple):
    """Implements :class:`flowguard.worker.ports.Groups` on the run table."""

    calls: WaitCalls

    # -- before the commit

    def save(self, shard: NewShard) -> None:
        """Write a shard and its requests, 25 items to a BatchWriteItem. They mean nothing before their hop's commit.

        A BatchWriteItem has no conditions. One that was not answered may be done at any time after, and would erase
        what had been answered by then. So it is not repeated, and raises: the next attempt has a key of its own.
        """
        key, ttl = shard_key(shard.flow, shard.key, shard.number), number(shard.expires_at // 1000)
        rows = [
            _row_item(key, place, request, self._packed(shard, place, request), ttl)
            for place, request in enumerate(shard.requests)
        ]
        items = [*rows, _shard_item(key, shard, ttl)]
        calls = self.calls
        client = calls.client if calls.once is None else calls.once()
        if left := write_rows(client, calls.table, [{"PutRequest": {"Item": item}} for item in items], calls.pause):
            raise RowsUnwritten(left, "requests of a group")

    def _packed(self, shard: NewShard, place: int, request: GroupRequest) -> Item:
        key = self.calls.text_key(shard.flow, "groups", shard.key, str(shard.number), str(place))
        row = {**shard_key(shard.flow, shard.key, shard.number), "sk": {"S": _row_name(place)}}
        return self.calls.packing.pack(request.body, key, about=about_of(row, "request")).value

    # -- after it

    def run(self, address: AnswerAddress) -> RunItem | None:
        """Read the run item with the plan of its wait, consistently."""
        stored = self.calls.run(address)
        return self.calls.with_plan(read_item(stored), stored) if stored else None

    def requests(self, flow: str, key: str, shard: int) -> Sequence[GroupRequest]:
        """Read the requests of a shard, in order."""
        rows = self._query(flow, key, shard)[0]
        return [self._request(rows[place]) for place in sorted(rows)]

    def asking(self, address: AnswerAddress, key: str, start: int, end: int) -> bool:
        """Note that the shards from ``start`` up to ``end`` may be asked from now on.

        False where the run does not wait for them any more, and where they were asked.
        """
        changes = {":from": number(start), ":to": number(end)}
        return self._change_run(address, key, expressions.ASKING, expressions.ASK_ON, changes)[0]

    def asked(self, address: AnswerAddress, key: str, start: int, end: int, by: str) -> bool:
        """Note that the message ``by`` has asked the shards from ``start`` up to ``end``. Answer whether it goes on.

        That is False where the run does not wait for them any more, and where the next shards were asked too.
        """
        changes = {":from": number(start), ":to": number(end), ":by": {"S": message_name(by)}}
        applied, raw = self._change_run(address, key, expressions.ASKED, expressions.ASK_ON, changes)
        if applied or raw is None:
            return applied
        wait = read_item(raw).wait
        return wait is not None and wait.group == key and wait.asked == end

    # -- answers

    def settle(self, address: AnswerAddress, member: Member, answer: GivenAnswer) -> Settled:
        """Keep the answer in its row, take it out of its shard, and an emptied shard out of the run item.

        Raises :class:`TooLarge` for an answer that the row has no room for; then nothing was kept.
        """
        for _ in range(_MOST_TRIES):
            if (settled := self._settled(address, member, answer)) is not None:
                return settled
        return Settled(AnswerVerdict.DUPLICATE, None)

    def _settled(self, address: AnswerAddress, member: Member, answer: GivenAnswer) -> Settled | None:
        item = read_run(stored := self.calls.run(address))
        verdict = judge_member(item, address, member)
        if isinstance(verdict, AskShard):
            if verdict.can_settle and item is not None:
                return self._settle(address, verdict, member, answer, item)
            verdict = judge_by_shard(self._shard(address.flow, verdict.key, member), member)
        return Settled(verdict, self._going_on(address, member, item, stored))

    def _going_on(self, address: AnswerAddress, member: Member, item: RunItem | None, stored: Any) -> RunItem | None:
        """Return the item, with its wait's plan where that is over and the answer may have ended it.

        See :func:`flowguard.aws.wait_calls.ended_by`. One that its shard still waits for has not.
        """
        over = self.calls.at_rest(address, item, stored)
        if over is None or over.wait is None or over.wait.plan is None or over.cancelled_because is not None:
            return over
        shard = self._shard(address.flow, str(over.wait.group), member)
        return over if judge_by_shard(shard, member) is AnswerVerdict.DUPLICATE else item

    def verdict(self, address: AnswerAddress, member: Member) -> AnswerVerdict:
        """Return the verdict that an answer would get, by consistent reads. Nothing is kept."""
        verdict = judge_member(read_run(self.calls.run(address)), address, member)
        if not isinstance(verdict, AskShard):
            return verdict
        shard = self._shard(address.flow, verdict.key, member)
        if verdict.can_settle and shard is not None and not shard.closed and str(member.number) in shard.waiting:
            return AnswerVerdict.RECORDED
        return judge_by_shard(shard, member)

    def _settle(
        self, address: AnswerAddress, ask: AskShard, member: Member, answer: GivenAnswer, item: RunItem
    ) -> Settled | None:
        """Settle the answer for a run that waits. None where its shard was closed meanwhile."""
        kept = self._keep(address, ask.key, member, answer)
        if kept is None:
            return Settled(AnswerVerdict.UNKNOWN, item)
        took, shard = self._take(address.flow, ask.key, member)
        if shard is None:
            return Settled(AnswerVerdict.UNKNOWN, item)
        if str(member.number) in shard.waiting:
            return None
        is_new = kept is _RowAnswer.NOW or (took and kept is _RowAnswer.BEFORE)
        verdict = AnswerVerdict.RECORDED if is_new else AnswerVerdict.DUPLICATE
        if not (shard.is_over and ask.is_open):
            return Settled(verdict, item)
        return self._drop(address, ask.key, member, verdict, kept)

    def _keep(self, address: AnswerAddress, key: str, member: Member, answer: GivenAnswer) -> _RowAnswer | None:
        """Keep the answer in its row, if that has none. None where there is no row."""
        where = {**shard_key(address.flow, key, member.shard), "sk": {"S": _row_name(member.number)}}
        size = room = 0
        for packed in self.calls.forms(address, answer, "groups", about_of(where, "answer")):
            kept, row = self._put(where, packed, answer)
            if kept is not None or row is None:
                return kept
            size, room = packed.size, int(row["room"]["N"])
        raise TooLarge(f"the answer {shown(address.name)}", {"answer": size}, room)

    def _put(self, key: Item, packed: Packed, answer: GivenAnswer) -> tuple[_RowAnswer | None, Item | None]:
        """Write the answer, if its row has none and has the room. Returns what was found where it has neither."""
        stored = stored_answer(packed, answer)
        values = {":answer": stored, ":size": number(size_of_value(stored) + len("answer"))}
        applied, row = self.calls.change(key, expressions.SET_ANSWER, expressions.FIRST_ANSWER, values)
        if applied:
            return _RowAnswer.NOW, None
        if row is None or "answer" not in row:
            return None, row
        return (_RowAnswer.BEFORE if self._answer(row) == answer else _RowAnswer.ANOTHER), row

    def _take(self, flow: str, key: str, member: Member) -> tuple[bool, Shard | None]:
        """Take the request out of its shard. Returns whether that was done, and the shard afterwards."""
        name = str(member.number)
        took, raw = self.calls.change(
            {**shard_key(flow, key, member.shard), **_SHARD},
            expressions.DROP_MEMBER,
            expressions.SETTLE_MEMBER,
            {":member": {"S": name}, ":members": {"SS": [name]}},
        )
        if raw is None:
            return False, None
        shard = _read_shard(raw)
        return took, shard._replace(waiting=shard.waiting - {name}) if took else shard

    def _drop(
        self, address: AnswerAddress, key: str, member: Member, verdict: AnswerVerdict, kept: _RowAnswer
    ) -> Settled:
        """Take a shard that is over out of the run item."""
        name = str(member.shard)
        changes = {":names": {"SS": [name]}}
        applied, raw = self._change_run(address, key, expressions.DROP_SHARD, expressions.CLOSE_SHARD, changes)
        if raw is None:
            return Settled(verdict, None)
        item = read_item(raw)
        if not applied or item.wait is None:
            return Settled(verdict, self.calls.at_rest(address, item, raw))
        wait = item.wait._replace(waiting=item.wait.waiting - {name})
        after = item._replace(wait=wait)
        if wait.end is None:
            return Settled(verdict, after)
        ended = verdict if kept is _RowAnswer.ANOTHER else AnswerVerdict.RESUMED
        return Settled(ended, self.calls.with_plan(after, raw))

    # -- of a run that went on

    def answers(self, flow: str, key: str, shard: int) -> Sequence[tuple[GroupRequest, GivenAnswer | None]]:
        """Read the requests of a shard with their answers, and let it take no more. Its run has gone on.

        Called again, it says the same.
        """
        rows, waiting = self._closed(flow, key, shard)
        return [
            (self._request(row), self._answer(row) if _has_answered(place, row, waiting) else None)
            for place, row in rows
        ]

    def unanswered(self, flow: str, key: str, shard: int) -> Mapping[int, GroupRequest]:
        """Read who has not answered of a shard, by the numbers of the requests, and let it take no more answers.

        No text is opened: the requests have no body.
        """
        rows, waiting = self._closed(flow, key, shard)
        return {
            place: GroupRequest(row["name"]["S"], "", _text(row, "object_id"), _text(row, "request_id"))
            for place, row in rows
            if not _has_answered(place, row, waiting)
        }

    def cancelled(self, flow: str, key: str, shard: int, end: int, by: str) -> bool:
        """Note that the message ``by`` has cancelled the shards from this one on. Answer whether it goes on at ``end``.

        That is False where another message has, and the shard there takes no more answers or is not there.
        """
        where, values = {**shard_key(flow, key, shard), **_SHARD}, {":by": {"S": message_name(by)}}
        if self.calls.change(where, expressions.CANCEL_SHARD, expressions.CAN_CANCEL_SHARD, values)[0]:
            return True
        state = self._shard(flow, key, Member(end, 0))
        return state is not None and not state.closed

    # -- the calls

    def _closed(self, flow: str, key: str, shard: int) -> tuple[list[tuple[int, Item]], frozenset[str]]:
        """Close a shard. Return its rows in order, and the numbers of those whose answer does not count."""
        rows, state = self._query(flow, key, shard)
        if state is not None and state.waiting and not state.closed:
            where = {**shard_key(flow, key, shard), **_SHARD}
            self.calls.change(where, expressions.CLOSE, expressions.CAN_CLOSE, {":yes": {"BOOL": True}})
            rows, state = self._query(flow, key, shard)
        waiting = frozenset[str]() if state is None else state.waiting
        if any("answer" not in row for place, row in rows.items() if str(place) not in waiting):
            rows, _ = self._query(flow, key, shard)  # an answer came between the pages, to a row that was read before
        return sorted(rows.items()), waiting

    def _shard(self, flow: str, key: str, member: Member) -> Shard | None:
        shard = self.calls.get({**shard_key(flow, key, member.shard), **_SHARD})
        return _read_shard(shard) if shard else None

    def _query(self, flow: str, key: str, shard: int) -> tuple[Mapping[int, Item], Shard | None]:
        """Read the rows of a shard by their numbers, and the shard, consistently and page by page."""
        pages = self.calls.query(shard_key(flow, key, shard)["pk"])
        by_name = {item["sk"]["S"]: item for page in pages for item in page["Items"]}
        raw = by_name.pop(_SHARD["sk"]["S"], None)
        rows = {int(name.removeprefix(_ROW)): item for name, item in by_name.items()}
        return rows, None if raw is None else _read_shard(raw)

    def _change_run(
        self, address: AnswerAddress, key: str, update: str, condition: str, changes: Item
    ) -> tuple[bool, Item | None]:
        """Change the run item, if it waits at the address for the group."""
        values = {":group": {"S": key}, **changes}
        return self.calls.change_run(address, update, condition, values, expressions.ANSWER_NAMES)

    def _request(self, row: Item) -> GroupRequest:
        body = self.calls.packing.unpack(row["body"], about_of(row, "request"))
        return GroupRequest(row["name"]["S"], body, _text(row, "object_id"), _text(row, "request_id"))

    def _answer(self, row: Item) -> GivenAnswer:
        return self.calls.read_answer(row["answer"]["M"], about_of(row, "answer"))


def _has_answered(place: int, row: Item, waiting: frozenset[str]) -> bool:
    """Answer whether a row has an answer, and the shard has counted it."""
    return str(place) not in waiting and "answer" in row


def _row_name(number_: int) -> str:
    return f"{_ROW}{number_}"


def _row_item(key: Item, place: int, request: GroupRequest, body: Item, ttl: Item) -> Item:
    more = {"object_id": request.object_id, "request_id": request.request_id}
    row: Item = {
        **key,
        "sk": {"S": _row_name(place)},
        "name": {"S": request.name},
        "body": body,
        **{name: {"S": text} for name, text in more.items() if text},
        "ttl": ttl,
    }
    size = sum(len(name) + size_of_value(value) for name, value in row.items())
    return {**row, "room": number(LARGEST_ITEM - KEPT_FREE - size)}


def _shard_item(key: Item, shard: NewShard, ttl: Item) -> Item:
    size = len(shard.requests)
    return {
        **key,
        **_SHARD,
        "waiting": {"SS": [str(place) for place in range(size)]},
        "size": number(size),
        "spare": number(shard.spare),
        **({"asker": {"S": shard.asker}} if shard.asker else {}),
        "ttl": ttl,
    }


def _read_shard(raw: Item) -> Shard:
    waiting = frozenset(raw["waiting"]["SS"] if "waiting" in raw else ())
    return Shard(int(raw["size"]["N"]), int(raw["spare"]["N"]), waiting, "closed" in raw)


def _text(row: Item, name: str) -> str:
    text: str = row[name]["S"] if name in row else ""
    return text

"""The places of limits in DynamoDB, and the texts by which those who wait for one are called.

::

    pk limit#<flow>#<stage>#<limit>#<digest>   sk limit          who holds a place, who stands in line, a nonce,
                                                               [pause {since, why, [until, trial]}], [failed]
    pk run#<flow>#<object>                     sk turn#<token>   the message that calls the hop

A write of a whole item is under the condition that nobody has written it since it was read: it has a nonce of each
write. So whatever a decision was made of is still so when it is written. While nobody stands in line, a place is taken
and freed by a write of one entry, which does not meet those of others. An item that holds nobody expires, but for
that of a key that is paused.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import LARGEST_ITEM, Item, about_of, number, run_key
from flowguard.aws.packing import Packing
from flowguard.errors import OtherRelease, PlacesBusy
from flowguard.names.ids import ObjectId
from flowguard.protocol.places import NOBODY, Change, Holder, KeyPause, Places, Waiter
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.place_store import Changed, Decide, GiveBack, PlaceKey, Seen, Short, Take

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOST_TRIES: Final = 50
"""How often a change is decided anew, where others write the key's item between its read and its write."""

PATIENT_TRIES: Final = 150
"""The same of a change that frees a place."""

THROTTLED: Final = frozenset({"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"})
"""How DynamoDB says that an item, or the table, is asked too often. botocore has repeated the call by then."""

LONGEST_PAUSE: Final = 0.05
"""Seconds between two tries, at most: those who meet at a key draw how long each rests."""

KEPT_FOR: Final = 86_400
"""Seconds that an item outlives the last lease in it: it must not be removed while somebody holds a place."""

ROUNDED_TO: Final = 3_600
"""Seconds. An item ends on the hour after that, so that workers whose clocks differ say the same."""

LONGEST_TEXT: Final = LARGEST_ITEM - 8_192
"""Bytes. Who waits with a longer one is not called."""


_UNKNOWN: Final = Seen(NOBODY, "nobody has looked")

_ATTRIBUTES: Final = frozenset({"pk", "sk", "held", "line", "nonce", "ttl", "pause", "failed"})
"""What the item of a key has. All of it is written anew by a write of the whole."""

_PAUSE: Final = frozenset({"since", "why", "until", "trial"})
"""What the pause of a key has. It is written anew with the item."""


class DynamoDBPlaces(NamedTuple):
    """Implements :class:`flowguard.worker.ports.PlaceStore` on the run table."""

    client: DynamoDBClient
    table: str
    packing: Packing
    pause: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    def change(
        self,
        key: PlaceKey,
        decide: Decide,
        nonce: str,
        seen: Seen | None = None,
        *,
        short: Short | None = None,
        frees: bool = False,
    ) -> Changed:
        """Write what ``decide`` makes of the item, in one conditional PutItem where ``seen`` is right.

        A ``short`` change is one conditional UpdateItem, if it is not refused. Each refusal brings the item, of
        which it is decided anew. Raises :class:`flowguard.errors.PlacesBusy` after as many tries, and where DynamoDB is
        asked too often for this key.
        """
        try:
            return self._changed(key, decide, nonce, seen, short, PATIENT_TRIES if frees else MOST_TRIES)
        except botocore_errors.ClientError as error:
            if error_code(error) in THROTTLED:
                raise PlacesBusy(key.place, error_code(error)) from error
            raise

    def _shortly(self, where: Item, short: Short, nonce: str) -> tuple[bool, Seen]:
        """Write one entry. Return whether that was done, and the item after it, or the one that refuses it."""
        call = _short_call(short, nonce)
        try:
            answer: Any = patiently(
                lambda: self.client.update_item(TableName=self.table, Key=where, **call), self.pause
            )
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return False, _seen(error.response.get("Item"))
        return True, _seen(answer["Attributes"])

    def _changed(
        self, key: PlaceKey, decide: Decide, nonce: str, seen: Seen | None, short: Short | None, most: int
    ) -> Changed:
        """Try the short change while nobody stands in line: those of others would refuse each write of the whole."""
        where = _key(key)
        stands, is_now = (self._read(where), True) if seen is None and short is None else (seen or _UNKNOWN, False)
        for number_of_try in range(most):
            short = _counted(short, stands.places)
            if short is not None and stands.nonce and not stands.places.line:
                is_done, stands = self._shortly(where, short, f"{nonce} {number_of_try}")
                is_now = True
                if is_done:
                    return Changed(Change(stands.places, granted=isinstance(short, Take)), stands)
                if _counted(short, stands.places) != short:
                    continue
            change = decide(stands.places)
            if change.after == stands.places and is_now:
                return Changed(change, stands)
            after = Seen(change.after, nonce, _ends(change, stands))
            other = self._read(where) if change.after == stands.places else self._written(where, stands, after)
            if other is None or other.nonce == nonce:  # the latter is this very write, whose answer was lost
                return Changed(change, after)
            stands, is_now = other, True
            self.pause(LONGEST_PAUSE * self.draw())
        raise PlacesBusy(key.place, f"others have written them {most} times meanwhile")

    def _read(self, where: Item) -> Seen:
        answer: Any = patiently(
            lambda: self.client.get_item(TableName=self.table, Key=where, ConsistentRead=True), self.pause
        )
        return _seen(answer.get("Item"))

    def _written(self, where: Item, before: Seen, after: Seen) -> Seen | None:
        """Write the item if it is still as it was seen. Return what it is where it is not."""
        call: Any = {"TableName": self.table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        if before.nonce:
            call["ConditionExpression"] = expressions.SAME_NONCE
            call["ExpressionAttributeValues"] = {":nonce": {"S": before.nonce}}
        else:
            call["ConditionExpression"] = expressions.IS_NEW
        try:
            patiently(lambda: self.client.put_item(**call, Item={**where, **_item(after)}), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return _seen(error.response.get("Item"))
        return None

    # -- the rows of keys that have paused themselves

    def tell_pause(self, key: PlaceKey, pause: KeyPause, nonce: str) -> None:
        """Write the row that says that a key has paused itself, unless somebody has paused it."""
        from flowguard.aws.pause_rows import Pause, PauseRows  # few keys pause themselves

        row = Pause(*key[:2], "", pause.since, pause.why, {}, nonce=nonce, place=key.place, until=pause.until)
        PauseRows(self.client, self.table).tell(row)

    def tell_end(self, key: PlaceKey) -> None:
        """Remove the row of a key that had paused itself."""
        from flowguard.aws.pause_rows import PauseRows  # few keys pause themselves

        PauseRows(self.client, self.table).tell_end(*key)

    # -- the texts of those who wait

    def keep_text(self, flow: str, object_id: str, token: str, text: str, until: int) -> bool:
        """Keep the message that calls a hop, until then (ms) at least. False where no row holds it."""
        where = _text_key(flow, object_id, token)
        packed = self.packing.pack(text, None, about=about_of(where, "call"))
        if packed.size > LONGEST_TEXT:
            return False
        row = {**where, "call": packed.value, "ttl": number(until // 1000)}
        call: Any = {
            "ConditionExpression": expressions.NOT_SHORTENED,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":ttl": row["ttl"]},
        }
        try:
            patiently(lambda: self.client.put_item(TableName=self.table, Item=row, **call), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
        return True

    def text(self, flow: str, object_id: str, token: str) -> str | None:
        """Return the message that calls a hop. None where there is none any more."""
        where = _text_key(flow, object_id, token)
        answer: Any = patiently(lambda: self.client.get_item(TableName=self.table, Key=where), self.pause)
        row = answer.get("Item")
        return None if row is None else self.packing.unpack(row["call"], about_of(where, "call"))

    def forget_text(self, flow: str, object_id: str, token: str) -> None:
        """Remove the message that calls a hop."""
        where = _text_key(flow, object_id, token)
        patiently(lambda: self.client.delete_item(TableName=self.table, Key=where), self.pause)


def _key(key: PlaceKey) -> Item:
    return {"pk": {"S": f"limit#{key.flow}#{key.stage}#{key.place}"}, "sk": {"S": "limit"}}


def _text_key(flow: str, object_id: str, token: str) -> Item:
    return {**run_key(flow, ObjectId(object_id)), "sk": {"S": f"turn#{token}"}}


def _counted(short: Short | None, places: Places) -> Short | None:
    """Return the change of one entry without its failure where the key is paused: it counts no more.

    Many may fail in one moment. Of writes of the whole item each would refuse all the others.
    """
    return short._replace(failed_at=0) if isinstance(short, GiveBack) and places.pause is not None else short


def _short_call(short: Short, nonce: str) -> Any:
    """Build the rest of the UpdateItem that changes one entry."""
    names = {"#hop": short.token}
    values: Item = {":holder": {"S": _held(short.holder)}, ":nobody": number(0)}
    if isinstance(short, Take):
        condition, update, names["#ttl"] = expressions.PLACE_IS_FREE, expressions.TAKE_PLACE, "ttl"
        ends = -(-(short.ends + KEPT_FOR) // ROUNDED_TO) * ROUNDED_TO
        values |= {":at_once": number(short.at_once), ":ttl": number(ends)}
    elif short.failed_at:
        condition, update = expressions.FEW_HAVE_FAILED, expressions.FREE_AND_NOTE
        values |= {":few": number(short.few), ":failed_at": {"L": [number(short.failed_at)]}, ":none": {"L": []}}
    else:
        condition, update = expressions.PLACE_IS_MINE, expressions.FREE_PLACE
    return {
        "ConditionExpression": condition,
        "UpdateExpression": update,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {**values, ":nonce": {"S": nonce}},
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _ends(change: Change, before: Seen) -> int:
    """Return when the item may be removed (s). That is a day after its last lease, and not earlier than before.

    One that was paused had no such time, and begins to have one.
    """
    times = [] if before.places.pause is None else [before.places.pause.since]
    times += [holder.until for holder in change.after.held.values()]
    times += [waiter.seen_at for waiter in change.after.line.values()]
    return max(before.ends, max(times, default=0) // 1000 + KEPT_FOR)


def _item(seen: Seen) -> Item:
    held = {token: {"S": _held(holder)} for token, holder in seen.places.held.items()}
    line = {token: {"S": _stored(waiter)} for token, waiter in seen.places.line.items()}
    stored: Item = {"held": {"M": held}, "line": {"M": line}, "nonce": {"S": seen.nonce}}
    if failed := seen.places.failed:
        stored["failed"] = {"L": [number(at) for at in failed]}
    pause = seen.places.pause
    if pause is None:
        return {**stored, "ttl": number(seen.ends)}
    itself: Item = {"until": number(pause.until), "trial": {"S": pause.trial}} if pause.until else {}
    return {**stored, "pause": {"M": {"since": number(pause.since), "why": {"S": pause.why}, **itself}}}


def _seen(raw: Any) -> Seen:
    """Read the item of a key. Raises :class:`OtherRelease` for one that has what this release does not know.

    It may say that no hop is to begin, and a write of the whole item would take it away.
    """
    if not raw:
        return Seen(NOBODY)
    try:
        _check_known("it", raw, _ATTRIBUTES)
        return Seen(read_places(raw), raw["nonce"]["S"], int(raw.get("ttl", number(0))["N"]))
    except (KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise OtherRelease(
            f"the item {raw['pk']['S']} cannot be read, which another release has written ({why})"
        ) from None


def _check_known(what: str, stored: Item, known: frozenset[str]) -> None:
    if unknown := stored.keys() - known:
        raise ValueError(f"{what} has {', '.join(sorted(unknown))}")


def read_places(raw: Any) -> Places:
    """Read the places from the item of a key. It may not be there."""
    if not raw:
        return NOBODY
    held = {token: _holder(text["S"]) for token, text in raw["held"]["M"].items()}
    line = {token: _waiter(text["S"]) for token, text in raw["line"]["M"].items()}
    failed = tuple(int(at["N"]) for at in raw["failed"]["L"]) if "failed" in raw else ()
    return Places(held, line, _pause(raw["pause"]["M"]) if "pause" in raw else None, failed)


def _pause(stored: Any) -> KeyPause:
    _check_known("its pause", stored, _PAUSE)
    itself = (int(stored["until"]["N"]), stored["trial"]["S"]) if "until" in stored else ()
    return KeyPause(int(stored["since"]["N"]), stored["why"]["S"], *itself)


def _held(holder: Holder) -> str:
    return f"{holder.until} {holder.owner}"


def _holder(text: str) -> Holder:
    until, _, owner = text.partition(" ")
    return Holder(owner, int(until))


def _stored(waiter: Waiter) -> str:
    return f"{waiter.arrival} {waiter.seen_at} {waiter.called_at} {waiter.object_id}"


def _waiter(text: str) -> Waiter:
    arrival, seen_at, called_at, object_id = text.split(" ", 3)
    return Waiter(int(arrival), object_id, int(seen_at), int(called_at))

"""The bytes that a run's history may take in its item without a further write unit.

A write costs a unit for each KB of the larger of the item before it and the item after it. So the history takes no more
than what is left below the next KB::

    0             1 KB            2 KB
    ├── the item ──┼── … ──┼ hist. ┤
                           after the commit, and after the claim that follows it

Of a run that fails for good all is kept: there somebody will ask, and it may cost one unit.

Sizes are counted as DynamoDB counts them, or up to :data:`UNSURE` bytes more. Where these bytes decide, there is no
history: it must not cost anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.aws.commit_texts import PackedTexts
from flowguard.aws.items import ASKER, Item, record_item, size_of_value
from flowguard.protocol.callers import Callers, caller_key
from flowguard.protocol.claims import answered_askers
from flowguard.protocol.fields import FIELDS
from flowguard.protocol.run import Claim, Commit, Rest, RunItem, Status
from flowguard.protocol.run_history import LONGEST
from flowguard.wire.message import TEXT_DIGEST

NAME: Final = "history"

_UNIT: Final = 1_024

UNSURE: Final = 32
"""DynamoDB leaves out the zeros at a number's end, and some of these are counted here."""

_LATER_STAGE: Final = 48
"""Bytes of the name of a stage that the next claim may add. A longer one may cost a unit more."""

_NAMES: Final = ("pk", "sk", *(field.attribute for field in FIELDS if field.always))
_TIMES_AND_FLAG: Final = 3 * 8 + 6 + 1
_FIXED: Final = sum(map(len, _NAMES)) + _TIMES_AND_FLAG
_COUNTS: Final = 5
_MAP: Final = 3
_FIRST_TEXT: Final = len("first_text") + len("text_epoch") + 3
_KILLS: Final = len("kills") + 3

_WRITTEN: Final = (
    ("wait", ":wait"),
    ("waiting", ":names"),
    ("failed", ":failed"),
    ("late", ":late"),
    ("by_look", ":by_look"),
)
"""What a commit may write beside the long texts, by its name in the update."""

_LOOK: Final = len("by_look") + 8

_MORE: Final = 96
"""Bytes of the names of what not every run item has, or of a count with many digits."""

_SURELY_BELOW: Final = (
    _UNIT - LONGEST - len(NAME) - _FIXED - 3 * _COUNTS - _MORE - len("stages") - _MAP - _LATER_STAGE - len("COMPLETED")
)
"""What all else may take in an item that has room for the longest history now, and after the next claim."""


def room_after_commit(claim: Claim, commit: Commit, key: Item, texts: PackedTexts, written: Mapping[str, Any]) -> int:
    """Return the bytes that the history may have in the item that a commit leaves.

    ``written`` are the values of the commit's update by name.
    """
    if commit.status is Status.FAILED:
        return LONGEST
    item, sizes = claim.item, texts.sizes
    most = texts.rest + sum(sizes.values()) + len(item.request_id) + len(item.owner)
    if most <= _SURELY_BELOW:
        return LONGEST
    if commit.takes_callers and item.hop > 1 and not commit.closes_list:
        return len(item.history.encode())  # what it begins anew with is in the item too, and nobody has read it
    size = _plain(item, key, commit.status) + sum(len(name) + length for name, length in sizes.items())
    size += sum(_kept(claim, commit)) + sum(_new(written))
    return max(0, min(LONGEST, _room(size), _room(*_after_next_claim(size, item, commit, sizes))))


def room_in_claimed(claim: Claim, key: Item, state: int, rest: Rest, called_attempt: str = "") -> int:
    """Return the bytes that the history may have in the item that the claim has left.

    ``state`` is the bytes of its state; ``rest`` and ``called_attempt`` are written beside the history. Where the item
    has what nobody has counted, the history does not grow.
    """
    item = claim.item
    if any(part is not None for part in (item.outbox, item.wait, item.callers, item.answered, item.burst)):
        return len(item.history.encode())
    size = _plain(item, key, Status.RUNNING) + _KILLS + (len("state") + state if state else 0) + sum(_kept(claim, None))
    if rest is not None:
        size += len("back_off") + _value_size(record_item(rest))
    if named := called_attempt or item.called_attempt:
        size += len("called_attempt") + len(named)
    return max(0, min(LONGEST, _room(size)))


def _room(most: int, least: int | None = None) -> int:
    """Return what is left below the next KB of an item of ``least`` to ``most`` bytes, its name counted."""
    least = most - UNSURE if least is None else least - UNSURE
    return -(-max(1, least) // _UNIT) * _UNIT - most - len(NAME)


def _plain(item: RunItem, key: Item, status: Status) -> int:
    """Return the bytes of what every run item has."""
    size = _FIXED + _counts_size(item) + len(status.value) + len(item.owner)
    size += sum(_bytes(part["S"]) for part in key.values()) + _bytes(item.request_id) + _bytes(item.stage)
    return size if status is Status.COMPLETED else size + _stages_size(item.stages)


def _counts_size(item: RunItem) -> int:
    digits = f"{item.version}{item.hop}{item.retry}{item.redrive}{item.epoch}"
    return (len(digits) + _COUNTS) // 2 + _COUNTS


def _stages_size(stages: Mapping[str, str]) -> int:
    return len("stages") + _MAP + sum(1 + _bytes(name) + _bytes(text) for name, text in stages.items())


def _new(written: Mapping[str, Any]) -> Iterator[int]:
    """Yield the bytes of what a commit writes beside the long texts."""
    for attribute, value in _WRITTEN:
        if value in written:
            yield len(attribute) + _value_size(written[value])


def _kept(claim: Claim, commit: Commit | None) -> Iterator[int]:
    """Yield the bytes of what the item has beside that, and goes on to have after a commit that is no failed end."""
    item = claim.item
    if item.memo is not None and commit is None:
        yield len("memo") + item.memo.size
    if item.failed is not None and (commit is None or (commit.failed is None and item.own_failure is not None)):
        yield len("failed") + _value_size(record_item(item.failed))
    if item.late is not None:
        yield len("late") + _value_size(record_item(item.late))
    if item.cancellation is not None:
        yield len("cancelled") + _value_size(record_item(item.cancellation))
    if item.by_look is not None and commit is None:
        yield _LOOK
    if item.first_text is not None and commit is None:
        yield _FIRST_TEXT + len(item.first_text)
    if item.kills and commit is not None:
        yield _KILLS
    if item.full_history or (commit is not None and commit.told_until is not None):
        yield len("full_history") + 1
    yield from _kept_callers(claim, commit)


def _kept_callers(claim: Claim, commit: Commit | None) -> Iterator[int]:
    """Yield the bytes of those who ask for an end. Its commit closes their list, and leaves it as answered."""
    item = claim.item
    if commit is not None and commit.closes_list:
        answered = item.callers if item.callers is not None else Callers(item.owner)
        yield len("answered") + _value_size(record_item(answered))
        yield len("answered_by") + _bytes(item.request_id)
        yield len("answered_key") + len(caller_key(item.request_id, item.requested_at))
    else:
        if item.callers is not None:
            yield len("callers") + _value_size(record_item(item.callers))
        if item.answered is not None:
            yield len("answered") + _value_size(record_item(item.answered))
        if item.answered_key is not None:
            yield len("answered_key") + _bytes(item.answered_key)
    if item.askers:
        gone = () if commit is None else answered_askers(claim, commit)
        yield from (len(ASKER) + len(key) + _bytes(text) for key, text in item.askers.items() if key not in gone)


def _after_next_claim(size: int, item: RunItem, commit: Commit, texts: Mapping[str, int]) -> tuple[int, int]:
    """Return the most and the least bytes of the item after the claim that follows the commit."""
    stage = 1 + _bytes(item.request_id)
    gone = {Status.RUNNING: ("outbox",), Status.COMPLETED: ("result",)}.get(commit.status, ())
    size -= sum(len(name) + texts[name] for name in gone if name in texts)
    if commit.status is Status.COMPLETED:
        stage += _stages_size({}) + _FIRST_TEXT + TEXT_DIGEST
    return size + stage + _LATER_STAGE, size + stage


def _value_size(value: Item) -> int:
    """Return the bytes of a value, the numbers in it counted by their digits."""
    [(kind, data)] = value.items()
    match kind:
        case "M":
            return _MAP + sum(1 + _bytes(name) + _value_size(part) for name, part in data.items())
        case "N":
            return len(data) // 2 + 2
        case "BOOL":
            return 1
        case _:
            return size_of_value(value)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

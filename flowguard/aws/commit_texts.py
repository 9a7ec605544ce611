"""The long texts of a commit, packed so that the item holds them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from flowguard.aws.items import (
    ASKER,
    FIXED,
    KEPT_FREE,
    KEPT_FREE_AT_THE_END,
    KEPT_FREE_TO_UNDO,
    LARGEST_ITEM,
    Item,
    about_of,
    number,
    record_item,
    rest_size,
    run_key,
    size_of_value,
)
from flowguard.aws.packing import Packed, Packing
from flowguard.errors import TooLarge
from flowguard.payload.codec import About
from flowguard.protocol.callers import LARGEST_HELD, MOST_HELD
from flowguard.protocol.run import Claim, Commit, NewWait, RunItem
from flowguard.protocol.waiting import Late
from flowguard.startup.named_tuple import NamedTuple

PLAN: Final = "plan"
"""The part of a wait that no answer changes, a long text."""

FIRST_MESSAGE: Final = "first_message"
"""The restart payload of a run, if it is a long text."""

SMALLEST_ANSWER: Final = 256
"""Bytes that a commit leaves for the answer to each name: a failure's text, or a pointer to S3."""

LONGEST_IN_KEY: Final = 512
"""Characters of a quoted request id in an S3 key. A longer id is replaced by its digest: a key holds 1,024 bytes."""

_FIXED_OF_A_WAIT: Final = 192

_SIZE_OF_CALLERS: Final = 2 * (MOST_HELD * (LARGEST_HELD + 32) + 128)
"""Bytes reserved in the item for two lists of callers: the open one and the last one answered."""


class PackedTexts(NamedTuple):
    """The long texts of one commit. None stands for a text that is removed."""

    by_name: dict[str, Packed | None]
    room: int
    """Bytes that the item has left."""
    sizes: dict[str, int]
    """Bytes of the long texts in the item, by the names of their attributes."""
    rest: int
    """Bytes of all else that the item has: at most, without what every item has."""


class CommitTexts:
    """Packs the long texts of commits: into the item, or into S3."""

    def __init__(self, packing: Packing, prefix: str) -> None:
        self._packing = packing
        self._prefix = prefix

    def pack(self, claim: Claim, commit: Commit, key: Item) -> PackedTexts:
        """Pack each long text that the commit writes into the item with the ``key``.

        Raises :class:`TooLarge`, naming each size, for what no item can hold.
        """
        packed = {
            name: None if text is None else self._pack(claim, commit, name, text)
            for name, text in _long_texts(claim.item.hop, commit).items()
        }
        stored = {name: text.size for name, text in packed.items() if text is not None}
        if "state" not in packed and (state := self.stored_state(claim)):
            stored["state"] = state
        kept_free = _kept_free(commit)
        beside = _sizes_beside(claim.item, commit, key, kept_free)
        sizes = stored | beside
        if (whole := sum(sizes.values())) > LARGEST_ITEM:
            raise TooLarge(f"the commit of {claim.message.flow}/{claim.message.stage}", sizes, LARGEST_ITEM)
        rest = sum(beside.values()) - FIXED - kept_free
        stored.pop(PLAN, None)  # it is a part of the wait
        return PackedTexts(packed, LARGEST_ITEM - whole, stored, rest)

    def stored_state(self, claim: Claim) -> int:
        """Return the bytes of the state that the item has. Stores nothing."""
        item, about = claim.item, _about(claim, "state")
        if item.state is not None:
            return self._packing.size_of(item.state, about=about)
        return 0 if item.left is None else item.left.size

    def _pack(self, claim: Claim, commit: Commit, name: str, text: str) -> Packed:
        """Pack one long text of the commit.

        An error always stays in the item, and so does a wait's plan: without it the run could not go on. The plan is
        not sealed, for it has names, ids and addresses. Beside an outbox stands what decides whether to send it.
        """
        about = None if name == PLAN else _about(claim, name)
        if name == "outbox":
            beside: dict[str, Any] = {
                "request_id": {"S": claim.item.request_id},
                "committed_at": number(commit.committed_at),
            }
            return self._packing.pack(text, self.key(claim, name), beside, about=about)
        return self._packing.pack(text, None if name in ("error", PLAN) else self.key(claim, name), about=about)

    def key(self, claim: Claim, name: str) -> str:
        """Return a text's S3 key, another for each attempt so that none overwrites another's."""
        m, item = claim.message, claim.item
        return f"{prefix_of_request(self._prefix, m.flow, m.request_id)}{m.hop}-{item.epoch}-{item.owner}-{name}"


def prefix_of_request(prefix: str, flow: str, request_id: str) -> str:
    """Return what the S3 keys of a request's texts begin with, whatever object it is for."""
    run = quote(request_id, safe="")
    if len(run) > LONGEST_IN_KEY:
        run = sha256(request_id.encode()).hexdigest()
    return f"{prefix}{flow}/{run}/"


def _about(claim: Claim, kind: str) -> About:
    return about_of(run_key(claim.message.flow, claim.message.object_id), kind)


def keeps_failed(item: RunItem, commit: Commit) -> bool:
    """Answer whether the commit keeps the item's note of where a run failed."""
    return item.failed is None or item.own_failure is not None or commit.can_be_redriven


def kept_late(item: RunItem, commit: Commit) -> Late | None:
    """Return what the commit keeps of a wait that timed out. A failed hop keeps the whole wait, for a redrive."""
    wait = item.wait
    if wait is None or not wait.timed_out or commit.can_be_redriven:
        return None
    return Late(item.hop - 1, wait.waiting, wait.group)  # a wait that times out has names without an answer


def _long_texts(hop: int, commit: Commit) -> dict[str, str | None]:
    """Return what the commit says of each long text. A hop that failed leaves the state as it is.

    A later one leaves the restart payload, too: its redrive may be reset.
    """
    texts = {
        "outbox": commit.outbox.to_text() if commit.outbox is not None else None,
        "result": commit.result,
        "error": str(commit.error) if commit.error is not None else None,
    }
    if commit.wait is not None:
        texts[PLAN] = commit.wait.plan.to_text()
    if commit.first_message is not None or not commit.leaves_first_message or (hop == 1 and commit.closes_list):
        texts[FIRST_MESSAGE] = commit.first_message
    return texts if commit.leaves_state else {**texts, "state": commit.state}


# -- bytes of an item beside its long texts


def _sizes_beside(item: RunItem, commit: Commit, key: Item, kept_free: int) -> dict[str, int]:
    """Return the bytes by name of all that the item holds beside the texts of the commit."""
    sizes = {"the rest": rest_size(key, item.request_id, item.stages) + kept_free}
    if commit.wait is not None:
        sizes["the wait"] = _size_of_names(commit.wait)
    sizes |= _failed_sizes(item, commit)
    sizes |= _sizes_of_callers(item)
    if item.cancellation is not None:
        sizes["the cancelled run"] = size_of_value(record_item(item.cancellation))
    if (late := kept_late(item, commit) or item.late) is not None:
        sizes["the names without an answer"] = size_of_value(record_item(late))
    return sizes


def _failed_sizes(item: RunItem, commit: Commit) -> dict[str, int]:
    """Return the bytes of what the item keeps because a hop has failed."""
    sizes: dict[str, int] = {}
    failed = commit.failed or (item.failed if keeps_failed(item, commit) else None)
    if failed is not None:
        sizes["the failure"] = size_of_value(record_item(failed))
    if item.wait is not None and commit.can_be_redriven:  # its answers stay, for a redrive
        sizes["the answers"] = item.wait.size
    memo = item.memo
    if memo is not None and commit.can_be_redriven and memo.is_of(item.request_id, item.hop):
        sizes["what it remembers"] = memo.size  # what was done once is not done again by a redrive
    return sizes


def _kept_free(commit: Commit) -> int:
    if commit.can_be_redriven:
        return KEPT_FREE_AT_THE_END
    return KEPT_FREE if commit.failed is None else KEPT_FREE_TO_UNDO


def _sizes_of_callers(item: RunItem) -> dict[str, int]:
    """Return the bytes of the callers by name. Lists count with the most that they may take."""
    lists = {} if item.callers is None and item.answered is None else {"its callers": _SIZE_OF_CALLERS}
    asked = sum(len(ASKER) + len(key) + len(text.encode()) for key, text in item.askers.items())
    return {**lists, "who asked": asked} if asked else lists


def _size_of_names(wait: NewWait) -> int:
    """Return the bytes of a new wait beside its plan, with what the smallest answer to each name takes."""
    group = wait.plan.group
    shards = [] if group is None else [group.key, *group.names]  # they leave no answers in the item
    names = sum(2 * len(name.encode()) + SMALLEST_ANSWER for name in wait.plan.names)
    return _FIXED_OF_A_WAIT + names + sum(1 + len(name) for name in shards)

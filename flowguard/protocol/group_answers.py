"""Decisions about the answers to a group's requests.

They are made from the run item, as those of ``answers`` are for other waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flowguard.protocol.answers import before_the_wait
from flowguard.protocol.groups import GroupRequest, Member, Shard
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress


class NewShard(NamedTuple):
    """A shard to be saved, of the group with the ``key``.

    Of its requests ``spare`` may stay without an answer. ``expires_at`` is in ms.
    """

    flow: str
    key: str
    number: int
    spare: int
    requests: Sequence[GroupRequest]
    expires_at: int


class AskShard(NamedTuple):
    """The run item does not say what becomes of the answer: a shard of the group with the ``key`` does.

    ``can_settle`` is False where the shard can only tell which answers came in time. Those that did not are EXPIRED.
    ``is_open`` says that the run item still has the shard.
    """

    key: str
    can_settle: bool
    is_open: bool = False


def judge_member(item: RunItem | None, address: AnswerAddress, member: Member) -> AnswerVerdict | AskShard:
    """Decide the verdict on the answer to a group's request, given the run item as it stands."""
    if item is None:
        return AnswerVerdict.EXPIRED
    if (said := before_the_wait(item, address)) is not None:
        return said
    if item.hop > address.hop:
        return _gone_on(item, address, member)
    return AnswerVerdict.EXPIRED if item.status in ENDED else _at_its_hop(item, member)


def _at_its_hop(item: RunItem, member: Member) -> AnswerVerdict | AskShard:
    wait = item.wait
    if item.status is not Status.WAITING or wait is None or wait.group is None:
        return AnswerVerdict.UNKNOWN
    if wait.timed_out:
        return AskShard(wait.group, can_settle=False)
    if wait.end is not None:
        return AnswerVerdict.DUPLICATE
    return AskShard(wait.group, can_settle=True, is_open=str(member.shard) in wait.waiting)


def judge_by_shard(shard: Shard | None, member: Member) -> AnswerVerdict:
    """Decide the verdict on an answer that its shard does not take any more."""
    if shard is None or member.number >= shard.size:
        return AnswerVerdict.UNKNOWN
    return AnswerVerdict.EXPIRED if str(member.number) in shard.waiting else AnswerVerdict.DUPLICATE


def _gone_on(item: RunItem, address: AnswerAddress, member: Member) -> AnswerVerdict | AskShard:
    """Decide for a run that is past the hop that waited. Its item may still name the shards that timed out."""
    wait, late = item.wait, item.late
    if late is not None and late.hop == address.hop:
        key = late.group if str(member.shard) in late.names else None
    elif wait is None or item.hop != address.hop + 1 or item.status is Status.WAITING or not wait.timed_out:
        key = None
    else:
        key = wait.group
    return AnswerVerdict.DUPLICATE if key is None else AskShard(key, can_settle=False)

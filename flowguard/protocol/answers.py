"""Decisions about answers, made from the run item alone: the counterpart of ``claims``.

The store asks DynamoDB the same question as one condition; a test goes through every small state of both. The answer to
a group's request is decided by its shard where the run item has the shard still.
"""

from __future__ import annotations

from flowguard.protocol.groups import Member, Shard
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.protocol.waiting import Late, Wait
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress


class AskShard(NamedTuple):
    """The run item does not say what becomes of the answer: a shard of the group with the ``key`` does.

    ``can_settle`` is False where the shard can only tell which answers came in time. Those that did not are EXPIRED.
    ``is_open`` says that the run item still has the shard.
    """

    key: str
    can_settle: bool
    is_open: bool = False


def judge(item: RunItem | None, address: AnswerAddress, *, counts: bool = True) -> AnswerVerdict:
    """Decide the verdict on an answer, given the item as it stands.

    ``counts`` is False for a failure that the resumed stage does not take as an answer.
    """
    if item is None:
        return AnswerVerdict.EXPIRED
    if (verdict := before_the_wait(item, address)) is not None:
        return verdict
    if item.hop > address.hop:
        late = _without(item, address, address.name)
        return AnswerVerdict.DUPLICATE if late is None else AnswerVerdict.EXPIRED
    if isinstance(wait := _wait_of(item, of_group=False), AnswerVerdict):
        return wait
    if address.name not in wait.waiting:
        return AnswerVerdict.DUPLICATE if address.name in wait.answered else AnswerVerdict.UNKNOWN
    if wait.timed_out:
        return AnswerVerdict.EXPIRED
    if wait.end is not None:
        return AnswerVerdict.DUPLICATE
    over = wait.after(address.name, counts=counts).end is not None
    return AnswerVerdict.RESUMED if over else AnswerVerdict.RECORDED


def judge_member(item: RunItem | None, address: AnswerAddress, member: Member) -> AnswerVerdict | AskShard:
    """Decide the verdict on the answer to a group's request, given the run item as it stands."""
    if item is None:
        return AnswerVerdict.EXPIRED
    if (verdict := before_the_wait(item, address)) is not None:
        return verdict
    if item.hop > address.hop:
        late = _without(item, address, str(member.shard))
        if late is None or late.group is None:
            return AnswerVerdict.DUPLICATE
        return AskShard(late.group, can_settle=False)
    if isinstance(wait := _wait_of(item, of_group=True), AnswerVerdict):
        return wait
    key = str(wait.group)
    if wait.timed_out:
        return AskShard(key, can_settle=False)
    if wait.end is not None:
        return AnswerVerdict.DUPLICATE
    return AskShard(key, can_settle=True, is_open=str(member.shard) in wait.waiting)


def judge_by_shard(shard: Shard | None, member: Member) -> AnswerVerdict:
    """Decide the verdict on an answer that its shard does not take any more."""
    if shard is None or member.number >= shard.size:
        return AnswerVerdict.UNKNOWN
    return AnswerVerdict.EXPIRED if str(member.number) in shard.waiting else AnswerVerdict.DUPLICATE


def before_the_wait(item: RunItem, address: AnswerAddress) -> AnswerVerdict | None:
    """Decide the verdict where the item is of another run, or its hop has not begun to wait. None for all others."""
    if not is_run_of(item, address):
        return AnswerVerdict.SUPERSEDED
    if item.hop < address.hop or (item.hop == address.hop and not item.done):
        return AnswerVerdict.EARLY
    return None


def is_run_of(item: RunItem, address: AnswerAddress) -> bool:
    """Answer whether the item is of the run that asked.

    A request id may come again with another time, after another request has had the object. That is another run. The
    time of one run does not change after its first hop is committed.
    """
    return (item.request_id, item.requested_at) == (address.request_id, address.requested_at)


def _wait_of(item: RunItem, *, of_group: bool) -> Wait | AnswerVerdict:
    """Return the wait of an item at the hop of an answer, or the verdict where it has none of that kind."""
    if item.status in ENDED:
        return AnswerVerdict.EXPIRED
    wait = item.wait if item.status is Status.WAITING else None
    return AnswerVerdict.UNKNOWN if wait is None or (wait.group is not None) is not of_group else wait


def _without(item: RunItem, address: AnswerAddress, name: str) -> Late | Wait | None:
    """Return what says that a run which is past the hop that waited has gone on without the name. None where it had it.

    Until it is committed, the hop right after it still has the whole wait. After that the item has the names that came
    too late, of the last wait that timed out. Of a group these are its shards.
    """
    wait, late = item.wait, item.late
    if late is not None and late.hop == address.hop:
        return late if name in late.names else None
    if wait is None or item.hop != address.hop + 1 or item.status is Status.WAITING:
        return None
    return wait if wait.timed_out and name not in wait.answered else None

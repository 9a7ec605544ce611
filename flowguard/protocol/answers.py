"""Decisions about answers, made from the run item alone: the counterpart of ``claims``.

The store asks DynamoDB the same question as one condition; a test goes through every small state of both.
"""

from __future__ import annotations

from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress


def judge(item: RunItem | None, address: AnswerAddress, *, counts: bool = True) -> AnswerVerdict:
    """Decide the verdict on an answer, given the item as it stands.

    ``counts`` is False for a failure that the resumed stage does not take as an answer.
    """
    if item is None:
        return AnswerVerdict.EXPIRED
    if (said := before_the_wait(item, address)) is not None:
        return said
    if item.hop > address.hop:
        return _gone_on(item, address)
    if item.status in ENDED:
        return AnswerVerdict.EXPIRED
    return _at_its_hop(item, address, counts)


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


def _at_its_hop(item: RunItem, address: AnswerAddress, counts: bool) -> AnswerVerdict:
    wait = item.wait
    if item.status is not Status.WAITING or wait is None or wait.group is not None:
        return AnswerVerdict.UNKNOWN
    if address.name in wait.answered:
        return AnswerVerdict.DUPLICATE
    if address.name not in wait.waiting:
        return AnswerVerdict.UNKNOWN
    if wait.timed_out:
        return AnswerVerdict.EXPIRED
    if wait.end is not None:
        return AnswerVerdict.DUPLICATE
    over = wait.after(address.name, counts=counts).end is not None
    return AnswerVerdict.RESUMED if over else AnswerVerdict.RECORDED


def _gone_on(item: RunItem, address: AnswerAddress) -> AnswerVerdict:
    """Decide for a run that is past the hop that waited, and may have ended.

    Until it is committed, the hop right after it still has the whole wait. After that the item has the names that came
    too late, of the last wait that timed out.
    """
    wait, late = item.wait, item.late
    if late is not None and late.hop == address.hop:
        in_vain = address.name in late.names
    elif wait is None or item.hop != address.hop + 1 or item.status is Status.WAITING:
        in_vain = False
    else:
        in_vain = wait.timed_out and address.name not in wait.answered
    return AnswerVerdict.EXPIRED if in_vain else AnswerVerdict.DUPLICATE

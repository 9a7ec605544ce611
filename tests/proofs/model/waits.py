"""What answers and deadlines do to the run item, as ``protocol.answers`` decides it.

``tests/aws/test_answers_agree.py`` shows that the database decides the same.
"""

from __future__ import annotations

from flowguard.names.ids import Owner
from flowguard.protocol import answers
from flowguard.protocol.run import Commit, Looked, RunItem, Settled, Status, TimedOut
from flowguard.protocol.waiting import GivenAnswer, Look, Wait
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.proofs.model.world import Shelf

APPLIED = (AnswerVerdict.RECORDED, AnswerVerdict.RESUMED)


def settle(shelf: Shelf, number: int | None, address: AnswerAddress, answer: GivenAnswer) -> tuple[int | None, Settled]:
    """The item after the answer, and the reply."""
    item: RunItem | None = None if number is None else shelf[number]
    counts = address.admits or not answer.failed
    verdict = answers.judge(item, address, counts=counts)
    if verdict not in APPLIED or item is None:
        return number, Settled(verdict, _at_rest(item, address))
    assert item.wait is not None
    wait = item.wait.after(address.name, counts=counts)
    after = item._replace(wait=wait._replace(answers={**item.wait.answers, address.name: answer}))
    return shelf.put(after), Settled(verdict, _seen(after))


def time_out(
    shelf: Shelf, number: int | None, address: AnswerAddress, *, ends_twice: bool
) -> tuple[int | None, TimedOut]:
    """The item after the deadline, and the reply. ``ends_twice`` leaves out that the wait goes on."""
    item: RunItem | None = None if number is None else shelf[number]
    here = item is not None and (item.request_id, item.hop) == (address.request_id, address.hop)
    if item is None or item.wait is None or not here or item.status is not Status.WAITING:
        return number, TimedOut(False, _at_rest(item, address))
    if item.wait.timed_out or (item.wait.end is not None and not ends_twice):
        return number, TimedOut(False, _at_rest(item, address))
    after = item._replace(wait=item.wait._replace(timed_out=True))
    return shelf.put(after), TimedOut(True, _seen(after))


def look(shelf: Shelf, number: int | None, address: AnswerAddress, look: Look) -> tuple[int | None, Looked]:
    """The item after a deadline's message that came too early, and the reply."""
    item: RunItem | None = None if number is None else shelf[number]
    here = item is not None and (item.request_id, item.hop) == (address.request_id, address.hop)
    if item is None or item.wait is None or not here or item.status is not Status.WAITING:
        return number, Looked(False, _at_rest(item, address))
    is_over = item.wait.end is not None
    if item.wait.looked_at and is_over:
        return number, Looked(False, _at_rest(item, address))
    if item.wait.looked_at and look.long_ago <= item.wait.looked_at > look.since:
        return number, Looked(item.wait.looked_by == look.by, _at_rest(item, address))
    after = item._replace(wait=item.wait.looked(look))
    return shelf.put(after), Looked(not is_over, _seen(after))


def after_commit(item: RunItem, commit: Commit) -> Wait | None:
    """The wait that a commit leaves in the item. A run that failed keeps its answers, for a redrive."""
    if commit.wait is not None:
        return commit.wait.begun()
    return item.wait if commit.can_be_redriven else None


def _at_rest(item: RunItem | None, address: AnswerAddress) -> RunItem | None:
    """The item as the store reads it: a wait that goes on has neither its plan nor its answers."""
    if item is None:
        return None
    here = (item.request_id, item.hop, item.status) == (address.request_id, address.hop, Status.WAITING)
    return _seen(item, whole=here and item.wait is not None and item.wait.end is not None)


def _seen(item: RunItem, *, whole: bool = True) -> RunItem:
    """All of it that a worker looks at. Keeps the number of workers small."""
    wait = item.wait if whole or item.wait is None else item.wait._replace(plan=None, answers={})
    seen = item._replace(epoch=0, outbox=None, state=None, result=None, committed_at=0, owner=Owner(""), wait=wait)
    return seen._replace(lease_until=0, retry=0, redrive=0, stages={}, ttl=0)

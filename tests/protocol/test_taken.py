"""What a claim leaves of a wait, and of an outbox: values, without a store."""

from __future__ import annotations

from flowguard.aws.items import read_item
from flowguard.errors import TextGone
from flowguard.protocol.claims import taken
from flowguard.protocol.outbox import Outbox
from flowguard.protocol.run import RunItem
from flowguard.protocol.waiting import Late
from tests.aws.states import OTHERS, STORED, item, request, wait

LATE = Late(1, frozenset("b"))
GONE = TextGone("bucket", "key", "NoSuchKey")


def stored() -> RunItem:
    found = read_item(item(1, "waiting", (0, 0), "over", "other", wait(waiting=(), answered=("a",))))
    return found._replace(outbox=Outbox(found.request_id, 1, ()), lost=GONE, late=LATE)


def test_the_hop_after_a_wait_keeps_it_with_the_outbox_of_the_hop_that_waited() -> None:
    asked = request(STORED, hop=2)
    resumed = taken(stored(), asked._replace(message=asked.message._replace(resumed=True)))
    assert (resumed.wait, resumed.outbox, resumed.lost) == (stored().wait, stored().outbox, GONE)
    assert resumed.late == LATE


def test_another_later_hop_leaves_the_outbox_behind() -> None:
    assert taken(stored(), request(STORED, hop=2)).outbox is None


def test_a_takeover_has_no_wait_and_the_outbox_of_the_run_before() -> None:
    found = taken(stored(), request(OTHERS["newer"]))
    assert (found.wait, found.outbox, found.lost, found.late) == (None, stored().outbox, None, None)

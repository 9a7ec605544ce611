"""The verdict on an answer to a group's request, for each state of its run."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.items import read_item
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.answers import AskShard, judge_by_shard, judge_member
from flowguard.protocol.groups import Member, Shard, group_key, request_of, spare_of
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import Late, Wait
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.aws import states

KEY = group_key("one")
WAIT = Wait(frozenset({"0", "1"}), 0, 1_000, group=KEY)
ASKED = Member(0, 7)
SETTLES, TELLS = AskShard(KEY, can_settle=True, is_open=True), AskShard(KEY, can_settle=False)
DUPLICATE, UNKNOWN, EXPIRED = AnswerVerdict.DUPLICATE, AnswerVerdict.UNKNOWN, AnswerVerdict.EXPIRED


def run(state: str, hop: int = 2, **about: Any) -> RunItem:
    return read_item(states.item(hop, state, (0, 0), "over", "other"))._replace(**about)


def address(hop: int = 2) -> AnswerAddress:
    return AnswerAddress("flow", ObjectId("object"), RequestId(states.STORED[1]), states.STORED[0], hop, ASKED.text)


@pytest.mark.parametrize(
    ("item", "hop", "verdict"),
    [
        (run("waiting", wait=WAIT), 2, SETTLES),
        (run("waiting", wait=WAIT._replace(waiting=frozenset({"1"}))), 2, SETTLES._replace(is_open=False)),
        (run("waiting", wait=WAIT._replace(timed_out=True)), 2, TELLS),
        (run("waiting", wait=WAIT._replace(waiting=frozenset())), 2, DUPLICATE),
        (run("waiting", wait=WAIT._replace(group=None)), 2, UNKNOWN),
        (run("waiting", wait=None), 2, UNKNOWN),
        (run("done", wait=WAIT), 2, UNKNOWN),
        (run("running", wait=WAIT), 2, AnswerVerdict.EARLY),
        (run("completed", wait=WAIT), 2, EXPIRED),
        (run("failed", wait=WAIT), 2, EXPIRED),
        (run("running", hop=1), 2, AnswerVerdict.EARLY),
        # the run went on
        (run("running", wait=WAIT._replace(timed_out=True)), 1, TELLS),
        (run("failed", wait=WAIT._replace(timed_out=True)), 1, TELLS),
        (run("running", wait=WAIT._replace(timed_out=True), late=Late(0, frozenset(), "g-other")), 1, TELLS),
        (run("running", wait=WAIT._replace(waiting=frozenset())), 1, DUPLICATE),
        (run("running", wait=WAIT._replace(timed_out=True, group=None)), 1, DUPLICATE),
        (run("running", wait=None), 1, DUPLICATE),
        (run("waiting", wait=WAIT._replace(timed_out=True)), 1, DUPLICATE),  # that is another wait
        (run("running", hop=3, wait=WAIT._replace(timed_out=True)), 1, DUPLICATE),
        (run("done", late=Late(1, frozenset({"0"}), KEY)), 1, TELLS),
        (run("done", late=Late(1, frozenset({"1"}), KEY)), 1, DUPLICATE),
        (run("done", late=Late(1, frozenset({"0"}))), 1, DUPLICATE),
        (run("done", hop=3, late=Late(1, frozenset({"0"}), KEY)), 2, DUPLICATE),
    ],
)
def test_each_state_has_its_verdict(item: RunItem, hop: int, verdict: object) -> None:
    assert judge_member(item, address(hop), ASKED) == verdict


def test_another_run_has_another_time_or_id() -> None:
    item = run("waiting", wait=WAIT)
    for about in ({"requested_at": 1}, {"request_id": RequestId("x")}):
        assert judge_member(item._replace(**about), address(), ASKED) is AnswerVerdict.SUPERSEDED
    assert judge_member(None, address(), ASKED) is EXPIRED
    assert item.status is Status.WAITING


def test_a_shard_tells_who_came_in_time() -> None:
    shard = Shard(9, 0, frozenset({"7"}))
    assert judge_by_shard(shard, ASKED) is EXPIRED
    assert judge_by_shard(shard, Member(0, 8)) is DUPLICATE
    assert judge_by_shard(shard, Member(0, 9)) is UNKNOWN
    assert judge_by_shard(None, ASKED) is UNKNOWN


@pytest.mark.parametrize(
    ("size", "quorum", "spare"),
    [(99, 1, 0), (99, 0.99, 0), (100, 0.99, 1), (99, 0.5, 49), (100, 0.07, 93), (1, 0.001, 0), (100, 0.95, 5)],
)
def test_a_quorum_is_rounded_up(size: int, quorum: float, spare: int) -> None:
    assert spare_of(size, quorum) == spare


def test_the_id_of_a_request_names_its_group() -> None:
    assert request_of("r1.1.group.3.7") == ("r1.1.group", Member(3, 7))
    assert request_of("a.group.1.2.group.3.7") == ("a.group.1.2.group", Member(3, 7))
    assert request_of("line\nbreak.group.3.7") == ("line\nbreak.group", Member(3, 7))
    for other in ("", "r1", "group.3.7", "r1.group", "r1.group.3.99", "r1.group.3.07", "r1.group.3.7.8"):
        assert request_of(other) is None

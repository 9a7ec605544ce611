"""The conditions of answers and deadlines say what ``flowguard.protocol.answers`` decides; each part is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.aws.clients import Clients
from flowguard.aws.items import read_item
from flowguard.aws.services import aws_store
from flowguard.errors import TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.answers import judge
from flowguard.protocol.run import RunItem
from flowguard.protocol.waiting import GivenAnswer, Look, Wait, WaitEnd
from flowguard.settings import Settings
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.aws import states
from tests.aws.engines import EVERY_STATE, on_memory
from tests.aws.states import NOW, WAITS

KEPT = (AnswerVerdict.RESUMED, AnswerVerdict.RECORDED)
LATE = ((1, "a"), (1, "b"), (2, "a"))
REQUESTS = (states.STORED, (states.STORED[0], "other"), (states.STORED[0] + 1, states.STORED[1]))
"""That of the item, another one, and another with its id."""

ANSWERS = {"an answer": (False, False), "a failure": (True, False), "a failure that is an answer": (True, True)}


@dataclass(frozen=True)
class Meets:
    """One case: a stored item and an answer that meets it."""

    says: str
    item: dict[str, Any] | None
    address: AnswerAddress
    answer: GivenAnswer

    @property
    def counts(self) -> bool:
        return self.address.admits or not self.answer.failed


def address(
    name: str = "a", hop: int = 1, request: tuple[int, str] = states.STORED, *, admits: bool = False
) -> AnswerAddress:
    at, own = request
    return AnswerAddress("flow", ObjectId("object"), RequestId(own), at, hop, name, admits)


def meets() -> Iterator[Meets]:
    yield Meets("no item", None, address(), GivenAnswer("{}"))
    for state, hop, kind in product(states.STATES, (1, 2, 3), ANSWERS):
        failed, admits = ANSWERS[kind]
        stored = states.item(2, state, (0, 0), "over", "other")
        yield Meets(f"{kind} for hop {hop}, item at 2 {state}", stored, address(hop=hop, admits=admits), _given(failed))
    for (says, about), name, kind, request in product(WAITS.items(), "abcd", ANSWERS, REQUESTS):
        failed, admits = ANSWERS[kind]
        stored = states.item(1, "waiting", (0, 0), "over", "other", states.wait(**about))
        named = address(name, request=request, admits=admits)
        yield Meets(f"{kind} to {name} of {request}; the wait is {says}", stored, named, _given(failed))
    for (says, about), state in product(WAITS.items(), ("running", "done", "completed")):
        stored = {**states.item(2, state, (0, 0), "over", "other"), **states.wait(**about)}
        for hop in (1, 2):
            told = f"an answer for hop {hop}; hop 2 is {state} after a wait that is {says}"
            yield Meets(told, stored, address(hop=hop), _given(False))
    for state, stored_hop, (late_at, late) in product(states.STATES, (2, 3), LATE):
        stored = {**states.item(stored_hop, state, (0, 0), "over", "other"), **states.late(late_at, late)}
        told = f"item at {stored_hop} {state}; {late} came too late for hop {late_at}"
        yield Meets(f"an answer; {told}", stored, address(hop=1), _given(False))


def _given(failed: bool) -> GivenAnswer:
    return GivenAnswer('{"failed":true,"type":"T","text":"x"}' if failed else "{}", failed)


def _bare(wait: Wait) -> Wait:
    """What an answer or a deadline is judged by: no texts that may be in S3, and no sizes."""
    return wait._replace(room=0, size=0, answers={}, plan=None)


MEETS = tuple(meets())


def lay_out(clients: Clients, item: dict[str, Any] | None) -> None:
    if item is None:
        clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    else:
        clients.dynamodb.put_item(TableName="flowguard", Item=item)


def stored(clients: Clients) -> RunItem | None:
    return aws_store(Settings(), clients).read("flow", ObjectId("object"))


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_the_database_and_the_decision_agree_on_every_answer(clients: Clients) -> None:
    seen: Counter[AnswerVerdict] = Counter()
    for each in MEETS:
        lay_out(clients, each.item)
        before = stored(clients)
        expected = judge(before, each.address, counts=each.counts)
        verdict, after = aws_store(Settings(), clients).waits.settle(each.address, each.answer)
        assert verdict is expected, each.says
        seen[verdict] += 1
        if verdict in KEPT:
            assert after is not None, each.says
            assert after.wait is not None, each.says
            now = stored(clients)
            assert now is not None, each.says
            assert now.wait is not None, each.says
            assert _bare(now.wait) == _bare(after.wait), each.says
            assert now.wait.answers[each.address.name] == each.answer, each.says
            assert (after.wait.end is not None) is (verdict is AnswerVerdict.RESUMED), each.says
        else:
            assert stored(clients) == before, each.says
    assert set(seen) == set(AnswerVerdict), "the states reach every verdict"


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_a_deadline_ends_only_a_wait_that_goes_on_and_not_before_its_time(clients: Clients) -> None:
    ended = []
    for (says, about), late, hop, request in product(WAITS.items(), (-1, 0), (1, 2), REQUESTS):
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait(**about)))
        before = stored(clients)
        assert before is not None
        assert before.wait is not None
        goes_on = before.wait.end is None and late == 0 and hop == 1 and request == states.STORED
        applied, item = aws_store(Settings(), clients).waits.time_out(
            address("deadline", hop, request), before.wait.deadline + late
        )
        assert applied is goes_on, says
        assert item is not None
        assert item.wait is not None
        if applied:
            assert item.wait.end is WaitEnd.TIMED_OUT
            now = stored(clients)
            assert now is not None
            assert now.wait is not None
            assert now._replace(wait=None) == item._replace(wait=None)
            assert _bare(now.wait) == _bare(item.wait)
            assert now.wait.plan == item.wait.plan
            ended.append(says)
    assert ended == ["one of two is missing"]


FIRST = Look("first", NOW - 10, NOW, NOW - 100)


def looks() -> Iterator[tuple[str, dict[str, Any], AnswerAddress, Look | None, Look, bool]]:
    """A wait, the address of a look at it, the look before, the look, and whether it goes on."""
    for says, hop, request in product(WAITS, (1, 2), REQUESTS):
        here = hop == 1 and request == states.STORED
        ours = here and says == "one of two is missing"
        for before in (None, FIRST):
            yield says, WAITS[says], address("deadline", hop, request), before, FIRST, ours
        if here and not ours:
            late = Look("late", FIRST.at + 1, FIRST.at + 5, FIRST.at + 1)
            yield f"{says}, and was looked at", WAITS[says], address("deadline"), FIRST, late, False
    for by, since, long_ago in product(("first", "second"), (-1, 0), (0, 1)):
        look = Look(by, FIRST.at + since, FIRST.at + 5, FIRST.at + long_ago)
        goes_on = by == "first" or since >= 0 or long_ago > 0
        told = f"looked at since by {by}: {since}, long ago {long_ago}"
        yield told, WAITS["one of two is missing"], address("deadline"), FIRST, look, goes_on


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_of_the_copies_of_an_early_deadline_only_one_goes_on(clients: Clients) -> None:
    waits = aws_store(Settings(), clients).waits
    for says, about, where, before, look, goes_on in looks():
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait(**about)))
        if before is not None:
            waits.look(address("deadline"), before)
        found, item = waits.look(where, look)
        assert found is goes_on, says
        now = stored(clients)
        assert now is not None, says
        assert item is not None, says
        assert now.wait is not None, says
        assert item.wait is not None, says
        assert (now.wait.looked_at, now.wait.looked_by) == (item.wait.looked_at, item.wait.looked_by), says
        assert item.wait.end is now.wait.end, says


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_the_first_look_at_a_wait_that_is_over_is_noted_where_the_run_has_not_gone_on(clients: Clients) -> None:
    """It proves to the hop that goes on what was sent, and brings the plan of the wait."""
    waits = aws_store(Settings(), clients).waits
    over = WAITS["answered"]
    for state, noted in (("waiting", True), ("running", False), ("completed", False)):
        lay_out(clients, states.item(1, state, (0, 0), "over", "other", states.wait(**over)))
        goes_on, item = waits.look(address("deadline"), FIRST)
        assert (goes_on, item is not None) == (False, True), state
        now = stored(clients)
        assert now is not None
        assert ((now.wait or Wait(frozenset(), 0, 0)).looked_at > 0) is noted, state
        if noted:
            assert item is not None
            assert item.wait is not None
            assert (item.wait.looked_at, item.wait.plan is None) == (FIRST.at, False)


@pytest.mark.parametrize("says", [says for says in WAITS if says != "one of two is missing"])
def test_a_later_look_at_a_wait_that_is_over_is_not_noted(says: str) -> None:
    with on_memory() as clients:
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait(**WAITS[says])))
        waits = aws_store(Settings(), clients).waits
        waits.look(address("deadline"), FIRST)
        first = stored(clients)
        assert not waits.look(address("deadline"), Look("late", FIRST.at + 1, FIRST.at + 5, FIRST.at + 1)).goes_on
        assert stored(clients) == first


def test_a_repeated_look_changes_nothing() -> None:
    with on_memory() as clients:
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait()))
        waits = aws_store(Settings(), clients).waits
        for look in (FIRST, FIRST._replace(now=NOW + 7)):
            goes_on, item = waits.look(address("deadline"), look)
            assert goes_on
            assert item is not None
            assert item.wait is not None
            assert item.wait.looked_at == NOW, "what was sent by the first one would be a copy otherwise"


def test_a_look_at_a_run_that_is_gone_goes_nowhere() -> None:
    with on_memory() as clients:
        lay_out(clients, None)
        assert aws_store(Settings(), clients).waits.look(address("deadline"), FIRST) == (False, None)
        lay_out(clients, states.item(2, "done", (0, 0), "over", "other"))
        assert not aws_store(Settings(), clients).waits.look(address("deadline"), FIRST).goes_on


def test_a_deadline_ends_no_run_that_went_on() -> None:
    with on_memory() as clients:
        for state in ("running", "done", "completed", "failed"):
            lay_out(clients, {**states.item(1, state, (0, 0), "over", "other"), **states.wait()})
            assert not aws_store(Settings(), clients).waits.time_out(address("deadline"), NOW + 10**9).applied


ALWAYS, NEVER = "attribute_exists(request_id)", "hop = :request_id"

MUTANTS = {
    "another request's wait": ("request_id = :request_id", ALWAYS),
    "another hop's wait": ("hop = :hop", ALWAYS),
    "a run that does not wait": ("#status = :waiting", ALWAYS),
    "a wait that has timed out": ("attribute_not_exists(#wait.timed_out)", ALWAYS),
    "a wait that has failed": ("#wait.spare >= :zero", ALWAYS),
    "a wait that is over": ("size(waiting) > #wait.spare", ALWAYS),
    "a name that is not awaited": ("contains(waiting, :name)", ALWAYS),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_one_part_of_the_condition_some_answer_is_kept_wrongly(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, instead = MUTANTS[mutant]
    assert part in expressions.ANSWER
    monkeypatch.setattr(expressions, "ANSWER", expressions.ANSWER.replace(part, instead))
    with on_memory() as clients:
        assert any(_kept(clients, each) is not _is_kept(each) for each in MEETS if each.item is not None)


def _is_kept(each: Meets) -> bool:
    return judge(read_item(each.item) if each.item else None, each.address, counts=each.counts) in KEPT


def _kept(clients: Clients, each: Meets) -> bool:
    lay_out(clients, each.item)
    before = stored(clients)
    waits = aws_store(Settings(), clients).waits
    call = waits._answer_call(
        each.address, each.answer, each.counts, waits.calls.packing.pack(each.answer.text, None, about=None)
    )
    text = call["ConditionExpression"] + call["UpdateExpression"]
    values = call["ExpressionAttributeValues"]
    call["ExpressionAttributeValues"] = {name: value for name, value in values.items() if name in text}
    try:
        clients.dynamodb.update_item(**call)
    except clients.dynamodb.exceptions.ClientError:
        return False
    return stored(clients) != before


# -- what an item has no room for --------------------------------------------------------------------------------------


def test_an_answer_that_does_not_fit_goes_to_s3_and_comes_back_whole() -> None:
    long = '"' + "".join(chr(33 + (7 * n * n) % 90) for n in range(3_000)).replace("\\", "/").replace('"', "'") + '"'
    with on_memory() as clients:
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait(room=500)))
        store = aws_store(Settings(bucket="long-texts"), clients)
        assert store.waits.settle(address(), GivenAnswer(long)).verdict is AnswerVerdict.RESUMED
        item = store.read("flow", ObjectId("object"))
    assert item is not None
    assert item.wait is not None
    assert item.wait.answers == {"a": GivenAnswer(long)}
    assert 0 <= item.wait.room < 500


def test_an_answer_that_fits_nowhere_is_refused_by_name_and_the_run_goes_on_waiting() -> None:
    with on_memory() as clients:
        lay_out(clients, states.item(1, "waiting", (0, 0), "over", "other", states.wait(room=10)))
        before = stored(clients)
        with pytest.raises(TooLarge, match=r"the answer 'a' is too large: .* bytes of at most 10") as refused:
            aws_store(Settings(), clients).waits.settle(address(), GivenAnswer('"' + "x" * 100 + '"'))
        assert refused.value.limit == 10
        assert stored(clients) == before

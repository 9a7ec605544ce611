"""Answers that a callback keeps: for those who waited when they came, or for the next wait, whatever dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.errors import RunFailed
from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.waiting import GivenAnswer, WaitEnd
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.worker import early_answers, external_answers
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.external_answers import ExternalAnswers
from tests.waits import SCRIPT, START, WITHIN, Admits, AnyOf, Carts, Progress, WaitScene, record, wait_scene
from tests.worker.runtime.mishaps import Died

HOUR = timedelta(hours=1)
TRANSACTION = "TransactWriteItems"
KEPT = ExternalAnswer(Carts, "paid", GivenAnswer("7"), HOUR)


@pytest.fixture
def at() -> Iterator[WaitScene]:
    """Nothing is sent beside the wait, so that an answer waits for no look."""
    with wait_scene() as scene:
        SCRIPT.mails = False
        yield scene


def for_early_paid(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(a=step.event("paid", keep_early=True), within=WITHIN)


def for_paid_alone(step: Step[Progress]) -> Outcome:
    """It does not look for what came before."""
    return AnyOf.when_any(a=step.event("paid"), within=WITHIN)


def for_b(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(b=step.event("paid"), within=WITHIN)


def begins(at: WaitScene, number: int, waits: Callable[[Step[Progress]], Outcome] = for_early_paid) -> bool:
    """A run of an object of its own begins to wait. Whether its record was acked."""
    named = f"c{number}"
    body, run = json.dumps({"cart_id": named}), RequestId(f"run-{number}")
    return at.begin(waits, object_id=ObjectId(named), body=body, request_id=run, requested_at=START + number)


def leaves(at: WaitScene, number: int) -> None:
    """A newer run takes the object, and waits for something else."""
    replaces(at, 9 * number, number, lambda step: AnyOf.when_any(a=step.event("else"), within=WITHIN))


def replaces(at: WaitScene, number: int, of: int, waits: Callable[[Step[Progress]], Outcome] = for_early_paid) -> None:
    """A newer run takes the object of another one, and begins to wait."""
    body, run = json.dumps({"cart_id": f"c{of}"}), RequestId(f"run-{number}")
    at.begin(waits, object_id=ObjectId(f"c{of}"), body=body, request_id=run, requested_at=START + number)


def message(by: str, moment: int, receives: int = 1) -> Envelope:
    received = normalize_record({**record({}, "{}", "parcels"), "messageId": by})
    counted = {"SentTimestamp": str(moment), "ApproximateReceiveCount": str(receives)}
    sent = {**received.received["attributes"], **counted}
    return received._replace(received={**received.received, "attributes": sent})


def comes(at: WaitScene, text: str = "7", by: str = "m-1", moment: int = 10, **about: Any) -> AnswerVerdict:
    """An answer comes through its queue. Copies have its id and its moment."""
    settling = ExternalAnswers(at.services, Emitter(at.services.observer))
    found = KEPT._replace(answer=GivenAnswer(text), **about)
    return settling.settle(found, message(by, START + moment), queued=True)[0]


def settled(at: WaitScene, receives: int) -> Ending:
    settling = ExternalAnswers(at.services, Emitter(at.services.observer))
    return settling.settle(KEPT, message("m-1", START + 10, receives), queued=True)[1]


def comes_again(at: WaitScene, receives: int = 2) -> Ending:
    """Its record comes again, as late as one that was held."""
    at.clock.advance(seconds=30)
    return settled(at, receives)


def ends(at: WaitScene) -> dict[str, str]:
    """How the runs stand when all that was sent is carried out."""
    while at.resume():
        pass
    items = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    runs = sorted((one["request_id"]["S"], one["status"]["S"]) for one in items if one["sk"]["S"] == "run")
    return dict(runs)


def got() -> list[int | None]:
    return [payload.a for _, payload in SCRIPT.got]


def dying(number: int, *, after: bool) -> Callable[[ApiCall, Proceed], Response]:
    """Die at this call of DynamoDB or SQS, before or after its effect."""
    left = [number]

    def interceptor(call: ApiCall, proceed: Proceed, /) -> Response:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Died
        try:
            return proceed()
        finally:
            if left[0] == 0:
                raise Died

    return interceptor


def between(operation: str, happens: Callable[[], object]) -> Callable[[ApiCall, Proceed], Response]:
    """Let something happen right before the first such call."""
    ahead = [happens]

    def interceptor(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == operation and ahead:
            ahead.pop()()
        return proceed()

    return interceptor


def right_after(operation: str, happens: Callable[[], object]) -> Callable[[ApiCall, Proceed], Response]:
    """Let something happen right after the first such call."""
    ahead = [happens]

    def interceptor(call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation == operation and ahead:
            ahead.pop()()
        return answer

    return interceptor


def calls_of(at: WaitScene, **about: Any) -> list[str]:
    """The calls of DynamoDB that an answer takes."""
    with intercept(Recorder()) as made:
        comes(at, **about)
    return [call.operation for call in made.calls if call.service == "dynamodb"]


EVERY_DEATH = [(number, after) for number in range(1, 7) for after in (False, True)]
"""Query, GetItem, PutItem, TransactWriteItems, GetItem and the message of the next hop."""


# -- one run waits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "after"), EVERY_DEATH)
def test_whenever_its_function_dies_an_answer_is_for_the_run_that_waited_and_for_no_later_one(
    number: int, after: bool, at: WaitScene
) -> None:
    begins(at, 1)
    with intercept(dying(number, after=after)), pytest.raises(Died):
        comes(at)
    before_it_is_kept = number < 3 or (number == 3 and not after)
    if not before_it_is_kept:
        begins(at, 2)
    assert comes_again(at).ack
    if before_it_is_kept:
        begins(at, 2)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}
    comes(at)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}, "a copy is for nobody else"
    comes(at, "8", "m-2", 20)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "COMPLETED"}
    assert got() == [7, 8]


@pytest.mark.parametrize(("number", "after"), EVERY_DEATH)
def test_whenever_its_function_dies_a_run_that_replaces_the_one_that_waited_has_it_unless_that_had(
    number: int, after: bool, at: WaitScene
) -> None:
    begins(at, 1)
    with intercept(dying(number, after=after)), pytest.raises(Died):
        comes(at)
    replaces(at, 2, of=1)
    comes(at)
    had = number > 4 or (number == 4 and after)
    assert ends(at) == {"run-2": "WAITING" if had else "COMPLETED"}
    assert got() == ([] if had else [7])


def test_a_run_that_is_replaced_while_its_answer_is_kept_leaves_it_to_the_newer_one(at: WaitScene) -> None:
    begins(at, 1)
    with intercept(between("PutItem", lambda: replaces(at, 2, of=1))):
        comes(at)
    assert ends(at) == {"run-2": "COMPLETED"}


def test_what_those_who_waited_cannot_take_is_for_whoever_waits_by_then(at: WaitScene) -> None:
    """The other run has begun before they were replaced, and left it to them."""
    begins(at, 1)
    with intercept(dying(4, after=False)), pytest.raises(Died):
        comes(at)
    begins(at, 2)
    leaves(at, 1)
    comes(at)
    assert ends(at) == {"run-2": "COMPLETED", "run-9": "WAITING"}


def test_a_run_that_begins_when_those_who_waited_are_gone_takes_it_at_once(at: WaitScene) -> None:
    begins(at, 1)
    with intercept(dying(4, after=False)), pytest.raises(Died):
        comes(at)
    leaves(at, 1)
    begins(at, 2)
    assert ends(at) == {"run-2": "COMPLETED", "run-9": "WAITING"}
    comes(at)
    assert got() == [7]


def test_the_worker_of_the_run_that_waited_may_take_it_itself(at: WaitScene) -> None:
    """Its message has come again: it looks for what is kept, before the answer's message comes again."""
    begins(at, 1)
    with intercept(dying(4, after=False)), pytest.raises(Died):
        comes(at)
    begins(at, 1)
    assert ends(at) == {"run-1": "COMPLETED"}


# -- a look is to come -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [1, 2])
def test_an_answer_that_is_taken_before_the_look_is_held_and_its_record_lets_the_run_go_on(
    waiting: int, at: WaitScene
) -> None:
    SCRIPT.mails = True
    runs = [f"run-{number}" for number in range(1, waiting + 1)]
    for number in range(1, waiting + 1):
        begins(at, number)
    for receives in (1, 2):
        ending = settled(at, receives)
        assert (ending.ack, ending.why, ending.again_in) == (False, external_answers.HELD, 20)
    assert ends(at) == dict.fromkeys(runs, "WAITING")
    assert comes_again(at, 3).ack
    begins(at, 7)
    assert comes_again(at, 4).ack
    assert ends(at) == {**dict.fromkeys(runs, "COMPLETED"), "run-7": "WAITING"}


@pytest.mark.parametrize(("number", "after"), EVERY_DEATH[:-2])
def test_whenever_its_function_dies_an_answer_that_would_be_held_is_for_the_run_that_waited(
    number: int, after: bool, at: WaitScene
) -> None:
    SCRIPT.mails = True
    begins(at, 1)
    with intercept(dying(number, after=after)), pytest.raises(Died):
        settled(at, 1)
    assert comes_again(at).ack
    begins(at, 2)
    assert comes_again(at, 3).ack
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}


def test_the_worker_that_takes_what_was_kept_leaves_its_run_to_the_look(at: WaitScene) -> None:
    SCRIPT.mails = True
    comes(at)
    begins(at, 1)
    assert at.wait.end is WaitEnd.ANSWERED
    assert ends(at) == {"run-1": "WAITING"}
    assert at.deliver(*at.waiting("answers")), "the look"
    assert ends(at) == {"run-1": "COMPLETED"}


# -- nobody waits yet --------------------------------------------------------------------------------------------------


def test_of_two_runs_that_begin_to_wait_while_an_answer_is_kept_one_has_it(at: WaitScene) -> None:
    def begin() -> None:
        for number in (1, 2):
            begins(at, number, for_paid_alone)

    with intercept(between("PutItem", begin)):
        comes(at)
    assert sorted(ends(at).values()) == ["COMPLETED", "WAITING"]


def test_a_copy_of_an_answer_that_a_later_wait_has_used_is_for_nobody_else(at: WaitScene) -> None:
    comes(at)
    begins(at, 1)
    begins(at, 2)
    comes(at)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}


def test_a_copy_of_an_answer_that_nobody_has_used_is_for_one_run_that_does_not_look(at: WaitScene) -> None:
    comes(at)
    for number in (1, 2):
        begins(at, number, for_paid_alone)
    assert set(ends(at).values()) == {"WAITING"}
    comes(at)
    assert sorted(ends(at).values()) == ["COMPLETED", "WAITING"]


def test_a_second_answer_to_a_run_that_has_one_is_the_next_ones_however_often_it_comes(at: WaitScene) -> None:
    begins(at, 1)
    comes(at, "7", "m-1", 10)
    assert [comes(at, "8", "m-2", 20) for _ in range(2)] == [AnswerVerdict.DUPLICATE] * 2
    begins(at, 2)
    ends(at)
    assert got() == [7, 8]


def test_a_run_that_is_not_committed_yet_keeps_the_record_and_finds_what_is_kept(at: WaitScene) -> None:
    def comes_in_between() -> None:
        assert comes(at) is AnswerVerdict.EARLY
        [event] = [event for event in at.tally.events if event.type is EventType.ANSWERED]
        assert event.facts == {"name": "a", "verdict": "EARLY", "failed": False, "looked": True}, "why it stays"
        assert event.message is not None
        assert (event.message.object_id, event.message.request_id, event.message.hop) == ("c1", "run-1", 1)

    rows = [True]

    def interceptor(call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation == "BatchWriteItem" and rows:
            rows.clear()
            comes_in_between()
        return answer

    with intercept(interceptor):
        begins(at, 1)
    assert ends(at) == {"run-1": "COMPLETED"}


def test_an_early_failure_is_an_answer_for_a_stage_that_admits_one(at: WaitScene) -> None:
    failed = GivenAnswer('{"failed":true,"type":"Refused","text":"no"}', failed=True)
    ExternalAnswers(at.services, Emitter(at.services.observer)).settle(
        KEPT._replace(answer=failed), message("m-1", START), queued=True
    )
    body = '{"cart_id":"c1"}'
    at.begin(
        lambda step: Admits.when_all(
            a=step.event("paid", keep_early=True), b=step.event("b"), c=step.event("c"), within=WITHIN
        ),
        body=body,
    )
    assert at.wait.answered == {"a"}
    assert at.wait.end is None


@pytest.mark.parametrize(("number", "after"), EVERY_DEATH)
def test_whenever_its_function_dies_a_run_that_began_to_wait_since_it_was_kept_has_it(
    number: int, after: bool, at: WaitScene
) -> None:
    comes(at)
    begins(at, 1, for_paid_alone)
    with intercept(dying(number + 1, after=after)), pytest.raises(Died):
        comes(at)
    assert comes_again(at).ack
    begins(at, 2)
    comes(at)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}


def test_where_another_delivery_dies_after_a_run_has_it_this_one_lets_the_run_go_on(at: WaitScene) -> None:
    def another_delivery() -> None:
        begins(at, 1, for_paid_alone)
        with intercept(dying(6, after=True)), pytest.raises(Died):
            comes(at)

    with intercept(right_after("PutItem", another_delivery)):
        assert not settled(at, 1).ack
    assert comes_again(at).ack
    assert ends(at) == {"run-1": "COMPLETED"}


def test_a_copy_for_a_run_that_another_wait_was_quicker_than_is_for_nobody(at: WaitScene) -> None:
    """It is sent to both, since nobody sends the answer again."""
    comes(at)
    for number in (1, 2):
        begins(at, number, for_paid_alone)
    at.waiting("answers")
    ExternalAnswers(at.services, Emitter(at.services.observer)).settle(KEPT, message("m-1", START + 10), queued=False)
    copies = at.waiting("answers")
    assert (len(copies), [at.deliver(copy) for copy in copies]) == (2, [True, True])
    assert sorted(ends(at).values()) == ["COMPLETED", "WAITING"]


def test_what_the_stage_cannot_read_is_left_unused_and_the_run_goes_on_waiting(at: WaitScene) -> None:
    comes(at, '"no number"')
    assert begins(at, 1)
    assert (at.told(EventType.BROKEN), at.wait.answered) == (1, frozenset())
    comes(at, "8", "m-2", 20)
    assert ends(at) == {"run-1": "COMPLETED"}


# -- several wait ------------------------------------------------------------------------------------------------------


def test_an_answer_that_several_wait_for_is_for_all_of_them_and_for_no_later_run(at: WaitScene) -> None:
    for number in range(3):
        begins(at, number)
    comes(at)
    assert set(ends(at).values()) == {"COMPLETED"}
    begins(at, 4)
    assert comes(at) is AnswerVerdict.DUPLICATE
    assert ends(at)["run-4"] == "WAITING"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 13))
def test_whenever_its_function_dies_all_who_waited_have_it(number: int, after: bool, at: WaitScene) -> None:
    for named in (1, 2):
        begins(at, named)
    with intercept(dying(number, after=after)), pytest.raises(Died):
        comes(at)
    assert comes_again(at).ack
    begins(at, 3)
    comes(at)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "COMPLETED", "run-3": "WAITING"}


def test_a_run_that_begins_while_several_wait_leaves_it_to_them(at: WaitScene) -> None:
    for number in (1, 2):
        begins(at, number)
    with intercept(dying(5, after=False)), pytest.raises(Died):
        comes(at)
    begins(at, 3)
    assert ends(at)["run-3"] == "WAITING", "it may have it with them, when the message comes again"
    comes(at)
    found = ends(at)
    assert (found["run-1"], found["run-2"]) == ("COMPLETED", "COMPLETED")


def test_where_none_of_several_can_take_it_any_more_the_next_run_has_it(at: WaitScene) -> None:
    for number in (1, 2):
        begins(at, number)

    def left() -> None:
        for number in (1, 2):
            leaves(at, number)

    with intercept(between("PutItem", left)):
        comes(at)
    for number in (3, 4):
        begins(at, number)
    assert ends(at) == {"run-18": "WAITING", "run-3": "COMPLETED", "run-4": "WAITING", "run-9": "WAITING"}


def test_more_rows_than_are_looked_at_are_taken_for_several(at: WaitScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is settled all the same, in parts, and what none of them takes is for the next run."""
    monkeypatch.setattr(early_answers, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(external_answers, "ROWS_A_PART", 2)
    for number in range(3):
        begins(at, number)
    comes(at)
    assert set(ends(at).values()) == {"COMPLETED"}
    comes(at, "8", "m-2", 20)
    begins(at, 7)
    assert ends(at)["run-7"] == "COMPLETED"
    assert got() == [7, 7, 7, 8]


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_answers, "MOST_LOOKED_AT", 1)
    monkeypatch.setattr(external_answers, "ROWS_A_PART", 1)


class NoTime:
    """What an invocation has left that is about to end."""

    def remaining(self) -> int:
        return 0


def parts(at: WaitScene) -> int:
    """How often the record of an answer comes until it is acknowledged. Each invocation has time for one part."""
    for count in range(1, 20):
        settling = ExternalAnswers(at.services, Emitter(at.services.observer), NoTime())
        if settling.settle(KEPT, message("m-1", START + 10), queued=True)[1].ack:
            return count
    raise AssertionError("it comes again and again")


def in_order(at: WaitScene, awaited_id: str = "paid") -> list[int]:
    """The numbers of the runs that wait, in the order in which they are asked."""
    return [int(row.address.object_id[1:]) for row in at.waits.waiting_for("carts", awaited_id)]


@pytest.mark.usefixtures("in_small_parts")
def test_several_have_it_though_each_invocation_has_time_for_one_of_them(at: WaitScene) -> None:
    for number in (1, 2, 3):
        begins(at, number)
    assert parts(at) == 4
    begins(at, 4)
    comes(at)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "COMPLETED", "run-3": "COMPLETED", "run-4": "WAITING"}


@pytest.mark.usefixtures("in_small_parts")
def test_those_who_waited_keep_it_where_the_first_of_them_is_gone_and_the_time_is_over(at: WaitScene) -> None:
    for number in (1, 2, 3):
        begins(at, number)
    gone, *others = in_order(at)
    leaves(at, gone)
    parts(at)
    begins(at, 4)
    found = ends(at)
    assert [found[f"run-{number}"] for number in (*others, 4)] == ["COMPLETED", "COMPLETED", "WAITING"]


@pytest.mark.usefixtures("in_small_parts")
@pytest.mark.parametrize("waited", [1, 2, 3])
def test_the_run_that_waited_has_it_though_many_others_wait_since(waited: int, at: WaitScene) -> None:
    """Its row is not among those that are looked at first."""
    begins(at, waited)
    with intercept(dying(4, after=False)), pytest.raises(Died):
        comes(at)
    for number in {1, 2, 3} - {waited}:
        begins(at, number)
    comes(at)
    assert [name for name, status in ends(at).items() if status == "COMPLETED"] == [f"run-{waited}"]


# -- a newer one -------------------------------------------------------------------------------------------------------


def test_an_older_answer_than_one_that_is_kept_is_for_nobody(at: WaitScene) -> None:
    begins(at, 1)
    comes(at, "7", "m-1", 10)
    comes(at, "8", "m-2", 20)
    begins(at, 2)
    begins(at, 3)
    assert comes(at, "7", "m-1", 10) is AnswerVerdict.DUPLICATE
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "COMPLETED", "run-3": "WAITING"}
    assert got() == [7, 8]


def test_an_older_one_for_another_name_is_for_whoever_waits_for_that(at: WaitScene) -> None:
    def for_both(step: Step[Progress]) -> Outcome:
        return AnyOf.when(quorum=2, a=step.event("paid"), b=step.event("paid"), within=WITHIN)

    begins(at, 1, for_both)
    comes(at, "8", "m-2", 20, names=("b",))
    comes(at, "7", "m-1", 10, names=("a",))
    assert ends(at) == {"run-1": "COMPLETED"}


def test_of_two_parties_the_newer_takes_the_place_of_the_other_under_one_id(at: WaitScene) -> None:
    """Each may answer a name of its own. One answer is kept for each id, before anybody waits."""

    def for_both(step: Step[Progress]) -> Outcome:
        return AnyOf.when(
            quorum=2,
            a=step.event("paid", keep_early=True),
            b=step.event("paid", keep_early=True),
            within=WITHIN,
        )

    comes(at, "7", "m-1", 10, names=("a",))
    comes(at, "8", "m-2", 20, names=("b",))
    begins(at, 1, for_both)
    assert ends(at) == {"run-1": "WAITING"}
    comes(at, "7", "m-3", 30, names=("a",))
    assert ends(at) == {"run-1": "COMPLETED"}, "where a run waits, each is for its own name"


@pytest.mark.parametrize(
    ("waiting", "verdict"), [("a", AnswerVerdict.RESUMED), ("b", AnswerVerdict.UNKNOWN), ("", AnswerVerdict.UNKNOWN)]
)
def test_an_older_one_for_another_name_is_not_kept(waiting: str, verdict: AnswerVerdict, at: WaitScene) -> None:
    comes(at, "8", "m-2", 20, names=("b",))
    if waiting:
        begins(at, 1, for_paid_alone if waiting == "a" else for_b)
    assert comes(at, "7", "m-1", 10, names=("a",)) is verdict
    begins(at, 2)
    assert ends(at)["run-2"] == "WAITING"


def test_an_older_one_is_known_when_the_time_of_the_newer_one_is_over(at: WaitScene) -> None:
    begins(at, 1)
    comes(at, "7", "m-1", 10)
    comes(at, "8", "m-2", 20)
    at.clock.advance(seconds=7_200)
    comes(at, "7", "m-1", 10)
    begins(at, 2)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}


def test_one_that_is_replaced_before_it_is_taken_leaves_its_run_to_the_newer_one(at: WaitScene) -> None:
    begins(at, 1)

    def newer() -> None:
        comes(at, "8", "m-2", 20)

    with intercept(between("TransactWriteItems", newer)):
        comes(at, "7", "m-1", 10)
    ends(at)
    assert got() == [8]


def test_one_that_is_replaced_and_given_to_nobody_yet_is_left_to_the_newer_one(at: WaitScene) -> None:
    begins(at, 1)

    def newer() -> None:
        with intercept(dying(3, after=True)), pytest.raises(Died):
            comes(at, "8", "m-2", 20)

    with intercept(between("TransactWriteItems", newer)):
        comes(at, "7", "m-1", 10)
    assert ends(at) == {"run-1": "WAITING"}
    comes(at, "8", "m-2", 20)
    ends(at)
    assert got() == [8]


def test_one_that_another_wait_has_used_since_it_was_looked_at_is_left_to_that(at: WaitScene) -> None:
    comes(at)
    with intercept(between("TransactWriteItems", lambda: begins(at, 2))):
        assert begins(at, 1)
    assert ends(at) == {"run-1": "WAITING", "run-2": "COMPLETED"}


# -- what nobody sends again -------------------------------------------------------------------------------------------


def test_the_copy_of_one_that_nobody_sends_again_uses_it_up(at: WaitScene) -> None:
    begins(at, 1)
    at.waiting("answers")
    settling = ExternalAnswers(at.services, Emitter(at.services.observer))
    with intercept(dying(5, after=False)), pytest.raises(Died):
        settling.settle(KEPT, message("m-1", START + 10), queued=False)
    begins(at, 2)
    for copy in at.waiting("answers"):
        assert at.deliver(copy)
        assert at.deliver(copy)
    begins(at, 3)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING", "run-3": "WAITING"}


# -- what it costs, and what is told -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "calls"),
    [
        (0, ["Query", "PutItem", "Query"]),
        (1, ["Query", "GetItem", "PutItem", TRANSACTION, "GetItem"]),
        (
            2,
            ["Query", "GetItem", "GetItem", "PutItem", "Query"]
            + ["GetItem", "TransactWriteItems", "GetItem"]
            + ["UpdateItem"] * 2,
        ),
    ],
)
def test_what_an_answer_costs_that_is_kept(waiting: int, calls: list[str], at: WaitScene) -> None:
    for number in range(waiting):
        begins(at, number)
    assert calls_of(at) == calls


def test_a_row_whose_run_is_gone_costs_a_read(at: WaitScene) -> None:
    begins(at, 1)
    leaves(at, 1)
    assert calls_of(at) == ["Query", "GetItem", "PutItem", "Query", "GetItem"]
    begins(at, 2, for_paid_alone)
    assert calls_of(at, by="m-2", moment=20) == ["Query", "GetItem", "GetItem", "PutItem", TRANSACTION, "GetItem"]


def test_of_more_rows_than_are_looked_at_none_is(at: WaitScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_answers, "MOST_LOOKED_AT", 2)
    before = []
    for number in range(3):
        begins(at, number)
        leaves(at, number)
        calls = calls_of(at, by=f"m-{number}", moment=number)
        before.append(calls[: calls.index("PutItem")])
    assert before == [["Query", "GetItem"], ["Query", "GetItem", "GetItem"], ["Query"]]


def test_once_one_of_several_has_it_each_other_costs_an_update(at: WaitScene) -> None:
    for number in (1, 2, 3):
        begins(at, number)
    leaves(at, in_order(at)[1])
    assert calls_of(at)[-6:] == ["GetItem", TRANSACTION, "GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert sorted(ends(at).values()) == ["COMPLETED", "COMPLETED", "WAITING"]


def test_once_a_later_wait_has_it_the_others_are_not_asked(at: WaitScene) -> None:
    comes(at)
    for number in (1, 2, 3):
        begins(at, number, for_paid_alone)
    assert calls_of(at)[-4:] == ["Query", "GetItem", TRANSACTION, "GetItem"]


@pytest.mark.parametrize(("moment", "calls"), [(10, ["Query", "UpdateItem"]), (5, [])], ids=["a copy", "an older one"])
def test_one_that_is_used_or_older_is_offered_to_nobody_else(moment: int, calls: list[str], at: WaitScene) -> None:
    begins(at, 1)
    comes(at)
    by = "m-1" if moment == 10 else "m-0"
    assert calls_of(at, by=by, moment=moment) == ["Query", "GetItem", "PutItem", *calls]


def test_one_that_its_run_takes_itself_is_offered_to_nobody_else(at: WaitScene) -> None:
    begins(at, 1)
    begins(at, 2, lambda step: AnyOf.when_any(a=step.event("else"), within=WITHIN))
    with intercept(Recorder()) as made, intercept(right_after("PutItem", lambda: begins(at, 1))):
        comes(at)
    assert [call.operation for call in made.calls if call.service == "dynamodb"][-2:] == [TRANSACTION, "UpdateItem"]
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}


def test_a_run_whose_stage_cannot_read_it_keeps_the_record(at: WaitScene) -> None:
    begins(at, 1)
    [row] = at.waits.waiting_for("carts", "paid")
    at.rewrite(row, stage="renamed")
    with pytest.raises(RunFailed, match="carts has no stage 'renamed'"):
        comes(at)
    assert at.told(EventType.ANSWERED) == 0


def test_a_copy_with_a_time_of_its_own_is_the_same_answer(at: WaitScene) -> None:
    """EventBridge delivers an event twice, in two messages of SQS."""
    comes(at, "7", "m-1", 10)
    begins(at, 1)
    assert comes(at, "7", "m-1", 20) is AnswerVerdict.DUPLICATE
    begins(at, 2)
    assert ends(at) == {"run-1": "COMPLETED", "run-2": "WAITING"}
    assert got() == [7]


@pytest.mark.parametrize(("hours", "takes_its_place"), [(0.25, False), (0.26, True), (6, True), (24 * 365 * 70, True)])
def test_no_time_ahead_shuts_out_later_answers(hours: float, takes_its_place: bool, at: WaitScene) -> None:
    """A sender has set it, or a function whose clock was fast has kept it."""
    ahead = int(hours * 3_600_000)
    now = at.clock.now()
    kept: dict[str, Any] = {
        "now": now,
        "expires_at": now + 10**9,
        "known_until": now + 10**9,
        "names": (),
        "waited": "",
    }
    at.waits.keep_early("carts", "paid", GivenAnswer("1"), by="m-1", at=now + ahead, **kept)
    assert (comes(at, "2", "m-2", 20) is AnswerVerdict.EARLY) is takes_its_place
    begins(at, 1)
    ends(at)
    assert got() == [2 if takes_its_place else 1]


@pytest.mark.parametrize(("moment", "later"), [(900_000, 1), (900_001, 2), (10**12, 2)])
def test_a_time_far_ahead_shuts_out_no_later_answer(moment: int, later: int, at: WaitScene) -> None:
    now = at.clock.now() - START
    comes(at, "1", "m-1", now + moment)
    comes(at, "2", "m-2", now + 1)
    begins(at, 1)
    ends(at)
    assert got() == [later]

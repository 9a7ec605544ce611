"""A run that waits: answers in every order and number, failures, deadlines, and what comes too early or too late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import permutations, product
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.client import FlowClient
from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.failed import Failed
from flowguard.flow import UNTIL_RESET, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import EarlyAnswer, GivenAnswer, Kept, WaitEnd
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.testing.hostile import noise
from flowguard.verdicts import ResetVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE
from flowguard.wire.tokens import token_awaited_id, token_row_id
from flowguard.worker.lifetimes import Lifetimes
from tests.waits import (
    DEADLINE,
    NAMES,
    SCRIPT,
    STAGES,
    START,
    WITHIN,
    Admits,
    Admitting,
    All,
    AnyOf,
    Cart,
    Carts,
    FirstWins,
    Late,
    Progress,
    Search,
    Some,
    WaitScene,
    Whole,
    answered,
    asks,
    placed,
    record,
    wait_scene,
)

Waits = Callable[[Step[Progress]], Outcome]


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


def for_all(step: Step[Progress]) -> Outcome:
    return All.when_all(**asks(step), within=WITHIN, on_timeout="late", on_error="sorry")


def for_any(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(**asks(step), within=WITHIN, on_timeout="late", on_error="sorry")


def for_two(step: Step[Progress]) -> Outcome:
    return AnyOf.when(quorum=2, **asks(step), within=WITHIN, on_timeout="late", on_error="sorry")


def for_all_or_failed(step: Step[Progress]) -> Outcome:
    return Admits.when_all(**asks(step), within=WITHIN)


def without_other_stages(step: Step[Progress]) -> Outcome:
    return All.when_all(**asks(step), within=WITHIN)


def any_without_other_stages(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(**asks(step), within=WITHIN)


NEEDED = {"all": (for_all, 3), "any": (for_any, 1), "two of three": (for_two, 2)}


def _expected(order: tuple[str, ...], needed: int) -> list[str]:
    """The verdicts on answers in this order."""
    told: list[str] = []
    answered: set[str] = set()
    for name in order:
        if name in answered or len(answered) == needed:
            told.append("DUPLICATE")
            continue
        answered.add(name)
        told.append("RESUMED" if len(answered) == needed else "RECORDED")
    return told


@pytest.mark.parametrize("kind", NEEDED)
def test_in_every_order_and_number_of_answers_the_run_goes_on_once(kind: str, at: WaitScene) -> None:
    """The store is asked once in each state that there is; all orders are ways through these states."""
    waits, needed = NEEDED[kind]
    at.begin(waits)
    table = at.aws.client("dynamodb")
    ways: dict[tuple[str, str], tuple[str, str]] = {}
    key = {"pk": {"S": "run#carts#c1"}, "sk": {"S": "run"}}
    first: Any = table.get_item(TableName="flowguard", Key=key)["Item"]
    states = {json.dumps(first, sort_keys=True, default=sorted): first}
    open_states = list(states)
    while open_states:
        state = open_states.pop()
        for name in NAMES:
            table.put_item(TableName="flowguard", Item=states[state])
            verdict, _ = at.waits.settle(at.address(name), GivenAnswer("1"))
            after: Any = table.get_item(TableName="flowguard", Key=key)["Item"]
            text = json.dumps(after, sort_keys=True, default=sorted)
            ways[state, name] = (str(verdict), text)
            if text not in states:
                states[text] = after
                open_states.append(text)
    assert len(states) == {3: 8, 2: 7, 1: 4}[needed]
    for copies in product((1, 2, 3), repeat=3):
        for order in _orders(copies):
            state, told = next(iter(states)), list[str]()
            for name in order:
                said, state = ways[state, name]
                told.append(said)
            assert told == _expected(order, needed)
            assert told.count("RESUMED") == 1


def _orders(left: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """All orders of so many copies of each name."""
    if not any(left):
        yield ()
    for place, count in enumerate(left):
        if count:
            for rest in _orders((*left[:place], count - 1, *left[place + 1 :])):
                yield (NAMES[place], *rest)


@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("order", list(permutations(NAMES)), ids="".join)
def test_the_resumed_stage_gets_the_answers_by_name(kind: str, order: tuple[str, ...], at: WaitScene) -> None:
    waits, needed = NEEDED[kind]
    at.begin(waits)
    assert at.item().status is Status.WAITING
    for place, name in enumerate(order, 1):
        at.answer(name, place)
    assert at.resume() == 1, "a late answer does not send it again: the record that ended the wait does"
    given = {name: place for place, name in enumerate(order[:needed], 1)}
    kinds: dict[str, Any] = {"all": ("all", Whole), "any": ("some", Some), "two of three": ("some", Some)}
    stage, model = kinds[kind]
    assert SCRIPT.got == [(stage, model(**given))]
    assert at.item().status is Status.COMPLETED
    assert at.item().wait is None
    assert at.item().stages == {}
    assert not at.raw().keys() & {"wait", "waiting", "error"}


def test_what_was_asked_goes_out_after_the_commit_with_an_id_to_answer_under(at: WaitScene) -> None:
    assert at.begin(for_all)
    asked = at.waiting("asked")
    ids = [json.loads(one["body"])["id"] for one in asked]
    assert ids == [one["messageAttributes"]["uniquerequestid"]["stringValue"] for one in asked]
    assert [[row.address for row in at.waits.waiting_for("carts", own)] for own in ids] == [
        [at.address(name)] for name in NAMES
    ]
    assert len(at.waiting("mails")) == 1
    (deadline,) = at.waiting("answers")
    assert json.loads(deadline["messageAttributes"][PLACE]["stringValue"])["deadline"]["name"] == "deadline"


def test_a_stage_that_waits_costs_two_writes_and_its_rows_and_an_answer_one(at: WaitScene) -> None:
    at.begin(for_all)
    assert at.calls == ["UpdateItem", "BatchWriteItem", "UpdateItem"]
    at.answer("a")
    assert at.calls == ["UpdateItem"]
    at.answer("a")
    assert at.calls == ["UpdateItem"]
    at.answer("b")
    at.answer("c")
    assert at.calls == ["UpdateItem"]
    (onward,) = at.waiting("carts")
    at.deliver(onward)
    assert at.calls == ["UpdateItem", "UpdateItem"]


def test_a_wait_under_rows_is_committed_after_its_rows_also_where_records_share_calls(at: WaitScene) -> None:
    SCRIPT.waits = for_all
    at.function.together = True
    firsts = [at.first(object_id=name, body=f'{{"cart_id":"{name}"}}') for name in ("c1", "c2")]
    assert at.deliver(*(record(one.attributes(), one.body, "carts") for one in firsts))
    assert at.calls == ["BatchExecuteStatement", *["BatchWriteItem", "UpdateItem"] * 2]


def test_a_wait_for_other_flows_needs_no_rows(at: WaitScene) -> None:
    at.begin(for_searches)
    assert at.calls == ["UpdateItem", "UpdateItem"]


def for_searches(step: Step[Progress]) -> Outcome:
    children = {"a": "x", "b": "bad", "c": "xyz"}
    asked: dict[str, Any] = {name: step.ask(Search, Cart(cart_id=own)) for name, own in children.items()}
    return Admits.when_all(**asked, within=WITHIN)


def test_the_ends_of_other_flows_are_answers_by_themselves(at: WaitScene) -> None:
    at.begin(for_searches)
    for one in at.waiting("searches"):
        assert at.deliver(one)
    answers = [one for one in at.waiting("answers") if '"answer"' in one["messageAttributes"][PLACE]["stringValue"]]
    assert len(answers) == 3
    assert at.deliver(*answers)
    at.resume()
    failed = Failed(type="Reject", text="no such shop")
    assert SCRIPT.got == [("admits", Admitting(a=1, b=failed, c=3))]


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_failure_whose_field_takes_it_is_an_answer(at: WaitScene) -> None:
    at.begin(for_all_or_failed)
    at.answer("a", 1, admits=True)
    at.fail("b", admits=True)
    at.answer("c", 3, admits=True)
    at.resume()
    assert SCRIPT.got == [("admits", Admitting(a=1, b=Failed(type="OutOfStock", text="none left"), c=3))]


def test_a_failure_that_the_stage_does_not_take_ends_the_wait_at_once(at: WaitScene) -> None:
    at.begin(for_all)
    at.answer("a", 1)
    at.fail("b")
    assert at.wait.end is WaitEnd.FAILED
    at.answer("c", 3)
    assert at.verdicts() == ["RECORDED", "RESUMED", "DUPLICATE"]
    at.resume()
    assert SCRIPT.got == [("sorry", {"a": 1, "b": {"failed": True, "type": "OutOfStock", "text": "none left"}})]


def test_where_no_stage_takes_errors_the_run_fails_with_that_error(at: WaitScene) -> None:
    at.begin(without_other_stages)
    at.fail("b")
    at.resume()
    assert at.item().status is Status.FAILED
    assert at.item().error == "RunFailed: b failed: OutOfStock: none left"
    assert [letter[:2] for letter in at.letters()] == [["RunFailed", "b failed: OutOfStock: none left"]]


@pytest.mark.parametrize(("waits", "can_fail"), [(for_any, 2), (for_two, 1)])
def test_failures_count_until_the_quorum_cannot_be_reached(waits: Waits, can_fail: int, at: WaitScene) -> None:
    at.begin(waits)
    for name in NAMES[:can_fail]:
        at.fail(name)
        assert at.wait.end is None
    at.fail(NAMES[can_fail])
    assert at.wait.end is WaitEnd.FAILED
    at.resume()
    ((stage, payload),) = SCRIPT.got
    assert (stage, sorted(payload)) == ("sorry", list(NAMES[: can_fail + 1]))


@pytest.mark.parametrize(("waits", "failing"), [(for_any, "ab"), (for_two, "a"), (any_without_other_stages, "a")])
def test_a_quorum_that_is_reached_in_spite_of_failures_goes_on_without_them(
    waits: Waits, failing: str, at: WaitScene
) -> None:
    at.begin(waits)
    for name in failing:
        at.fail(name)
    left = [name for name in NAMES if name not in failing]
    for name in left:
        at.answer(name, 7)
    at.resume()
    kept = left if waits is for_two else left[:1]
    assert SCRIPT.got == [("some", Some(**dict.fromkeys(kept, 7)))]
    assert at.item().status is Status.COMPLETED


def test_all_of_any_have_failed_and_there_is_no_stage_for_that(at: WaitScene) -> None:
    at.begin(any_without_other_stages)
    for name in NAMES:
        at.fail(name)
    at.resume()
    assert at.item().status is Status.FAILED
    assert "failed: OutOfStock: none left" in str(at.item().error)


# -- the deadline ------------------------------------------------------------------------------------------------------


def test_after_its_deadline_a_wait_goes_on_at_the_stage_for_that(at: WaitScene) -> None:
    at.begin(for_all)
    at.answer("b", 2)
    assert at.time_out()
    assert at.told(EventType.TIMED_OUT) == 1
    assert at.item().status is Status.WAITING
    at.answer("a", 1)
    at.resume()
    at.answer("c", 3)
    missing = {"failed": True, "type": "TimedOut", "text": "no answer came in time"}
    assert SCRIPT.got == [("late", {"a": missing, "b": 2, "c": missing})]
    assert at.verdicts() == ["RECORDED", "EXPIRED", "EXPIRED"]


def test_no_run_waits_for_an_event_at_the_row_of_a_token(at: WaitScene) -> None:
    """It would get what the token's holder answers to another run."""
    row = token_awaited_id(token_row_id("carts", "c2", "run-9", START, 1, "a"))
    at.begin(lambda step: AnyOf.when_any(a=step.event(row), within=WITHIN))
    assert at.item().status is Status.FAILED
    assert "the id of a names the row of a token, which only the token answers" in str(at.item().error)


def test_an_answer_that_was_used_stays_a_duplicate_when_the_run_has_ended(at: WaitScene) -> None:
    """Its sender did not get the first verdict, and must not conclude that the answer was not used."""
    at.begin(for_any)
    at.answer("a", 1)
    at.resume()
    assert at.item().status is Status.COMPLETED
    at.answer("a", 1)
    at.answer("b", 1)
    assert at.verdicts() == ["RESUMED", "DUPLICATE", "DUPLICATE"]


@pytest.mark.parametrize("ends", [True, False])
def test_only_what_came_too_late_is_expired_when_the_run_went_on_after_its_deadline(at: WaitScene, ends: bool) -> None:
    at.begin(for_all)
    at.answer("b", 2)
    at.time_out()
    if not ends:
        SCRIPT.resumed = _fails
    at.resume()
    assert at.item().status is (Status.COMPLETED if ends else Status.FAILED)
    assert (at.item().late is None) is not ends, "a failed run keeps the whole wait"
    for name in NAMES:
        at.answer(name, 1)
    assert at.verdicts() == ["RECORDED", "EXPIRED", "DUPLICATE", "EXPIRED"]


def _fails(step: Step[Progress]) -> None:
    raise Reject("not today")


def test_what_came_too_late_for_one_run_says_nothing_of_the_next(at: WaitScene) -> None:
    at.begin(for_all)
    at.time_out()
    at.resume()
    assert at.item().late is not None
    again = at.clock.now() + 1
    at.begin(for_any, request_id=RequestId("run-2"), requested_at=again)
    assert at.item().late is None
    at.answer("a", 1, request="run-2", at=again)
    at.resume()
    at.answer("b", 1, request="run-2", at=again)
    assert at.verdicts() == ["RESUMED", "DUPLICATE"]


def test_where_no_stage_takes_a_timeout_the_run_fails(at: WaitScene) -> None:
    at.begin(without_other_stages)
    at.answer("b", 2)
    at.time_out()
    at.resume()
    assert at.item().status is Status.FAILED
    assert at.item().error == "RunFailed: no answer to a came in time"


def test_where_no_stage_takes_a_timeout_what_there_is_is_enough_where_it_is_taken(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when(quorum=2, **asks(step), within=WITHIN))
    at.fail("a")
    at.answer("b", 2)
    at.time_out()
    at.resume()
    assert SCRIPT.got == [("some", Some(b=2))]


def test_a_deadline_that_comes_too_early_is_sent_again_for_what_is_left(at: WaitScene) -> None:
    at.begin(for_all)
    (again,) = at.waiting("answers")
    for early in (1, 599_999):
        assert at.time_out(DEADLINE - early)
        assert at.wait.end is None
        (again,) = at.waiting("answers")
        assert json.loads(again["messageAttributes"][PLACE]["stringValue"])["deadline"]["name"] == "deadline"
        at.move_to(START)
    at.move_to(DEADLINE)
    assert at.deliver(again)
    assert at.wait.end is WaitEnd.TIMED_OUT


def test_an_answer_with_the_last_millisecond_is_kept_or_expired_and_never_both(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(**asks(step, "a"), within=WITHIN, on_timeout="late"))
    at.move_to(DEADLINE)
    at.answer("a", 1)
    at.time_out()
    assert at.verdicts() == ["RESUMED"]
    assert at.told(EventType.TIMED_OUT) == 0
    at.resume()
    assert SCRIPT.got == [("some", Some(a=1))]


def test_a_deadline_sends_the_message_that_the_last_answer_could_not(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(**asks(step, "a"), within=WITHIN, on_timeout="late"))
    at.answer("a", 1)
    assert len(at.waiting("carts")) == 1, "and it is lost"
    at.time_out()
    assert at.resume() == 1
    assert SCRIPT.got == [("some", Some(a=1))]


def test_the_answer_that_ended_a_wait_and_its_deadline_send_the_next_message_again_when_they_come_again(
    at: WaitScene,
) -> None:
    """Whoever gave it may have died before it was sent. Another answer has its own record, and sends nothing."""
    at.begin(for_any)
    at.answer("a", 1)
    (unsent,) = at.waiting("carts")
    at.answer("b", 2)
    assert at.waiting("carts") == []
    at.answer("a", 1)
    at.time_out()
    first, second = at.waiting("carts")
    assert first["messageAttributes"] == second["messageAttributes"] == unsent["messageAttributes"]
    at.deliver(first)
    at.deliver(second)
    assert len(SCRIPT.got) == 1


def test_a_cancelled_run_whose_message_was_not_sent_ends_with_the_next_answer(at: WaitScene) -> None:
    """The call of the client that has cancelled it comes no more. Sooner an answer is one of those under way then."""
    at.begin(for_all)
    assert at.services.store.cancellations.cancel("carts", ObjectId("c1"), START + 1, "why", START + 1) is not None
    at.move_to(START + 1 + 900_000)
    at.answer("a", 1)
    assert at.resume() == 1
    assert at.item().status is Status.FAILED


def test_a_timeout_whose_message_was_not_sent_is_repaired_by_its_own_record(at: WaitScene) -> None:
    at.begin(for_all)
    at.time_out()
    assert len(at.waiting("carts")) == 1, "and it is not sent"
    at.answer("a", 1)
    assert at.waiting("carts") == []
    at.time_out()
    assert at.resume() == 1
    assert [stage for stage, _ in SCRIPT.got] == ["late"]


def test_the_waiting_hops_own_message_sends_what_was_lost_when_it_comes_again(at: WaitScene) -> None:
    at.begin(for_any)
    for queue in ("asked", "answers", "mails"):
        at.waiting(queue)
    at.begin()
    assert [len(at.waiting(queue)) for queue in ("asked", "answers", "mails")] == [3, 1, 1]
    at.answer("a", 1)
    at.waiting("carts")
    at.begin()
    assert at.resume() == 1
    assert SCRIPT.got == [("some", Some(a=1))]


# -- the hop that goes on ----------------------------------------------------------------------------------------------


def test_a_message_that_goes_on_too_early_is_not_acked(at: WaitScene) -> None:
    at.begin(for_any)
    table, key = at.aws.client("dynamodb"), {"pk": {"S": "run#carts#c1"}, "sk": {"S": "run"}}
    before: Any = table.get_item(TableName="flowguard", Key=key)["Item"]
    at.answer("a", 1)
    (onward,) = at.waiting("carts")
    table.put_item(TableName="flowguard", Item=before)
    assert not at.deliver(onward)
    assert SCRIPT.got == []
    at.answer("b", 2)
    assert at.deliver(onward)
    assert SCRIPT.got == [("some", Some(b=2))]


def test_a_retried_attempt_has_the_answers_and_the_state_again(at: WaitScene) -> None:
    at.begin(for_any)
    at.answer("a", 1)
    tries: list[int] = []

    def fails_once(step: Step[Progress]) -> None:
        tries.append(step.attempt)
        if len(tries) == 1:
            raise RuntimeError("down")

    SCRIPT.resumed = fails_once
    at.resume()
    assert tries == [1, 2]
    assert SCRIPT.got == [("some", Some(a=1))]
    assert at.item().result == '{"seen":1}'


def test_a_claim_after_a_wait_writes_where_the_run_stands_and_leaves_what_is_unsent(at: WaitScene) -> None:
    at.begin(for_any)
    at.answer("a", 1)
    seen: list[dict[str, Any]] = []

    def looks(step: Step[Progress]) -> None:
        seen.append(at.raw())
        if step.attempt == 1:
            raise RuntimeError("down")

    SCRIPT.resumed = looks
    at.move_to(START + 60_000)
    at.resume()
    first, second = seen
    assert [first[name]["S"] for name in ("status", "stage", "request_id")] == ["RUNNING", "some", "run-1"]
    assert [one["retry"]["N"] for one in seen] == ["0", "1"]
    assert int(first["lease_until"]["N"]) > START + 60_000
    assert int(first["ttl"]["N"]) == Lifetimes(Carts).of_wait(DEADLINE) // 1000
    assert first["stages"]["M"].keys() == {"begin", "some"}
    assert "outbox" in first
    assert "outbox" in second


def test_a_claim_after_another_hop_clears_what_was_sent(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.message(Some()))
    seen: list[dict[str, Any]] = []
    SCRIPT.resumed = lambda step: seen.append(at.raw())
    at.resume()
    assert "outbox" not in seen[0]


def test_a_message_that_only_says_that_there_was_a_wait_fails_and_sends_nothing_again(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.message(Some()))
    at.waiting("mails")
    (onward,) = at.waiting("carts")
    said = json.loads(onward["messageAttributes"][PLACE]["stringValue"])
    forged = {"dataType": "String", "stringValue": json.dumps({**said, "resumed": True})}
    assert at.deliver({**onward, "messageAttributes": {**onward["messageAttributes"], PLACE: forged}})
    assert at.item().error == "RunFailed: 'some' was to go on after a wait, and the run item holds none"
    assert at.waiting("mails") == []


def test_a_redriven_stage_that_failed_has_the_answers_again(at: WaitScene) -> None:
    at.begin(for_any)
    at.answer("a", 1)

    def rejects(step: Step[Progress]) -> None:
        raise Reject("not today")

    SCRIPT.resumed = rejects
    at.resume()
    assert at.item().status is Status.FAILED
    at.answer("b", 2)
    assert at.verdicts() == ["RESUMED", "DUPLICATE"]
    (letter,) = at.waiting("carts-dead-letters")
    seen: list[dict[str, Any]] = []
    SCRIPT.resumed = lambda step: seen.append(at.raw())
    at.waiting("mails")
    assert at.deliver({**letter, "eventSourceARN": letter["eventSourceARN"].replace("carts-dead-letters", "carts")})
    assert SCRIPT.got == [("some", Some(a=1))]
    assert at.item().status is Status.COMPLETED
    assert at.waiting("mails") == [], "they had gone before"
    assert (seen[0]["redrive"]["N"], "error" in seen[0]) == ("1", False)


def test_the_resumed_hop_sends_what_the_waiting_one_could_not(at: WaitScene) -> None:
    """An event from outside may come before anything was sent; the answer of another flow proves that it was."""
    at.begin(lambda step: AnyOf.when_any(a=step.event("paid"), b=step.ask("asked", {}), within=WITHIN))
    for queue in ("asked", "answers", "mails"):
        at.waiting(queue)
    at.answer("a", 1)
    at.resume()
    assert [len(at.waiting(queue)) for queue in ("mails", "asked", "answers")] == [1, 0, 0]
    assert at.told(EventType.FLUSHED) == 1


def test_a_party_that_knows_its_id_before_it_is_asked_proves_nothing(at: WaitScene) -> None:
    """The stage may have written the id elsewhere: its worker can have died before the first send."""
    at.begin(lambda step: AnyOf.when_any(b=step.ask("asked", {}), within=WITHIN))
    for queue in ("asked", "answers", "mails"):
        at.waiting(queue)
    at.answer("b", 1)
    at.resume()
    assert [len(at.waiting(queue)) for queue in ("mails", "asked", "answers")] == [1, 0, 0]
    assert at.told(EventType.FLUSHED) == 1


def refused_sends(call: ApiCall, proceed: Proceed) -> Response:
    if call.operation == "SendMessageBatch":
        raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": "later"}}, call.operation)
    return proceed()


def for_paid(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(a=step.event("paid"), within=WITHIN)


def test_a_message_beside_a_wait_is_sent_once_where_nothing_fails(at: WaitScene) -> None:
    """The deadline's first message comes at once. It went out last, so the look that it makes proves the rest."""
    at.begin(for_paid)
    (deadline,) = at.waiting("answers")
    assert at.deliver(deadline)
    assert at.calls == ["UpdateItem"]
    at.answer("a", 1)
    at.resume()
    assert len(at.waiting("mails")) == 1
    assert at.told(EventType.FLUSHED) == 0


def test_it_is_also_sent_once_in_the_runs_after_a_reset() -> None:
    class Cached(
        Flow, name="carts", object_id="cart_id", answers="answers", keep_result=UNTIL_RESET, trust_senders=True
    ):
        stages = STAGES

    with wait_scene(Cached) as at:
        at.begin(for_paid)
        at.clock.advance(seconds=1)
        assert FlowClient.of(at.services).reset(Cached, "c1") is ResetVerdict.RESTARTED
        at.waiting("mails")
        at.waiting("answers")
        (restart,) = at.waiting("carts")
        at.deliver(restart)
        (deadline,) = at.waiting("answers")
        assert at.deliver(deadline)
        item = at.item()
        at.answer("a", 1, request=item.request_id, at=item.requested_at)
        at.resume()
        assert at.item().status is Status.COMPLETED
        sent = [one["messageAttributes"]["uniquerequestid"]["stringValue"] for one in at.waiting("mails")]
        assert len([name for name in sent if name.startswith(item.request_id)]) == 1


def test_it_is_sent_again_where_the_worker_died_before_it_had(at: WaitScene) -> None:
    with intercept(refused_sends):
        at.begin(for_paid)
    assert (at.waiting("mails"), at.waiting("answers")) == ([], []), "the deadline goes after what stands before it"
    at.answer("a", 1)
    at.resume()
    assert len(at.waiting("mails")) == 1
    assert at.told(EventType.FLUSHED) == 1


def test_a_wait_that_timed_out_proves_what_was_sent_unless_it_was_cancelled(at: WaitScene) -> None:
    at.begin(for_paid)
    at.waiting("mails")
    at.time_out()
    at.resume()
    assert (at.told(EventType.TIMED_OUT), at.told(EventType.FLUSHED)) == (1, 0)


def test_a_copy_of_an_answer_that_is_quicker_than_the_look_proves_nothing(at: WaitScene) -> None:
    at.begin(for_paid)
    at.answer("a", 1)
    at.resume()
    assert at.told(EventType.FLUSHED) == 1


def test_what_an_answer_proves_to_be_sent_is_not_sent_again(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(a=step.event("paid"), b=step.ask(Search, Cart(cart_id="c2")), within=WITHIN))
    at.waiting("mails")
    at.answer("b", 1)
    at.resume()
    assert at.waiting("mails") == []
    assert at.told(EventType.FLUSHED) == 0


def test_who_asked_for_the_run_is_told_after_the_wait_too(at: WaitScene) -> None:
    at.begin(for_any, reply_to=str(Queue("mails")), answer_to=json.dumps(at.address("x", request="parent").as_json()))
    at.waiting("mails")
    at.answer("a", 1)
    at.resume()
    places = [json.loads(one["messageAttributes"][PLACE]["stringValue"]) for one in at.waiting("mails")]
    (place,) = [place for place in places if "answer" in place]
    assert place == {"answer": at.address("x", request="parent").as_json()}
    (completed,) = at.waiting("completed")
    assert completed["messageAttributes"][PLACE]["stringValue"] == '{"depth":1}'


def test_who_asked_without_waiting_is_told_of_no_answer(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.message(Some()), reply_to=str(Queue("answers")))
    at.resume()
    (told,) = at.waiting("answers")
    assert told["messageAttributes"][PLACE]["stringValue"] == '{"depth":1}'


def test_what_the_flow_carries_goes_on_after_a_wait(at: WaitScene) -> None:
    at.begin(for_any, carried={"tenant": Attribute.string("t1")})
    asked = [one for queue in ("asked",) for one in at.waiting(queue)]
    at.answer("a", 1)
    assert all(one["messageAttributes"]["tenant"]["stringValue"] == "t1" for one in [*asked, *at.waiting("carts")])


# -- other runs --------------------------------------------------------------------------------------------------------


def newer(at: WaitScene, **changes: Any) -> bool:
    return at.begin(request_id=RequestId("run-2"), requested_at=at.clock.now() + 1, **changes)


def test_a_newer_run_takes_over_and_old_answers_change_nothing(at: WaitScene) -> None:
    at.begin(for_all)
    at.answer("a", 1)
    for queue in ("asked", "answers", "mails"):
        at.waiting(queue)
    assert newer(at)
    own = [len(at.waiting(queue)) for queue in ("asked", "answers", "mails")]
    assert own == [3, 1, 2], "its own, and the side message of the run before"
    before = at.item()
    at.answer("b", 1)
    at.fail("c")
    at.time_out()
    assert at.verdicts() == ["RECORDED", "SUPERSEDED", "SUPERSEDED"]
    assert at.item() == before
    assert at.waiting("carts") == []
    assert len(list(at.waits.waiting_for("carts", _own_id(at, "a")))) == 1, "each run has rows of its own"


def _own_id(at: WaitScene, name: str) -> str:
    return f"{name}#{at.first().hop_id}"


def test_a_takeover_sends_nothing_again_that_a_look_at_the_old_wait_proves_to_be_sent(at: WaitScene) -> None:
    at.begin_and_look(for_paid)
    at.waiting("mails")
    assert newer(at)
    assert len(at.waiting("mails")) == 1, "its own"
    assert at.told(EventType.FLUSHED) == 0


def test_nor_does_one_that_meets_the_run_after_its_wait(at: WaitScene) -> None:
    def dies(step: Step[Progress]) -> None:
        raise KeyboardInterrupt

    at.begin_and_look(for_paid)
    at.waiting("mails")
    at.answer("a", 1)
    SCRIPT.resumed = dies
    with pytest.raises(KeyboardInterrupt):
        at.resume()
    assert newer(at)
    assert len(at.waiting("mails")) == 1
    assert at.told(EventType.FLUSHED) == 0


def test_a_takeover_sends_what_the_worker_of_the_old_wait_died_before(at: WaitScene) -> None:
    with intercept(refused_sends):
        at.begin(for_paid)
    assert newer(at)
    assert len(at.waiting("mails")) == 2
    assert at.told(EventType.FLUSHED) == 1


def test_the_wait_of_a_run_that_failed_after_it_does_not_prove_what_its_end_has_sent(at: WaitScene) -> None:
    """It is kept for a redrive."""

    def fails(step: Step[Progress]) -> None:
        raise Reject("no such card")

    at.begin_and_look(for_paid)
    at.answer("a", 1)
    (onward,) = at.waiting("carts")
    SCRIPT.resumed = fails
    with intercept(refused_sends):
        at.deliver(onward)
    assert at.letters() == []
    assert newer(at)
    assert len(at.letters()) == 1


def test_a_newer_run_starts_without_the_wait_of_the_old_one(at: WaitScene) -> None:
    at.begin(for_all)
    assert newer(at, waits=lambda step: AnyOf.message(Some()))
    assert at.item().wait is None
    assert not at.raw().keys() & {"wait", "waiting"}
    at.resume()
    assert SCRIPT.got == [("some", Some())]


@pytest.mark.parametrize(("over", "taken"), [(-1, False), (300_000, False), (300_001, True)])
def test_a_run_that_waits_keeps_its_object_until_its_deadline_is_long_over(over: int, taken: bool) -> None:
    with wait_scene(FirstWins) as at:
        at.begin(for_all)
        at.move_to(DEADLINE + over)
        assert newer(at)
        assert (at.item().request_id == "run-2") is taken


def test_an_answer_that_comes_before_the_commit_stays_in_its_queue(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.message(Some()))
    assert not at.answer("a", 1, hop=2)
    assert not at.answer("a", 1, hop=3)
    assert at.verdicts() == ["EARLY", "EARLY"]


def test_answers_for_what_nobody_waits_for_are_acked(at: WaitScene) -> None:
    assert at.answer("a", 1)
    at.begin(for_any)
    assert at.answer("x", 1)
    assert at.verdicts() == ["EXPIRED", "UNKNOWN"]


def test_the_item_and_its_rows_outlive_the_deadline(at: WaitScene) -> None:
    at.begin(for_all)
    lives = Lifetimes(Carts).of_run(DEADLINE) // 1000
    assert at.item().ttl == lives
    rows = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    assert {int(row["ttl"]["N"]) for row in rows} == {lives}
    assert len(rows) == 1 + 3


# -- events, and answers that come before the wait ---------------------------------------------------------------------


def for_early(step: Step[Progress]) -> Outcome:
    return AnyOf.when(
        quorum=2,
        a=step.event("paid", keep_early=True),
        b=step.event("sent", keep_early=True),
        c=step.event("seen"),
        within=WITHIN,
    )


def test_an_answer_that_was_kept_before_the_wait_is_found_after_the_commit(at: WaitScene) -> None:
    for own in ("paid", "sent", "seen"):
        at.waits.keep_early("carts", own, GivenAnswer("5"), now=START, expires_at=DEADLINE)
    assert at.begin(for_early)
    assert at.verdicts() == ["RECORDED", "RESUMED"]
    assert at.waiting("carts") == [], "the look proves what was sent before the run goes on"
    assert at.deliver(*at.waiting("answers"))
    assert at.resume() == 1
    assert SCRIPT.got == [("some", Some(a=5, b=5))]
    assert (len(at.waiting("mails")), at.told(EventType.FLUSHED)) == (1, 0)


def test_a_wait_that_was_over_early_goes_on_when_its_worker_comes_again(at: WaitScene) -> None:
    for own in ("paid", "sent"):
        at.waits.keep_early("carts", own, GivenAnswer("5"), now=START, expires_at=DEADLINE)
    with intercept(refused_sends):
        assert not at.begin(for_early)
    assert at.begin()
    assert at.resume() == 1
    assert SCRIPT.got == [("some", Some(a=5, b=5))]


def test_an_answer_that_is_kept_after_the_commit_finds_the_row(at: WaitScene) -> None:
    at.begin(for_early)
    at.waits.keep_early("carts", "paid", GivenAnswer("5"), now=START, expires_at=DEADLINE)
    (row,) = at.waits.waiting_for("carts", "paid")
    assert at.waits.settle(row.address, GivenAnswer("5")).verdict == "RECORDED"


def test_a_worker_that_died_before_it_looked_is_made_up_for(at: WaitScene) -> None:
    """Its message comes again, and finds its hop committed: that worker looks too."""
    at.begin(for_early)
    at.waits.keep_early("carts", "paid", GivenAnswer("5"), now=START, expires_at=DEADLINE)
    at.waits.keep_early(
        "carts",
        "sent",
        GivenAnswer('{"failed":true,"type":"T","text":"x"}', failed=True),
        now=START,
        expires_at=DEADLINE,
    )
    at.begin()
    assert at.wait.answered == {"a", "b"}
    assert at.wait.spare == 0
    assert at.verdicts() == ["RECORDED", "RECORDED"]
    at.answer("c", 1)
    at.resume()
    assert SCRIPT.got == [("some", Some(a=5, c=1))]


def _no_reading(call: ApiCall, proceed: Proceed, /) -> Response:
    """Deny what reads what was kept: a role without dynamodb:GetItem."""
    if call.operation == "GetItem":
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)
    return proceed()


def test_a_wait_has_its_deadline_even_where_nobody_may_read_what_was_kept(at: WaitScene) -> None:
    """The record stays each time, until SQS gives it up. Without the deadline the run would wait for ever."""
    with intercept(_no_reading):
        assert not at.begin(for_early)
        assert not at.begin()
    assert at.told(EventType.BROKEN) == 2
    assert len({one["messageAttributes"]["uniquerequestid"]["stringValue"] for one in at.waiting("mails")}) == 1
    deadlines = at.waiting("answers")
    assert len(deadlines) == 2
    at.move_to(DEADLINE)
    assert at.deliver(deadlines[0])
    assert at.resume() == 1
    assert at.item().status is not Status.WAITING


def test_an_answer_that_was_kept_gives_way_to_a_newer_one_alone(at: WaitScene) -> None:
    def keep(text: str, by: str, moment: int) -> Kept:
        return at.waits.keep_early("carts", "paid", GivenAnswer(text), now=START, expires_at=DEADLINE, by=by, at=moment)

    assert keep("5", "first", 10) == Kept(is_new=True)
    assert keep("5", "first", 10) == Kept(is_new=False), "a copy"
    assert keep("6", "newer", 20) == Kept(is_new=True, replaces=True)
    assert keep("5", "first", 10) == Kept(is_new=False, is_outdated=True), "a late copy of the older one"
    assert at.waits.early("carts", "paid", START) == EarlyAnswer(GivenAnswer("6"), "newer")
    at.waits.close_early("carts", "paid", "newer")
    assert at.waits.early("carts", "paid", START) is None
    assert keep("7", "newest", 30) == Kept(is_new=True), "it replaces what was used"
    assert at.waits.early("carts", "paid", START) is not None
    assert at.waits.early("carts", "sent", START) is None
    assert list(at.waits.waiting_for("carts", "paid")) == []


def test_many_runs_wait_for_one_event(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(a=step.event("paid"), b=step.event("paid"), within=WITHIN))
    newer(at)
    found = sorted(row.address for row in at.waits.waiting_for("carts", "paid"))
    runs = (("run-1", START), ("run-2", START + 1))
    wanted = [at.address(name, request=run, at=moment) for run, moment in runs for name in "ab"]
    assert found == wanted


def test_a_deadline_is_at_most_a_quarter_of_an_hour_away(at: WaitScene) -> None:
    at.begin(lambda step: All.when_all(**asks(step), within=timedelta(days=30)))
    assert at.item().status is Status.WAITING


def test_what_is_no_answer_stays_in_its_queue_and_says_why(at: WaitScene) -> None:
    address = at.address("a").as_json()
    for place in ({"answer": 1}, {"answer": {**address, "hop": 0}}, {"deadline": {**address, "flow": ""}}):
        assert not at.deliver(placed(place, "{}"))
    for body in ("{}", "not json", "[1]", '{"status":"RUNNING"}', '{"status":"FAILED","error":1}'):
        assert not at.deliver(placed({"answer": address}, body))
    assert at.told(EventType.UNREADABLE) == 8
    assert not at.deliver(answered(at.address("a")._replace(flow="unknown"), {"status": "COMPLETED"}))
    assert at.told(EventType.UNROUTABLE) == 1


# -- texts in S3 -------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_bucket() -> Iterator[WaitScene]:
    with wait_scene(settings=Settings(bucket="texts", offload_above=1_024)) as found:
        yield found


def stored_aside(at: WaitScene) -> str:
    """Answer with what the item has no room for. The key in S3."""
    at.aws.client("dynamodb").update_item(
        TableName="flowguard",
        Key=at.key,
        UpdateExpression="SET #wait.room = :room",
        ExpressionAttributeNames={"#wait": "wait"},
        ExpressionAttributeValues={":room": {"N": "260"}},
    )
    with intercept(Recorder()) as calls:
        at.answer("a", noise(2_000))
    (key,) = (call.params["Key"] for call in calls.calls if call.operation == "PutObject")
    return str(key)


def test_what_a_run_waits_for_stays_in_its_item(with_bucket: WaitScene) -> None:
    at = with_bucket
    with intercept(Recorder()) as calls:
        at.begin(lambda step: Late.when_all(a=step.event(noise(1_000)), b=step.event(noise(1_001)), within=WITHIN))
    assert at.item().status is Status.WAITING
    assert len(at.raw()["wait"]["M"]["plan"]["B"]) > 1_024
    assert calls.count("s3") == 0


def test_an_answer_that_is_gone_from_s3_ends_the_run_and_says_so(with_bucket: WaitScene) -> None:
    at = with_bucket
    at.begin(for_two)
    at.aws.client("s3").delete_object(Bucket="texts", Key=stored_aside(at))
    at.answer("b", 2)
    assert at.resume()
    assert at.item().status is Status.FAILED
    assert str(at.item().error).startswith("TextGone: ")
    assert SCRIPT.got == []


def test_an_s3_that_is_down_is_waited_for(with_bucket: WaitScene) -> None:
    at = with_bucket
    at.begin(lambda step: Late.when_all(**asks(step, "ab"), within=WITHIN))
    stored_aside(at)

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetObject":
            response: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(down):
        assert at.answer("b", 2), "an answer is settled without reading those before it"
        [onward] = at.waiting("carts")
        assert not at.deliver(onward)
        assert SCRIPT.got == []
    at.move_to(at.item().lease_until)
    assert at.deliver(onward)
    assert [stage for stage, _ in SCRIPT.got] == ["late"]

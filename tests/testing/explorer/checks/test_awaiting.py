"""flowguard's promises about waits, each with a guard taken away: the check notices, and nothing without that."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws import expressions, waits
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol import answers, run_orders
from flowguard.protocol.outbox import Kind
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.run.inbox import Later
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE
from flowguard.worker import batch, callbacks, routing, trust
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.settler import Settler
from flowguard.worker.wait_planner import WaitPlanner
from tests.testing.explorer import waiting
from tests.testing.explorer.histories import history_of
from tests.testing.explorer.waiting import Order

Patch = pytest.MonkeyPatch


def paid(amount: int, queue: str = "payments", **said: Any) -> Any:
    return sqs_event(queue, {"order": "o1", "amount": amount, **said}, message_id=f"paid-{amount}", sent_at=START)


def later(event: Any) -> Later:
    return Later(event, timedelta(minutes=1))


def forged(name: str) -> Any:
    """An answer with the address of a name that only another flow answers, in a queue for parties outside."""
    address = AnswerAddress("waits", ObjectId("o1"), RequestId("request-1"), START, 1, name).as_json()
    body = {"order": "o1", "status": "COMPLETED", "result": {"shelf": 666}}
    attributes = {PLACE: Attribute.string(json.dumps({"answer": address}))}
    return sqs_event("payments", body, attributes=attributes, message_id="forged", sent_at=START)


def request(order: Order, **place: Any) -> Any:
    message, _ = waiting.Waits.request(order, request_id=RequestId("request-1"), requested_at=START)
    message = message._replace(**place)
    return sqs_event("to-begin", message.body, attributes=message.attributes(), message_id="request-1", sent_at=START)


def rules(messages: Sequence[Any], schedule: str = "none") -> set[str]:
    found = history_of(waiting.FLOWS, messages, schedule, tables=waiting.TABLES)
    return {problem.rule for problem in broken(found, waiting.FLOWS, ())}


# -- the guards ------------------------------------------------------------------------------------------------------


def answered_again(patch: Patch) -> None:
    patch.setattr(
        expressions, "ANSWER", expressions.ANSWER.replace(" AND contains(waiting, :name)", " AND :name = :name")
    )


def goes_on_before_it_is_over(patch: Patch) -> None:
    going = expressions.LATER_HOP.replace(expressions._OVER, "(attribute_exists(#wait) OR :zero = :zero)")
    patch.setattr(expressions, "LATER_HOP", going)
    onward = Settler.onward

    def always(self: Settler, flow: Any, envelope: Any, address: Any, item: Any) -> Any:
        goes_on = item is not None and item.wait is not None and item.wait.end is None
        return onward(
            self, flow, envelope, address, item._replace(wait=item.wait._replace(spare=9)) if goes_on else item
        )

    patch.setattr(Settler, "onward", always)


def kept_and_not_said_so(patch: Patch) -> None:
    settle = waits.DynamoDBWaits.settle

    def told_otherwise(self: Any, address: Any, answer: Any) -> Any:
        settled = settle(self, address._replace(name="stock"), answer)
        return settled._replace(verdict=AnswerVerdict.RECORDED)

    patch.setattr(waits.DynamoDBWaits, "settle", told_otherwise)


def settles_the_newer_run(patch: Patch) -> None:
    loose = expressions.ANSWER.replace("request_id = :request_id", "request_id >= :request_id")
    loose = loose.replace("requested_at = :requested_at", "requested_at >= :requested_at")
    patch.setattr(expressions, "ANSWER", loose)


def settles_the_same_request_at_another_time(patch: Patch) -> None:
    loose = expressions.ANSWER.replace("requested_at = :requested_at", "requested_at >= :requested_at")
    patch.setattr(expressions, "ANSWER", loose)


def does_not_say_superseded(patch: Patch) -> None:
    def judge(item: Any, address: Any, **more: Any) -> AnswerVerdict:
        found = decided(item, address, **more)
        return AnswerVerdict.DUPLICATE if found is AnswerVerdict.SUPERSEDED else found

    decided = answers.judge
    patch.setattr(waits, "judge", judge)


def asks_for_the_old_run(patch: Patch) -> None:
    ending = property(lambda kind: kind in (Kind.NEXT, Kind.DEADLINE))
    patch.setattr(Kind, "ends_with_its_run", ending)


def commits_no_deadline(patch: Patch) -> None:
    planned = WaitPlanner.planned

    def without(self: Any, outcome: Any, first: int) -> Any:
        sends, wait = planned(self, outcome, first)
        return [send for send in sends if send.kind is not Kind.DEADLINE], wait

    patch.setattr(WaitPlanner, "planned", without)


def ends_before_the_deadline(patch: Patch) -> None:
    early = expressions.TIME_OUT.replace("#wait.deadline <= :now", "(#wait.deadline <= :now OR #wait.deadline > :now)")
    patch.setattr(expressions, "TIME_OUT", early)

    def read_order(envelope: Any) -> Any:
        order = run_orders.read_order(envelope)
        return order._replace(moment=0) if isinstance(order, run_orders.ArrivedDeadline) else order

    patch.setattr(batch, "read_order", read_order)


def forgets_the_deadline(patch: Patch) -> None:
    patch.setattr(Settler, "_time_out", lambda *_: None)


def believes_an_address_anywhere(patch: Patch) -> None:
    patch.setattr(callbacks, "_is_own_queue", lambda envelope, flow: True)
    patch.setattr(trust.Trust, "check_order", lambda *_: None)


def lets_anyone_answer_any_name(patch: Patch) -> None:
    patch.setattr(ExternalAnswer, "is_for", lambda self, row: True)


def replies_to_anywhere(patch: Patch) -> None:
    patch.setattr(trust.Trust, "_check_reply_to", lambda *_: None)


def takes_any_object(patch: Patch) -> None:
    patch.setattr(routing, "trusted_payload", lambda *_: None)


ALL = Order(order_id="o1", asks=("stock", "paid"))
PAID = Order(order_id="o1", asks=("stock", "paid", "approval"))
LONG = Order(order_id="o1", asks=("approval",), minutes=60)
OLDER, NEWER = Order(order_id="o1"), Order(order_id="o1", minutes=20)
LATER = START + 5_000
ELSEWHERE = "sqs:https://sqs.eu-west-1.amazonaws.com/999999999999/theirs"

SEEDED: list[tuple[Callable[[Patch], None], list[Any], str]] = [
    (answered_again, [PAID, later(paid(1)), later(paid(2))], "I8"),
    (goes_on_before_it_is_over, [ALL], "I8"),
    (kept_and_not_said_so, [PAID, later(paid(1))], "I8"),
    (settles_the_newer_run, [OLDER, NEWER], "I9"),
    (settles_the_same_request_at_another_time, [request(OLDER), NEWER, request(NEWER, requested_at=LATER)], "I9"),
    (does_not_say_superseded, [OLDER, NEWER], "I9"),
    (asks_for_the_old_run, [OLDER, NEWER], "I9"),
    (commits_no_deadline, [ALL], "I15"),
    (ends_before_the_deadline, [LONG], "I15"),
    (forgets_the_deadline, [LONG], "I15"),
    (believes_an_address_anywhere, [PAID, later(forged("stock")), later(forged("approval"))], "I19"),
    (lets_anyone_answer_any_name, [ALL, later(paid(1, "carriers-answers", ref="payment/o1"))], "I19"),
    (replies_to_anywhere, [request(OLDER, reply_to=ELSEWHERE)], "I19"),
    (takes_any_object, [request(OLDER, object_id="another")], "I19"),
]


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(("guard", "messages", "rule"), SEEDED, ids=lambda one: getattr(one, "__name__", ""))
def test_a_guard_of_a_wait_that_is_taken_away_is_noticed(
    guard: Callable[[Patch], None], messages: list[Any], rule: str, monkeypatch: Patch
) -> None:
    assert rules(messages) == set()
    guard(monkeypatch)
    assert rule in rules(messages)

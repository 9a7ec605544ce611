"""What a stage with ``lease="auto"`` is allowed follows from whether its code proves that it needs no lease."""

from __future__ import annotations

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from tests.deploy.exercised import granted, needs
from tests.deploy.waiting import Order


class Records(Stage[Order], name="records", then="does-more", inbox="records", lease="auto"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return DoesMore.message(payload)


class DoesMore(Stage[Order], name="does-more", inbox="does-more", lease="auto"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done(id(payload))


class Auto(Flow, name="auto", object_id="order_id"):
    stages = (Records, DoesMore)


proven = lambda_handler(Auto, Records, together=True)
unproven = lambda_handler(Auto, DoesMore, together=True)


def test_only_the_function_of_what_is_proven_may_read_the_run_table() -> None:
    allowed = granted(needs(__name__))
    for action in ("dynamodb:GetItem", "dynamodb:BatchGetItem"):
        assert {function for function, allows, _ in allowed if allows == action} == {"auto-proven"}

"""A function whose stages send nothing opens no connection for that while it is initialised."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.flow import AnyFlow
from flowguard.protocol.conflict import OnConflict
from flowguard.worker.routing import Routes
from flowguard.worker.sending import may_send


class Order(BaseModel):
    order_id: str


class Quiet(Stage[Order], name="quiet"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Told(Stage[Order], name="told"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("emails", {"order": order.order_id})
        return Done()


class Onward(Stage[Order], name="onward", then="quiet"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Quiet.message(order)


class QuietFlow(Flow, name="quiet-flow", object_id="order_id"):
    stages = (Quiet,)


class ToldFlow(Flow, name="told-flow", object_id="order_id"):
    stages = (Told,)


class OnwardFlow(Flow, name="onward-flow", object_id="order_id"):
    stages = (Onward, Quiet)


class Notified(Flow, name="notified", object_id="order_id", complete_to="ends"):
    stages = (Quiet,)


class Answered(Flow, name="answered", object_id="order_id", reply_to=("asks",)):
    stages = (Quiet,)


class Shared(Flow, name="shared", object_id="order_id", on_conflict=OnConflict.ATTACH):
    stages = (Quiet,)


class Wrapped:
    """A handler that is no function, of which nothing is known."""

    def __call__(self, order: Order, step: Step) -> Outcome:
        return Done()


@pytest.mark.parametrize(
    ("targets", "sends"),
    [
        ((QuietFlow,), False),
        ((ToldFlow,), True),
        ((OnwardFlow,), True),
        ((OnwardFlow, Quiet), False),
        ((QuietFlow, ToldFlow), True),
        ((Notified,), True),
        ((Answered,), True),
        ((Shared,), True),
    ],
)
def test_stages_say_whether_they_send(targets: tuple[object, ...], *, sends: bool) -> None:
    assert may_send(Routes(targets)) is sends


def test_a_handler_of_which_nothing_is_known_may_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "handle", Wrapped())
    assert may_send(Routes([QuietFlow]))


@pytest.mark.parametrize(("flow", "unconnected"), [(QuietFlow, ("sqs",)), (ToldFlow, ())])
def test_only_what_may_send_is_connected_to_sqs(
    monkeypatch: pytest.MonkeyPatch, flow: AnyFlow, unconnected: tuple[str, ...]
) -> None:
    found: list[object] = []
    monkeypatch.setattr("flowguard.handler.prepare_clients", lambda *_, unconnected: found.append(unconnected))
    lambda_handler(flow)
    assert found == [unconnected]

"""How long each queue of a template keeps its messages, and how long it hides them."""

from __future__ import annotations

import types
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard import Callback, Done, Flow, Outcome, Stage, Topic, callback_handler, dlq_handler, lambda_handler
from flowguard.deploy.queue_plan import FIFO_RETENTION, Retentions, times_of
from flowguard.flow import AnyFlow
from tests.deploy.test_derive import AnyStep, Deploy, made
from tests.deploy.test_derive import deploy as deploy  # noqa: PLC0414 - a fixture
from tests.deploy.waiting import Later, Order, Wait

DAY = 86_400


class Alone(Stage[Order], name="alone"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Done()


@pytest.mark.parametrize(
    ("days", "fifo", "handled", "kept"),
    [
        (14, False, True, (12, 13, 14)),
        (42, False, True, (12, 13, 14)),
        (7, False, True, (6, 6.5, 7)),
        (14, False, False, (4, 4.5, 10)),
        (14, True, True, (4, 4.5, 5.5)),
        (42, True, True, (12, 13.5, 14)),
        (84, True, True, (14, 14, 14)),
        (14, True, False, (4, 4.5, 10)),
    ],
)
def test_a_retention_is_split_between_the_queues_as_sqs_counts_ages(
    days: int, fifo: bool, handled: bool, kept: tuple[float, float, float]
) -> None:
    found = Retentions.of(timedelta(days=days), fifo=fifo, handled=handled)
    assert (found.inbox / DAY, found.killed / DAY, found.dead / DAY) == kept


def test_a_retention_of_seconds_is_the_shortest_that_sqs_has() -> None:
    assert Retentions.of(timedelta(seconds=10), fifo=False, handled=True) == Retentions(60, 60, 60)


def test_times_are_those_of_a_fifo_queue_where_one_of_the_flows_has_one() -> None:
    flows = (named("to.fifo"), named("to"), named(TOPIC))
    assert [times_of([flow]).keeps // (1_000 * DAY) for flow in flows] == [4, 12, 12]


TOPIC = Topic("arn:aws:sns:us-east-1:123456789012:placed")


def named(inbox: str | Topic) -> AnyFlow:
    class Named(Flow, name="named", object_id="order_id", inbox=inbox):
        stages = (Alone,)

    return Named


def test_a_queue_hides_its_records_for_six_times_a_long_time_out_at_least(deploy: Deploy) -> None:
    flow = made((Wait, Later), callbacks=(Callback("paid", id="order_id"),))
    options = {"defaults": {"timeout": 600, "batch_size": 1}}
    needed = deploy(options, own=lambda_handler(flow), answers=callback_handler(flow), dead=dlq_handler(flow))
    hidden = {one.name: one.visibility for one in needed.queues if one.reader is not None}
    assert hidden["paid"] >= 3_600
    assert set(hidden.values()) == {3_600}


@pytest.mark.parametrize(
    ("inbox", "days", "options", "noted"),
    [
        ("to.fifo", 14, {}, True),
        ("to.fifo", 41, {}, True),
        ("to.fifo", 42, {}, False),
        ("to.fifo", 13, {}, False),
        ("to", 14, {}, False),
        ("to.fifo", 14, {"queues": {"to.fifo": {"existing": True}}}, False),
    ],
)
def test_a_fifo_queue_that_outlasts_less_than_others_is_noted(
    deploy: Deploy, inbox: str, days: int, options: dict[str, Any], noted: bool
) -> None:
    flow = made((Alone,), inbox=inbox, retention=timedelta(days=days))
    needed = deploy(options, own=lambda_handler(flow), dead=dlq_handler(flow))
    notes = [note for note in needed.notes if "FIFO" in note]
    assert len(notes) == noted
    if days == 14 and noted:
        assert "'to.fifo', which deletes a record that nobody could take for 4 days" in notes[0]
        assert "retention=timedelta(days=42) of the flow makes it 12 days" in notes[0]


def test_the_fifo_queue_of_another_flow_is_not_noted(deploy: Deploy) -> None:
    class Ordered(Flow, name="ordered", object_id="order_id", inbox="to.fifo", retention=timedelta(days=42)):
        stages = (Alone,)

    class Quick(Flow, name="quick", object_id="order_id", inbox="to"):
        stages = (Alone,)

    needed = deploy({}, first=lambda_handler(Ordered), second=lambda_handler(Quick))
    assert [note for note in needed.notes if "FIFO" in note] == []


def test_the_retention_that_a_note_names_makes_a_fifo_queue_keep_as_long_as_another() -> None:
    times = [Retentions.of(FIFO_RETENTION, fifo=fifo, handled=True).inbox for fifo in (True, False)]
    assert times == [12 * DAY, 12 * DAY]


def shared(name: str, **given: Any) -> AnyFlow:
    """A flow whose dead letters go where those of others go."""
    names: dict[str, Any] = {"name": name, "object_id": "order_id", "dead_letters": "shop-dead-letters", **given}
    body = {"stages": (Alone,), "__module__": __name__}
    return types.new_class(name.capitalize(), (Flow,), names, lambda given: given.update(body))


SHORT: Final[tuple[dict[str, Any], ...]] = (
    {"inbox": "clicks", "retention": timedelta(days=1)},
    {"inbox": "clicks.fifo"},
)


@pytest.mark.parametrize("given", SHORT)
@pytest.mark.parametrize("handled", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_shared_dead_letters_are_kept_as_long_as_the_flow_that_keeps_them_longest_needs(
    deploy: Deploy, given: dict[str, Any], handled: bool, first: bool
) -> None:
    """A release that adds a flow shortens nothing in which letters of another one lie."""
    orders, clicks = shared("orders", inbox="orders"), shared("clicks", **given)
    flows = (clicks, orders) if first else (orders, clicks)
    more = {"clicks_killed": dlq_handler(clicks)} if handled else {}
    handlers = {flow.name: lambda_handler(flow) for flow in flows}
    needed = deploy({}, **handlers, orders_killed=dlq_handler(orders), **more)
    kept = {queue.name: queue.retention for queue in needed.queues}
    assert kept["shop-dead-letters"] == 14 * DAY
    for queue in needed.queues:
        assert queue.give_up_to is None or queue.retention < kept[queue.give_up_to], queue.name


def test_a_flow_whose_shared_letters_outlive_its_run_items_is_noted(deploy: Deploy) -> None:
    orders, clicks = shared("orders", inbox="orders"), shared("clicks", **SHORT[0])
    apart = shared("refunds", inbox="refunds", dead_letters="refunds-letters")
    handlers = {flow.name: lambda_handler(flow) for flow in (orders, clicks, apart)}
    killed = {"shop_killed": dlq_handler(orders, clicks), "refunds_killed": dlq_handler(apart)}
    [note] = [note for note in deploy({}, **handlers, **killed).notes if "shop-dead-letters" in note]
    assert note == (
        "clicks shares the dead letters 'shop-dead-letters' with orders, so they are kept for 14 d, and its run items "
        "for 2 d: a letter of a first stage that is redriven after that begins a new run, and one of a later stage "
        "comes back; give clicks dead letters of its own, or a longer retention="
    )


@pytest.mark.parametrize(
    "given",
    [
        {"inbox": "clicks.fifo"},
        {"inbox": "clicks", "retention": timedelta(days=7)},
        {"inbox": "clicks", "retention": timedelta(days=1), "remember": timedelta(days=14)},
        {"inbox": "clicks", "retention": timedelta(days=1), "dead_letters": "clicks-letters"},
    ],
)
def test_a_flow_whose_run_items_live_as_long_as_its_letters_is_not_noted(deploy: Deploy, given: dict[str, Any]) -> None:
    orders, clicks = shared("orders", inbox="orders"), shared("clicks", **given)
    handlers = {"a": lambda_handler(orders), "b": lambda_handler(clicks), "c": dlq_handler(orders, clicks)}
    assert [note for note in deploy({}, **handlers).notes if "shares the dead letters" in note] == []


def test_letters_in_a_queue_that_is_there_already_are_not_noted(deploy: Deploy) -> None:
    orders, clicks = shared("orders", inbox="orders"), shared("clicks", **SHORT[0])
    handlers = {"a": lambda_handler(orders), "b": lambda_handler(clicks), "c": dlq_handler(orders, clicks)}
    needed = deploy({"queues": {"shop-dead-letters": {"existing": True}}}, **handlers)
    assert [note for note in needed.notes if "shares the dead letters" in note] == []

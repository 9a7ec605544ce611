"""How long each queue of a template keeps its messages, and how long it hides them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flowguard import Callback, Done, Flow, Outcome, Stage, Topic, callback_handler, dlq_handler, lambda_handler
from flowguard.deploy.queue_plan import Retentions, times_of
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

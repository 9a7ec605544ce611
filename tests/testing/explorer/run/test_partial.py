"""Batches of which a service takes some entries and refuses the others."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from flowguard import Bus, Done, Outcome, Stage, Step, Topic
from flowguard.aws.sender import AWSSender
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.report.lines import struck
from flowguard.testing.explorer.run.partial import parts, refused
from flowguard.worker import batch
from flowguard.worker.dispatch import dispatch
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1")


def test_each_entry_alone_is_refused_and_all_but_each() -> None:
    assert [parts(count) for count in (0, 1, 2)] == [[], [1], [1, 2]]
    assert [refused(part, 3) for part in parts(3)] == [(1,), (2,), (3,), (2, 3), (1, 3), (1, 2)]
    assert refused(4, 3) == refused(14, 3) == ()


@pytest.mark.slow("explores flows and handlers")
def test_a_batch_of_the_users_that_nobody_looks_at_is_found_at_its_line() -> None:
    flow = seeded.flow_of(seeded.InPart)
    report = explore(flow, [ORDER], tables=seeded.TABLES, bound=0, walks=0)
    found = {one.schedule: one for one in report.violations}
    assert set(found) == {"p2-1"}, "three messages to one queue are one place"
    assert found["p2-1"].site is not None
    assert found["p2-1"].site.line == seeded.guilty_line("InPart")
    assert "was taken in part, and the stage went on: look at Failed in its answer" in found["p2-1"].fix
    assert found["p2-1"].struck[0].endswith("entry 1 of 3 refused")
    assert "p" in report.coverage["in-part: SendMessageBatch emails at " + str(found["p2-1"].site)]


@pytest.mark.proof("explores flows")
def test_flowguards_own_batches_are_sent_again_until_all_is_taken() -> None:
    flow = seeded.flow_of(ThreeSides)
    history = history_of(flow, [ORDER], "p3-12")
    assert struck(history) == ("call 3, SendMessageBatch of dispatch: entries 1, 3 of 3 refused",)
    assert history.calls[2].refused == (1, 3)
    assert replay(flow, [ORDER], "p3-12").violations == ()
    report = explore(flow, [ORDER], bound=0, walks=0)
    assert report.ok, str(report)
    assert "p" in report.coverage[f"{ThreeSides.name}: SendMessageBatch of dispatch"]


def test_without_a_look_at_what_was_refused_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(services: Any, emitter: Any, endings: Any) -> Any:
        dispatch(services, emitter, endings)
        return endings

    monkeypatch.setattr(batch, "dispatch", careless)
    found = replay(seeded.flow_of(ThreeSides), [ORDER], "p3-1").violations
    assert {"I7", "I12"} <= {one.rule for one in found}


@pytest.mark.proof("explores flows")
def test_topics_and_buses_refuse_in_part_too() -> None:
    flow = seeded.flow_of(TopicAndBus)
    report = explore(flow, [ORDER], bound=0, walks=0)
    assert report.ok, str(report)
    met = {call.partition(": ")[2]: faults for call, faults in report.coverage.items()}
    assert "p" in met["PublishBatch of dispatch"]
    assert "p" in met["PutEvents of dispatch"]


def test_an_event_that_was_refused_counts_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AWSSender, "_to_bus", lambda sender, to, sends: _put_and_forget(to, sends))
    history = history_of(seeded.flow_of(TopicAndBus), [ORDER], "none")
    (number,) = [made.number for made in history.calls if made.operation == "PutEvents"]
    found = replay(seeded.flow_of(TopicAndBus), [ORDER], f"p{number}-2").violations
    assert "I7" in {one.rule for one in found}


def _put_and_forget(to: Any, sends: Any) -> dict[int, str]:
    client: Any = boto3.client("events")
    entries = [
        {
            "EventBusName": to.name,
            "Source": to.source,
            "DetailType": to.detail_type,
            "Detail": f'{{"flowguard": {{"uniquerequestid": "{send.id}"}}}}',
        }
        for _, send in sends
    ]
    client.put_events(Entries=entries)
    return {}


class ThreeSides(Stage[seeded.Order], name="three-sides", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        for to in ("buyer", "seller", "shop"):
            step.send("emails", {"to": to})
        return Done()


class TopicAndBus(Stage[seeded.Order], name="topic-and-bus", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        for to in ("buyer", "seller"):
            step.send(Topic("arn:aws:sns:us-east-1:123456789012:news"), {"to": to})
            step.send(Bus("default", "shop", "ordered"), {"to": to})
        return Done()

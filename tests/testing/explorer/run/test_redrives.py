"""Dead letters that are sent back: a run that goes on after that ends like one that never failed."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Flow
from flowguard.aws import expressions, sender
from flowguard.destinations import Destination
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Send
from flowguard.testing.explorer import Report, explore, replay
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.run import redrives
from flowguard.wire.envelope import resend
from flowguard.wire.message import Message
from flowguard.worker import redriven_messages
from flowguard.worker.redrive import Fate, Judgement
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1", amount=3)
POISON = seeded.Order(order_id="o1", amount=0)
NEWER = seeded.Order(order_id="o1", amount=5)
Patch = pytest.MonkeyPatch


class PickyInOrder(seeded.Picky, name="picky-in-order", inbox="picky.fifo"):
    """Fails for good, and its queue keeps the order."""


class InOrderPicky(Flow, name="in-order-picky", object_id="order_id", dead_letters="picky-dead-letters.fifo"):
    stages = (PickyInOrder,)


def explored(flow: Any, *messages: seeded.Order, **about: Any) -> Report:
    """Explore without what is refused for good, which takes as long as all else. One test below asks for it."""
    return explore(flow, messages, tables=seeded.TABLES, **{"bound": 0, "walks": 0, "for_good": False, **about})


def run(schedule: str, *messages: seeded.Order, flow: Any = seeded.ToldTwoStages) -> History:
    return history_of(flow, messages, schedule, tables=seeded.TABLES)


def rules(history: History, flow: Any = seeded.ToldTwoStages) -> set[str]:
    return {problem.rule for problem in broken(history, [flow], ())}


def test_what_sqs_gave_up_is_redriven_and_ends_as_if_nothing_had_happened() -> None:
    trace = replay(seeded.ToldTwoStages, [ORDER], "d2.d5-1.r1", tables=seeded.TABLES)
    shown = "\n".join(trace.timeline)
    assert trace.violations == ()
    assert "from the dead-letter queue of SQS" in shown
    assert "dead letter 1 is sent back; redrive would say REDRIVEN" in shown
    history = run("d2.d5-1.r1", ORDER)
    assert [item.status for item in history.latest().values()] == ["COMPLETED"]
    assert [(one.number, one.fate) for one in history.redriven] == [(1, Fate.REDRIVEN)]


@pytest.mark.proof("explores a flow")
def test_each_dead_letter_of_a_history_is_sent_back_also_beyond_the_bound() -> None:
    tried: list[str] = []

    def note(view: Any) -> None:
        tried.append(view._history.schedule.id)

    assert explored(seeded.PickyOne, POISON, invariants=[note], failing=["o1"]).ok
    assert {"r1", "r1-1", "r1.r1", "d1-1.r1", "d1-1.r1-1", "d1-1.r1.r1", "a1-1.r1", "l2.r1"} <= set(tried)
    assert not {"l2.r1-1", "l2.r1.r1"} & set(tried), "more than once where nothing but SQS has given a record up"


def test_a_letter_sent_twice_is_taken_once() -> None:
    history = run("d2.d5-1.r1-1", ORDER)
    assert len(history.redriven[0].records) == 2
    assert [one["amount"] for one in history.tables["totals"]] == [3]


@pytest.mark.proof("explores a flow")
def test_faults_strike_after_a_redrive_too() -> None:
    trace = replay(seeded.ToldTwoStages, [ORDER], "d2.d5-1.r1.a13", tables=seeded.TABLES)
    assert trace.violations == ()
    place = next(number for number, line in enumerate(trace.timeline) if "sent back" in line)
    assert any("╳ dies after it" in line for line in trace.timeline[place:])
    report = explored(seeded.ToldTwoStages, ORDER, bound=20)
    assert report.ok, str(report)


@pytest.mark.proof("explores a flow")
def test_a_poison_message_is_a_dead_letter_again_and_no_more() -> None:
    report = explored(seeded.PickyOne, POISON, bound=10, failing=["o1"], for_good=True)
    assert report.ok, str(report)
    history = run("r1", POISON, flow=seeded.PickyOne)
    assert [message.place.redrive for message in history.posted if message.name == "picky-dead-letters"] == [1, 2]


@pytest.mark.proof("explores a flow that is asked twice")
def test_a_redrive_after_a_newer_run_changes_nothing() -> None:
    history = run("r1", POISON, NEWER, flow=seeded.PickyOne)
    assert [one.fate for one in history.redriven] == [Fate.SUPERSEDED]
    report = explored(seeded.PickyOne, POISON, NEWER, bound=10)
    assert report.ok, str(report)


@pytest.mark.slow("explores flows and handlers")
def test_a_worker_that_is_held_up_across_a_redrive_is_fenced(monkeypatch: Patch) -> None:
    schedule = "z2-999.d3.d6-1.r1"
    history = run(schedule, ORDER)
    said = [note.text.partition(";")[0] for note in history.notes]
    assert said.index("dead letter 1 is sent back") < said.index("goes on")
    assert rules(history) == set()
    always = "(epoch = :epoch OR epoch <> :epoch) AND (#owner = :owner OR #owner <> :owner)"
    loose = f"request_id = :request_id AND {always} AND (done = :no OR done <> :no)"
    monkeypatch.setattr(expressions, "COMMIT", loose)
    assert rules(run(schedule, ORDER)) >= {"I2"}


# -- and with a guard taken away


def test_a_redrive_that_takes_over_from_a_newer_run_breaks_i13(monkeypatch: Patch) -> None:
    condition = f"{expressions.FIRST_HOP[OnConflict.SUPERSEDE]} OR redrive < :redrive"
    monkeypatch.setitem(expressions.FIRST_HOP, OnConflict.SUPERSEDE, condition)
    assert "I13" in rules(run("r1", POISON, NEWER, flow=seeded.PickyOne), seeded.PickyOne)


@pytest.mark.slow("explores flows and handlers")
def test_a_redrive_that_is_promised_and_not_taken_breaks_i13(monkeypatch: Patch) -> None:
    never = expressions.FIRST_HOP[OnConflict.SUPERSEDE].replace(
        expressions._REDRIVEN, "(redrive < :zero AND #status = :failed)"
    )
    monkeypatch.setitem(expressions.FIRST_HOP, OnConflict.SUPERSEDE, never)
    assert "I13" in rules(run("d2.d5-1.r1", ORDER))


def test_a_judgement_that_sends_everything_breaks_i13(monkeypatch: Patch) -> None:
    monkeypatch.setattr(redrives, "judged", lambda *_: Judgement(Fate.REDRIVEN, "why not"))
    history = run("r1", POISON, NEWER, flow=seeded.PickyOne)
    assert [one.fate for one in history.redriven] == [Fate.REDRIVEN]
    assert "I13" in rules(history, seeded.PickyOne)


def test_a_judgement_that_gives_up_what_goes_on_breaks_i13(monkeypatch: Patch) -> None:
    monkeypatch.setattr(redrives, "judged", lambda *_: Judgement(Fate.SUPERSEDED, "why not"))
    history = run("d2.d5-1.r1", ORDER)
    assert [one.fate for one in history.redriven] == [Fate.SUPERSEDED]
    assert rules(history) == {"I13"}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        pytest.param(lambda *said: ("{}", resend(*said)[1]), "I11", id="another body"),
        pytest.param(lambda *said: (resend(*said)[0], {}), "I13", id="no attributes"),
    ],
)
def test_what_is_broken_in_a_letter_that_goes_back_is_found(broken: Any, rule: str, monkeypatch: Patch) -> None:
    """The explorer sends back what ``flowguard dlq redrive`` sends: one function makes both."""
    monkeypatch.setattr(redriven_messages, "resend", broken)
    assert rule in {
        one.rule for one in replay(seeded.ToldTwoStages, [ORDER], "d2.d5-1.r1", tables=seeded.TABLES).violations
    }


def test_a_second_redrive_under_the_id_of_the_first_is_dropped_and_breaks_i13(monkeypatch: Patch) -> None:
    assert rules(run("r1.r2", POISON, flow=InOrderPicky), InOrderPicky) == set()

    def without_number(kind: Kind, to: Destination, body: str, own: str, attributes: Any, **more: Any) -> Send:
        return Send(kind, to, body, own.rsplit(".", 2)[0], attributes, **more)

    monkeypatch.setattr(redriven_messages, "Send", without_number)
    monkeypatch.setattr(sender, "_deduplication_id", lambda send: send.id)  # as of a flow without keys
    assert rules(run("r1.r2", POISON, flow=InOrderPicky), InOrderPicky) == {"I13"}


def test_what_a_redriven_hop_sends_is_no_copy_of_what_it_sent_when_it_failed(monkeypatch: Patch) -> None:
    """docs/decisions/0009: who waits would drop the COMPLETED as a copy of the FAILED."""
    monkeypatch.setattr(Message, "hop_id", property(lambda m: f"{m.request_id}.{m.hop}"))
    found = replay(seeded.ToldTwoStages, [ORDER], "d6.d9-1.r1", tables=seeded.TABLES).violations
    assert {(one.rule, one.problems[0].where) for one in found} == {("equivalence", "sqs:told")}

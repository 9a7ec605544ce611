"""Several flows in one exploration, and messages that share an id."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import sender
from flowguard.sim.engines import in_memory
from flowguard.testing import sns_event
from flowguard.testing.explorer import explore
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind
from flowguard.wire.signing import UNSIGNED
from tests.proofs.prove import given
from tests.proofs.prove.fanned import ORDERED, Bills, Packs
from tests.proofs.prove.flows import TABLES, Counts, Order, Pair
from tests.proofs.prove.given import order
from tests.proofs.prove.in_order import InOrderFirst
from tests.proofs.prove.keyed import KeyedEach

ONE_MESSAGE = [sns_event(ORDERED, {"order_id": "o1"})]
Patch = pytest.MonkeyPatch


def history_of(flows: Any, messages: Any, schedule: str = "none") -> History:
    with Sandbox(flows, messages, TABLES, in_memory, 0) as sandbox:
        return run(sandbox, Schedule.parse(schedule))


def wrong(flows: Any, messages: Any, schedule: str = "none") -> set[str]:
    return {one.text for one in broken(history_of(flows, messages, schedule), flows, ())}


def test_a_message_of_a_topic_comes_to_each_flow_that_reads_it_under_one_id() -> None:
    history = history_of([Bills, Packs], ONE_MESSAGE)
    firsts = [one for one in history.deliveries if one.hop == 1]
    assert [one.queue for one in firsts] == ["bills-bill", "packs-pack"]
    assert len({one.envelope.sns_message_id for one in firsts if one.envelope is not None}) == 1
    assert [item.status for item in history.latest().values()] == ["COMPLETED", "COMPLETED"]


def test_a_topic_that_no_stage_reads_hands_its_message_to_a_function() -> None:
    history = history_of([Pair], [sns_event("another", {"order_id": "o1"})])
    assert [one.queue for one in history.deliveries][:1] == [None]


@pytest.mark.parametrize("flows", [[Bills], [Bills, Packs]])
def test_a_bare_payload_of_a_flow_behind_a_topic_comes_through_the_queue_that_it_feeds(flows: Any) -> None:
    history = history_of(flows, [{"order_id": "o1"}], "a1-1")
    assert history.deliveries[0].queue == "bills-bill"
    assert {item.status for item in history.latest().values()} == {"COMPLETED"}


def test_what_one_flows_queue_gives_up_goes_back_to_that_queue_alone() -> None:
    history = history_of([Bills, Packs], ONE_MESSAGE, "a1-1")
    back = [message.name for message in history.posted if message.place.since]
    assert back == [history.deliveries[0].queue]
    assert [item.status for item in history.latest().values()] == ["COMPLETED", "COMPLETED"]


@pytest.mark.proof("explores every single fault of two flows")
def test_two_flows_with_one_request_id_survive_every_fault() -> None:
    report = explore([Bills, Packs], ONE_MESSAGE, tables=TABLES, bound=10, walks=5)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("flows", "messages"),
    [([Bills, Packs], ONE_MESSAGE), ([Pair], given.ONE_ID_FOR_TWO), ([Counts], given.USED_AGAIN)],
    ids=["two flows", "two objects", "used again"],
)
def test_an_id_that_two_messages_have_is_noticed(flows: Any, messages: Any, monkeypatch: Patch) -> None:
    assert wrong(flows, messages) == set()
    monkeypatch.setattr(Message, "hop_id", property(lambda m: f"{m.request_id}.{m.hop}"))
    assert any("is also that of another message" in text for text in wrong(flows, messages))


def test_what_depends_on_the_flow_and_not_on_the_time_is_told_apart(monkeypatch: Patch) -> None:
    """Of what a second use of an id needs, too."""

    def without_time(message: Message) -> str:
        return f"{message.request_id}-{message.flow}-{message.object_id}.{message.hop}"

    monkeypatch.setattr(Message, "hop_id", property(without_time))
    assert wrong([Bills, Packs], ONE_MESSAGE) == set()
    assert any("is also that of another message" in text for text in wrong([Counts], given.USED_AGAIN))


def test_models_with_one_id_by_the_flows_own_rule_are_one_request() -> None:
    history = history_of([KeyedEach], [Order(order_id="o1", amount=3), Order(order_id="o1", amount=3)])
    assert len(history.latest()) == 1


FAILING = [order("queued:9:reject"), Order(order_id="o2", fail="queued:9:reject")]
"""Two objects, both of which end among the dead letters of a FIFO queue."""


@pytest.fixture
def without_keys(monkeypatch: Patch) -> None:
    """Let nothing be signed: the deduplication ids of FIFO queues are those of the messages then."""
    monkeypatch.setattr("flowguard.testing.explorer.run.sandbox.simulated", lambda signer, required: UNSIGNED)


def test_two_letters_under_one_id_are_noticed(monkeypatch: Patch) -> None:
    assert wrong([InOrderFirst], FAILING) == set()
    right = sender._deduplication_id
    monkeypatch.setattr(
        sender, "_deduplication_id", lambda send: "dead" if str(send.to) == "sqs:dead.fifo" else right(send)
    )
    assert any("is also that of another message" in text for text in wrong([InOrderFirst], FAILING))


@pytest.mark.parametrize("kind", [IdKind.LETTER, IdKind.NEXT])
@pytest.mark.usefixtures("without_keys")
def test_ids_that_two_objects_share_are_noticed_where_no_key_signs_them(kind: IdKind, monkeypatch: Patch) -> None:
    messages = (
        [order("queued:1:error"), Order(order_id="o2", fail="queued:1:error")] if kind is IdKind.NEXT else FAILING
    )
    assert wrong([InOrderFirst], messages) == set()
    monkeypatch.setattr(kind, "_value_", kind.name.lower() + "{place}")
    assert any("is also that of another message" in text for text in wrong([InOrderFirst], messages))


@pytest.mark.proof("explores every single fault of a flow on FIFO queues")
@pytest.mark.usefixtures("without_keys")
def test_a_flow_without_keys_on_fifo_queues_survives_every_fault() -> None:
    report = explore([InOrderFirst], FAILING, tables=TABLES, failing=("o1", "o2"), bound=2, walks=0)
    assert report.ok, str(report)

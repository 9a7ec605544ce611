"""An insider who may send requests, and knows every address, says everything that a record can be, wherever it can."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel, SecretStr

from flowguard import ATTACH, Bus, Callback, Done, Flow, Outcome, Settings, Stage, Step, Topic, callback_handler
from flowguard import lambda_handler as stages_handler
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import NotProcessed
from flowguard.events import EventType, Tally
from flowguard.flow import AnyFlow
from flowguard.handler import dlq_handler
from flowguard.names.ids import ObjectId, RequestId, SeededIds
from flowguard.protocol.groups import Member
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import CANCEL, RESET, CancelOrder
from flowguard.protocol.waiting import DEADLINE
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.testing import bus_event, invocation, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from flowguard.wire.signing import UNSIGNED, Signer
from flowguard.worker.ports import Services
from flowguard.worker.record_sources import BELIEVED, Channel, RecordKind, Signature
from tests.aws.engines import empty

START: Final = 1_800_000_000_000
KEYS: Final = "k1:" + "s" * 40
NEWS: Final = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:news"
WITHIN: Final = timedelta(minutes=10)


class Expense(BaseModel):
    expense_id: str


class Decided(BaseModel):
    decision: str
    checked: Any = None


class Ask(Stage[Expense], name="ask", then=("decide", "lapse"), inbox="expenses"):
    def handle(self, expense: Expense, step: Step) -> Outcome:
        return Decide.when_all(decision=step.event(f"decision {expense.expense_id}"), within=WITHIN, on_timeout="lapse")


class Decide(Stage[Decided], name="decide", inbox="decisions"):
    def handle(self, decided: Decided, step: Step) -> Outcome:
        return Done(decided.decision)


class Lapse(Stage[dict[str, Any]], name="lapse", inbox="decisions"):
    def handle(self, nothing: dict[str, Any], step: Step) -> Outcome:
        return Done("lapsed")


PARTIES: Final = (Callback("told", id="id", answer="answer"), Callback(Topic(NEWS), id="id", answer="answer"))


class OneQueue(
    Flow,
    name="approve",
    object_id="expense_id",
    inbox="expenses",
    answers="expenses",
    on_conflict=ATTACH,
    callbacks=PARTIES,
):
    """Requests and answers come through one queue."""

    stages = (Ask, Decide, Lapse)


class TwoQueues(
    Flow,
    name="approve",
    object_id="expense_id",
    inbox="expenses",
    answers="answers",
    on_conflict=ATTACH,
    callbacks=PARTIES,
):
    """Answers come through their own."""

    stages = (Ask, Decide, Lapse)


ADDRESS: Final = AnswerAddress("approve", ObjectId("e1"), RequestId("r1"), START, 1, "decision")
MESSAGE: Final = Message("approve", "decide", 1, ObjectId("e1"), RequestId("r1"), START, '{"decision":"yes"}', hop=2)
ENDED: Final = {"status": "COMPLETED", "result": "yes"}

Forged = tuple[Mapping[str, Any], Any]
"""What stands in the ``flowguard`` attribute, and the body."""


def ordered(key: str, body: Any, **more: Any) -> Forged:
    return {key: {**ADDRESS.as_json(), **more}}, body


ORDERS: Final[Mapping[RecordKind, Forged]] = {
    RecordKind.ANSWER: ordered("answer", ENDED),
    RecordKind.DEADLINE: ordered("deadline", {"deadline": START}),
    RecordKind.GROUP: ordered("group", {"group": Member(0, 0).text}, name=Member(0, 0).text),
    RecordKind.RESET: ordered("reset", {}),
}
"""What settles or undoes a run, and comes through the queue of answers alone."""

MOVES: Final[Mapping[RecordKind, Forged]] = {
    RecordKind.HOP: ({"hop": 2, "object": "e1", "resumed": True}, {"decision": "yes"}),
    RecordKind.CANCELLED: ({"object": "e1", "cancelled": "forged"}, {"expense_id": "e1"}),
    RecordKind.CANCEL: ordered("cancel", {}, why="forged"),
}
"""What moves a run on, or ends it, and comes through an inbox."""


@dataclass
class World:
    """A run that waits for a decision, and whoever can send to some queue."""

    services: Services
    tally: Tally
    flow: AnyFlow

    def begin(self) -> None:
        attributes = {"uniquerequestid": "r1", "requestedat": str(START)}
        event = sqs_event("expenses", {"expense_id": "e1"}, attributes=attributes)
        assert self.take(event)
        assert self.item.status is Status.WAITING

    @property
    def item(self) -> RunItem:
        found = self.services.store.read("approve", "e1")  # type: ignore[attr-defined]  # of this store
        assert isinstance(found, RunItem)
        return found

    def take(self, event: Any, function: Callable[..., Any] = stages_handler) -> bool:
        """Whether the function took the event."""
        try:
            answer = function(self.flow).using(self.services)(event)
        except NotProcessed:
            return False
        return not (isinstance(answer, dict) and answer.get("batchItemFailures"))


def world_of(flow: AnyFlow, keys: str | None, begun_with: str = KEYS) -> Iterator[World]:
    with empty("memory") as aws:
        aws.create_table("flowguard")
        for queue in ("expenses", "answers", "decisions", "told", "approve-dead-letters"):
            aws.create_queue(queue)
        tally = Tally()
        made = World(_services(begun_with, tally), tally, flow)
        made.begin()
        made.services = _services(keys, tally)
        yield made


def _services(keys: str | None, tally: Tally) -> Services:
    settings = Settings(signing_keys=None if keys is None else SecretStr(keys))
    return aws_services(
        settings, clock=ManualClock(START + 1_000), ids=SeededIds(), observer=tally, draw=random.Random(0)
    )


@pytest.fixture(params=["one queue", "two queues", "one queue, no keys", "two queues, no keys"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The functions that meet the insider may have lost their keys since."""
    flow = OneQueue if "one" in request.param else TwoQueues
    yield from world_of(flow, None if "no keys" in request.param else KEYS)


def answers_of(flow: AnyFlow) -> str:
    assert isinstance(flow.answers, Queue)
    return flow.answers.short_name


def attributes(forged: Forged, said: RecordKind) -> dict[str, str]:
    stage = "ask" if said in (RecordKind.CANCEL, RecordKind.CANCELLED) else "decide"
    place = json.dumps(forged[0])
    return {"uniquerequestid": "r1", "requestedat": str(START), "flowstage": f"approve/{stage}", "flowguard": place}


def raw(queue: str) -> Callable[[Forged, RecordKind], Any]:
    return lambda forged, said: sqs_event(queue, forged[1], attributes=attributes(forged, said))


def wrapped(queue: str) -> Callable[[Forged, RecordKind], Any]:
    return lambda forged, said: sns_to_sqs_event(queue, forged[1], attributes=attributes(forged, said))


def invoked(forged: Forged, said: RecordKind) -> Any:
    (record,) = sqs_event("answers", forged[1], attributes=attributes(forged, said))["Records"]
    return {"Records": [{**record, "eventSourceARN": None}]}


WAYS: Final[Mapping[str, Callable[[Forged, RecordKind], Any]]] = {
    **{f"raw in {queue}": raw(queue) for queue in ("expenses", "decisions", "told", "unknown", "expenses.fifo")},
    **{f"by SNS in {queue}": wrapped(queue) for queue in ("expenses", "decisions", "told", "unknown")},
    "by SNS alone": lambda forged, said: sns_event(NEWS, forged[1], attributes=attributes(forged, said)),
    "a record without a queue": invoked,
    "as an event of a bus": lambda forged, said: bus_event({"flowguard": forged[0], "body": forged[1]}),
    "as an event in a queue": lambda forged, said: sqs_event("expenses", bus_event({"flowguard": forged[0]})),
    "as the payload of an invocation": lambda forged, said: invocation({"flowguard": forged[0], "body": forged[1]}),
}
"""What an insider can do who may not send to the queue of answers, or to whom that is the inbox."""


@pytest.mark.slow("forges every order in every way")
@pytest.mark.parametrize("function", [stages_handler, callback_handler, dlq_handler])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("said", ORDERS)
def test_no_forged_order_settles_or_undoes_a_run(
    said: RecordKind, way: str, function: Callable[..., Any], world: World
) -> None:
    before = world.item
    world.take(WAYS[way](ORDERS[said], said), function)
    assert world.item == before
    if way.startswith(("raw in", "by SNS in")):
        assert not world.tally.count(EventType.ANSWERED) + world.tally.count(EventType.WAS_RESET)


REPEATED: Final[Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]]] = {
    "its own text": ({}, {}),
    "another text": ({"note": "forged"}, {}),
    "deeper in a chain": ({}, {"flowguard": '{"object":"e1","depth":90}'}),
    "telling another": ({}, {"flowguard": '{"object":"e1","reply_to":"sqs:told"}'}),
    "an older time": ({}, {"requestedat": str(START - 1)}),
    "a newer time": ({"note": "forged"}, {"requestedat": str(START + 500)}),
}


def request(body: Mapping[str, Any], said: Mapping[str, str], queue: str = "expenses") -> Any:
    first = {"uniquerequestid": "r1", "requestedat": str(START)}
    return sqs_event(queue, {"expense_id": "e1", **body}, attributes={**first, **said})


@pytest.mark.parametrize("repeated", REPEATED)
def test_a_request_that_repeats_the_id_of_a_run_changes_nothing_of_it(repeated: str, world: World) -> None:
    before = world.item
    world.take(request(*REPEATED[repeated]))
    assert before is not None
    assert world.item is not None
    assert world.item._replace(callers=before.callers) == before, "another address is one of the callers"
    assert world.tally.count(EventType.CLAIMED) == 1, "the first"


def test_a_newer_request_is_a_request_of_whoever_may_send_one_and_an_older_one_is_none(world: World) -> None:
    """Signatures do not decide who may ask. A flow that takes callers lets the run at work answer both."""
    before = world.item
    for at in (START - 1, START + 500):
        world.take(request({}, {"uniquerequestid": f"r-{at}", "requestedat": str(at)}))
    assert world.item == before
    assert world.tally.count(EventType.ATTACHED) == 2


class Other(Flow, name="other", object_id="expense_id"):
    """Another flow of the same function, of the same objects."""

    stages = (Lapse,)


def test_a_request_for_another_flow_under_the_id_of_a_run_is_a_run_of_that_flow(world: World) -> None:
    before = world.item
    both = stages_handler(world.flow, Other).using(world.services)
    both(request({}, {"flowstage": "other/lapse"}, "decisions"))
    assert world.item == before
    found = world.services.store.read("other", "e1")  # type: ignore[attr-defined]  # of this store
    assert (found.request_id, found.status) == ("r1", Status.COMPLETED)


@pytest.mark.parametrize("function", [stages_handler, callback_handler])
@pytest.mark.parametrize("said", ORDERS)
def test_nor_does_one_in_the_queue_of_answers_that_is_not_signed(
    said: RecordKind, function: Callable[..., Any], world: World
) -> None:
    before = world.item
    assert not world.take(raw(answers_of(world.flow))(ORDERS[said], said), function)
    assert world.item == before
    assert world.tally.count(EventType.UNTRUSTED) == 1


def signed(signer: Signer, said: RecordKind) -> Mapping[str, Any]:
    """The address of an order, answer or deadline with the signature that flowguard gives to that kind."""
    names = {RecordKind.DEADLINE: DEADLINE, RecordKind.RESET: RESET, RecordKind.GROUP: Member(0, 0).text}
    address = ADDRESS._replace(name=names.get(said, ADDRESS.name))
    if said is RecordKind.CANCEL:
        order = CancelOrder(address._replace(name=CANCEL), "why")
        return address._replace(name=CANCEL, signature=signer.sign(order.statement)).as_json()
    return address._replace(signature=signer.sign(address.statement)).as_json()


KEYS_OF: Final = {
    RecordKind.ANSWER: "answer",
    RecordKind.DEADLINE: DEADLINE,
    RecordKind.GROUP: "group",
    RecordKind.RESET: RESET,
    RecordKind.CANCEL: CANCEL,
}


@pytest.mark.parametrize("said", KEYS_OF)
@pytest.mark.parametrize("given", KEYS_OF)
def test_a_signature_for_one_kind_proves_nothing_of_another(given: RecordKind, said: RecordKind) -> None:
    """Who is asked for something, or reads a queue, has signed addresses, and says something else with them."""
    for flow in (OneQueue, TwoQueues):
        for world in world_of(flow, KEYS):
            before = world.item
            place = {KEYS_OF[said]: {**signed(world.services.signer, given), "why": "why"}}
            queue = "expenses" if said is RecordKind.CANCEL else answers_of(world.flow)
            body = {**ENDED, "deadline": START + 100}
            world.take(raw(queue)((place, body), said))
            assert (world.item == before) is (given is not said or said is RecordKind.GROUP)


@pytest.mark.parametrize("said", ORDERS)
def test_a_signed_order_in_a_queue_of_answers_alone_is_carried_out(said: RecordKind) -> None:
    """The queue may have no function but that of callbacks, and other flows send their orders to reset there."""
    for world in world_of(TwoQueues, KEYS):
        before = world.item
        place = {KEYS_OF[said]: signed(world.services.signer, said)}
        assert world.take(raw("answers")((place, {**ENDED, "deadline": START + 100}), said), callback_handler)
        assert (world.item == before) is (said is RecordKind.GROUP)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith(("as", "by SNS alone"))])
@pytest.mark.parametrize("said", MOVES)
def test_with_keys_no_forged_hop_or_cancellation_moves_or_ends_a_run(said: RecordKind, way: str) -> None:
    for flow in (OneQueue, TwoQueues):
        for world in world_of(flow, KEYS):
            before = world.item
            assert not world.take(WAYS[way](MOVES[said], said))
            assert world.item == before
            assert world.tally.count(EventType.UNTRUSTED) == 1


def test_a_signature_covers_whom_an_answer_is_for_and_not_what_it_says() -> None:
    """Who has read it gives another answer with it, to that run and name alone, and in the queue of answers alone."""
    for world in world_of(TwoQueues, KEYS):
        signed = ADDRESS._replace(signature=world.services.signer.sign(ADDRESS.statement))
        before = world.item
        for place, queue in ((signed._replace(hop=2), "answers"), (signed, "expenses")):
            forged = {"answer": place.as_json()}, {"status": "COMPLETED", "result": "another"}
            assert not world.take(raw(queue)(forged, RecordKind.ANSWER))
        assert world.item == before
        assert world.take(raw("answers")(({"answer": signed.as_json()}, ENDED), RecordKind.ANSWER))
        assert world.tally.count(EventType.ANSWERED) == 1


@pytest.mark.parametrize("said", MOVES)
@pytest.mark.parametrize("queue", ["answers", "told", "unknown"])
def test_a_hop_or_cancellation_that_nobody_signs_is_believed_from_its_own_inbox_alone(
    said: RecordKind, queue: str
) -> None:
    for world in world_of(TwoQueues, None):
        before = world.item
        assert not world.take(raw(queue)(MOVES[said], said))
        assert world.item == before
        assert world.tally.count(EventType.UNTRUSTED) == 1


def test_an_order_to_cancel_is_for_the_inbox_where_requests_enter_and_needs_no_signature_where_there_are_no_keys() -> (
    None
):
    for world in world_of(TwoQueues, None):
        assert not world.take(raw("decisions")(MOVES[RecordKind.CANCEL], RecordKind.CANCEL))
        assert world.take(raw("expenses")(MOVES[RecordKind.CANCEL], RecordKind.CANCEL))
        assert world.item.cancelled_because == "forged"


def test_who_gets_what_was_given_up_believes_the_queue_of_that() -> None:
    """Nobody names it, and SQS alone sends to it."""
    for world in world_of(TwoQueues, None):
        world.take(raw("approve-killed")(MOVES[RecordKind.HOP], RecordKind.HOP), dlq_handler)
        assert world.tally.count(EventType.UNTRUSTED) == 0


@pytest.mark.parametrize("keys", [None, KEYS])
def test_what_is_not_believed_says_where_it_came_from_and_what_to_do(keys: str | None) -> None:
    for world in world_of(TwoQueues, keys):
        for event in (
            raw("answers")(ORDERS[RecordKind.ANSWER], RecordKind.ANSWER),
            raw("decisions")(ORDERS[RecordKind.ANSWER], RecordKind.ANSWER),
            sns_event(NEWS, ENDED, attributes=attributes(ORDERS[RecordKind.ANSWER], RecordKind.ANSWER)),
        ):
            world.take(event)
        unsigned, elsewhere, topic = (
            event.facts["why"] for event in world.tally.events if event.type is EventType.UNTRUSTED
        )
        assert ("set FLOWGUARD_SIGNING_KEYS" in unsigned) is (keys is None)
        assert "came through the queue 'decisions'" in elsewhere
        assert "came through a topic" in topic


@pytest.mark.parametrize("way", ["raw in expenses", "by SNS in expenses", "raw in decisions"])
def test_what_says_that_it_comes_from_a_callbacks_topic_does_not_come_from_it(way: str, world: World) -> None:
    before = world.item
    body = {"id": "decision e1", "answer": "yes"}
    queue = way.rpartition(" ")[2]
    event = sns_to_sqs_event(queue, body, topic=NEWS) if "SNS" in way else sqs_event(queue, body)
    assert not world.take(event, callback_handler)
    assert world.item == before


BANK: Final[Mapping[str, Topic | Bus]] = {"a topic": Topic(NEWS), "a bus": Bus("default", "bank", "Paid")}


@pytest.mark.parametrize("shape", BANK)
@pytest.mark.parametrize("of_another_flow", [False, True], ids=["of one flow", "of two flows"])
def test_who_may_send_to_the_queue_of_one_party_is_not_another_by_what_the_body_says(
    shape: str, of_another_flow: bool
) -> None:
    """Whichever is declared first."""
    bank = Callback(BANK[shape], id="id", answer="answer", names=("decision",))
    supplier = Callback("told", id="id", answer="answer", names=("parcel",))

    parties = (bank,) if of_another_flow else (bank, supplier)

    class Banks(Flow, name="approve", object_id="expense_id", inbox="expenses", answers="answers", callbacks=parties):
        stages = (Ask, Decide, Lapse)

    class Supplies(Flow, name="supplies", object_id="expense_id", inbox="supplies", callbacks=(supplier,)):
        stages = (Lapse,)

    body = {"id": "decision e1", "answer": "forged"}
    event = bus_event(body, source="bank", detail_type="Paid")
    for world in world_of(Banks, KEYS):
        before = world.item
        forged = sns_to_sqs_event("told", body, topic=NEWS) if shape == "a topic" else sqs_event("told", event)
        assert callback_handler(Banks, Supplies).using(world.services)(forged) == {"batchItemFailures": []}
        assert world.item == before
        answered = [event.facts["verdict"] for event in world.tally.events if event.type is EventType.ANSWERED]
        assert answered == ["UNKNOWN"]


def test_an_answer_may_come_through_the_topic_of_its_callback(world: World) -> None:
    if world.services.signer is UNSIGNED:
        return
    assert world.take(
        sns_to_sqs_event("approve-news", {"id": "decision e1", "answer": "yes"}, topic=NEWS), callback_handler
    )
    assert world.item.wait is not None
    assert world.item.wait.end is not None


# -- the table itself -------------------------------------------------------------------------------------------------


def test_every_kind_of_record_has_its_sources() -> None:
    assert BELIEVED.keys() == set(RecordKind)
    assert {said for said, belief in BELIEVED.items() if belief.origins == {Channel.ANSWERS}} == set(ORDERS)
    assert {said for said, belief in BELIEVED.items() if belief.signed is Signature.ALWAYS} == set(ORDERS)


def test_who_gives_it_up_gets_answers_of_the_queue_that_sqs_moved_them_from() -> None:
    """What a function died of comes to the function of the queue of killed records with SQS's own word of its queue."""
    for flow in (OneQueue, TwoQueues):
        for world in world_of(flow, KEYS):
            signed = ADDRESS._replace(signature=world.services.signer.sign(ADDRESS.statement))
            forged: Forged = ({"answer": signed.as_json()}, ENDED)
            (record,) = raw("approve-killed")(forged, RecordKind.ANSWER)["Records"]
            arn = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:"
            for queue, taken in (("decisions", False), (answers_of(flow), True)):
                sent = str(world.services.clock.now())
                moved = {**record["attributes"], "SentTimestamp": sent, "DeadLetterQueueSourceArn": arn + queue}
                assert world.take({"Records": [{**record, "attributes": moved}]}, dlq_handler) is taken
            old = {**record["attributes"], "DeadLetterQueueSourceArn": arn + "decisions"}
            assert world.take({"Records": [{**record, "attributes": old}]}, dlq_handler), "its queue deletes it soon"
            assert world.item.wait is not None
            assert world.item.wait.end is not None


# -- what is given up -------------------------------------------------------------------------------------------------


class Believes(
    Flow,
    name="approve",
    object_id="expense_id",
    inbox="expenses",
    answers="answers",
    on_conflict=ATTACH,
    trust_senders=True,
):
    stages = (Ask, Decide, Lapse)


@pytest.mark.parametrize("keys", [None, KEYS])
def test_a_flow_that_trusts_its_senders_believes_what_comes_through_its_queues(keys: str | None) -> None:
    for world in world_of(Believes, keys):
        assert not world.take(raw("expenses")(ORDERS[RecordKind.ANSWER], RecordKind.ANSWER)), (
            "the source is checked all the same"
        )
        assert world.take(raw("answers")(ORDERS[RecordKind.ANSWER], RecordKind.ANSWER))
        assert world.item.wait is not None
        assert world.item.wait.end is not None


def test_a_flow_cannot_wait_where_nothing_that_it_waits_for_could_be_signed() -> None:
    with empty("memory") as aws:
        aws.create_table("flowguard")
        for queue in ("expenses", "answers", "decisions", "approve-dead-letters"):
            aws.create_queue(queue)
        tally = Tally()
        world = World(_services(None, tally), tally, TwoQueues)
        world.take(sqs_event("expenses", {"expense_id": "e1"}))
        assert world.item.status is not Status.WAITING
        [event] = [event for event in tally.events if event.type is EventType.BROKEN]
        assert "SettingsError" in str(event.facts)
        assert tally.count(EventType.RETRIED) == 0

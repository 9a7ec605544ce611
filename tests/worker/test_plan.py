"""From what a handler did to what its commit writes: each ending, and what the flow does not allow."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from flowguard.destinations import Bus, Queue, Topic
from flowguard.errors import PayloadLost, RunFailed
from flowguard.failed import Failure
from flowguard.flow import ATTACH, Flow
from flowguard.items.writes import Delete, Put
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Next, Outcome
from flowguard.protocol.callers import Caller
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Commit, Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import kinesis_event, sns_to_sqs_event, sqs_event, step_for
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import (
    FIFO_GROUP,
    FLOW_STAGE,
    PLACE,
    REQUEST_ID,
    REQUESTED_AT,
    SEEMS,
    ErrorNote,
    Message,
    Place,
)
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.plan import Planner, dead_letter, retried
from tests.sent_ids import readable

MOMENT = 1_767_225_600_000
TOPIC = Topic("arn:aws:sns:eu-west-1:123456789012:ended")
ERROR = ErrorNote("RuntimeError", "gateway down", 5)


class Cart(BaseModel):
    cart_id: str


class Priced(BaseModel):
    total: int


class CartState(BaseModel):
    total: int = 0


class Price(Stage[Cart, CartState], name="price", then=("confirm", "note")):
    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done()


class Confirm(Stage[Priced, CartState], name="confirm", inbox="carts-to-confirm"):
    def handle(self, payload: Priced, step: Step[CartState]) -> Outcome:
        return Done()


class Note(Stage[dict[str, Any], CartState], name="note", then="confirm"):
    def handle(self, payload: dict[str, Any], step: Step[CartState]) -> Outcome:
        return Done()


class PriceCart(Flow, name="price-cart", object_id="cart_id", max_hops=3, carry=("tenant",), trust_senders=True):
    stages = (Price, Confirm, Note)


class ToldCart(Flow, name="told-cart", object_id="cart_id", complete_to=TOPIC, dead_letters="dead", trust_senders=True):
    stages = (Price, Confirm, Note)


class SharedCart(Flow, name="shared-cart", object_id="cart_id", on_conflict=ATTACH, trust_senders=True):
    stages = (Price, Confirm, Note)


class KeptCart(Flow, name="kept-cart", object_id="cart_id", keep_result=timedelta(days=60), trust_senders=True):
    stages = (Price, Confirm, Note)


class Stateless(Stage[Cart], name="stateless"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class StatelessFlow(Flow, name="stateless", object_id="cart_id", trust_senders=True):
    stages = (Stateless,)


MESSAGE = Message(
    flow="price-cart",
    stage="price",
    version=1,
    object_id=ObjectId("c-1"),
    request_id=RequestId("r-1"),
    requested_at=1_000,
    body='{"cart_id":"c-1"}',
    retry=2,
    carried={"tenant": Attribute.string("shop-1")},
)


def planner(flow: type[Flow] = PriceCart, **changes: Any) -> Planner:
    return Planner(flow=flow, message=MESSAGE._replace(flow=flow.name, **changes), moment=MOMENT)


def ended(outcome: Any, flow: type[Flow] = PriceCart, step: Step[Any] | None = None, **changes: Any) -> Commit:
    return planner(flow, **changes).ended(outcome, step_for(Price) if step is None else step)


def sends(commit: Commit) -> tuple[Send, ...]:
    return commit.outbox.sends if commit.outbox is not None else ()


def envelope(event: Any) -> Envelope:
    (found,) = normalize(event)
    assert isinstance(found, Envelope)
    return found


RECEIVED = envelope(sqs_event("carts", Cart(cart_id="c-1"), attributes={"colour": "red"}))


class Rate(BaseModel):
    rate_id: str = "r-1"
    rate: float | None = None
    least: int = Field(default=0, ge=0)


class RateState(Rate):
    pass


class Rated(Stage[Rate, RateState], name="rated", then="rated"):
    def handle(self, payload: Rate, step: Step[RateState]) -> Outcome:
        return Done()


class Rating(Flow, name="rating", object_id="rate_id", trust_senders=True):
    stages = (Rated,)


@pytest.mark.parametrize(
    ("payload", "state", "told"),
    [
        (Rate(rate=math.nan), RateState(), r"Rate\.rate is NaN"),
        (Rate(), RateState(rate=math.nan), r"RateState\.rate is NaN"),
        (Rate.model_construct(least=-1), RateState(), "the payload of 'rated' would not be read again as Rate: least"),
        (Rate(), RateState.model_construct(least=-1), "the state would not be read again as RateState: least"),
    ],
)
def test_what_the_next_stage_could_not_read_is_no_commit(payload: Rate, state: RateState, told: str) -> None:
    with pytest.raises(PayloadLost, match=told):
        ended(Rated.message(payload), Rating, step_for(Rated, state=state), stage="rated")


def test_a_result_that_is_no_number_is_no_commit() -> None:
    with pytest.raises(PayloadLost, match=r"dict\.total is NaN"):
        ended(Done({"total": math.nan}))


def test_a_message_beside_with_what_is_no_number_is_refused() -> None:
    with pytest.raises(PayloadLost, match=r"dict\.total is NaN"):
        step_for(Price).send("emails", {"total": math.nan})


# -- going on ---------------------------------------------------------------------------------------------------------


def test_the_next_hop_goes_last_and_everything_is_in_one_commit() -> None:
    step = step_for(Price, state=CartState(total=7))
    step.send("emails", "hello")
    step.put("carts", {"id": "c-1"})
    step.delete("drafts", {"id": "c-1"})
    commit = ended(Confirm.message(Priced(total=7)), step=step)
    assert (commit.status, commit.committed_at, commit.state) == (Status.RUNNING, MOMENT, '{"total":7}')
    assert commit.writes == (Put("carts", {"id": "c-1"}), Delete("drafts", {"id": "c-1"}))
    assert [send.kind for send in sends(commit)] == [Kind.SIDE, Kind.NEXT]
    assert commit.outbox is not None
    assert (commit.outbox.request_id, commit.outbox.committed_at) == ("r-1", MOMENT)


def test_the_next_hops_message_is_addressed_and_named_by_its_hop() -> None:
    (onward,) = sends(ended(Confirm.message(Priced(total=7))))
    assert (onward.to, onward.body, readable(onward.id), onward.group) == (
        Queue("carts-to-confirm"),
        '{"total":7}',
        "r-1.2",
        "c-1",
    )
    assert onward.attributes["tenant"] == Attribute.string("shop-1")
    place = Place.parse(onward.attributes[PLACE].value)
    assert (place.hop, place.retry, place.object_id) == (2, 0, "c-1")


def test_a_state_of_another_type_than_the_stages_own_is_refused() -> None:
    step: Step[Any] = step_for(Price)
    step.state = Cart(cart_id="c-1")
    with pytest.raises(RunFailed, match=r"'price' left Cart in step.state, which is CartState"):
        ended(Done(), step=step)


def test_a_flow_without_state_stores_none() -> None:
    assert ended(Done(), StatelessFlow, step_for(Stateless), stage="stateless").state is None


def test_a_run_item_outlives_every_copy_of_its_messages() -> None:
    assert (
        ended(Done()).expires_at
        == Lifetimes(PriceCart).of_run(MOMENT)
        == MOMENT + timedelta(days=28) // timedelta(milliseconds=1)
    )


@pytest.mark.parametrize(
    ("outcome", "changes", "told"),
    [
        (Next("pay", "x"), {}, "price-cart has no stage 'pay'; it has price, confirm, note"),
        (Next("price", Cart(cart_id="c")), {}, "price went on to 'price', which its then= does not name"),
        (Next("confirm", Priced(total=1)), {"stage": "confirm"}, "confirm went on to 'confirm', which its then= does"),
        (Next("confirm", {"total": 1}), {}, "'confirm' takes Priced, not dict"),
        (Next("confirm", "text"), {}, "'confirm' takes Priced, not str"),
        (Next("note", Priced(total=1)), {}, "'note' takes dict, not Priced"),
        (
            Next("confirm", Priced(total=1)),
            {"hop": 3},
            "price-cart has made 3 hops, its max_hops; does it run in circles?",
        ),
        (None, {}, "'price' returned a NoneType; return OtherStage.message(…), OtherStage.when_all(…) or Done(…)"),
        ({"secret": 1}, {}, "'price' returned a dict; return OtherStage.message(…), OtherStage.when_all(…) or Done(…)"),
        (Done, {}, "'price' returned a type; return OtherStage.message(…), OtherStage.when_all(…) or Done(…)"),
    ],
)
def test_what_the_flow_does_not_allow_ends_the_run(outcome: Any, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RunFailed) as caught:
        ended(outcome, **changes)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_stage_that_undoes_a_run_may_wait_beyond_max_hops() -> None:
    waits = Confirm.when_all(total=step_for(Price).event("paid/1"), within=timedelta(hours=1))
    failed = FailedHop(RequestId("r-1"), 1_000, 3, 0, ERROR)
    with pytest.raises(RunFailed, match="has made 5 hops, its max_hops"):
        ended(waits, hop=5)
    undoing = Planner(flow=PriceCart, message=MESSAGE._replace(hop=5), moment=MOMENT, failed_hop=failed)
    assert undoing.ended(waits, step_for(Price)).status is Status.WAITING


def test_the_last_hop_allowed_may_end_the_run() -> None:
    assert ended(Done(), hop=3).status is Status.COMPLETED


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [(None, None), ({"total": 1}, '{"total":1}'), (Priced(total=2), '{"total":2}'), ("ok", '"ok"'), (False, "false")],
)
def test_a_result_is_kept_as_json(result: Any, text: str | None) -> None:
    commit = ended(Done(result))
    assert (commit.status, commit.result, commit.outbox) == (Status.COMPLETED, text, None)


def test_a_result_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="object cannot become JSON"):
        ended(Done(object()))


@pytest.mark.parametrize(
    ("result", "told"), [(None, None), ({"total": 1}, {"total": 1}), (Priced(total=2), {"total": 2}), ("ok", "ok")]
)
def test_whoever_asked_is_told_the_result_in_the_same_commit(result: Any, told: Any) -> None:
    (complete,) = sends(ended(Done(result), reply_to="sqs:replies"))
    assert (complete.kind, complete.to, complete.group) == (Kind.COMPLETE, Queue("replies"), "c-1")
    assert json.loads(complete.body) == {
        "flow": "price-cart",
        "object_id": "c-1",
        "request_id": "r-1",
        "status": "COMPLETED",
        "result": told,
    }


def test_the_complete_message_has_an_id_of_its_own_behind_those_of_the_side_messages() -> None:
    step = step_for(Price, request_id="r-1")
    step.send("emails", "hello")
    mail, asked, always = sends(ended(Done(), ToldCart, step, reply_to="sqs:replies"))
    assert [readable(send.id) for send in (mail, asked, always)] == ["r-1.1.0", "r-1.1.1", "r-1.1.2"]
    assert (asked.to, always.to) == (Queue("replies"), TOPIC)
    assert asked.attributes == {
        REQUEST_ID: Attribute.string(asked.id),
        REQUESTED_AT: Attribute.number(MOMENT),
        PLACE: Attribute.string('{"depth":1}'),
        "tenant": Attribute.string("shop-1"),
    }


def test_the_answer_to_a_run_that_waits_says_what_it_is_for() -> None:
    (complete,) = sends(ended(Done(), reply_to="sqs:replies", answer_to='{"name":"priced"}'))
    assert complete.attributes[PLACE] == Attribute.string('{"answer":{"name":"priced"}}')


def test_no_one_is_told_before_the_end() -> None:
    assert [one.kind for one in sends(ended(Confirm.message(Priced(total=1)), ToldCart, reply_to="sqs:a"))] == [
        Kind.NEXT
    ]


# -- an end in failure ------------------------------------------------------------------------------------------------


def test_a_failed_run_keeps_its_state_tells_whoever_waits_and_leaves_a_dead_letter() -> None:
    commit = planner(ToldCart, reply_to="sqs:replies").failed(ERROR, RECEIVED)
    assert (commit.status, commit.state, commit.error, commit.writes) == (Status.FAILED, None, ERROR, ())
    asked, always, dead = sends(commit)
    assert (asked.to, always.to, dead.to) == (Queue("replies"), TOPIC, Queue("dead"))
    assert [one.kind for one in (asked, always, dead)] == [Kind.COMPLETE, Kind.COMPLETE, Kind.DEAD]
    assert json.loads(asked.body)["status"] == "FAILED"
    assert json.loads(asked.body)["error"] == "RuntimeError: gateway down"


def again(send: Send, queue: str = "carts") -> Envelope:
    """What whoever sends the message back from its queue, as it is, would make arrive."""
    return envelope(sqs_event(queue, send.body, attributes=send.attributes))


@pytest.mark.parametrize(
    "received", [RECEIVED, envelope(sns_to_sqs_event("carts", Cart(cart_id="c-1"), attributes={"colour": "red"}))]
)
def test_a_dead_letter_is_the_original_ready_to_be_sent_back(received: Envelope) -> None:
    message = MESSAGE._replace(hop=2, retry=4, redrive=1)
    letter = dead_letter(PriceCart, message, ERROR, received)
    assert (letter.kind, letter.to, readable(letter.id)) == (
        Kind.DEAD,
        Queue("price-cart-dead-letters"),
        "r-1.2r1.dead",
    )
    back = again(letter)
    assert (back.message, back.attributes["colour"]) == (received.message, Attribute.string("red"))
    assert back.attributes[REQUEST_ID].value == "r-1"
    assert back.attributes[REQUESTED_AT].value == "1000"
    place = Place.parse(back.attributes[PLACE].value)
    assert (place.hop, place.retry, place.redrive, place.first_error) == (2, 0, 2, ERROR)
    assert (place.attempts, place.last_error) == (5, None), "the first error was the last"


@pytest.mark.parametrize(("object_id", "group"), [("c-1", "c-1"), ("", "r-1")])
def test_a_dead_letter_keeps_the_order_of_its_object(object_id: str, group: str) -> None:
    message = MESSAGE._replace(object_id=ObjectId(object_id))
    assert dead_letter(PriceCart, message, ERROR, RECEIVED).group == group


@pytest.mark.parametrize("delay", [0, 900, 901, 86_400])
def test_a_retry_is_the_original_one_attempt_later_however_long_it_waits(delay: int) -> None:
    send = retried(MESSAGE.again(ERROR), RECEIVED, delay)
    assert (send.to, readable(send.id), send.delay) == (Queue(str(RECEIVED.queue_arn)), "r-1.1.retry3", delay)
    assert bool(send.attributes) is (delay <= 900)
    back = again(send)
    assert (back.message, back.attributes["colour"]) == (RECEIVED.message, Attribute.string("red"))
    place = Place.parse(back.attributes[PLACE].value)
    assert (place.retry, place.redrive, place.first_error) == (3, 0, ERROR)


@pytest.mark.parametrize("delay", [0, 901])
def test_a_retry_goes_back_to_its_queue_and_what_a_stream_has_brought_to_the_inbox(delay: int) -> None:
    of_queue = retried(MESSAGE, RECEIVED, delay, inbox=Queue("first.fifo"))
    assert (of_queue.to, of_queue.group) == (Queue(str(RECEIVED.queue_arn)), None)
    of_stream = retried(
        MESSAGE, envelope(kinesis_event("carts", Cart(cart_id="c-1"))), delay, inbox=Queue("first.fifo")
    )
    assert (of_stream.to, of_stream.group) == (Queue("first.fifo"), MESSAGE.object_id)
    assert of_stream.delay == 0
    assert of_stream.attributes, "no schedule brings a message to a FIFO queue, and none delays it"
    to_standard = retried(MESSAGE, envelope(kinesis_event("carts", Cart(cart_id="c-1"))), delay, inbox=Queue("first"))
    assert to_standard.delay == of_queue.delay == delay


def test_what_goes_on_as_the_same_attempt_is_another_message_than_a_retry_and_one_for_each_claim() -> None:
    ids = [retried(MESSAGE, RECEIVED, 0, continued=epoch).id for epoch in (None, 1, 2, 1)]
    assert len(set(ids)) == 3
    assert ids[1] == ids[3]


def test_a_dead_letter_says_in_its_body_what_no_attribute_carries() -> None:
    """The name of a stage may be any text in a direct invocation."""
    letter = dead_letter(PriceCart, MESSAGE._replace(stage="\0"), ERROR, RECEIVED)
    assert letter.attributes == {}
    inside = json.loads(letter.body)["MessageAttributes"]
    assert json.loads(inside[PLACE]["Value"])["redrive"] == 1
    assert inside["flowstage"]["Value"].endswith("/\0")


def test_a_dead_letter_and_a_retry_go_beside_the_very_body_that_came() -> None:
    received = envelope(sns_to_sqs_event("carts", Cart(cart_id="c-1")))
    for send in (dead_letter(PriceCart, MESSAGE, ERROR, received), retried(MESSAGE.again(ERROR), received, 0)):
        assert send.body == received.received["body"]
        assert REQUEST_ID in send.attributes


@pytest.mark.parametrize(
    "more",
    [
        {f"a{n}": Attribute.string("x") for n in range(9)},
        {"a": Attribute.string("\0")},
    ],
    ids=["too many", "with a character that SQS refuses"],
)
def test_attributes_that_no_queue_takes_go_into_the_body_and_flowguards_beside_it(more: dict[str, Attribute]) -> None:
    """Attributes that an earlier retry brought beside a notification are repeated beside it, as far as they can be."""
    first = envelope(sns_to_sqs_event("carts", Cart(cart_id="c-1")))
    [record] = sqs_event("carts", first.received["body"], attributes=more)["Records"]
    letter = dead_letter(PriceCart, MESSAGE, ERROR, envelope({"Records": [record]}))
    assert {REQUEST_ID, PLACE} <= letter.attributes.keys()
    assert not more.keys() & letter.attributes.keys()
    assert more.keys() <= json.loads(letter.body)["MessageAttributes"].keys()
    assert more.items() <= again(letter).attributes.items()


def test_a_reply_that_no_service_takes_does_not_keep_its_run_from_ending() -> None:
    carried = {"tenant": Attribute.string("\0")}
    commit = planner(ToldCart, reply_to="events:shop|ended|default", carried=carried).failed(ERROR, RECEIVED)
    asked, dead = sends(commit)
    assert (asked.to, dead.kind) == (Bus("default", "shop", "ended"), Kind.DEAD)
    assert commit.error is not None
    assert "and nobody is notified: a message to sns:" in str(commit.error)


def test_a_run_may_end_with_nothing_to_send_where_no_dead_letter_holds_its_message() -> None:
    class Unheard(Flow, name="unheard", object_id="cart_id", dead_letters=TOPIC):
        stages = (Price, Confirm, Note)

    made = planner(Unheard, body="x" * 300_000)
    [long] = normalize(sqs_event("orders", "x" * 300_000))
    assert isinstance(long, Envelope)
    letter, commit = made.without_letter(made.failed(ERROR, long))
    assert (letter, commit.outbox) == ([], None)
    assert "and no dead letter holds it" in str(commit.error)


@pytest.mark.parametrize(("body", "seems"), [('{"cart_id":7}', "7"), ("{}", None)])
def test_a_dead_letter_says_which_object_it_seems_to_be_about_only_where_it_seems_so(
    body: str, seems: str | None
) -> None:
    message = MESSAGE._replace(object_id=ObjectId(""), body=body)
    letter = dead_letter(PriceCart, message, ERROR, RECEIVED)
    assert json.loads(letter.attributes[PLACE].value).get("seems", "not said") == (seems or "not said")
    assert letter.attributes.keys() >= {REQUEST_ID, REQUESTED_AT, FLOW_STAGE}


@pytest.mark.parametrize(
    ("queue", "group", "known"),
    [("carts.fifo", "acct-7", "acct-7"), ("carts.fifo", "c-1", None), ("carts", "acct-7", None)],
)
def test_a_letter_says_in_which_group_of_a_fifo_queue_its_record_was_if_not_in_its_objects(
    queue: str, group: str, known: str | None
) -> None:
    of_group = envelope(sqs_event(queue, Cart(cart_id="c-1"), group=group))
    message = MESSAGE._replace(object_id=ObjectId("c-1"))
    letter = dead_letter(PriceCart, message, ERROR, of_group)
    assert Place.parse(letter.attributes[PLACE].value).fifo_group == known
    assert (FIFO_GROUP in json.loads(letter.attributes[PLACE].value)) is (known is not None)
    assert SEEMS not in json.loads(letter.attributes[PLACE].value)
    assert letter.group == "c-1", "a FIFO queue of dead letters keeps the order of an object"
    unread = dead_letter(PriceCart, message._replace(object_id=ObjectId(""), body='{"cart_id":7}'), ERROR, of_group)
    place = Place.parse(unread.attributes[PLACE].value)
    assert (place.seems, place.fifo_group) == ("7", group if queue == "carts.fifo" else None)


def test_a_letter_of_a_known_object_does_not_say_what_its_payload_seems_to_name() -> None:
    letter = dead_letter(PriceCart, MESSAGE._replace(body='{"cart_id":"another"}'), ERROR, RECEIVED)
    place = json.loads(letter.attributes[PLACE].value)
    assert (place["object"], "seems" in place) == (MESSAGE.object_id, False)


def test_a_state_that_a_stage_does_not_declare_is_refused_with_the_way_to_declare_one() -> None:
    step: Step[Any] = step_for(Stateless)
    step.state = {"total": 3}
    with pytest.raises(RunFailed, match=r"'stateless' left dict in step.state, and declares no state; write Stage\["):
        ended(Done(), StatelessFlow, step, stage="stateless")


# -- a run that answers callers ---------------------------------------------------------------------------------------


def test_a_run_and_each_caller_of_it_get_their_answer_under_the_id_that_any_other_run_would_give_it() -> None:
    caller = Caller.of(MESSAGE._replace(reply_to="sqs:replies"))
    assert caller is not None
    own = caller.reply_id("shared-cart", MESSAGE.object_id)
    completed = ended(Done(), SharedCart, reply_to="sqs:replies")
    failed = planner(SharedCart, reply_to="sqs:replies").failed(ERROR, RECEIVED)
    assert [send.id for commit in (completed, failed) for send in sends(commit) if send.kind is Kind.COMPLETE] == [
        own,
        own,
    ]


@pytest.mark.parametrize(("redrive", "noted", "counts"), [(0, None, 0), (0, 0, 0), (0, 1, 1), (2, None, 2), (2, 1, 2)])
def test_the_answer_to_a_request_that_was_redriven_has_an_id_of_its_own_in_later_hops_too(
    redrive: int, noted: int | None, counts: int
) -> None:
    asked = Caller(MESSAGE.request_id, MESSAGE.requested_at, "sqs:replies")
    plan = planner(SharedCart, reply_to="sqs:replies", hop=2, redrive=redrive)
    commit = plan._replace(asked=None if noted is None else asked._replace(redrive=noted)).ended(
        Done(), step_for(Price)
    )
    [answer] = [send for send in sends(commit) if send.kind is Kind.COMPLETE]
    assert answer.id == asked._replace(redrive=counts).reply_id("shared-cart", MESSAGE.object_id)


def test_a_failed_run_that_is_undone_cancels_what_was_asked_for_it() -> None:
    cancelled = Send(Kind.SIDE, Queue("children"), "{}", "r-1.cancel0", {})
    failure = Failure(
        type="Reject", text="no", first_error="no", stage="price", hop=1, attempts=1, at=datetime.fromtimestamp(0, UTC)
    )
    commit = planner()._replace(cancelled=(cancelled,)).giving_up("note", failure, ERROR, [])
    assert sends(commit)[0] == cancelled


def test_each_end_of_a_run_closes_its_list_of_callers_and_nothing_else_does() -> None:
    assert ended(Done(), SharedCart).closes_list
    assert planner(SharedCart).failed(ERROR, RECEIVED).closes_list
    assert not ended(Confirm.message(Priced(total=1)), SharedCart).closes_list
    assert not planner().failed(ERROR, RECEIVED).closes_list


def test_only_the_first_hop_of_a_run_that_goes_on_and_takes_callers_stores_what_it_begins_anew_with() -> None:
    onward = Confirm.message(Priced(total=1))
    stored = ended(onward, SharedCart).first_message
    assert stored is not None
    assert json.loads(stored)[:3] == ["price", 1, MESSAGE.body]
    others = ended(onward, SharedCart, hop=2), ended(onward), ended(Done(), SharedCart)
    assert [commit.first_message for commit in others] == [None, None, None]


def test_the_item_of_a_kept_result_is_there_as_long_as_that_is_good_and_that_of_a_run_at_work_is_not() -> None:
    assert ended(Done(), KeptCart).expires_at == MOMENT + timedelta(days=60) // timedelta(milliseconds=1)
    of_callers = timedelta(minutes=30) // timedelta(milliseconds=1)
    goes_on = ended(Confirm.message(Priced(total=1)), KeptCart)
    assert goes_on.expires_at == Lifetimes(KeptCart).of_run(MOMENT) + of_callers


def test_letters_of_messages_whose_object_nobody_could_read_are_told_apart() -> None:
    """Each is of another message, though their senders gave them one request id. A FIFO queue would drop the others."""
    unread = MESSAGE._replace(object_id=ObjectId(""))
    received = [envelope(sqs_event("carts", Cart(cart_id="c-1"), message_id=f"m-{number}")) for number in (1, 2, 3)]
    letters = [dead_letter(PriceCart, unread, ERROR, one).id for one in (*received, received[0])]
    assert len(set(letters)) == 3
    assert letters[0] == letters[3], "a copy of the letter is one"
    assert {dead_letter(PriceCart, MESSAGE, ERROR, one).id for one in received} == {f"{MESSAGE.hop_id}.dead"}


def test_no_commit_shortens_the_life_of_an_item_that_was_found() -> None:
    later = MOMENT + timedelta(days=90) // timedelta(milliseconds=1)
    of_long_life = planner()._replace(lives_until=later)
    failure = Failure(
        type="Reject", text="no", first_error="no", stage="price", hop=1, attempts=1, at=datetime.fromtimestamp(0, UTC)
    )
    commits = (
        of_long_life.ended(Done(), step_for(Price)),
        of_long_life.failed(ERROR, RECEIVED),
        of_long_life.giving_up("note", failure, ERROR, []),
    )
    assert [commit.expires_at for commit in commits] == [later] * 3

"""The plan of a wait: what it sends, saves and keeps, and every wait that is refused, by name."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.codecs import Compressed
from flowguard.destinations import Queue
from flowguard.errors import RunFailed, TooLarge
from flowguard.failed import Failed
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Ask, AwaitedEvent, AwaitedToken, Done, Outcome, WaitFor
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import AwaitingRow, NewWait
from flowguard.protocol.waiting import Child, WaitPlan
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, Message, Place
from flowguard.wire.signing import Keyring, Keys, KeySigner
from flowguard.wire.tokens import token_awaited_id
from flowguard.worker.wait_planner import MOST_AWAITED, WaitPlanner, deadline_message

MOMENT = 1_800_000_000_000
HOUR = timedelta(hours=1)
KEEP = 86_400_000


class Cart(BaseModel):
    cart_id: str


class Both(BaseModel):
    search: int
    filter: int


class Loose(BaseModel):
    search: int | None = None
    filter: int | Failed | None = None


class Extra(Loose):
    more: str


class Less(BaseModel):
    search: int | None = None


class Admitting(BaseModel):
    search: int | Failed
    filter: int | Failed


class _Does(Stage[Any], abstract=True):
    def handle(self, payload: Any, step: Step) -> Outcome:
        return Done()


class Begin(Stage[Cart], name="begin", then=("both", "loose", "extra", "admitting", "text", "less", "anything")):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class TakesBoth(Stage[Both], name="both"):
    def handle(self, payload: Both, step: Step) -> Outcome:
        return Done()


class TakesLoose(Stage[Loose], name="loose"):
    def handle(self, payload: Loose, step: Step) -> Outcome:
        return Done()


class TakesExtra(Stage[Extra], name="extra"):
    def handle(self, payload: Extra, step: Step) -> Outcome:
        return Done()


class TakesAdmitting(Stage[Admitting], name="admitting"):
    def handle(self, payload: Admitting, step: Step) -> Outcome:
        return Done()


class TakesLess(Stage[Less], name="less"):
    def handle(self, payload: Less, step: Step) -> Outcome:
        return Done()


class TakesText(Stage[str], name="text"):
    def handle(self, payload: str, step: Step) -> Outcome:
        return Done()


class TakesAnything(Stage[dict[str, Any]], name="anything", then="elsewhere"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Elsewhere(Stage[dict[str, Any]], name="elsewhere"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


STAGES = (Begin, TakesBoth, TakesLoose, TakesExtra, TakesAdmitting, TakesLess, TakesText, TakesAnything, Elsewhere)


class Carts(Flow, name="carts", object_id="cart_id", answers="answers", max_hops=5, trust_senders=True):
    stages = STAGES


class InFifo(Flow, name="in-fifo", object_id="cart_id", inbox="carts.fifo", trust_senders=True):
    stages = STAGES


class Answered(Flow, name="answered", object_id="cart_id", inbox="carts.fifo", answers="answers", trust_senders=True):
    stages = STAGES


class Searched(Stage[Cart], name="searched"):
    def handle(self, payload: Cart, step: Step) -> Outcome:
        return Done()


class SealedSearch(Flow, name="sealed-search", object_id="cart_id", trust_senders=True, codec=Compressed()):
    stages = (Searched,)


class Search(Flow, name="search", object_id="cart_id", inbox="searches", trust_senders=True):
    stages = (Searched,)


MESSAGE = Message(
    flow="carts",
    stage="begin",
    version=1,
    object_id=ObjectId("c-1"),
    request_id=RequestId("r-1"),
    requested_at=MOMENT - 5,
    body='{"cart_id":"c-1"}',
    hop=2,
    reply_to="sqs:replies",
    answer_to='{"flow":"parent"}',
    carried={"tenant": Attribute.string("t1")},
)
STEP: Step[Any] = Step(MESSAGE, state=Begin.state(), clock=ManualClock(MOMENT), committed_at=MOMENT)


def planner(flow: type[Flow] = Carts, **changes: Any) -> WaitPlanner:
    return WaitPlanner(flow, MESSAGE._replace(flow=flow.name, **changes), MOMENT, KEEP)


def planned(outcome: WaitFor, first: int = 0, flow: type[Flow] = Carts) -> tuple[list[Send], NewWait]:
    return planner(flow).planned(outcome, first)


def waits(stage: str = "both", awaited: dict[str, Any] | None = None, **about: Any) -> WaitFor:
    asked: dict[str, Any] = {"search": STEP.ask("searches", {"q": 1}), "filter": STEP.event("filtered/1")}
    options = {"within": HOUR, "quorum": None, **about}
    return WaitFor(stage, asked if awaited is None else awaited, **options)


def place(send: Send) -> dict[str, Any]:
    return dict(json.loads(send.attributes[PLACE].value))


# -- what is planned ---------------------------------------------------------------------------------------------------


def address(name: str, *, admits: bool = False) -> AnswerAddress:
    return AnswerAddress("carts", ObjectId("c-1"), RequestId("r-1"), MESSAGE.requested_at, 2, name, admits)


def test_a_wait_has_a_deadline_an_ask_for_each_question_and_a_row_for_each_answer_from_outside() -> None:
    awaited = {"search": STEP.ask("searches", {"q": 1}), "filter": STEP.event("f-1", keep_early=True)}
    child = STEP.ask(Search, Cart(cart_id="c-2"))
    (deadline, ask, _), wait = planned(waits("anything", {**awaited, "child": child}), 3)
    assert (deadline.kind, deadline.to, deadline.delay) == (Kind.DEADLINE, Queue("answers"), 0)
    assert place(deadline) == {"deadline": address("deadline").as_json()}
    assert json.loads(deadline.body) == {"deadline": MOMENT + 3_600_000}
    assert (ask.kind, ask.to, ask.body, ask.id) == (Kind.ASK, Queue("searches"), '{"q":1}', f"{MESSAGE.hop_id}.4")
    assert ask.attributes == {
        REQUEST_ID: Attribute.string(f"search#{MESSAGE.hop_id}"),
        REQUESTED_AT: Attribute.number(MOMENT),
        PLACE: Attribute.string('{"depth":1}'),
        "tenant": Attribute.string("t1"),
    }
    expires_at = MOMENT + 3_600_000 + KEEP
    assert wait.rows == (
        AwaitingRow(f"search#{MESSAGE.hop_id}", address("search", admits=True), "anything", expires_at),
        AwaitingRow("f-1", address("filter", admits=True), "anything", expires_at),
    )
    assert (wait.spare, wait.deadline) == (0, MOMENT + 3_600_000)
    assert wait.plan == WaitPlan(
        "anything",
        {"search": f"search#{MESSAGE.hop_id}", "filter": "f-1", "child": None},
        asked=frozenset({"child"}),
        early=frozenset({"filter"}),
        reply_to="sqs:replies",
        answer_to='{"flow":"parent"}',
        carried={"tenant": Attribute.string("t1")},
        looks=True,
    )


def test_another_flow_is_asked_with_the_address_of_the_answer() -> None:
    sends, wait = planned(waits("loose", {"filter": STEP.ask(Search, Cart(cart_id="c-2"))}), 1)
    request = sends[1]
    read = Place.parse(request.attributes[PLACE].value)
    assert (request.kind, request.to, request.id) == (Kind.ASK, Queue("searches"), f"{MESSAGE.hop_id}.2")
    assert request.group == "c-2"
    assert read.object_id == "c-2"
    assert read.reply_to == "sqs:answers"
    assert json.loads(read.answer_to or "") == address("filter", admits=True).as_json()
    assert request.attributes["tenant"] == Attribute.string("t1")
    assert wait.rows == ()


def test_what_is_cancelled_with_the_run_is_named_as_it_was_asked() -> None:
    first = STEP.ask(Search, Cart(cart_id="c-2"), cancel_too=True)
    second = STEP.ask(Search, Cart(cart_id="c-3"))
    _, wait = planned(waits("anything", {"first": first, "second": second}), 1)
    assert wait.plan.children == {
        "first": Child("sqs:searches", "search", "searched", Search.version, "c-2", f"{MESSAGE.hop_id}.2", MOMENT)
    }


def test_an_address_says_whether_its_field_takes_a_failure() -> None:
    sends, wait = planned(waits("loose"))
    assert [(row.address.name, row.address.admits) for row in wait.rows] == [("search", False), ("filter", True)]
    assert "admits" not in place(sends[0])["deadline"]
    assert wait.plan.early == frozenset()


def test_a_token_is_found_by_its_row() -> None:
    token = AwaitedToken("text", "row-1")
    sends, wait = planned(waits("anything", {"approval": token}))
    assert [row.id for row in wait.rows] == [token_awaited_id("row-1")]
    assert wait.plan.names == {"approval": token_awaited_id("row-1")}
    assert (len(sends), wait.plan.asked, wait.plan.early) == (1, frozenset(), frozenset())


def test_an_asks_own_attributes_and_group_go_along() -> None:
    ask = STEP.ask("searches.fifo", "text", attributes={"kind": "x", "tenant": "t2"}, group="g")
    sent = planned(waits("loose", {"search": ask}))[0][1]
    assert (sent.group, sent.attributes["kind"].value, sent.attributes["tenant"].value) == ("g", "x", "t2")


@pytest.mark.parametrize(("quorum", "spare"), [(None, 0), (1, 1), (2, 0)])
def test_what_may_stay_without_an_answer(quorum: int | None, spare: int) -> None:
    assert planned(waits("loose", quorum=quorum))[1].spare == spare


def test_other_stages_take_the_other_ends() -> None:
    plan = planned(waits(on_timeout="anything", on_error="admitting"))[1].plan
    assert (plan.stage, plan.on_timeout, plan.on_error) == ("both", "anything", "admitting")


@pytest.mark.parametrize(
    ("left", "delay"), [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (899_001, 900), (900_001, 900), (0, 0), (-5_000, 0)]
)
def test_a_deadline_comes_when_it_is_over_and_not_before_or_after_a_quarter_of_an_hour(left: int, delay: int) -> None:
    sent = deadline_message(Carts, address("x"), MOMENT + left, MOMENT, MESSAGE)
    assert sent.delay == delay
    assert sent.attributes[REQUEST_ID].value == f"{MESSAGE.hop_id}.deadline"
    assert sent.attributes[REQUESTED_AT].value == str(MOMENT)
    assert place(sent) == {"deadline": address("deadline").as_json()}


def test_a_deadline_of_a_flow_with_long_delays_comes_once() -> None:
    class Patient(Flow, name="patient", object_id="cart_id", answers="answers", long_delays=True, trust_senders=True):
        stages = Carts.stages

    assert deadline_message(Patient, address("x"), MOMENT + 86_400_000, MOMENT, MESSAGE).delay == 86_400


@pytest.mark.parametrize("flow", [Search, Carts])
def test_asks_that_would_take_an_object_from_each_other_are_refused(flow: type[Flow]) -> None:
    twice = {name: STEP.ask(flow, Cart(cart_id="c-1"), object_id=None) for name in ("a", "b")}
    whose = "this very run" if flow is Carts else "another ask of it"
    problem = f"an ask of {flow.name} for 'c-1' would take the object from {whose}. Nothing was written"
    with pytest.raises(RunFailed, match=f"{problem}$"):
        planned(waits("anything", twice))


def test_a_flow_in_fifo_queues_waits_through_a_queue_for_answers() -> None:
    sends, _ = planned(waits(), flow=Answered)
    assert sends[0].to == Queue("answers")


def test_what_is_signed_can_be_checked_by_whoever_gets_it() -> None:
    signer = KeySigner(Keyring(lambda: Keys.parse("k1:" + "s" * 32), ManualClock(MOMENT)))
    awaited = {"search": STEP.ask(Search, Cart(cart_id="c-2"))}
    sends, _ = WaitPlanner(Carts, MESSAGE, MOMENT, KEEP, signer).planned(waits("loose", awaited), 0)
    for found in (place(sends[0])["deadline"], place(sends[1])["answer_to"]):
        read = AnswerAddress.parse(found)
        assert signer.problem(read.statement, read.signature) is None
    assert "sig" in place(sends[1])


# -- what is refused ---------------------------------------------------------------------------------------------------

MANY = {f"n{number}": AwaitedEvent(f"e{number}") for number in range(MOST_AWAITED + 1)}
ASK = Ask(Queue("q"), "{}")

REFUSED: dict[str, tuple[WaitFor, str]] = {
    "no deadline": (waits(within=None), r"it has no deadline; say within=timedelta\(…\)"),
    "no span": (waits(within=60), "within is 60"),
    "a short span": (waits(within=timedelta(milliseconds=999)), "within is .*; it is 1 second to 365 days"),
    "a long span": (waits(within=timedelta(days=365, microseconds=1)), "it is 1 second to 365 days"),
    "a negative span": (waits(within=timedelta(seconds=-1)), "it is 1 second to 365 days"),
    "nothing, and any of it": (
        waits("anything", {}, quorum=1),
        r"it names nothing to wait for; say name=step.ask\(…\)\.",
    ),
    "nothing": (waits("anything", {}), r"it names nothing to wait for; say name=step.ask\(…\)"),
    "too much": (waits("anything", MANY), "it waits for 101 things of at most 100"),
    "no quorum": (waits("loose", quorum=0), "quorum is 0 of 2"),
    "a large quorum": (waits("loose", quorum=3), "quorum is 3 of 2"),
    "half a quorum": (waits("loose", quorum=1.0), "quorum is 1.0 of 2"),
    "true as a quorum": (waits("loose", quorum=True), "quorum is True of 2"),
    "an unknown stage": (waits("nowhere"), "'nowhere' is no stage of carts"),
    "an unknown stage for a timeout": (waits(on_timeout="nowhere"), "on_timeout='nowhere' is no stage of carts"),
    "an unknown stage for errors": (waits(on_error="nowhere"), "on_error='nowhere' is no stage of carts"),
    "a stage that was not named": (waits("elsewhere"), "'elsewhere' is not in then= of 'begin'"),
    "one for a timeout": (waits(on_timeout="elsewhere"), "on_timeout='elsewhere' is not in then= of 'begin'"),
    "one for errors": (waits(on_error="elsewhere"), "on_error='elsewhere' is not in then= of 'begin'"),
    "a name without a field": (
        waits(awaited={"search": ASK, "filter": ASK, "more": ASK}),
        "Both of 'both' has no field more",
    ),
    "a field without an answer": (
        waits("extra"),
        "the field 'more' of Extra is not awaited, and has no default",
    ),
    "a field that may stay empty": (
        waits(quorum=1),
        "the field 'search' of Both needs a default, since it may stay without an answer",
    ),
    "a field that may be late": (
        waits("loose", on_timeout="both"),
        r"the field 'search' of Both needs a default or <class 'int'> \| Failed, since it may have no answer",
    ),
    "text": (waits("text"), "'text' takes text; give it a model or dict, whose fields are the answers"),
    "text for a timeout": (waits(on_timeout="text"), "'text' takes text"),
    "our own name": (waits("anything", {"deadline": ASK}), "'deadline' is a name that flowguard uses itself"),
    "that of a reset": (waits("anything", {"reset": ASK}), "'reset' is a name that flowguard uses itself"),
    "no name": (waits("anything", {"a-b": ASK}), "'a-b' is no name of up to 64 letters, digits and '_'"),
    "an empty name": (waits("anything", {"": ASK}), "'' is no name"),
    "a strange name": (waits("anything", {"é": ASK}), "is no name"),
    "a long name": (waits("anything", {"x" * 65: ASK}), "is no name"),
    "something else": (
        waits("anything", {"a": "searches"}),
        r"'a' is str; write a=step.ask\(…\), step.token\(…\) or step.event\(…\)",
    ),
    "an empty id": (waits("anything", {"a": AwaitedEvent("")}), "the id of a is no text"),
    "no id": (waits("anything", {"a": AwaitedEvent(7)}), "the id of a is no text"),  # type: ignore[arg-type]  # what is refused
    "a long id": (waits("anything", {"a": AwaitedEvent("x" * 1_025)}), "the id of a has 1,025 bytes of at most 1,024"),
    "a strange id": (waits("anything", {"a": AwaitedEvent("\ud800")}), "the id of a has the character U.D800"),
    "a control": (waits("anything", {"a": AwaitedEvent("\x00")}), "the id of a has the character U.0000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wait_that_cannot_work_is_refused_by_name(case: str) -> None:
    outcome, problem = REFUSED[case]
    with pytest.raises(RunFailed, match=f"^'begin' cannot wait: .*{problem}.*Nothing was written$"):
        planned(outcome)


ALLOWED: dict[str, WaitFor] = {
    "a second": waits(within=timedelta(seconds=1)),
    "a year": waits(within=timedelta(days=365)),
    "as many as can be": waits("anything", dict(list(MANY.items())[:MOST_AWAITED])),
    "a long name": waits("anything", {"x" * 64: ASK}),
    "a long id": waits("anything", {"a": AwaitedEvent("x" * 1_024)}),
    "a quorum of all": waits(quorum=2),
    "defaults": waits("loose", on_timeout="loose"),
    "less in another stage": waits("loose", {"search": ASK, "filter": ASK}, on_timeout="anything"),
    "failures in another stage": waits(on_timeout="admitting", on_error="admitting"),
    "failures in another stage, and a quorum": waits("loose", quorum=1, on_timeout="admitting"),
    "fewer fields in another stage": waits(on_timeout="less"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_just_possible_is_planned(case: str) -> None:
    assert planned(ALLOWED[case])[1].plan.stage == ALLOWED[case].stage


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(RunFailed) as refused:
        planned(waits("nowhere", {"a-b": 1}, within=None, quorum=0))
    assert str(refused.value).count(";") >= 4


def test_a_flow_without_a_codec_asks_none_that_seals_its_answer() -> None:
    asked = STEP.ask(SealedSearch, Cart(cart_id="c-2"))
    with pytest.raises(RunFailed, match="sealed-search has a codec, which seals its answer, and carts has none"):
        planned(waits("loose", {"filter": asked}))


def test_a_flow_whose_queue_cannot_delay_says_what_to_do() -> None:
    with pytest.raises(RunFailed, match=r"answers and deadlines cannot come through .*; give in-fifo answers='a-stand"):
        planned(waits(), flow=InFifo)


def test_a_flow_at_its_last_hop_cannot_wait() -> None:
    with pytest.raises(RunFailed, match="carts has made 5 hops, its max_hops; does it run in circles"):
        planner(hop=5).planned(waits(), 0)
    assert planner(hop=4).planned(waits(), 0)


def test_what_is_asked_has_to_fit_where_it_goes() -> None:
    for payload in ("", "\x00"):
        with pytest.raises(RunFailed, match="a message to sqs:searches"):
            planned(waits("loose", {"search": STEP.ask("searches", payload)}))
    with pytest.raises(TooLarge, match="a message to sqs:searches"):
        planned(waits("loose", {"search": STEP.ask("searches", "x" * 2_000_000)}))


def test_a_deadline_comes_at_once_only_where_it_has_something_to_prove() -> None:
    """Nothing stands before it, or the answers of other flows prove that it was sent."""
    from_outside = {"filter": STEP.event("f-1")}
    from_flows = {"child": STEP.ask(Search, Cart(cart_id="c-2"))}
    for awaited, first, delay in ((from_outside, 0, 900), (from_outside, 1, 0), (from_flows, 1, 900)):
        (deadline, *_), _ = planned(waits("anything", awaited), first)
        assert deadline.delay == delay

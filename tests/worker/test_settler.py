"""What an answer or a deadline leads to: the verdict, the message with which the run goes on, and what is reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.errors import OtherRelease, Reject
from flowguard.events import Event, EventType
from flowguard.flow import Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import Status
from flowguard.protocol.run_orders import ArrivedAnswer, ArrivedDeadline, read_order
from flowguard.protocol.waiting import GivenAnswer
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import PLACE
from flowguard.wire.resumed_body import ResumedBody
from flowguard.worker.denials import _Denied
from flowguard.worker.settler import Settler, message_at
from tests.waits import (
    DEADLINE,
    SCRIPT,
    START,
    WITHIN,
    AnyOf,
    Carts,
    Late,
    Progress,
    Some,
    WaitScene,
    answered,
    asks,
    deadline,
    record,
    wait_scene,
)

SEVEN = GivenAnswer("7")
RESUMED = ResumedBody("answered", DEADLINE).to_text()


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


def for_any(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(**asks(step), within=WITHIN, on_timeout="late")


def for_all(step: Step[Progress]) -> Outcome:
    return AnyOf.when(quorum=3, **asks(step), within=WITHIN)


def for_both_early(step: Step[Progress]) -> Outcome:
    events: dict[str, Any] = {name: step.event(name, keep_early=True) for name in "ab"}
    return AnyOf.when(quorum=2, **events, within=WITHIN)


def for_early(step: Step[Progress]) -> Outcome:
    events: dict[str, Any] = {name: step.event(name, keep_early=True) for name in "ab"}
    return AnyOf.when_any(**events, within=WITHIN)


def envelope(given: dict[str, Any]) -> Envelope:
    return normalize_record(given)


def answer(at: WaitScene, name: str = "a", **about: Any) -> Envelope:
    return envelope(answered(at.address(name, **about), {"status": "COMPLETED", "result": 7}))


def settled(at: WaitScene, name: str = "a", **about: Any) -> Any:
    arrived = ArrivedAnswer(at.address(name, **about), SEVEN)
    return Settler(at.services).ending(answer(at, name, **about), Carts, arrived)


def last(at: WaitScene, type_: EventType = EventType.ANSWERED) -> Event:
    return [event for event in at.tally.events if event.type is type_][-1]


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [None, "{}", '{"object":"answer"}', '"answer"', '{"hop":1} "deadline"'])
def test_what_brings_no_answer_is_a_stages_message(place: str | None) -> None:
    attributes = {} if place is None else {PLACE: Attribute.string(place)}
    assert read_order(envelope(record(attributes, "{}", "carts"))) is None


def test_a_deadline_is_known_by_its_own_name_only(at: WaitScene) -> None:
    """An address that was signed for an answer is no deadline."""
    found = read_order(envelope(deadline(at.address("a"))))
    assert isinstance(found, ArrivedDeadline)
    assert found.address.name == "deadline"


# -- answers -----------------------------------------------------------------------------------------------------------


def test_each_ending_says_its_verdict_and_whether_the_record_may_go(at: WaitScene) -> None:
    assert settled(at)[1:3] == (True, AnswerVerdict.EXPIRED), "there is no run"
    at.begin(for_all)
    early = settled(at, hop=2)
    assert early[1:3] == (False, AnswerVerdict.EARLY)
    assert early.why == "the hop that waits for it is not committed yet"
    assert early.backs_off, "it comes again after a growing pause"
    assert settled(at)[1:3] == (True, AnswerVerdict.RECORDED)
    settled(at, "b")
    resumed = settled(at, "c")
    assert resumed[1:3] == (True, AnswerVerdict.RESUMED)
    [send] = resumed.sends
    assert (send.kind, send.body, send.group) == (Kind.NEXT, RESUMED, "c1")
    assert resumed.arrival.message.hop == 2


def test_the_run_goes_on_with_what_its_item_says_of_it(at: WaitScene) -> None:
    at.begin(for_any)
    message = settled(at).arrival.message
    assert (message.stage, message.version, message.requested_at) == ("some", 1, START)
    assert (message.request_id, message.object_id, message.resumed) == ("run-1", "c1", True)


class Older(Flow, name="carts", object_id="cart_id", answers="answers", trust_senders=True):
    """A release that does not have the stage at which a run goes on."""

    stages = (Late,)


def without_network(call: ApiCall, proceed: Proceed) -> Response:
    if call.service == "sqs":
        raise EndpointConnectionError(endpoint_url="https://sqs")
    return proceed()


def settled_by_older(at: WaitScene, receives: int, **changed: Any) -> Any:
    found = answered(at.address("a"), {"status": "COMPLETED", "result": 7})
    found["attributes"]["ApproximateReceiveCount"] = str(receives)
    arrived = ArrivedAnswer(at.address("a"), SEVEN)
    return Settler(at.services).ending(envelope({**found, **changed}), Older, arrived)


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_run_that_goes_on_at_a_stage_of_another_release_does_so_after_a_redrive(at: WaitScene) -> None:
    """A deployment has its minutes. What no queue brings again has a copy in one."""
    at.begin(for_any)
    for receives, changed in ((1, {}), (2, {}), (3, {"eventSourceARN": None})):
        with pytest.raises(OtherRelease, match="carts has no stage 'some'"):
            settled_by_older(at, receives, **changed)
    assert at.told(EventType.PARKED) == 0
    denied = at.services.denials._denied
    denied["sqs:carts-dead-letters"] = denied["sqs:carts"] = _Denied(0, 0)
    assert settled_by_older(at, 3)[1:2] == (True,)
    assert list(denied) == ["sqs:carts"], "what is taken is denied no more"
    [letter] = at.waiting("carts-dead-letters")
    said = json.loads(letter["messageAttributes"][PLACE]["stringValue"])
    assert letter["body"] == RESUMED
    assert (said["hop"], said["redrive"], said["resumed"], said["to"]) == (2, 1, True, str(Older.inbox))
    assert said["error"][0] == "OtherRelease"
    parked = last(at, EventType.PARKED).facts
    assert (parked["kind"], parked["why"]) == ("next", "carts has no stage 'some'; it has late")
    assert settled(at).sends[0].kind is Kind.NEXT, "code that has the stage needs no letter"


@pytest.mark.usefixtures("denied_for_minutes")
def test_where_the_dead_letters_refuse_its_message_the_answer_stays_and_nothing_is_parked(at: WaitScene) -> None:
    at.begin(for_any)
    with intercept(without_network), pytest.raises(OtherRelease):
        settled_by_older(at, 3)
    assert (at.told(EventType.NOT_SENT), at.told(EventType.PARKED)) == (1, 0)


@pytest.mark.usefixtures("denied_for_minutes")
def test_of_an_answer_whose_next_message_cannot_be_parked_now_the_record_itself_is_not_parked(at: WaitScene) -> None:
    at.begin(for_any)
    found = answered(at.address("a"), {"status": "COMPLETED", "result": 7})
    found["attributes"]["ApproximateReceiveCount"] = "3"
    at.function = lambda_handler(Older).using(at.services)
    tries: list[ApiCall] = []

    def once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and not tries:
            tries.append(call)
            return without_network(call, proceed)
        return proceed()

    with intercept(once):
        assert not at.deliver(found)
    assert at.waiting("carts-dead-letters") == []
    assert at.deliver(found)
    [letter] = at.waiting("carts-dead-letters")
    assert letter["body"] == RESUMED


def test_an_answer_is_reported_with_the_hop_and_stage_that_wait(at: WaitScene) -> None:
    at.begin(for_all)
    settled(at)
    message = last(at).message
    assert message is not None
    assert (message.hop, message.stage, message.version, message.requested_at) == (1, "begin", 1, START)
    settled(at, hop=2)
    assert last(at).message == message._replace(hop=2, stage=""), "the item knows no other stage than its own"


def test_an_answer_for_a_hop_that_waits_no_more_is_reported_with_its_stage(at: WaitScene) -> None:
    at.begin(for_all)
    item = at.item()._replace(wait=None)
    assert message_at(at.address("a"), item).stage == "begin"


@pytest.mark.parametrize("has_item", [False, True])
def test_of_a_run_that_is_not_there_only_the_address_is_reported(has_item: bool, at: WaitScene) -> None:
    if has_item:
        at.begin(for_all, request_id=RequestId("run-2"))
    settled(at)
    message = last(at).message
    assert message is not None
    assert (message.request_id, message.hop) == ("run-1", 1)
    assert (message.stage, message.version, message.requested_at) == ("", 1, START)


@pytest.mark.parametrize("is_over", [False, True])
def test_an_old_runs_answer_sends_nothing_whatever_the_new_run_waits_for(is_over: bool, at: WaitScene) -> None:
    at.begin(for_any, request_id=RequestId("run-2"))
    if is_over:
        settled(at, request="run-2")
    ending = settled(at)
    assert ending[1:3] == (True, AnswerVerdict.SUPERSEDED)
    assert ending.sends == ()


# -- deadlines ---------------------------------------------------------------------------------------------------------


def timed_out(at: WaitScene, moment: int = DEADLINE, **about: Any) -> Any:
    address = at.address("deadline", **about)
    return Settler(at.services).ending(envelope(deadline(address)), Carts, ArrivedDeadline(address, moment, START))


def test_a_deadline_has_no_verdict_and_goes_on_at_its_stage(at: WaitScene) -> None:
    at.begin(for_any)
    at.move_to(DEADLINE)
    ending = timed_out(at)
    assert (ending.ack, ending.verdict, ending.arrival.message.stage) == (True, None, "late")
    message = last(at, EventType.TIMED_OUT).message
    assert message is not None
    assert (message.hop, message.stage) == (1, "begin")


def test_a_deadline_in_its_time_is_one_call_and_so_is_each_copy_of_it(at: WaitScene) -> None:
    at.begin(for_any)
    for _ in range(2):
        assert at.time_out()
        assert at.calls == ["UpdateItem"]
    assert len(at.waiting("carts")) == 2
    assert at.told(EventType.TIMED_OUT) == 1


def test_a_deadline_finds_no_run_or_one_that_waits_for_nothing(at: WaitScene) -> None:
    at.move_to(DEADLINE)
    assert timed_out(at)[1:3] == (True, None)
    at.begin(lambda step: AnyOf.message(Some()))
    ending = timed_out(at)
    assert (ending.ack, ending.sends) == (True, ())


@pytest.mark.parametrize("about", [{"request": "run-0"}, {"hop": 2}])
def test_a_deadline_of_another_hop_or_run_is_not_sent_again(about: dict[str, Any], at: WaitScene) -> None:
    at.begin(for_any)
    at.move_to(DEADLINE)
    ending = timed_out(at, **about)
    assert (ending.ack, ending.sends) == (True, ())
    assert at.wait.end is None


def test_a_deadline_that_its_item_puts_off_is_sent_again_for_its_own_hop(at: WaitScene) -> None:
    at.begin(for_any)
    at.move_to(START + 60_000)
    [send] = timed_out(at, START).sends
    assert (send.kind, send.body) == (Kind.DEADLINE, json.dumps({"deadline": DEADLINE}))
    assert send.id.endswith(".1.deadline")


# -- what came before --------------------------------------------------------------------------------------------------


def test_a_wait_that_is_over_is_not_looked_for_again(at: WaitScene) -> None:
    at.waits.keep_early("carts", "b", SEVEN, now=START, expires_at=START + 60_000)
    at.begin(for_early)
    assert at.wait.answered == {"b"}
    assert at.begin()
    assert at.calls == ["UpdateItem"], "the claim alone: the wait is over"
    assert len(at.waiting("carts")) == 1, "the worker before may have died before it could send the look's message"


@pytest.mark.parametrize(("waits", "looks", "found"), [(for_early, 1, {"a"}), (for_both_early, 2, {"a", "b"})])
def test_what_was_kept_is_looked_for_until_the_wait_is_over(
    waits: Callable[[Step[Progress]], Outcome], looks: int, found: set[str], at: WaitScene
) -> None:
    for name in "ab":
        at.waits.keep_early("carts", name, SEVEN, now=START, expires_at=START + 60_000)
    at.begin(waits)
    assert at.calls.count("TransactWriteItems") == looks
    assert at.calls.count("GetItem") == 2 * looks, "the answer, and the item as it has left it"
    assert at.wait.answered == found
    at.deliver(*at.waiting("answers"))
    assert at.resume() == 1


def test_an_answer_says_its_name_its_verdict_and_whether_it_came_before_its_wait(at: WaitScene) -> None:
    at.begin(for_any)
    settled(at)
    assert last(at).facts == {"name": "a", "verdict": "RESUMED", "failed": False}


@pytest.mark.parametrize(("mails", "held"), [(True, {"is_held": True}), (False, {})])
def test_one_that_was_kept_says_so_and_whether_its_run_waits_for_a_look(
    mails: bool, held: dict[str, Any], at: WaitScene
) -> None:
    SCRIPT.mails = mails
    at.waits.keep_early("carts", "b", SEVEN, now=START, expires_at=START + 60_000)
    at.begin(for_early)
    assert last(at).facts == {"name": "b", "verdict": "RESUMED", "failed": False, "was_early": True, **held}


@pytest.mark.parametrize(("names", "answered"), [((), {"b"}), (("b", "c"), {"b"}), (("a",), set())])
def test_an_early_answer_counts_only_under_the_names_that_its_sender_may_answer(
    at: WaitScene, names: tuple[str, ...], answered: set[str]
) -> None:
    at.waits.keep_early("carts", "b", SEVEN, now=START, expires_at=START + 60_000, names=names)
    at.begin(for_early)
    assert at.wait.answered == answered


def test_an_early_answer_that_is_replaced_while_it_is_looked_at_is_not_settled(at: WaitScene) -> None:
    """The newer one is settled by who has kept it: its wait has begun meanwhile."""
    until = START + 60_000
    at.waits.keep_early("carts", "b", SEVEN, now=START, expires_at=until, by="m-1", at=1)

    def replaced(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            at.waits.keep_early("carts", "b", GivenAnswer("8"), now=START, expires_at=until, by="m-2", at=2)
        return proceed()

    with intercept(replaced):
        at.begin(for_early)
    assert (at.told(EventType.ANSWERED), at.wait.answered) == (0, frozenset())


def test_a_run_that_failed_after_its_wait_does_not_go_on_when_its_message_comes_again(at: WaitScene) -> None:
    at.begin(for_any)
    settled_by = settled(at)
    [send] = settled_by.sends
    again = record(send.attributes, send.body, "carts")

    def fails(step: Step[Progress]) -> None:
        raise Reject("never")

    SCRIPT.resumed = fails
    at.deliver(again)
    assert at.item().status is Status.FAILED
    assert at.item().wait is not None
    assert at.deliver(again)
    assert at.waiting("carts") == []

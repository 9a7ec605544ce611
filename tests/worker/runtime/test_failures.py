"""A stage that fails: again later, or never, with a dead letter and word to whoever waits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.errors import Reject, Retry
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import Owner
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Status
from flowguard.retry import RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.testing import hostile
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.tokens import Tokens
from tests.scene import START, OrderState, Scene, Script, record, two_stages
from tests.worker.runtime.mishaps import boom, reject_once
from tests.worker.runtime.test_fifo import deliver_fifo, fifo_record


def test_a_failed_attempt_is_sent_again_as_the_same_request_later(at: Scene) -> None:
    at.script.pricing = boom
    delays: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            delays.extend(entry["DelaySeconds"] for entry in call.params["Entries"])
            for entry in call.params["Entries"]:
                entry["DelaySeconds"] = 0
        return proceed()

    with intercept(watch):
        assert at.deliver(at.message()) == [True]
    [again] = at.sent("price-order")
    attributes = {name: value["StringValue"] for name, value in again["MessageAttributes"].items()}
    place = json.loads(attributes["flowguard"])
    assert (delays, attributes["uniquerequestid"], place["retry"], place["hop"]) == ([20], "run-1", 1, 1)
    assert place["error"] == ["RuntimeError", "gateway down", START]
    assert json.loads(again["Body"])["Message"] == '{"order_id":"o1"}'
    assert at.calls == ["UpdateItem"], "no release is written"


def test_a_stage_may_ask_for_its_own_delay(at: Scene) -> None:
    def later(step: Step[OrderState]) -> None:
        raise Retry("not yet", after=timedelta(minutes=2))

    at.script.pricing = later
    at.deliver(at.message())
    [retried] = [h for h in at.tally.events if h.type is EventType.RETRIED]
    assert retried.facts == {"error": "Retry", "delay": 120}


def test_a_retry_is_claimed_at_once_although_the_failed_attempts_lease_is_alive(at: Scene) -> None:
    at.script.pricing = boom
    at.deliver(at.message())
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1


@pytest.mark.parametrize("case", ["rejected", "attempts used up", "unstorable", "invalid payload"])
def test_what_can_never_work_ends_the_run_with_a_dead_letter_in_the_same_commit(at: Scene, case: str) -> None:
    def reject(step: Step[OrderState]) -> None:
        raise Reject("no such product")

    def unstorable(step: Step[OrderState]) -> None:
        step.put("carts", {"cart_id": "c1", "at": datetime(2026, 1, 1, tzinfo=UTC)})

    message, script = {
        "rejected": (at.message(), reject),
        "unstorable": (at.message(), unstorable),
        "attempts used up": (at.message(retry=2), boom),
        "invalid payload": (at.message(body='{"order":"o1"}'), None),
    }[case]
    at.script.pricing = script or at.script.pricing
    assert at.deliver(message) == [True]
    assert at.calls == ["UpdateItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert (item.status, at.priced()) == (Status.FAILED, 0)
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], place.get("retry", 0)) == (1, 0)
    [complete] = at.sent("completed")
    assert json.loads(complete["Body"])["status"] == "FAILED"


def test_a_dead_letter_says_how_it_began_why_it_ended_and_after_how_many_attempts(at: Scene) -> None:
    def declined(step: Step[OrderState]) -> None:
        raise Reject("card declined")

    at.script.pricing = declined
    at.deliver(at.message(retry=1, first_error=ErrorNote("GatewayDown", "refused", START - 9)))
    place = json.loads(at.sent("dead")[0]["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["error"], place["attempts"]) == (["GatewayDown", "refused", START - 9], 2)
    assert place["last_error"] == ["Reject", "card declined", START]
    assert json.loads(at.sent("completed")[0]["Body"])["error"] == "Reject: card declined"
    item = at.item()
    assert item is not None
    assert item.error == "Reject: card declined"


def test_what_a_hop_sends_after_a_redrive_is_no_copy_of_what_it_sent_when_it_failed(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    failed = at.sent("completed")
    at.deliver(at.message(redrive=1))
    sent = [*at.sent("emails"), *failed]
    ids = {m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in sent}
    assert ids == {f"{at.message(redrive=redrive).hop_id}.0" for redrive in (0, 1)}


def test_a_dead_letter_sent_back_as_it_is_opens_the_failed_run_again(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    [letter] = at.sent("dead")
    at.sent("completed")
    at.handler({"Messages": [{**letter, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order"}]})
    item = at.item()
    assert item is not None
    assert (item.status, item.redrive, item.done, at.priced()) == (Status.RUNNING, 1, True, 1)
    assert at.sent("dead") == [], "the letter itself proves that it was sent"


def test_a_dead_letter_of_a_run_that_was_superseded_since_changes_nothing(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    at.deliver(at.newer())
    at.sent("dead")
    assert at.deliver(at.message(redrive=1)) == [True]
    assert (at.told(EventType.STALE), at.priced()) == (1, 1)


def test_a_caller_condition_that_fails_is_tried_again_and_nothing_is_applied(at: Scene) -> None:
    at.script.pricing = lambda step: step.put("orders", {"id": "o2"}, condition="attribute_exists(id)")
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.RETRIED), at.priced()) == (1, 0)


def test_a_reply_that_no_service_takes_cannot_keep_its_run_from_ending(at: Scene) -> None:
    """A topic takes a quarter of a megabyte, and the attributes that the flow carries go along."""
    at.handler = lambda_handler(carrying(at.script)).using(at.handler._services)
    at.script.pricing = lambda step: reject_once(at)
    carried = {"tenant": Attribute.string("t" * 300_000)}
    reply_to = "sns:arn:aws:sns:us-east-1:123456789012:replies"
    assert at.deliver(at.message(reply_to=reply_to, carried=carried)) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert item.error is not None
    assert item.error.startswith(f"Reject: out of stock (and nobody is notified: a message to {reply_to} is too large")
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert "and nobody is notified" in place["error"][1]
    assert [json.loads(one["Body"])["status"] for one in at.sent("completed")] == ["FAILED"]


def test_a_run_whose_item_has_no_room_for_its_replies_ends_all_the_same(at: Scene) -> None:
    at.handler = lambda_handler(carrying(at.script)).using(at.handler._services)
    carried = {"tenant": Attribute.string(hostile.noise(200_000))}
    note = hostile.noise(350_000)

    def fill(step: Step[OrderState]) -> None:
        raise Reject("no")

    store = aws_store(Settings(), Clients())
    first = store.claim(claim_of(at.message()))
    assert isinstance(first, Claim)
    kept = Commit(Status.RUNNING, START, START + 1, None, json.dumps({"total": 1, "note": note}))
    assert store.commit(first, kept) == Committed()
    at.script.closing = fill
    assert at.deliver(at.second(carried=carried)) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, item.error) == (Status.FAILED, "Reject: no")
    assert len(at.sent("dead")) == 1
    assert [json.loads(one["Body"])["status"] for one in at.sent("completed")] == ["FAILED"]


def carrying(script: Script) -> AnyFlow:
    class Carrying(
        Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead", carry=("tenant",)
    ):
        stages = two_stages(script)

    return Carrying


def claim_of(message: Message) -> ClaimRequest:
    return ClaimRequest(message, Owner("o"), START, START + 1, OnConflict.SUPERSEDE, 0, START + 10**9)


def test_a_message_that_no_run_item_can_hold_goes_to_the_dead_letters(at: Scene) -> None:
    """Its request is named by the record's own id. Only who invokes the function itself can write so long a one."""
    named = record(at.message()) | {"messageId": "m" * 2_000}
    del named["messageAttributes"]["uniquerequestid"]
    with intercept(Recorder()) as calls:
        assert at.handler({"Records": [named]}) == {"batchItemFailures": []}
    assert (at.item(), calls.count("dynamodb")) == (None, 0)
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert place["error"][:2] == [
        "RunFailed",
        "the message can have no run: its request id has 2,000 bytes of at most 1,024",
    ]


def test_an_error_that_quotes_the_link_of_a_question_is_noted_without_its_token(at: Scene) -> None:
    """Who sees it in a log, on a page or in a dead letter could answer in place of its holder."""
    token = Tokens(Keyring(lambda: Keys.parse(f"k1:{'s' * 40}"), at.clock)).make("orders", "0" * 32, START * 2)

    def pricing(step: Step[OrderState]) -> None:
        raise ValueError(f"the mail with https://shop.example/{token} was refused")

    at.script.pricing = pricing
    for retry in range(5):
        at.deliver(at.message(retry=retry))
    told = [str(event.facts) for event in at.tally.events]
    shown = [*told, str(at.item()), json.dumps(at.sent("dead")), json.dumps(at.sent("completed"))]
    assert "https://shop.example/<token> was refused" in "".join(shown)
    assert [text for text in shown if token in text] == []


class Unanswering:
    """A backoff that answers when its stage is defined, and never again."""

    def seconds(self, retry: int) -> float:
        raise LookupError("the table of delays is gone")


@pytest.mark.parametrize("is_fifo", [False, True])
def test_a_backoff_that_raises_is_waited_for_as_long_as_any_may_be_and_its_attempt_counts(
    at: Scene, monkeypatch: pytest.MonkeyPatch, is_fifo: bool
) -> None:
    policy = RetryPolicy(attempts=2, backoff=Unanswering(), jitter=0, max_delay=timedelta(seconds=70))
    monkeypatch.setattr(at.flow.stage("price-order"), "retry", policy)
    at.script.pricing = boom
    if is_fifo:
        assert deliver_fifo(at, fifo_record(at.message(), 0, "red")) == ([0], [70])
    else:
        assert at.deliver(at.message()) == [True]
    (retried,) = [event for event in at.tally.events if event.type is EventType.RETRIED]
    assert retried.facts["delay"] == 70
    assert str(retried.facts["why"]).endswith("raises LookupError for retry 1")
    if not is_fifo:
        assert at.deliver(at.message(retry=1)) == [True]
        assert at.told(EventType.FAILED) == 1

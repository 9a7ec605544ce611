"""``flowguard cancel`` and ``flowguard retry``: what an operator does with one run, and what was not done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.destinations import Topic
from flowguard.errors import Reject
from flowguard.flow import Flow
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from tests.cli.test_hostile_text import CONTROL, HOSTILE, OBJECT
from tests.cli.test_show import undoing
from tests.scene import OrderState, Scene, Script, scene, two_stages
from tests.waits import All, Progress, WaitScene, asks, wait_scene

ORDERS = "tests.scene:Orders"
FENCED = (
    "if a worker had it, that is fenced; its next message ends it; 'flowguard dlq list dead --request-id run-1' shows "
    "that if it is parked, and its redrive ends the run"
)


class TopicLetters(
    Flow, name="orders", object_id="order_id", dead_letters=Topic("arn:aws:sns:us-east-1:123456789012:dead")
):
    stages = two_stages(Script())


def run(at: Scene | WaitScene, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, obj=CommandTime(at.clock))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def cancel(at: Scene | WaitScene, *options: str, flow: str = ORDERS, object_id: str = "o1", code: int = 0) -> Result:
    return run(at, "cancel", flow, object_id, "--why", "the customer called", *options, code=code)


def retry(at: Scene, *options: str, flow: str = ORDERS, object_id: str = "o1", code: int = 0) -> Result:
    return run(at, "retry", flow, object_id, "--wait", "0", *options, code=code)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


def break_down(step: Step[OrderState]) -> None:
    raise RuntimeError("no tariff")


# -- cancel -----------------------------------------------------------------------------------------------------------


def test_a_run_between_two_hops_is_cancelled_and_its_next_message_ends_it(at: Scene) -> None:
    at.deliver(at.message())
    assert cancel(at).stdout == f"CANCELLED  orders of o1: {FENCED}\n"
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert (item.status, item.error) == (Status.FAILED, "Cancelled: the customer called")


def test_a_cancellation_as_json(at: Scene) -> None:
    at.deliver(at.message())
    assert json.loads(cancel(at, "--json").stdout) == {
        "flow": "orders",
        "object_id": "o1",
        "request_id": "run-1",
        "cancelled": True,
        "now": FENCED,
        "problem": None,
    }


def for_a_day(step: Step[Progress]) -> Outcome:
    return All.when_all(**asks(step), within=timedelta(days=1))


def test_a_run_that_waits_is_ended_at_once() -> None:
    with wait_scene() as at:
        at.begin(for_a_day)
        result = cancel(at, flow="tests.waits:Carts", object_id="c1")
        assert result.stdout == "CANCELLED  carts of c1: it waits no more, and the message that ends it was sent\n"
        for command in ("show", "waits"):
            said = run(at, command, "tests.waits:Carts", "c1").stdout
            assert "over (cancelled); its next message ends the run" in said
        assert at.resume() == 1
        assert at.item().status is Status.FAILED


def test_a_run_whose_end_comes_before_it_is_looked_at_has_ended() -> None:
    with wait_scene() as at:
        at.begin(for_a_day)

        def ended_at_once(call: ApiCall, proceed: Proceed) -> Response:
            answer = proceed()
            if call.operation == "SendMessageBatch" and at.item().status is Status.WAITING:
                at.resume()
            return answer

        with intercept(ended_at_once):
            result = cancel(at, flow="tests.waits:Carts", object_id="c1")
        assert at.item().status is Status.FAILED
        assert result.stdout == "CANCELLED  carts of c1: it has ended\n"


def test_without_keys_a_run_that_waits_is_not_cancelled_where_its_flow_asks_for_signatures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with wait_scene() as at:
        at.begin(for_a_day)
        result = cancel(at, flow="tests.waits:SignedCarts", object_id="c1", code=2)
        assert "FLOWGUARD_SIGNING_KEYS: is not set, and carts believes the message that ends a run" in result.stderr
        assert (at.item().status, at.item().cancelled_because) == (Status.WAITING, None)
        monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", "k1:a-secret-of-the-tests-that-is-long-enough")
        assert "it waits no more" in cancel(at, flow="tests.waits:SignedCarts", object_id="c1").stdout


def test_where_the_message_of_a_wait_is_not_sent_it_says_that_the_deadline_ends_it() -> None:
    with wait_scene() as at:
        at.begin(for_a_day)
        sqs = at.aws.client("sqs")
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="carts")["QueueUrl"])
        result = cancel(at, flow="tests.waits:Carts", object_id="c1", code=1)
        assert "the message that ends it was not sent, so its deadline ends it" in result.stderr
        assert at.item().cancelled_because == "the customer called"
        assert "was sent" not in result.stdout


def test_where_there_is_nothing_to_cancel_it_says_why(at: Scene) -> None:
    told = cancel(at, code=1).stderr
    assert "there is no run; is it the right table" in told
    assert "refused, such as for its payload, has none, and is a dead letter ('flowguard dlq list dead')" in told
    at.deliver(at.message())
    at.deliver(at.second())
    result = cancel(at, code=1)
    assert (result.stdout, result.stderr) == ("", "orders of o1: nothing was cancelled: the run is COMPLETED\n")
    assert json.loads(cancel(at, "--json", code=1).stdout)["cancelled"] is False
    at.deliver(at.order("later", requested_at=at.clock.now() + 60_000))
    assert "request run-1 was made after this command began" in cancel(at, object_id="later", code=1).stderr


def test_a_run_that_is_taken_back_is_not_cancelled() -> None:
    with scene(undoing) as at:
        at.script.pricing = decline
        at.deliver(at.message())
        assert "the run has failed, and is being taken back" in cancel(at, code=1).stderr


def test_a_run_that_moves_on_with_each_try_is_not_cancelled(at: Scene) -> None:
    def moving(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}}, call.operation)
        return proceed()

    at.deliver(at.message())
    with intercept(moving):
        assert "was not cancelled: it moved on" in cancel(at, code=1).stderr


# -- retry ------------------------------------------------------------------------------------------------------------


def failed(at: Scene, *objects: str) -> None:
    at.script.pricing = decline
    at.deliver(*(at.order(name) for name in objects))
    at.script.pricing = lambda step: None


def test_the_letter_of_one_run_goes_back_and_all_others_stay(at: Scene) -> None:
    failed(at, "o0", "o1", "o2")
    result = retry(at)
    assert result.stderr == ""
    [line] = result.stdout.splitlines()
    assert line.startswith("REDRIVEN    ")
    assert line.endswith("  orders/price-order o1: the run failed at hop 1 and waits there → price-order")
    [message] = at.sent("price-order")
    assert json.loads(message["Body"])["Message"] == '{"order_id":"o1"}'
    assert len(at.sent("dead")) == 2


def test_the_queue_is_read_no_further_than_needed(at: Scene) -> None:
    failed(at, "o1")
    with intercept(Recorder()) as calls:
        retry(at)
    assert [call.operation for call in calls.calls].count("ReceiveMessage") == 1


def test_a_retry_as_json(at: Scene) -> None:
    failed(at, "o1")
    row = json.loads(retry(at, "--json").stdout)
    assert (row["verdict"], row["object_id"], row["deleted"], row["failed"]) == ("REDRIVEN", "o1", True, None)


def test_a_letter_of_an_earlier_request_stays(at: Scene) -> None:
    failed(at, "o1")
    at.script.pricing = break_down
    at.deliver(at.newer())
    result = retry(at, code=1)
    assert result.stderr == "orders of o1: nothing was sent back: queue dead shows no letter of request run-2\n"
    assert len(at.sent("dead")) == 2, "the newer run has sent it once more"


@pytest.mark.usefixtures("denied_for_minutes")
def test_messages_that_the_run_could_not_send_are_named_and_stay(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="emails")["QueueUrl"])
    at.receives = 3
    at.deliver(at.message())
    at.script.closing = decline
    at.deliver(at.second())
    result = retry(at)
    assert "orders of o1: 1 of its messages lie there unsent; see 'flowguard dlq list dead'" in result.stderr
    assert len(at.sent("dead")) == 1


def test_a_letter_that_is_refused_is_still_there(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(at, "o1")
    monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", "k1:" + "x" * 32)
    result = retry(at, code=1)
    assert "it carries no signature" in result.stderr
    assert "nothing was sent back; its letters are still in the queue" in result.stderr
    assert len(at.sent("dead")) == 1


def test_a_run_that_no_letter_moves_on_is_left_alone_and_the_queue_unread(at: Scene) -> None:
    def unread(call: ApiCall, proceed: Proceed) -> Response:
        assert call.service != "sqs"
        return proceed()

    with intercept(unread):
        told = retry(at, object_id="nobody", code=1).stderr
        assert "there is no run; is it" in told
        assert "is a dead letter ('flowguard dlq list dead')" in told
    at.deliver(at.message())
    cancel(at)
    assert "shows no letter of request run-1" in retry(at, code=1).stderr, "one may lie there until the run has ended"
    at.deliver(at.second())
    with intercept(unread):
        assert "it was cancelled, which leaves no dead letter" in retry(at, code=1).stderr
    at.deliver(*(at.order("o2")._replace(**changes) for changes in ({}, second_hop(at))))
    with intercept(unread):
        assert retry(at, object_id="o2", code=1).stderr == "orders of o2: nothing was sent back: the run is COMPLETED\n"


def second_hop(at: Scene) -> dict[str, Any]:
    second = at.second()
    return {"stage": second.stage, "hop": second.hop, "body": second.body}


def test_a_run_that_is_taken_back_is_left_alone() -> None:
    with scene(undoing) as at:
        failed(at, "o1")
        assert "taken back by the on_failed stage" in retry(at, code=1).stderr


def test_the_queue_is_the_flows_or_the_one_that_is_named(at: Scene) -> None:
    failed(at, "o1")
    here = f"{__name__}:TopicLetters"
    assert "which is no queue; give --queue" in retry(at, flow=here, code=2).stderr
    assert "queue 'nowhere': does not exist" in retry(at, "--queue", "nowhere", code=2).stderr
    assert "shows no letter of request run-1" in retry(at, "--queue", "emails", code=1).stderr
    assert "REDRIVEN" in retry(at, "--queue", "dead", flow=here).stdout


# -- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("cancel", "--why", "x"), ("retry", "--wait", "0")])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", "o1"), "orders: write MODULE:FLOW"),
        (("nowhere:Orders", "o1"), "there is no module 'nowhere'"),
        ((ORDERS, ""), "OBJECT: it is empty"),
        ((ORDERS, HOSTILE), "OBJECT: it has the character"),
        ((ORDERS, "o1", "--table", "not-there"), "table not-there: does not exist"),
    ],
)
def test_what_cannot_be_run_is_named(
    at: Scene, command: tuple[str, ...], arguments: tuple[str, ...], said: str
) -> None:
    name, *options = command
    result = run(at, name, *arguments, *options, code=2)
    assert result.stdout == ""
    assert said in result.stderr


def test_a_reason_is_needed_and_a_hostile_one_is_escaped(at: Scene) -> None:
    at.deliver(at.order(OBJECT)._replace(body=json.dumps({"order_id": OBJECT})))
    assert "--why" in run(at, "cancel", ORDERS, OBJECT, code=2).stderr
    assert "Nothing was cancelled" in run(at, "cancel", ORDERS, OBJECT, "--why", " ", code=2).stderr
    run(at, "cancel", ORDERS, OBJECT, "--why", HOSTILE.replace("\ud800", ""))
    run(at, "show", ORDERS, OBJECT)
    run(at, "retry", ORDERS, OBJECT, "--wait", "0", code=1)

"""A run that waits for a group: asked in turns, answered in any order, and read when it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import SecretStr

from flowguard.aws.services import aws_services
from flowguard.callback import Callback
from flowguard.events import EventType
from flowguard.failed import Failed
from flowguard.flow import Flow
from flowguard.group import GroupAnswer
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.groups import MOST_IN_SHARD, SHARDS_A_TURN
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE
from flowguard.worker.callbacks import Callbacks
from tests.aws.engines import same_clients
from tests.waits import (
    DEADLINE,
    SCRIPT,
    STAGES,
    START,
    WITHIN,
    Cart,
    Late,
    Progress,
    Search,
    SignedCarts,
    WaitScene,
    answered,
    placed,
    wait_scene,
)

KEYS = "k1:" + "s" * 40
END = {"status": "COMPLETED", "result": 5}


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


def group_of(*names: str, **options: Any) -> Callable[[Step[Progress]], Outcome]:
    def waits(step: Step[Progress]) -> Outcome:
        requests = ((name, Cart(cart_id=name)) for name in names)
        return Late.when_group(step.group(Search, requests), within=WITHIN, on_timeout="sorry", **options)

    return waits


def of_parties(step: Step[Progress]) -> Outcome:
    return Late.when_group(step.group("asked", [("a", {"x": 1}), ("b", {"x": 2})]), within=WITHIN)


def read_into(found: list[GroupAnswer[int]]) -> None:
    """Let the resumed stage read the group's answers."""
    SCRIPT.resumed = lambda step: found.extend(step.answers(int))


def address(number: int = 0, shard: int = 0, **about: Any) -> AnswerAddress:
    name = f"group.{shard}.{number}"
    known = AnswerAddress("carts", ObjectId("c1"), RequestId("run-1"), START, 1, name, admits=True)
    return known._replace(**about)


def ask(at: WaitScene) -> list[dict[str, Any]]:
    """Deliver the group's messages until there are no more. What is asked then."""
    while own := [one for one in at.waiting("answers") if "group" in place(one)]:
        assert at.deliver(*own)
    return at.waiting("searches")


def place(one: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(one["messageAttributes"][PLACE]["stringValue"]))


# -- the way of a group ------------------------------------------------------------------------------------------------


def test_a_group_is_asked_answered_and_read_in_order(at: WaitScene) -> None:
    found: list[GroupAnswer[int]] = []
    read_into(found)
    assert at.begin(group_of("abc", "bad", "de"), carried={})
    assert at.calls == ["UpdateItem", "BatchWriteItem", "UpdateItem"]
    assert at.item().status is Status.WAITING
    asked = ask(at)
    assert sorted(json.loads(one["body"])["cart_id"] for one in asked) == ["abc", "bad", "de"]
    for one in reversed(asked):
        assert at.deliver(one)
    assert all(at.deliver(one) for one in at.waiting("answers"))
    assert at.verdicts() == ["RECORDED", "RECORDED", "RESUMED"]
    assert at.resume() == 1
    assert SCRIPT.got == [("late", {"requests": 3, "timed_out": False})]
    assert found == [(0, "abc", 3), (1, "bad", Failed(type="Reject", text="no such shop")), (2, "de", 2)]
    assert at.item().status is Status.COMPLETED


def test_an_answer_of_another_type_is_a_failure_that_says_so(at: WaitScene) -> None:
    found: list[GroupAnswer[int]] = []
    read_into(found)
    at.begin(group_of("a"))
    assert at.deliver(answered(address(), {"status": "COMPLETED", "result": {"secret": "x"}}))
    assert at.resume() == 1
    assert found == [(0, "a", Failed(type="Unreadable", text="Input should be a valid integer"))]


def test_parties_outside_answer_under_the_id_of_their_message() -> None:
    class Outside(
        Flow,
        name="carts",
        object_id="cart_id",
        answers="answers",
        callbacks=(Callback("answered", answer="said"),),
        trust_senders=True,
    ):
        stages = STAGES

    with wait_scene(Outside) as at:
        found: list[GroupAnswer[int]] = []
        read_into(found)
        assert at.begin(of_parties)
        assert at.calls == ["UpdateItem", "BatchWriteItem", "BatchWriteItem", "UpdateItem"]
        ask(at)
        asked = at.waiting("asked")
        ids = [one["messageAttributes"]["uniquerequestid"]["stringValue"] for one in asked]
        assert [json.loads(one["body"]) for one in asked] == [{"x": 1}, {"x": 2}]
        callbacks = Callbacks((Outside,), at.services)
        for number, own in enumerate(ids):
            attributes = {"uniquerequestid": {"dataType": "String", "stringValue": own}}
            answer = {**placed({}, json.dumps({"said": number})), "messageAttributes": attributes}
            answer["eventSourceARN"] = answer["eventSourceARN"].rpartition(":")[0] + ":answered"
            [envelope] = normalize({"Records": [answer]})
            assert isinstance(envelope, Envelope)
            assert callbacks.take(envelope).ack
        assert at.verdicts() == ["RECORDED", "RESUMED"]
        assert at.resume() == 1
        assert found == [(0, "a", 0), (1, "b", 1)]


def test_a_stage_that_goes_on_after_no_group_has_no_answers(at: WaitScene) -> None:
    failed: list[Exception] = []

    def reads(step: Step[Progress]) -> Outcome:
        try:
            step.answers(int)
        except Exception as error:
            failed.append(error)
            raise
        raise AssertionError

    at.begin(reads)
    [error] = failed
    assert str(error) == "'begin' did not go on after a group; when_group leads to its stage"
    assert at.item().status is Status.FAILED


def test_answers_that_have_expired_fail_the_run_by_name(at: WaitScene) -> None:
    read_into([])
    at.begin(group_of("a", "b"))
    assert at.deliver(answered(address(0), END), answered(address(1), END))
    dynamodb = at.aws.client("dynamodb")
    rows: Any = [item for item in dynamodb.scan(TableName="flowguard")["Items"] if item["sk"]["S"] == "row#1"]
    dynamodb.delete_item(TableName="flowguard", Key={name: rows[0][name] for name in ("pk", "sk")})
    at.resume()
    [why] = at.letters()
    assert why[1] == "of 2 answers 1 have expired"


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_at_the_deadline_those_without_an_answer_have_timed_out(at: WaitScene) -> None:
    found: list[GroupAnswer[int]] = []
    read_into(found)
    at.begin(group_of("a", "b"))
    assert at.deliver(answered(address(1), END))
    assert at.time_out(DEADLINE)
    assert at.deliver(answered(address(0), END))
    assert at.resume() == 1, "the late answer sends nothing"
    assert SCRIPT.got == [("sorry", {"requests": 2, "timed_out": True})]
    assert found == [(0, "a", Failed(type="TimedOut", text="no answer came in time")), (1, "b", 5)]
    assert at.deliver(answered(address(0), END), answered(address(1), END))
    assert at.verdicts() == ["RECORDED", "EXPIRED", "EXPIRED", "DUPLICATE"]


def test_a_quorum_is_enough(at: WaitScene) -> None:
    at.begin(group_of("a", "b", "c", quorum=0.5))
    assert at.deliver(answered(address(2), END))
    assert at.resume() == 0
    assert at.deliver(answered(address(0), END))
    assert at.resume() == 1
    assert at.deliver(answered(address(1), END))
    assert at.verdicts() == ["RECORDED", "RESUMED", "DUPLICATE"]


def test_a_repeated_attempt_of_the_resumed_stage_reads_the_same(at: WaitScene) -> None:
    found: list[list[GroupAnswer[int]]] = []

    def reads(step: Step[Progress]) -> None:
        found.append(list(step.answers(int)))
        if len(found) == 1:
            at.deliver(answered(address(1), END))
            raise ConnectionError

    SCRIPT.resumed = reads
    at.begin(group_of("a", "b", quorum=0.5))
    at.deliver(answered(address(0), END))
    at.resume()
    assert len(found) == 2
    assert found[0] == found[1]
    assert at.verdicts() == ["RESUMED", "DUPLICATE"]


def test_a_superseded_group_is_not_asked_and_its_answers_are_told_so(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    own = [one for one in at.waiting("answers") if "group" in place(one)]
    assert at.begin(group_of("c"), request_id="run-2", requested_at=START + 1)
    with intercept(Recorder()) as calls:
        assert at.deliver(*own)
    assert [call.operation for call in calls.calls] == ["GetItem"]
    assert at.waiting("searches") == []
    assert at.deliver(answered(address(), END))
    assert at.verdicts() == ["SUPERSEDED"]


def test_a_cancelled_run_ends_and_its_group_is_asked_no_further(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    cancelled = at.services.store.cancellations.cancel("carts", ObjectId("c1"), START + 1, "why", START + 1)
    assert cancelled is not None
    assert ask(at) == []
    at.clock.advance(seconds=901)  # who has cancelled it has not sent what ends it
    assert at.deliver(answered(address(), END))
    assert at.verdicts() == ["EXPIRED"]
    at.resume()
    assert at.item().status is Status.FAILED


# -- a group of several turns ------------------------------------------------------------------------------------------

IN_A_TURN = MOST_IN_SHARD * SHARDS_A_TURN


def test_a_turn_asks_some_shards_and_the_next_goes_on_from_there(at: WaitScene) -> None:
    at.begin(group_of(*(f"s{number}" for number in range(IN_A_TURN + 1))))
    [first] = [one for one in at.waiting("answers") if "group" in place(one)]
    with intercept(Recorder()) as calls:
        assert at.deliver(first)
    assert [call.operation for call in calls.calls].count("Query") == SHARDS_A_TURN
    assert len(at.waiting("searches")) == IN_A_TURN
    [second] = at.waiting("answers")
    assert place(second)["group"]["name"] == f"group.{SHARDS_A_TURN}.0"
    assert at.deliver(first)  # a copy of a message that has done its work, under its own id
    assert at.waiting("searches") == []
    [again] = at.waiting("answers")
    assert place(again) == place(second)  # its worker may have died before it sent this
    assert at.deliver(second)
    assert len(at.waiting("searches")) == 1
    assert at.waiting("answers") == []
    for copy in (first, again):
        assert at.deliver({**copy, "messageId": "another"})
    assert at.waiting("searches") == at.waiting("answers") == []


def test_a_group_whose_requests_are_not_taken_now_is_asked_again(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    [own] = [one for one in at.waiting("answers") if "group" in place(one)]

    def throttles(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slowly"}}, call.operation)
        return proceed()

    with intercept(throttles):
        assert not at.deliver(own)
    assert at.told(EventType.BROKEN) == 1
    assert at.wait.asked == 0
    assert at.deliver(own)
    assert len(at.waiting("searches")) == 2


def refuses_the_next(call: ApiCall, proceed: Proceed) -> Response:
    """Take no message that asks a group's next shards."""
    if call.operation == "SendMessageBatch" and '"group":{' in str(call.params):
        raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slowly"}}, call.operation)
    return proceed()


def test_a_letter_of_a_groups_message_that_is_sent_back_asks_the_next_shards(at: WaitScene) -> None:
    at.begin(group_of(*(f"s{number}" for number in range(IN_A_TURN + 1))))
    [first] = [one for one in at.waiting("answers") if "group" in place(one)]
    with intercept(refuses_the_next):
        assert not at.deliver(first), "its place is noted, and the next message is not sent"
    assert at.wait.asked == SHARDS_A_TURN
    assert (len(at.waiting("searches")), at.waiting("answers")) == (IN_A_TURN, [])
    assert not at.function({"Records": [{**first, "messageId": "of the letter"}]})["batchItemFailures"]
    assert len(ask(at)) == 1


def test_a_group_is_answered_while_it_is_asked(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    [own] = [one for one in at.waiting("answers") if "group" in place(one)]
    assert at.deliver(answered(address(0), END), answered(address(1), END))
    assert at.resume() == 1
    assert at.deliver(own)
    assert at.waiting("searches") == []
    assert SCRIPT.got == [("late", {"requests": 2, "timed_out": False})]


def test_side_messages_are_not_sent_again_after_a_group_that_was_answered(at: WaitScene) -> None:
    at.begin(group_of("a"))
    assert len(at.waiting("mails")) == 1
    assert at.deliver(answered(address(0), END))
    assert at.resume() == 1
    assert at.waiting("mails") == []


def test_side_messages_are_not_sent_again_after_a_group_that_timed_out(at: WaitScene) -> None:
    """The deadline's message goes out after them."""
    at.begin(group_of("a"))
    assert len(at.waiting("mails")) == 1
    at.time_out()
    assert at.resume() == 1
    assert at.waiting("mails") == []


def test_a_run_without_time_to_save_its_group_fails_and_nothing_is_asked(at: WaitScene) -> None:
    def slow(step: Step[Progress]) -> Outcome:
        def requests() -> Iterator[tuple[str, Cart]]:
            for number in range(2 * MOST_IN_SHARD):
                at.clock.advance(seconds=1)
                yield f"s{number}", Cart(cart_id=f"s{number}")

        return Late.when_group(step.group(Search, requests()), within=WITHIN)

    at.begin(slow)
    at.resume()
    assert at.item().status is Status.FAILED
    assert "no time was left to save a request after 0 that were saved" in at.letters()[0][1]
    assert ask(at) == []


@pytest.mark.parametrize(("after", "status"), [(27_999, Status.WAITING), (28_000, Status.RUNNING)])
def test_two_seconds_are_kept_for_the_commit(at: WaitScene, after: int, status: Status) -> None:
    def slow(step: Step[Progress]) -> Outcome:
        def requests() -> Iterator[tuple[str, Cart]]:
            at.clock.advance(ms=after)
            yield "a", Cart(cart_id="a")

        return Late.when_group(step.group(Search, requests()), within=WITHIN)

    at.begin(slow)
    assert at.item().status is status


# -- trust -------------------------------------------------------------------------------------------------------------


def test_where_messages_are_signed_a_forged_message_asks_nothing() -> None:
    with wait_scene(SignedCarts, settings=Settings(signing_keys=SecretStr(KEYS))) as at:
        at.begin(group_of("ab", "c"))
        [own] = [one for one in at.waiting("answers") if "group" in place(one)]
        given = AnswerAddress.parse(place(own)["group"])
        for forged in (given._replace(signature=None), given._replace(name="group.1.0"), given._replace(hop=2)):
            assert not at.deliver(placed({"group": forged.as_json()}, "{}"))
        assert at.told(EventType.UNTRUSTED) == 3
        assert at.waiting("searches") == []
        assert at.deliver(own)
        assert all(at.deliver(one) for one in at.waiting("searches"))
        assert all(at.deliver(one) for one in at.waiting("answers"))
        assert at.resume() == 1
        assert at.verdicts() == ["RECORDED", "RESUMED"]


def test_a_later_turn_is_signed_too() -> None:
    with wait_scene(SignedCarts, settings=Settings(signing_keys=SecretStr(KEYS))) as at:
        at.begin(group_of(*(f"s{number}" for number in range(IN_A_TURN + 1))))
        assert len(ask(at)) == IN_A_TURN + 1


@pytest.mark.parametrize("name", ["a", "group.0.99", "group", "group.10000.0"])
def test_a_message_of_a_group_that_names_no_request_is_unreadable(at: WaitScene, name: str) -> None:
    assert not at.deliver(placed({"group": address(name=name).as_json()}, "{}"))
    assert at.told(EventType.UNREADABLE) == 1


@pytest.mark.parametrize("said", [None, "x", [], {"flow": "carts"}])
def test_a_message_of_a_group_without_an_address_is_unreadable(at: WaitScene, said: Any) -> None:
    assert not at.deliver(placed({"group": said}, "{}"))
    assert at.told(EventType.UNREADABLE) == 1


@pytest.mark.parametrize(
    "about", [{"object_id": "nobody"}, {"hop": 2}, {"request_id": "x"}, {"requested_at": 5}], ids=str
)
def test_a_message_of_a_group_for_another_run_asks_nothing(at: WaitScene, about: dict[str, Any]) -> None:
    at.begin(group_of("a"))
    at.waiting("answers")
    assert at.deliver(placed({"group": address(**about).as_json()}, "{}"))
    assert at.waiting("searches") == []


def test_a_function_of_callbacks_that_reads_the_answers_asks_the_group_too(at: WaitScene) -> None:
    at.begin(group_of("a", "b"))
    [own] = [one for one in at.waiting("answers") if "group" in place(one)]
    [envelope] = normalize({"Records": [{**own, "messageId": "m"}]})
    assert isinstance(envelope, Envelope)
    services = aws_services(Settings(), same_clients(), clock=at.clock, observer=at.tally)
    assert Callbacks((at.flow,), services).take(envelope).ack
    assert len(at.waiting("searches")) == 2


def test_a_groups_message_for_a_wait_by_names_asks_nothing(at: WaitScene) -> None:
    at.begin()
    at.waiting("answers")
    assert at.deliver(placed({"group": address().as_json()}, "{}"))
    assert at.waiting("searches") == at.waiting("answers") == []


def test_a_groups_message_asks_nothing_of_a_run_that_does_not_wait(at: WaitScene) -> None:
    at.begin(group_of("a"))
    [own] = [one for one in at.waiting("answers") if "group" in place(one)]
    at.aws.client("dynamodb").update_item(
        TableName="flowguard",
        Key=at.key,
        UpdateExpression="SET #status = :running",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":running": {"S": "RUNNING"}},
    )
    assert at.deliver(own)
    assert at.waiting("searches") == []

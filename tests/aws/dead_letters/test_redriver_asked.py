"""Dead letters of what a flow has asked another for: they go back while their end is awaited."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.items import run_key
from flowguard.aws.redriver import Outcome as Redriven
from flowguard.aws.redriver import Redriver
from flowguard.aws.run_reader import RunReader
from flowguard.aws.signing_keys import aws_signer
from flowguard.clock import SystemClock
from flowguard.errors import Reject
from flowguard.failed import Failed
from flowguard.flow import ATTACH, Flow
from flowguard.names.ids import ObjectId
from flowguard.operate.own_letters import letter_refusal
from flowguard.outcome import Done, Outcome
from flowguard.payload.encoding import encode
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Fate, Judgement, asker_of
from tests.aws.dead_letters.letters import sent_again


def as_written(kind: type[Any], value: BaseModel, *, what: str) -> str:
    """Write a request as a release that can read it, of which this one knows nothing."""
    return encode(value)


FULL, UNREAD = [True], [False]
"""Whether the plane has no seat, and whether this release cannot read a request for seats."""


class Trip(BaseModel):
    trip: str


class SeatRequest(BaseModel):
    trip: str

    @field_validator("trip")
    @classmethod
    def is_known(cls, trip: str) -> str:
        if UNREAD[0]:
            raise ValueError("this release knows no trips")
        return trip


class Reserve(Stage[SeatRequest], name="reserve"):
    def handle(self, trip: SeatRequest, step: Step) -> Outcome:
        if FULL[0]:
            raise Reject("no seat is free")
        step.put("seats", {"id": trip.trip})
        return Done("12A")


class Seats(Flow, name="seats", object_id="trip"):
    stages = (Reserve,)


class Book(Stage[Trip], name="book", then="confirm"):
    def handle(self, trip: Trip, step: Step) -> Outcome:
        return Confirm.when_all(
            seat=step.ask(Seats, SeatRequest.model_construct(trip=trip.trip)), within=timedelta(hours=1)
        )


class Seated(BaseModel):
    seat: str | Failed


class Confirm(Stage[Seated], name="confirm"):
    def handle(self, seated: Seated, step: Step) -> Outcome:
        return Done()


class Trips(Flow, name="trips", object_id="trip"):
    stages = (Book, Confirm)


@pytest.fixture(autouse=True)
def of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.flow.written", as_written)


@pytest.fixture
def runner() -> Iterator[FlowRunner]:
    FULL[0], UNREAD[0] = True, False
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("seats", "id")
        runner.serve(Seats)
        runner.send(Trips, Trip(trip="t1"))
        yield runner


def redriven(*, anyway: bool = False, dropping: bool = False) -> tuple[Letter, Redriven]:
    clients = Clients()
    with Reading(clients, DeadLetterQueue.find(clients, "seats-dead-letters"), wait=0) as reading:
        signer = aws_signer(Settings.model_validate(SIMULATED_SECRETS), clients, SystemClock())
        redriver = Redriver(
            clients, "flowguard", reading, to="seats", signer=signer, unawaited=anyway, drop_obsolete=dropping
        )
        letter, *_ = [letter for page in reading.pages() for letter in page]
        [outcome] = redriver.redrive([letter])
    return letter, outcome


def refusal(letter: Letter) -> str | None:
    """What the inspector says beside it."""
    runs, asker = RunReader.of(Settings(), Clients()), asker_of(letter)
    assert asker is not None
    return letter_refusal(letter, runs.read("seats", "t1"), 0, runs.read(asker.flow, asker.object_id))


def test_what_nobody_awaits_any_more_is_not_sent_back_unasked(runner: FlowRunner) -> None:
    assert runner.run().run("t1", "trips").status == "COMPLETED", "without a seat"
    FULL[0] = False
    letter, outcome = redriven()
    assert outcome.judgement is not None
    assert (outcome.judgement.fate, outcome.to, outcome.deleted) == (Fate.NOT_AWAITED, None, False)
    assert outcome.judgement.why == (
        "'trips' of 't1' has asked for it, and has gone on without its answer; what it does would be for nobody; "
        "'flowguard dlq redrive' with its id or with --unawaited sends it all the same"
    )
    assert "has gone on without its answer; 'flowguard dlq redrive' with its id" in str(refusal(letter))
    assert runner.run().table("seats") == ()
    _, named = redriven(anyway=True)
    assert named.judgement is not None
    assert (named.judgement.fate, named.deleted) == (Fate.REDRIVEN, True)
    assert "has gone on without its answer" in named.judgement.why
    assert [item["id"] for item in runner.run().table("seats")] == ["t1"]


def test_what_is_not_sent_for_another_reason_keeps_that_where_nobody_awaits_it(
    runner: FlowRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else --unawaited would seem to send it."""
    assert runner.run().run("t1", "trips").status == "COMPLETED", "without a seat"
    too_deep = Judgement(Fate.TOO_DEEP, "it is too deep")
    monkeypatch.setattr("flowguard.worker.redrive._without_reading", lambda letter, message: too_deep)
    _, outcome = redriven(anyway=True)
    assert outcome.judgement == too_deep


def test_what_is_awaited_goes_back_and_its_answer_is_taken(runner: FlowRunner) -> None:
    FULL[0], UNREAD[0] = False, True
    assert runner.run(within=timedelta(minutes=30)).run("t1", "trips").status == "WAITING"
    UNREAD[0] = False
    letter, outcome = redriven()
    assert (outcome.judgement and outcome.judgement.fate, outcome.deleted) == (Fate.REDRIVEN, True)
    assert refusal(letter) is None
    assert runner.run().run("t1", "trips").status == "COMPLETED"
    assert [item["id"] for item in runner.run().table("seats")] == ["t1"]


class BookShared(Stage[Trip], name="book", then="confirm"):
    def handle(self, trip: Trip, step: Step) -> Outcome:
        seat = step.ask(Shared, SeatRequest.model_construct(trip="t1"))
        return Confirm.when_all(seat=seat, within=timedelta(hours=len(trip.trip)))


class Shared(Flow, name="seats", object_id="trip", on_conflict=ATTACH):
    """One run answers all who ask for it while it goes on."""

    stages = (Reserve,)


class SharedTrips(Flow, name="trips", object_id="trip"):
    stages = (BookShared, Confirm)


def test_a_run_for_which_another_caller_waits_is_awaited() -> None:
    FULL[0], UNREAD[0] = False, True
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("seats", "id")
        runner.serve(Shared)
        for trip in ("t", "t-with-hours-to-wait"):
            runner.send(SharedTrips, Trip(trip=trip))
            runner.run(within=timedelta(minutes=40))
        assert [end.status for end in runner.run(within=timedelta(minutes=1)).runs() if end.flow == "trips"] == [
            "COMPLETED",
            "WAITING",
        ]
        UNREAD[0] = False
        letter, outcome = redriven()
        assert (outcome.judgement and outcome.judgement.fate) is Fate.REDRIVEN, str(outcome)
        assert refusal(letter) is None
        assert runner.run().run("t-with-hours-to-wait", "trips").status == "COMPLETED"


def test_what_is_not_sent_back_in_any_case_says_why_and_not_who_asked(runner: FlowRunner) -> None:
    runner.run()
    FULL[0] = False
    runner.send(Trips, Trip(trip="t1"))
    runner.run()
    _, outcome = redriven()
    assert (outcome.judgement and outcome.judgement.fate) is Fate.SUPERSEDED


def test_an_asker_that_is_not_in_the_table_is_not_known_to_have_gone_on(runner: FlowRunner) -> None:
    runner.run()
    Clients().dynamodb.delete_item(TableName="flowguard", Key=run_key("trips", ObjectId("t1")))
    _, outcome = redriven()
    assert (outcome.judgement and outcome.judgement.fate) is Fate.REDRIVEN


@pytest.mark.parametrize(
    ("flow", "object_id", "is_taken"),
    [("trips", "t1", True), ("trips", "t1", False), ("seats", "t1", False)],
    ids=["its asker, and another request has its object", "its asker", "its own"],
)
def test_an_item_that_cannot_be_read_keeps_its_letter(
    runner: FlowRunner, flow: str, object_id: str, is_taken: bool
) -> None:
    """A newer release has written it, or a person."""
    runner.run()
    FULL[0] = False
    if is_taken:
        runner.send(Seats, SeatRequest(trip="t1"))
        runner.run()
    Clients().dynamodb.put_item(
        TableName="flowguard", Item={**run_key(flow, ObjectId(object_id)), "status": {"S": "SLEEPING"}}
    )
    _, outcome = redriven(dropping=True)
    assert (outcome.judgement, outcome.sent, outcome.deleted) == (None, False, False)
    assert str(outcome.failed).startswith(f"{flow} of {object_id}: its item is no run that this version can read")


class SharedSeats(Seats, name="seats", object_id="trip", on_conflict=ATTACH):
    """Its stage answers a late request with the end that is there."""


def given_up(aws: MemoryAWS, runner: FlowRunner, seats: type[Flow]) -> None:
    """SQS gives up the request that a trip has made, whose function is down; then a newer one has the object."""
    runner.send(Trips, Trip(trip="t1"))
    runner.run(within=timedelta(minutes=1))
    sqs = aws.client("sqs")
    inbox = sqs.get_queue_url(QueueName="seats")["QueueUrl"]
    [request] = sqs.receive_message(QueueUrl=inbox, MessageAttributeNames=["All"])["Messages"]
    sqs.delete_message(QueueUrl=inbox, ReceiptHandle=request["ReceiptHandle"])
    runner.serve(seats)
    runner.send(seats, SeatRequest(trip="t1"))
    runner.run(within=timedelta(minutes=1))
    sqs.send_message(QueueUrl=aws.create_queue("seats-dead-letters"), **sent_again(request))


@pytest.mark.parametrize("seats", [Seats, SharedSeats])
def test_the_one_message_that_answers_a_flow_is_sent_though_no_run_takes_it(seats: type[Flow]) -> None:
    """The letter is judged without the class of its flow."""
    FULL[0] = UNREAD[0] = False
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("seats", "id")
        given_up(aws, runner, seats)
        letter, outcome = redriven(dropping=True)
        assert (outcome.judgement and outcome.judgement.fate, outcome.to, outcome.deleted) == (
            Fate.REDRIVEN,
            "seats",
            True,
        )
        assert refusal(letter) is None
        result = runner.run(within=timedelta(minutes=5))
        assert (result.run("t1", "trips").status, len(result.table("seats"))) == ("COMPLETED", 1)


def test_what_no_run_takes_and_nobody_awaits_is_obsolete() -> None:
    FULL[0] = UNREAD[0] = False
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("seats", "id")
        given_up(aws, runner, Seats)
        assert runner.run().run("t1", "trips").status == "COMPLETED", "without a seat"
        letter, outcome = redriven(dropping=True)
        assert (outcome.judgement and outcome.judgement.fate, outcome.deleted) == (Fate.SUPERSEDED, True)
        assert "holds the object" in str(refusal(letter))

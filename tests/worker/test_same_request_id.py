"""A request id that comes again, after another request has had the object, is another run: it has its own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from flowguard.client import FlowClient
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.outcome import AwaitedToken, Outcome
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import GivenAnswer
from flowguard.settings import Settings
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.external_answer import ExternalAnswer
from tests.waits import DEADLINE, SCRIPT, START, WITHIN, All, AnyOf, Carts, Progress, WaitScene, asks, deadline
from tests.waits import wait_scene as scene

AGAIN = START + 2
"""When the request comes again."""

KEYS = Settings.model_validate({"token_keys": "k1:an-example-that-is-long-enough-to-be-a-secret"})


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with scene(settings=KEYS) as found:
        yield found


def for_any(step: Step[Progress]) -> Outcome:
    return AnyOf.when_any(**asks(step), within=WITHIN, on_timeout="late")


def begin_again(at: WaitScene) -> None:
    """Let another request have the object, and then the first one's id again."""
    at.begin(request_id=RequestId("run-2"), requested_at=START + 1)
    at.begin(requested_at=AGAIN)
    assert (at.item().request_id, at.item().requested_at, at.item().status) == ("run-1", AGAIN, Status.WAITING)


def test_a_late_answer_of_the_first_run_settles_nothing_of_the_second(at: WaitScene) -> None:
    at.begin(lambda step: All.when_all(**asks(step), within=WITHIN))
    begin_again(at)
    assert at.answer("a", 7)
    assert at.verdicts() == ["SUPERSEDED"]
    assert at.wait.answered == frozenset()
    at.answer("a", 1, at=AGAIN)
    assert at.verdicts() == ["SUPERSEDED", "RECORDED"]


def test_a_late_answer_of_the_first_run_sends_no_message_of_a_wait_that_is_over(at: WaitScene) -> None:
    at.begin(for_any)
    begin_again(at)
    at.answer("a", 1, at=AGAIN)
    at.waiting("carts")
    assert at.answer("a", 7)
    assert at.verdicts() == ["RESUMED", "SUPERSEDED"]
    assert at.waiting("carts") == []


def test_the_deadline_of_the_first_run_ends_nothing_of_the_second(at: WaitScene) -> None:
    at.begin(lambda step: All.when_all(**asks(step), within=timedelta(days=1), on_timeout="late"))
    begin_again(at)
    at.waiting("answers")
    for moment in (DEADLINE, START + 2 * 86_400_000):
        at.move_to(moment)
        assert at.deliver(deadline(at.address("deadline")))
    assert at.told(EventType.TIMED_OUT) == 0
    assert (at.wait.timed_out, at.wait.looked_at) == (False, 0)
    assert at.waiting("answers") == [], "no copy of it goes on"


def test_the_token_of_the_first_run_is_another_than_that_of_the_second(at: WaitScene) -> None:
    made: list[AwaitedToken] = []

    def with_token(step: Step[Progress]) -> Outcome:
        made.append(step.token("a"))
        return AnyOf.when_any(a=made[-1], within=WITHIN)

    at.begin(with_token)
    begin_again(at)
    client = FlowClient.of(at.services)
    assert client.answer(Carts, made[0].text, 7) is AnswerVerdict.SUPERSEDED
    assert at.wait.answered == frozenset()
    assert client.answer(Carts, made[2].text, 1) is AnswerVerdict.RESUMED


def test_both_runs_have_waited_for_an_event_and_only_the_second_gets_it(at: WaitScene) -> None:
    at.begin(lambda step: AnyOf.when_any(a=step.event("paid"), within=WITHIN))
    begin_again(at)
    found = Callbacks((Carts,), at.services).answer(ExternalAnswer(Carts, "paid", GivenAnswer("7")))
    assert found is AnswerVerdict.RESUMED
    assert sorted(at.verdicts()) == ["RESUMED", "SUPERSEDED", "SUPERSEDED"]


def test_what_carries_the_first_run_on_claims_no_hop_of_the_second(at: WaitScene) -> None:
    at.begin(for_any)
    at.answer("a", 7)
    [onward] = at.waiting("carts")
    begin_again(at)
    at.answer("b", 8, at=AGAIN)
    assert at.deliver(onward)
    assert at.calls == ["UpdateItem"], "it is not handled"
    assert SCRIPT.got == []
    assert at.resume() == 1
    assert [answers.b for _, answers in SCRIPT.got] == [8]


def test_an_attempt_of_the_first_run_takes_no_hop_from_the_second(at: WaitScene) -> None:
    """It is a later attempt than the one that works, and the lease of that is over."""
    at.begin(for_any)
    at.answer("a", 7)
    [onward] = at.waiting("carts")
    begin_again(at)
    at.answer("b", 8, at=AGAIN)

    def fail(step: Step[Progress]) -> None:
        raise OSError("for now")

    SCRIPT.resumed = fail
    assert at.resume() > 0
    assert (at.item().hop, at.item().done) == (2, True)
    place = json.loads(onward["messageAttributes"]["flowguard"]["stringValue"])
    onward["messageAttributes"]["flowguard"]["stringValue"] = json.dumps({**place, "redrive": 1})
    SCRIPT.resumed = lambda step: None
    assert at.deliver(onward)
    assert SCRIPT.got == [], "nothing of the second run's answers was handed to it"
    assert at.item().status is Status.FAILED

"""What a function's observers see: a span around each phase, and the same events as without."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.callback_function import callback_handler
from flowguard.errors import DefinitionError
from flowguard.events import Event, EventType, Tally, log
from flowguard.handler import dlq_handler, lambda_handler
from flowguard.spans import Phase, Span
from flowguard.worker.observed import invocation_span, observed
from tests.observers.watching import Broken, BrokenSpans, Watching
from tests.scene import Orders, Scene, message_id, record, scene
from tests.test_handler import Context

ONE_STAGE = [
    "<invocation",
    "<message",
    "<claim",
    "claim>",
    "claimed",
    "<handle",
    "handle>",
    "<commit",
    "commit>",
    "committed",
    "message>",
    "<dispatch",
    "dispatch>",
    "sent",
    "<dispatch",
    "dispatch>",
    "sent",
    "invocation>",
]


def run(at: Scene, *observers: Any, times: int = 1) -> Any:
    """Deliver the first message to the scene's function, watched by these beside its own observer."""
    services = at.handler._services
    handler = lambda_handler(at.flow, observers=observers).using(services)
    return [handler({"Records": [record(at.message())]}, Context()) for _ in range(times)][-1]


def test_each_phase_has_its_span_and_each_event_lies_in_its_place() -> None:
    with scene() as at:
        watching = Watching()
        assert run(at, watching) == {"batchItemFailures": []}
        assert watching.seen == ONE_STAGE
        assert at.told(EventType.COMMITTED) == 1, "the services' own observer sees them too"


def test_a_span_says_which_message_it_is_for_and_how_it_ended() -> None:
    with scene() as at:
        watching = Watching()
        run(at, watching, times=2)
        invocation, message, claim, handle, commit, side, _next, *again = watching.spans
        assert invocation.message is None
        assert invocation.served == {"orders": frozenset({"price-order", "close-order"})}
        assert invocation.fields() == {"phase": "invocation", "invocation": Context.aws_request_id}
        assert message.fields() == {
            "phase": "message",
            "request_id": "run-1",
            "flow": "orders",
            "stage": "price-order",
            "hop": 1,
            "attempt": 1,
            "redrive": 0,
            "record": message_id(0),
            "source": "sqs",
        }
        assert [one.message for one in (claim, handle, commit, side)] == [message.message] * 4
        assert (claim.facts, commit.facts) == ({"verdict": "CLAIMED"}, {"writes": 1, "verdict": "COMMITTED"})
        assert side.facts == {"sends": 1}
        assert [one.facts["verdict"] for one in again if one.phase is Phase.CLAIM] == ["DONE"]


def test_a_dispatch_of_several_messages_names_each_once_and_is_for_none_alone() -> None:
    with scene() as at:
        watching = Watching()
        handler = lambda_handler(at.flow, observers=[watching]).using(at.handler._services)
        two = at.message(), at.order("o2")
        handler({"Records": [record(one, place) for place, one in enumerate(two)]}, Context())
        side, _next = (one for one in watching.spans if one.phase is Phase.DISPATCH)
        assert [one.object_id for one in side.messages] == ["o1", "o2"]
        assert side.message is None


def test_a_retry_that_is_sent_is_a_dispatch_and_the_handlers_error_goes_through_its_span() -> None:
    with scene() as at:
        watching, error = Watching(), RuntimeError("down")

        def fail(step: Any) -> None:
            raise error

        at.script.pricing = fail
        run(at, watching)
        assert watching.errors == [error]
        assert watching.seen[5:11] == ["<handle", "handle>", "<dispatch", "dispatch>", "sent", "retried"]


def test_a_fenced_worker_sees_who_owns_the_run() -> None:
    with scene() as at:
        watching = Watching()
        at.script.pricing = lambda step: overtake(at) if step.request_id == "run-1" else None
        run(at, watching)
        assert watching.spans[4].facts == {"writes": 1, "verdict": "newer run"}


def overtake(at: Scene) -> None:
    at.handler({"Records": [record(at.newer())]})


@pytest.mark.parametrize(
    "broken",
    [
        Broken(ValueError("no")),
        *(BrokenSpans(where, SystemExit(1)) for where in ("event", "made", "entered", "exited")),
    ],
    ids=lambda one: getattr(one, "where", "event"),
)
def test_no_observer_can_break_a_message(broken: Broken | BrokenSpans) -> None:
    with scene() as at:
        watching = Watching()
        assert run(at, broken, watching) == {"batchItemFailures": []}
        assert watching.seen == ONE_STAGE
        assert broken.calls == (3 if getattr(broken, "where", "") == "exited" else 1), "open spans are exited"
        assert at.priced() == 1


def test_nothing_is_wrapped_where_nobody_opens_spans() -> None:
    with scene() as at:
        services = at.handler._services
        assert observed(services) is services
        assert observed(services, (Tally(),)).watched is services.watched
        with invocation_span(services, (Orders,), None) as opened:
            assert opened is None


@pytest.mark.parametrize("make", [lambda_handler, dlq_handler, callback_handler])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (log, "stands alone; write observers=[…]"),
        (["logs"], "'logs' is no observer; an observer is called with each event"),
        ([Tally], "is no observer"),
        ([None, 7], "7 is no observer"),
    ],
)
def test_what_cannot_be_an_observer_is_refused_when_the_function_is_made(make: Any, given: Any, said: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        make(Orders, observers=given)
    assert said in str(refused.value)


def test_each_kind_of_function_takes_observers_and_keeps_them_on_other_services() -> None:
    with scene() as at:
        services = at.handler._services
        for make in (lambda_handler, dlq_handler, callback_handler):
            watching = Watching()
            make(at.flow, observers=[watching]).using(services)({"Records": []}, Context())
            assert watching.seen == ["<invocation", "invocation>"]
            assert watching.spans[0].served.keys() == {"orders"}


def test_a_request_over_http_is_an_invocation_too() -> None:
    with scene() as at:
        watching = Watching()
        event = {"version": "2.0", "rawPath": "/x", "requestContext": {"http": {"method": "GET", "path": "/x"}}}
        answer = callback_handler(at.flow, observers=[watching]).using(at.handler._services)(event)
        assert answer["statusCode"] >= 400
        assert (watching.seen[0], watching.seen[-1]) == ("<invocation", "invocation>")
        assert watching.spans[0].facts == {}


def test_a_span_that_fits_no_log_line_is_cut() -> None:
    hostile = Span(Phase.CLAIM, facts={"verdict": "x" * 250_000, "to": "a\x1b\ud800"})
    assert hostile.fields() == {
        "phase": "claim",
        "verdict": f"{'x' * 500}… (cut, of 250,000 characters)",
        "to": "a\\x1b\\ud800",
    }


def test_the_events_are_those_that_come_without_spans() -> None:
    with scene() as at:
        run(at, Watching())
        events = list(at.tally.events)
    with scene() as at:
        run(at)
        assert [(one.type, one.facts) for one in at.tally.events] == [(one.type, one.facts) for one in events]
    assert all(isinstance(one, Event) for one in events)

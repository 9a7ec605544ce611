"""Handlers that know nothing of flowguard, under the explorer, as Lambda would run them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flowguard import Done, Flow, Outcome, Stage, Step, once
from flowguard.cli import main
from flowguard.clock import ManualClock
from flowguard.errors import SettingsError
from flowguard.sim.reused_clients import SameClients
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore, on_moto, replay
from tests.testing.explorer import handlers
from tests.testing.explorer.seeded import Order

ORDER = {"order_id": "o1", "amount": 5}


def explored(*functions: PlainFunction, messages: Any = (ORDER,), **about: Any) -> Report:
    return explore(functions, messages, **{"bound": 0, "walks": 0, **about})


def after(schedule: str, *functions: PlainFunction, **about: Any) -> tuple[str, list[str]]:
    """The time line of one schedule, and what is wrong after it."""
    trace = replay(functions, [ORDER], schedule, **about)
    return "\n".join(trace.timeline), [problem.text for one in trace.violations for problem in one.problems]


# -- what is found -----------------------------------------------------------------------------------------------------


def test_a_bug_is_found_at_the_handlers_line() -> None:
    (violation,) = explored(PlainFunction("orders", handlers.add)).violations
    assert violation.rule == "equivalence"
    assert violation.site is not None
    assert (violation.site.file, violation.site.line) == (handlers.__file__, handlers.guilty_line())
    assert "w1  orders\n" in "\n".join(violation.timeline)


def test_what_may_be_repeated_is_not_complained_of() -> None:
    report = explored(PlainFunction("orders", handlers.put), bound=10, walks=10)
    assert report.ok, str(report)
    assert report.flows == ("orders",)
    assert any(call.startswith("orders: PutItem orders at ") for call in report.coverage)


@pytest.mark.slow("explores flows and handlers")
def test_of_a_chain_only_what_it_leads_to_counts() -> None:
    def chain(last: Any) -> Report:
        return explored(PlainFunction("orders", handlers.forward), PlainFunction("forwarded", last))

    assert chain(handlers.put).ok, "a second message that puts the same item again"
    (violation,) = chain(handlers.add).violations
    assert violation.problems[0].where == "totals"


def test_a_message_that_leaves_counts_each_time() -> None:
    (violation,) = explored(PlainFunction("orders", handlers.tell)).violations
    assert violation.problems[0].where == "sqs:emails"


@pytest.mark.slow("explores flows and handlers")
def test_a_topic_stands_in_front_of_a_queue() -> None:
    functions = [PlainFunction("orders", handlers.announce), PlainFunction("inbox", handlers.put_news, topic="news")]
    (violation,) = explored(*functions).violations
    assert violation.problems[0].where == "sns:news", "what is published reaches others too"
    timeline, _ = after("none", *functions)
    assert "PutItem orders" in timeline


@pytest.mark.proof("explores a handler, on moto")
def test_the_engine_makes_no_difference() -> None:
    function = PlainFunction("orders", handlers.add)
    assert explored(function, engine=on_moto) == explored(function)


class Note(Stage[Order], name="noted", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("sent", {"order_id": order.order_id})
        return Done()


class NoteOrders(Flow, name="note-orders", object_id="order_id"):
    stages = (Note,)


@pytest.mark.proof("explores flows")
def test_flows_and_plain_handlers_work_together() -> None:
    report = explore([NoteOrders, PlainFunction("sent", handlers.put)], [Order(order_id="o1")], bound=0, walks=0)
    assert report.ok, str(report)
    assert report.flows == ("note-orders", "sent")
    assert any(call.startswith("sent: PutItem orders at ") for call in report.coverage)


# -- the event source mapping ------------------------------------------------------------------------------------------


def deployed(answer: Any, *, partial: bool = True) -> Any:
    return (
        PlainFunction("orders", lambda event, context: answer, partial=partial)
        .deployed(ManualClock(), SameClients())
        .handler
    )


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, []),
        ({}, []),
        ("done", []),
        ({"batchItemFailures": []}, []),
        ({"batchItemFailures": None}, []),
        ({"batchItemFailures": [{"itemIdentifier": "b"}]}, ["b"]),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, ["a", "b"]),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, ["a", "b"]),
        ({"batchItemFailures": [{"itemIdentifier": "c"}]}, ["a", "b"]),
        ({"batchItemFailures": [{"messageId": "b"}]}, ["a", "b"]),
        ({"batchItemFailures": ["b"]}, ["a", "b"]),
    ],
)
def test_an_answer_is_read_as_lambda_reads_it(answer: Any, failed: list[str]) -> None:
    event = {"Records": [{"messageId": "a"}, {"messageId": "b"}]}
    assert deployed(answer)(event) == {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}
    assert deployed(answer, partial=False)(event) == {"batchItemFailures": []}


def test_an_answer_that_is_no_json_is_a_failure() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        deployed(object())({"Records": []})


def test_a_record_that_failed_comes_again_at_its_time() -> None:
    seen: list[Any] = []

    def look(view: Any) -> None:
        seen.append(view.item("orders", order_id="o1"))

    function = PlainFunction("orders", handlers.late, visibility=60, timeout=20)
    after("none", function, invariants=[look])
    start = 1_767_225_600
    assert {(item["at"], item["left"]) for item in seen} == {(start + 60, 20_000)}


def test_without_partial_answers_nothing_comes_again() -> None:
    assert "PutItem" not in after("none", PlainFunction("orders", handlers.late, partial=False))[0]
    assert "PutItem" in after("none", PlainFunction("orders", handlers.late))[0]


def test_what_sqs_gave_up_is_sent_back() -> None:
    timeline, wrong = after("d1-1", PlainFunction("orders", handlers.add))
    assert "from the dead-letter queue of SQS" in timeline
    assert wrong == []


def test_nobody_works_beyond_the_time_of_its_function() -> None:
    timeline, wrong = after("z1", PlainFunction("orders", handlers.add, visibility=60, timeout=20))
    assert "is dead: its function's time is over" in timeline
    assert wrong == []
    timeline, wrong = after("z1", PlainFunction("orders", handlers.add, visibility=60))
    assert "w1  … goes on" in timeline
    assert wrong == ["day monday: amount"]


# -- execution environments --------------------------------------------------------------------------------------------


def nothing() -> None:
    """Happens during an invocation."""


def invocations() -> tuple[list[int], Callable[..., None]]:
    """What each invocation of a function finds in its module, itself counted, and how to make one."""
    told: list[int] = []
    handler = PlainFunction("orders", handlers.keep).deployed(ManualClock(), SameClients()).handler

    def invoke(during: Callable[[], None] = nothing) -> None:
        handler({"Records": [], "told": told, "during": during})

    return told, invoke


def test_a_warm_environment_keeps_its_module_and_a_function_begins_with_none() -> None:
    for _ in range(2):
        told, invoke = invocations()
        invoke()
        invoke()
        assert told == [1, 2]
    assert handlers.seen == [], "the module that is imported is nobody's environment"


def test_a_worker_that_is_killed_takes_its_environment_with_it() -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    def failed() -> None:
        raise ValueError

    told, invoke = invocations()
    with pytest.raises(ValueError):  # noqa: PT011 - its own
        invoke(failed)
    with pytest.raises(KeyboardInterrupt):
        invoke(killed)
    invoke()
    assert told == [1, 2, 1]


def test_two_workers_at_once_have_an_environment_each() -> None:
    told, invoke = invocations()
    invoke(invoke)
    invoke()
    assert sorted(told) == [1, 1, 2]


def test_a_function_within_a_function_shares_what_it_keeps() -> None:
    kept: list[int] = []

    def handler(event: Any, context: Any) -> None:
        kept.append(1)

    run = PlainFunction("orders", handler).deployed(ManualClock(), SameClients()).handler
    run({"Records": []})
    run({"Records": []})
    assert len(kept) == 2


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"timeout": 31}, {"timeout": 0}, {"visibility": 0}])
def test_times_that_lambda_refuses_are_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="no longer than the second"):
        PlainFunction("orders", handlers.put, **wrong)


def test_what_is_no_handler_is_refused() -> None:
    with pytest.raises(SettingsError, match="'put' is no handler"):
        PlainFunction("orders", "put")  # type: ignore[arg-type]  # that is the mistake


def test_each_queue_has_one_function_and_each_message_a_queue() -> None:
    put = PlainFunction("orders", handlers.put)
    with pytest.raises(SettingsError, match="two of them read the same queue, orders; give each its own"):
        explored(put, PlainFunction("orders", handlers.add))
    with pytest.raises(SettingsError, match="two functions read this queue"):
        explore([NoteOrders, put], [Order(order_id="o1")])
    with pytest.raises(SettingsError, match="no function reads the queue others; there are orders"):
        explored(put, messages=[sqs_event("others", ORDER)])


def test_what_names_no_queue_goes_to_the_first() -> None:
    function = PlainFunction("orders", handlers.put)
    for message in (ORDER, Order(order_id="o1"), sqs_event("orders", ORDER)):
        assert any("PutItem" in call for call in explored(function, messages=[message]).coverage)


# -- the command -------------------------------------------------------------------------------------------------------


def command(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    message = tmp_path / "order.json"
    message.write_text(json.dumps(ORDER))
    few = ("--messages", str(message), "--bound", "0", "--walks", "0")
    result = CliRunner().invoke(main, ["explore", *arguments, *few])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.slow("explores flows and handlers")
def test_the_command_takes_handlers_with_their_queues(tmp_path: Path) -> None:
    chain = ("tests.testing.explorer.handlers:forward", "tests.testing.explorer.handlers:put")
    code, shown = command(tmp_path, *chain, "--queue", "orders", "--queue", "forwarded")
    assert (code, shown.splitlines()[-1].partition(",")[0]) == (0, "0 violations")
    code, shown = command(tmp_path, "tests.testing.explorer.handlers:add", "--queue", "orders")
    assert code == 1
    assert "totals, day monday: amount  5            10" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say which queue tests.testing.explorer.handlers:put reads"),
        (("--queue", "orders", "--queue", "more"), "no handler is left to read more"),
        (("--queue", "orders", "--timeout", "31"), "no longer than the second"),
        (("tests.testing.explorer.handlers:TABLES", "--queue", "orders"), "TABLES is not a Flow"),
    ],
)
def test_the_command_says_what_cannot_be_used(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    code, shown = command(tmp_path, "tests.testing.explorer.handlers:put", *arguments)
    assert (code, said in shown) == (2, True), shown


@once("written-here", key="body.order_id")
def written_here(record: Any) -> None:
    """A function whose batch handler is a method of flowguard's."""


def test_a_batch_handler_under_once_is_of_the_module_that_has_the_function() -> None:
    assert PlainFunction("orders", written_here.batch).module is sys.modules[__name__]

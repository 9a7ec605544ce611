"""What is refused for good: tried once for each kind, given up by name, and never in the way of the next request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Retry, Stage, Step
from flowguard.aws import packing, refused_writes, sender
from flowguard.clock import ManualClock
from flowguard.errors import SendFailed
from flowguard.events import EventType
from flowguard.sim.calls import ApiCall
from flowguard.sim.engines import in_memory
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.checks import standing
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.checks.lateness import came_after_later
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.parked import as_sent
from flowguard.testing.explorer.record.redriven_letters import letters
from flowguard.testing.explorer.record.refusal import refusal_at
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search import judge
from flowguard.worker import dispatch, fail_phase, flush_phase
from flowguard.worker.emitter import Emitter
from flowguard.worker.outages import Outages
from flows.page_cache.flow import ChangeSource, PageCache
from tests.flows.samples import SAMPLES
from tests.flows.samples import sample as shipped
from tests.proofs.prove.flows import TABLES, Order
from tests.proofs.prove.texts import OFFLOAD_ABOVE, Recalls
from tests.testing.explorer import seeded

ORDER = seeded.Order(order_id="o1", amount=3)
FLOW = seeded.ToldTwoStages
CLAIM, COMMIT, EMAILS, SECOND, TOLD = 1, 2, 3, 4, 7
"""Calls of the undisturbed run."""

PAGES = [f"page_cache/{path.name}" for path in (SAMPLES / "page_cache").glob("*.json")]

Patch = pytest.MonkeyPatch


def history_of(schedule: str, flow: Any = FLOW, *messages: Any, above: int | None = None) -> History:
    keys = {**seeded.TABLES, **TABLES}
    with Sandbox([flow], messages or [ORDER], keys, in_memory, 0, offload_above=above) as sandbox:
        return run(sandbox, Schedule.parse(schedule))


def wrong(schedule: str, flow: Any = FLOW, *messages: Any, above: int | None = None) -> set[str]:
    history = history_of(schedule, flow, *messages, above=above)
    return {f"{one.rule}: {one.text}" for one in broken(history, [flow], ())}


def statuses(history: History | None) -> list[str]:
    assert history is not None
    return [f"{item.request_id} {item.status.value}" for item in history.latest().values()]


def told(history: History) -> set[EventType]:
    return {one.type for worked in history.deliveries for one in worked.events}


@pytest.mark.proof("explores a flow")
def test_each_kind_of_destination_and_table_is_refused_once() -> None:
    tried: list[str] = []

    def note(view: Any) -> None:
        tried.append(view._history.schedule.id)

    report = explore(FLOW, [ORDER], tables=seeded.TABLES, bound=0, walks=0, invariants=[note])
    assert report.ok, str(report)
    first = [one for one in tried if one.startswith("f") and "." not in one]
    assert first == ["f1", "f2", "f2-1", "f3", "f3-1", "f4", "f6-1", "f7"], (
        "by table, queue and role; one that is denied"
    )
    assert {"f3.f10", "f4.r1", "f4.f13"} <= set(tried), "the dead letters' queue too, and what was parked sent back"


# -- what a refusal leads to


@pytest.mark.parametrize("schedule", ["f3", "f3-1", "f7"])
def test_a_side_message_is_parked_and_the_run_goes_on(schedule: str) -> None:
    history = history_of(schedule)
    (letter,) = [one for one in history.posted if one.is_unsent]
    assert as_sent(letter).to == ("sqs:told" if schedule == "f7" else "sqs:emails")
    assert EventType.PARKED in told(history)
    assert statuses(history) == ["request-1 COMPLETED"]
    assert statuses(history.after) == ["next-1 COMPLETED"]
    assert replay(FLOW, [ORDER], schedule, tables=seeded.TABLES).violations == ()


def test_a_next_hop_is_parked_and_goes_on_when_it_is_sent_back() -> None:
    history = history_of(f"f{SECOND}")
    assert [one.says_to for one in history.posted if one.is_letter] == [True]
    assert statuses(history) == ["request-1 RUNNING"]
    assert statuses(history.after) == ["next-1 RUNNING"]
    assert statuses(history_of(f"f{SECOND}.r1")) == ["request-1 COMPLETED"]
    assert replay(FLOW, [ORDER], f"f{SECOND}.r1", tables=seeded.TABLES).violations == ()


def test_a_business_table_ends_the_run_by_name() -> None:
    history = history_of(f"f{COMMIT}-1")
    assert statuses(history) == ["request-1 FAILED"]
    assert [str(item.error).partition(":")[0] for item in history.latest().values()] != [""]
    assert wrong(f"f{COMMIT}-1") == set()


@pytest.mark.parametrize("schedule", [f"f{CLAIM}", f"f{COMMIT}"])
def test_the_run_tables_own_refusal_leaves_the_record_to_sqs(schedule: str) -> None:
    history = history_of(schedule)
    assert history.posted == []
    assert [one.acked for one in history.deliveries] == [False] * len(history.deliveries)
    assert wrong(schedule) == set()


def test_a_retry_that_its_queue_refuses_ends_the_run() -> None:
    history = history_of("f2", seeded.BrokenOne)
    assert history.calls[1].target == "orders"
    assert statuses(history) == ["request-1 FAILED"]
    assert wrong("f2", seeded.BrokenOne) == set()


class Again(Stage[seeded.Order], name="again", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("not yet")
        return Done()


class AgainOnce(Flow, name="again-once", object_id="order_id"):
    stages = (Again,)


def test_a_retry_that_its_queue_refuses_ends_no_run_that_a_newer_one_has_taken_over() -> None:
    assert wrong("f2.z3", AgainOnce, ORDER, seeded.Order(order_id="o1", amount=4)) == set()


def test_a_state_that_is_gone_from_s3_ends_its_hop_and_no_other_run() -> None:
    history = history_of("f3", Recalls, Order(order_id="o1"), above=OFFLOAD_ABOVE)
    assert (history.calls[2].operation, history.calls[2].key[-6:]) == ("PutObject", "-state")
    assert statuses(history) == ["request-1 FAILED"]
    assert statuses(history.after) == ["next-1 COMPLETED"]
    assert wrong("f3", Recalls, Order(order_id="o1"), above=OFFLOAD_ABOVE) == set()


def test_what_a_next_request_led_to_stands_in_the_time_line() -> None:
    lines = replay(FLOW, [ORDER], f"f{EMAILS}", tables=seeded.TABLES).timeline
    assert "  … and asked for once more:" in lines
    assert any("refused for good" in line for line in lines)


def test_a_message_whose_parking_was_not_answered_is_reported_by_who_parks_it_again() -> None:
    schedule = f"f{SECOND}.u{SECOND + 9}"
    history = history_of(schedule)
    parked, again = [one for one in history.posted if one.is_letter]
    assert parked.id == again.id
    assert wrong(schedule) == set()


# -- and with a guard taken away


def nothing_is_final(patch: Patch) -> None:
    for module in (sender, refused_writes):
        for name in ("is_final", "is_for_minutes"):
            patch.setattr(module, name, lambda _: False)
    patch.setattr(packing, "is_refusal", lambda _: False)


def nothing_is_gone(patch: Patch) -> None:
    patch.setattr(packing, "error_code", lambda _: "")


def parked_without_a_word(patch: Patch) -> None:
    patch.setattr(Emitter, "parked", lambda *_: None)


def parked_without_a_reason(patch: Patch) -> None:
    letter = dispatch._letter

    def vague(services: Any, one: Any, refusal: Any) -> Any:
        return letter(services, one, refusal._replace(why="no idea"))

    patch.setattr(dispatch, "_letter", vague)


def dropped_instead_of_parked(patch: Patch) -> None:
    patch.setattr(dispatch, "_park", lambda *_: {})


def in_the_way_of_the_next(patch: Patch) -> None:
    whole = dispatch.send_or_park

    def strict(*args: Any) -> Any:
        if refused := whole(*args):
            raise SendFailed({"a queue": str(refused)})
        return refused

    for phase in (flush_phase, fail_phase):
        patch.setattr(phase, "send_or_park", strict)


def acked_all_the_same(patch: Patch) -> None:
    left = Outages.ending
    patch.setattr(Outages, "ending", lambda *met: left(*met)._replace(ack=True, backs_off=False))


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize(
    ("mutant", "schedule", "problem"),
    [
        (nothing_is_final, "f3", "I7: side was committed and never sent"),
        (
            nothing_is_final,
            "f3",
            "I6: a record was delivered until SQS gave it up, though emails of sqs refuses for good",
        ),
        (nothing_is_final, "f2-1", "I6: a record was delivered until SQS gave it up"),
        (parked_without_a_word, "f3", "I7: a message was parked, and nothing reports it"),
        (parked_without_a_word, "f4.u13", "I7: a message was parked, and nothing reports it"),
        (parked_without_a_reason, "f4", "I7: a parked message does not name what refused it"),
        (dropped_instead_of_parked, "f3", "I7: side was committed and never sent"),
        (dropped_instead_of_parked, "f4", "I6: nothing is under way any more"),
        (in_the_way_of_the_next, "f7.f14", "I6: a next request for the object is not carried out"),
        (acked_all_the_same, "f1", "I6: a record was acked, though the run table denies access"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_guard_taken_away_is_noticed(
    mutant: Callable[[Patch], None], schedule: str, problem: str, monkeypatch: Patch
) -> None:
    assert wrong(schedule) == set()
    mutant(monkeypatch)
    found = wrong(schedule)
    assert any(one.startswith(problem) for one in found), found


def test_a_text_that_is_gone_and_read_for_ever_is_noticed(monkeypatch: Patch) -> None:
    nothing_is_gone(monkeypatch)
    found = wrong("f3", Recalls, Order(order_id="o1"), above=OFFLOAD_ABOVE)
    assert any("though flowguard/recalls/" in one for one in found), found


# -- AWS's own words

QUEUED = {"QueueUrl": "https://sqs/1/q", "Entries": [{"Id": "0", "MessageBody": "x"}]}
PUBLISHED = {"TopicArn": "arn:aws:sns:r:1:t", "PublishBatchRequestEntries": [{"Id": "0", "Message": "x"}]}


@pytest.mark.parametrize(
    ("service", "operation", "params", "more", "code", "status"),
    [
        ("sqs", "SendMessageBatch", QUEUED, 0, "AWS.SimpleQueueService.NonExistentQueue", 400),
        ("sqs", "SendMessageBatch", QUEUED, 1, "AccessDenied", 403),
        ("sns", "PublishBatch", PUBLISHED, 0, "NotFound", 404),
        ("sns", "PublishBatch", PUBLISHED, 1, "AuthorizationError", 403),
        ("events", "PutEvents", {"Entries": [{"EventBusName": "b"}]}, 0, "AccessDeniedException", 400),
        ("lambda", "Invoke", {"FunctionName": "f"}, 0, "ResourceNotFoundException", 404),
        ("scheduler", "CreateSchedule", {}, 1, "AccessDeniedException", 403),
        ("dynamodb", "UpdateItem", {"TableName": "t"}, 0, "AccessDeniedException", 400),
    ],
)
def test_a_refusal_says_what_aws_says(
    service: str, operation: str, params: Any, more: int, code: str, status: int
) -> None:
    with MemoryAWS(ManualClock()) as aws:
        call = ApiCall(service, operation, params, 1, aws.client(service))
        refusal = refusal_at(call, more)
        assert refusal is not None
        assert refusal.concerns(call)
        answer: Any = getattr(refusal.error(call), "response", None)
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)


def test_a_table_that_a_call_does_not_name_cannot_be_refused() -> None:
    assert history_of("f1-3").refusals == []
    assert statuses(history_of("f1-3")) == ["request-1 COMPLETED"]


@pytest.mark.proof("explores a flow")
def test_nothing_is_refused_for_good_where_that_is_not_asked_for() -> None:
    tried: list[str] = []

    def note(view: Any) -> None:
        tried.append(view._history.schedule.id)

    assert explore(FLOW, [ORDER], tables=seeded.TABLES, bound=0, walks=0, invariants=[note], for_good=False).ok
    assert "d1" in tried
    assert not any("f" in one for one in tried)


@pytest.mark.slow("explores flows and handlers")
def test_a_run_whose_restart_is_parked_stands_where_it_may(monkeypatch: Patch) -> None:
    """It was reset between its stages, and the message that begins it anew is refused for good."""
    messages = [shipped("page_cache/02-wanted.json"), shipped("page_cache/01-title-changed.json")]
    assert replay([PageCache, ChangeSource], messages, "f11.o3-1").ok
    monkeypatch.setattr(standing, "restart_id", lambda flow, object_id, item: None)
    found = replay([PageCache, ChangeSource], messages, "f11.o3-1").violations
    assert [one.rule for one in found] == ["I6"]


def test_a_letter_that_is_sent_back_after_a_later_message_is_in_no_undisturbed_order() -> None:
    history = history_of(f"f{SECOND}.r1")
    [redriven] = history.redriven
    lay_there = letters(history, [FLOW])[redriven.number - 1].at
    assert not came_after_later(history, [FLOW], [])
    assert not came_after_later(history, [FLOW], [lay_there])
    assert came_after_later(history, [FLOW], [lay_there, lay_there + 1])
    assert not came_after_later(history_of(f"f{SECOND}"), [FLOW], [lay_there + 1]), "nothing was sent back"


@pytest.mark.long("runs the orders of six messages twice; the tests above ask for each case of that judgement")
def test_what_waited_in_the_dead_letters_while_a_later_message_came_is_not_compared(monkeypatch: Patch) -> None:
    messages = [shipped(path) for path in sorted(PAGES)[:6]]
    assert replay([PageCache, ChangeSource], messages, "f8.r2").ok
    monkeypatch.setattr(judge, "came_after_later", lambda *given: False)
    assert not replay([PageCache, ChangeSource], messages, "f8.r2").ok

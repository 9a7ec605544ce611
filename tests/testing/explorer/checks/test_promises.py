"""Each of flowguard's promises is broken by a history that breaks it, and by no other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flowguard.events import Event, EventType
from flowguard.handler import LambdaHandler
from flowguard.names.ids import Owner
from flowguard.protocol.run import RunItem, Status
from flowguard.testing.explorer import View, explore
from flowguard.testing.explorer.checks.invariants import PROMISES, broken
from flowguard.testing.explorer.record.history import History, Version
from flowguard.wire.envelope import resend
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1", amount=3)
NEWER = seeded.Order(order_id="o1", amount=5)
FLOW = seeded.ToldTwoStages


def history() -> History:
    """Two requests for one object, and nothing goes wrong: the newer one takes over, and completes at hop 2."""
    return history_of(FLOW, [ORDER, NEWER], "none", tables=seeded.TABLES)


def rules(found: History, flow: Any = FLOW) -> set[str]:
    return {problem.rule for problem in broken(found, [flow], ())}


def test_nothing_is_wrong_with_what_is_right() -> None:
    assert rules(history()) == set()
    assert len(PROMISES) == len(set(PROMISES))


def no_day_is_there(view: View) -> None:
    if view.item("totals", day="monday") is not None:
        raise AssertionError  # as a bare assert does, outside tests that pytest rewrites


def test_an_invariant_that_says_nothing_is_named_by_its_line() -> None:
    [problem] = broken(history(), [FLOW], [no_day_is_there])
    line = inspect.getsourcelines(no_day_is_there)[1] + 2
    assert problem.text.startswith(f"AssertionError was raised at test_promises.py:{line}: raise AssertionError")


def changed(found: History, place: int, **facts: Any) -> History:
    """With another version of the item at this place."""
    version = found.versions[place]
    assert version.item is not None
    found.versions[place] = replace(version, item=version.item._replace(**facts))
    return found


def item_at(found: History, place: int) -> RunItem:
    item = found.versions[place].item
    assert item is not None
    return item


def under_anothers_id(found: History) -> None:
    commit = len(found.versions) - 1
    found.versions[commit] = replace(found.versions[commit], worker=1)


def under_a_lower_epoch(found: History) -> None:
    """The worker of the last commit had claimed an earlier epoch of the same run."""
    place = len(found.versions) - 2
    again = item_at(found, place)
    extra = again._replace(epoch=again.epoch + 1)
    found.versions.insert(place + 1, Version(found.versions[place].key, 99, 98, extra))
    changed(found, place + 2, epoch=again.epoch + 1)


def without_a_higher_epoch(found: History) -> None:
    changed(found, len(found.versions) - 2, epoch=1)


def twice(found: History) -> None:
    last = found.versions[-1]
    found.versions.append(last)
    changed(found, len(found.versions) - 1, committed_at=item_at(found, -1).committed_at + 1)


def an_earlier_attempt(found: History) -> None:
    changed(found, len(found.versions) - 2, hop=0)


def of_an_earlier_life(found: History) -> None:
    """The item expired, and another worker claimed with the counters that the first one had."""
    place = len(found.versions) - 2
    version, key = found.versions[place], found.versions[place].key
    found.versions[place + 1 : place + 1] = [
        Version(key, 99, 0, None),
        Version(key, 99, 98, item_at(found, place)._replace(owner=Owner("another"))),
    ]
    assert version.worker == found.versions[-1].worker
    changed(found, len(found.versions) - 1, owner="another")


def an_older_request(found: History) -> None:
    changed(found, len(found.versions) - 2, requested_at=1)


def left_running(found: History) -> None:
    changed(found, len(found.versions) - 1, status=Status.RUNNING)


def left_waiting(found: History) -> None:
    changed(found, len(found.versions) - 1, status=Status.WAITING)


def failed_without_a_letter(found: History) -> None:
    changed(found, len(found.versions) - 1, status=Status.FAILED)


def without_a_trace(found: History) -> None:
    found.requests.append(("run#told-two-stages#o2", "lost"))


def never_sent(found: History) -> None:
    found.posted = [one for one in found.posted if one.name != "told"]


def sent_too_early(found: History) -> None:
    found.posted.reverse()


def too_often(found: History) -> None:
    message = next(one for one in found.posted if one.name == "second")
    place = message.attributes["flowguard"]._replace(value='{"object":"o1","hop":2,"retry":5}')
    found.posted.append(replace(message, attributes={**message.attributes, "flowguard": place}))


def too_late(found: History) -> None:
    told(found, EventType.RETRIED, {"error": "ValueError", "delay": 600})


def another_payload(found: History) -> None:
    envelope = found.deliveries[-1].envelope
    assert envelope is not None
    worked = found.deliveries[-1]
    found.deliveries.append(replace(worked, envelope=envelope._replace(message="something else")))


def another_record(found: History) -> None:
    told(found, EventType.BROKEN, {})
    found.deliveries[-1].acked = False
    found.deliveries[-1].failures = ("another",)


def acked_though_unsent(found: History) -> None:
    told(found, EventType.NOT_SENT, {})


def kept_though_settled(found: History) -> None:
    worked = found.deliveries[-1]
    worked.acked, worked.failures = False, (worked.message_id,)


def success_into_failure(found: History) -> None:
    found.versions.append(found.versions[-1])
    changed(found, len(found.versions) - 1, status=Status.FAILED)


def told(found: History, event: EventType, facts: dict[str, Any]) -> None:
    message = found.deliveries[-1].events[0].message
    found.deliveries[-1].events.append(Event(event, message, facts))


@pytest.mark.parametrize(
    ("forged", "rule"),
    [
        (under_anothers_id, "I1"),
        (under_a_lower_epoch, "I2"),
        (without_a_higher_epoch, "I2"),
        (twice, "I3"),
        (an_earlier_attempt, "I3"),
        (of_an_earlier_life, "I4"),
        (an_older_request, "I5"),
        (left_running, "I6"),
        (left_waiting, "I15"),
        (failed_without_a_letter, "I6"),
        (without_a_trace, "I6"),
        (never_sent, "I7"),
        (sent_too_early, "I7"),
        (too_often, "I10"),
        (too_late, "I10"),
        (another_payload, "I11"),
        (another_record, "I12"),
        (acked_though_unsent, "I12"),
        (kept_though_settled, "I12"),
        (success_into_failure, "I14"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_history_that_breaks_a_promise_is_noticed(forged: Callable[[History], None], rule: str) -> None:
    found = history()
    forged(found)
    assert rule in rules(found)


# -- and flowguard with a guard taken away, where the history of it breaks a promise


def test_a_retry_that_loses_a_part_of_its_message_breaks_i11(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = resend
    monkeypatch.setattr("flowguard.worker.resend.resend", lambda envelope, extras: _spoiled(*whole(envelope, extras)))
    flow = seeded.flow_of(seeded.PlainPut)
    assert "I11" in rules(history_of(flow, [ORDER], "e2", tables=seeded.TABLES), flow)


def _spoiled(body: str, attributes: Any) -> Any:
    return body.replace("3", "4"), attributes


def test_a_function_that_answers_for_all_its_records_breaks_i12(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: Any = LambdaHandler.__call__

    def everything(self: Any, event: Any, context: Any = None) -> Any:
        answered(self, event, context)
        return {"batchItemFailures": [{"itemIdentifier": one["messageId"]} for one in event["Records"]]}

    monkeypatch.setattr(LambdaHandler, "__call__", everything)
    assert "I12" in rules(history_of(FLOW, [ORDER], "none", tables=seeded.TABLES))


@pytest.mark.proof("explores a flow")
def test_a_flow_that_breaks_where_nothing_goes_wrong_is_no_proof_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its schedules ends like the undisturbed one: in the dead letters."""

    def lost(*_: Any) -> Any:
        raise KeyError("the bucket's name")

    monkeypatch.setattr("flowguard.aws.store.DynamoDBStore.commit", lost)
    report = explore(seeded.flow_of(seeded.Recorded), [ORDER], tables=seeded.TABLES, bound=0, walks=0)
    assert report.schedules < 10, "no fault is tried at what never works"
    (violation,) = [one for one in report.violations if one.rule == "undisturbed"]
    assert violation.schedule == "none"
    assert 'breaks though nothing goes wrong: KeyError: "the bucket\'s name"' in str(report)
    assert "make it work first" in violation.fix
    assert any("╳ breaks: KeyError" in line for line in violation.timeline)

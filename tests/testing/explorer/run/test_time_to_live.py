"""Items of the user's tables expire: at once, or never, for DynamoDB may take days."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, explore, replay
from flowguard.testing.explorer.run.time_to_live import checked_ttl

TABLES = {"seen": "id", "locks": "id", "totals": "day"}
EXPIRING = {"seen": "until", "locks": "until"}
ORDER = [sqs_event("orders", {"order_id": "o1"})]
REFUSED = "ConditionalCheckFailedException"


def put_new(table: str, seconds: int) -> bool:
    """Put an item that lives for so long, and answer whether there was none."""
    item: Any = {"id": "o1", "until": int(time.time()) + seconds}
    try:
        boto3.resource("dynamodb").Table(table).put_item(Item=item, ConditionExpression="attribute_not_exists(id)")
    except ClientError as error:
        if error.response["Error"]["Code"] != REFUSED:
            raise
        return False
    return True


def add() -> None:
    boto3.resource("dynamodb").Table("totals").update_item(
        Key={"day": "monday"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1}
    )


def set_total() -> None:
    boto3.resource("dynamodb").Table("totals").put_item(Item={"day": "monday", "n": 1})


def adds_once_in_five_minutes(event: dict[str, Any], context: object) -> None:
    if put_new("seen", 300):
        add()


def adds_once_in_five_days(event: dict[str, Any], context: object) -> None:
    if put_new("seen", 5 * 86_400):
        add()


def waits_for_the_lock_to_go(event: dict[str, Any], context: object) -> None:
    if not put_new("locks", 20):
        raise RuntimeError("somebody else has it")
    set_total()


def looks_at_the_time(event: dict[str, Any], context: object) -> None:
    locks = boto3.resource("dynamodb").Table("locks")
    if not put_new("locks", 20):
        lock: Any = locks.get_item(Key={"id": "o1"}, ConsistentRead=True).get("Item")
        if lock is not None and lock["until"] > time.time():
            raise RuntimeError("somebody else has it")
    set_total()


def puts_again(event: dict[str, Any], context: object) -> None:
    boto3.resource("dynamodb").Table("seen").put_item(Item={"id": "o1", "until": int(time.time()) + 300})


def puts_the_first_time(event: dict[str, Any], context: object) -> None:
    totals = boto3.resource("dynamodb").Table("totals")
    if "Item" not in totals.get_item(Key={"day": "monday"}, ConsistentRead=True):
        puts_again(event, context)
        set_total()


def says_when_in_words(event: dict[str, Any], context: object) -> None:
    boto3.resource("dynamodb").Table("seen").put_item(Item={"id": "o1", "until": "yesterday"})
    boto3.resource("dynamodb").Table("locks").put_item(Item={"id": "o1"})


def replayed(handler: Any, schedule: str, **about: Any) -> Any:
    return replay(PlainFunction("orders", handler), ORDER, schedule, tables=TABLES, **about)


def test_a_copy_that_comes_when_what_was_seen_has_expired_is_taken_for_new() -> None:
    assert replayed(adds_once_in_five_minutes, "x1-1").ok, "nothing is said of its life"
    trace = replayed(adds_once_in_five_minutes, "x1-1", ttl=EXPIRING)
    (violation,) = trace.violations
    assert [(one.where, one.expected, one.found) for one in violation.problems] == [("totals", 1, 2)]
    assert any("seen, id o1 has expired, and is removed" in line for line in trace.timeline)
    assert replayed(adds_once_in_five_minutes, "x1-1.k1", ttl=EXPIRING).ok, "it is still there"


def test_an_item_that_lives_as_long_as_copies_come_is_there() -> None:
    for schedule in ("x1-1", "x1-2"):
        assert replayed(adds_once_in_five_days, schedule, ttl=EXPIRING).ok


def test_who_waits_until_dynamodb_has_removed_a_lock_may_wait_for_days() -> None:
    assert replayed(waits_for_the_lock_to_go, "a1", ttl=EXPIRING).ok
    assert not replayed(waits_for_the_lock_to_go, "a1.k1", ttl=EXPIRING).ok
    assert replayed(looks_at_the_time, "a1", ttl=EXPIRING).ok
    assert replayed(looks_at_the_time, "a1.k1", ttl=EXPIRING).ok


def test_both_are_searched_for() -> None:
    about: Any = {"tables": TABLES, "ttl": EXPIRING, "bound": 0, "walks": 0, "for_good": False}
    report = explore(PlainFunction("orders", waits_for_the_lock_to_go), ORDER, **about)
    assert {one.rule for one in report.violations} == {"equivalence"}
    assert all(one.schedule.endswith("k1") for one in report.violations), [one.schedule for one in report.violations]


def test_no_end_is_compared_by_what_has_expired_or_by_when_it_will() -> None:
    """An hour later it is put once more, and ``until`` is another moment; or it is gone by then."""
    assert not replayed(puts_again, "x1-1").ok
    assert replayed(puts_again, "x1-1", ttl=EXPIRING).ok
    trace = replayed(puts_the_first_time, "x1-1", ttl=EXPIRING)
    assert trace.ok
    assert any("seen, id o1 has expired, and is removed" in line for line in trace.timeline)


def test_what_is_no_number_is_no_moment() -> None:
    for schedule in ("x1-1", "x1-2"):
        trace = replayed(says_when_in_words, schedule, ttl=EXPIRING)
        assert trace.ok
        assert not any("has expired" in line for line in trace.timeline)


def test_a_module_may_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TTL", EXPIRING)
    assert not replayed(adds_once_in_five_minutes, "x1-1").ok


@pytest.mark.parametrize(
    ("ttl", "why"),
    [
        (["seen"], "['seen']; name the attribute of each table"),
        ({"seen": 5}, "{'seen': 5}; name the attribute"),
        ({"seen": ""}, "{'seen': ''}; name the attribute"),
        ({"sin": "until"}, "sin is no table here; there is locks, seen, totals"),
    ],
)
def test_what_names_no_attribute_is_refused(ttl: Any, why: str) -> None:
    with pytest.raises(SettingsError) as raised:
        checked_ttl(ttl, TABLES)
    assert str(raised.value).startswith(f"ttl: {why}")
    assert json.dumps(checked_ttl(EXPIRING, TABLES)) == json.dumps(EXPIRING)

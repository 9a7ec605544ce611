"""Several ends may be right: each item and each body has to have one of the forms that are listed."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import boto3
import pytest

from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Trace, explore, replay
from flowguard.testing.explorer.checks.either import Forms, checked_either

TABLES = {"orders": "order_id", "seen": "order_id"}
ORDER = [sqs_event("orders", {"order_id": "o1"})]
PAID_OR_NOT: Any = {"orders": [{"status": "paid", "amount": 5}, {"status": "refused"}]}


def was_seen(record: Any) -> bool:
    """Answer whether the record was begun before, and note it."""
    seen = boto3.resource("dynamodb").Table("seen")
    name = json.loads(record["body"])["order_id"]
    known = "Item" in seen.get_item(Key={"order_id": name}, ConsistentRead=True)
    seen.put_item(Item={"order_id": name})
    return known


def pay(event: dict[str, Any], context: object) -> None:
    """Refuse what was begun before: nobody knows whether that was paid."""
    orders = boto3.resource("dynamodb").Table("orders")
    for record in event["Records"]:
        again = was_seen(record)
        item: Any = {"status": "refused"} if again else {"status": "paid", "amount": 5}
        orders.put_item(Item={"order_id": "o1", **item})


def pay_half(event: dict[str, Any], context: object) -> None:
    orders = boto3.resource("dynamodb").Table("orders")
    for record in event["Records"]:
        again = was_seen(record)
        orders.put_item(Item={"order_id": "o1", "status": "refused" if again else "paid", "amount": 5})


def pay_and_count(event: dict[str, Any], context: object) -> None:
    """What the forms do not name is compared: it counts its attempts."""
    orders = boto3.resource("dynamodb").Table("orders")
    for record in event["Records"]:
        again = was_seen(record)
        item: Any = {"status": "refused", "attempts": 2} if again else {"status": "paid", "amount": 5, "attempts": 1}
        orders.put_item(Item={"order_id": "o1", **item})


def pay_or_leave(event: dict[str, Any], context: object) -> None:
    orders = boto3.resource("dynamodb").Table("orders")
    for record in event["Records"]:
        if was_seen(record):
            orders.delete_item(Key={"order_id": "o1"})
        else:
            orders.put_item(Item={"order_id": "o1", "status": "paid"})


def news(**said: object) -> None:
    sqs = boto3.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName="news")["QueueUrl"], MessageBody=json.dumps(said))


def tell_once(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        if not was_seen(record):
            news(id="1", status="paid")


def tell_again(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        is_again = was_seen(record)
        news(id="2", status="paid")
        if is_again:
            news(id="1", status="paid")


def tell_always(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        was_seen(record)
        news(id="1", status="paid")


def tell_either(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        news(status="refused" if was_seen(record) else "paid")


def replayed(handler: Any, schedule: str = "a2", **about: Any) -> Trace:
    return replay(PlainFunction("orders", handler), ORDER, schedule, tables=TABLES, **about)


def problems(trace: Trace) -> list[Any]:
    return [problem for violation in trace.violations for problem in violation.problems]


def test_each_of_the_forms_is_allowed() -> None:
    assert {one.rule for one in replayed(pay).violations} == {"equivalence"}
    assert replayed(pay, either=PAID_OR_NOT).ok


def test_the_report_names_what_may_have_several_forms() -> None:
    report = explore(PlainFunction("orders", pay), ORDER, tables=TABLES, bound=0, walks=0, either=PAID_OR_NOT)
    assert report.ok, str(report)
    assert "allowed in one of several forms: orders.amount, orders.status" in report.summary()
    assert report.as_json()["either"] == ["orders.amount", "orders.status"]


def test_half_of_each_form_is_none_of_them() -> None:
    (problem,) = problems(replayed(pay_half, either=PAID_OR_NOT))
    assert problem.text == "order_id o1: amount, status"
    assert problem.expected == 'one of {"amount": 5, "status": "paid"}, {"status": "refused"}'
    assert problem.found == '{"amount": 5, "status": "refused"}'


def test_what_no_form_names_is_compared() -> None:
    assert [one.text for one in problems(replayed(pay_and_count, either=PAID_OR_NOT))] == ["order_id o1: attempts"]


def test_what_may_be_missing_says_so() -> None:
    assert replayed(pay_or_leave, either={"orders": [{"status": "paid"}, None]}).ok
    assert not replayed(pay_or_leave, either={"orders": [{"status": "paid"}, {"status": "refused"}]}).ok
    assert not replayed(pay_or_leave, either={"orders": [{"status": "sent"}, None]}).ok, "what is there has no form"


@pytest.mark.parametrize("same", [{}, {"news": "id"}], ids=["without an id", "with one"])
@pytest.mark.parametrize("tell", [tell_once, tell_again], ids=["then nothing", "nothing before"])
def test_a_message_that_need_not_be_sent_may_be_sent_once(tell: Any, same: dict[str, str]) -> None:
    assert not replayed(tell, same=same).ok
    assert replayed(tell, same=same, either={"news": [{"status": "paid"}, None]}).ok
    assert not replayed(tell, same=same, either={"news": [{"status": "paid"}, {"status": "refused"}]}).ok


def test_but_not_twice() -> None:
    about: Any = {"either": {"news": [{"status": "paid"}, None]}}
    (problem,) = problems(replayed(tell_always, "a3", **about))
    assert (problem.expected, problem.found) == (1, 2)


def test_bodies_of_messages_have_forms_too() -> None:
    forms: Any = {"news": [{"status": "paid"}, {"status": "refused"}]}
    assert not replayed(tell_either).ok
    assert replayed(tell_either, either=forms).ok


def test_it_is_never_offered_as_a_fix() -> None:
    for handler in (pay, pay_half, pay_and_count, pay_or_leave, tell_once, tell_either):
        assert "either=" not in str([(one.fix, one.option) for one in replayed(handler).violations])


def test_nor_is_to_hide_what_is_in_no_form() -> None:
    assert "free=" in str([one.option for one in replayed(pay_half).violations])
    assert {one.option for one in replayed(pay_half, either=PAID_OR_NOT).violations} == {""}


def test_numbers_are_compared_as_they_are_kept() -> None:
    forms = Forms([{"a": 1.5, "b": [1, {"c": Decimal(2)}], "d": True}, {"a": None}])
    for values in ({"a": 1.5, "b": [1, {"c": 2}], "d": True}, {"a": None}):
        (text,) = forms.folded(values).values()
        assert text.startswith("one of ")
    assert forms.folded({"a": 2, "e": 1}) == {"a, b, d": '{"a": 2}', "e": 1}


@pytest.mark.parametrize(
    ("either", "free", "why"),
    [
        ([], {}, "[] names no tables"),
        ({"orders": "paid"}, {}, "orders has 'paid'; list the forms of each"),
        ({"orders": [{"status": "paid"}]}, {}, "orders has 1 forms; give two"),
        ({"orders": [None, None]}, {}, "orders has 2 forms; give two, at least one of them with attributes"),
        ({"orders": [{}, None]}, {}, "orders has the form {}"),
        ({"orders": [{1: "paid"}, None]}, {}, "orders has the form {1: 'paid'}"),
        ({"orders": ["paid", None]}, {}, "orders has the form 'paid'"),
        ({"orders": [{"status": "paid"}, None]}, {"orders": ["status"]}, "orders.status is in free, too"),
    ],
)
def test_what_is_no_choice_is_refused(either: Any, free: Any, why: str) -> None:
    with pytest.raises(SettingsError) as raised:
        checked_either(either, free)
    assert str(raised.value).startswith(f"either: {why}")


def test_a_table_that_nothing_knows_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="either: nothing is written or sent to 'oders'; there is orders, seen"):
        replayed(pay, either={"oders": PAID_OR_NOT["orders"]})

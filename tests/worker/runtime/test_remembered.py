"""What a hop does before its commit: calls that are made once, and writes that are applied at once."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.utils import parse_timestamp
from pydantic import BaseModel, Field, SecretStr

from flowguard.errors import ConditionFailed, Reject
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.wire.message import Message
from tests.scene import START, OrderState, Scene
from tests.worker.runtime.mishaps import Died, boom, die, reject_once, supersede

OF_BOTO3 = parse_timestamp("2026-01-02T09:00:00Z"), parse_timestamp("2026-07-02T09:00:00-04:00")
"""As boto3 reads them from answers of AWS: in time zones of its own."""


class Receipt(BaseModel):
    number: int


def itself() -> list[Any]:
    """Return what contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


class Bank:
    """A service outside, which counts what it is asked."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def charge(self, step: Step[OrderState], *, then: Callable[[Step[OrderState]], None] | None = None) -> Any:
        found = step.once("charge", lambda: self._charge(step))
        if then is not None:
            then(step)
        return found

    def _charge(self, step: Step[OrderState]) -> dict[str, Any]:
        self.keys.append(step.key("charge"))
        return {"charge": len(self.keys)}


def charging(at: Scene, *then: Callable[[Step[OrderState]], None] | None) -> tuple[Bank, list[Any]]:
    """Let the first stage charge at each attempt, and do one of these after it. What each attempt got is noted."""
    bank, got, rest = Bank(), [], iter(then)
    at.script.pricing = lambda step: got.append(bank.charge(step, then=next(rest, None)))
    return bank, got


def raw(at: Scene) -> Any:
    key = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
    return at.aws.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]


def total(at: Scene, name: str) -> int:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": name}})
    return int(found["Item"]["n"]["N"]) if "Item" in found else 0


def add(step: Step[OrderState], name: str = "total") -> None:
    step.update("orders", {"id": name}, "ADD n :one", values={":one": 1})


# -- calls that are made once ------------------------------------------------------------------------------------------


def test_a_call_is_made_once_in_all_attempts_of_a_hop_and_its_result_is_the_same_in_each(at: Scene) -> None:
    bank, got = charging(at, boom, boom)
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "UpdateItem"], "the claim, and what it remembers"
    for retry in (1, 2):
        assert at.deliver(at.message(retry=retry)) == [True]
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    assert (len(bank.keys), got) == (1, [{"charge": 1}]), "the attempts that failed had it, and did not note it"
    assert "memo" not in raw(at)


def test_a_call_whose_process_dies_before_it_is_remembered_is_made_again_under_the_same_key(at: Scene) -> None:
    bank, _ = charging(at)

    def dies(call: ApiCall, proceed: Proceed) -> Response:
        if "memo" in call.params.get("UpdateExpression", ""):
            raise Died
        return proceed()

    with intercept(dies), pytest.raises(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=31)
    at.deliver(at.message())
    assert len(bank.keys) == 2
    assert len(set(bank.keys)) == 1


@pytest.mark.parametrize("repeated", [False, True])
def test_an_answer_that_is_lost_does_not_repeat_the_call(at: Scene, repeated: bool) -> None:
    bank, _ = charging(at)

    def lost(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if "memo" not in call.params.get("UpdateExpression", ""):
            return answer
        if repeated:
            return proceed()
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

    with intercept(lost):
        at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert (len(bank.keys), at.priced(), at.told(EventType.FENCED)) == (1, 1, 0)


def test_what_a_call_raises_is_not_remembered(at: Scene) -> None:
    made: list[int] = []

    def refused() -> None:
        made.append(1)
        raise ConnectionError("the bank is down")

    at.script.pricing = lambda step: step.once("charge", refused)
    at.deliver(at.message())
    at.script.pricing = lambda step: step.once("charge", lambda: made.append(2))
    at.deliver(at.message(retry=1))
    assert (made, at.priced()) == ([1, 2], 1)


def test_a_run_that_failed_and_is_sent_back_does_not_repeat_the_call(at: Scene) -> None:
    def rejects(step: Step[OrderState]) -> None:
        raise Reject("no such address")

    bank, _ = charging(at, rejects)
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert (item.status, "memo" in raw(at)) == (Status.FAILED, True)
    at.deliver(at.message(redrive=1))
    assert (len(bank.keys), at.priced(), "memo" in raw(at)) == (1, 1, False)


def test_each_hop_and_each_request_makes_its_own_calls(at: Scene) -> None:
    bank, _ = charging(at, die)
    with pytest.raises(Died):
        at.deliver(at.message())
    at.deliver(at.newer())
    at.script.closing = lambda step: bank.charge(step) and None
    at.deliver(at.second(**{"request_id": at.newer().request_id, "requested_at": at.newer().requested_at}))
    assert (len(bank.keys), len(set(bank.keys))) == (3, 3)
    assert "memo" not in raw(at)


def test_a_worker_that_a_newer_run_has_fenced_remembers_nothing_and_its_message_is_done(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        supersede(at)
        step.once("charge", lambda: 1)
        pytest.fail("the stage goes on though it is fenced")

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.FENCED), at.told(EventType.RETRIED), at.priced()) == (1, 0, 1)
    assert "memo" not in raw(at)


def test_a_worker_that_another_attempt_has_fenced_leaves_its_record_in_the_queue(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        at.script.pricing = die
        at.clock.advance(seconds=31)
        with pytest.raises(Died):
            at.deliver(at.message())
        step.once("charge", lambda: 1)

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [False]
    assert "memo" not in raw(at)


def test_a_worker_that_catches_the_fence_is_fenced_by_its_commit(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        supersede(at)
        try:
            step.once("charge", lambda: 1)
        except Exception:
            return

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.FENCED), at.priced()) == (1, 1)


class Charge(BaseModel):
    id: str
    at: datetime


def test_the_first_attempt_gets_the_result_in_the_form_in_which_later_ones_do(at: Scene) -> None:
    got: list[Any] = []

    def pricing(step: Step[OrderState]) -> None:
        made = Charge(id="c-1", at=datetime(2027, 1, 2, tzinfo=UTC))
        got.append(step.once("plain", lambda: made))
        got.append(step.once("typed", lambda: [made], list[Charge]))
        if step.attempt == 1:
            boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert got[:2] == [
        {"id": "c-1", "at": "2027-01-02T00:00:00Z"},
        [Charge(id="c-1", at=datetime(2027, 1, 2, tzinfo=UTC))],
    ]
    assert got[2:] == got[:2]


def test_a_call_that_raised_may_be_made_again_under_its_name(at: Scene) -> None:
    got: list[Any] = []

    def away() -> int:
        raise ConnectionError("away")

    async def away_later() -> int:
        raise ConnectionError("away")

    async def there() -> int:
        return 8

    async def tried(step: Any) -> None:
        with pytest.raises(ConnectionError):
            await step.once("b", away_later)
        got.append(await step.once("b", there))

    def pricing(step: Any) -> None:
        with pytest.raises(ConnectionError):
            step.once("a", away)
        got.append(step.once("a", lambda: 7))
        asyncio.run(tried(step))

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert got == [7, 8]


class ReadAs(BaseModel):
    """It does not read what it writes."""

    x: str = Field(validation_alias="in_x", serialization_alias="out_x")


class Voucher(BaseModel):
    """Its text has asterisks in the place of its token, and no note."""

    token: SecretStr = SecretStr("t-1")
    note: str = Field(default="", exclude=True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda step: step.once("", lambda: 1), "names nothing to remember"),
        (lambda step: step.once("x" * 129, lambda: 1), "names nothing to remember"),
        (lambda step: step.once("a\ud800", lambda: 1), "names nothing to remember"),
        (lambda step: step.once(7, lambda: 1), "names nothing to remember"),
        (
            lambda step: [step.once("a", lambda: 1) for _ in range(2)],
            "two calls or blocks of one handler are named 'a'",
        ),
        (lambda step: step.once("a", 5), "has 5 to call; write a function"),
        (lambda step: step.once("a", lambda: pytest.fail("it was called"), 5), "result is no type"),
        (lambda step: step.once("a", lambda: pytest.fail("it was called"), "nope"), "result is no type"),
        (lambda step: step.key(""), "names nothing to remember"),
        (lambda step: step.key("\ud800"), "names nothing to remember"),
        (lambda step: step.modify("orders", {"id": "x"}, 5), "has 5 for its change"),
        (lambda step: step.once("a", object), "has made its call, and cannot remember the result"),
        (lambda step: step.once("a", itself), "has made its call, and cannot remember the result"),
        (
            lambda step: step.once("a", lambda: ReadAs(in_x="1"), ReadAs),
            "and cannot remember the result: its text is no",
        ),
        (lambda step: step.once("a", lambda: {"in": "1"}, ReadAs), "in_x: Field required"),
        (
            lambda step: step.once("a", lambda: pytest.fail("it was called"), list[Voucher] | None),
            "result would not come back: Voucher.token, Voucher.note (a secret, or exclude=True)",
        ),
        (lambda step: step.once("a", Voucher), "cannot remember the result: Voucher.token, Voucher.note (a secret"),
        (
            lambda step: step.once("a", lambda: random.Random(1).randbytes(450_000).hex()),
            "'a' is to remember is too large",
        ),
    ],
)
def test_what_cannot_be_remembered_ends_the_run_and_is_named(at: Scene, call: Any, error: str) -> None:
    at.script.pricing = call
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert error in str(item.error)
    assert item.status is Status.FAILED


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_result_that_this_code_cannot_read_is_of_another_release_and_parks_the_message(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        step.once("a", lambda: {"id": 1})
        boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    at.script.pricing = lambda step: step.once("a", lambda: {"id": 1}, Charge)
    at.receives = 3
    assert at.deliver(at.message(retry=1)) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, at.told(EventType.PARKED)) == (Status.RUNNING, 1)


@pytest.mark.parametrize("name", ["é" * 64, "a.b#c", "memo", "#name", ":no", "'; DROP TABLE"])
def test_any_printable_name_will_do(at: Scene, name: str) -> None:
    got: list[int] = []

    def pricing(step: Step[OrderState]) -> None:
        step.once("first", lambda: 0)
        step.once(name, lambda: got.append(1))
        if step.attempt == 1:
            boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert (got, at.priced()) == ([1], 1)


def test_a_key_is_a_uuid_of_the_hop_and_the_name(at: Scene) -> None:
    keys: list[str] = []

    def pricing(step: Step[OrderState]) -> None:
        keys.extend(step.key(name) for name in ("charge", "charge", "mail"))
        if step.attempt == 1:
            boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert [str(uuid.UUID(key)) for key in keys] == keys
    assert keys[0] == keys[1] == keys[3] == keys[4]
    assert len(set(keys)) == 2


# -- writes that are applied at once -----------------------------------------------------------------------------------


def reserving(at: Scene, *then: Callable[[Step[OrderState]], None]) -> None:
    rest = iter(then)

    def pricing(step: Step[OrderState]) -> None:
        with step.apply("reserve"):
            add(step)
            add(step, "log")
        next(rest, lambda step: None)(step)

    at.script.pricing = pricing


def test_a_block_is_applied_at_its_end_once_in_all_attempts_of_the_hop(at: Scene) -> None:
    met: list[int] = []

    def looks(step: Step[OrderState]) -> None:
        met.append(total(at, "total"))
        boom(step)

    reserving(at, looks, boom)
    for retry in (0, 1, 2):
        at.deliver(at.message(retry=retry))
    assert met == [1]
    assert (total(at, "total"), total(at, "log"), at.priced()) == (1, 1, 1)
    assert at.calls == ["UpdateItem", "TransactWriteItems"], "the last attempt knows from its claim that it was applied"


def test_a_block_stays_applied_where_its_run_fails_and_is_not_repeated_by_its_redrive(at: Scene) -> None:
    def rejects(step: Step[OrderState]) -> None:
        raise Reject("no")

    reserving(at, rejects)
    at.deliver(at.message())
    at.deliver(at.message(redrive=1))
    assert (total(at, "total"), at.priced()) == (1, 1)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_block_whose_answer_is_lost_is_applied_once(at: Scene, repeated: bool) -> None:
    """The second time under another token, as a call that comes after ten minutes."""
    reserving(at)

    def lost(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation != "TransactWriteItems" or len(call.params["TransactItems"]) != 3:
            return answer
        if repeated:
            params: Any = call.params
            params["ClientRequestToken"] = str(uuid.uuid4())
            return proceed()
        raise EndpointConnectionError(endpoint_url="https://dynamodb")

    with intercept(lost):
        at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert (total(at, "total"), total(at, "log"), at.priced(), at.told(EventType.FENCED)) == (1, 1, 1, 0)


def test_a_block_of_a_fenced_worker_applies_nothing(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        supersede(at)
        with step.apply("reserve"):
            add(step)

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (total(at, "total"), at.told(EventType.FENCED)) == (0, 1)


def test_a_condition_in_a_block_can_be_caught_and_nothing_of_it_is_applied(at: Scene) -> None:
    caught: list[Any] = []

    def pricing(step: Step[OrderState]) -> None:
        try:
            with step.apply("reserve"):
                add(step)
                step.check("orders", {"id": "stock"}, "n > :n", values={":n": 0})
        except ConditionFailed as error:
            caught.append(error.item)

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (caught, total(at, "total"), at.priced()) == ([None], 0, 1)


def test_what_a_block_records_is_not_applied_where_it_raises(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        try:
            with step.apply("reserve"):
                add(step)
                raise LookupError
        except LookupError:
            add(step, "other")

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (total(at, "total"), total(at, "other"), at.priced()) == (0, 1, 1)


def test_an_empty_block_makes_no_call(at: Scene) -> None:
    def pricing(step: Step[OrderState]) -> None:
        with step.apply("reserve"):
            pass

    at.script.pricing = pricing
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "TransactWriteItems"]


@pytest.mark.parametrize(
    ("within", "error"),
    [
        (lambda step: step.once("charge", lambda: 1), "'charge' is within a block of step.apply"),
        (lambda step: step.apply("inner").__enter__(), "'inner' is within a block of step.apply"),
        (
            lambda step: step.delete("orders", {"id": "x"}, condition="n > :n", else_go_on="x"),
            "else_go_on='x' is within step.apply; catch ConditionFailed",
        ),
    ],
)
def test_a_block_holds_nothing_but_plain_writes(at: Scene, within: Any, error: str) -> None:
    def pricing(step: Step[OrderState]) -> None:
        with step.apply("reserve"):
            within(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert error in str(item.error)


def again(at: Scene, **changes: Any) -> Message:
    """The same request id with a later time than that of the request which has had the object in between."""
    return at.message(requested_at=START - 100, **changes)


def stays(at: Scene) -> None:
    """The newer request's worker dies at its work, and writes nothing."""
    at.script.pricing = die
    with suppress(Died):
        at.deliver(at.newer())
    at.clock.advance(seconds=60)


def fails(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.newer())


@pytest.mark.parametrize("between", [supersede, fails, stays])
@pytest.mark.parametrize("dies_first", [False, True])
def test_a_new_run_under_an_old_id_makes_its_own_call(
    at: Scene, between: Callable[[Scene], None], dies_first: bool
) -> None:
    bank, got = charging(at, die)
    with suppress(Died):
        at.deliver(at.message())
    charge = at.script.pricing
    between(at)
    if dies_first:
        at.script.pricing = die
        with suppress(Died):
            at.deliver(again(at))
        at.clock.advance(seconds=60)
    at.script.pricing = charge
    assert at.deliver(again(at)) == [True]
    assert got[-1] == {"charge": 2}, "what the first run has remembered is not the second one's"
    assert len(bank.keys) == 2


def test_a_copy_with_a_later_time_remembers_what_its_hop_has_done(at: Scene) -> None:
    bank, got = charging(at, die, die)
    with suppress(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=60)
    with suppress(Died):
        at.deliver(again(at))
    at.clock.advance(seconds=60)
    assert at.deliver(again(at)) == [True]
    assert (len(bank.keys), got) == (1, [{"charge": 1}])


@pytest.mark.parametrize(
    ("made", "remembered"),
    [
        ({"paid": Decimal("1.10"), "on": date(2026, 1, 2)}, {"paid": Decimal("1.10"), "on": date(2026, 1, 2)}),
        ([datetime(2026, 1, 2, tzinfo=UTC), timedelta(days=1)], [datetime(2026, 1, 2, tzinfo=UTC), timedelta(days=1)]),
        ([{"at": OF_BOTO3}, Decimal("1.10")], [{"at": OF_BOTO3}, Decimal("1.10")]),
        ({"$": "as it is"}, {"$": "as it is"}),
        ({"n": 1, "text": "é", "none": None}, {"n": 1, "text": "é", "none": None}),
        ({"receipt": Receipt(number=7), "paid": Decimal("1.10")}, {"receipt": {"number": 7}, "paid": Decimal("1.10")}),
    ],
)
def test_what_is_remembered_without_a_type_comes_back_as_it_was(at: Scene, made: Any, remembered: Any) -> None:
    got: list[Any] = []

    def pricing(step: Step[OrderState]) -> None:
        got.append(step.once("made", lambda: made))
        if step.attempt == 1:
            boom(step)

    at.script.pricing = pricing
    at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert got == [remembered, remembered]


def test_a_result_that_is_no_number_is_refused_by_its_place(at: Scene) -> None:
    at.script.pricing = lambda step: step.once("made", lambda: [Decimal("1.10"), {"n": float("nan")}])
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert "has made its call, and cannot remember the result: list[1].n is NaN" in str(item.error)


@pytest.mark.parametrize("is_old_id", [False, True])
def test_a_handler_that_is_called_again_remembers_what_it_did_though_another_request_had_the_object(
    at: Scene, is_old_id: bool
) -> None:
    if is_old_id:
        charging(at, die)
        with suppress(Died):
            at.deliver(at.message())
    stays(at)
    bank, got = Bank(), []

    def pricing(step: Step[OrderState]) -> None:
        with step.apply("count"):
            add(step)
        got.append(bank.charge(step))
        step.put("orders", {"id": "none"}, condition="attribute_exists(id)", else_go_on="none")

    at.script.pricing = pricing
    newest = again(at) if is_old_id else at.message(request_id="newest", requested_at=START)
    assert at.deliver(newest) == [True]
    assert got == [{"charge": 1}, {"charge": 1}], "its write does not hold, so it is called again"
    assert (len(bank.keys), total(at, "total")) == (1, 1)

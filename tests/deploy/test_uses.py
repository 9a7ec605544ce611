"""What a stage uses is read from the source of its handler, and what cannot be read is named."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Bus, Done, Flow, Function, Outcome, Queue, Stage, Step, Topic
from flowguard.deploy.used import Uses, WaitUse
from flowguard.deploy.uses import uses_of

TABLE = "orders"
OTHER = "other-orders"
TOPIC = Topic("arn:aws:sns:us-east-1:123456789012:news")
AnyStep = Step[Any]


class Order(BaseModel):
    order_id: str


def reading(handle: Callable[[Any, Any, AnyStep], Outcome], then: tuple[str, ...] = ()) -> Uses:
    """What a stage with this handler uses."""
    about = {"name": "own", "then": then}
    own = types.new_class("Own", (Stage[Order],), about, lambda names: names.update(handle=handle))
    return uses_of(own)


class Last(Stage[Order], name="last"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Done()


class Asked(Flow, name="asked", object_id="order_id", inbox="asked-inbox"):
    stages = (Last,)


class Another(Flow, name="another", object_id="order_id"):
    stages = (Last,)


def test_the_methods_of_a_step_name_their_tables() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        step.put(TABLE, order)
        step.update(table=TABLE, key={}, change="ADD n :one")
        step.delete("gone", {"id": 1})
        step.check("seen", {"id": 1}, condition="attribute_exists(id)")
        step.newest_wins("new", order, "order_id")
        step.modify("changed", {"id": 1}, lambda item: item)
        return Done()

    found = reading(handle)
    assert found.tables == {
        "changed": {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"},
        "gone": {"DeleteItem"},
        "new": {"PutItem"},
        "orders": {"PutItem", "UpdateItem"},
        "seen": {"ConditionCheckItem"},
    }
    assert (found.unknown_tables, found.unknown_sends) == ((), ())


def test_messages_name_their_destinations() -> None:
    far = Queue("far")

    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        step.send("near", order)
        step.send(far, order)
        step.send(TOPIC if order.order_id else Function("print"), order)
        step.send(to=Bus("default", source="shop", detail_type="Placed"), payload=order)
        step.start(Asked, order)
        step.reset(Asked, order.order_id)
        step.cancel(Asked, order.order_id, why="a mistake")
        return Done()

    found = reading(handle)
    assert set(map(str, found.sends)) == {
        "sqs:near",
        "sqs:far",
        str(TOPIC),
        "lambda:print",
        "events:shop|Placed|default",
    }
    assert found.starts == {Asked}
    assert found.resets == {Asked}
    assert found.cancels == {Asked}
    assert not found.rows


def test_a_wait_names_its_stages_and_its_time() -> None:
    within = timedelta(hours=2)

    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_all(
            price=step.ask(Asked, order), parcel=step.ask("parcels", order), within=within, on_timeout="late"
        )

    found = reading(handle)
    assert found.waits == (WaitUse("last", ("price", "parcel"), timedelta(hours=2), ("late",)),)
    assert found.asks_flows == {Asked}
    assert found.asks == {Queue("parcels")}
    assert not found.sends
    assert (found.rows, found.early, found.tokens) == (True, False, False)


def test_a_wait_that_goes_on_at_one_of_two_stages_names_both() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        late = Last if order.order_id else "late"
        return Last.when_any(price=step.ask(Asked, order), within=timedelta(hours=1), on_timeout=late, on_error=None)

    found = reading(handle)
    assert found.waits == (WaitUse("last", ("price",), timedelta(hours=1), ("last", "late"), ()),)
    assert found.unread == []


def test_each_stage_of_then_counts_where_the_source_does_not_say_which() -> None:
    """Permissions for too few inboxes would let a wait end nowhere. What cannot be read is named."""

    def late(self: Any, order: Any, step: AnyStep) -> Outcome:
        return Last.when_any(price=step.ask(Asked, order), within=timedelta(hours=1), on_timeout=order.late)

    def failed(self: Any, order: Any, step: AnyStep) -> Outcome:
        return Last.when_any(price=step.ask(Asked, order), within=timedelta(hours=1), on_error=order.late)

    def handed(self: Any, order: Any, step: AnyStep) -> Outcome:
        return Last.when_any(price=step.ask(Asked, order), **order.options)

    def target(self: Any, order: Any, step: AnyStep) -> Outcome:
        wait: Outcome = order.next_stage.when_any(price=step.ask(Asked, order), within=timedelta(hours=1))
        return wait

    options, following = "order.options", "order.next_stage"
    for handle, what in ((late, "order.late"), (failed, "order.late"), (handed, options), (target, following)):
        found = reading(handle, then=("one", "two"))
        assert {name for wait in found.waits for name in wait.stages} >= {"one", "two"}, what
        why = f"which stage {what} is cannot be read, so each of then= counts"
        assert {place.what for place in found.unread_stages} == {why}
        assert found.unread == [*found.unread_stages]


def test_a_method_of_that_name_that_has_no_deadline_is_no_wait() -> None:
    def handle(self: Any, order: Any, step: AnyStep) -> Outcome:
        order.rules.when(order.order_id)
        return Done()

    assert (reading(handle).waits, reading(handle).unread) == ((), [])


def test_an_answer_of_another_flow_needs_no_row() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_any(price=step.ask(Asked, order), within=timedelta(minutes=1), on_error=Last)

    found = reading(handle)
    assert not found.rows
    assert found.waits[0].on_error == ("last",)


def test_a_flow_that_is_cancelled_with_the_run_that_asked_it_is_told_from_others() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_all(
            price=step.ask(Asked, order, cancel_too=True),
            stock=step.ask(Another, order, cancel_too=False),
            within=timedelta(minutes=1),
        )

    def unknown(self: Any, order: Any, step: AnyStep) -> Outcome:
        return Last.when_all(price=step.ask(Asked, order, cancel_too=order.often), within=timedelta(minutes=1))

    assert reading(handle).asks_flows == {Asked, Another}
    assert reading(handle).cancel_too == {Asked}
    assert reading(unknown).cancel_too == {Asked}


@pytest.mark.parametrize(("keep", "early"), [(True, True), (False, False)])
def test_an_event_that_may_be_kept_is_looked_up(keep: bool, early: bool) -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_all(paid=step.event("paid", keep_early=keep), within=timedelta(minutes=1))

    assert (reading(handle).rows, reading(handle).early) == (True, early)


def test_a_token_is_a_link() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_all(decision=step.token("decision"), within=timedelta(minutes=1))

    assert reading(handle).tokens
    assert reading(handle).rows


# -- functions that get the step


def note(table: str, step: AnyStep) -> None:
    step.put(OTHER, {"table": table})
    again(step=step)


def again(*, step: AnyStep) -> None:
    step.send("notes", {})
    note("more", step)


class Base(Stage[Order], abstract=True):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.put("base", order)
        return self.closed(step)

    def closed(self, step: AnyStep) -> Outcome:
        return Done()

    @staticmethod
    def kept(step: AnyStep) -> None:
        step.delete("kept", {"id": 1})


class Derived(Base, name="derived"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        self.kept(step)
        return super().handle(order, step)

    def closed(self, step: AnyStep) -> Outcome:
        step.put("closed", {})
        return Done()


def test_a_function_that_gets_the_step_is_read_too() -> None:
    def handle(self: Any, order: Order, work: AnyStep) -> Outcome:
        with work.apply("noted"):
            note(order.order_id, work)
        return Done()

    found = reading(handle)
    assert found.tables == {OTHER: {"PutItem"}}
    assert found.unknown_sends == ()
    assert found.sends == {Queue("notes")}


def test_methods_of_the_stage_and_of_its_bases_are_read() -> None:
    found = uses_of(Derived)
    assert set(found.tables) == {"base", "closed", "kept"}
    assert (found.unknown_tables, found.unknown_sends) == ((), ())


class Stock:
    def __init__(self, step: AnyStep, name: str = "stock") -> None:
        self._step = step
        self._name = name

    @property
    def counted(self) -> bool:
        self._step.check("counted", {"id": 1}, condition="attribute_exists(id)")
        return True

    def take(self) -> None:
        self._step.update("stock", {"id": 1}, "ADD n :one")
        self._note()

    def _note(self) -> None:
        note("taken", self._step)

    def never(self) -> None:
        self._step.delete("never", {"id": 1})


@dataclass
class Shelf:
    number: int
    step: AnyStep

    def fill(self, stock: Stock) -> None:
        self.step.put("shelves", {"n": self.number})
        stock.take()


def fill(shelf: Shelf) -> None:
    shelf.fill(Stock(step=shelf.step))


def test_an_object_that_keeps_the_step_uses_what_its_called_methods_use() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        stock, twice = Stock(step), 2
        for _ in range(twice):
            stock.take()
        return Done()

    found = reading(handle)
    assert found.tables == {"stock": {"UpdateItem"}, OTHER: {"PutItem"}}
    assert (found.unknown_tables, found.unknown_sends) == ((), ())


def test_a_property_is_read_and_so_are_dataclasses_and_functions_that_get_such_an_object() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        if Stock(step).counted:
            fill(Shelf(3, step))
        return Done()

    found = reading(handle)
    assert set(found.tables) == {"counted", "shelves", "stock", OTHER}
    assert (found.unknown_tables, found.unknown_sends) == ((), ())


class Hidden(Stock):
    def __init__(self, step: AnyStep) -> None:
        self._all = [step]


def test_an_object_that_keeps_the_step_somewhere_may_do_everything() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        Hidden(step).take()
        return Done()

    assert "handed to Hidden, which cannot be followed" in reading(handle).unknown_tables[0].what


def test_an_object_with_the_step_that_is_kept_elsewhere_may_do_everything() -> None:
    def handle(self: Any, order: Any, step: AnyStep) -> Outcome:
        stock = Stock(step)
        order.append(stock)
        return Done()

    assert "handed to order.append" in reading(handle).unknown_tables[0].what


# -- what cannot be read


def table_for(order: Order) -> str:
    return f"orders-{order.order_id}"


def test_a_table_that_is_made_as_it_runs_is_unknown() -> None:
    def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        step.put(table_for(order), order)
        step.put(f"orders-{order.order_id}", order)
        step.send("known", order)
        return Done()

    found = reading(handle)
    assert [place.what for place in found.unknown_tables] == ["the table in step.put(…) is not known"] * 2
    assert found.unknown_sends == ()
    assert all(place.file == __file__ and place.line for place in found.unknown_tables)


def test_a_local_name_is_what_it_is_assigned_and_a_parameter_is_unknown() -> None:
    def handle(self: Any, order: Any, step: AnyStep) -> Outcome:
        where = TABLE
        if order:
            where = OTHER
        step.put(where, {})
        for each in order:
            step.send(each, {})
        step.start(order, {})
        return Done()

    found = reading(handle)
    assert set(found.tables) == {TABLE, OTHER}
    assert len(found.unknown_sends) == 2


@pytest.mark.parametrize("way", ["kept", "listed", "starred", "printed", "made"])
def test_a_step_that_goes_where_nobody_can_follow_may_do_everything(way: str) -> None:
    def kept(self: Any, order: Any, step: AnyStep) -> Outcome:
        self.step = step
        return Done()

    def listed(self: Any, order: Any, step: AnyStep) -> Outcome:
        order.append([step])
        return Done()

    def starred(self: Any, order: Any, step: AnyStep) -> Outcome:
        order(*(1, step))
        return Done()

    def printed(self: Any, order: Any, step: AnyStep) -> Outcome:
        len(step)  # type: ignore[arg-type]  # on purpose
        return Done()

    def made(self: Any, order: Any, step: AnyStep) -> Outcome:
        Order(order_id=step)  # type: ignore[arg-type]  # on purpose
        return Done()

    handle = {"kept": kept, "listed": listed, "starred": starred, "printed": printed, "made": made}[way]
    found = reading(handle)
    assert found.unknown_tables
    assert found.unknown_sends
    assert all("step" in place.what for place in found.unknown_sends)


def test_a_handler_without_source_may_do_everything() -> None:
    names: dict[str, Any] = {"Done": Done}
    exec("def handle(self, order, step):\n    return Done()", names)  # noqa: S102 - source that is nowhere
    found = reading(names["handle"])
    assert "source of handle is not there" in found.unknown_tables[0].what


def test_a_group_is_asked_and_its_answers_are_read() -> None:
    def asks(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_group(step.group(Asked, []), within=timedelta(hours=1), on_timeout="late")

    def parties(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Last.when_group(step.group("parcels", []), within=timedelta(hours=1))

    def reads(self: Any, order: Order, step: AnyStep) -> Outcome:
        return Done(len(list(step.answers(dict))))

    found = reading(asks)
    assert (found.groups, found.group_answers) == (True, False)
    assert found.asks_flows == {Asked}
    assert found.waits == (WaitUse("last", (), timedelta(hours=1), ("late",)),)
    assert reading(parties).rows
    assert reading(parties).asks == {Queue("parcels")}
    assert not reading(parties).sends
    assert (reading(reads).groups, reading(reads).group_answers) == (False, True)


def test_an_async_handler_is_read_as_a_plain_one() -> None:
    async def handle(self: Any, order: Order, step: AnyStep) -> Outcome:
        step.put(TABLE, order)
        return Done()

    found = reading(handle)  # type: ignore[arg-type]  # it is awaited
    assert found.tables == {TABLE: {"PutItem"}}
    assert found.unknown_tables == ()

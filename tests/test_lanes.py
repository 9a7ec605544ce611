"""Lanes as inboxes say them: their queues, their shares, and the mistakes of a definition."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Callback, DefinitionError, Done, Flow, Outcome, Queue, Stage, Step, Topic
from flowguard.every import Every
from flowguard.flow import AnyFlow
from flowguard.lanes import Lane, shares
from flowguard.testing import schedule_event
from flowguard.wire.attributes import Attribute

NORMAL, URGENT, NIGHT = Lane("normal", "orders"), Lane("urgent", "orders-urgent", weight=3), Lane("night", "nightly")
BOTH = (NORMAL, URGENT)
IN_URGENT = {"lane": Attribute.string("urgent")}
IN_NORMAL = {"lane": Attribute.string("normal")}


def stage(name: str = "price", **options: Any) -> type[Stage[Any]]:
    class Made(Stage[dict[str, Any]], name=name, **options):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    return Made


def flow(*stages: type[Stage[Any]], **options: Any) -> AnyFlow:
    listed = stages or (stage(),)
    return type("Made", (Flow,), {"stages": listed}, name="orders", **{"object_id": "order_id", **options})


def problems(make: Any) -> tuple[str, ...]:
    with pytest.raises(DefinitionError) as raised:
        make()
    return raised.value.problems


def test_the_first_lane_is_the_inbox_of_what_names_none() -> None:
    made = flow(inbox=BOTH)
    entry = made.entry()
    assert made.inbox == made.inbox_of(entry) == Queue("orders")
    assert made.inboxes_of(entry) == (Queue("orders"), Queue("orders-urgent"))
    assert made.inbox_of(entry, IN_URGENT) == Queue("orders-urgent")
    assert made.inbox_of(entry, {"lane": Attribute.string("other")}) == Queue("orders")
    assert made.entrance(IN_URGENT) == ("price", Queue("orders-urgent"))


def test_a_stage_has_its_own_lanes_or_none() -> None:
    first, ship, pack = (
        stage(then=("ship", "pack")),
        stage("ship", inbox=(NIGHT, URGENT)),
        stage("pack", inbox="packing"),
    )
    made = flow(first, ship, pack, inbox=(NORMAL, Lane("urgent", "fast")))
    assert made.inbox_of(first, IN_URGENT) == Queue("fast")
    assert made.inbox_of(ship, IN_URGENT) == Queue("orders-urgent")
    assert made.inbox_of(ship) == Queue("nightly")
    assert made.inbox_of(pack, IN_URGENT) == Queue("packing")
    assert made.inboxes_of(pack) == (Queue("packing"),)


def test_a_stage_inherits_lanes_and_may_have_another_inbox() -> None:
    class Base(Stage[dict[str, Any]], abstract=True, inbox=BOTH):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class Kept(Base, name="kept"):
        pass

    class Other(Base, name="other", inbox="others"):
        pass

    class Said(Base, name="said"):
        inbox = "said"  # type: ignore[assignment]  # text becomes a queue

    assert (Kept.inbox, Kept.inbox_lanes) == (Queue("orders"), BOTH)
    assert (Other.inbox, Other.inbox_lanes) == (Queue("others"), ())
    assert Said.inbox == Queue("said")
    assert Said.inbox_lanes == ()


def test_an_attribute_that_a_stage_or_a_flow_calls_lanes_is_its_own() -> None:
    class Ship(Stage[dict[str, Any]], name="ship"):
        lanes = "sea"

        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class Orders(Flow, name="orders", object_id="order_id"):
        stages, lanes = (Ship,), 3

    assert (Ship.lanes, Ship.inbox, Orders.lanes, Orders.inbox) == ("sea", None, 3, Queue("orders"))


def test_a_flow_with_lanes_carries_the_lane_on() -> None:
    assert flow(inbox=BOTH, carry=("who",)).carry == ("who", "lane")
    assert flow(stage(inbox=BOTH)).carry == ("lane",)
    assert flow(inbox=BOTH, carry=("lane", "who")).carry == ("lane", "who")
    assert flow().carry == ()


def test_answers_have_a_queue_of_their_own_where_the_inbox_has_lanes() -> None:
    assert flow(inbox=BOTH).answers == Queue("orders-answers")
    assert flow(inbox=BOTH, answers="told").answers == Queue("told")
    assert flow(stage(inbox=BOTH)).answers == Queue("orders")


def test_a_message_has_the_lane_that_it_names_or_else_that_of_its_queue() -> None:
    made, night = flow(inbox=(*BOTH, NIGHT)), {"lane": Attribute.string("night")}
    ship = stage("ship", inbox=(Lane("normal", "ships"), Lane("night", "nightships")))
    later = flow(stage(then="ship", inbox=BOTH), ship)
    assert later.carried_from(night, "price", "orders-urgent") == night, "a later stage has it"
    assert later.carried_from(IN_URGENT, "ship", "ships") == IN_URGENT, "an earlier stage has it"
    assert later.carried_from({"lane": Attribute.string("fast")}, "ship", "nightships") == night
    plain = flow(stage(then="ship"), stage("ship"), carry=("lane",))
    assert plain.carried_from(night, "price", "orders") == night
    assert made.carried_from({}, "price", "orders-urgent") == IN_URGENT
    assert made.carried_from({}, "price", "orders") == IN_NORMAL
    assert made.carried_from(night, "price", "orders-urgent") == night
    assert flow().carried_from(night, "price", "orders") == {}


def test_where_no_queue_says_it_the_lane_is_the_first_where_requests_enter() -> None:
    ship = stage("ship", inbox=(URGENT, Lane("normal", "normal-ships")))
    made = flow(stage(then="ship", inbox=(NORMAL, Lane("urgent", "fast"))), ship)
    assert made.carried_from({}, "gone", "orders-urgent") == IN_NORMAL
    assert made.carried_from({}, "ship", None) == IN_NORMAL
    assert made.carried_from({}, "ship", "orders-urgent") == IN_URGENT
    assert flow(stage(then="ship"), ship).carried_from({}, "price", "orders") == {}


def test_a_name_that_a_stage_does_not_have_is_the_first_lane_where_requests_enter() -> None:
    ship, pack = (
        stage("ship", inbox=(URGENT, Lane("normal", "ships"))),
        stage("pack", inbox=(NIGHT, Lane("day", "daily"))),
    )
    made = flow(stage(then=("ship", "pack"), inbox=(NORMAL, Lane("fast", "fast"))), ship, pack)
    for name in ("fast", "strange"):
        assert made.inbox_of(ship, {"lane": Attribute.string(name)}) == Queue("ships")
        assert made.inbox_of(pack, {"lane": Attribute.string(name)}) == Queue("nightly")
    assert made.inbox_of(ship, {}) == Queue("ships"), "what is from before the flow had lanes"
    assert made.inbox_of(ship) == Queue("orders-urgent")
    assert made.inbox_of(ship, IN_URGENT) == Queue("orders-urgent")
    other = stage("ship", inbox=(NIGHT, Lane("fast", "rapid")))
    made = flow(stage(then="ship", inbox=(NORMAL, Lane("fast", "fast"))), other)
    assert made.inbox_of(other, IN_URGENT) == Queue("nightly"), "the first alone stands for others"
    assert flow(stage(then="ship"), ship).inbox_of(ship, {"lane": Attribute.string("fast")}) == Queue("orders-urgent")


@pytest.mark.parametrize(
    ("inbox", "told"),
    [
        ((NORMAL,), "its inbox: it has one lane; name its queue alone: inbox='orders'"),
        (NORMAL, "its inbox: it has one lane; name its queue alone: inbox='orders'"),
        ((Lane, Lane), "its inbox has <class 'flowguard.lanes.Lane'>; write lanes: "),
        ((NORMAL, "orders-urgent"), "its inbox has 'orders-urgent'; write lanes: (Lane('normal', 'a'), Lane("),
        (("orders", NORMAL), "its inbox has 'orders'; write lanes: "),
        ((NORMAL, Lane("normal", "x")), "its inbox: two lanes have the name 'normal'; give each its own"),
        ((NORMAL, Lane("urgent", "orders")), "its inbox: two lanes have the queue 'orders'; give each its own"),
        ((NORMAL, Lane("a b", "x")), "its inbox: the name of a lane is 'a b'; it must be 1 to 64 of: a-z"),
        ((NORMAL, Lane(7, "x")), "its inbox: the name of a lane is 7; it must be"),  # type: ignore[arg-type]
        ((NORMAL, Lane("u", 7)), "its inbox: lane 'u' has 7, which is no queue; write Lane('u', 'orders-u')"),  # type: ignore[arg-type]
        ((NORMAL, Lane("u", Topic("t"))), "its inbox: lane 'u' has Topic(arn='t'), which is no queue; write"),  # type: ignore[arg-type]
        ((NORMAL, Lane("u", "a b")), "its inbox: lane 'u': Queue('a b') has a form that AWS does not know"),
        ((NORMAL, Lane("u", "x.fifo")), "its inbox: lane 'u' has the FIFO queue 'x.fifo', and between lanes there is"),
        ((NORMAL, Lane("u", "x", 0)), "its inbox: lane 'u' has the weight 0; it is a whole number from 1 to 1,000"),
        ((NORMAL, Lane("u", "x", 1_001)), "its inbox: lane 'u' has the weight 1001; it is a whole number from 1"),
        ((NORMAL, Lane("u", "x", 1.5)), "its inbox: lane 'u' has the weight 1.5; it is a whole"),  # type: ignore[arg-type]
        ((NORMAL, Lane("u", "x", True)), "its inbox: lane 'u' has the weight True; it is a whole"),
        ((), "its inbox () is no queue or topic"),
    ],
)
def test_what_is_no_inbox_is_told_with_its_cure(inbox: Any, told: str) -> None:
    for make in (lambda: stage(inbox=inbox), lambda: flow(inbox=inbox)):
        assert any(problem.startswith(told) for problem in problems(make)), problems(make)


def test_lanes_that_are_right_are_taken() -> None:
    lanes = (Lane("normal", Queue("orders"), 1), Lane("u" * 64, "orders-urgent", 1_000))
    assert flow(inbox=lanes).inbox_lanes == lanes


def test_a_list_of_lanes_is_taken_for_a_tuple() -> None:
    assert flow(stage(), inbox=[*BOTH]).inbox_lanes == stage(inbox=[*BOTH]).inbox_lanes == BOTH


def test_two_stages_that_share_a_queue_share_all_lanes_of_it() -> None:
    first, same = stage(then="ship", inbox=BOTH), stage("ship", inbox=(Lane("normal", Queue("orders")), URGENT))
    assert flow(first, same).inboxes_of(same) == (Queue("orders"), Queue("orders-urgent"))
    told = "'price' and 'ship' both read the queue 'orders', and by other lanes; give both the same inbox=, or"
    for other in ("orders", (NORMAL, Lane("urgent", "fast")), (NORMAL, Lane("urgent", "orders-urgent", weight=2))):
        (problem, *_) = problems(lambda inbox=other: flow(first, stage("ship", inbox=inbox)))
        assert problem.startswith(told)
    (problem,) = problems(lambda: flow(first, stage("ship")))
    assert problem.startswith(told), "the inbox of the flow is named as the lane is"
    (problem,) = problems(lambda: flow(stage(then="ship", inbox="orders"), stage("ship", inbox=BOTH)))
    assert problem.startswith(told), "whichever is first"
    of_topic = flow(
        stage(then="ship", inbox=Topic("arn:aws:sns:eu-west-1:123456789012:orders")), stage("ship", inbox=BOTH)
    )
    assert of_topic.lanes_of(of_topic.by_name["ship"]) == BOTH


def test_an_attribute_is_left_for_the_lane() -> None:
    assert len(flow(inbox=BOTH, carry=tuple("abcde")).carry) == 6
    (problem,) = problems(lambda: flow(inbox=BOTH, carry=tuple("abcdef")))
    assert problem == "it carries 6 attributes, and its lanes need one; beside these SQS has room for 5"
    (problem,) = problems(lambda: flow(inbox=BOTH, carry=tuple("abcdefg")))
    assert problem.startswith("it carries 7 attributes; beside flowguard's own")
    assert flow(inbox=BOTH, carry=("lane", *"abcde")).carry == ("lane", *"abcde")
    for carry in ("who", None):
        (problem,) = problems(lambda given=carry: flow(inbox=BOTH, carry=given))
        assert problem.startswith(f"carry is {carry!r}; write a tuple")


def test_the_queue_of_a_lane_brings_no_answers_from_outside() -> None:
    callbacks = (Callback("orders-urgent", id="order_id"),)
    (problem,) = problems(lambda: flow(inbox=BOTH, callbacks=callbacks))
    assert "its callback's sqs:orders-urgent brings its own messages too" in problem


# -- schedules --------------------------------------------------------------------------------------------------------


def test_a_schedule_sends_to_its_lane() -> None:
    def brought(lane: str | None) -> tuple[str, bool]:
        made = flow(inbox=BOTH, every=(Every("rate(1 hour)", {"order_id": "o1"}, lane=lane),))
        (record,) = schedule_event(made)["Records"]
        return record["eventSourceARN"].rpartition(":")[2], '"lane"' in record["body"]

    assert brought("urgent") == ("orders-urgent", True)
    assert brought("normal") == ("orders", True)
    assert brought(None) == ("orders", False)


@pytest.mark.parametrize(("inbox", "names"), [(BOTH, "normal, urgent"), ("orders", "none")])
def test_a_schedule_for_a_lane_that_there_is_not_is_refused(inbox: Any, names: str) -> None:
    every = (Every("rate(1 hour)", {"order_id": "o1"}, lane="fast"),)
    assert problems(lambda: flow(inbox=inbox, every=every)) == (f"every: price has no lane 'fast'; it has {names}",)


# -- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "at_once", "given"),
    [
        ((1, 3), 20, [5, 15]),
        ((1, 3), 4, [2, 2]),
        ((1, 3), 5, [2, 3]),
        ((1, 1), 7, [4, 3]),
        ((1, 1, 2), 100, [25, 25, 50]),
        ((1, 1_000), 1_000, [2, 998]),
        ((1, 100, 1), 10, [2, 6, 2]),
        ((1, 2), 7, [2, 5]),
        ((3, 2), 9, [6, 3]),
    ],
)
def test_lanes_share_what_there_is_by_their_weights_and_have_two_each(
    weights: tuple[int, ...], at_once: int, given: list[int]
) -> None:
    lanes = tuple(Lane(f"l{number}", f"q{number}", weight) for number, weight in enumerate(weights))
    shared = shares(lanes, at_once)
    assert list(shared) == [f"q{number}" for number in range(len(lanes))]
    assert list(shared.values()) == given
    assert sum(given) == at_once


def test_a_queue_is_named_as_sqs_names_it_in_the_shares() -> None:
    arn = "arn:aws:sqs:eu-west-1:123456789012:orders-urgent"
    assert shares((NORMAL, Lane("urgent", arn)), 4) == {"orders": 2, "orders-urgent": 2}


def test_a_lane_is_a_value() -> None:
    assert Lane("a", "b") == Lane("a", "b", 1) == Lane("a", Queue("b"))
    assert Lane("a", "b") != Lane("a", "b", 2)

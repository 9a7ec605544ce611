"""The plan of a group: what is saved and sent, and every group that is refused, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.destinations import Queue
from flowguard.errors import GroupChanged, GroupUnsaved, Reject, RunFailed, SettingsError
from flowguard.flow import Flow
from flowguard.group import GroupEnd
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import AskGroup, Done, Outcome, WaitForGroup
from flowguard.protocol.groups import (
    MOST_IN_GROUP,
    MOST_IN_SHARD,
    MOST_PARTS,
    GroupPlan,
    GroupRequest,
    Member,
    NewShard,
    SavedPart,
    bound_key,
    group_key,
    key_of,
    whole_key,
)
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.run_orders import read_order
from flowguard.protocol.waiting import WaitPlan
from flowguard.recorded.awaitables import asked_group
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, REQUEST_ID, Message
from flowguard.worker.group_parts import SavedGroup
from flowguard.worker.group_planner import GroupPlanner, group_ask
from flowguard.worker.wait_planner import WaitPlanner
from tests.waits import record

MOMENT = 1_800_000_000_000
KEEP = 86_400_000
HOUR = timedelta(hours=1)
KEY = group_key("this attempt")


class Night(BaseModel):
    night: str


class Shop(BaseModel):
    shop_id: str


class Count(Stage[Shop], name="count"):
    def handle(self, shop: Shop, step: Step) -> Outcome:
        return Done()


class CountShop(Flow, name="count-shop", object_id="shop_id", version=4, trust_senders=True):
    stages = (Count,)


class AskShops(Stage[Night], name="ask-shops", then=("add-up", "loose", "wrong")):
    def handle(self, night: Night, step: Step) -> Outcome:
        return Done()


class AddUp(Stage[GroupEnd], name="add-up"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done()


class Loose(Stage[dict[str, Any]], name="loose", then="unnamed"):
    def handle(self, end: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Wrong(Stage[Night], name="wrong"):
    def handle(self, night: Night, step: Step) -> Outcome:
        return Done()


class Unnamed(Stage[GroupEnd], name="unnamed"):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        return Done()


class Recount(Flow, name="recount", object_id="night", max_hops=5, trust_senders=True):
    stages = (AskShops, AddUp, Loose, Wrong, Unnamed)


class InOrder(Flow, name="in-order", object_id="night", inbox=Queue("in.fifo"), trust_senders=True):
    stages = (AskShops, AddUp, Loose, Wrong, Unnamed)


def planner(flow: Any = Recount, **about: Any) -> GroupPlanner:
    known = Message(flow.name, "ask-shops", 1, ObjectId("n1"), RequestId("r1"), MOMENT - 10, "{}")
    return GroupPlanner(WaitPlanner(flow, known._replace(**about), MOMENT, KEEP), KEY)


def shops(*ids: str) -> list[tuple[str, Shop]]:
    return [(one, Shop(shop_id=one)) for one in ids]


def asked(requests: Any, to: Any = CountShop, **options: Any) -> WaitForGroup:
    chosen: dict[str, Any] = {"within": HOUR, **options}
    return AddUp.when_group(asked_group(to, requests, {}), **chosen)


class Saves:
    """Keeps what is saved."""

    def __init__(self) -> None:
        self.shards: list[NewShard] = []

    def __call__(self, shard: NewShard) -> None:
        self.shards.append(shard)


def saved(outcome: WaitForGroup, saves: Saves | None = None, by: GroupPlanner | None = None) -> SavedGroup:
    found = (by or planner()).saved(outcome, saves or Saves(), lambda: True)
    assert isinstance(found, SavedGroup)
    return found


# -- what is saved and sent --------------------------------------------------------------------------------------------


def test_requests_are_saved_a_shard_at_a_time_while_they_are_made() -> None:
    saves, made = Saves(), 0

    def requests() -> Iterator[tuple[str, Shop]]:
        nonlocal made
        for number in range(2 * MOST_IN_SHARD + 1):
            assert number // MOST_IN_SHARD == len(saves.shards)
            made += 1
            yield f"s{number}", Shop(shop_id=f"s{number}")

    outcome, plan = saved(asked(requests(), quorum=0.9), saves)
    assert made == plan.size == 2 * MOST_IN_SHARD + 1
    assert plan == GroupPlan(KEY, made, str(CountShop.inbox_of(Count)), MOMENT, "count-shop", "count", 4)
    assert [len(shard.requests) for shard in saves.shards] == [MOST_IN_SHARD, MOST_IN_SHARD, 1]
    assert [shard.spare for shard in saves.shards] == [9, 9, 0]
    assert [(shard.flow, shard.key, shard.number) for shard in saves.shards] == [("recount", KEY, n) for n in range(3)]
    assert {shard.expires_at for shard in saves.shards} == {MOMENT + 3_600_000 + KEEP}
    assert saves.shards[2].requests == [GroupRequest("s198", '{"shop_id":"s198"}', "s198")]
    assert outcome.stage == "add-up"


def test_the_wait_is_for_the_shards_and_its_deadline_goes_before_its_requests() -> None:
    by = planner(carried={"tenant": Attribute.string("t")})
    group = saved(asked(shops(*map(str, range(100))), on_timeout="loose"), by=by)
    sends, wait = by.planned(group)
    assert [(send.kind, send.to) for send in sends] == [
        (Kind.DEADLINE, Recount.answers),
        (Kind.ASK, Recount.answers),
    ]
    own = sends[1]
    assert json.loads(own.attributes[PLACE].value)["group"]["name"] == "group.0.0"
    assert (own.id, own.attributes[REQUEST_ID].value) == (f"{by.planner.message.hop_id}.group.0.0.on",) * 2
    assert (own.attributes["requestedat"].value, own.body) == (str(MOMENT), '{"group": "group.0.0"}')
    assert wait.deadline == MOMENT + 3_600_000
    assert (wait.spare, len(wait.rows)) == (0, 0)
    assert wait.begun().waiting == {"0", "1"}
    assert wait.begun().group == KEY
    assert WaitPlan.from_text(wait.plan.to_text()) == wait.plan


def test_a_request_to_a_flow_brings_its_answer_under_its_own_name() -> None:
    by, saves = planner(carried={"tenant": Attribute.string("t")}), Saves()
    plan = saved(asked(shops("a")), saves, by).plan
    own = AnswerAddress("recount", ObjectId("n1"), RequestId("r1"), MOMENT - 10, 1, "group.0.0", admits=True)
    carried = {"tenant": Attribute.string("t")}
    first = saves.shards[0].requests[0]
    asker = by.planner.message._replace(depth=2)
    send = group_ask(plan, first, "r1.1.group.0.0", own, Recount, carried, by.planner.signer, asker)
    assert (send.group, send.attributes["tenant"].value) == ("a", "t")
    assert (send.kind, send.to, send.body) == (Kind.ASK, CountShop.inbox_of(Count), '{"shop_id":"a"}')
    assert send.attributes[REQUEST_ID].value == "r1.1.group.0.0"
    assert json.loads(send.attributes[PLACE].value)["answer_to"] == own.as_json()
    assert json.loads(send.attributes[PLACE].value)["depth"] == 3


def test_a_request_to_a_party_outside_has_the_id_that_it_answers_under() -> None:
    by, saves = planner(), Saves()
    outcome = AddUp.when_group(
        asked_group("shops", [("a", "hello"), ("b", {"x": 1})], {"lang": "en"}), within=HOUR, quorum=1
    )
    plan = saved(outcome, saves, by).plan
    first, second = saves.shards[0].requests
    assert (first, second) == (GroupRequest("a", "hello"), GroupRequest("b", '{"x":1}'))
    own = by.planner.message.hop_id + ".group.0.0"
    address = AnswerAddress("recount", ObjectId("n1"), RequestId("r1"), MOMENT - 10, 1, "group", admits=True)
    carried = {"tenant": Attribute.string("t")}
    send = group_ask(plan, first, own, address, Recount, carried, by.planner.signer, by.planner.message)
    assert (send.to, send.body) == (Queue("shops"), "hello")
    assert {name: one.value for name, one in send.attributes.items()} == {
        "uniquerequestid": own,
        "requestedat": str(MOMENT),
        "tenant": "t",
        "lang": "en",
        PLACE: '{"depth":1}',
    }
    _, wait = by.planned(SavedGroup(outcome, plan))
    found = AwaitingRow(own.removesuffix(".0.0"), address, "add-up", MOMENT + 3_600_000 + KEEP)
    assert wait.rows == (found,)


def test_a_request_whose_flow_names_it_has_its_own_id() -> None:
    class Named(Flow, name="named", object_id="shop_id", request_id="shop_id", trust_senders=True):
        stages = (Count,)

    by, saves = planner(), Saves()
    plan = saved(asked(shops("a"), Named), saves, by).plan
    [request] = saves.shards[0].requests
    assert request.request_id not in ("", by.planner.message.hop_id + ".group.0.0")
    own = AnswerAddress("recount", ObjectId("n1"), RequestId("r1"), MOMENT - 10, 1, "group.0.0", admits=True)
    send = group_ask(plan, request, "r1.1.group.0.0", own, Recount, {}, by.planner.signer, by.planner.message)
    assert send.attributes[REQUEST_ID].value == request.request_id


def test_the_plan_of_a_group_is_read_as_it_was_written() -> None:
    plan = GroupPlan(KEY, 100, "sqs:shops", MOMENT, "", "", 1, {"lang": Attribute.string("en")})
    assert GroupPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize(
    "said", [None, "no JSON", "[]", '{"hop":1}', '["group"]', '"group"', '{"x":"group"}', "[" * 100_000 + '"group"']
)
def test_no_other_message_is_a_groups(said: str | None) -> None:
    attributes = {} if said is None else {PLACE: Attribute.string(said)}
    [envelope] = normalize({"Records": [record(attributes, "{}", "answers")]})
    assert isinstance(envelope, Envelope)
    assert read_order(envelope) is None


class Unsigned(Flow, name="unsigned", object_id="night"):
    stages = (AskShops, AddUp, Loose, Wrong, Unnamed)


def test_nothing_is_saved_of_a_group_whose_answers_nobody_would_believe() -> None:
    saves = Saves()
    with pytest.raises(SettingsError, match="unsigned believes answers and deadlines only with a signature"):
        saved(asked(shops("s1")), saves, planner(Unsigned))
    assert saves.shards == []


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(outcome: Any, by: GroupPlanner | None = None) -> str:
    """The words of the refusal. Nothing was saved."""
    saves = Saves()
    with pytest.raises(RunFailed, match="cannot wait: ") as found:
        saved(outcome, saves, by)
    assert saves.shards == []
    return str(found.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"within": None}, "it has no deadline; say within=timedelta"),
        ({"within": timedelta(0)}, "it is 1 second to 365 days"),
        ({"within": timedelta(days=366)}, "it is 1 second to 365 days"),
        ({"within": "an hour"}, "within "),
        ({"quorum": 0}, "quorum is 0; it is the share"),
        ({"quorum": 1.01}, "quorum is 1.01; it is the share"),
        ({"quorum": -0.5}, "quorum is -0.5"),
        ({"quorum": float("nan")}, "quorum is nan"),
        ({"quorum": True}, "quorum is True"),
        ({"quorum": "all"}, "quorum is 'all'"),
        ({"on_timeout": "nowhere"}, "on_timeout='nowhere' is no stage of recount"),
        ({"on_timeout": Unnamed}, "on_timeout='unnamed' is not in then= of 'ask-shops'"),
        ({"on_timeout": Wrong}, "'wrong' takes Night; after a group a stage takes GroupEnd"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_a_request_is_made(options: dict[str, Any], why: str) -> None:
    made: list[bool] = []

    def requests() -> Iterator[tuple[str, Shop]]:
        made.append(True)
        yield "a", Shop(shop_id="a")

    assert why in refused(asked(requests(), **options))
    assert made == []


def test_the_stage_that_goes_on_is_checked_too() -> None:
    group = asked_group(CountShop, shops("a"), {})
    assert "'wrong' takes Night" in refused(Wrong.when_group(group, within=HOUR))
    assert "'unnamed' is not in then=" in refused(Unnamed.when_group(group, within=HOUR))
    assert "answers and deadlines cannot come through" in refused(asked(shops("a")), planner(InOrder))
    assert "has made 5 hops, its max_hops" in refused(asked(shops("a")), planner(hop=5))
    unwrapped: Any = []
    assert "its group is list; write step.group" in refused(AddUp.when_group(unwrapped, within=HOUR))


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([], "its group has no requests"),
        (["a"], "pairs of a name and a payload, and one is str"),
        ([["a", Shop(shop_id="a")]], "pairs of a name and a payload, and one is list"),
        ([("a", Shop(shop_id="a"), 1)], "pairs of a name and a payload, and one is tuple"),
        ([(1, Shop(shop_id="a"))], "the name 1 is int, and no text"),
        ([("", Shop(shop_id="a"))], "the name '' "),
        ([("\ud800", Shop(shop_id="a"))], "the name '\\ud800' "),
        ([("a\x00", Shop(shop_id="a"))], "the name 'a\\x00' "),
        ([("x" * 257, Shop(shop_id="a"))], "has 257 characters of at most 256"),
        (shops("a", "b", "a"), "two requests of its group have the name 'a'"),
        ([("a", Shop(shop_id="x")), ("b", Shop(shop_id="x"))], "two requests of its group have the object 'x'"),
    ],
    ids=str,
)
def test_requests_that_cannot_be_are_refused_by_name(requests: Any, why: str) -> None:
    assert why in refused(asked(requests))


def test_two_shards_have_no_name_in_common() -> None:
    saves = Saves()
    names = [str(number) for number in range(MOST_IN_SHARD)]
    with pytest.raises(RunFailed, match="two requests of its group have the name '7'"):
        saved(asked(shops(*names, "7")), saves)
    assert len(saves.shards) == 1


def test_names_of_the_longest_are_taken_as_they_are() -> None:
    saves = Saves()
    saved(AddUp.when_group(asked_group("shops", [("\u3042" * 256, "x")], {}), within=HOUR), saves)
    assert saves.shards[0].requests[0].name == "\u3042" * 256


def test_a_request_does_not_take_the_object_from_its_own_run() -> None:
    class Again(Flow, name="recount", object_id="shop_id", trust_senders=True):
        stages = (Count,)

    assert "would take the object from this very run" in refused(asked(shops("n1"), Again))
    assert saved(asked(shops("n2"), Again)).plan.size == 1
    assert saved(asked(shops("n1"))).plan.size == 1  # it is another flow's


def test_a_payload_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="takes Shop, not Night"):
        saved(asked([("a", Night(night="n"))]))
    with pytest.raises(TypeError, match="cannot become JSON"):
        saved(asked([("a", {"x": object()})], "shops"))


def test_a_message_that_no_queue_takes_is_refused_before_it_is_saved() -> None:
    saves = Saves()
    for body in ("", "\x00", "x" * 2_000_000):
        with pytest.raises(Reject):
            saved(asked([("a", body)], "shops"), saves)
    assert saves.shards == []


def test_a_group_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.worker.group_planner.MOST_IN_GROUP", 2 * MOST_IN_SHARD)
    exact = shops(*map(str, range(2 * MOST_IN_SHARD)))
    assert saved(asked(exact)).plan.size == 2 * MOST_IN_SHARD
    with pytest.raises(RunFailed, match="it asks more than 198 requests, the most of a group"):
        saved(asked([*exact, ("more", Shop(shop_id="more"))]))
    assert MOST_IN_GROUP == 100_000


# -- what does not fit the time of one invocation ----------------------------------------------------------------------

SHOPS: Final = tuple(map(str, range(2 * MOST_IN_SHARD + 1)))
OTHERS: Final = (group_key("first"), group_key("second"))


def shards_in_time(count: int) -> Callable[[], bool]:
    """Time for so many shards, those that were saved before among them."""
    left = iter([True] * count)
    return lambda: next(left, False)


def a_part(outcome: WaitForGroup, shards: int, key: str, parts: Sequence[SavedPart] = ()) -> tuple[SavedPart, Saves]:
    saves = Saves()
    part = GroupPlanner(planner().planner, key).saved(outcome, saves, shards_in_time(shards), parts)
    assert isinstance(part, SavedPart)
    return part, saves


def the_rest(outcome: WaitForGroup, parts: Sequence[SavedPart], saves: Saves | None = None) -> SavedGroup:
    found = planner().saved(outcome, saves or Saves(), lambda: True, parts)
    assert isinstance(found, SavedGroup)
    return found


def test_what_an_invocation_has_no_time_for_is_saved_by_others_each_under_a_key_of_its_own() -> None:
    first, at_first = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    second, at_second = a_part(asked(shops(*SHOPS)), 2, OTHERS[1], [first])
    last = Saves()
    plan = the_rest(asked(shops(*SHOPS)), [first, second], last).plan
    saved_at = [[(one.key, one.number) for one in saves.shards] for saves in (at_first, at_second, last)]
    assert saved_at == [[(OTHERS[0], 0)], [(OTHERS[1], 1)], [(KEY, 2)]]
    assert (first.requests, second.requests, plan.size) == (99, 198, 199)
    assert [key_of(plan.key, shard) for shard in range(4)] == [*OTHERS[:2], KEY, KEY]
    assert [one.name for saves in (at_first, at_second, last) for s in saves.shards for one in s.requests] == [*SHOPS]


def test_a_part_is_read_as_it_was_written() -> None:
    part = SavedPart(KEY, 7, "d" * 64, MOMENT)
    assert SavedPart.from_text(part.to_text()) == part


def test_a_group_in_one_part_has_its_own_key_for_each_shard() -> None:
    assert whole_key([], KEY) == KEY
    assert [key_of(KEY, shard) for shard in (0, 1, 9_999)] == [KEY] * 3


def test_the_key_of_the_most_parts_is_small() -> None:
    parts = [SavedPart(KEY, 9 + end, "", 0) for end in range(MOST_PARTS - 1)]
    assert len(whole_key(parts, KEY)) < 2_048


def another(number: int) -> Iterator[tuple[str, Shop]]:
    for place, (name, shop) in enumerate(shops(*SHOPS)):
        yield (name, shop) if place != number else (name, Shop(shop_id="another"))


def renamed() -> Iterator[tuple[str, Shop]]:
    for name, shop in shops(*SHOPS):
        yield f"{name}x", shop


def swapped() -> Iterator[tuple[str, Shop]]:
    first, second, *rest = shops(*SHOPS)
    yield from (second, first, *rest)


@pytest.mark.parametrize(
    "requests",
    [
        lambda: another(0),
        lambda: another(MOST_IN_SHARD - 1),
        renamed,
        swapped,
        lambda: shops(*SHOPS[1:]),
        lambda: shops("new", *SHOPS),
        lambda: shops(*SHOPS[: MOST_IN_SHARD - 1]),
        lambda: shops(*SHOPS[:MOST_IN_SHARD][::-1]),
        list,
    ],
    ids=["first", "last of the part", "names", "order", "one less", "one more", "short", "reversed", "none"],
)
def test_a_group_that_does_not_begin_as_it_was_saved_is_refused(requests: Callable[[], Any]) -> None:
    part, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    saves = Saves()
    with pytest.raises(GroupChanged, match="'ask-shops' cannot wait: its first 99 requests are not those"):
        the_rest(asked(requests()), [part], saves)
    assert saves.shards == []


class TaggedShop(BaseModel):
    shop_id: str
    tags: set[int]


class CountTagged(Stage[TaggedShop], name="count"):
    def handle(self, shop: TaggedShop, step: Step) -> Outcome:
        return Done()


class CountTaggedShop(Flow, name="count-shop", object_id="shop_id", version=4, trust_senders=True):
    stages = (CountTagged,)


@pytest.mark.parametrize("to", [CountTaggedShop, Queue("shops")])
def test_sets_of_another_order_are_the_same_requests(to: Any) -> None:
    """A set of texts has another order in each process."""
    large = set(range(1_000))
    large.difference_update(set(range(1_000)) - {5, 8, 900})
    one, other = ([(name, TaggedShop(shop_id=name, tags=tags)) for name in SHOPS] for tags in ({5, 8, 900}, large))
    for _, shop in other:
        shop.tags = large
    assert other[0][1].model_dump_json() != one[0][1].model_dump_json()
    part, _ = a_part(AddUp.when_group(asked_group(to, one, {}), within=HOUR), 1, OTHERS[0])
    the_rest(AddUp.when_group(asked_group(to, other, {}), within=HOUR), [part])


def test_two_parts_of_which_the_generator_gives_only_the_first_are_refused() -> None:
    first, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    second, _ = a_part(asked(shops(*SHOPS)), 2, OTHERS[1], [first])
    for count in (1, MOST_IN_SHARD, MOST_IN_SHARD + 1, 2 * MOST_IN_SHARD - 1):
        with pytest.raises(GroupChanged, match="its first 198 requests"):
            the_rest(asked(shops(*SHOPS[:count])), [first, second])


def test_a_quorum_that_changed_is_refused_since_the_saved_shards_have_the_other() -> None:
    part, _ = a_part(asked(shops(*SHOPS), quorum=0.5), 1, OTHERS[0])
    with pytest.raises(GroupChanged):
        the_rest(asked(shops(*SHOPS)), [part])


def cancellable(requests: Any, to: Any = CountShop) -> WaitForGroup:
    return AddUp.when_group(asked_group(to, requests, {}, cancel_too=True), within=HOUR)


def test_the_key_of_what_may_be_cancelled_says_where_its_requests_go() -> None:
    saves = Saves()
    plan = the_rest(cancellable(shops("a", "b")), (), saves).plan
    assert plan.key == bound_key(KEY, "sqs:count-shop", "count-shop", "count") != KEY
    assert [shard.key for shard in saves.shards] == [plan.key]
    assert plan.is_bound
    changed: tuple[dict[str, Any], ...] = ({"to": "sqs:x"}, {"flow": "x"}, {"stage": "x"}, {"key": KEY})
    for changes in (*changed, {"key": f"g-1<1 {plan.key}"}):
        assert not plan._replace(**changes).is_bound
    part, at_first = a_part(cancellable(shops(*SHOPS)), 1, OTHERS[0])
    whole = the_rest(cancellable(shops(*SHOPS)), [part]).plan
    assert [shard.key for shard in at_first.shards] == [part.key] == [key_of(whole.key, 0)]
    assert whole.is_bound


def test_a_release_whose_requests_go_elsewhere_does_not_go_on_with_the_parts_of_another() -> None:
    class Moved(Flow, name="count-shop", object_id="shop_id", inbox="moved", version=4, trust_senders=True):
        stages = (Count,)

    part, _ = a_part(cancellable(shops(*SHOPS)), 1, OTHERS[0])
    with pytest.raises(GroupChanged, match="its first 99 requests"):
        the_rest(cancellable(shops(*SHOPS), Moved), [part])
    plain, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    assert the_rest(asked(shops(*SHOPS), Moved), [plain]).plan.to == "sqs:moved"


def test_what_comes_after_the_parts_may_be_other_requests() -> None:
    part, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    assert the_rest(asked(another(MOST_IN_SHARD)), [part]).plan.size == 199
    assert the_rest(asked(shops(*SHOPS[:MOST_IN_SHARD])), [part]).plan.size == MOST_IN_SHARD


def test_a_name_that_was_saved_before_is_not_taken_again() -> None:
    part, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    with pytest.raises(RunFailed, match="two requests of its group have the name '7'"):
        the_rest(asked(shops(*SHOPS[:MOST_IN_SHARD], "7")), [part])


@pytest.mark.parametrize("shards", [0, 1])
def test_an_invocation_that_saves_nothing_more_has_failed(shards: int) -> None:
    part, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    with pytest.raises(GroupUnsaved, match="no time was left to save a request after 99 that were saved before"):
        a_part(asked(shops(*SHOPS)), shards, OTHERS[1], [part])
    with pytest.raises(GroupUnsaved, match="after 0 that were saved before; give its function more"):
        a_part(asked(shops("a")), 0, OTHERS[1])


def test_a_group_has_at_most_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.worker.group_planner.MOST_PARTS", 2)
    first, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    with pytest.raises(RunFailed, match="its group was not saved in 2 invocations; give its function more time"):
        a_part(asked(shops(*SHOPS)), 2, OTHERS[1], [first])
    assert the_rest(asked(shops(*SHOPS)), [first]).plan.size == 199


@pytest.mark.parametrize("late", [0, 1])
def test_parts_that_expire_before_the_others_are_refused(late: int) -> None:
    part, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    second = part._replace(end=2, begun_at=MOMENT + 1)
    parts = [part._replace(begun_at=MOMENT - KEEP // 2 - late), second]
    with pytest.raises(RunFailed, match="saved so long ago" if late else "its first 198 requests are not those"):
        the_rest(asked(shops(*SHOPS)), parts)


def test_the_age_of_a_part_is_that_of_the_first() -> None:
    first, _ = a_part(asked(shops(*SHOPS)), 1, OTHERS[0])
    assert first.begun_at == MOMENT
    second, _ = a_part(asked(shops(*SHOPS)), 2, OTHERS[1], [first._replace(begun_at=MOMENT - 5)])
    assert second.begun_at == MOMENT - 5


def test_an_error_of_the_generator_is_its_own() -> None:
    def requests() -> Iterator[tuple[str, Shop]]:
        yield "a", Shop(shop_id="a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        saved(asked(requests()))


@pytest.mark.parametrize(
    ("to", "attributes", "why"),
    [
        (object(), {}, "is no flow, nor a destination"),
        (CountShop, {"a": "b"}, "attributes are for parties outside, and count-shop is a flow"),
    ],
    ids=["no destination", "a flow with attributes"],
)
def test_where_nothing_can_be_asked_no_group_is_made(to: Any, attributes: Any, why: str) -> None:
    with pytest.raises(RunFailed, match=why):
        asked_group(to, [], attributes)
    assert asked_group("shops", [], {}) == AskGroup(Queue("shops"), [], {})


@pytest.mark.parametrize(
    "text", ["", "a", "group.0", "group.0.99", "group.00.1", "group.1.01", "group.-1.1", "xgroup.0.1", "group.0.1\n"]
)
def test_no_other_name_is_taken_for_a_request_of_a_group(text: str) -> None:
    assert Member.parse(text) is None
    assert Member.parse(Member(1_020, 98).text) == (1_020, 98)

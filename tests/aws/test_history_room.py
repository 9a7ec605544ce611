"""The history costs no write unit: each write of a run costs what it costs without one, at every size.

The commit of a run that fails for good may cost one more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import ceil
from string import printable
from typing import Any

import pytest

from flowguard.aws import history_room
from flowguard.aws.clients import Clients
from flowguard.aws.history_rows import read_rows
from flowguard.aws.items import ASKER, number, record_item, run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.destinations import Queue
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.callers import Caller, Callers
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import BackOff, Claim, ClaimRequest, Commit, Committed, NewWait, Status
from flowguard.protocol.run_history import LONGEST, How, read_history
from flowguard.protocol.waiting import Late, WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.turn import Turn
from tests.aws.engines import on_dynamodb_local, on_memory
from tests.proofs.bench.wrus import item_size

NOISE = "".join(random.Random(7).choices(printable[:94], k=4_000))
"""Hardly smaller when it is compressed."""

AT = 1_800_000_123_457
KB = 1_024


class Run:
    """A run of an object of its own, driven call by call. A second run of the object takes over from it."""

    def __init__(self, store: DynamoDBStore, object_id: str) -> None:
        self.store = store
        self.object_id = ObjectId(object_id)
        self.now = AT

    def claim(self, stage: str, hop: int, run: int = 1, **changes: Any) -> Claim:
        self.now += 1_237
        message = Message(
            "orders", stage, 1, self.object_id, RequestId(f"web-{run}"), AT - 7 + run, "{}", hop=hop, **changes
        )
        until = self.now + 30_000
        asked = ClaimRequest(
            message, Owner(f"owner-{self.now}"), self.now, until, OnConflict.SUPERSEDE, 0, AT + 2_000_000_000
        )
        found = self.store.claim(asked)
        assert isinstance(found, Claim)
        return found

    def commit(self, claim: Claim, status: Status, state: str, body: str = "", **changes: Any) -> None:
        self.now += 61
        send = Send(Kind.NEXT, Queue("next"), body, f"{claim.message.request_id}-0123456789abcdef.{claim.message.hop}")
        outbox = Outbox(claim.message.request_id, self.now, (send,)) if body else None
        self.store.commit(claim, Commit(status, self.now, AT + 2_000_000_000, outbox, state, **changes))


def play(store: DynamoDBStore, object_id: str, state: int, body: int) -> None:
    """Three hops, one of which is tried again in place, and a newer run that fails."""
    run, text = Run(store, object_id), NOISE[:state]
    run.commit(run.claim("price-order", 1), Status.RUNNING, text, NOISE[:body])
    second = run.claim("reserve-goods", 2)
    run.store.release(second, run.now + 11, failed=True)
    run.now += 20_000
    run.commit(run.claim("reserve-goods", 2, retry=1), Status.RUNNING, text, NOISE[:body])
    run.commit(run.claim("close-order", 3), Status.COMPLETED, text, result="r" * 20)
    late = run.claim("price-order", 1, run=2)
    error = ErrorNote("Reject", "the card is declined", run.now)
    run.commit(late, Status.FAILED, text, NOISE[:body], error=error)


class Sizes:
    """The units of each write, by the bytes of the item before and after it, as DynamoDB's documents count them."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.units: list[int] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem":
            return proceed()
        before = self._size(call)
        answer = proceed()
        self.units.append(ceil(max(before, self._size(call)) / KB))
        return answer

    def _size(self, call: ApiCall) -> int:
        key: Any = call.params["Key"]
        return item_size(self._clients.dynamodb.get_item(TableName="flowguard", Key=key).get("Item", {}))


class Asked:
    """The units of each write, as the engine says."""

    def __init__(self, _: Clients) -> None:
        self.units: list[float] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        self.units.append(answer["ConsumedCapacity"]["CapacityUnits"])
        return dict(answer)


def units(
    clients: Clients, counting: Callable[[Clients], Sizes | Asked], object_id: str, state: int, body: int
) -> list[float]:
    store, counter = aws_store(Settings(), clients), counting(clients)
    with intercept(counter):
        play(store, object_id, state, body)
    return list(counter.units)


def history(clients: Clients, object_id: str) -> str:
    key: Any = run_key("orders", ObjectId(object_id))
    found: Any = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    return str(found.get("history", {}).get("S", ""))


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the history away from the writes that follow."""

    def take_away() -> None:
        for name in ("room_after_commit", "room_in_claimed"):
            monkeypatch.setattr(f"flowguard.aws.commit_call.{name}", lambda *_: 0)

    return take_away


def around_a_kb(step: int) -> Iterator[tuple[int, int]]:
    """Sizes of the state and of the next message at which the item passes one KB and two."""
    yield from ((state, 150) for state in range(0, 2_400, step))
    yield from ((300, body) for body in range(0, 1_900, step))


def compared(
    clients: Clients, counting: Callable[[Clients], Sizes | Asked], no_room: Callable[[], None], step: int
) -> tuple[list[int], list[int]]:
    """Play each size with the history and without it, and compare each write. Return how many lines are kept of each.

    The second list has the units of the dearest write of each.
    """
    sizes = list(enumerate(around_a_kb(step)))
    found = [units(clients, counting, f"with-{n}", *one) for n, one in sizes]
    kept = [len(read_history(history(clients, f"with-{n}"))) for n, _ in sizes]
    no_room()
    bare = [units(clients, counting, f"bare-{n}", *one) for n, one in sizes]
    assert [one for (_, one), a, b in zip(sizes, found, bare, strict=True) if a[:-1] != b[:-1]] == []
    assert {a[-1] - b[-1] for a, b in zip(found, bare, strict=True)} == {0, 1}, "the failed run's commit"
    return kept, [int(max(one)) for one in bare]


@pytest.mark.slow("writes a run of every size")
def test_no_write_of_a_run_costs_more_with_its_history_at_any_size(no_room: Callable[[], None]) -> None:
    with on_memory() as clients:
        kept, dearest = compared(clients, Sizes, no_room, 79)
    assert set(dearest) == {1, 2, 3}
    assert set(kept) >= {1, 2, 3, 5}, "where there is little room, the newest lines are kept"
    assert sum(one == 5 for one in kept) > len(kept) / 2


@pytest.mark.proof("the same on a real engine, which counts units itself")
def test_a_real_engine_counts_no_unit_for_a_history(no_room: Callable[[], None], dynamodb_local_url: str) -> None:
    kept, dearest = compared(on_dynamodb_local(dynamodb_local_url), Asked, no_room, 211)
    assert set(dearest) == {1, 2, 3}
    assert len(set(kept)) > 1, "some have little room"


# -- the count --------------------------------------------------------------------------------------------------------

LATE = record_item(Late(1, frozenset({"left", "right"}), None))
NEWER = {"M": {"request_id": {"S": "web-1"}, "at": number(AT), "why": {"S": "the customer called"}}}
OLD_FAILURE = record_item(FailedHop(RequestId("web-0"), AT - 90_017, 1, 0, ErrorNote("Reject", "no", AT - 80_017)))
OWN_FAILURE = record_item(FailedHop(RequestId("web-1"), AT - 6, 1, 0, ErrorNote("Reject", "no", AT - 80_017)))
LIST = record_item(Callers("owner", {"web-3": Caller(RequestId("web-3"), AT, "sqs:replies").to_text()}))
ASKED = {f"{ASKER}0123": {"S": "x" * 99}}
MEMO = {
    "M": {
        "request_id": {"S": "web-1"},
        "hop": number(2),
        "results": {"M": {"rate": {"M": {"text": {"S": "12"}}}}},
    }
}
PLAN = WaitPlan("add-up", {"left": None, "right": "web-1.right"}, on_timeout="remind")
MORE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "late": {"late": LATE},
    "a cancellation": {"cancelled": NEWER},
    "the failure of the run before": {"failed": OLD_FAILURE},
    "the failure of this run": {"failed": OWN_FAILURE},
    "callers": {"callers": LIST, "answered": LIST, "answered_key": {"S": "key"}, "answered_by": {"S": "w" * 60}},
    "askers": ASKED,
    "what it remembers": {"memo": MEMO},
    "a state": {"state": {"S": NOISE[:150]}},
    "rows of a full history": {"full_history": {"BOOL": True}},
    "the look of the hop before": {"by_look": number(123_456)},
}


def after_a_hop(clients: Clients, **more: Any) -> tuple[Run, Claim]:
    """The claim of the second hop, where the item has more than most."""
    run = Run(aws_store(Settings(), clients), "o-ü")
    run.commit(run.claim("price-order", 1), Status.RUNNING, "{}", NOISE[:300])
    key: Any = run_key("orders", run.object_id)
    item = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    clients.dynamodb.put_item(TableName="flowguard", Item={**item, **more})
    return run, run.claim("reserve-goods", 2)


def left_below(clients: Clients, run: Run) -> int:
    """What is left below the next KB of the item without its history."""
    key: Any = run_key("orders", run.object_id)
    item = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    item.pop("history", None)
    names = item.pop("waiting", {"SS": []})["SS"]
    size = item_size(item) + (len("waiting") + 3 + sum(1 + len(one) for one in names) if names else 0)
    return -size % KB - len("history")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each commit counts as left below the next KB. No history is written meanwhile."""
    left: list[int] = []

    def counting(most: int, least: int | None = None) -> int:
        left.append(-most % KB - len("history"))
        return 0

    monkeypatch.setattr(history_room, "_room", counting)
    monkeypatch.setattr(history_room, "_SURELY_BELOW", 0)
    return left


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("status", [Status.RUNNING, Status.COMPLETED, Status.WAITING])
def test_a_commit_counts_the_room_that_the_item_has(more: str, status: Status, counted: list[int]) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients, **MORE[more])
        wait = NewWait(PLAN, 1, AT + 999_983) if status is Status.WAITING else None
        counted.clear()
        run.commit(claim, status, '{"total":7}', NOISE[:300], wait=wait, result="12" if wait is None else None)
        assert 0 <= left_below(clients, run) - counted[0] <= history_room.UNSURE


@pytest.mark.parametrize("look", [0, 7, 123_456])
def test_a_commit_counts_the_look_that_it_notes(look: int, counted: list[int]) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients)
        claim = claim._replace(message=claim.message._replace(turn=Turn(AT, "customer#0123", look)))
        counted.clear()
        run.commit(claim, Status.RUNNING, '{"total":7}', NOISE[:300])
        assert 0 <= left_below(clients, run) - counted[0] <= history_room.UNSURE


def test_a_commit_does_not_count_the_look_that_it_removes(counted: list[int]) -> None:
    rooms = []
    for more in ({}, {"by_look": number(123_456)}):
        with on_memory() as clients:
            run, claim = after_a_hop(clients, **more)
            counted.clear()
            run.commit(claim, Status.RUNNING, '{"total":7}', NOISE[:300])
            rooms.append(counted[0])
    assert rooms[0] == rooms[1]


def test_a_commit_counts_the_kills_that_its_hop_has_and_no_others(counted: list[int]) -> None:
    left: list[int] = []
    for kills in (0, 2):
        with on_memory() as clients:
            run, claim = after_a_hop(clients)
            claim = claim._replace(item=claim.item._replace(kills=kills))
            if kills:
                run.store.note_kills(claim)
            counted.clear()
            run.commit(claim, Status.COMPLETED, '{"total":7}', NOISE[:300], result="12")
            left.append(left_below(clients, run) - counted[0])
    assert left[1] - left[0] == 1, "there is room for a second digit"


@pytest.mark.parametrize("more", ["nothing", "rows of a full history"])
def test_a_commit_with_a_row_counts_the_mark_in_the_item(more: str, counted: list[int]) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients, **MORE[more])
        counted.clear()
        run.commit(claim, Status.RUNNING, '{"total":7}', NOISE[:300])
        without = counted[0], left_below(clients, run)
        counted.clear()
        run.commit(run.claim("close-order", 3), Status.RUNNING, '{"total":7}', NOISE[:300], told_until=AT)
        assert without[0] - counted[0] == without[1] - left_below(clients, run)


@pytest.mark.parametrize("more", [one for one in MORE if one != "callers"])
def test_a_retry_counts_the_room_that_the_claimed_item_has(more: str, counted: list[int]) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients, **MORE[more])
        counted.clear()
        run.store.release(claim, run.now, failed=True)
        assert 0 <= left_below(clients, run) - counted[0] <= history_room.UNSURE


@pytest.mark.parametrize(
    ("most", "least", "room"),
    [
        (1_000, None, 17),
        (1_017, None, 0),
        (1_024, None, -7),
        (1_025, None, -8),
        (1_024 + 32, None, -39),
        (1_024 + 33, None, KB - 40),
        (1_100, 1_040, 1_024 - 1_100 - 7),
        (1_100, 1_060, 2_048 - 1_100 - 7),
        (0, None, KB - 7),
    ],
)
def test_the_room_ends_at_the_kb_that_the_item_surely_begins(most: int, least: int | None, room: int) -> None:
    assert history_room._room(most, least) == room


def test_where_there_never_was_room_the_item_has_no_history(no_room: Callable[[], None]) -> None:
    no_room()
    with on_memory() as clients:
        run, claim = after_a_hop(clients)
        run.commit(claim, Status.RUNNING, "{}", "b")
        key: Any = run_key("orders", run.object_id)
        assert "history" not in clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]


def test_a_retry_of_a_first_hop_counts_the_text_that_has_claimed_it(counted: list[int]) -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        claim = run.claim("price-order", 1)
        run.store.release(claim, run.now, failed=True)
        assert 0 <= left_below(clients, run) - counted[-1] <= history_room.UNSURE


def test_a_retry_of_a_hop_that_has_waited_does_not_let_the_history_grow() -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients)
        waited = claim._replace(item=claim.item._replace(wait=NewWait(PLAN, 1, AT + 999_983).begun()))
        run.store.release(waited, run.now + 5, failed=True)
        assert len(read_history(history(clients, run.object_id))) == 1


def test_a_failed_end_keeps_all_lines() -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients)
        run.commit(claim, Status.FAILED, "{}", NOISE[:900], error=ErrorNote("Reject", "no", run.now))
        assert len(read_history(history(clients, run.object_id))) == 2


def test_where_there_is_no_room_the_lines_that_were_there_go(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients)
        assert history(clients, run.object_id) != ""
        monkeypatch.setattr("flowguard.aws.commit_call.room_after_commit", lambda *_: 0)
        run.commit(claim, Status.RUNNING, "{}", "b")
        assert history(clients, run.object_id) == ""


@pytest.mark.parametrize(
    ("hops", "state", "end", "lines"),
    [
        (1, 1_200, Status.RUNNING, 1),
        (2, 1_200, Status.RUNNING, 1),
        (2, 10, Status.RUNNING, 2),
        (2, 1_200, Status.COMPLETED, 2),
    ],
    ids=["first hop", "later hop", "of a small item", "an end"],
)
def test_where_nobody_has_counted_the_first_message_the_history_does_not_grow(
    hops: int, state: int, end: Status, lines: int
) -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        more: dict[str, Any] = {"takes_callers": True, "first_message": "{}"}
        run.commit(run.claim("price-order", 1), Status.RUNNING, NOISE[:state], "b", **more)
        if hops == 2:
            run.commit(run.claim("a", 2), end, NOISE[:state], "b", takes_callers=True)
        assert len(read_history(history(clients, run.object_id))) == lines


def test_however_much_room_there_is_the_history_is_no_longer_than_it_may_be() -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        for hop in range(1, 9):
            run.commit(run.claim("s" * 40, hop), Status.RUNNING, NOISE[:1_100], "b")
            assert len(history(clients, run.object_id).encode()) <= LONGEST
        for retry in range(8):
            run.store.release(run.claim("s" * 40, 9, retry=retry), run.now + 1, failed=True)
        found = history(clients, run.object_id)
        assert LONGEST // 2 < len(found.encode()) <= LONGEST
        assert {one.how for one in read_history(found)} == {How.RETRIED}


@pytest.mark.parametrize(
    ("status", "texts", "change"),
    [
        (Status.RUNNING, {"outbox": 100}, -106),
        (Status.RUNNING, {"state": 9}, 0),
        (Status.WAITING, {"outbox": 100}, 0),
        (Status.COMPLETED, {"outbox": 100, "result": 50}, -56 + len("stages") + 3 + 55),
    ],
)
def test_the_next_claim_drops_what_was_sent_or_stored_and_adds_its_stage(
    status: Status, texts: dict[str, int], change: int
) -> None:
    with on_memory() as clients:
        item = Run(aws_store(Settings(), clients), "o-1").claim("price-order", 1).item
    own = 1_000 + change + 1 + len("web-1")
    commit = Commit(status, AT, AT, None, None)
    assert history_room._after_next_claim(1_000, item, commit, texts) == (own + 48, own)


def test_a_flag_is_a_byte() -> None:
    assert history_room._value_size({"M": {"undone": {"BOOL": True}}}) == 3 + 1 + len("undone") + 1


@pytest.mark.parametrize("more", ["callers", "nothing"])
def test_a_commit_that_closes_a_list_counts_what_it_leaves(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(most: int, least: int | None = None) -> int:
        counted.append(-most % KB - len("history"))
        return 0

    monkeypatch.setattr(history_room, "_room", counting)
    with on_memory() as clients:
        run, claim = after_a_hop(clients, **MORE[more])
        counted.clear()
        run.commit(claim, Status.COMPLETED, NOISE[:500], NOISE[:300], takes_callers=True, result="12")
        assert 0 <= left_below(clients, run) - counted[0] <= history_room.UNSURE


@pytest.mark.parametrize("outbox", [True, False])
def test_a_retry_of_an_item_with_an_outbox_does_not_let_the_history_grow(outbox: bool) -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        if outbox:
            run.commit(run.claim("price-order", 1), Status.COMPLETED, "{}", "b")
        claim = run.claim("price-order", 1, run=2)
        run.store.release(claim, run.now + 5, failed=True)
        assert [one.how for one in read_history(history(clients, run.object_id))] == [How.RETRIED]


def test_a_release_of_what_was_not_begun_tells_nothing() -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        run.store.release(run.claim("price-order", 1), run.now, failed=False)
        assert history(clients, run.object_id) == ""


@pytest.mark.parametrize("garbled", [{"N": "7"}, {"S": "x" * 257}, {"S": "\n,,"}, {"M": {}}, {"B": b"\xff"}])
def test_a_garbled_history_keeps_no_run_from_going_on(garbled: dict[str, Any]) -> None:
    with on_memory() as clients:
        run, claim = after_a_hop(clients, history=garbled)
        run.commit(claim, Status.RUNNING, "{}", "b")
        [own] = read_history(history(clients, run.object_id))
        assert (own.hop, own.how) == (2, How.COMMITTED)


@pytest.mark.parametrize("stage", ["s" * 255, "ü" * 127, "a\nb,c"])
def test_a_hostile_stage_at_the_limit_leaves_the_newest_lines(stage: str) -> None:
    with on_memory() as clients:
        run = Run(aws_store(Settings(), clients), "o-1")
        for hop in range(1, 9):
            run.commit(run.claim(stage, hop), Status.RUNNING, "{}", "b")
        found = history(clients, run.object_id)
        assert len(found.encode()) <= LONGEST
        assert [one.hop for one in read_history(found)][-1] == 8


def test_commits_that_are_made_together_write_the_same() -> None:
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        runs = [Run(store, object_id) for object_id in ("o-1", "o-2", "alone")]
        end = Commit(Status.RUNNING, AT + 1, AT + 2, None, "{}", ended_at=AT + 9_000)
        claims = [run.claim("price-order", 1) for run in runs]
        assert store.batches.commit([(claims[0], end), (claims[1], end)]) == [Committed(), Committed()]
        assert store.commit(claims[2], end) == Committed()
        told = {history(clients, run.object_id) for run in runs}
        assert len(told) == 1
        assert [one.ms for one in read_history(told.pop())] == [AT + 9_000 - claims[0].at]


@pytest.mark.proof("the price of a row, as a real engine counts it")
def test_a_real_engine_counts_five_units_for_a_hop_with_a_row(dynamodb_local_url: str) -> None:
    clients = on_dynamodb_local(dynamodb_local_url)
    run, counter = Run(aws_store(Settings(), clients), "told"), Consumed()
    with intercept(counter):
        claim = run.claim("price-order", 1)
        run.store.tell(claim, ErrorNote("RuntimeError", "no tariff", run.now))
        run.commit(run.claim("price-order", 1, retry=1), Status.RUNNING, "{}", "b", told_until=AT + 1)
    assert counter.units == [("UpdateItem", 1), ("TransactWriteItems", 4), ("UpdateItem", 1), ("TransactWriteItems", 4)]
    full = read_rows(clients.dynamodb, "flowguard", "orders", "told")
    assert [one.happened.how for one in full.told] == [How.RETRIED, How.COMMITTED]


class Consumed:
    """The units of each write, as the engine says, those of a transaction too."""

    def __init__(self) -> None:
        self.units: list[tuple[str, float]] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        consumed = answer["ConsumedCapacity"]
        of_all = consumed if isinstance(consumed, list) else [consumed]
        self.units.append((call.operation, sum(one["CapacityUnits"] for one in of_all)))
        return dict(answer)


def test_what_is_noted_of_a_rest_takes_its_room_from_the_history() -> None:
    with on_memory() as clients:
        claimed = Run(aws_store(Settings(), clients), "rests").claim("first", 1)
    key = run_key("flow", ObjectId("rests"))
    back_off = BackOff(ErrorNote("Timeout", "x" * 100, AT), AT)
    noted = len("back_off") + history_room._value_size(record_item(back_off))

    def room(state: int, rest: BackOff | None) -> int:
        return history_room.room_in_claimed(claimed, key, state, rest)

    assert [room(state, back_off) for state in (1, 200, 400)] == [room(state + noted, None) for state in (1, 200, 400)]
    assert room(400, back_off) != room(400, None)
    tight = next(state for state in range(400, 1_000) if 20 < room(state, None) < 250)
    assert (
        history_room.room_in_claimed(claimed, key, tight, None, "n" * 9)
        == room(tight, None) - len("called_attempt") - 9
    )
    there = claimed._replace(item=claimed.item._replace(called_attempt="n" * 12))
    assert (
        history_room.room_in_claimed(there, key, tight, None, "n" * 9)
        == history_room.room_in_claimed(there, key, tight, None) + 3
        == room(tight, None) - len("called_attempt") - 9
    )

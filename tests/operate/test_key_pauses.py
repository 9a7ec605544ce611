"""A key that is paused: what is at work ends, what comes waits in its line, others go on, and all end after it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.aws.dead_letter_queue import Unusable
from flowguard.aws.pause_rows import PauseRows
from flowguard.errors import PlacesBusy
from flowguard.events import EventType
from flowguard.limit import PerKey, shards_of
from flowguard.operate.key_pauses import KeyPauses
from flowguard.protocol.places import Change, KeyPause
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.worker.place_store import PlaceKey
from tests.worker.crowd import HOUR, START, Crowd, Killed
from tests.worker.limited import Order, all_end, crowd_of, dies_at, flow_of, key_of, places_of

DAY: Final = 24 * HOUR
MINUTE: Final = 60_000
WHY: Final = "a fraud is looked into"


def pauses_of(crowd: Crowd) -> KeyPauses:
    nonces = itertools.count()
    rows = PauseRows(crowd.aws.client("dynamodb"), "flowguard")
    return KeyPauses(rows, crowd.services.store.places, lambda: f"nonce {next(nonces)}")


def begin(crowd: Crowd, runs: int, customers: int = 1) -> None:
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}", customer=f"c{number % customers}"), 100 * number)


@pytest.mark.parametrize(
    "limit", [PerKey("customer", at_once=2), PerKey("customer", per=timedelta(minutes=1), count=2)]
)
def test_the_runs_of_a_paused_key_wait_without_an_attempt_and_all_others_end(limit: PerKey) -> None:
    with crowd_of(flow_of(limit), slots=4) as crowd:
        pauses, key = pauses_of(crowd), key_of(Order(order_id="o", customer="c0"))
        pauses.pause(key, WHY, crowd.now())
        begin(crowd, 6, customers=2)
        crowd.run(HOUR)
        assert {customer for _, customer, _ in _served(crowd)} == {"c1"}
        waiting = crowd.item("o0")
        assert (waiting.retry, waiting.done) == (0, False)
        assert waiting.back_off.error.text.endswith("a place of the limit customer, whose key is paused")
        assert crowd.told(EventType.RETRIED) == 0
        assert len(places_of(crowd, key).line) == 3
        resumed_at = crowd.now()
        assert pauses.resume(key) is not None
        crowd.run(8 * HOUR)
        assert all(START + at < resumed_at + 20 * MINUTE for at, _, _ in crowd.handled)
        all_end(crowd, 6)


def _served(crowd: Crowd) -> list[tuple[int, str, str]]:
    return [(at, f"c{int(order[1:]) % 2}", order) for at, order, _ in crowd.handled]


def test_nobody_in_the_line_of_a_paused_key_hurries() -> None:
    """The first three in line look each few seconds where a place may lapse. For days that would cost much."""
    with crowd_of(flow_of()) as crowd:
        pauses_of(crowd).pause(key_of(Order(order_id="o", customer="c0")), WHY, crowd.now())
        begin(crowd, 2)
        crowd.run(5 * HOUR)
        assert crowd.told(EventType.IN_LINE) < 2 * 5 * HOUR // (10 * MINUTE) + 20


def test_a_hop_at_work_ends_and_calls_nobody() -> None:
    def does(order: Order, step: Any, crowd: Crowd) -> None:
        crowd.pass_time(5_000)

    with crowd_of(flow_of(does=does), slots=2) as crowd:
        key = key_of(Order(order_id="o", customer="c0"))
        begin(crowd, 2)
        crowd.run(2_000)
        paused = pauses_of(crowd).pause(key, WHY, crowd.now())
        assert (paused.at_work, paused.in_line, paused.is_new) == (1, 1, True)
        crowd.run(HOUR)
        assert [order for _, order, _ in crowd.handled] == ["o0"]
        assert crowd.told(EventType.CALLED) == 0
        pauses_of(crowd).resume(key)
        crowd.run(8 * HOUR)
        all_end(crowd, 2)


def test_an_item_of_a_paused_key_never_expires_and_does_afterwards() -> None:
    with crowd_of(flow_of()) as crowd:
        key = key_of(Order(order_id="o", customer="c0"))
        pauses_of(crowd).pause(key, WHY, crowd.now())
        [row] = crowd.items("limit#")
        assert "ttl" not in row
        begin(crowd, 1)
        crowd.run(5 * HOUR)
        [row] = crowd.items("limit#")
        assert "ttl" not in row
        pauses_of(crowd).resume(key)
        [row] = crowd.items("limit#")
        assert crowd.now() // 1000 < int(row["ttl"]["N"]) < crowd.now() // 1000 + 2 * DAY // 1000
        crowd.run(8 * HOUR)
        all_end(crowd, 1)


def test_a_key_that_nobody_uses_may_be_paused_and_leaves_nothing_for_long() -> None:
    with crowd_of(flow_of()) as crowd:
        pauses_of(crowd).pause(key_of(), WHY, crowd.now())
        pauses_of(crowd).resume(key_of())
        [row] = crowd.items("limit#")
        assert int(row["ttl"]["N"]) == START // 1000 + DAY // 1000
        assert crowd.items("pause") == []


def test_an_earlier_pause_keeps_its_time_and_reason() -> None:
    with crowd_of(flow_of()) as crowd:
        first = pauses_of(crowd).pause(key_of(), WHY, crowd.now())
        again = pauses_of(crowd).pause(key_of(), "again", crowd.now() + 5)
        assert (again.pause, again.is_new) == (first.pause, False)
        assert places_of(crowd).pause == KeyPause(START, WHY)
        resumed = pauses_of(crowd).resume(key_of())
        assert resumed == first.pause
        assert pauses_of(crowd).resume(key_of()) is None


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("number", range(5))
def test_a_command_that_was_cut_off_may_be_repeated(number: int, command: str) -> None:
    """It makes a query, a write of the row, a read and a write of the key's item, and a query once more."""
    die, calls = dies_at(number)

    def cut(call: ApiCall, proceed: Proceed) -> Response:
        die(call)
        return proceed()

    with crowd_of(flow_of()) as crowd:
        pauses = pauses_of(crowd)
        if command == "resume":
            pauses.pause(key_of(), WHY, crowd.now())
        with intercept(cut), suppress(Killed):
            _ = pauses.pause(key_of(), WHY, crowd.now()) if command == "pause" else pauses.resume(key_of())
        assert len(calls) <= number + 1
        if command == "pause":
            assert pauses.pause(key_of(), "again", crowd.now()).pause.why in (WHY, "again")
            assert places_of(crowd).pause is not None
            assert pauses.of(key_of()) is not None
        pauses.resume(key_of())
        assert (places_of(crowd).pause, pauses.of(key_of())) == (None, None)


@pytest.mark.parametrize("at", range(4))
def test_a_pause_beside_a_resume_leaves_a_key_that_is_paused_and_said_to_be(at: int) -> None:
    """Whoever resumes comes between two calls of the pause. A key is never paused without a row that says so."""
    calls: list[str] = []

    def between(call: ApiCall, proceed: Proceed) -> Response:
        calls.append(call.operation)
        if len(calls) == at + 1:
            pauses_of(crowd).resume(key_of())
        return proceed()

    with crowd_of(flow_of()) as crowd:
        with intercept(between):
            pauses_of(crowd).pause(key_of(), WHY, crowd.now())
        if places_of(crowd).pause is not None:
            assert pauses_of(crowd).of(key_of()) is not None


def test_who_finds_that_somebody_else_was_quicker_is_told_so() -> None:
    def meanwhile(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation in ("PutItem", "DeleteItem") and "pause" in str(call.params):
            done.append(call.operation)
            if len(done) == 1:
                getattr(pauses_of(crowd), verb)(*arguments)
        return proceed()

    with crowd_of(flow_of()) as crowd:
        for verb, arguments in (("pause", (key_of(), WHY, START)), ("resume", (key_of(),))):
            done: list[str] = []
            with intercept(meanwhile), pytest.raises(Unusable, match="at the same time"):
                getattr(pauses_of(crowd), verb)(*arguments)


def test_each_key_has_a_pause_of_its_own() -> None:
    with crowd_of(flow_of()) as crowd:
        other = key_of(Order(order_id="o", customer="c2"))
        pauses_of(crowd).pause(key_of(), WHY, START)
        assert pauses_of(crowd).pause(other, "another reason", START).is_new
        first = pauses_of(crowd).resume(key_of())
        assert first is not None
        assert first.why == WHY
        assert pauses_of(crowd).of(other) is not None
        assert (places_of(crowd).pause, places_of(crowd, other).pause) == (None, KeyPause(START, "another reason"))


def test_a_key_whose_row_is_gone_is_resumed_all_the_same() -> None:
    with crowd_of(flow_of()) as crowd:
        pause = pauses_of(crowd).pause(key_of(), WHY, START).pause
        PauseRows(crowd.aws.client("dynamodb"), "flowguard").remove(pause)
        resumed = pauses_of(crowd).resume(key_of())
        assert resumed == pause._replace(nonce="")
        assert places_of(crowd).pause is None


def test_a_key_that_is_paused_again_in_more_shards_is_paused_in_all_and_else_its_row_stays() -> None:
    limit = PerKey("customer", at_once=8, shards=4)
    with crowd_of(flow_of(limit)) as crowd:
        pauses, key = pauses_of(crowd), key_of()
        first = pauses.pause(key, WHY, START, shards=2).pause
        assert pauses.pause(key, "another reason", START + 1, shards=2).pause == first == pauses.of(key)
        assert pauses.pause(key, WHY, START + 2).pause == first, "in fewer it is paused in all that it has"
        assert [places_of(crowd, item).pause is None for item in shards(key)] == [False, False, True, True]
        wider = pauses.pause(key, WHY, START + 3, shards=4).pause
        assert wider == first._replace(shards=4, nonce=wider.nonce) == pauses.of(key)
        assert [places_of(crowd, item).pause for item in shards(key)] == [KeyPause(START, WHY)] * 4


def shards(key: PlaceKey) -> list[PlaceKey]:
    """The items of a key with four shards."""
    return [key._replace(place=place) for place in shards_of(key.place, 4)]


def test_a_key_whose_row_is_gone_is_resumed_in_whichever_shards_it_was_paused() -> None:
    with crowd_of(flow_of(PerKey("customer", at_once=8, shards=4))) as crowd:
        pause = pauses_of(crowd).pause(key_of(), WHY, START).pause
        PauseRows(crowd.aws.client("dynamodb"), "flowguard").remove(pause)
        assert pauses_of(crowd).resume(key_of(), shards=4) == pause._replace(nonce="")
        assert [places_of(crowd, item).pause for item in shards(key_of())] == [None] * 4


def test_an_error_that_is_not_of_others_writes_is_told_as_it_is() -> None:
    class Broken:
        def change(self, *_: object, **__: object) -> object:
            raise ZeroDivisionError

    with crowd_of(flow_of()) as crowd:
        broken: Any = Broken()
        with pytest.raises(ZeroDivisionError):
            KeyPauses(PauseRows(crowd.aws.client("dynamodb"), "flowguard"), broken, lambda: "n").resume(key_of())


def test_a_key_that_others_write_all_the_time_is_said_to_be_so() -> None:
    class Busy:
        def change(self, *_: object, **__: object) -> object:
            raise PlacesBusy("customer#d", "others have written them 150 times meanwhile")

    with crowd_of(flow_of()) as crowd:
        rows: Any = PauseRows(crowd.aws.client("dynamodb"), "flowguard")
        busy: Any = Busy()
        with pytest.raises(Unusable, match="repeat the command"):
            KeyPauses(rows, busy, lambda: "nonce").pause(key_of(), WHY, START)


def test_a_key_and_a_row_of_another_release_say_so_and_are_left_as_they_are() -> None:
    with crowd_of(flow_of(PerKey("customer", at_once=2))) as crowd:
        pauses, key = pauses_of(crowd), key_of(Order(order_id="o", customer="c0"))
        client: Any = crowd.aws.client("dynamodb")
        places = {"pk": {"S": f"limit#{key.flow}#{key.stage}#{key.place}"}, "sk": {"S": "limit"}, "slots": {"L": []}}
        client.put_item(TableName="flowguard", Item=places)
        with pytest.raises(Unusable, match=r"written \(ValueError: it has slots\); it is done in part") as raised:
            pauses.pause(key, WHY, crowd.now())
        assert raised.value.what == f"key {key.place} of {key.stage}"
        client.put_item(TableName="flowguard", Item={"pk": {"S": "pause"}, "sk": {"S": "orders"}})
        with pytest.raises(Unusable, match="the row pause orders: it cannot be read"):
            pauses.of(key)


def test_a_hop_whose_key_another_release_has_written_waits_and_is_parked() -> None:
    with crowd_of(flow_of(PerKey("customer", at_once=2))) as crowd:
        key = key_of(Order(order_id="o0", customer="c0"))
        item: Any = {"pk": {"S": f"limit#{key.flow}#{key.stage}#{key.place}"}, "sk": {"S": "limit"}, "slots": {"L": []}}
        crowd.aws.client("dynamodb").put_item(TableName="flowguard", Item=item)
        begin(crowd, 1)
        crowd.run(MINUTE)
        assert (crowd.handled, crowd.told(EventType.PARKED)) == ([], 0)
        crowd.run(HOUR)
        run = crowd.item("o0")
        assert (crowd.handled, crowd.told(EventType.PARKED)) == ([], 1)
        assert (run.status, run.retry, run.kills) == (Status.RUNNING, 0, -1)


# -- a key that has paused itself

OWN: Final = KeyPause(START - 5, "3 Away", START + 5 * MINUTE)


def paused_itself(crowd: Crowd, *, is_told: bool = True) -> None:
    places = crowd.services.store.places
    places.change(key_of(), lambda found: Change(found._replace(pause=OWN, failed=(START,))), "n0")
    if is_told:
        places.tell_pause(key_of(), OWN, "n1")


@pytest.mark.parametrize("is_told", [True, False])
def test_a_pause_by_hand_takes_the_place_of_one_of_the_keys_own(is_told: bool) -> None:
    """Its row may be missing."""
    with crowd_of(flow_of()) as crowd:
        paused_itself(crowd, is_told=is_told)
        paused = pauses_of(crowd).pause(key_of(), WHY, crowd.now())
        assert (paused.is_new, paused.pause.why, paused.pause.since, paused.pause.until) == (True, WHY, START, 0)
        assert places_of(crowd).pause == KeyPause(START, WHY)
        assert pauses_of(crowd).of(key_of()) == paused.pause
        crowd.start(Order(order_id="o0"))
        crowd.run(HOUR)
        assert crowd.handled == []
        pauses_of(crowd).resume(key_of())
        crowd.run(8 * HOUR)
        all_end(crowd, 1)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_resume_ends_a_pause_of_the_keys_own(is_told: bool) -> None:
    with crowd_of(flow_of()) as crowd:
        paused_itself(crowd, is_told=is_told)
        resumed = pauses_of(crowd).resume(key_of())
        assert resumed is not None
        assert (resumed.since, resumed.why) == (OWN.since, OWN.why)
        assert (places_of(crowd).pause, places_of(crowd).failed) == (None, ())
        assert pauses_of(crowd).of(key_of()) is None
        crowd.start(Order(order_id="o0"))
        crowd.run(MINUTE)
        all_end(crowd, 1)


def test_a_row_that_a_failed_trial_writes_beside_a_resume_is_removed_as_well() -> None:
    def meanwhile(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "DeleteItem" and not met:
            met.append(call.operation)
            crowd.services.store.places.tell_pause(key_of(), OWN._replace(until=OWN.until + 1), "n2")
        return proceed()

    met: list[str] = []
    with crowd_of(flow_of()) as crowd:
        paused_itself(crowd)
        with intercept(meanwhile):
            assert pauses_of(crowd).resume(key_of()) is not None
        assert met
        assert pauses_of(crowd).of(key_of()) is None

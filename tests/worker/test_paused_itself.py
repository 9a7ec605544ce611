"""Keys that pause themselves: failures of one kind pause a key, one hop tries it, and its line moves on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.aws.place_items import read_places
from flowguard.errors import KeyUnavailable, OtherRelease, Reject, Retry, SettingsError, WorkerFenced
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.limit import PerKey
from flowguard.outcome import Outcome
from flowguard.pause_after import PauseAfter
from flowguard.protocol.places import SKEW, Change, Holder, KeyPause, Places, Terms, is_own
from flowguard.sim.calls import ApiCall
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.worker.key_pauses import with_outcome
from flowguard.worker.place_store import GiveBack, Return, Seen
from tests.worker.crowd import HOUR, START, Crowd, Killed, Trouble, throttled
from tests.worker.limited import Order, all_end, crowd_of, dies_at, flow_of, key_of, places_of

MINUTE: Final = 60_000
REST: Final = 5 * MINUTE
BACK: Final = START + 22 * MINUTE
"""When the gateway answers again."""


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


class GatewaySlow(GatewayAway):
    """It does not answer in time."""


RULE: Final = PauseAfter(3, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(minutes=5))


def away(until: int = BACK, takes: int = 200, error: type[Exception] = GatewayAway) -> Callable[..., None]:
    """What asks a gateway that is away for some time."""

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        crowd.pass_time(takes)
        if crowd.now_ms < until:
            raise error("no")

    return does


def flow_that(does: Callable[..., object], at_once: int = 5, rule: PauseAfter | None = RULE, **options: Any) -> AnyFlow:
    return flow_of(PerKey("customer", at_once=at_once, pause_after=rule), does=does, **options)


def begin(crowd: Crowd, runs: int, every: int = 1000) -> None:
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}"), every * number)


def rows_of(crowd: Crowd) -> list[Pause]:
    return PauseRows(crowd.aws.client("dynamodb"), "flowguard").all()


def times(crowd: Crowd) -> list[int]:
    return [at for at, _, _ in crowd.handled]


def test_failures_pause_the_key_one_hop_tries_it_and_its_line_moves_on() -> None:
    with crowd_of(flow_that(away()), slots=10) as crowd:
        begin(crowd, 6)
        crowd.run(2 * MINUTE)
        assert len(times(crowd)) == 3
        pause = places_of(crowd).pause
        assert is_own(pause)
        assert (pause.why, pause.until - pause.since, pause.trial) == ("3 GatewayAway within 0:01:00", REST, "")
        assert START + times(crowd)[2] <= pause.since < START + times(crowd)[2] + 1000
        [row] = rows_of(crowd)
        assert (row.place, row.since, row.why, row.until) == (key_of().place, pause.since, pause.why, pause.until)
        waiting = crowd.item("o5")
        assert (waiting.retry, waiting.done) == (0, False)
        assert waiting.back_off.error.text.endswith("a place of the limit customer, whose key has paused itself")
        crowd.run(21 * MINUTE)
        trials = times(crowd)[3:]
        assert len(trials) == 4
        assert [REST <= trial - before < REST + 2000 for before, trial in pairwise(times(crowd)[2:])] == [True] * 4
        [row] = rows_of(crowd)
        assert row.until == places_of(crowd).pause.until  # type: ignore[union-attr]  # it is paused
        crowd.run(2 * HOUR)
        assert times(crowd)[-1] < 26 * MINUTE
        all_end(crowd, 6)
        assert rows_of(crowd) == []
        assert (crowd.told(EventType.KEY_PAUSED), crowd.told(EventType.KEY_RESUMED)) == (5, 1)


def test_what_is_told_names_the_key_why_and_until_when() -> None:
    with crowd_of(flow_that(away()), slots=10) as crowd:
        events: list[Any] = []
        crowd.services = crowd.services._replace(observer=events.append)
        crowd.serve(crowd.flow)
        begin(crowd, 4)
        crowd.run(2 * HOUR)
        facts = [dict(event.facts) for event in events if event.type in (EventType.KEY_PAUSED, EventType.KEY_RESUMED)]
    key = {"limit": "customer", "key": key_of().place}
    assert facts[0].pop("until") - START - REST < MINUTE
    assert facts[0] == {**key, "why": "3 GatewayAway within 0:01:00"}
    assert facts[-1] == key


@pytest.mark.parametrize("error", [GatewaySlow, GatewayAway])
def test_a_whole_stage_is_a_key_that_is_always_the_same(error: type[Exception]) -> None:
    limit = PerKey(lambda order: "all" if order else None, at_once=100, name="gateway", pause_after=RULE)
    with crowd_of(flow_of(limit, away(error=error)), slots=10) as crowd:
        for number in range(6):
            crowd.start(Order(order_id=f"o{number}", customer=f"c{number}"), 1000 * number)
        crowd.run(4 * MINUTE)
        assert len(crowd.handled) == 3
        crowd.run(2 * HOUR)
        all_end(crowd, 6)


@pytest.mark.parametrize("error", [ValueError, Retry])
def test_other_errors_never_pause_the_key(error: type[Exception]) -> None:
    with crowd_of(flow_that(away(START + 3 * MINUTE, error=error)), slots=10) as crowd:
        begin(crowd, 6)
        crowd.run(HOUR)
        assert crowd.told(EventType.KEY_PAUSED) == 0
        assert crowd.told(EventType.RETRIED) >= 6
        all_end(crowd, 6)


def test_failures_that_lie_far_apart_never_pause_the_key() -> None:
    rule = RULE._replace(failures=2, within=timedelta(seconds=59))
    with crowd_of(flow_that(away(START + 5 * MINUTE), rule=rule)) as crowd:
        begin(crowd, 1)
        crowd.run(HOUR)
        assert crowd.told(EventType.RETRIED) == 5
        assert crowd.told(EventType.KEY_PAUSED) == 0
        all_end(crowd, 1)


def test_a_success_between_failures_makes_them_count_no_less() -> None:
    """They are counted in a time, not in a row."""
    errors = [GatewayAway, None, GatewayAway, None, GatewayAway]

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        if error := errors.pop(0) if errors else None:
            raise error

    with crowd_of(flow_that(does), slots=1) as crowd:
        begin(crowd, 5)
        crowd.run(HOUR)
        assert crowd.told(EventType.KEY_PAUSED) == 1
        all_end(crowd, 5)


@pytest.mark.parametrize("error", [ValueError, Reject])
def test_a_trial_that_fails_by_another_error_ends_the_pause(error: type[Exception]) -> None:
    raised: list[type[Exception]] = []

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        raised.append(GatewayAway)
        if len(raised) <= 3:
            raise GatewayAway
        if len(raised) == 4:
            raise error("its own")
        crowd.pass_time(5_000)

    with crowd_of(flow_that(does), slots=10) as crowd:
        begin(crowd, 6)
        crowd.run(HOUR)
        assert (crowd.told(EventType.KEY_PAUSED), crowd.told(EventType.KEY_RESUMED)) == (1, 1)
        assert times(crowd)[5] - times(crowd)[3] < 1000  # it is no other trial that ends it
        assert crowd.waiting == []
        assert places_of(crowd).pause is None


def test_a_failure_counts_before_its_retry_is_sent_which_comes_at_once() -> None:
    with crowd_of(flow_that(away(START + 16 * MINUTE), rest=0), slots=3) as crowd:
        begin(crowd, 1)
        crowd.run(2 * HOUR)
        assert [trial - before >= REST for before, trial in pairwise(times(crowd))] == [False] * 2 + [True] * 4
        assert (crowd.told(EventType.KEY_PAUSED), crowd.told(EventType.KEY_RESUMED)) == (4, 1)
        all_end(crowd, 1)


def test_a_failure_is_noted_before_its_retry_is_sent_which_another_function_may_get_meanwhile() -> None:
    calls: list[str] = []

    def note(call: ApiCall) -> None:
        if ":failed_at" in str(call.params):
            calls.append("noted")
        elif call.service == "sqs" and call.operation.startswith("SendMessage"):
            calls.append("sent")

    with crowd_of(flow_that(away(START + 1_000)), before=note) as crowd:
        begin(crowd, 1)
        calls.clear()
        crowd.run(HOUR)
        assert crowd.told(EventType.RETRIED) == 1
        assert calls == ["noted", "sent"]
        all_end(crowd, 1)


def test_a_stage_without_a_limit_fails_as_ever() -> None:
    with crowd_of(flow_of(None, away(START + 1000))) as crowd:
        begin(crowd, 1)
        crowd.run(HOUR)
        assert crowd.told(EventType.RETRIED) == 1
        all_end(crowd, 1)


@pytest.mark.parametrize("leaves", ["dies", "is cut off"])
def test_a_trial_whose_worker_dies_is_made_by_the_next_one(leaves: str) -> None:
    calls: list[str] = []

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        calls.append(order.order_id)
        if len(calls) <= 3:
            raise GatewayAway
        if len(calls) == 4:
            if leaves == "dies":
                raise Killed
            crowd.pass_time(10 * MINUTE)

    with crowd_of(flow_that(does), slots=10, lease=30_000) as crowd:
        begin(crowd, 6)
        crowd.run(2 * HOUR)
        trial, following = times(crowd)[3:5]
        assert 30_000 <= following - trial < 30_000 + SKEW + MINUTE
        assert crowd.told(EventType.KEY_RESUMED) == 1
        all_end(crowd, 6)


def test_hops_that_began_before_the_pause_neither_end_nor_lengthen_it() -> None:
    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        if crowd.now_ms < START + 10_000 and order.order_id in {"o3", "o4"}:
            crowd.pass_time(20_000)
        elif crowd.now_ms < START + 10_000:
            raise GatewayAway
        if order.order_id == "o3" and crowd.now_ms < START + MINUTE:
            raise GatewayAway

    with crowd_of(flow_that(does, at_once=10), slots=10) as crowd:
        for number in (3, 4, 0, 1, 2):
            crowd.start(Order(order_id=f"o{number}"), 0 if number > 2 else 500 * (1 + number))
        crowd.run(2000)
        pause = places_of(crowd).pause
        assert is_own(pause)
        crowd.run(MINUTE)
        assert places_of(crowd).pause == pause
        assert places_of(crowd).failed == ()
        crowd.run(2 * HOUR)
        all_end(crowd, 5)


def test_the_worker_that_could_not_give_its_place_back_counts_no_failure() -> None:
    def fail(call: ApiCall) -> None:
        if call.operation in ("UpdateItem", "PutItem") and ":failed_at" in str(call.params):
            raise throttled(call)

    with crowd_of(flow_that(away(START + 10_000)), slots=3, before=fail) as crowd:
        begin(crowd, 3)
        crowd.run(2 * HOUR)
        assert crowd.told(EventType.KEY_PAUSED) == 0
        all_end(crowd, 3)


def test_code_that_pauses_no_key_ends_a_pause_by_its_first_trial() -> None:
    with crowd_of(flow_that(away()), slots=10) as crowd:
        begin(crowd, 8)
        crowd.run(MINUTE)
        assert is_own(places_of(crowd).pause)
        crowd.serve(flow_that(away(START + 6 * MINUTE), rule=None))
        crowd.run(6 * MINUTE)
        assert places_of(crowd).pause is None
        assert crowd.told(EventType.KEY_RESUMED) == 1
        crowd.run(2 * HOUR)
        all_end(crowd, 8)


def test_a_limit_by_time_in_its_place_goes_on_at_once() -> None:
    with crowd_of(flow_that(away()), slots=10) as crowd:
        begin(crowd, 8)
        crowd.run(MINUTE)
        assert is_own(places_of(crowd).pause)
        crowd.serve(flow_of(PerKey("customer", per=timedelta(seconds=1), count=5), does=away(START)))
        crowd.run(2 * HOUR)
        all_end(crowd, 8)


def test_a_stage_with_a_second_limit_tries_with_a_place_of_each_or_of_none() -> None:
    """A trial that finds no place of the other limit says nothing, and the next one is made."""
    limits = (
        PerKey("customer", at_once=5, pause_after=RULE),
        PerKey("gateway", at_once=1, name="gateway"),
    )
    with crowd_of(flow_of(limits, away(START + 7 * MINUTE, takes=3_000)), slots=10) as crowd:
        begin(crowd, 8, every=4000)
        crowd.start(Order(order_id="o8", customer="c2"), 5 * MINUTE)
        crowd.run(3 * HOUR)
        assert crowd.told(EventType.KEY_RESUMED) >= 1
        all_end(crowd, 9)


@pytest.mark.parametrize("others", [(), (GatewayAway(),), (ValueError(),)])
def test_a_group_of_errors_counts_where_one_of_them_does(others: tuple[Exception, ...]) -> None:
    """Tasks of one handler may meet the same outage. Such a trial does not say that the gateway has answered."""

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        raise ExceptionGroup("of an asyncio.TaskGroup", [*others, ExceptionGroup("of one in it", [GatewaySlow()])])

    with crowd_of(flow_that(does), slots=3) as crowd:
        begin(crowd, 3)
        crowd.run(6 * MINUTE)
        assert len(crowd.handled) == 4
        assert (crowd.told(EventType.KEY_PAUSED), crowd.told(EventType.KEY_RESUMED)) == (2, 0)


def paused_until_now(crowd: Crowd, later: int = 0) -> KeyPause:
    """Let the key have paused itself, and be due to be tried, now or so much later (ms)."""
    pause = KeyPause(START - REST, "3 GatewayAway", START + later)
    crowd.services.store.places.change(key_of(), lambda found: Change(found._replace(pause=pause)), "n0")
    return pause


def test_a_trial_whose_commit_is_not_taken_says_nothing() -> None:
    """What is outside the stage has ended it. The next one is made as soon as that one's record comes again."""

    def fail(call: ApiCall) -> None:
        if crowd.handled and call.operation == "UpdateItem" and "run#" in str(call.params["Key"]) and not commits:
            commits.append(call.operation)
            raise throttled(call)

    commits: list[str] = []
    with crowd_of(flow_that(away(START)), before=fail) as crowd:
        paused_until_now(crowd)
        begin(crowd, 1)
        crowd.run(3_000)
        assert commits
        assert len(crowd.handled) == 1
        pause = places_of(crowd).pause
        assert is_own(pause)
        assert pause.trial not in places_of(crowd).held
        crowd.run(HOUR)
        all_end(crowd, 1)
        assert crowd.told(EventType.KEY_RESUMED) == 1


def test_a_hop_whose_handler_was_not_called_has_tried_nothing() -> None:
    """The item of its other limit is of another release. Its message is parked after some minutes."""
    limits = (PerKey("customer", at_once=5, pause_after=RULE), PerKey("gateway", at_once=1, name="gateway"))
    with crowd_of(flow_of(limits, away(START))) as crowd:
        paused_until_now(crowd)
        other = PerKey("gateway", at_once=1, name="gateway").place_of(Order(order_id="o0"))
        item: Any = {"pk": {"S": f"limit#orders#charge#{other}"}, "sk": {"S": "limit"}, "frozen": {"BOOL": True}}
        crowd.aws.client("dynamodb").put_item(TableName="flowguard", Item=item)
        begin(crowd, 1)
        crowd.run(HOUR)
        assert crowd.handled == []
        assert crowd.told(EventType.PARKED) + crowd.told(EventType.UNROUTABLE) > 0
        assert crowd.waiting == []
        assert is_own(places_of(crowd).pause)
        assert places_of(crowd).held == {}
        assert crowd.told(EventType.KEY_RESUMED) == 0


class Counted(BaseModel):
    """The state of a run."""

    asked: int = 0


class Named(BaseModel):
    """What a later release has in its place."""

    asked: list[str] = []


def flow_with(state: type[Any]) -> AnyFlow:
    limit = PerKey("customer", at_once=5, pause_after=RULE)

    class First(Stage[Order, state], name="first", inbox="orders", then="charge"):  # type: ignore[valid-type]  # a parameter
        def handle(self, order: Order, step: Step[Any]) -> Outcome:
            step.state.asked = 7
            return Charge.message(order)

    class Charge(Stage[Order, state], name="charge", inbox="orders", limit=limit):  # type: ignore[valid-type]  # a parameter
        def handle(self, order: Order, step: Step[Any]) -> Outcome:
            raise AssertionError

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (First, Charge)

    return Orders


def test_a_run_whose_state_cannot_be_read_has_tried_nothing() -> None:
    with crowd_of(flow_with(Counted)) as crowd:
        pause = paused_until_now(crowd, MINUTE)
        begin(crowd, 1)
        crowd.run(30_000)
        assert crowd.told(EventType.IN_LINE) == 1
        crowd.serve(flow_with(Named))
        crowd.run(HOUR)
        assert crowd.told(EventType.PARKED) >= 1
        assert places_of(crowd) == Places(pause=pause)


HELD: Final = GiveBack("a", Holder("owner of a", START + MINUTE))
HOW: Final = Return(lambda places, terms: Change(places), HELD)
TRIES: Final = Seen(Places({"a": HELD.holder}, pause=KeyPause(START - 9, "away", START - 1, "a")), "n1")


def said_of(limit: PerKey, seen: Seen | None, *raised: type[BaseException], is_over: bool = True) -> Return:
    return with_outcome(HOW, limit, seen, START, raised, is_over=is_over)


LIMIT: Final = PerKey("customer", at_once=5, pause_after=RULE)
OTHERS_TRIAL: Final = TRIES._replace(places=TRIES.places._replace(pause=KeyPause(1, "away", 2, "b")))


@pytest.mark.parametrize("seen", [None, Seen(Places({"a": HELD.holder})), OTHERS_TRIAL])
def test_the_end_of_a_hop_that_tries_nothing_is_written_as_ever_or_with_its_failure(seen: Seen | None) -> None:
    assert said_of(LIMIT, seen) is HOW
    assert said_of(LIMIT, seen, ValueError) is HOW
    assert said_of(PerKey("customer", at_once=5), seen, GatewayAway) is HOW
    for is_over in (True, False):
        assert said_of(LIMIT, seen, GatewaySlow, is_over=is_over).short == HELD._replace(failed_at=START, few=2)
    single = PerKey("customer", at_once=5, pause_after=RULE._replace(failures=1))
    assert said_of(single, seen, GatewayAway).short is None


def test_the_end_of_a_trial_is_a_write_of_the_whole_item_where_it_says_something() -> None:
    terms = Terms(5, START, HOUR)
    for raised in ((), (ValueError,), (ExceptionGroup, ValueError)):
        how = said_of(LIMIT, TRIES, *raised)
        assert how.short is None
        assert how.decide(TRIES.places, terms).healed == TRIES.places.pause
        assert said_of(LIMIT, TRIES, *raised, is_over=False) is HOW
    how = said_of(LIMIT, TRIES, GatewayAway)
    assert how.short is None
    assert how.decide(TRIES.places, terms).tripped == KeyPause(START - 9, "away", START + REST)


@pytest.mark.parametrize("error", [KeyUnavailable, OtherRelease, SettingsError, WorkerFenced])
def test_a_trial_that_flowguard_itself_has_ended_says_nothing(error: type[Exception]) -> None:
    """A newer run has the object, as one example. Its handler may not have called anything before that."""
    assert said_of(LIMIT, TRIES, error) is HOW
    assert said_of(LIMIT, TRIES, ExceptionGroup, ValueError, error) is HOW
    assert said_of(LIMIT, TRIES, error, GatewayAway).short is None


# -- whatever goes wrong


class Watch:
    """Looks at the item of the key before each call, which is after each call of all workers.

    So it sees each write alone. No place is given while the key is paused, but that of one trial at a time.
    """

    def __init__(self) -> None:
        self.crowd: Crowd | None = None
        self._before, self._at = Places(), START
        self.trials = 0

    def __call__(self, call: ApiCall | None = None) -> None:
        assert self.crowd is not None
        rows = [row for row in self.crowd.items("limit#") if row["sk"]["S"] == "limit"]
        if rows:
            self._changed(self._before, read_places(rows[0]))
        self._at = self.crowd.now_ms

    def _changed(self, before: Places, after: Places) -> None:
        given = {name for name in after.held if after.held[name] != before.held.get(name)}
        if given and before.pause is not None:
            [name] = given
            pause, now = before.pause, self._at + 4_000
            assert pause.until <= now
            other = before.held.get(pause.trial)
            assert other is None or pause.trial == name or other.until + SKEW < now
            assert after.pause is not None
            assert after.pause.trial == name
            self.trials += 1
        if before.pause is not None and after.pause is None:
            assert before.pause.trial in before.held
        self._before = after


TROUBLES: Final = {
    "nothing": Trouble(),
    "kills": Trouble(killed=0.02),
    "refusals": Trouble(refused=0.02),
    "copies": Trouble(delivered_twice=0.1),
    "all of it": Trouble(0.01, 0.01, 0.05),
}


def gateway(*outages: tuple[int, int]) -> Callable[..., None]:
    """What asks a gateway that is away in these minutes, and fails for reasons of its own now and then."""

    def does(order: Order, step: Step[Any], crowd: Crowd) -> None:
        crowd.pass_time(max(1, int(crowd.draw.expovariate(1 / 200))))
        if any(begins * MINUTE <= crowd.now_ms - START < ends * MINUTE for begins, ends in outages):
            raise GatewayAway
        if crowd.draw.random() < 0.05:
            raise Retry(after=timedelta(seconds=60))

    return does


@pytest.mark.slow("it takes a crowd of eight functions through two outages")
@pytest.mark.parametrize(("at_once", "seed"), [(2, 0), (5, 1)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_in_a_crowd_nothing_begins_while_the_key_is_paused_and_each_run_ends(
    trouble: str, at_once: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks of its functions differ by 4 s."""

    def now(crowd: Crowd) -> int:
        worker = getattr(crowd._here, "worker", None)
        return crowd.now_ms + (0 if worker is None else worker.ends % 3 * 2_000)

    monkeypatch.setattr(Crowd, "now", now)
    watch = Watch()
    flow = flow_that(gateway((0, 12), (20, 31)), at_once=at_once)
    with crowd_of(flow, slots=8, seed=seed, trouble=TROUBLES[trouble], before=watch) as crowd:
        watch.crowd = crowd
        begin(crowd, 24, every=80_000)
        crowd.run(12 * HOUR)
        watch()
        assert max(crowd.most.values()) <= at_once
        assert watch.trials >= 2
        assert crowd.told(EventType.KEY_PAUSED) >= 2
        all_end(crowd, 24)
        assert places_of(crowd).pause is None


@pytest.mark.slow("it takes sixty crowds through an outage")
@pytest.mark.parametrize("number", range(60))
def test_wherever_a_worker_dies_the_line_moves_on(number: int) -> None:
    """The functions of a crowd make about 60 calls until the key is paused, tried in vain, tried and resumed."""
    die, calls = dies_at(number)
    watch = Watch()

    def before(call: ApiCall) -> None:
        watch()
        die(call)

    rule = PauseAfter(2, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(minutes=1))
    with crowd_of(flow_that(away(START + 100_000), 2, rule), slots=4, before=before) as crowd:
        watch.crowd = crowd
        begin(crowd, 3)
        crowd.run(6 * HOUR)
        watch()
        all_end(crowd, 3)
        assert places_of(crowd).pause is None
    assert len(calls) > number

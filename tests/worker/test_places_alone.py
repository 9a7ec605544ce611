"""The places of one attempt on a store and a queue that only note what they are asked: each step by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest

from flowguard.errors import PlacesBusy, TooLarge
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Send
from flowguard.protocol.places import Change, Holder, Hop, KeyPause, Places, Waiter
from flowguard.protocol.run import BackOff, Claim, Refused, RunItem
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import normalize
from flowguard.wire.message import PLACE, ErrorNote, Message
from flowguard.wire.turn import Turn
from flowguard.worker import hop_places, limits, look_times
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.dead_letters import Letter
from flowguard.worker.ending import Ending
from flowguard.worker.hop_memory import HopMemory, NoPlace
from flowguard.worker.hop_places import HopPlaces
from flowguard.worker.place_store import Changed, GiveBack, PlaceKey, Seen, Take
from flowguard.worker.ports import Refusal
from flowguard.worker.routing import Arrival
from flowguard.worker.turn_messages import TurnMessages, token_of
from tests.protocol.run_items import run_item
from tests.worker.limited import Order, flow_of

NOW: Final = 1_800_000_000_000
SECOND: Final = 1_000
QUEUE: Final = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:orders"
CUSTOMER: Final = PerKey("customer", at_once=1)
GATEWAY: Final = PerKey("gateway", at_once=1)
ORDER: Final = Order(order_id="o1")


class NotedPlaces:
    """The items of keys and the texts of calls. ``raises`` are the errors of changes, by what their key begins with."""

    def __init__(self, log: list[Any]) -> None:
        self.items: dict[str, Places] = {}
        self.texts: dict[str, str] = {}
        self.raises: dict[str, Exception] = {}
        self.shorts: list[Any] = []
        self.holds_texts = True
        self._log = log

    def change(
        self, key: PlaceKey, decide: Any, nonce: str, seen: Any = None, *, short: Any = None, frees: bool = False
    ) -> Changed:
        name = key.place.partition("#")[0]
        self._log.append(("change", name))
        self.shorts.append(short)
        if name in self.raises:
            raise self.raises[name]
        change: Change = decide(self.items.get(name, Places()))
        self.items[name] = change.after
        return Changed(change, Seen(change.after, nonce))

    def keep_text(self, flow: str, object_id: str, token: str, text: str, until: int) -> bool:
        self._log.append(("keep", until))
        if self.holds_texts:
            self.texts[token] = text
        return self.holds_texts

    def text(self, flow: str, object_id: str, token: str) -> str | None:
        return self.texts.get(token)

    def forget_text(self, flow: str, object_id: str, token: str) -> None:
        self._log.append(("forget",))
        self.texts.pop(token, None)


class Noted:
    """A worker around one attempt: all that it does is in ``log``, in order."""

    def __init__(
        self,
        turn: Turn | None = None,
        limit: Any = CUSTOMER,
        *,
        arn: str | None = QUEUE,
        in_place: bool = False,
        before: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.log: list[Any] = []
        self.sent: list[Send] = []
        self.refusals: dict[int, Refusal] = {}
        self.draws = 0.0
        self.now = NOW
        self.places = NotedPlaces(self.log)
        flow = flow_of(limit, **options)
        asked, _ = flow.request(ORDER, request_id=RequestId("r"), requested_at=NOW - 1)
        self.message: Message = asked._replace(turn=turn)
        attributes = {name: one.to_sqs_record() for name, one in self.message.attributes().items()}
        (envelope,) = normalize({"Records": [_record(self.message, attributes)]})
        self.envelope = SimpleEnvelope(envelope, arn, in_place)
        self.flow = flow
        self.arrival: Any = SimpleNamespace(
            envelope=self.envelope, flow=flow, stage=flow.stages[0], message=self.message, payload=None
        )
        item = run_item(
            request_id=RequestId("r"), requested_at=NOW - 1, hop=1, epoch=7, done=False, lease_until=NOW + 30 * SECOND
        )
        found = None if before is None else item._replace(**{"epoch": 6, **before})
        self.claim = Claim(self.message, item, found)
        self.services: Any = SimpleNamespace(
            store=SimpleNamespace(
                places=self.places,
                release=lambda claim, now, failed, rest, called_attempt: self.log.append(("release", rest)),
                back_off=lambda claim, note: self.log.append(("back off", note)),
            ),
            sender=SimpleNamespace(send=self._send, postpone=lambda envelope, s: self.log.append(("postpone", s))),
            clock=SimpleNamespace(now=lambda: self.now),
            ids=SimpleNamespace(new=lambda: "nonce"),
            draw=SimpleNamespace(random=lambda: self.draws),
            signer=_signer(),
            denials=None,
        )
        self.emitter: Any = SimpleNamespace(
            emit=lambda event, arrival, **facts: self.log.append((event, facts)),
            sent=lambda message, send, refusal: None,
        )

    def attempt(self) -> HopPlaces:
        return HopPlaces(self.services, self.emitter, self.arrival, self.claim)

    def full(
        self, limit: str = "customer", until: int = NOW + 60 * SECOND, line: Mapping[str, Waiter] | None = None
    ) -> None:
        """Let another hold the place of a limit."""
        self.places.items[limit] = Places({"x": Holder("x", until)}, line or {})

    def parked(self) -> Ending:
        """The ending of the attempt, which finds no place."""
        attempt = self.attempt()
        with pytest.raises(NoPlace) as waits:
            attempt.take(ORDER)
        ending = waits.value.ending()
        attempt.end()
        return ending

    def done(self, what: str) -> list[Any]:
        return [line for line in self.log if line[0] == what]

    def told(self, event: EventType) -> list[Any]:
        return [line[1] for line in self.log if line[0] is event]

    @property
    def steps(self) -> list[str]:
        return [str(line[0]) for line in self.log if not isinstance(line[0], EventType)]

    def _send(self, sends: Sequence[Send]) -> dict[int, Refusal]:
        self.log.append(("send", len(sends)))
        self.sent += sends
        return self.refusals


def SimpleEnvelope(envelope: Any, arn: str | None, in_place: bool) -> Any:  # noqa: N802
    """The envelope as one that came by this queue, or is tried again in its place."""

    class Envelope:
        queue_arn = arn
        retried_in_place = in_place

        def __getattr__(self, name: str) -> Any:
            return getattr(envelope, name)

    return Envelope()


def _record(message: Message, attributes: Any) -> dict[str, Any]:
    return {
        "messageId": "m1",
        "receiptHandle": "r",
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE,
        "awsRegion": REGION,
    }


def _signer() -> Any:
    from flowguard.wire.signing import UNSIGNED

    return UNSIGNED


def place(limit: PerKey = CUSTOMER) -> str:
    found = limit.place_of(ORDER)
    assert found is not None
    return found


def look(number: int = 5, limit: PerKey = CUSTOMER, arrival: int = NOW - 40 * SECOND) -> Turn:
    return Turn(arrival, place(limit), number)


WAITS: Final = BackOff(ErrorNote("Waiting", "for a place", NOW - 10), NOW + 10, 5)
FAILED: Final = BackOff(ErrorNote("Retry", "later", NOW - 10), NOW + 10)


# -- take and give back


def test_places_are_taken_once_and_given_back_once() -> None:
    at = Noted()
    attempt = at.attempt()
    attempt.take(ORDER)
    attempt.take(ORDER)
    assert at.done("change") == [("change", "customer")]
    attempt.end()
    attempt.end()
    assert at.done("change") == [("change", "customer")] * 2
    assert at.places.items["customer"].is_empty


def test_a_place_of_a_hop_at_work_is_its_own_for_the_lease_of_its_claim() -> None:
    at = Noted()
    at.attempt().take(ORDER)
    assert at.places.items["customer"].held == {token_of(at.message): Holder(at.claim.item.owner, NOW + 30 * SECOND)}
    assert at.places.shorts[0] == Take(
        token_of(at.message), Holder(at.claim.item.owner, NOW + 30 * SECOND), 1, at.places.shorts[0].ends
    )


BY_TIME: Final = PerKey("customer", per=timedelta(minutes=1), count=5)
"""A start of it counts for 61 s, and may be half a second older than the call of its handler."""


def takes(at: Noted, ms: list[int]) -> None:
    """Let each write of a place take so long, and any further one no time."""
    change = at.places.change

    def slowly(*args: Any, **options: Any) -> Changed:
        changed = change(*args, **options)
        at.now += ms.pop(0) if ms else 0
        return changed

    at.places.change = slowly  # type: ignore[method-assign]


def test_each_call_of_the_handler_is_a_start_by_time_and_none_is_given_back() -> None:
    at = Noted(limit=(BY_TIME, GATEWAY))
    attempt = at.attempt()
    attempt.take(ORDER)
    attempt.take(ORDER)
    attempt.end()
    owner = at.claim.item.owner
    counted = {owner: Holder("", NOW + 61 * SECOND), f"{owner}1": Holder("", NOW + 61 * SECOND)}
    assert at.places.items == {"customer": Places(counted), "gateway": Places()}
    assert [name for _, name in at.done("change")] == ["gateway", "customer", "customer", "gateway"]
    assert at.places.shorts[1] == Take(owner, counted[owner], 5, at.places.shorts[0].ends)


def test_a_start_is_taken_last_also_where_the_hop_waits_for_it() -> None:
    at = Noted(Turn(NOW - 9, place(BY_TIME), 5), (GATEWAY, BY_TIME))
    at.attempt().take(ORDER)
    assert at.steps == ["change", "change", "forget"]
    assert [name for _, name in at.done("change")] == ["gateway", "customer"]


@pytest.mark.parametrize(
    ("ms", "changes"),
    [([500], 1), ([501], 2), ([501, 1_002], 3), ([501, 1_002, 1_503], 4), ([501, 1_002, 1_503, 2_003], 4)],
)
def test_a_start_that_is_noted_late_is_noted_anew(ms: list[int], changes: int) -> None:
    at = Noted(limit=BY_TIME)
    takes(at, ms)
    at.attempt().take(ORDER)
    assert len(at.done("change")) == changes
    assert at.places.shorts == [at.places.shorts[0], *[None] * (changes - 1)]
    [holder] = at.places.items["customer"].held.values()
    assert at.now - (holder.until - 61 * SECOND) <= 500


def test_a_start_that_cannot_be_noted_in_time_is_none() -> None:
    at = Noted(limit=BY_TIME)
    takes(at, [501, 1_002, 1_503, 2_004])
    with pytest.raises(NoPlace):
        at.attempt().take(ORDER)
    assert at.places.items["customer"].is_empty
    assert len(at.done("change")) == 5


def test_a_place_of_hops_at_work_may_be_taken_as_slowly_as_it_is() -> None:
    at = Noted()
    takes(at, [9 * SECOND])
    at.attempt().take(ORDER)
    assert len(at.done("change")) == 1


@pytest.mark.parametrize(
    ("limit", "again"), [(BY_TIME, [("change", "customer")] * 2), (CUSTOMER, [("change", "customer")])]
)
def test_a_start_that_counts_no_more_when_it_is_noted_anew_needs_a_place(limit: PerKey, again: list[Any]) -> None:
    """Others may have begun since."""
    at = Noted(limit=limit)
    takes(at, [61 * SECOND + 1])
    at.attempt().take(ORDER)
    assert at.done("change") == again


def test_an_error_while_a_start_is_noted_anew_gives_it_back() -> None:
    at = Noted(limit=BY_TIME)
    takes(at, [501])
    change = at.places.change

    def once(*args: Any, **options: Any) -> Changed:
        if len(at.done("change")) == 1:
            at.log.append(("change", "refused"))
            raise PlacesBusy("customer#0", "often")
        return change(*args, **options)

    at.places.change = once  # type: ignore[method-assign]
    with pytest.raises(NoPlace):
        at.attempt().take(ORDER)
    assert at.places.items["customer"].is_empty


@pytest.mark.parametrize(
    ("receives", "since", "says"), [(1, 0, 0), (2, 0, NOW - 7), (2, NOW - 99, NOW - 99), (1, NOW - 99, NOW - 99)]
)
def test_a_look_says_since_when_its_hop_comes_again(receives: int, since: int, says: int) -> None:
    at = Noted()
    at.envelope.receive_count, at.envelope.sent_at = receives, NOW - 7
    at.arrival.message = at.message._replace(since=since)
    at.full()
    at.parked()
    assert json.loads(at.sent[0].attributes[PLACE].value).get("since", 0) == says


def test_a_look_of_a_record_that_says_no_time_says_none() -> None:
    at = Noted()
    at.envelope.receive_count, at.envelope.sent_at = 2, None
    assert TurnMessages(at.services, at.emitter, at.arrival)._since == 0


def test_a_hop_that_was_called_takes_its_place_and_leaves_nothing() -> None:
    at = Noted(look(0))
    at.places.items["customer"] = Places({}, {token_of(at.message): Waiter(NOW - 9, "o1", NOW, NOW)})
    attempt = at.attempt()
    attempt.take(ORDER)
    assert at.steps == ["change", "forget"]
    attempt.end()
    assert at.steps == ["change", "forget", "change"], "it has left the line, and does not leave it twice"


def test_a_hop_whose_limit_is_another_now_leaves_the_line_of_the_first_at_its_end() -> None:
    at = Noted(Turn(NOW - 9, place(GATEWAY), 5), (CUSTOMER, GATEWAY))
    other = Turn(NOW - 9, "gateway#another", 5)
    at.message = at.message._replace(turn=other)
    at.arrival.message = at.message
    at.places.items["gateway"] = Places({}, {})
    attempt = at.attempt()
    attempt.take(ORDER)
    assert "forget" not in at.steps
    attempt.end()
    assert at.done("change") == [("change", name) for name in ("customer", "gateway", "customer", "gateway", "gateway")]


def test_a_place_that_is_not_granted_is_not_given_back() -> None:
    at = Noted()
    at.full()
    with pytest.raises(NoPlace):
        at.attempt().take(ORDER)
    assert at.done("change") == [("change", "customer")]


def test_a_place_that_may_be_taken_is_given_back_where_nobody_knows() -> None:
    at = Noted(limit=(CUSTOMER, GATEWAY))
    at.places.raises["gateway"] = PlacesBusy("gateway#0", "often")
    with pytest.raises(NoPlace):
        at.attempt().take(ORDER)
    assert [name for _, name in at.done("change")] == ["customer", "gateway", "customer", "gateway"]


@pytest.mark.parametrize(("turn", "is_short"), [(None, True), (look(0), False)])
def test_only_who_never_stood_in_line_writes_one_entry(turn: Turn | None, *, is_short: bool) -> None:
    at = Noted(turn)
    attempt = at.attempt()
    attempt.take(ORDER)
    attempt.end()
    assert [isinstance(short, Take) for short in at.places.shorts[:1]] == [is_short]
    assert isinstance(at.places.shorts[-1], GiveBack)


def test_only_a_stage_with_limits_has_places() -> None:
    at = Noted()
    assert isinstance(limits.places_of(at.services, at.emitter, at.arrival, at.claim), HopPlaces)
    for stage in (None, flow_of(None).stages[0]):
        at.arrival.stage = stage
        assert limits.places_of(at.services, at.emitter, at.arrival, at.claim) is None


# -- leave the line


@pytest.mark.parametrize(("arrival", "forgets"), [(NOW - 40 * SECOND, True), (NOW - 39 * SECOND, False)])
def test_who_ends_without_a_place_leaves_the_line_and_the_call_of_its_own_attempt(arrival: int, forgets: bool) -> None:
    at = Noted(look())
    at.full(line={token_of(at.message): Waiter(arrival, "o1", NOW)})
    at.attempt().end()
    assert (token_of(at.message) not in at.places.items["customer"].line) is forgets
    assert ("forget" in at.steps) is forgets


def test_who_does_not_stand_in_line_leaves_the_call_to_others_and_calls_them() -> None:
    at = Noted(look())
    at.places.items["customer"] = Places({}, {"w": Waiter(NOW - 9, "o2", NOW)})
    at.attempt().end()
    assert at.steps == ["change", "send"]
    assert at.places.items["customer"].line["w"].called_at == NOW


def test_a_hop_of_a_payload_that_is_not_limited_takes_and_forgets_nothing() -> None:
    at = Noted(None, PerKey(lambda order: None, at_once=1, name="note"))
    at.attempt().take(ORDER)
    assert at.steps == []


@pytest.mark.parametrize("stage", ["without", "another"])
def test_a_line_of_a_limit_that_there_is_no_more_is_left_alone(stage: str) -> None:
    at = Noted(look(), GATEWAY)
    if stage == "without":
        at.arrival.stage = None
    at.attempt().end()
    assert at.steps == []


def test_a_hop_that_never_stood_in_line_leaves_none() -> None:
    at = Noted()
    at.attempt().end()
    assert at.steps == []


# -- a look that is left over


def test_a_look_that_is_left_over_puts_its_note_back_and_looks_at_no_place() -> None:
    at = Noted(look(), before={"back_off": FAILED})
    ending = at.parked()
    assert at.log == [("back off", FAILED), (EventType.DUPLICATE, {})]
    assert (ending.ack, ending.verdict) == (True, Verdict.DUPLICATE)


# -- stand in line


def test_who_finds_no_place_sends_its_look_before_it_releases_its_claim_and_joins_last() -> None:
    at = Noted()
    at.full()
    ending = at.parked()
    assert at.steps == ["change", "keep", "send", "release", "change"]
    [sent] = at.sent
    assert json.loads(sent.attributes[PLACE].value)["turn"] == [NOW, place(), 7]
    assert (sent.id.rpartition(".")[2], str(sent.to), sent.group) == ("look7", f"sqs:{QUEUE}", None)
    [(_, note)] = at.done("release")
    assert (note.look, note.until) == (7, NOW + sent.delay * SECOND)
    assert (ending.ack, ending.verdict) == (True, Verdict.CLAIMED)
    [kept] = at.places.texts.values()
    call = Send.from_json(json.loads(kept))
    assert (json.loads(call.attributes[PLACE].value)["turn"], call.delay) == ([NOW, place(), 0], 0)
    assert call.id.endswith(".call7")
    assert at.told(EventType.IN_LINE) == [{"limit": "customer", "delay": sent.delay}]


def test_a_record_that_came_by_no_queue_looks_through_the_inbox_in_the_group_of_its_object() -> None:
    at = Noted(arn=None)
    at.full()
    at.parked()
    assert [(str(sent.to), sent.group) for sent in at.sent] == [(str(at.flow.inbox_of(at.flow.stages[0])), "o1")]


def test_a_look_that_is_not_sent_keeps_its_record_and_frees_the_claim() -> None:
    at = Noted()
    at.full()
    at.refusals = {0: Refusal("no such queue", final=False, for_minutes=True)}
    ending = at.parked()
    assert at.steps == ["change", "keep", "send", "release"]
    assert at.done("release") == [("release", None)]
    assert (ending.ack, ending.backs_off, ending.for_minutes) == (False, True, True)
    assert "its look was not sent" in ending.why


def test_a_hop_that_waits_for_another_limit_now_leaves_the_line_of_the_first() -> None:
    at = Noted(look(), (CUSTOMER, GATEWAY))
    at.full("gateway")
    at.places.items["customer"] = Places({}, {token_of(at.message): Waiter(NOW - 40 * SECOND, "o1", NOW)})
    at.parked()
    assert at.places.items["customer"].is_empty
    assert token_of(at.message) in at.places.items["gateway"].line


def test_a_hop_that_waits_for_another_key_now_leaves_the_line_of_the_first() -> None:
    at = Noted(Turn(NOW - 9, "gateway#another", 5), (CUSTOMER, GATEWAY))
    at.full()
    at.places.items["gateway"] = Places({}, {token_of(at.message): Waiter(NOW - 9, "o1", NOW)})
    at.parked()
    assert at.places.items["gateway"].is_empty
    assert [name for _, name in at.done("change")] == ["customer", "gateway", "customer"]


def test_a_hop_that_waits_for_the_same_limit_still_keeps_its_turn() -> None:
    at = Noted(look())
    at.full()
    at.parked()
    assert [name for _, name in at.done("change")] == ["customer", "customer"]
    assert at.places.items["customer"].line[token_of(at.message)].arrival == NOW - 40 * SECOND


def test_a_copy_that_knows_no_turn_keeps_the_arrival_that_the_line_has() -> None:
    at = Noted()
    at.full(line={token_of(at.message): Waiter(NOW - 90 * SECOND, "o1", NOW)})
    at.parked()
    assert json.loads(at.sent[0].attributes[PLACE].value)["turn"][0] == NOW - 90 * SECOND


def test_an_error_of_the_places_keeps_the_record_as_it_is() -> None:
    at = Noted()
    at.places.raises["customer"] = OSError("down")
    attempt = at.attempt()
    with pytest.raises(NoPlace) as waits:
        attempt.take(ORDER)
    with pytest.raises(OSError, match="down"):
        waits.value.ending()
    assert at.sent == []


def test_a_look_that_cannot_be_made_for_another_reason_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Send:
        raise OSError("a key is gone")

    monkeypatch.setattr(TurnMessages, "again", broken)
    at = Noted()
    at.full()
    with pytest.raises(OSError, match="a key is gone"):
        at.parked()


def test_who_does_not_know_how_the_places_stand_looks_all_the_same() -> None:
    at = Noted()
    at.places.raises["customer"] = PlacesBusy("customer#0", "often")
    assert at.parked().ack
    assert [sent.delay for sent in at.sent] == [10]


# -- who looks again


@pytest.mark.parametrize(
    ("number", "before", "looks"),
    [
        (5, {"back_off": WAITS}, True),
        (6, {"back_off": WAITS}, True),
        (4, {"back_off": WAITS}, False),
        (4, None, True),
        (4, {"back_off": FAILED, "kills": -1}, True),
        (4, {"back_off": WAITS._replace(until=NOW - hop_places.LOST_AFTER)}, False),
        (4, {"back_off": WAITS._replace(until=NOW - hop_places.LOST_AFTER - 1)}, True),
        (0, {"back_off": WAITS}, False),
        (0, {"back_off": WAITS._replace(until=NOW - hop_places.LOST_AFTER - 1)}, False),
        (0, {"back_off": WAITS._replace(look=0)}, False),
        (0, None, False),
    ],
)
def test_the_last_look_looks_again_and_every_other_copy_ends(
    number: int, before: dict[str, Any] | None, *, looks: bool
) -> None:
    at = Noted(look(number), before=before)
    at.full()
    ending = at.parked()
    assert ending.ack
    assert [bool(at.sent), at.steps.count("keep")] == [looks, 1]
    assert at.steps == ["change", "keep", *(["send"] if looks else []), "release", "change"]
    if not looks:
        assert at.done("release") == [("release", None if before is None else before["back_off"])]
        assert token_of(at.message) in at.places.items["customer"].line


# -- in place


@pytest.mark.parametrize(
    ("until", "delay"), [(NOW + 200 * SECOND, 205), (NOW + 10 * SECOND, 60), (None, look_times.SELDOM // SECOND)]
)
@pytest.mark.parametrize(("turn", "number"), [(None, 0), (look(5), 5)])
def test_a_record_that_stays_in_its_place_is_seen_when_a_place_may_lapse(
    until: int | None, delay: int, turn: Turn | None, number: int
) -> None:
    at = Noted(turn, in_place=True)
    if until is None:
        at.places.raises["customer"] = PlacesBusy("customer#0", "often")
    else:
        at.full(until=until)
    ending = at.parked()
    assert at.steps[-2:] == ["release", "postpone"]
    assert at.done("postpone") == [("postpone", delay)]
    [(_, note)] = at.done("release")
    assert (note.look, note.until) == (number, NOW + delay * SECOND)
    assert (ending.ack, at.sent) == (False, [])


def test_a_message_without_room_for_its_turn_stays_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: Any) -> Send:
        raise TooLarge("it", {"text": 2}, 1)

    monkeypatch.setattr(TurnMessages, "again", too_large)
    at = Noted()
    at.full()
    assert not at.parked().ack
    assert at.done("postpone") == [("postpone", 65)]


# -- when it looks


def delay_of(at: Noted) -> int:
    at.parked()
    return at.sent[-1].delay


@pytest.mark.parametrize(("waited", "delay"), [(0, 10), (19, 10), (60, 30), (1_100, 550), (1_200, 600), (4_000, 600)])
def test_a_hop_looks_after_half_of_what_it_has_waited_within_bounds(waited: int, delay: int) -> None:
    at = Noted(look(5, arrival=NOW - waited * SECOND))
    at.full(until=NOW + 1_700 * SECOND)
    assert delay_of(at) == delay


@pytest.mark.parametrize(("draws", "delay"), [(0, 600), (0.5, 750), (1, 900)])
def test_looks_are_spread_over_half_as_long_again_and_within_what_a_queue_delays(draws: float, delay: int) -> None:
    at = Noted(look(5, arrival=NOW - 9_000 * SECOND))
    at.full(until=NOW + 1_700 * SECOND)
    at.draws = draws
    assert delay_of(at) == delay


def test_a_look_of_a_long_wait_is_cut_to_what_a_queue_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_places, "LONGEST_LOOK", 400 * SECOND)
    at = Noted(look(5, arrival=NOW - 9_000 * SECOND))
    at.full(until=NOW + 1_700 * SECOND)
    assert delay_of(at) == 400


@pytest.mark.parametrize(("draws", "delay"), [(0, 5), (1, 6)])
def test_no_look_comes_at_once(draws: float, delay: int) -> None:
    """The place lapses in 3 s: the least rest is 5 s, and half of that is what it is spread over."""
    at = Noted()
    at.full(until=NOW - 2 * SECOND)
    at.draws = draws
    assert delay_of(at) == delay


@pytest.mark.parametrize(("ahead", "delay"), [(2, 8), (3, 20)])
def test_the_first_three_look_when_a_place_may_lapse(ahead: int, delay: int) -> None:
    at = Noted(look())
    at.full(until=NOW + 3 * SECOND, line={f"w{one}": Waiter(NOW - 90 * SECOND, "o", NOW) for one in range(ahead)})
    assert delay_of(at) == delay


@pytest.mark.parametrize(
    ("pause", "text", "delay"),
    [
        (None, "for a place of the limit customer", 8),
        (KeyPause(NOW, "no"), "for a place of the limit customer, whose key is paused", 20),
    ],
)
def test_the_item_says_that_a_key_is_paused_and_nobody_hurries(pause: KeyPause | None, text: str, delay: int) -> None:
    at = Noted(look())
    at.full(until=NOW + 3 * SECOND)
    at.places.items["customer"] = at.places.items["customer"]._replace(pause=pause)
    at.parked()
    [(_, note)] = at.done("release")
    assert (note.error.text, note.until) == (text, NOW + delay * SECOND)


@pytest.mark.parametrize(("can_be_called", "delay"), [(True, 20), (False, 10)])
def test_who_cannot_be_called_looks_before_its_turn_is_over(can_be_called: bool, delay: int) -> None:
    at = Noted(look())
    at.full()
    at.places.holds_texts = can_be_called
    assert delay_of(at) == delay


@pytest.mark.parametrize(
    ("on_conflict", "delay"), [(OnConflict.SUPERSEDE, 600), (OnConflict.IGNORE, 100), (OnConflict.ATTACH, 100)]
)
def test_a_run_that_may_be_taken_for_abandoned_looks_three_times_before(on_conflict: OnConflict, delay: int) -> None:
    options: dict[str, Any] = {"on_conflict": on_conflict, "abandoned_after": timedelta(minutes=5)}
    at = Noted(look(5, arrival=NOW - 9_000 * SECOND), **options)
    at.full(until=NOW + 1_700 * SECOND)
    assert delay_of(at) == delay
    at = Noted(look(5, arrival=NOW), **options)
    at.full(until=NOW + 1_700 * SECOND)
    assert delay_of(at) == 10


# -- calls


def test_calls_are_counted_that_were_sent_and_a_text_that_is_gone_calls_nobody() -> None:
    at = Noted()
    at.full()
    at.parked()
    [text] = at.places.texts.values()
    at.places.texts = {"w1": text, "w2": text}
    at.refusals = {0: Refusal("no", final=False)}
    hops = tuple(Hop(token, "o1", NOW) for token in ("w1", "gone", "w2"))
    line = {hop.token: Waiter(NOW, "o1", NOW, NOW) for hop in hops}
    sent: list[Any] = []
    at.emitter.sent = lambda message, send, refusal: sent.append((send.id, refusal))
    TurnMessages(at.services, at.emitter, at.arrival).call(
        PlaceKey("orders", "charge", "customer#0"), Change(Places({}, line), calls=hops)
    )
    assert at.log[-2][1] == 2, "both that are there are sent, in one call"
    assert at.told(EventType.CALLED) == [{"limit": "customer", "hops": 1}]
    assert [refusal for _, refusal in sent] == [None]


@pytest.mark.parametrize(
    ("called_at", "delay"),
    [
        (NOW - 9 * SECOND, 0),
        (NOW, 0),
        (NOW + 1, 1),
        (NOW + SECOND, 1),
        (NOW + SECOND + 1, 2),
        (NOW + 901 * SECOND, 900),
    ],
)
def test_a_call_is_delayed_to_when_its_place_is_free(called_at: int, delay: int) -> None:
    """SQS delays it no longer than it can: it comes early then, and is sent once more."""
    at = Noted()
    at.full()
    at.parked()
    [text] = at.places.texts.values()
    at.places.texts, at.sent[:] = {"w1": text}, []
    change = Change(Places({}, {"w1": Waiter(NOW, "o1", NOW, called_at)}), calls=(Hop("w1", "o1", NOW),))
    TurnMessages(at.services, at.emitter, at.arrival).call(PlaceKey("orders", "charge", "customer#0"), change)
    assert [call.delay for call in at.sent] == [delay]


# -- where the worker asks


@pytest.mark.parametrize(
    ("turn", "stage", "limited"),
    [(None, "limited", True), (look(), "free", True), (None, "free", False), (None, None, False), (look(), None, True)],
)
def test_what_has_or_waits_for_a_place_shares_no_commit(turn: Turn | None, stage: str | None, *, limited: bool) -> None:
    stages = {"limited": flow_of().stages[0], "free": flow_of(None).stages[0], None: None}
    arrival: Any = SimpleNamespace(message=SimpleNamespace(turn=turn), stage=stages[stage])
    assert limits.is_limited(arrival) is limited


@pytest.mark.parametrize(
    ("verdict", "turn", "leaves"),
    [
        (Verdict.DUPLICATE, look(), True),
        (Verdict.SUPERSEDED, look(0), True),
        (Verdict.BUSY, look(), False),
        (Verdict.EARLY, look(), False),
        (Verdict.DUPLICATE, None, False),
    ],
)
def test_a_hop_that_is_not_to_begin_leaves_its_line(verdict: Verdict, turn: Turn | None, *, leaves: bool) -> None:
    at = Noted(turn)
    refused, nobody = Refused(verdict, run_item(by_look=0)), SimpleNamespace()
    services: Any = at.services if leaves else nobody
    assert limits.turned_away(services, at.emitter, at.arrival, refused) is None
    assert [line for line in at.log if line[0] is EventType(verdict.value.lower())]
    assert bool(at.done("change")) is leaves


@pytest.mark.parametrize(
    ("verdict", "item", "ends"),
    [
        (Verdict.DONE, run_item(by_look=0), True),
        (Verdict.DONE, run_item(by_look=5), False),
        (Verdict.DONE, None, False),
        (Verdict.DUPLICATE, run_item(by_look=0), False),
    ],
)
def test_a_hop_that_another_look_committed_sends_nothing(verdict: Verdict, item: Any, *, ends: bool) -> None:
    at = Noted(look())
    ending = limits.turned_away(at.services, at.emitter, at.arrival, Refused(verdict, item))
    assert (ending is not None) is ends
    if ending is not None:
        assert (ending.ack, ending.verdict, ending.sends) == (True, Verdict.DONE, ())


@pytest.mark.parametrize(("error", "ends"), [(None, 1), (ValueError(), 1), (KeyboardInterrupt(), 0)])
def test_a_process_that_is_stopped_leaves_its_places_to_lapse(error: BaseException | None, ends: int) -> None:
    ended: list[int] = []
    places: Any = SimpleNamespace(take=lambda payload: None, end=lambda raised, is_over: ended.append(1))
    store: Any = None
    claim = Claim(Noted().message, run_item(owner=Owner("w")), None)
    memory = HopMemory(store, claim)
    try:
        with memory:
            memory.begin(lambda now: places)
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    assert len(ended) == ends


def test_a_memory_without_places_takes_and_ends_none() -> None:
    store: Any = None
    with HopMemory(store, Claim(Noted().message, run_item(), None)) as memory:
        memory.take_places(ORDER)


class Looking(CallerAnswers):
    """Counts how often it looks for callers of the run before."""

    looks = 0

    def _answer_left(self, arrival: Arrival, item: RunItem) -> None:
        self.looks += 1


@pytest.mark.parametrize(("before", "looks"), [(None, 1), ({"back_off": WAITS}, 0), ({"back_off": FAILED}, 1)])
def test_a_hop_that_has_stood_in_line_answers_nobody_once_more(before: dict[str, Any] | None, looks: int) -> None:
    at = Noted(look(), before=before)
    answers = Looking(at.services, at.emitter)
    answers.flush(at.arrival, at.claim)
    assert answers.looks == looks


# -- dead letters


def test_a_look_that_sqs_has_given_up_is_one_as_it_was() -> None:
    """It was received too often, and goes back with its turn."""
    look = Message("orders", "charge", 1, ObjectId("o1"), RequestId("r"), NOW, ORDER.model_dump_json())
    look = look._replace(turn=Turn(NOW - SECOND, "customer#0123", 3))
    sent = attributes_to(Attribute.to_sqs_api, look.attributes())
    counted = {"SentTimestamp": str(NOW), "ApproximateReceiveCount": "7", "DeadLetterQueueSourceArn": QUEUE}
    record = {"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": look.body, "Attributes": counted}
    letter = Letter.read({**record, "MessageAttributes": sent}, now=NOW)
    assert letter.message is not None
    assert letter.message.turn == look.turn

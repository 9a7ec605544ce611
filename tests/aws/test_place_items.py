"""The items of limits on each engine: one conditional write of what was decided, whatever others do meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws import place_items
from flowguard.aws.clients import Clients
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.aws.place_items import (
    KEPT_FOR,
    LONGEST_PAUSE,
    LONGEST_TEXT,
    MOST_TRIES,
    PATIENT_TRIES,
    ROUNDED_TO,
    DynamoDBPlaces,
    read_places,
)
from flowguard.aws.services import aws_store
from flowguard.errors import OtherRelease, PlacesBusy
from flowguard.protocol.breaker import Rule, failed
from flowguard.protocol.places import (
    NOBODY,
    Change,
    Holder,
    Hop,
    KeyPause,
    Places,
    Terms,
    Waiter,
    given_back,
    joined,
    paused,
    resumed,
    taken,
)
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.worker.place_store import Changed, GiveBack, PlaceKey, Seen, Take
from tests.aws.engines import on_memory

NOW: Final = 1_800_000_000_000
TERMS: Final = Terms(1, NOW, 1_800_000)
KEY: Final = PlaceKey("orders", "price", "customer#d1")
NEW: Final = Seen(NOBODY)
ROW: Final[Any] = {"pk": {"S": "limit#orders#price#customer#d1"}, "sk": {"S": "limit"}}
A, B = Hop("a", "order a#1", NOW - 2), Hop("b", "order b 2", NOW - 1)


@pytest.fixture
def places(clients: Clients) -> DynamoDBPlaces:
    return aws_store(Settings(), clients).places


def take(places: DynamoDBPlaces, hop: Hop = A, nonce: str = "n1", seen: Seen | None = NEW) -> Changed:
    holder = Holder(f"owner of {hop.token}", NOW + 30_000)
    return places.change(KEY, lambda found: taken(found, hop, holder, TERMS), nonce, seen)


def back(places: DynamoDBPlaces, seen: Seen | None, hop: Hop = A, nonce: str = "n2") -> Changed:
    return places.change(KEY, lambda found: given_back(found, hop.token, f"owner of {hop.token}", TERMS), nonce, seen)


def join(places: DynamoDBPlaces, hop: Hop = B, nonce: str = "n3", seen: Seen | None = None) -> Changed:
    return places.change(KEY, lambda found: joined(found, hop, TERMS), nonce, seen)


def raw(places: DynamoDBPlaces) -> Any:
    return places.client.get_item(TableName="flowguard", Key=ROW).get("Item")


def looked(places: DynamoDBPlaces) -> Places:
    return places.change(KEY, Change, "nobody").seen.places


def test_a_first_place_is_one_write_and_its_return_another(places: DynamoDBPlaces) -> None:
    with intercept(calls := Recorder()):
        change, seen = take(places)
        assert change.granted
        assert back(places, seen).seen.places == NOBODY
    assert [call.operation for call in calls.calls] == ["PutItem", "PutItem"]
    assert looked(places) == NOBODY


def test_what_is_written_is_read_again(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    stands = join(places, seen=seen).seen
    assert looked(places) == stands.places
    assert stands.places == Places({"a": Holder("owner of a", NOW + 30_000)}, {"b": Waiter(NOW - 1, "order b 2", NOW)})


# -- one entry, while nobody stands in line


def take_free(
    places: DynamoDBPlaces, hop: Hop, nonce: str, at_once: int = 2, ends: int = NOW // 1000 + 1_800
) -> Changed:
    holder, terms = Holder(f"owner of {hop.token}", NOW + 30_000), Terms(at_once, NOW, 1_800_000)
    free = Take(hop.token, holder, at_once, ends)
    return places.change(KEY, lambda found: taken(found, hop, holder, terms), nonce, short=free)


def free(places: DynamoDBPlaces, hop: Hop, nonce: str, owner: str = "") -> Changed:
    holder, terms = Holder(owner or f"owner of {hop.token}", NOW + 30_000), Terms(2, NOW, 1_800_000)
    mine = GiveBack(hop.token, holder)
    return places.change(
        KEY, lambda found: given_back(found, hop.token, holder.owner, terms), nonce, short=mine, frees=True
    )


def operations(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls]


def test_a_place_of_a_known_key_is_one_write_and_its_return_another_whoever_else_is_at_work(
    places: DynamoDBPlaces,
) -> None:
    take_free(places, A, "n0")
    with intercept(calls := Recorder()):
        changed = take_free(places, B, "n1")
        assert changed.change.granted
        assert set(changed.seen.places.held) == {"a", "b"}
        assert set(free(places, A, "n2").seen.places.held) == {"b"}
        assert free(places, B, "n3").seen.places == NOBODY
    assert operations(calls) == ["UpdateItem"] * 3
    assert looked(places) == NOBODY


def test_the_first_place_of_a_key_is_a_refused_write_and_one_more(places: DynamoDBPlaces) -> None:
    with intercept(calls := Recorder()):
        assert take_free(places, A, "n1").change.granted
    assert operations(calls) == ["UpdateItem", "PutItem"]


def test_who_makes_the_item_of_a_key_after_another_takes_one_entry_of_it(places: DynamoDBPlaces) -> None:
    """Else short changes of others would refuse its write of the whole again and again."""
    others = False

    def meanwhile(call: ApiCall, proceed: Proceed) -> Response:
        nonlocal others
        if call.operation == "PutItem" and not others:
            others = True
            take_free(places, B, "n1")
        return proceed()

    with intercept(calls := Recorder()), intercept(meanwhile):
        assert set(take_free(places._replace(pause=lambda _: None), A, "n2").seen.places.held) == {"a", "b"}
    assert operations(calls)[-1] == "UpdateItem"


def test_no_more_are_taken_than_there_are(places: DynamoDBPlaces) -> None:
    take_free(places, A, "n1", at_once=1)
    with intercept(calls := Recorder()):
        change, seen = take_free(places, B, "n2", at_once=1)
    assert (change.granted, set(seen.places.held)) == (False, {"a"})
    assert operations(calls) == ["UpdateItem"]


def test_a_newcomer_passes_nobody_in_line(places: DynamoDBPlaces) -> None:
    take(places)
    join(places)
    back(places, None)
    stranger = Hop("z", "order z", NOW)
    with intercept(calls := Recorder()):
        assert not take_free(places, stranger, "n4", at_once=1).change.granted
    assert operations(calls) == ["UpdateItem"]


def test_who_frees_a_place_calls_who_stands_in_line(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    join(places, seen=seen)
    with intercept(calls := Recorder()):
        assert B in free(places, A, "n4").change.calls
    assert operations(calls) == ["UpdateItem", "PutItem"]


def test_another_owner_of_the_hop_keeps_its_place(places: DynamoDBPlaces) -> None:
    take_free(places, A, "n1")
    with intercept(calls := Recorder()):
        assert "a" in free(places, A, "n2", owner="one before").seen.places.held
    assert operations(calls) == ["UpdateItem"]


def test_a_hop_whose_earlier_owners_lease_is_over_gets_its_new_owner(places: DynamoDBPlaces) -> None:
    """It takes no second one, and the entry is not written over without a decision."""
    take_free(places, A, "n1", at_once=1)
    holder, terms = Holder("the next", NOW + 60_000), Terms(1, NOW + 30_000, 1_800_000)
    short = Take("a", holder, 1, NOW // 1000)
    with intercept(calls := Recorder()):
        change = places.change(KEY, lambda found: taken(found, A, holder, terms), "n2", short=short).change
    assert change.granted
    assert operations(calls) == ["UpdateItem", "PutItem"]
    assert looked(places).held == {"a": holder}


def test_a_short_write_makes_what_was_seen_another_item(places: DynamoDBPlaces) -> None:
    """Who has read the item before decides anew."""
    take_free(places, A, "n1")
    old = places.change(KEY, Change, "nobody").seen
    take_free(places, B, "n2")
    other = places.change(KEY, Change, "nobody").seen
    assert old.nonce != other.nonce
    assert len(join(places, Hop("c", "order c", NOW), "n3", old).seen.places.held) == 2
    free(places, A, "n4")
    assert places.change(KEY, Change, "nobody").seen.nonce not in (old.nonce, other.nonce)


def test_a_short_write_never_makes_the_item_live_shorter(places: DynamoDBPlaces) -> None:
    take_free(places, A, "n1")
    assert take_free(places, B, "n2").change.granted
    free(places, B, "n3")
    ends = int(raw(places)["ttl"]["N"])
    assert ends % ROUNDED_TO == 0
    assert NOW // 1000 + 1_800 + KEPT_FOR <= ends < NOW // 1000 + 1_800 + KEPT_FOR + ROUNDED_TO
    with intercept(calls := Recorder()):
        assert take_free(places, B, "n4", ends=NOW // 1000 - 7_200).change.granted
    assert operations(calls) == ["UpdateItem", "PutItem"]
    assert int(raw(places)["ttl"]["N"]) == ends


@pytest.mark.parametrize("taking", [True, False])
def test_a_short_write_whose_answer_is_lost_has_been_made(taking: bool, places: DynamoDBPlaces) -> None:
    take_free(places, B, "n0")
    if not taking:
        take_free(places, A, "n1")

    def twice(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        return proceed()

    with intercept(twice):
        changed = take_free(places, A, "n2") if taking else free(places, A, "n2")
    assert changed.change.granted == taking
    assert set(looked(places).held) == ({"a", "b"} if taking else {"b"})


def test_any_other_failure_of_a_short_write_is_the_services() -> None:
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places

        def denied(call: ApiCall, proceed: Proceed) -> Response:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, call.operation)

        with intercept(denied), pytest.raises(ClientError, match="AccessDenied"):
            take_free(places, A, "n1")


# -- the whole item


@pytest.mark.parametrize(
    "error", [ClientError({"Error": {"Code": "AccessDeniedException"}}, "UpdateItem"), OSError("the network is down")]
)
def test_a_short_write_that_fails_is_not_taken_for_a_refused_one(error: Exception) -> None:
    """The write of the whole item might go through, and is not tried."""

    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            raise error
        return proceed()

    with on_memory() as clients, intercept(refused), pytest.raises(type(error)):
        take_free(aws_store(Settings(), clients).places, A, "n1")


def short_calls(seen: Seen | None) -> list[str]:
    """The calls of a change that knows the item as that, where it is as it was made by a first change."""
    holder = Holder("owner of a", NOW + 30_000)
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places
        if seen is not None and seen.nonce:
            seen = join(places).seen if seen.places.line else take(places, B).seen
        with intercept(calls := Recorder()):
            decide = lambda found: taken(found, A, holder, Terms(2, NOW, 1_800_000))  # noqa: E731 - one expression
            changed = places.change(KEY, decide, "n9", seen, short=Take("a", holder, 2, NOW // 1000 + 1_800))
            assert changed.change.granted
    return operations(calls)


def test_a_short_write_is_made_of_an_item_that_is_there_and_has_no_line() -> None:
    assert short_calls(Seen(Places({"b": Holder("", 1)}), "n")) == ["UpdateItem"]
    assert short_calls(NEW) == ["PutItem"]
    assert short_calls(Seen(Places({}, {"b": Waiter(1, "o", 1)}), "n")) == ["PutItem"]


def test_a_short_write_is_all_that_is_written_even_beside_a_place_that_has_lapsed(places: DynamoDBPlaces) -> None:
    over = Holder("owner of x", NOW - 60_000)
    places.change(KEY, lambda found: Change(Places({"x": over})), "n0", NEW)
    with intercept(calls := Recorder()):
        assert take_free(places, A, "n1").change.granted
        free(places, A, "n2")
    assert operations(calls) == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize(("passed", "granted"), [(29_999, False), (30_000, True)])
def test_a_short_write_replaces_no_other_owner_of_the_hop(places: DynamoDBPlaces, passed: int, granted: bool) -> None:
    before = take_free(places, A, "n0").seen
    newer, terms = Holder("a newer owner", NOW + 60_000), Terms(2, NOW + passed, 1_800_000)
    short = Take("a", newer, 2, NOW // 1000 + 1_800)
    with intercept(calls := Recorder()):
        change = places.change(KEY, lambda found: taken(found, A, newer, terms), "n1", short=short).change
    assert operations(calls) == ["UpdateItem", *(["PutItem"] if granted else [])], "it is decided of the item"
    assert change.granted is granted
    assert looked(places).held == ({"a": newer} if granted else before.places.held)


def test_an_item_that_ends_in_the_same_hour_takes_a_short_write(places: DynamoDBPlaces) -> None:
    for hop in (A, B):
        take_free(places, hop, f"n of {hop.token}", 3)
    with intercept(calls := Recorder()):
        assert take_free(places, Hop("c", "order c", NOW), "n3", 3).change.granted
    assert operations(calls) == ["UpdateItem"]


def test_a_place_that_is_freed_makes_what_was_seen_another_item(places: DynamoDBPlaces) -> None:
    take_free(places, A, "n1")
    before = take_free(places, B, "n2").seen.nonce
    assert free(places, A, "n3").seen.nonce != before


PAUSE: Final = KeyPause(NOW - 5, "a fraud is looked into")


def test_a_key_that_is_paused_gives_no_place_by_a_short_write(places: DynamoDBPlaces) -> None:
    take_free(places, A, "n0", 3)
    places.change(KEY, lambda found: paused(found, PAUSE), "n1")
    assert looked(places).pause == PAUSE
    with intercept(calls := Recorder()):
        assert not take_free(places, B, "n2", 3).change.granted
    assert operations(calls) == ["UpdateItem"]
    assert set(free(places, A, "n3").seen.places.held) == set()
    assert looked(places) == Places(pause=PAUSE)


def test_a_key_that_is_paused_never_expires_and_begins_to_afterwards(places: DynamoDBPlaces) -> None:
    places.change(KEY, lambda found: paused(found, PAUSE), "n1")
    join(places)
    assert "ttl" not in raw(places)
    assert raw(places)["pause"] == {"M": {"since": {"N": str(NOW - 5)}, "why": {"S": PAUSE.why}}}
    places.change(KEY, resumed, "n2")
    assert int(raw(places)["ttl"]["N"]) == NOW // 1000 + KEPT_FOR
    assert "pause" not in raw(places)


def test_the_item_of_a_pause_that_nobody_met_goes_a_day_after_its_begin(places: DynamoDBPlaces) -> None:
    places.change(KEY, lambda found: paused(found, PAUSE), "n1")
    places.change(KEY, resumed, "n2")
    assert int(raw(places)["ttl"]["N"]) == (NOW - 5) // 1000 + KEPT_FOR


def test_a_change_that_knows_nothing_reads_first(places: DynamoDBPlaces) -> None:
    with intercept(calls := Recorder()):
        join(places)
    assert operations(calls) == ["GetItem", "PutItem"]


def test_who_finds_no_place_writes_nothing_and_learns_who_is_there(places: DynamoDBPlaces) -> None:
    take(places)
    before = raw(places)
    with intercept(calls := Recorder()):
        change, seen = take(places, B, "n9")
    assert not change.granted
    assert "a" in seen.places.held
    assert raw(places) == before
    assert [call.operation for call in calls.calls] == ["PutItem"]


def test_a_change_of_what_others_have_written_meanwhile_is_decided_anew(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    join(places)
    change, after = back(places, seen)
    assert change.calls == (B,)
    assert after.places == Places(line={"b": Waiter(NOW - 1, "order b 2", NOW, NOW)}) == looked(places)


def test_a_removed_item_is_no_item_that_was_seen(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    back(places, seen)
    places.client.delete_item(TableName="flowguard", Key=ROW)  # as TTL does
    change, after = back(places, seen, nonce="n8")
    assert (change.after, after) == (NOBODY, Seen(NOBODY))
    assert take(places, B, "n9", seen).change.granted


def test_an_item_of_other_writes_is_not_taken_for_the_one_that_was_seen(places: DynamoDBPlaces) -> None:
    """The place was given back and taken by another: an old guess must not write over that."""
    _, seen = take(places)
    back(places, seen)
    take(places, B, "n5")
    change, after = back(places, seen, nonce="n6")
    assert change.after == after.places == looked(places)
    assert "b" in after.places.held


@pytest.mark.parametrize("ending", ["taken", "removed"])
def test_a_write_whose_answer_is_lost_has_been_made(ending: str, places: DynamoDBPlaces) -> None:
    """botocore makes it again, and meets its own write."""
    seen = take(places).seen if ending == "removed" else NEW

    def twice(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        return proceed()

    with intercept(twice):
        change = take(places) if ending == "taken" else back(places, seen)
    assert change.change.granted == (ending == "taken")
    assert len(looked(places).held) == (ending == "taken")


def test_the_calls_of_a_write_whose_answer_is_lost_are_made(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    seen = join(places, seen=seen).seen

    def twice(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        return proceed()

    with intercept(twice):
        assert back(places, seen).change.calls == (B,)


def test_the_item_outlives_each_lease_in_it_and_never_lives_shorter(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    ends = int(raw(places)["ttl"]["N"])
    assert ends == (NOW + 30_000) // 1000 + KEPT_FOR
    join(places, seen=seen)
    back(places, None)
    assert int(raw(places)["ttl"]["N"]) == ends


def test_who_stands_in_line_keeps_the_item_for_a_day(places: DynamoDBPlaces) -> None:
    join(places)
    assert int(raw(places)["ttl"]["N"]) == NOW // 1000 + KEPT_FOR


def test_a_guess_that_says_nothing_is_to_be_written_is_read_again(places: DynamoDBPlaces) -> None:
    _, seen = take(places)
    back(places, seen)
    with intercept(calls := Recorder()):
        assert take(places, B, "n9", seen).change.granted
    assert [call.operation for call in calls.calls] == ["GetItem", "PutItem"]


def test_an_item_that_is_not_there_holds_nobody() -> None:
    assert read_places(None) == NOBODY


@pytest.mark.parametrize(("frees", "tries"), [(False, MOST_TRIES), (True, PATIENT_TRIES)])
def test_after_many_changes_by_others_the_hop_is_told_so(frees: bool, tries: int) -> None:
    pauses: list[float] = []
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places._replace(pause=pauses.append)
        take(places)
        names = itertools.count()

        def moved(found: Places) -> Change:
            return Change(found._replace(line={f"another {next(names)}": Waiter(NOW, "o", NOW)}))

        others = False

        def changed(call: ApiCall, proceed: Proceed) -> Response:
            nonlocal others
            if call.operation == "PutItem" and not others:
                others = True
                places.change(KEY, moved, f"other {next(names)}")
                others = False
            return proceed()

        with intercept(changed), pytest.raises(PlacesBusy, match=f"customer#d1 .* {tries} times") as raised:
            places.change(KEY, lambda found: joined(found, B, TERMS), "mine", frees=frees)
        assert raised.value.place == KEY.place
        assert len(pauses) >= tries
        assert 0 < max(pauses) <= LONGEST_PAUSE
        assert "b" not in looked(places).line


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"]
)
def test_a_key_that_is_asked_too_often_is_busy(code: str) -> None:
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places

        def throttled(call: ApiCall, proceed: Proceed) -> Response:
            raise ClientError({"Error": {"Code": code}}, call.operation)

        with intercept(throttled), pytest.raises(PlacesBusy, match=code):
            take(places)


@pytest.mark.parametrize(
    "error",
    [ClientError({"Error": {"Code": "AccessDeniedException"}}, "PutItem"), EndpointConnectionError(endpoint_url="u")],
)
def test_any_other_failure_is_the_services(error: Exception) -> None:
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places

        def failing(call: ApiCall, proceed: Proceed) -> Response:
            raise error

        with intercept(failing), pytest.raises(type(error)):
            take(places)


def test_the_message_of_who_waits_is_kept_read_and_removed(places: DynamoDBPlaces) -> None:
    text = "a text that is longer than a short one " * 99
    assert places.text("orders", "o1", "a") is None
    assert places.keep_text("orders", "o1", "a", "the one before", NOW)
    assert places.keep_text("orders", "o1", "a", text, NOW + 5_000)
    assert places.text("orders", "o1", "a") == text
    key: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "turn#a"}}
    assert places.client.get_item(TableName="flowguard", Key=key)["Item"]["ttl"] == {"N": str(NOW // 1000 + 5)}
    places.forget_text("orders", "o1", "a")
    assert places.text("orders", "o1", "a") is None


@pytest.mark.parametrize(("later", "stays"), [(1, "the later one"), (0, "the earlier one"), (-1, "the earlier one")])
def test_a_worker_that_was_held_up_leaves_the_message_that_lives_longer(
    places: DynamoDBPlaces, later: int, stays: str
) -> None:
    assert places.keep_text("orders", "o1", "a", "the later one", NOW + later * 1_000)
    assert places.keep_text("orders", "o1", "a", "the earlier one", NOW)
    assert places.text("orders", "o1", "a") == stays


@pytest.mark.parametrize(
    "error",
    [ClientError({"Error": {"Code": "AccessDeniedException"}}, "PutItem"), EndpointConnectionError(endpoint_url="u")],
)
def test_a_message_that_cannot_be_kept_says_so(error: Exception) -> None:
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places

        def fails(call: ApiCall, proceed: Proceed) -> Response:
            raise error

        with intercept(fails), pytest.raises(type(error)):
            places.keep_text("orders", "o1", "a", "text", NOW)


@pytest.mark.parametrize(("left", "kept"), [(0, True), (-1, False)])
def test_a_message_that_no_row_holds_is_not_kept(left: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_items, "LONGEST_TEXT", 100 + left)
    with on_memory() as clients:
        places = aws_store(Settings(), clients).places
        assert places.keep_text("orders", "o1", "a", "x" * 100, NOW) == kept
        assert (places.text("orders", "o1", "a") is not None) == kept


def test_the_longest_message_leaves_room_in_its_row() -> None:
    assert LONGEST_TEXT == 409_600 - 8_192


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"frozen": {"M": {}}}, "ValueError: it has frozen"),
        ({"held": None}, "KeyError: 'held'"),
        ({"nonce": None}, "KeyError: 'nonce'"),
        ({"line": {"M": {"a": {"S": "soon"}}}}, "ValueError: not enough values to unpack (expected 4, got 1)"),
        ({"line": {"L": []}}, "KeyError: 'M'"),
        ({"held": {"M": {"a": {"S": "soon somebody"}}}}, "ValueError: invalid literal for int() with base 10: 'soon'"),
        ({"pause": {"S": "for good"}}, "KeyError: 'M'"),
        (
            {"pause": {"M": {"since": {"N": "1"}, "why": {"S": "no"}, "for": {"N": "9"}, "by": {"S": "me"}}}},
            "ValueError: its pause has by, for",
        ),
    ],
)
def test_an_item_of_another_release_is_named_and_not_written(
    changes: dict[str, Any], why: str, places: DynamoDBPlaces
) -> None:
    take(places)
    item = {name: value for name, value in {**raw(places), **changes}.items() if value is not None}
    places.client.put_item(TableName="flowguard", Item=item)
    with pytest.raises(OtherRelease) as raised:
        join(places)
    told = "the item limit#orders#price#customer#d1 cannot be read, which another release has written"
    assert str(raised.value) == f"{told} ({why})"
    assert raw(places) == item


# -- keys that pause themselves

FAILED: Final = Holder("owner of a", NOW + 30_000)
FAILED_B: Final = Holder("owner of b", NOW + 30_000)
BY_HAND: Final = KeyPause(NOW, "by hand")
OWN: Final = KeyPause(NOW, "3 Away", NOW + 300_000)


def stored(places: DynamoDBPlaces, given: Places, nonce: str = "there") -> None:
    """Put an item that says this of a key."""
    places.change(KEY, lambda found: Change(given), nonce, NEW)


def fail(places: DynamoDBPlaces, token: str, nonce: str) -> Changed:
    """Give a place back after a failure. Two of them pause the key."""
    holder, terms, rule = (
        Holder(f"owner of {token}", NOW + 30_000),
        Terms(5, NOW, 1_800_000),
        Rule(2, 60_000, 300_000, "2 Away"),
    )
    short = GiveBack(token, holder, failed_at=NOW, few=1)
    return places.change(
        KEY, lambda found: failed(found, token, holder.owner, terms, rule), nonce, short=short, frees=True
    )


def fail_shortly(places: DynamoDBPlaces, nonce: str = "n9", few: int = 2) -> Changed:
    """Give the place of A back after a failure that counts. What is decided where the short change is refused shows."""
    short = GiveBack("a", FAILED, failed_at=NOW + 5, few=few)
    return places.change(KEY, lambda found: Change(found._replace(held={})), nonce, short=short, frees=True)


@pytest.mark.parametrize("pause", [OWN, OWN._replace(trial="a")])
def test_a_key_that_has_paused_itself_is_read_as_it_was_written(places: DynamoDBPlaces, pause: KeyPause) -> None:
    given = Places({"a": FAILED}, {}, pause, (NOW, NOW + 1))
    stored(places, given)
    assert places.change(KEY, Change, "n2").seen.places == given
    assert "ttl" not in raw(places)


def test_a_key_without_failures_and_pauses_has_no_attribute_more(places: DynamoDBPlaces) -> None:
    take(places)
    assert raw(places).keys() == {"pk", "sk", "held", "line", "nonce", "ttl"}
    stored(places, Places({"a": FAILED}, pause=KeyPause(NOW, "by hand")), "n2")
    assert raw(places)["pause"]["M"].keys() == {"since", "why"}


def test_a_failure_is_noted_by_the_write_of_one_entry_that_frees_its_place(places: DynamoDBPlaces) -> None:
    stored(places, Places({"a": FAILED, "b": FAILED}))
    with intercept(calls := Recorder()):
        changed = fail_shortly(places)
    assert operations(calls) == ["UpdateItem"]
    assert changed.seen.places == Places({"b": FAILED}, failed=(NOW + 5,))
    assert changed.seen.nonce == "n9 0"
    stored(places, changed.seen.places._replace(held={"a": FAILED}), "n10")
    assert fail_shortly(places, "n11").seen.places.failed == (NOW + 5, NOW + 5)


@pytest.mark.parametrize(
    "given",
    [
        Places({"a": FAILED}, failed=(NOW, NOW + 1)),
        Places({"a": FAILED}, {"b": Waiter(NOW, "order b", NOW)}),
        Places({"a": FAILED}, {"b": Waiter(NOW, "order b", NOW)}, OWN),
        Places({"a": Holder("another", NOW + 30_000)}),
        Places(),
    ],
    ids=["enough", "a line", "a line that is paused", "another owner", "gone"],
)
def test_a_failure_that_may_pause_the_key_or_meets_others_is_decided_of_the_whole_item(
    places: DynamoDBPlaces, given: Places
) -> None:
    stored(places, given)
    with intercept(calls := Recorder()):
        assert fail_shortly(places).change.after == given._replace(held={})
    assert operations(calls) == ["UpdateItem", *["PutItem"] * len(given.held)]


@pytest.mark.parametrize("pause", [OWN, BY_HAND])
def test_a_failure_after_the_pause_counts_no_more_and_is_one_entry_beside_those_of_others(
    places: DynamoDBPlaces, pause: KeyPause
) -> None:
    """All who are at work may fail in one moment. Of writes of the whole item each would refuse all the others."""
    stored(places, Places({"a": FAILED, "b": FAILED_B}, pause=pause, failed=(NOW,)))

    def beside(call: ApiCall, proceed: Proceed) -> Response:
        if len(calls.calls) == 2:
            free(places, B, "other")
        return proceed()

    with intercept(calls := Recorder()), intercept(beside):
        changed = fail_shortly(places)
    assert operations(calls) == ["UpdateItem"] * 3
    assert looked(places) == changed.change.after == Places(pause=pause, failed=(NOW,))


def test_a_failure_that_finds_the_key_paused_by_another_is_one_entry_from_then_on(places: DynamoDBPlaces) -> None:
    stored(places, Places({"a": FAILED, "b": FAILED_B}, failed=(NOW,)))

    def first(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutItem" and not met:
            met.append("fails")
            fail(places, "b", "other")
        return proceed()

    met: list[str] = []
    with intercept(calls := Recorder()), intercept(first):
        fail(places, "a", "mine")
    others = ["UpdateItem", "PutItem"]
    assert operations(calls) == ["UpdateItem", "PutItem", *others, "UpdateItem"]
    assert looked(places) == Places(pause=KeyPause(NOW, "2 Away", NOW + 300_000))


@pytest.mark.parametrize("pause", [OWN, OWN._replace(until=NOW - 1), OWN._replace(until=NOW - 1, trial="b")])
def test_the_write_of_one_entry_takes_no_place_of_a_key_that_has_paused_itself(
    places: DynamoDBPlaces, pause: KeyPause
) -> None:
    stored(places, Places(pause=pause))
    short = Take("a", FAILED, 100, NOW // 1000 + 30)
    changed = places.change(KEY, lambda found: Change(found._replace(held={"decided": FAILED})), "n2", short=short)
    assert changed.seen.places == Places({"decided": FAILED}, pause=pause)


def test_a_failure_whose_answer_is_lost_counts_once(places: DynamoDBPlaces) -> None:
    """botocore makes the call again, and it finds the place given back."""
    stored(places, Places({"a": FAILED, "b": FAILED_B}))

    def twice(call: ApiCall, proceed: Proceed) -> Response:
        proceed()
        return proceed()

    with intercept(twice):
        fail(places, "a", "n9")
    assert looked(places) == Places({"b": FAILED_B}, failed=(NOW,))


OTHERS: Final[dict[str, Callable[[DynamoDBPlaces], object]]] = {
    "takes": lambda places: places.change(KEY, Change, "other", short=Take("c", FAILED, 5, NOW // 1000 + 30)),
    "gives back": lambda places: free(places, B, "other"),
    "fails": lambda places: fail(places, "b", "other"),
    "pauses": lambda places: places.change(KEY, lambda found: paused(found, BY_HAND), "other"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_another_writes_before_the_write_that_pauses_the_key_is_not_lost(
    places: DynamoDBPlaces, other: str
) -> None:
    """The last failure but one is noted. The next write is that of the whole item."""
    stored(places, Places({"a": FAILED, "b": FAILED_B}, failed=(NOW,)))
    met: list[str] = []

    def meet(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutItem" and not met:
            met.append(other)
            OTHERS[other](places)
        return proceed()

    with intercept(meet):
        changed = fail(places, "a", "mine")
    assert met
    after, pause = looked(places), KeyPause(NOW, "2 Away", NOW + 300_000)
    assert "a" not in after.held
    assert {"takes": {"b", "c"}, "pauses": {"b"}}.get(other, set()) == set(after.held)
    assert after.failed == {"pauses": (NOW,)}.get(other, ())
    assert after.pause == (BY_HAND if other == "pauses" else pause)
    assert changed.change.tripped == (pause if other in ("takes", "gives back") else None)


def test_the_row_of_a_key_that_has_paused_itself_is_a_hint_that_expires(
    places: DynamoDBPlaces, clients: Clients
) -> None:
    rows = PauseRows(clients.dynamodb, "flowguard")
    places.tell_pause(KEY, OWN, "n1")
    first = Pause("orders", "price", "", NOW, "3 Away", {}, nonce="n1", place=KEY.place, until=NOW + 300_000)
    assert rows.all() == [first]
    places.tell_pause(KEY, OWN._replace(until=NOW + 600_000), "n2")
    assert rows.all() == [first._replace(until=NOW + 600_000, nonce="n2")]
    row: Any = {"pk": {"S": "pause"}, "sk": {"S": f"orders#price#{KEY.place}"}}
    item: Any = clients.dynamodb.get_item(TableName="flowguard", Key=row)["Item"]
    assert item["ttl"] == {"N": str(NOW // 1000 + 600 + 86_400)}
    places.tell_end(KEY)
    assert rows.all() == []
    places.tell_end(KEY)


def test_the_row_of_who_pauses_by_hand_is_neither_written_nor_removed_by_a_worker(
    places: DynamoDBPlaces, clients: Clients
) -> None:
    rows = PauseRows(clients.dynamodb, "flowguard")
    by_hand = Pause("orders", "price", "", NOW, "by hand", {}, nonce="n1", place=KEY.place)
    assert rows.write(by_hand, None)
    places.tell_pause(KEY, OWN, "n2")
    places.tell_end(KEY)
    assert rows.all() == [by_hand]

"""The ledger on each engine: who may call the function, what a finish overwrites, and what each call costs."""

from __future__ import annotations

import functools
import itertools
import random
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.items import KEPT_FREE, LARGEST_ITEM
from flowguard.aws.ledger import DynamoDBLedger, ledger_of
from flowguard.errors import SettingsError, TextGone, TooLarge
from flowguard.key_table import KeyTable
from flowguard.names.ids import Owner
from flowguard.protocol.entry import Completion, Entry, EntryStatus, KeyAsk, KeyClaim, KeyVerdict, Met, judge_key
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.table_keys import create_table
from tests.aws.engines import EVERY_STATE, on_dynamodb_local, on_memory

NOW = 1_800_000_000_000
DAY = 86_400_000
KEY = {"pk": {"S": "once#charge#o-1"}, "sk": {"S": "once"}}


@pytest.fixture
def memory() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


def ask(owner: str = "me", now: int = NOW, digest: str | None = None, key: str = "o-1") -> KeyAsk:
    return KeyAsk("charge", key, Owner(owner), now, now + 30_000, now + DAY, digest)


def ledger(clients: Clients, bucket: str | None = None, table: KeyTable | None = None) -> DynamoDBLedger:
    return ledger_of(Settings(bucket=bucket), clients, table)


def claimed(store: DynamoDBLedger, asked: KeyAsk) -> KeyClaim:
    found = store.claim(asked)
    assert isinstance(found, KeyClaim), found
    return found


def met(store: DynamoDBLedger, asked: KeyAsk) -> Met:
    found = store.claim(asked)
    assert isinstance(found, Met), found
    return found


def there(store: DynamoDBLedger) -> Entry:
    """The entry as it is."""
    entry = store.read("charge", "o-1")
    assert entry is not None
    return entry


def done(text: str = '"paid"', now: int = NOW + 1, keep: int = DAY) -> Completion:
    return Completion(text, None, now, now + keep)


@functools.cache
def noise(length: int) -> str:
    return '"' + "".join(random.Random(1).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=length)) + '"'


# -- the condition and the decision agree ------------------------------------------------------------------------------

OWNERS = (None, "me", "other")
LEASES = (NOW - 1, NOW, NOW + 1)
BELIEVED = (ask().believed_until, ask().believed_until + 1)
DIGESTS = (None, "d1", "d2")
STATES: list[dict[str, Any] | None] = [
    None,
    *(
        {"status": "RUNNING", "lease_until": lease, **({"owner": owner} if owner else {})}
        | ({"digest": digest} if digest else {})
        for owner, lease, digest in itertools.product(OWNERS, LEASES + BELIEVED, DIGESTS)
    ),
    *(
        {"status": "COMPLETED", "owner": owner, "lease_until": NOW + 1, "completed_by": owner, "expires_at": ends}
        | ({"digest": digest} if digest else {})
        for owner, ends, digest in itertools.product(("me", "other"), LEASES, DIGESTS)
    ),
]


def lay_out(clients: Clients, state: dict[str, Any] | None) -> None:
    clients.dynamodb.delete_item(TableName="flowguard", Key=KEY)
    if state is not None:
        item: dict[str, Any] = {
            name: {"N": str(one)} if isinstance(one, int) else {"S": one} for name, one in {"met": 1, **state}.items()
        }
        if state["status"] == "COMPLETED":
            item["result"] = {"S": '"before"'}
        clients.dynamodb.put_item(TableName="flowguard", Item={**KEY, **item})


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_the_condition_decides_as_the_python_does(clients: Clients) -> None:
    store = ledger(clients)
    for state, digest in itertools.product(STATES, (None, "d1")):
        lay_out(clients, state)
        before = store.read("charge", "o-1")
        verdict = judge_key(before, ask(digest=digest))
        answer = store.claim(ask(digest=digest))
        after = store.read("charge", "o-1")
        assert after is not None
        match verdict:
            case KeyVerdict.CLAIMED | KeyVerdict.EXPIRED:
                assert isinstance(answer, KeyClaim), (state, digest)
                assert (after.status, after.owner, after.result) == (EntryStatus.RUNNING, "me", None)
                assert after.met == (1 if verdict is KeyVerdict.EXPIRED or before is None else 2)
                assert after.digest == (digest or (before.digest if before and verdict is KeyVerdict.CLAIMED else None))
            case KeyVerdict.DONE:
                assert isinstance(answer, Met), (state, digest)
                assert answer.verdict is verdict
                assert answer.entry.result == after.result == '"before"'
                assert (after.status, after.met) == (EntryStatus.COMPLETED, 2)
            case KeyVerdict.BUSY | KeyVerdict.REUSED:
                assert before is not None
                assert answer == Met(verdict, before._replace(result=None))
                assert after == before


# -- one write each ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [None, KeyTable("idempotency"), KeyTable("both", "PK", "SK")], ids=str)
def test_a_key_is_claimed_finished_and_answered_with_one_write_each(clients: Clients, table: KeyTable | None) -> None:
    if table is not None:
        create_table(clients.dynamodb, table.name, *filter(None, (table.key, table.sort)))
    store = ledger(clients, table=table)
    with intercept(Recorder()) as calls:
        claim = claimed(store, ask())
        assert met(store, ask("other")).verdict is KeyVerdict.BUSY
        assert store.finish(claim, done()) is None
        again = met(store, ask("other", NOW + 2))
    assert [call.operation for call in calls.calls] == ["UpdateItem"] * 4
    assert (again.verdict, again.entry.result) == (KeyVerdict.DONE, '"paid"')
    entry = store.read("charge", "o-1")
    assert entry is not None
    assert (entry.status, entry.met, entry.begun_at, entry.updated_at) == (EntryStatus.COMPLETED, 2, NOW, NOW + 2)
    (item,) = clients.dynamodb.scan(TableName=table.name if table else "flowguard")["Items"]
    assert item[table.ttl if table else "ttl"] == {"N": str(-(-(NOW + 2 + DAY) // 1000))}


def test_a_freed_key_is_claimed_at_once_by_the_next_call(clients: Clients) -> None:
    store = ledger(clients)
    store.free(claimed(store, ask()), "ValueError", NOW + 1)
    entry = store.read("charge", "o-1")
    assert entry is not None
    assert (entry.status, entry.failure, entry.met) == (EntryStatus.FAILED, "ValueError", 1)
    assert claimed(store, ask("next", NOW + 1)).before == entry
    after = store.read("charge", "o-1")
    assert after is not None
    assert (after.status, after.failure, after.met) == (EntryStatus.RUNNING, None, 2)


@pytest.mark.parametrize("failure", [None, "ValueError"])
def test_a_key_whose_call_called_nothing_is_free_for_any_payload(memory: Clients, failure: str | None) -> None:
    store = ledger(memory)
    if failure is not None:
        store.free(claimed(store, ask("before", digest="d1")), failure, NOW)
    claim = claimed(store, ask(digest="d1"))
    assert claim.died is None
    store.free(claim, None, NOW + 5)
    entry = there(store)
    assert (entry.status, entry.owner, entry.met) == (EntryStatus.FREE, None, 1 if failure else 0)
    assert (entry.lease_until, entry.updated_at) == (NOW + 5, NOW + 5)
    claimed(store, ask("next", NOW + 5, "d2"))


@pytest.mark.parametrize("lost", [False, True])
def test_a_key_of_a_call_that_died_is_that_ones_again_after_a_call_that_called_nothing(
    memory: Clients, lost: bool
) -> None:
    """Its effect may have been made, so another payload is refused. Its own is not, at once."""
    store, later = ledger(memory), NOW + 30_000
    claimed(store, ask(digest="d1"))
    with intercept(LostAnswers()) if lost else nullcontext():
        claim = claimed(store, ask("next", later, "d1"))
    assert claim.died == ("next" if lost else "me")
    store.free(claim, None, later + 5)
    entry = there(store)
    assert (entry.status, entry.owner, entry.met) == (EntryStatus.RUNNING, claim.died, 2 if lost else 1)
    assert (entry.lease_until, entry.updated_at) == (later + 5, later + 5)
    assert met(store, ask("third", later + 5, "d2")).verdict is KeyVerdict.REUSED
    claimed(store, ask("third", later + 5, "d1"))


@pytest.mark.parametrize("holds", [False, True])
def test_a_key_says_whose_call_has_ended_with_places_until_the_next_one_does(memory: Clients, holds: bool) -> None:
    store = ledger(memory)
    store.free(claimed(store, ask()), "ValueError", NOW + 3, holds=holds)
    entry = there(store)
    assert (entry.lease_until, entry.updated_at) == (NOW + 3, NOW + 3)
    assert (entry.ended, entry.failure, entry.owner) == ("me" if holds else None, "ValueError", None)
    claim = claimed(store, ask("next"))
    assert claim.before == entry
    store.free(claim, None, NOW + 1)
    assert there(store).ended == entry.ended, "it had none, and says nothing of those before it"
    store.free(claimed(store, ask("third", NOW + 1)), None, NOW + 2, holds=holds)
    entry = there(store)
    assert (entry.ended, entry.met, entry.owner) == ("third" if holds else None, 1, None)
    assert (entry.lease_until, entry.updated_at) == (NOW + 2, NOW + 2)
    claimed(store, ask("dies", NOW + 2))
    store.free(claimed(store, ask("last", NOW + 40_000)), None, NOW + 40_001, holds=holds)
    entry = there(store)
    assert (entry.ended, entry.owner, entry.met) == ("last" if holds else None, "dies", 2)
    assert (entry.lease_until, entry.updated_at) == (NOW + 40_001, NOW + 40_001)


def test_a_key_that_was_begun_anew_is_free_after_a_call_that_called_nothing(memory: Clients) -> None:
    """The call before it had completed, long ago, and has not died."""
    store = ledger(memory)
    store.finish(claimed(store, ask(digest="d1")), done(keep=1_000))
    claim = claimed(store, ask("later", NOW + 2_000, "d2"))
    assert claim.before is not None
    assert claim.died is None
    store.free(claim, None, NOW + 2_001)
    assert (there(store).status, there(store).owner) == (EntryStatus.FREE, None)


def test_a_call_that_was_slow_ends_the_key_that_it_has_again(memory: Clients) -> None:
    store = ledger(memory)
    slow = claimed(store, ask())
    store.free(claimed(store, ask("next", NOW + 30_000)), None, NOW + 30_005)
    assert store.finish(slow, done(now=NOW + 30_010)) is None
    assert there(store).result == '"paid"'


def test_a_key_is_free_when_its_owner_cannot_be_alive_and_not_before(clients: Clients) -> None:
    store = ledger(clients)
    claimed(store, ask())
    assert met(store, ask("other", NOW + 29_999)) == Met(
        KeyVerdict.BUSY, store.read("charge", "o-1") or pytest.fail("no entry")
    )
    claimed(store, ask("other", NOW + 30_000))


# -- all that an entry says --------------------------------------------------------------------------------------------


def ttl(clients: Clients) -> int:
    """When DynamoDB may remove the entry, in seconds."""
    item: Any = clients.dynamodb.get_item(TableName="flowguard", Key=KEY)["Item"]
    return int(item["ttl"]["N"])


@pytest.mark.parametrize("digest", [None, "d1"])
def test_an_entry_says_all_of_each_moment(memory: Clients, digest: str | None) -> None:
    store, later = ledger(memory), NOW + 10_000
    claim = claimed(store, ask(digest=digest))
    begun = Entry(EntryStatus.RUNNING, Owner("me"), NOW + 30_000, 1, NOW, NOW, digest)
    assert (there(store), ttl(memory)) == (begun, (NOW + DAY) // 1000)

    store.free(claim, "ValueError", NOW + 5)
    freed = begun._replace(
        status=EntryStatus.FAILED, owner=None, lease_until=NOW + 5, updated_at=NOW + 5, failure="ValueError"
    )
    assert there(store) == freed

    again = claimed(store, ask("again", later, digest=digest))
    tried = Entry(EntryStatus.RUNNING, Owner("again"), later + 30_000, 2, NOW, later, digest)
    assert (there(store), ttl(memory)) == (tried, (later + DAY) // 1000)

    assert store.finish(again, done(now=later + 5, keep=2_000)) is None
    ended = tried._replace(
        status=EntryStatus.COMPLETED,
        updated_at=later + 5,
        completed_at=later + 5,
        completed_by=Owner("again"),
        expires_at=later + 2_005,
        result='"paid"',
    )
    assert (there(store), ttl(memory)) == (ended, -(-(later + 2_005) // 1000))


@pytest.mark.parametrize("digest", [None, "d2"])
@pytest.mark.parametrize("refusal", [None, "too large"])
def test_an_entry_that_is_begun_anew_says_nothing_of_before(
    memory: Clients, digest: str | None, refusal: str | None
) -> None:
    store, later = ledger(memory), NOW + 10_000
    end = Completion(None if refusal else '"paid"', refusal, NOW + 5, NOW + 1_000)
    assert store.finish(claimed(store, ask(digest="d1")), end) is None
    ended = there(store)
    assert (ended.refusal, ended.completed_at, ended.updated_at) == (refusal, NOW + 5, NOW + 5)
    assert (ended.completed_by, ttl(memory)) == ("me", (NOW + 1_000) // 1000)
    store.claim(ask("repeat", NOW + 6, digest="d1"))
    claimed(store, ask("later", later, digest=digest))
    anew = Entry(EntryStatus.RUNNING, Owner("later"), later + 30_000, 1, later, later, digest)
    assert (there(store), ttl(memory)) == (anew, (later + DAY) // 1000)


@pytest.mark.parametrize("digest", [None, "d1"])
@pytest.mark.parametrize("less", [1_000, DAY - 60_000])
def test_a_repeat_never_shortens_the_life_of_a_result(clients: Clients, less: int, digest: str | None) -> None:
    """Its function may keep results for less time than when the call completed."""
    store = ledger(clients)
    assert store.finish(claimed(store, ask(digest=digest)), done(now=NOW)) is None
    ended, until = there(store), ttl(clients)
    with intercept(Recorder()) as calls:
        again = met(store, ask("other", NOW, digest)._replace(removed_at=NOW + DAY - less))
    assert (again.verdict, again.entry.result, calls.count("dynamodb")) == (KeyVerdict.DONE, '"paid"', 1)
    assert (there(store), ttl(clients)) == (ended, until), "such a repeat is not counted"
    met(store, ask("other", NOW, digest)._replace(removed_at=NOW + DAY))
    assert (there(store).met, ttl(clients)) == (2, until), "an equal one is"


def test_what_is_completed_is_neither_freed_nor_completed_again_by_its_own_call(clients: Clients) -> None:
    store = ledger(clients)
    claim = claimed(store, ask())
    assert store.finish(claim, done()) is None
    ended = there(store)
    store.free(claim, "ValueError", NOW + 5)
    assert store.finish(claim, done('"twice"', NOW + 6)) is None
    assert there(store) == ended


# -- who is late -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "is_busy"), [(12 * 60 + 15, True), (12 * 60 + 15 + 1, False)])
def test_a_dead_worker_whose_clock_is_fast_has_its_key_for_no_longer_than_any_lease(
    ahead: int, is_busy: bool, clients: Clients
) -> None:
    store = ledger(clients)
    claimed(store, ask("fast", NOW + ahead * 60_000)._replace(lease_until=NOW + ahead * 60_000))
    assert isinstance(store.claim(ask("next", NOW)), Met) is is_busy


def test_a_call_whose_lease_is_over_changes_nothing_of_a_faster_one(clients: Clients) -> None:
    store = ledger(clients)
    slow = claimed(store, ask())
    fast = claimed(store, ask("fast", NOW + 30_000))
    assert store.finish(slow, done('"slow"')) == Met(
        KeyVerdict.BUSY, store.read("charge", "o-1") or pytest.fail("no entry")
    )
    store.free(slow, "ValueError", NOW + 30_001)
    assert met(store, ask("third", NOW + 30_002)).verdict is KeyVerdict.BUSY, "a late failure frees nothing"
    assert store.finish(fast, done('"fast"', NOW + 30_003)) is None
    late = store.finish(slow, done('"slow"', NOW + 30_004))
    assert late is not None
    assert (late.verdict, late.entry.result) == (KeyVerdict.DONE, '"fast"')
    store.free(slow, "ValueError", NOW + 30_005)
    assert met(store, ask("fourth", NOW + 30_006)).entry.result == '"fast"'


def test_a_call_whose_entry_is_gone_is_no_owner_any_more(clients: Clients) -> None:
    store = ledger(clients)
    claim = claimed(store, ask())
    clients.dynamodb.delete_item(TableName="flowguard", Key=KEY)
    late = store.finish(claim, done())
    assert late is not None
    assert late.verdict is KeyVerdict.BUSY
    assert store.read("charge", "o-1") is None


class LostAnswers:
    """Applies each write twice, as botocore does after an answer that got lost."""

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            proceed()
        return proceed()


def test_a_lost_answer_leaves_the_claim_and_its_result_where_they_are(clients: Clients) -> None:
    store = ledger(clients)
    with intercept(LostAnswers()):
        claim = claimed(store, ask())
        assert store.finish(claim, done()) is None
        assert met(store, ask("other")).entry.result == '"paid"'


def test_a_lost_answer_to_a_finish_is_its_own_also_when_a_repeat_came_between(clients: Clients) -> None:
    store = ledger(clients)
    claim = claimed(store, ask())
    assert store.finish(claim, done()) is None
    assert met(store, ask("other", NOW + 2)).verdict is KeyVerdict.DONE
    assert store.finish(claim, done(now=NOW + 3)) is None


# -- what has expired --------------------------------------------------------------------------------------------------


def test_an_expired_entry_is_begun_anew_with_a_second_write(clients: Clients) -> None:
    store = ledger(clients)
    store.finish(claimed(store, ask(digest="d1")), done(keep=1_000))
    later = ask("later", NOW + 2_000, digest="d2")
    with intercept(Recorder()) as calls:
        claimed(store, later)
    assert [call.operation for call in calls.calls] == ["UpdateItem"] * 2
    entry = store.read("charge", "o-1")
    assert entry == Entry(EntryStatus.RUNNING, Owner("later"), NOW + 32_000, 1, NOW + 2_000, NOW + 2_000, "d2")


def test_a_lost_answer_to_the_second_write_is_its_own(clients: Clients) -> None:
    store = ledger(clients)
    store.finish(claimed(store, ask()), done(keep=1_000))
    with intercept(LostAnswers()):
        claimed(store, ask("later", NOW + 2_000))


class Between:
    """Does something before the second write, as another worker would."""

    def __init__(self, act: Any) -> None:
        self.act = act
        self.calls = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.calls += 1
        if self.calls == 2:
            self.act()
        return proceed()


def test_two_calls_that_meet_an_expired_entry_do_not_both_begin(memory: Clients) -> None:
    store = ledger(memory)
    store.finish(claimed(store, ask()), done(keep=1_000))
    with intercept(Between(lambda: claimed(store, ask("faster", NOW + 2_000)))):
        assert met(store, ask("slower", NOW + 2_000)).verdict is KeyVerdict.BUSY


def test_an_expired_entry_that_another_call_completes_meanwhile_is_its_result(memory: Clients) -> None:
    store = ledger(memory)
    store.finish(claimed(store, ask()), done(keep=1_000))

    def faster() -> None:
        store.finish(claimed(store, ask("faster", NOW + 2_000)), done('"faster"', NOW + 2_001))

    with intercept(Between(faster)):
        assert met(store, ask("slower", NOW + 2_000)).entry.result == '"faster"'


def test_an_expired_entry_that_is_removed_meanwhile_is_begun_anew(memory: Clients) -> None:
    store = ledger(memory)
    store.finish(claimed(store, ask()), done(keep=1_000))
    with intercept(Between(lambda: memory.dynamodb.delete_item(TableName="flowguard", Key=KEY))):
        claimed(store, ask("later", NOW + 2_000))


# -- long results, and hostile keys ------------------------------------------------------------------------------------


def test_a_long_result_goes_to_s3_and_comes_back(with_s3: Clients) -> None:
    store, text = ledger(with_s3, "long-texts"), noise(900_000)
    assert store.finish(claimed(store, ask()), done(text)) is None
    assert met(store, ask("other")).entry.result == text
    (found,) = with_s3.s3.list_objects_v2(Bucket="long-texts")["Contents"]
    assert found["Key"].startswith("flowguard/once/charge/")
    with_s3.s3.delete_object(Bucket="long-texts", Key=found["Key"])
    with pytest.raises(TextGone):
        store.claim(ask("third"))


def test_a_long_result_without_a_bucket_is_refused_before_anything_is_written(clients: Clients) -> None:
    store = ledger(clients)
    claim = claimed(store, ask())
    with intercept(Recorder()) as calls, pytest.raises(TooLarge, match="the entry is too large"):
        store.finish(claim, done(noise(900_000)))
    assert calls.calls == []
    assert store.finish(claim, Completion(None, "too large", NOW, NOW + DAY)) is None
    again = met(store, ask("other")).entry
    assert (again.status, again.result, again.refusal) == (EntryStatus.COMPLETED, None, "too large")


@pytest.mark.parametrize("key", ["#", "a#b", ":a", "\x00\n", "é😀", "x" * 1_024, '"', "once#charge#o-1"])
def test_a_key_is_never_part_of_an_expression(memory: Clients, key: str) -> None:
    store = ledger(memory)
    claimed(store, ask(key=key))
    assert met(store, ask("other", key=key)).verdict is KeyVerdict.BUSY
    claimed(store, ask("other", key=f"{key[:-1]}!"))


def test_a_table_that_is_not_there_is_named_with_its_keys(memory: Clients) -> None:
    with pytest.raises(SettingsError, match=r"there is no table 'nope' .* text key 'id', or name"):
        ledger(memory, table=KeyTable("nope")).claim(ask())


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException"])
def test_what_dynamodb_refuses_is_raised_as_it_is(memory: Clients, code: str) -> None:
    def refusing(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, call.operation)

    store = ledger(memory)
    claim = claimed(store, ask())
    with intercept(refusing):
        for act in (
            lambda: store.claim(ask("other")),
            lambda: store.finish(claim, done()),
            lambda: store.free(claim, "ValueError", NOW),
            lambda: store.read("charge", "o-1"),
        ):
            with pytest.raises(ClientError, match=code):
                act()


def test_an_entry_leaves_room_for_what_stands_beside_its_result(memory: Clients) -> None:
    text = noise(601_000)
    assert LARGEST_ITEM - KEPT_FREE < len(zlib.compress(text.encode(), 6)) < LARGEST_ITEM
    store = ledger(memory)
    with pytest.raises(TooLarge):
        store.finish(claimed(store, ask()), done(text))


# -- a race ------------------------------------------------------------------------------------------------------------


def test_of_many_calls_at_one_moment_one_has_the_key(dynamodb_local_url: str) -> None:
    store = ledger(on_dynamodb_local(dynamodb_local_url))
    store.finish(claimed(store, ask(key="expired")), done(keep=1))

    def race(number: int) -> list[KeyClaim | Met]:
        keys = [f"k-{key}" for key in range(5)] + ["expired"]
        return [store.claim(ask(f"w-{number}", NOW + 5, key=key)) for key in keys]

    with ThreadPoolExecutor(8) as pool:
        rounds = list(pool.map(race, range(8)))
    for answers in zip(*rounds, strict=True):
        assert sum(isinstance(answer, KeyClaim) for answer in answers) == 1
        assert {answer.verdict for answer in answers if isinstance(answer, Met)} == {KeyVerdict.BUSY}


def test_what_is_not_there_is_not_removed(memory: Clients) -> None:
    assert ledger(memory).remove("charge", "o-1", NOW) is None

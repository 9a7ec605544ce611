"""Groups in DynamoDB: shards and rows, in every order of answers and with a call lost anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.aws.clients import Clients
from flowguard.aws.commit_texts import CommitTexts, PackedTexts
from flowguard.aws.group_items import DynamoDBGroups
from flowguard.aws.items import run_key, shard_key, size_of_value
from flowguard.aws.packing import Packing
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.aws.wait_calls import message_name
from flowguard.errors import RowsUnwritten, TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.claims import taken
from flowguard.protocol.groups import MOST_IN_GROUP, MOST_IN_SHARD, GroupPlan, GroupRequest, Member, NewShard, group_key
from flowguard.protocol.run import AwaitingRow, Claim, Committed, NewWait, Settled, Status
from flowguard.protocol.waiting import GivenAnswer, Use, WaitEnd, WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.aws.engines import on_memory
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import commit
from tests.aws.test_batch_writes import Unprocessed
from tests.aws.test_waits import noise

KEY = group_key("one")
DEADLINE = NOW + 60_000
EXPIRES = NOW + 10_000_000
MEMBERS = (Member(0, 0), Member(0, 1), Member(1, 0))
"""The requests of the group of these tests: two of its first shard, one of its second."""

RECORDED, RESUMED, DUPLICATE = AnswerVerdict.RECORDED, AnswerVerdict.RESUMED, AnswerVerdict.DUPLICATE


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


def the_store(clients: Clients, bucket: str | None = None) -> DynamoDBStore:
    return aws_store(Settings(bucket=bucket), clients)


def address(member: Member | None = None, **about: Any) -> AnswerAddress:
    name = MEMBERS[0].text if member is None else member.text
    known = AnswerAddress("flow", ObjectId("object"), RequestId(STORED[1]), STORED[0], 1, name, True)
    return known._replace(**about)


def answer(text: str = '"yes"') -> GivenAnswer:
    return GivenAnswer(text)


def save(groups: DynamoDBGroups, key: str = KEY, spare: int = 0) -> None:
    for shard, names in enumerate((("a", "b"), ("c",))):
        requests = [GroupRequest(name, f'{{"ask":"{name}"}}', f"o-{name}") for name in names]
        groups.save(NewShard("flow", key, shard, min(spare, len(names) - 1), requests, EXPIRES))


def begun(clients: Clients, spare: int = 0, bucket: str | None = None) -> DynamoDBStore:
    """A run that waits for the group."""
    store = the_store(clients, bucket)
    claim = store.claim(request(STORED))
    assert isinstance(claim, Claim)
    save(store.waits.groups, spare=spare)
    plan = GroupPlan(KEY, MOST_IN_SHARD + 1, "sqs:shops", NOW, "other", "count", 3)
    wait = NewWait(WaitPlan("add-up", {}, on_timeout="late", group=plan), 0, DEADLINE)
    end = commit(status=Status.WAITING, wait=wait, expires_at=EXPIRES)
    assert store.commit(claim, end) == Committed()
    return store


def settle(store: DynamoDBStore, member: Member, text: str = '"yes"') -> AnswerVerdict:
    return store.waits.settle(address(member), answer(text)).verdict


def texts(store: DynamoDBStore) -> list[list[str | None]]:
    """The answers of both shards, as the resumed hop reads them."""
    shards = [store.waits.groups.answers("flow", KEY, shard) for shard in (0, 1)]
    return [[None if given is None else given.text for _, given in shard] for shard in shards]


def is_over(settled: Settled) -> bool:
    """Whether the message of the next hop can be made of it."""
    wait = settled.item.wait if settled.item is not None else None
    return wait is not None and wait.plan is not None and wait.end is not None


def test_an_answer_to_a_request_of_a_group_uses_up_nothing_that_is_kept(clients: Clients) -> None:
    """Its id is of one run alone, so that nobody else can have it."""
    waits = begun(clients).waits
    waits.keep_early("flow", "paid", answer(), now=NOW, expires_at=EXPIRES, by="m-1")
    settled = waits.take(address(MEMBERS[0]), answer(), Use("paid", "m-1", "one"))
    assert settled is not None
    assert settled.verdict is RECORDED
    assert waits.early("flow", "paid", NOW) is not None


class Unanswered:
    """Keeps the first write of rows for later, and lets its caller wait in vain."""

    def __init__(self) -> None:
        self.late: Proceed | None = None
        self.calls = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "BatchWriteItem":
            return proceed()
        self.calls += 1
        if self.late is None:
            self.late = proceed
            raise ReadTimeoutError(endpoint_url="https://dynamodb")
        return proceed()


def test_a_write_that_was_not_answered_and_is_done_later_erases_no_answer(clients: Clients) -> None:
    """The next attempt of its hop has another key, and the first one's is never asked."""
    with intercept(Unanswered()) as network:
        with pytest.raises(ReadTimeoutError):
            save(the_store(clients).waits.groups, key=group_key("the attempt before"))
        assert network.calls == 1, "it is not repeated under its key"
        store = begun(clients)
        assert settle(store, MEMBERS[0]) is RECORDED
        assert network.late is not None
        network.late()
        assert texts(store)[0] == ['"yes"', None]
        assert settle(store, MEMBERS[0]) is DUPLICATE


def test_the_requests_of_a_group_are_written_by_a_client_that_repeats_nothing(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        save(the_store(clients).waits.groups)
        the_store(clients).waits.save([AwaitingRow("hop-1.group", address(), "add-up", EXPIRES)])
    [*groups, _] = [call.client for call in calls.calls if call.operation in ("BatchWriteItem", "PutItem")]
    assert set(map(id, groups)) == {id(clients.dynamodb_once)}


def test_a_store_of_one_client_writes_the_requests_with_that(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        groups = the_store(clients).waits.groups
        save(groups._replace(calls=groups.calls._replace(once=None)))
    assert {id(call.client) for call in calls.calls} == {id(clients.dynamodb)}


# -- answers -----------------------------------------------------------------------------------------------------------


def test_the_last_answer_ends_the_wait_and_each_is_read_in_order(clients: Clients) -> None:
    store = begun(clients)
    assert [settle(store, one, f'"{n}"') for n, one in enumerate(MEMBERS)] == [RECORDED, RECORDED, RESUMED]
    assert texts(store) == [['"0"', '"1"'], ['"2"']]
    [(first, _), _] = store.waits.groups.answers("flow", KEY, 0)
    assert first == GroupRequest("a", '{"ask":"a"}', "o-a")


@pytest.mark.parametrize("order", tuple(permutations(MEMBERS)))
def test_in_each_order_the_wait_ends_once_and_with_the_last(clients: Clients, order: tuple[Member, ...]) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in order] == [RECORDED, RECORDED, RESUMED]
    again = [store.waits.settle(address(one), answer()) for one in order]
    assert [one.verdict for one in again] == [DUPLICATE] * 3
    assert all(map(is_over, again))  # each sends the next hop's message again, which may be lost


def test_the_first_answer_to_a_request_stays(clients: Clients) -> None:
    store = begun(clients)
    assert settle(store, MEMBERS[0], '"first"') is RECORDED
    assert settle(store, MEMBERS[0], '"first"') is DUPLICATE
    assert settle(store, MEMBERS[0], '"second"') is DUPLICATE
    assert settle(store, MEMBERS[1]) is RECORDED
    assert settle(store, MEMBERS[2]) is RESUMED
    assert texts(store) == [['"first"', '"yes"'], ['"yes"']]


def test_a_failure_is_an_answer(clients: Clients) -> None:
    store = begun(clients)
    failed = GivenAnswer('{"failed":true,"type":"Reject","text":"closed"}', failed=True)
    assert store.waits.settle(address(MEMBERS[0]), failed).verdict is RECORDED
    assert [settle(store, one) for one in MEMBERS[1:]] == [RECORDED, RESUMED]
    [(_, first), _] = store.waits.groups.answers("flow", KEY, 0)
    assert first == failed


class Dies:
    """Lets so many calls pass, then fails one, before it is made or after it."""

    def __init__(self, passing: int, *, after: bool) -> None:
        self.left = passing
        self.after = after
        self.died = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.left -= 1
        if self.left != -1:
            return proceed()
        self.died = True
        if self.after:
            proceed()
        raise ConnectionError("it died")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("passing", range(4))
@pytest.mark.parametrize("member", MEMBERS, ids=["first", "second", "last"])
def test_whatever_call_of_an_answer_is_lost_its_repetition_ends_the_wait(
    clients: Clients, member: Member, passing: int, after: bool
) -> None:
    store = begun(clients)
    for other in MEMBERS:
        if other != member:
            assert settle(store, other) is RECORDED
    dies = Dies(passing, after=after)
    with intercept(dies), pytest.raises(ConnectionError):
        settle(store, member)
    assert dies.died
    again = store.waits.settle(address(member), answer())
    assert again.verdict in (RESUMED, DUPLICATE)
    assert is_over(again)
    assert texts(store) == [['"yes"', '"yes"'], ['"yes"']]


def test_another_answer_helps_one_whose_worker_died_and_is_not_kept(clients: Clients) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in MEMBERS[:2]] == [RECORDED, RECORDED]
    with intercept(Dies(2, after=False)), pytest.raises(ConnectionError):
        settle(store, MEMBERS[2], '"first"')
    helped = store.waits.settle(address(MEMBERS[2]), answer('"second"'))
    assert (helped.verdict, is_over(helped)) == (DUPLICATE, True)
    assert texts(store)[1] == ['"first"']


def test_an_answer_that_another_delivery_counts_first_is_still_recorded(clients: Clients) -> None:
    store = begun(clients)
    began: list[bool] = []

    def overtaken(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if not began and call.operation == "UpdateItem" and "answer" in str(call.params["UpdateExpression"]):
            began.append(True)
            assert settle(store, MEMBERS[0]) is RECORDED
        return done

    with intercept(overtaken):
        assert settle(store, MEMBERS[0]) is RECORDED
    assert settle(store, MEMBERS[0]) is DUPLICATE


# -- quorum ------------------------------------------------------------------------------------------------------------


def test_a_shard_is_over_with_its_share_and_takes_the_rest_until_the_run_goes_on(clients: Clients) -> None:
    store = begun(clients, spare=1)
    assert settle(store, MEMBERS[1]) is RECORDED
    assert settle(store, MEMBERS[0]) is RECORDED
    assert settle(store, MEMBERS[2]) is RESUMED
    assert texts(store) == [['"yes"', '"yes"'], ['"yes"']]


def test_who_has_not_answered_when_the_run_goes_on_never_has(clients: Clients) -> None:
    store = begun(clients, spare=1)
    assert [settle(store, one) for one in MEMBERS[1:]] == [RECORDED, RESUMED]
    assert settle(store, MEMBERS[0]) is DUPLICATE
    assert texts(store) == [[None, '"yes"'], ['"yes"']]


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "verdict"),
    [
        ({"object_id": ObjectId("nobody")}, AnswerVerdict.EXPIRED),
        ({"request_id": RequestId("other")}, AnswerVerdict.SUPERSEDED),
        ({"requested_at": STORED[0] + 1}, AnswerVerdict.SUPERSEDED),
        ({"hop": 2}, AnswerVerdict.EARLY),
        ({"name": Member(0, 2).text}, AnswerVerdict.UNKNOWN),
        ({"name": Member(2, 0).text}, AnswerVerdict.UNKNOWN),
        ({"name": "0"}, AnswerVerdict.UNKNOWN),
        ({"name": "group"}, AnswerVerdict.UNKNOWN),
    ],
    ids=str,
)
def test_an_answer_that_the_run_does_not_wait_for_changes_nothing(
    clients: Clients, about: dict[str, Any], verdict: AnswerVerdict
) -> None:
    store = begun(clients)
    before = everything(clients)
    assert store.waits.settle(address(**about), answer()).verdict is verdict
    assert store.waits.verdict(address(**about)) is verdict
    assert everything(clients) == before


def test_the_rows_of_another_attempt_are_not_the_groups(clients: Clients) -> None:
    """A worker that stalls before its commit may save its own when others have been answered."""
    store = begun(clients)
    assert settle(store, MEMBERS[0]) is RECORDED
    save(store.waits.groups, group_key("another attempt"))
    assert [settle(store, one) for one in MEMBERS] == [DUPLICATE, RECORDED, RESUMED]
    assert texts(store) == [['"yes"', '"yes"'], ['"yes"']]


def test_before_the_commit_an_answer_is_early(clients: Clients) -> None:
    store = the_store(clients)
    assert isinstance(store.claim(request(STORED)), Claim)
    save(store.waits.groups)
    assert settle(store, MEMBERS[0]) is AnswerVerdict.EARLY


def test_after_the_deadline_those_in_time_are_duplicates_and_the_others_expired(clients: Clients) -> None:
    store = begun(clients)
    assert settle(store, MEMBERS[0]) is RECORDED
    applied, item = store.waits.time_out(address(name="deadline"), DEADLINE)
    assert applied
    assert item is not None
    assert item.wait is not None
    assert item.wait.end is WaitEnd.TIMED_OUT
    late = [store.waits.settle(address(one), answer()) for one in MEMBERS]
    assert [one.verdict for one in late] == [DUPLICATE, AnswerVerdict.EXPIRED, AnswerVerdict.EXPIRED]
    assert list(map(is_over, late)) == [True, False, False], "those that it does not have did not end it"
    assert [store.waits.verdict(address(one)) for one in MEMBERS] == [one.verdict for one in late]
    resumed = store.claim(request(STORED, hop=2))
    assert isinstance(resumed, Claim)
    assert texts(store) == [['"yes"', None], [None]]
    assert [settle(store, one) for one in MEMBERS] == [one.verdict for one in late]
    assert store.commit(resumed, commit()) == Committed()
    assert [settle(store, one) for one in MEMBERS] == [one.verdict for one in late]
    assert texts(store) == [['"yes"', None], [None]]


def test_an_answer_that_meets_a_shard_closed_just_then_is_judged_anew(clients: Clients) -> None:
    store = begun(clients)
    began: list[bool] = []

    def goes_on(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if not began and call.operation == "GetItem":
            began.append(True)
            assert store.waits.time_out(address(name="deadline"), DEADLINE).applied
            assert isinstance(store.claim(request(STORED, hop=2)), Claim)
            assert texts(store) == [[None, None], [None]]
        return done

    with intercept(goes_on):
        assert settle(store, MEMBERS[0]) is AnswerVerdict.EXPIRED
    assert texts(store) == [[None, None], [None]]  # its row has the answer, and it was not in time


def test_an_answer_between_the_deadline_and_the_reading_is_read(clients: Clients) -> None:
    store = begun(clients)
    began: list[bool] = []

    def times_out(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if not began and call.operation == "GetItem":
            began.append(True)
            assert store.waits.time_out(address(name="deadline"), DEADLINE).applied
        return done

    with intercept(times_out):
        assert settle(store, MEMBERS[2]) is RECORDED
    assert texts(store) == [[None, None], ['"yes"']]


# -- what is read ------------------------------------------------------------------------------------------------------


def test_a_party_outside_finds_the_run_by_the_id_of_its_message(clients: Clients) -> None:
    store = begun(clients)
    group = address(name="group")
    store.waits.save([AwaitingRow("hop-1.group", group, "add-up", EXPIRES)])
    [row] = store.waits.waiting_for("flow", "hop-1.group.0.1")
    assert row == AwaitingRow("hop-1.group.0.1", address(MEMBERS[1])._replace(admits=False), "add-up", EXPIRES)
    for nobody in ("hop-2.group.0.1", "hop-1.group.0.99", "hop-1.group.0.01", "group.0.1", "hop-1.group.0.1 "):
        assert list(store.waits.waiting_for("flow", nobody)) == []


def test_an_answer_to_a_name_takes_no_shard_from_a_group(clients: Clients) -> None:
    store = begun(clients)
    before = everything(clients)
    assert store.waits.settle(address(name="1"), answer()).verdict is AnswerVerdict.UNKNOWN
    assert everything(clients) == before


def test_a_message_goes_on_until_the_next_shards_were_asked(clients: Clients) -> None:
    groups = begun(clients).waits.groups
    assert groups.asked(address(), KEY, 0, 10, "message")
    assert groups.asked(address(), KEY, 0, 10, "message")  # delivered again
    assert groups.asked(address(), KEY, 0, 10, "of its letter, which was sent back")
    by = run_item(clients)["wait"]["M"]["asked_by"]["S"]
    assert by == message_name("message"), "an older release goes on with that message alone"
    assert not groups.asked(address(), KEY, 20, 30, "too far")
    assert groups.asked(address(), KEY, 10, 20, "next")
    assert not groups.asked(address(), KEY, 0, 10, "message")
    assert not groups.asked(address(), group_key("x"), 20, 30, "other")
    assert not groups.asked(address(request_id=RequestId("x")), KEY, 20, 30, "other")


def test_the_begin_of_a_turn_is_noted_before_its_end(clients: Clients) -> None:
    store = begun(clients)
    groups = store.waits.groups
    assert groups.asking(address(), KEY, 0, 10)
    assert groups.asking(address(), KEY, 0, 10), "delivered again"
    assert not groups.asking(address(), KEY, 10, 20), "the turn before has not ended"
    assert groups.asked(address(), KEY, 0, 10, "message")
    assert not groups.asking(address(), KEY, 0, 10), "it has"
    assert groups.asking(address(), KEY, 10, 20)
    item = store.read("flow", "object")
    assert item is not None
    assert item.wait is not None
    assert (item.wait.asked, item.wait.asking) == (10, 20)


def test_of_the_messages_that_cancel_a_group_from_a_shard_on_the_first_goes_on(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    assert not groups.cancelled("flow", KEY, 0, 1, "before there is a shard")
    assert everything(clients) == []
    save(groups)
    groups.unanswered("flow", KEY, 1)
    assert [groups.cancelled("flow", KEY, 0, 1, by) for by in ("first", "copy", "first")] == [True, False, True]
    assert groups.cancelled("flow", KEY, 1, 2, "copy")


def test_a_copy_goes_on_where_nobody_has(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    save(groups)
    assert [groups.cancelled("flow", KEY, 0, 1, by) for by in ("first", "the same, sent back")] == [True, True]
    assert not groups.cancelled("flow", KEY, 0, 2, "a copy"), "there are no more shards"


def test_who_has_not_answered_is_read_without_a_text(clients: Clients) -> None:
    store = begun(clients)
    groups = store.waits.groups
    settle(store, MEMBERS[0])
    with intercept(Recorder()) as calls:
        assert groups.unanswered("flow", KEY, 0) == {1: GroupRequest("b", "", ObjectId("o-b"))}
    assert {call.service for call in calls.calls} == {"dynamodb"}
    assert store.waits.verdict(address(MEMBERS[1])) is not RECORDED, "the shard takes no more"


def everything(clients: Clients) -> list[Any]:
    found: Any = clients.dynamodb.scan(TableName="flowguard")["Items"]
    return sorted(found, key=lambda item: json.dumps(item, sort_keys=True, default=str))


def test_a_shard_is_small_whatever_the_ids_and_names_are(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    requests = [GroupRequest("\u3042" * 256, "x" * 10_000, "o" * 1_000) for _ in range(MOST_IN_SHARD)]
    groups.save(NewShard("f" * 128, KEY, 1_010, 0, requests, EXPIRES))
    [shard] = [item for item in everything(clients) if item["sk"]["S"] == "shard"]
    assert len(shard["waiting"]["SS"]) == MOST_IN_SHARD
    assert sum(len(name) + size_of_value(value) for name, value in shard.items()) <= 1_024


def test_a_large_answer_is_refused_by_name_or_goes_to_s3(clients: Clients) -> None:
    large = noise(900_000)
    store = begun(clients)
    with pytest.raises(TooLarge, match=rf"the answer '{MEMBERS[0].text}' is too large"):
        settle(store, MEMBERS[0], large)
    with_bucket = the_store(clients, "long-texts")
    assert settle(with_bucket, MEMBERS[0], large) is RECORDED
    assert settle(with_bucket, MEMBERS[0], large) is DUPLICATE
    assert texts(with_bucket)[0][0] == large


def test_requests_that_dynamodb_leaves_are_an_error(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    groups = groups._replace(calls=groups.calls._replace(pause=lambda seconds: None))
    with intercept(Unprocessed(10**6)), pytest.raises(RowsUnwritten, match="requests of a group were not written"):
        save(groups)


# -- calls -------------------------------------------------------------------------------------------------------------


def calls_of(action: Callable[[], object]) -> list[ApiCall]:
    with intercept(Recorder()) as calls:
        action()
    return calls.calls


def test_what_is_settled_already_is_not_written_again(clients: Clients) -> None:
    store = begun(clients, spare=1, bucket="long-texts")
    first = calls_of(lambda: settle(store, MEMBERS[0]))
    assert [call.operation for call in first] == ["GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    in_open_run = calls_of(lambda: settle(store, MEMBERS[1]))  # the shard is over, and out of the run item
    assert [call.operation for call in in_open_run] == ["GetItem", "UpdateItem", "UpdateItem"]
    again = calls_of(lambda: settle(store, MEMBERS[1]))
    assert [call.operation for call in again] == ["GetItem", "UpdateItem", "UpdateItem"]
    unknown = calls_of(lambda: settle(store, Member(0, 2)))
    assert [call.operation for call in unknown] == ["GetItem", "UpdateItem"]
    assert settle(store, MEMBERS[2]) is RESUMED
    over = calls_of(lambda: settle(store, MEMBERS[2]))
    assert [call.operation for call in over] == ["GetItem", "GetItem"], "the run, and whether its shard has the answer"


def test_a_shard_is_closed_once_and_only_where_somebody_has_not_answered(clients: Clients) -> None:
    store = begun(clients, spare=1)
    groups = store.waits.groups
    assert [settle(store, one) for one in MEMBERS[1:]] == [RECORDED, RESUMED]
    operations = [[call.operation for call in calls_of(lambda: groups.answers("flow", KEY, 0))] for _ in range(2)]
    assert operations == [["Query", "UpdateItem", "Query"], ["Query"]]
    assert [call.operation for call in calls_of(lambda: groups.answers("flow", KEY, 1))] == ["Query"]
    assert groups.answers("flow", group_key("gone"), 0) == []


def test_every_read_is_consistent(clients: Clients) -> None:
    store = begun(clients)
    groups = store.waits.groups
    settle(store, MEMBERS[0])
    made = [
        *calls_of(lambda: settle(store, MEMBERS[1])),
        *calls_of(lambda: store.waits.verdict(address(MEMBERS[2]))),
        *calls_of(lambda: groups.requests("flow", KEY, 0)),
        *calls_of(lambda: groups.answers("flow", KEY, 0)),
        *calls_of(lambda: groups.run(address())),
    ]
    reads = [call for call in made if call.operation in ("GetItem", "Query")]
    assert len(reads) == 6
    assert all(call.params["ConsistentRead"] is True for call in reads)


def test_a_verdict_is_told_without_a_write(clients: Clients) -> None:
    store = begun(clients, spare=1)
    assert store.waits.verdict(address(MEMBERS[0])) is RECORDED
    assert settle(store, MEMBERS[0]) is RECORDED
    assert store.waits.verdict(address(MEMBERS[0])) is DUPLICATE
    store.waits.groups.answers("flow", KEY, 0)
    assert store.waits.verdict(address(MEMBERS[1])) is AnswerVerdict.EXPIRED  # its shard takes no more


def test_a_shard_of_several_pages_is_read_whole(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    requests = [GroupRequest(f"n{number}", noise(30_000, number)) for number in range(60)]
    groups.save(NewShard("flow", KEY, 0, 0, requests, EXPIRES))
    calls = calls_of(lambda: groups.requests("flow", KEY, 0))
    assert len(calls) > 1
    assert groups.requests("flow", KEY, 0) == requests


def test_rows_and_shards_are_as_they_are_read_and_expire_with_their_run(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    request = GroupRequest("a", "{}", "o-a", "r-a")
    groups.save(NewShard("flow", KEY, 3, 1, [request, GroupRequest("b", "x")], EXPIRES))
    assert groups.requests("flow", KEY, 3) == [request, GroupRequest("b", "x")]
    found = everything(clients)
    assert {item["ttl"]["N"] for item in found} == {str(EXPIRES // 1000)}
    second = next(item for item in found if item["sk"]["S"] == "row#1")
    assert second.keys() == {"pk", "sk", "name", "body", "ttl", "room"}
    [shard] = [item for item in found if item["sk"]["S"] == "shard"]
    assert (shard["size"], shard["spare"], sorted(shard["waiting"]["SS"])) == ({"N": "2"}, {"N": "1"}, ["0", "1"])
    assert shard.keys() == {"pk", "sk", "size", "spare", "waiting", "ttl"}


def test_a_shard_names_the_object_that_asks(clients: Clients) -> None:
    groups = the_store(clients).waits.groups
    groups.save(NewShard("flow", KEY, 3, 1, [GroupRequest("a", "{}")], EXPIRES, "o-1"))
    [shard] = [item for item in everything(clients) if item["sk"]["S"] == "shard"]
    assert shard["asker"] == {"S": "o-1"}


def test_an_error_of_dynamodb_is_no_verdict(clients: Clients) -> None:
    store = begun(clients)

    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem":
            return proceed()
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    with intercept(denied), pytest.raises(ClientError, match="AccessDenied"):
        settle(store, MEMBERS[0])


def test_the_place_of_another_group_or_of_nobody_is_not_noted(clients: Clients) -> None:
    groups = begun(clients).waits.groups
    assert not groups.asked(address(object_id=ObjectId("nobody")), KEY, 0, 10, "message")
    assert groups.asked(address(), KEY, 0, 10, "message")
    assert not groups.asked(address(), group_key("x"), 0, 10, "message")


def test_a_newer_run_between_the_answer_and_its_shard_takes_nothing_from_it(clients: Clients) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in MEMBERS[:2]] == [RECORDED, RECORDED]
    newer = (STORED[0] + 1, "request-z")

    def overtaken(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if call.operation == "GetItem":
            assert isinstance(store.claim(request(newer)), Claim)
        return done

    with intercept(overtaken):
        settled = store.waits.settle(address(MEMBERS[2]), answer())
    assert settled.verdict is RECORDED  # it was, of a run that is over
    assert settled.item is not None
    assert settled.item.request_id == newer[1]
    assert not is_over(settled)


class Deletes:
    """Lets an item expire right after the first call of this operation."""

    def __init__(self, clients: Clients, operation: str, pk: str, sk: str) -> None:
        self.clients = clients
        self.operation = operation
        self.key: Any = {"pk": {"S": pk}, "sk": {"S": sk}}
        self.gone = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if call.operation == self.operation and not self.gone:
            self.gone = True
            self.clients.dynamodb.delete_item(TableName="flowguard", Key=self.key)
        return done


def test_a_run_item_that_expires_meanwhile_is_not_made_anew(clients: Clients) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in MEMBERS[:2]] == [RECORDED, RECORDED]
    with intercept(Deletes(clients, "GetItem", "run#flow#object", "run")):
        assert store.waits.settle(address(MEMBERS[2]), answer()) == Settled(RECORDED, None)
    assert store.read("flow", "object") is None


def test_a_shard_that_expires_meanwhile_is_not_made_anew(clients: Clients) -> None:
    store = begun(clients)
    with intercept(Deletes(clients, "GetItem", f"group#flow#{KEY}#0", "shard")):
        assert settle(store, MEMBERS[0]) is AnswerVerdict.UNKNOWN
    assert [item["pk"]["S"][-1] for item in everything(clients) if item["sk"]["S"] == "shard"] == ["1"]


def test_no_place_is_noted_in_a_run_that_went_on(clients: Clients) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in MEMBERS][-1] is RESUMED
    resumed = store.claim(request(STORED, hop=2))
    assert isinstance(resumed, Claim)
    assert not store.waits.groups.asked(address(), KEY, 0, 10, "message")
    assert store.commit(resumed, commit()) == Committed()
    assert not store.waits.groups.asked(address(), KEY, 0, 10, "message")


CHANGES: tuple[tuple[str, Any], ...] = (
    ("request_id", {"S": "other"}),
    ("requested_at", {"N": "1"}),
    ("hop", {"N": "2"}),
    ("#status", {"S": "RUNNING"}),
    ("#wait.timed_out", {"BOOL": True}),
    ("#wait.spare", {"N": "-1"}),
    ("#wait.spare", {"N": "5"}),
    ("#wait.#group", {"S": "another"}),
    ("waiting", {"SS": ["7"]}),
)


def change(clients: Clients, attribute: str, value: Any) -> None:
    """Change one attribute of the run item behind everybody's back."""
    names = {name: name.removeprefix("#") for name in ("#status", "#wait", "#group") if name in attribute}
    call: Any = {
        "TableName": "flowguard",
        "Key": {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}},
        "UpdateExpression": f"SET {attribute} = :value",
        "ExpressionAttributeValues": {":value": value},
        **({"ExpressionAttributeNames": names} if names else {}),
    }
    clients.dynamodb.update_item(**call)


def run_item(clients: Clients) -> Any:
    return next(item for item in everything(clients) if item["sk"]["S"] == "run")


@pytest.mark.parametrize(("attribute", "value"), [*CHANGES, ("#wait.spare", {"N": "1"})], ids=str)
def test_a_shard_leaves_only_the_run_item_that_waits_for_it(clients: Clients, attribute: str, value: Any) -> None:
    store = begun(clients)
    assert [settle(store, one) for one in MEMBERS[:2]] == [RECORDED, RECORDED]
    changed: list[Any] = []

    def changes(call: ApiCall, proceed: Proceed) -> Response:
        done = proceed()
        if call.operation == "GetItem" and not changed:
            change(clients, attribute, value)
            changed.append(run_item(clients))
        return done

    with intercept(changes):
        assert settle(store, MEMBERS[2]) is RECORDED
    assert changed == [run_item(clients)]


@pytest.mark.parametrize(("attribute", "value"), [*CHANGES[:-1], ("#wait.spare", {"N": "2"})], ids=str)
def test_a_place_is_noted_only_in_the_run_item_that_waits(clients: Clients, attribute: str, value: Any) -> None:
    store = begun(clients)
    change(clients, attribute, value)
    before = everything(clients)
    assert not store.waits.groups.asking(address(), KEY, 0, 10)
    assert not store.waits.groups.asked(address(), KEY, 0, 10, "message")
    assert everything(clients) == before


def test_the_room_of_a_row_is_used_to_its_last_byte(clients: Clients) -> None:
    """Its answer takes 3 bytes for the map, 5 for the name and 5 for the text, and 6 for the attribute's name."""
    for room, kept in ((19, True), (18, False)):
        clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
        store = begun(clients)
        clients.dynamodb.update_item(
            TableName="flowguard",
            Key={"pk": {"S": f"group#flow#{KEY}#0"}, "sk": {"S": "row#0"}},
            UpdateExpression="SET room = :room",
            ExpressionAttributeValues={":room": {"N": str(room)}},
        )
        if kept:
            assert settle(store, MEMBERS[0]) is RECORDED
        else:
            with pytest.raises(TooLarge, match=f"of at most {room}"):
                settle(store, MEMBERS[0])


def packed(size: int, state: str = "{}") -> PackedTexts:
    plan = WaitPlan("add-up", {}, group=GroupPlan(KEY, size, "sqs:shops", NOW))
    end = commit(status=Status.WAITING, wait=NewWait(plan, 0, DEADLINE), state=state)
    claim = Claim(request(STORED).message, taken(None, request(STORED)), None)
    return CommitTexts(Packing(lambda: pytest.fail("no S3"), None, 32_768), "").pack(
        claim, end, run_key(claim.message.flow, claim.message.object_id)
    )


SHARDS = [str(shard) for shard in range(1 + MOST_IN_GROUP // MOST_IN_SHARD)]


def test_a_commit_leaves_room_for_the_names_of_its_shards() -> None:
    room = packed(MOST_IN_SHARD).room - packed(MOST_IN_GROUP).room
    assert room == pytest.approx(sum(1 + len(name) for name in SHARDS), abs=10)


def test_the_names_of_shards_are_counted_with_their_key() -> None:
    with pytest.raises(TooLarge) as refused:
        packed(MOST_IN_SHARD, noise(600_000))
    assert refused.value.sizes["the wait"] == 192 + 1 + len(KEY) + 1 + len(SHARDS[0])


def in_pages(store: DynamoDBStore, at_page: int, happens: Any) -> Any:
    """Read a shard an item a page, as DynamoDB does a megabyte. Something happens before the page of this number."""
    seen: list[str] = []

    def one(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "Query":
            params: Any = call.params
            params["Limit"] = 1
            seen.append("page")
            if len(seen) == at_page:
                happens()
        return proceed()

    return one


@pytest.mark.parametrize("at_page", [1, 2, 3])
def test_an_answer_that_comes_between_the_pages_of_its_shard_is_read(clients: Clients, at_page: int) -> None:
    store = begun(clients, spare=1)
    settle(store, MEMBERS[0])
    with intercept(in_pages(store, at_page, lambda: settle(store, MEMBERS[1], '"late"'))):
        found = [answer.text if answer else None for _, answer in store.waits.groups.answers("flow", KEY, 0)]
    assert found == ['"yes"', '"late"']
    assert texts(store)[0] == found, "called again, it says the same"


def test_rows_that_outlive_their_shard_have_no_answers(clients: Clients) -> None:
    store = begun(clients)
    key: Any = {**shard_key("flow", KEY, 0), "sk": {"S": "shard"}}
    clients.dynamodb.delete_item(TableName="flowguard", Key=key)
    assert texts(store)[0] == [None, None]

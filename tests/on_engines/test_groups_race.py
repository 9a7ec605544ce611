"""Answers to one group from many workers at the same moment, on AWS's own implementation of its conditional writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from flowguard.aws import expressions
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.groups import GroupPlan, GroupRequest, Member, NewShard, group_key, spare_of
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, NewWait, Settled, Status
from flowguard.protocol.waiting import GivenAnswer, WaitPlan
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from tests.on_engines.test_races import WORKERS, at_once
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.proof("eight workers answer one group, again and again")

ROUNDS = 15
REQUESTED_AT, NOW, DEADLINE, EXPIRES = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_060_000, 2_000_000_000_000
KEPT = (AnswerVerdict.RECORDED, AnswerVerdict.RESUMED)


@pytest.fixture(scope="module")
def stores(dynamodb_local_url: str) -> list[DynamoDBStore]:
    """One for each worker, with connections of its own, all on one table."""
    table = Sandbox(dynamodb_local_url, "no queues here")
    table.create_tables()
    return [Sandbox(dynamodb_local_url, "no queues here", table.access_key).store() for _ in range(WORKERS)]


class Group(NamedTuple):
    """A run that waits for the answers of its shards."""

    stores: Sequence[DynamoDBStore]
    name: str
    key: str
    sizes: Sequence[int]

    @classmethod
    def begun(cls, stores: Sequence[DynamoDBStore], sizes: Sequence[int], quorum: float = 1) -> Group:
        store, name = stores[0], uuid.uuid4().hex
        group = cls(stores, name, group_key(name), sizes)
        claim = store.claim(group.wanted())
        assert isinstance(claim, Claim)
        for shard, size in enumerate(sizes):
            requests = [GroupRequest(f"{shard}.{number}", "{}", f"o-{shard}.{number}") for number in range(size)]
            store.waits.groups.save(NewShard("race", group.key, shard, spare_of(size, quorum), requests, EXPIRES))
        plan = GroupPlan(group.key, 99 * (len(sizes) - 1) + sizes[-1], "sqs:shops", NOW, "other", "count")
        wait = NewWait(WaitPlan("add-up", {}, on_timeout="add-up", group=plan), 0, DEADLINE)
        commit = Commit(status=Status.WAITING, committed_at=NOW, expires_at=EXPIRES, outbox=None, state=None, wait=wait)
        assert store.commit(claim, commit) == Committed()
        return group

    def wanted(self, run: str = "r1", hop: int = 1, owner: str = "first", requested_at: int = 0) -> ClaimRequest:
        message = Message(
            flow="race",
            stage="ask" if hop == 1 else "add-up",
            version=1,
            object_id=ObjectId(self.name),
            request_id=RequestId(run),
            requested_at=REQUESTED_AT + requested_at,
            body="{}",
            hop=hop,
            resumed=hop > 1,
        )
        return ClaimRequest(
            message=message,
            owner=Owner(owner),
            now=NOW,
            lease_until=NOW + 30_000,
            on_conflict=OnConflict.SUPERSEDE,
            abandoned_before=0,
            expires_at=EXPIRES,
        )

    def address(self, name: str) -> AnswerAddress:
        return AnswerAddress("race", ObjectId(self.name), RequestId("r1"), REQUESTED_AT, 1, name, True)

    def settle(self, worker: int, member: Member, text: str) -> Settled:
        return self.stores[worker].waits.settle(self.address(member.text), GivenAnswer(text))

    def time_out(self, worker: int) -> bool:
        return self.stores[worker].waits.time_out(self.address("deadline"), DEADLINE).applied

    def read(self, worker: int = 0) -> dict[Member, str | None]:
        """The answers, as the stage that goes on reads them."""
        groups = self.stores[worker].waits.groups
        return {
            Member(shard, number): None if answer is None else answer.text
            for shard in range(len(self.sizes))
            for number, (_, answer) in enumerate(groups.answers("race", self.key, shard))
        }

    def resumers(self) -> int:
        """How many of eight copies of the next hop's message get its hop at the same moment."""
        claims = at_once(lambda worker: self.stores[worker].claim(self.wanted(hop=2, owner=f"{worker}")))
        return sum(isinstance(claim, Claim) for claim in claims)

    @property
    def members(self) -> list[Member]:
        return [Member(shard, number) for shard, size in enumerate(self.sizes) for number in range(size)]


class Told(NamedTuple):
    """What one worker was told of the answer that it brought."""

    member: Member
    text: str
    settled: Settled

    @property
    def verdict(self) -> AnswerVerdict:
        return self.settled.verdict


def answered(group: Group, given: Sequence[tuple[Member, str]]) -> list[Told]:
    """Each worker brings one answer, all at the same moment."""
    return at_once(lambda worker: Told(*given[worker], group.settle(worker, *given[worker])))


def problems(told: Sequence[Told], read: Mapping[Member, str | None]) -> Iterator[str]:
    """What breaks I8: an answer that was kept is read, one text to a name, and the wait ends once."""
    for one in told:
        if one.verdict in KEPT and read[one.member] != one.text:
            yield f"{one.member.text} was told {one.verdict} for {one.text}, and read is {read[one.member]}"
        if one.verdict is AnswerVerdict.EXPIRED and read[one.member] == one.text:
            yield f"{one.member.text} was told EXPIRED for {one.text}, which is read"
    for member, text in read.items():
        if text is not None and not any(one.member == member and one.text == text for one in told):
            yield f"{member.text} has {text}, which nobody brought"
    if sum(one.verdict is AnswerVerdict.RESUMED for one in told) > 1:
        yield "two were told RESUMED"


def ends(told: Sequence[Told]) -> int:
    """How many workers have what the next hop's message is made of."""
    waits = [one.settled.item.wait for one in told if one.settled.item is not None]
    return sum(wait is not None and wait.end is not None and wait.plan is not None for wait in waits)


# -- each race, with what it has to show -------------------------------------------------------------------------------

Race = Callable[[Sequence[DynamoDBStore], int], Iterator[str]]
"""One round. Its number says how many calls later one worker begins than the others."""


def lag(store: DynamoDBStore, turn: int) -> None:
    """Begin later by some calls: an answer makes four."""
    for _ in range(turn % 5):
        store.read("race", "nobody")


def one_shard(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    group = Group.begun(stores, [WORKERS])
    yield from all_answer(group)


def several_shards(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    group = Group.begun(stores, [1, 2, 2, 3])
    yield from all_answer(group)


def all_answer(group: Group) -> Iterator[str]:
    told = answered(group, [(member, f'"{number}"') for number, member in enumerate(group.members)])
    if sorted(one.verdict for one in told) != [AnswerVerdict.RECORDED] * (WORKERS - 1) + [AnswerVerdict.RESUMED]:
        yield f"the verdicts are {[one.verdict.value for one in told]}"
    if not ends(told):
        yield "nobody can send the next hop's message"
    if group.resumers() != 1:
        yield "the next hop was not claimed once"
    yield from problems(told, group.read())


def repeated(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    """Two different answers to each of two requests, each of them twice at once."""
    group = Group.begun(stores, [1, 1])
    told = answered(group, [(member, f'"{text}"') for member in group.members for text in "aabb"])
    read = group.read()
    for member in group.members:
        kept = {one.text for one in told if one.member == member and one.verdict in KEPT}
        if kept != {read[member]}:
            yield f"{member.text} kept {kept}"
    if not ends(told):
        yield "nobody can send the next hop's message"
    if group.resumers() != 1:
        yield "the next hop was not claimed once"
    yield from problems(told, read)


def deadline(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    """The deadline comes with the last answers. Who ends the wait goes on at once, and reads."""
    group = Group.begun(stores, [3, 4])
    ended: list[bool] = []
    read: list[dict[Member, str | None]] = []

    def work(worker: int) -> Told | None:
        if worker < WORKERS - 1:
            return Told(group.members[worker], '"x"', group.settle(worker, group.members[worker], '"x"'))
        lag(stores[worker], turn)
        ended.append(group.time_out(worker))
        if ended[0]:
            read.append(group.read(worker))
        return None

    told = [one for one in at_once(work) if one is not None]
    resumed = sum(one.verdict is AnswerVerdict.RESUMED for one in told)
    if resumed + ended[0] != 1:
        yield f"{resumed} answers and {ended[0]} deadlines ended the wait"
    if group.resumers() != 1:
        yield "the next hop was not claimed once"
    again = group.read()
    if read and read[0] != again:
        yield "the answers changed after they were read"
    yield from problems(told, again)


def quorum(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    """Half of each shard is enough: who comes later is read, or told that it is too late."""
    group = Group.begun(stores, [4, 4], quorum=0.5)
    read: list[dict[Member, str | None]] = []

    def work(worker: int) -> Told:
        told = Told(group.members[worker], '"x"', group.settle(worker, group.members[worker], '"x"'))
        if told.verdict is AnswerVerdict.RESUMED:
            read.append(group.read(worker))
        return told

    told = at_once(work)
    if len(read) != 1:
        yield f"{len(read)} answers ended the wait"
    again = group.read()
    if read and read[0] != again:
        yield "the answers changed after they were read"
    for shard in (0, 1):
        if sum(text is not None for member, text in again.items() if member.shard == shard) < 2:
            yield f"shard {shard} went on without its quorum"
    yield from problems(told, again)


def takeover(stores: Sequence[DynamoDBStore], turn: int) -> Iterator[str]:
    """A newer request takes the object while answers come."""
    group = Group.begun(stores, [3, 4])

    def work(worker: int) -> Told | None:
        if worker < WORKERS - 1:
            return Told(group.members[worker], '"x"', group.settle(worker, group.members[worker], '"x"'))
        lag(stores[worker], turn)
        claim = stores[worker].claim(group.wanted("r2", owner="newer", requested_at=1))
        assert isinstance(claim, Claim)
        return None

    told = [one for one in at_once(work) if one is not None]
    found = stores[0].read("race", group.name)
    if found is None or (found.request_id, found.wait, found.owner) != ("r2", None, "newer"):
        yield f"the newer run's item is {found}"
    if not {one.verdict for one in told} <= {*KEPT, AnswerVerdict.SUPERSEDED}:
        yield f"the verdicts are {[one.verdict.value for one in told]}"
    if answered(group, [(group.members[0], '"late"')] * WORKERS)[0].verdict is not AnswerVerdict.SUPERSEDED:
        yield "an answer after the takeover is not told so"
    if group.resumers():
        yield "the old run has gone on"


RACES: dict[str, Race] = {
    race.__name__: race for race in (one_shard, several_shards, repeated, deadline, quorum, takeover)
}


def broken(race: Race, stores: Sequence[DynamoDBStore], rounds: int = ROUNDS) -> list[str]:
    """What the first round shows in which something is wrong."""
    for turn in range(rounds):
        if found := list(race(stores, turn)):
            return found
    return []


@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_of_eight_workers_none_loses_an_answer_of_a_group_or_ends_it_twice(
    stores: list[DynamoDBStore], race: Race
) -> None:
    assert broken(race, stores) == []


@pytest.mark.parametrize(
    ("name", "without", "race"),
    [
        ("FIRST_ANSWER", "room >= :size", repeated),
        ("SETTLE_MEMBER", "contains(waiting, :member)", deadline),
        ("CAN_CLOSE", "attribute_not_exists(pk)", deadline),
        ("CLOSE_SHARD", f"attribute_exists(pk) OR ({expressions.CLOSE_SHARD})", deadline),
    ],
    ids=["another answer to a request", "a closed shard", "closing", "a wait that is over"],
)
def test_a_guard_that_is_missing_is_noticed(
    stores: list[DynamoDBStore], monkeypatch: pytest.MonkeyPatch, name: str, without: str, race: Race
) -> None:
    values: Any = getattr(expressions, name)
    assert without != values
    monkeypatch.setattr(expressions, name, without)
    assert broken(race, stores, 20 * ROUNDS) != []

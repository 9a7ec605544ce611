"""The condition expression and ``flowguard.protocol.claims`` give the same answer; each part of it is needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from flowguard.aws import expressions
from flowguard.aws.claim_call import claim_call
from flowguard.aws.clients import Clients
from flowguard.aws.items import read_item
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.claims import decide, taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, RunItem
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from tests.aws.engines import EVERY_STATE, on_memory
from tests.aws.states import KINDS, Meeting, meetings

MEETINGS = tuple(meetings())


def answer(store: DynamoDBStore, meeting: Meeting) -> Verdict:
    """What the database says to the message."""
    message = meeting.request.message
    found = store.claim(meeting.request)
    if not isinstance(found, Claim):
        assert found.verdict is not Verdict.CLAIMED, meeting.says
        return found.verdict
    stored = store.read(message.flow, message.object_id)
    assert (stored if message.resumed else _unread(stored)) == found.item, meeting.says
    return Verdict.CLAIMED


def _unread(item: RunItem | None) -> RunItem | None:
    """The item as a claim reads it that needs no answers."""
    if item is None or item.wait is None:
        return item
    return item._replace(wait=item.wait._replace(plan=None, answers={}))


def _lay_out(clients: Clients, meeting: Meeting) -> None:
    if meeting.item is None:
        clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    else:
        clients.dynamodb.put_item(TableName="flowguard", Item=meeting.item)


def decided(meeting: Meeting) -> Verdict:
    return decide(read_item(meeting.item) if meeting.item else None, meeting.request)


@pytest.mark.slow("asks an engine about every small state")
@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_the_database_and_the_decision_agree_in_every_small_state(clients: Clients, kind: str) -> None:
    _agree(clients, KINDS[kind]())


@pytest.mark.proof("one in nineteen of the small states, on a real engine")
@pytest.mark.parametrize("clients", ["dynamodb-local"], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_real_database_and_the_decision_agree_in_some_states_of_each_kind(clients: Clients, kind: str) -> None:
    _agree(clients, itertools.islice(KINDS[kind](), 0, None, 19))


def _agree(clients: Clients, meetings: Iterable[Meeting]) -> None:
    store = aws_store(Settings(), clients)
    there = None
    for meeting in meetings:
        if meeting.item is None or meeting.item is not there:
            _lay_out(clients, meeting)
        said = answer(store, meeting)
        assert said is decided(meeting), meeting.says
        there = None if said is Verdict.CLAIMED else meeting.item  # what is refused writes nothing


def test_the_small_states_reach_every_verdict() -> None:
    assert {decided(meeting) for meeting in MEETINGS} == set(Verdict)


def test_a_granted_claim_leaves_the_item_that_the_decision_foresees() -> None:
    for meeting in MEETINGS:
        if decided(meeting) is Verdict.CLAIMED:
            before = read_item(meeting.item) if meeting.item else None
            after = taken(before, meeting.request)
            assert after.epoch == (before.epoch if before else 0) + 1, meeting.says
            assert not after.done


ALWAYS, NEVER = "attribute_exists(request_id)", "hop = :request_id"

MUTANTS = {
    "a newer request is not compared by time": ("requested_at < :requested_at", ALWAYS),
    "a request takes over from itself": ("request_id <> :request_id", ALWAYS),
    "a request of one moment wins": ("requested_at < :requested_at", "requested_at <= :requested_at"),
    "the first does not keep the object": (expressions._FREE, ALWAYS),
    "an ended run is not free": ("#status IN (:completed, :failed)", NEVER),
    "a request that was asked for before the run ended is let in after all": ("committed_at < :requested_at", ALWAYS),
    "a failed run is not free": ("#status IN (:completed, :failed)", "#status = :completed"),
    "a completed run is not free": ("#status IN (:completed, :failed)", "#status = :failed"),
    "an abandoned run is not free": ("lease_until < :abandoned_before", NEVER),
    "a run that has ended is taken for abandoned": (
        "#status = :running AND (lease_until",
        f"{ALWAYS} AND (lease_until",
    ),
    "a request's time goes back to that of an earlier copy": ("AND requested_at <= :requested_at", f"AND {ALWAYS}"),
    "a later copy of a request is passed by": ("AND requested_at <= :requested_at", "AND requested_at = :requested_at"),
    "the same hop of any request": ("request_id = :request_id AND hop = :hop AND", "hop = :hop AND"),
    "the same attempt at any hop": ("AND hop = :hop AND", "AND"),
    "a committed hop can be claimed again": ("done = :no", ALWAYS),
    "a lower redrive counts": ("redrive < :redrive OR (", "redrive <> :redrive OR ("),
    "a lower retry counts": ("retry < :retry", "retry <> :retry"),
    "a higher redrive does not count": ("redrive < :redrive OR (", f"{NEVER} OR ("),
    "a higher retry does not count": ("retry < :retry", NEVER),
    "a retry is compared across redrives": ("redrive = :redrive AND (", f"{ALWAYS} AND ("),
    "an attempt is its own successor": ("retry = :retry AND (", f"{ALWAYS} AND ("),
    "a living lease does not count": ("lease_until <= :now", ALWAYS),
    "a lease never ends": ("lease_until <= :now", NEVER),
    "a lease may be as long as a clock is fast": ("lease_until > :believed_until", NEVER),
    "the longest lease is not believed": ("lease_until > :believed_until", "lease_until >= :believed_until"),
    "a worker does not know its own claim": ("#owner = :owner)", f"{NEVER})"),
    "a failed run cannot be redriven": (expressions._REDRIVEN, NEVER),
    "any ended run can be redriven": ("#status = :failed AND redrive", "#status <> :running AND redrive"),
    "a failed run is redriven by the same message": ("#status = :failed AND redrive < :redrive", "#status = :failed"),
    "a run whose on_failed stage ended it is redriven": (expressions._UNDONE, NEVER),
    "a run whose on_failed stage failed is not redriven": ("attribute_exists(failed.undone) AND", ""),
    "a run is not redriven where the one before was undone": (
        " AND failed.request_id = :request_id",
        "",
    ),
    "a run is not redriven where another of its id was undone": (" AND failed.requested_at = requested_at", ""),
    "the next hop of any request": ("request_id = :request_id AND hop = :hop_before", "hop = :hop_before"),
    "the next hop of another run of the id": (
        "requested_at = :requested_at AND request_id = :request_id AND hop = :hop_before",
        "request_id = :request_id AND hop = :hop_before",
    ),
    "the same hop of another run of the id": (
        "requested_at = :requested_at AND request_id = :request_id AND hop = :hop AND",
        "request_id = :request_id AND hop = :hop AND",
    ),
    "any hop is the next": ("hop = :hop_before", ALWAYS),
    "the hop before need not be committed": ("done = :yes", ALWAYS),
    "the run may have ended": (
        "(#status = :running OR (#status = :waiting AND",
        f"({ALWAYS} OR (#status = :waiting AND",
    ),
    "a run that waits goes on": (expressions._OVER, ALWAYS),
    "a wait never ends": (expressions._OVER, NEVER),
    "a wait does not time out": ("attribute_exists(#wait.timed_out)", NEVER),
    "a wait does not fail": ("#wait.spare < :zero", NEVER),
    "the last answer does not end a wait": ("attribute_not_exists(waiting)", NEVER),
    "enough answers do not end a wait": ("size(waiting) <= #wait.spare", NEVER),
    "a run that waits is never abandoned": ("#status = :waiting AND #wait.deadline < :abandoned_before", NEVER),
    "a run that waits is abandoned at once": ("#wait.deadline < :abandoned_before", ALWAYS),
    "a run that waits is abandoned by its lease": (
        "(#status = :running AND (lease_until",
        "(#status <> :completed AND (lease_until",
    ),
    "an end that lies ahead is believed": ("committed_at > :believed_until", NEVER),
    "the latest end that is believed lies ahead": ("committed_at > :believed_until", "committed_at >= :believed_until"),
    "a lease that lies ahead keeps the object": (expressions._FAST, NEVER),
    "a lease that nobody can have is asked no further": (
        " AND requested_at < :abandoned_before AND NOT committed_at >= :abandoned_before",
        "",
    ),
    "a run of a fast clock is abandoned though it was asked for since": (
        " AND requested_at < :abandoned_before AND NOT",
        " AND NOT",
    ),
    "a run of a fast clock is abandoned though it has committed since": (
        " AND NOT committed_at >= :abandoned_before",
        "",
    ),
    "a run of a fast clock is abandoned a moment later": ("NOT committed_at >=", "NOT committed_at >"),
    "a kept result is for nobody": ("committed_at < :fresh_since", ALWAYS),
    "a result is kept for ever": ("committed_at < :fresh_since", NEVER),
    "a failure is kept for ever": ("#status = :failed AND committed_at < :requested_at", NEVER),
    "a failure answers nobody": ("#status = :failed AND committed_at < :requested_at", "#status = :failed"),
    "a caller that was answered begins a run": ("attribute_not_exists(answered.held.#caller)", ALWAYS),
    "a request begins a run again that it began before": ("answered_key <> :caller", ALWAYS),
    "a result that was dropped is good": ("attribute_exists(reset_at)", NEVER),
    "a run that was reset goes on": ("attribute_not_exists(reset_at)", ALWAYS),
    "an absent item is not free": (expressions.ABSENT, NEVER),
}


@pytest.fixture(scope="module")
def memory() -> Iterator[Clients]:
    with on_memory() as clients:
        yield clients


@pytest.mark.long("repeats mutants of the expression, which prove asks of their tests, in every small state")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_without_one_part_of_the_condition_some_state_is_answered_wrongly(
    mutant: str, memory: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, instead = MUTANTS[mutant]
    first = {policy: text.replace(part, instead) for policy, text in expressions.FIRST_HOP.items()}
    later = expressions.LATER_HOP.replace(part, instead)
    of_callers = expressions.LATER_HOP_OF_CALLERS.replace(part, instead)
    same = (first, of_callers) == (expressions.FIRST_HOP, expressions.LATER_HOP_OF_CALLERS)
    assert not same, "the mutant changes the expression"
    monkeypatch.setattr(expressions, "FIRST_HOP", first)
    monkeypatch.setattr(expressions, "LATER_HOP_OF_CALLERS", of_callers)
    monkeypatch.setattr(expressions, "LATER_HOP", later)
    assert any(_claimed(memory, each) is not (decided(each) is Verdict.CLAIMED) for each in MEETINGS)


def _claimed(clients: Clients, meeting: Meeting) -> bool:
    """Whether the broken condition lets the message in. DynamoDB refuses unused values, so those are left out."""
    _lay_out(clients, meeting)
    call = claim_call("flowguard", meeting.request)
    text = call["ConditionExpression"] + call["UpdateExpression"]
    for given in ("ExpressionAttributeValues", "ExpressionAttributeNames"):
        call[given] = {name: value for name, value in call[given].items() if name in text}
    try:
        clients.dynamodb.update_item(**call)
    except clients.dynamodb.exceptions.ConditionalCheckFailedException:
        return False
    return True


def test_each_policy_is_in_the_table() -> None:
    assert set(expressions.FIRST_HOP) == set(OnConflict)

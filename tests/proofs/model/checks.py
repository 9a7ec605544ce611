"""What must never be, as sentences: an empty one is no fault. Nothing here asks the code that is under test."""

from __future__ import annotations

import json
from collections.abc import Iterable

from flowguard.names.ids import RequestId
from flowguard.protocol.callers import Caller
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Commit, RunItem, Status
from flowguard.protocol.waiting import GivenAnswer, Wait
from flowguard.verdicts import Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from tests.proofs.model.function import NOW, Call, Committing, Ended, Function, Handling, run_name
from tests.proofs.model.scenarios import Scenario
from tests.proofs.model.world import Fact, Record, Shelf, World

ENDED = (Status.COMPLETED, Status.FAILED)
LONG_OVER = NOW - 2 * 86_400_000
"""When the lease of a run ended that nobody has worked on for longer than its flow allows."""
MOST_KILLS = 5
CARRIERS = (Kind.NEXT, Kind.DEAD, Kind.ASK)


def claim_fault(before: RunItem | None, after: RunItem) -> str:
    """I5, I4 and the lease, by what a granted claim changed."""
    hops_passed = tuple(json.loads(after.state)["hops"]) if after.state is not None else ()
    failed_at = 0 if after.own_failure is None else after.own_failure.hop
    if hops_passed != tuple(hop for hop in range(1, after.hop) if hop != failed_at):
        return f"hop {after.hop} starts with the state of hops {hops_passed}"
    if after.done or after.status is not Status.RUNNING:
        return "a hop is done before it was handled"
    if before is None:
        return ""
    is_another = after.request_id != before.request_id
    if after.requested_at < before.requested_at or (is_another and after.requested_at == before.requested_at):
        return "a request takes the object from a newer one, or from one of its time"
    if after.failed != before.failed:
        return "a claim forgets where a run has failed"
    if after.epoch <= before.epoch:
        return "the epoch does not grow"
    return _same_run_fault(before, after) if after.request_id == before.request_id else ""


def _same_run_fault(before: RunItem, after: RunItem) -> str:
    old, new = (before.hop, before.redrive, before.retry), (after.hop, after.redrive, after.retry)
    if new < old:
        return "a run goes back to a hop or an attempt that it has left behind"
    if new == old and before.lease_until > NOW and before.owner != after.owner:
        return "an attempt is taken from a worker whose lease is alive"
    if after.hop == before.hop and before.done and before.status is not Status.FAILED:
        return "a committed hop is opened again"
    if after.hop > before.hop and not before.done:
        return "a hop begins although the one before it is not committed"
    return _went_on_fault(before, after)


def _went_on_fault(before: RunItem, after: RunItem) -> str:
    """I8: a run goes on when its wait is over, at the stage for the way in which it ended."""
    if before.status is not Status.WAITING or after.hop == before.hop:
        return ""
    wait = before.wait
    if wait is None or not _is_over(wait):
        return "a run goes on although it waits"
    stage = "late" if wait.timed_out else "sorry" if wait.spare < 0 else "second"
    return "" if after.stage == stage else f"a run goes on at {after.stage}, and its wait ended for {stage}"


def _is_over(wait: Wait) -> bool:
    return wait.timed_out or wait.spare < 0 or len(wait.waiting) <= wait.spare


def answer_fact(address: AnswerAddress, answer: GivenAnswer) -> Fact:
    return "answered", address.request_id, str(address.hop), address.name, "failed" if answer.failed else ""


def answer_fault(scenario: Scenario, world: World, before: RunItem, after: RunItem, address: AnswerAddress) -> str:
    """I8 and I9, when an answer has changed the item."""
    if fault := _wait_fault(before, address):
        return fault
    if any(fact[:4] == answer_fact(address, GivenAnswer(""))[:4] for fact in world.log):
        return f"{address.name} is answered twice"
    if address.name in scenario.events and any(fact[0] == "answered" and fact[3] == address.name for fact in world.log):
        return f"{address.name} is for two runs"
    assert before.wait is not None
    assert after.wait is not None
    if address.name not in before.wait.waiting or before.wait.waiting - after.wait.waiting != {address.name}:
        return f"an answer to {address.name} is taken for another one"
    return ""


def deadline_fault(before: RunItem, address: AnswerAddress) -> str:
    """I8 and I9, when a deadline has ended a wait."""
    return _wait_fault(before, address)


def _wait_fault(before: RunItem, address: AnswerAddress) -> str:
    if before.request_id != address.request_id:
        return f"what is for {address.request_id} changes {before.request_id}"
    if (before.hop, before.status) != (address.hop, Status.WAITING) or before.wait is None:
        return "what a hop waits for comes to another one"
    return "a wait that is over is changed" if _is_over(before.wait) else ""


def resumed_fault(scenario: Scenario, world: World, claimed: RunItem, commit: Commit) -> str:
    """I8: the hop after a wait gets each answer that there is, and no other."""
    if claimed.hop == 1 or claimed.wait is None or commit.status is not Status.COMPLETED or commit.state is None:
        return ""
    place = ("answered", claimed.request_id, str(claimed.hop - 1))
    given = {fact[3] for fact in world.log if fact[:3] == place and not fact[4]}
    failed = {fact[3] for fact in world.log if fact[:3] == place and fact[4]}
    names = (*scenario.flows, *scenario.parties, *scenario.events)
    if len(names) - len(failed) < (scenario.needed or len(names)) and claimed.stage == "second":
        return f"{', '.join(sorted(failed))} failed, and the run goes on as if nothing had"
    got = set(json.loads(commit.state)["answers"])
    return "" if got == given else f"the hop gets the answers {sorted(got)}, and there are {sorted(given)}"


def text_fault(world: World, message: Message) -> str:
    """The message that first gets a run is the one that is carried out, whatever others with its id say."""
    texts = {fact[2] for fact in world.log if fact[:2] == ("text", message.request_id)}
    is_another = len(texts) > 1 and ("expired",) not in world.log
    return "a run that has begun is given the payload of another message" if is_another else ""


def conflict_fault(scenario: Scenario, verdict: Verdict, before: RunItem | None, message: Message) -> str:
    """2.4: whose the object is when two requests meet; and whether a dead letter that was moved back has its way."""
    if before is None:
        return "a later hop begins without its item" if verdict is Verdict.CLAIMED and message.hop > 1 else ""
    if before.request_id == message.request_id:
        return _redrive_fault(verdict, before, message)
    if verdict is Verdict.STALE and before.requested_at < message.requested_at:
        return "a newer request is taken for an older one"
    ended_before = before.status in ENDED and before.committed_at < message.requested_at
    is_abandoned = before.status is Status.RUNNING and before.lease_until == LONG_OVER
    if before.status is Status.WAITING and before.wait is not None:
        is_abandoned = before.wait.deadline == LONG_OVER
    is_free = ended_before or is_abandoned or before.reset_at is not None
    if (verdict is Verdict.KEPT) != (before.status in ENDED) and verdict in (Verdict.KEPT, Verdict.ATTACHED):
        return "a request is answered with an end that there is not, or waits for one that has been"
    if verdict in (Verdict.KEPT, Verdict.ATTACHED) and scenario.on_conflict is not OnConflict.ATTACH:
        return "a request is answered with the end of another, and its flow does not say so"
    if verdict is Verdict.IGNORED and (is_free or scenario.on_conflict is not OnConflict.IGNORE):
        return "a request is turned away although the object is free"
    if verdict is Verdict.CLAIMED and not is_free and scenario.on_conflict is not OnConflict.SUPERSEDE:
        return "the object is taken from a run that keeps it"
    return ""


def _redrive_fault(verdict: Verdict, before: RunItem, message: Message) -> str:
    moved_back = before.status is Status.FAILED and before.hop == message.hop and message.redrive > before.redrive
    failed = before.own_failure
    if failed is not None and (failed.undone or message.hop == failed.hop):
        return "a run that was given up is opened again" if verdict is Verdict.CLAIMED and before.done else ""
    if moved_back and verdict is not Verdict.CLAIMED:
        return "a dead letter was moved back, and its run is not opened"
    if verdict is Verdict.EARLY:
        return "a hop comes before its predecessor is committed, or before what it waits for is there"
    return ""


def write_fault(world: World, found: RunItem | None, worker_name: str, fact: Fact) -> str:
    """I1 to I3, when a commit was applied to what it found. Nonces of living workers are never the same."""
    if found is None or found.owner != worker_name:
        return "a commit is applied by a worker that no longer owns the hop"
    if found.done:
        return "a hop is committed over its own commit"
    _, run, hop, status, _ = fact
    same_hop = [old for old in world.log if old[0] == "commit" and old[1:3] == (run, hop)]
    if any(old[3] != Status.FAILED.value for old in same_hop) or fact in same_hop:
        return f"hop {hop} of {run} is committed twice ({status})"
    before = ("commit", run, str(int(hop) - 1))
    went_on = (Status.RUNNING.value, Status.WAITING.value)
    if hop != "1" and not any(old[:3] == before and old[3] in went_on for old in world.log):
        return f"hop {hop} of {run} is committed, and the hop before it is not"
    return ""


def reset_fault(found: RunItem | None) -> str:
    """A run that was reset begins anew before anything of it is committed."""
    return "" if found is None or found.reset_at is None else "a run that was reset is committed"


def cancelled_fault(found: RunItem | None, commit: Commit) -> str:
    """Nothing of a cancelled run is applied but its end, or what undoes it."""
    if found is None or not _is_noted(found) or found.own_failure is not None:
        return ""
    is_end = commit.status is Status.FAILED or commit.failed is not None
    return "" if is_end else "a cancelled run goes on"


def _is_noted(item: RunItem) -> bool:
    note = item.cancellation
    return note is not None and note.request_id == item.request_id and note.at >= item.requested_at


def other_run_fault(cancelled: RunItem | None, only: RequestId | None) -> str:
    """A request that comes as cancelled cancels its own run."""
    if cancelled is None or only is None or cancelled.request_id == only:
        return ""
    return f"the cancellation of {only} cancels {cancelled.request_id}"


def forgotten_fault(scenario: Scenario, function: Function, envelope: int, item: RunItem | None) -> str:
    """A request that comes as cancelled is acked when its run has ended, is about to, or will not be carried out."""
    if envelope not in map(function.cancelled, scenario.cancelled):
        return ""
    m = function.message_of(envelope)
    if item is None or item.requested_at < m.requested_at:
        return "" if scenario.on_conflict is OnConflict.IGNORE else f"{m.request_id} is cancelled, and may still begin"
    if item.request_id != m.request_id or item.status in ENDED or item.own_failure is not None:
        return ""
    return "" if _is_noted(item) else f"{m.request_id} is cancelled, and goes on"


def told_fault(commit: Commit) -> str:
    """A run that is still to be undone has not ended for those who wait for it."""
    sends = commit.outbox.sends if commit.outbox is not None else ()
    is_told = commit.failed is not None and any(send.kind is Kind.COMPLETE for send in sends)
    return "a requester is told of a failure that is not undone yet" if is_told else ""


def sends_fault(world: World, own: str, sends: Iterable[Send], facts: Iterable[Fact]) -> str:
    """I7: what carries the worker's ``own`` run on comes last (a takeover has fenced the other run, and still holds
    what it sends for it). And two messages never have one id."""
    sent = {fact[1]: fact for fact in world.log if fact[0] == "sent"}
    for fact in facts:
        if sent.get(fact[1], fact) != fact and not _is_answer_of_another_run(world, fact):
            return f"two different messages are sent under the id {fact[1]}"
    carriers = {send.id for send in sends if send.kind in CARRIERS and send.id.startswith(f"{own}-")}
    here = {send.id for send in sends}
    for fact in world.log:
        if fact[0] in ("owed", "before") and fact[2] in carriers and fact[1] not in sent and fact[1] not in here:
            return f"{fact[2]} is sent before {fact[1]}"
    return ""


def _is_answer_of_another_run(world: World, fact: Fact) -> bool:
    """A request that was answered and whose message comes once more, when another run has ended since, is answered with
    that end: the item remembers who was answered with the last one. Its receiver drops the copy by its id."""
    ended = {old[1] for old in world.log if old[0] == "ended"}
    return fact[1].endswith(".end") and len(ended) > 1


def failure_fault(scenario: Scenario, message: Message, ending: str, call: Call) -> str:
    """I10: what comes of an attempt that failed."""
    ends = isinstance(call, Committing)
    if isinstance(call, Handling | Ended):
        return "nothing comes of an attempt that failed"
    if ending == "reject" or message.retry + 1 >= scenario.attempts:
        return "" if ends else f"after the last attempt ({ending}) the run is not ended"
    return f"attempt {message.retry + 1} of {scenario.attempts} ends the run" if ends else ""


def kill_fact(world: World, message: Message) -> Fact:
    """That one more function was killed while it handled the message."""
    return *_attempt(message), str(_killed(world, message) + 1)


def handled_fault(world: World, message: Message) -> str:
    """A message that has killed five functions is handled no more."""
    killed = _killed(world, message)
    return f"a message is handled that has killed {killed} functions" if killed >= MOST_KILLS else ""


def killed_fault(scenario: Scenario, world: World, record: Record, message: Message, commit: Commit) -> str:
    """A hop that nobody has handled to its end is given up after five kills, or two where SQS has given it up, and
    where it was cancelled. A lease that ends early looks like the end of a dead worker."""
    error = commit.failed.error if commit.failed is not None else commit.error
    if commit.undone or error is None or error.type == "Cancelled":
        return ""
    begun, left = scenario.budget, world.budget
    gone = begun.crashes - left.crashes + begun.lapses - left.lapses
    killed = _killed(world, message) + gone
    needed = 2 if record.from_dlq else MOST_KILLS
    return "" if killed >= needed else f"a hop is given up that has killed {killed} functions, and failed in none"


def _killed(world: World, message: Message) -> int:
    attempt = _attempt(message)
    return sum(fact[: len(attempt)] == attempt for fact in world.log)


def _attempt(message: Message) -> Fact:
    return "killed", message.request_id, str(message.hop), str(message.redrive), str(message.retry)


def end_fault(scenario: Scenario, function: Function, shelf: Shelf, world: World) -> str:
    """I6 and I7, once nothing is left to be done."""
    item: RunItem | None = None if world.item is None else shelf[world.item]
    for run in {*scenario.requests, *scenario.again, *scenario.cancelled}:
        asks = scenario.on_conflict is OnConflict.ATTACH
        if fault := (asks and _answer_fault(function, world, run)) or _run_fault(scenario, function, world, item, run):
            return fault
    if ("expired",) in world.log:
        return ""
    sent = {fact[1] for fact in world.log if fact[0] == "sent"}
    unsent = sorted(fact[1] for fact in world.log if fact[0] == "owed" and fact[1] not in sent)
    return f"{unsent[0]} was committed and never sent" if unsent else ""


def _run_fault(scenario: Scenario, function: Function, world: World, item: RunItem | None, run: int) -> str:
    name = run_name(run)
    came = ("came", name) in world.log or run in scenario.requests or run in scenario.cancelled
    if not came or ("called", name) in world.log or ("ignored", name) in world.log or ("superseded", name) in world.log:
        return ""
    letters = [function.message_of(one) for one in world.parked if function.message_of(one).request_id == name]
    if item is None or item.request_id != name:
        if item is not None and item.request_id > name and ("expired",) in world.log:
            return ""
        over = ("ended", name) in world.log or letters
        return "" if over else f"{name} was accepted, and neither ended nor was superseded"
    if item.status is Status.WAITING:
        return _left_waiting(scenario, world, item)
    if item.status is Status.RUNNING:
        return "" if letters and ("expired",) in world.log else f"{name} has stopped at hop {item.hop}"
    if item.status is Status.COMPLETED:
        return f"{name} is COMPLETED and has a dead letter" if letters and scenario.is_calm else ""
    if scenario.waits and not (scenario.budget.failures or scenario.budget.rejects or is_cancelled(item)):
        return f"{name} is FAILED, and nothing has failed"
    return _letters_fault(item, letters)


def is_cancelled(item: RunItem) -> bool:
    """By the error that everybody is told of."""
    failed = item.own_failure
    return (item.error or "").startswith("Cancelled: ") or (failed is not None and failed.error.type == "Cancelled")


def _letters_fault(item: RunItem, letters: list[Message]) -> str:
    """I6, of a run that is FAILED: which dead letters there are to move back."""
    if is_cancelled(item):
        return f"{item.request_id} was cancelled, and has a dead letter" if letters else ""
    name, failed = item.request_id, item.own_failure
    if failed is not None and not [one for one in letters if one.hop == failed.hop]:
        return f"{name} has failed at hop {failed.hop}, and there is no dead letter of that"
    if failed is not None and failed.undone:
        return ""
    due = [letter for letter in letters if (letter.hop, letter.redrive) == (item.hop, item.redrive + 1)]
    return "" if len(due) == 1 else f"{name} is FAILED with {len(due)} dead letters to move back"


def _answer_fault(function: Function, world: World, run: int) -> str:
    """I16: whoever asked is told one end, under one id."""
    message = function.message_of(function.request(run))
    caller = Caller.of(message)
    assert caller is not None
    own = caller.reply_id(message.flow, message.object_id)
    told = [fact for fact in world.log if fact[0] == "sent" and fact[1].startswith(f"{own.removesuffix('.1.end')}.")]
    ends = {fact[1] for fact in told if fact[1].endswith(".end")}
    return "" if ends == {own} else f"{run_name(run)} is told {len(ends)} ends"


def _left_waiting(scenario: Scenario, world: World, item: RunItem) -> str:
    """I15. An answer that is given once may be lost before anybody has it, and then only the deadline goes on.

    What another run has had before it was superseded is used up.
    """
    had = {fact[3] for fact in world.log if fact[0] == "answered" and fact[1] != item.request_id}
    if item.wait is not None and had.intersection(item.wait.waiting, scenario.events) and not _is_over(item.wait):
        return ""
    if item.wait is not None and not _is_over(item.wait):
        what = f"waits for {', '.join(sorted(item.wait.waiting))} for ever"
        return "" if scenario.is_direct and not scenario.has_deadline else f"{item.request_id} {what}"
    return f"{item.request_id} waits for nothing, and does not go on"


def calm_fault(scenario: Scenario, function: Function, shelf: Shelf, world: World) -> str:
    """Where nothing was repeated there are exact numbers: a handler is called as often as the policy says."""
    if not scenario.is_calm or world.item is None:
        return ""
    item: RunItem = shelf[world.item]
    begun, left = scenario.budget, world.budget
    failed, redriven = begun.failures - left.failures, begun.redrives - left.redrives
    if failed > scenario.attempts * (1 + redriven + scenario.undoes):
        return f"a handler was called {failed} times by a policy of {scenario.attempts} attempts"
    is_stuck = (
        item.status is Status.FAILED
        and item.own_failure is None
        and redriven
        and not left.redrives
        and not (failed or left.rejects)
    )
    return "a run was moved back, nothing failed any more, and it is still FAILED" if is_stuck else ""

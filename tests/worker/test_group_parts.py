"""A group that is saved in several invocations, each of which runs out of time, dies or loses its hop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Never

import pytest
from botocore.exceptions import ClientError

from flowguard.errors import TooLarge
from flowguard.events import EventType
from flowguard.failed import Failure
from flowguard.flow import Flow
from flowguard.group import GroupAnswer, GroupEnd
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.groups import MOST_PARTS, is_of_part, part_name
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.envelope import Envelope, normalize
from tests.waits import (
    SCRIPT,
    START,
    TWICE,
    WITHIN,
    Cart,
    Late,
    Progress,
    Search,
    WaitScene,
    record,
    wait_scene,
)
from tests.worker.test_groups import ask, read_into

NAMES = tuple("abcdefg")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests make a shard."""
    for module in ("flowguard.protocol.groups", "flowguard.worker.group_planner"):
        monkeypatch.setattr(f"{module}.MOST_IN_SHARD", 2)


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene() as found:
        yield found


class Slow:
    """Asks a group. The time of an invocation is over when it first comes to each of these requests."""

    def __init__(self, at: WaitScene, stops: Sequence[int], names: Sequence[str] = NAMES, **options: Any) -> None:
        self.at, self.stops, self.names, self.options = at, list(stops), names, options
        self.made = 0

    def __call__(self, step: Step[Progress]) -> Outcome:
        group = step.group(Search, self.requests())
        return Late.when_group(group, within=WITHIN, on_timeout="sorry", **self.options)

    def requests(self) -> Iterator[tuple[str, Cart]]:
        for number, name in enumerate(self.names):
            if number in self.stops:
                self.stops.remove(number)
                self.at.clock.advance(seconds=30)
            self.made += 1
            yield name, Cart(cart_id=name)


def asked_and_read(at: WaitScene) -> list[GroupAnswer[int]]:
    """Ask the group, answer it and go on. What the stage read."""
    found: list[GroupAnswer[int]] = []
    read_into(found)
    for one in ask(at):
        assert at.deliver(one)
    assert all(at.deliver(one) for one in at.waiting("answers"))
    at.resume()
    assert at.item().status is Status.COMPLETED
    return found


ALL = [(number, name, 1) for number, name in enumerate(NAMES)]


@pytest.mark.parametrize("stops", [(2,), (6,), (2, 4), (4, 6), (2, 4, 6)], ids=str)
def test_a_group_is_saved_in_as_many_invocations_as_it_takes(at: WaitScene, stops: tuple[int, ...]) -> None:
    assert at.begin(Slow(at, stops))
    assert at.calls == ["UpdateItem", *["BatchWriteItem"] * (stops[0] // 2), "UpdateItem", "UpdateItem"]
    assert at.item().status is Status.RUNNING
    assert at.resume() == len(stops)
    assert at.told(EventType.CONTINUED) == len(stops)
    assert at.told(EventType.RETRIED) == 0
    assert at.item().status is Status.WAITING
    assert "memo" not in at.raw()
    assert asked_and_read(at) == ALL


def test_a_shard_is_saved_once_by_whoever_comes_to_it(at: WaitScene) -> None:
    with intercept(lambda call, proceed: _counted(call, proceed, written)):
        written: list[str] = []
        at.begin(Slow(at, (2, 4, 6)))
        at.resume()
    assert len(written) == len(set(written)) == len(NAMES) + 4


def _counted(call: ApiCall, proceed: Proceed, written: list[str]) -> Response:
    if call.operation == "BatchWriteItem":
        params: Any = call.params
        puts = [one["PutRequest"]["Item"] for one in params["RequestItems"]["flowguard"]]
        written += [f"{one['pk']['S']} {one['sk']['S']}" for one in puts]
    return proceed()


def test_nothing_is_sent_before_the_last_request_is_saved(at: WaitScene) -> None:
    at.begin(Slow(at, (2, 4)))
    assert (ask(at), at.waiting("mails")) == ([], [])
    at.resume()
    assert len(ask(at)) == len(NAMES)


def test_a_quorum_counts_over_the_shards_of_all_parts(at: WaitScene) -> None:
    at.begin(Slow(at, (4,), quorum=0.5))
    at.resume()
    requests = ask(at)
    for one in requests[1::2]:
        at.deliver(one)
    for one in at.waiting("answers"):
        at.deliver(one)
    at.deliver(requests[6])
    for one in at.waiting("answers"):
        at.deliver(one)
    assert at.verdicts() == ["RECORDED"] * 3 + ["RESUMED"]


def test_parties_outside_are_found_in_every_part(at: WaitScene) -> None:
    def waits(step: Step[Progress]) -> Outcome:
        def requests() -> Iterator[tuple[str, dict[str, str]]]:
            for name in NAMES:
                if name == "e" and not stopped:
                    stopped.append(name)
                    at.clock.advance(seconds=30)
                yield name, {"of": name}

        return Late.when_group(step.group("asked", requests()), within=WITHIN)

    stopped: list[str] = []
    at.begin(waits)
    at.resume()
    ask(at)
    assert len(at.waiting("asked")) == len(NAMES)


# -- who dies, or comes too late ---------------------------------------------------------------------------------------


class Dies(KeyboardInterrupt):
    """The process is gone."""


def dying(passing: int, *, after: bool) -> Callable[[ApiCall, Proceed], Response]:
    """Lets so many calls pass, then kills the worker before the next one, or right after it."""
    left = [passing]

    def intercepted(call: ApiCall, proceed: Proceed) -> Response:
        left[0] -= 1
        if left[0] != -1:
            return proceed()
        if after:
            proceed()
        raise Dies

    return intercepted


CALLS_OF_A_PART = 6
"""Claim, two shards, the part, the release, the message."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("passing", range(CALLS_OF_A_PART))
def test_whoever_dies_at_whatever_call_of_a_part_the_group_is_saved(at: WaitScene, passing: int, after: bool) -> None:
    SCRIPT.waits = Slow(at, (4, 6))
    with pytest.raises(Dies), intercept(dying(passing, after=after)):
        at.begin()
    at.clock.advance(seconds=30)
    assert at.begin()
    at.clock.advance(seconds=30)
    at.resume()
    assert at.item().status is Status.WAITING
    assert asked_and_read(at) == ALL


def test_a_copy_of_the_message_finds_the_hop_at_work_or_done(at: WaitScene) -> None:
    at.begin(Slow(at, (4,)))
    [onward] = at.waiting("carts")
    assert at.deliver(onward)
    assert at.deliver(onward)
    assert at.begin()
    assert at.told(EventType.DONE) == 2
    assert at.told(EventType.WAITING) == 1
    assert asked_and_read(at) == ALL


def test_a_worker_that_stalls_while_it_saves_adds_no_part_to_those_of_another(at: WaitScene) -> None:
    def stalls(step: Step[Progress]) -> Outcome:
        def requests() -> Iterator[tuple[str, Cart]]:
            yield from ((name, Cart(cart_id=name)) for name in NAMES[:4])
            at.clock.advance(seconds=30)
            SCRIPT.waits = Slow(at, (6,))
            assert at.begin()  # another worker has the hop, and saves three shards
            yield "z", Cart(cart_id="z")

        return Late.when_group(step.group(Search, requests()), within=WITHIN, on_timeout="sorry")

    assert not at.begin(stalls)
    assert at.told(EventType.FENCED) == 1
    at.resume()
    assert asked_and_read(at) == ALL


def test_a_worker_that_stalls_and_saves_after_the_commit_changes_no_row_of_the_group(at: WaitScene) -> None:
    def stalls(step: Step[Progress]) -> Outcome:
        def requests() -> Iterator[tuple[str, Cart]]:
            yield from ((name, Cart(cart_id=name)) for name in NAMES[:4])
            at.clock.advance(seconds=30)
            SCRIPT.waits = Slow(at, (6,))
            assert at.begin()
            at.resume()
            at.clock.advance(seconds=-20)
            yield from ((f"z{name}", Cart(cart_id=f"z{name}")) for name in NAMES)

        return Late.when_group(step.group(Search, requests()), within=WITHIN, on_timeout="sorry")

    at.begin(stalls)
    assert at.told(EventType.FENCED) == 1
    assert asked_and_read(at) == ALL


# -- another end than its own ------------------------------------------------------------------------------------------


def test_a_newer_run_between_two_parts_saves_its_own_group(at: WaitScene) -> None:
    at.begin(Slow(at, (4,)))
    assert at.begin(Slow(at, (2,), "xyz"), request_id="run-2", requested_at=START + 1)
    at.resume()
    assert at.told(EventType.STALE) == 1
    assert asked_and_read(at) == [(0, "x", 1), (1, "y", 1), (2, "z", 1)]


def test_a_newer_run_under_the_same_id_takes_over_no_part(at: WaitScene) -> None:
    at.begin(Slow(at, (4,)))
    at.waiting("carts")
    assert at.begin(Slow(at, (2,), "xyz"), request_id="run-2", requested_at=START + 1)
    at.waiting("carts")
    assert at.begin(Slow(at, (2,), "uvw"), requested_at=START + 2)
    at.resume()
    assert asked_and_read(at) == [(0, "u", 1), (1, "v", 1), (2, "w", 1)]


def test_a_run_that_is_cancelled_between_two_parts_ends(at: WaitScene) -> None:
    at.begin(Slow(at, (4,)))
    assert at.services.store.cancellations.cancel("carts", ObjectId("c1"), START + 1, "why", at.clock.now())
    at.resume()
    assert at.item().status is Status.FAILED
    assert ask(at) == []


def test_a_group_that_changes_between_two_parts_fails_its_run_and_a_redrive_begins_anew(at: WaitScene) -> None:
    slow = Slow(at, (4,))
    at.begin(slow)
    slow.names = "axyzefg"
    at.resume()
    assert at.item().status is Status.FAILED
    [letter] = at.waiting("carts-dead-letters")
    assert "its first 4 requests are not those that were saved before" in str(letter)
    assert ask(at) == []
    assert at.deliver({**letter, "eventSourceARN": letter["eventSourceARN"].replace("-dead-letters", "")})
    assert [(one.number, one.name) for one in asked_and_read(at)] == list(enumerate("axyzefg"))


def test_an_attempt_that_fails_between_two_parts_goes_on_from_them(at: WaitScene) -> None:
    slow = Slow(at, (4,))
    at.begin(slow)
    failing = [True]

    def fails(step: Step[Progress]) -> Outcome:
        if failing.pop():
            failing.append(False)
            raise ConnectionError
        return slow(step)

    SCRIPT.waits = fails
    at.resume()
    assert at.told(EventType.RETRIED) == 1
    assert asked_and_read(at) == ALL


def test_a_message_that_has_no_room_to_be_sent_on_stays_in_its_queue_and_goes_on(
    at: WaitScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object, **__: object) -> Never:
        raise TooLarge("a message to sqs:begin", {"body": 2}, 1)

    slow = Slow(at, (2,))
    with monkeypatch.context() as changed:
        changed.setattr("flowguard.worker.fail_phase.retried", too_large)
        assert not at.begin(slow)
    assert (at.told(EventType.BROKEN), at.item().status) == (0, Status.RUNNING)
    assert at.begin(slow)
    assert at.item().status is Status.WAITING


def test_invocations_that_save_nothing_are_attempts_that_fail(at: WaitScene) -> None:
    slow = Slow(at, (4,))
    at.begin(slow)

    def without_time(step: Step[Progress]) -> Outcome:
        slow.stops = [4]
        return slow(step)

    SCRIPT.waits = without_time
    at.resume()
    assert at.told(EventType.RETRIED) == 1
    assert at.told(EventType.CONTINUED) == 1
    assert at.item().status is Status.FAILED
    assert at.item().error is not None
    assert str(at.item().error).startswith("GroupUnsaved: 'begin' cannot wait: no time was left to save a request")
    assert ask(at) == []


def test_a_group_that_never_comes_to_its_end_fails(at: WaitScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.worker.group_planner.MOST_PARTS", 3)
    at.begin(Slow(at, (2, 4, 6, 8), "abcdefghij"))
    at.resume()
    assert at.told(EventType.CONTINUED) == 2
    assert "was not saved in 3 invocations" in at.letters()[0][1]
    assert MOST_PARTS == 50


@pytest.mark.parametrize("refused", ["AWS.SimpleQueueService.NonExistentQueue", "ThrottlingException"])
def test_where_the_message_is_not_sent_its_record_goes_on(at: WaitScene, refused: str) -> None:
    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation.startswith("SendMessage"):
            raise ClientError({"Error": {"Code": refused, "Message": "no"}}, call.operation)
        return proceed()

    with intercept(refuses):
        assert not at.begin(Slow(at, (4,)))
    assert at.begin()
    assert asked_and_read(at) == ALL


def test_in_a_fifo_queue_the_record_itself_goes_on(at: WaitScene) -> None:
    SCRIPT.waits = Slow(at, (4,))
    first = record(at.first().attributes(), at.first().body, "carts.fifo")
    shown_again: list[object] = []

    def queue(call: ApiCall, proceed: Proceed) -> Response:
        assert not call.operation.startswith("SendMessage"), "a copy would come out of order"
        if call.operation == "GetQueueUrl":
            return {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/carts.fifo"}
        if call.operation == "ChangeMessageVisibility":
            shown_again.append(call.params["VisibilityTimeout"])
            return {}
        return proceed()

    with intercept(queue):
        assert not at.deliver(first)
    assert shown_again == [0]
    assert at.item().retry == 0
    assert at.deliver(first)
    assert at.told(EventType.RETRIED) == 0
    assert asked_and_read(at) == ALL


# -- stages of other flows ---------------------------------------------------------------------------------------------

NOTED: list[Failure] = []


class Unleased(Stage[Cart, Progress], name="begin", then="late", inbox="carts", retry=TWICE, lease=False):
    def handle(self, cart: Cart, step: Step[Progress]) -> Outcome:
        return SCRIPT.waits(step)


class Remembering(Stage[Cart, Progress], name="begin", then="late", inbox="carts", retry=TWICE):
    def handle(self, cart: Cart, step: Step[Progress]) -> Outcome:
        step.once("charged", lambda: 7)
        return SCRIPT.waits(step)


class Sums(Stage[GroupEnd, Progress], name="late", inbox="carts"):
    def handle(self, end: GroupEnd, step: Step[Progress]) -> Outcome:
        return Done(sum(1 for _ in step.answers(int)))


class Undo(Stage[Failure, Progress], name="undo", inbox="carts"):
    def handle(self, failure: Failure, step: Step[Progress]) -> Outcome:
        NOTED.append(failure)
        return Done()


class WithoutLease(Flow, name="carts", object_id="cart_id", answers="answers", trust_senders=True):
    stages = (Unleased, Sums)


class Undoing(Flow, name="carts", object_id="cart_id", answers="answers", on_failed=Undo, trust_senders=True):
    stages = (Remembering, Sums, Undo)


def slow_sums(at: WaitScene, stops: Sequence[int], names: Sequence[str] = NAMES) -> Slow:
    slow = Slow(at, stops, names)
    SCRIPT.waits = lambda step: Sums.when_group(step.group(Search, slow.requests()), within=timedelta(hours=1))
    return slow


def test_a_stage_without_a_lease_has_to_save_its_group_at_once() -> None:
    with wait_scene(WithoutLease) as at:
        slow_sums(at, (4,))
        at.begin()
        assert at.told(EventType.CONTINUED) == 0
        assert at.told(EventType.RETRIED) == 1
        at.resume()
        assert at.item().status is Status.WAITING


def test_what_a_hop_remembers_is_beside_its_parts_and_who_undoes_it_sees_no_part() -> None:
    NOTED.clear()
    with wait_scene(Undoing) as at:
        slow = slow_sums(at, (4,))
        at.begin()
        slow.names = "other"
        at.resume()
        [failure] = NOTED
        assert failure.type == "GroupChanged"
        assert failure.remembered == {"charged": "7"}
        assert at.item().status is Status.FAILED


def test_a_part_has_a_name_that_no_handler_can_give() -> None:
    assert is_of_part(part_name(START, 0, 1))
    assert not part_name(START, 0, 1).isprintable()
    assert (
        len({part_name(START, 0, 1), part_name(START, 1, 0), part_name(START + 1, 0, 1), part_name(START, 0, 2)}) == 4
    )
    assert not is_of_part("charged")


def test_the_message_that_goes_on_is_the_very_message(at: WaitScene) -> None:
    at.begin(Slow(at, (4,)))
    [onward] = at.waiting("carts")
    [envelope] = normalize({"Records": [{**onward, "messageId": "m"}]})
    assert isinstance(envelope, Envelope)
    assert (envelope.message, envelope.attributes) == (at.first().body, at.first().attributes())

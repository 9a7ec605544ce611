"""What the docs say does not hold: each hole that they name is fallen into here, once.

A test says which line of which page it is about; ``ELSEWHERE`` names tests of other modules. A line without a test
fails the last test of this module.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard import KeyTable, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.deploy.queue_plan import Retentions
from flowguard.errors import ResultUnsaved, TooManyWrites
from flowguard.events import EventType
from flowguard.once_function import OnceServices
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.step import Step
from flowguard.testing import ManualClock, sqs_event
from tests.scene import START, OrderState, Scene, record, scene
from tests.worker.runtime.mishaps import Died, boom, die, dies_at, supersede
from tests.worker.runtime.test_near_the_limit import filled

DOCS: Final = Path(__file__).parents[2] / "docs"
GUARANTEES = "explain/guarantees.md"
TABLES = "guides/writing-your-own-tables.md"
OUTSIDE = "guides/side-effects-outside-aws.md"
ONCE = "guides/without-a-flow.md"

SHOWN: Final[dict[str, set[str]]] = {}
"""The lines that a test below is about, by their page."""

ELSEWHERE: Final = {
    "that what `step.sql` writes is seen together with the hop's commit": (
        "tests/sql/test_step_sql.py",
        "test_what_sql_has_committed_is_seen_before_the_hop_is_and_stays_when_its_run_fails",
    ),
    "that what waited in SQS comes slowly after an outage": (
        "tests/deploy/test_formats_agree.py",
        "test_what_bounds_a_backlog_is_in_every_format_where_it_is_given",
    ),
    "that the last messages of a run are sent once where a newer request for its object comes": (
        "tests/worker/runtime/test_takeover.py",
        "test_the_last_messages_are_sent_once_until_a_newer_request_repeats_them_under_their_ids",
    ),
    "that a late copy of a request is answered once under `on_conflict=ATTACH`": (
        "tests/worker/runtime/test_callers.py",
        "test_a_copy_that_comes_when_a_later_run_has_ended_is_answered_again_with_that_end",
    ),
    "that a chain is bounded through programs of your own": (
        "tests/worker/test_depth.py",
        "test_a_message_that_a_program_sends_on_without_the_attribute_begins_a_chain",
    ),
    "that the children of a cancelled run are cancelled when a newer request takes over first": (
        "tests/worker/runtime/test_cancelled_children.py",
        "test_a_cancelled_run_that_is_superseded_before_it_has_ended_cancels_nobody",
    ),
    "that one worker at a time does the work of a stage with `lease=False`": (
        "tests/worker/runtime/test_unleased.py",
        "test_two_workers_do_the_work_at_once_and_one_commit_wins",
    ),
    "that a failed run is undone when a newer request takes over first": (
        "tests/worker/runtime/test_on_failed.py",
        "test_a_newer_request_that_takes_over_first_is_told_what_was_not_undone",
    ),
    "that a late worker of another release, or a handler whose attempts wait for very different times, "
    "leaves the rows of a wait alone": (
        "tests/worker/test_lifetimes.py",
        "test_a_late_worker_that_writes_the_rows_of_a_wait_again_keeps_no_answer_from_its_run",
    ),
    "that answers of several parties under one id are all kept before their wait": (
        "tests/worker/test_early_answers.py",
        "test_of_two_parties_the_newer_takes_the_place_of_the_other_under_one_id",
    ),
    "what an answer says, by a signature": (
        "tests/worker/test_insider.py",
        "test_a_signature_covers_whom_an_answer_is_for_and_not_what_it_says",
    ),
    "that a key of `@once` is free soon after the death of a worker whose clock was fast": (
        "tests/aws/test_ledger.py",
        "test_a_dead_worker_whose_clock_is_fast_has_its_key_for_no_longer_than_any_lease",
    ),
    "alarms for a function under `@once` that a handler of your own calls": (
        "tests/deploy/test_derive_once.py",
        "test_a_function_that_others_call_has_its_table_and_a_note_on_what_its_caller_needs",
    ),
    "that a failed run is undone where its item is nearly full": (
        "tests/worker/runtime/test_on_failed.py",
        "test_where_even_its_message_has_no_room_the_run_ends_failed_and_says_so",
    ),
}
"""Lines that a test of another module is about."""

F = TypeVar("F", bound=Callable[..., None])


def of(page: str, line: str) -> Callable[[F], F]:
    """Note that a test falls into the hole which that line of the page names."""
    SHOWN.setdefault(page, set()).add(line)
    return lambda test: test


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def add(at: Scene, name: str) -> None:
    """Write by a call of one's own, as any program may."""
    at.aws.client("dynamodb").update_item(
        TableName="orders",
        Key={"id": {"S": name}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


def count(at: Scene, name: str) -> int:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": name}})
    return int(found["Item"]["n"]["N"]) if "Item" in found else 0


def stored(at: Scene) -> Any:
    """Return the run item as it is stored."""
    [found] = [row for row in at.aws.client("dynamodb").scan(TableName="flowguard")["Items"] if row["sk"]["S"] == "run"]
    return found


def ids(sent: list[Any]) -> list[str]:
    return [one["MessageAttributes"]["uniquerequestid"]["StringValue"] for one in sent]


def killed(at: Scene, message: Any = None, operation: str = "TransactWriteItems", *, after: bool = False) -> None:
    """A worker dies at a call, and its lease ends."""
    with intercept(dies_at(operation, after=after)), pytest.raises(Died):
        at.deliver(message or at.message())
    at.clock.advance(seconds=31)


# -- a flow -----------------------------------------------------------------------------------------------------------


@of(GUARANTEES, "that a handler runs once")
def test_a_handler_runs_again_when_its_worker_died_before_the_commit(at: Scene) -> None:
    killed(at)
    at.deliver(at.message())
    assert len(at.script.handled) == 2
    assert at.priced() == 1, "what it recorded is applied once all the same"


@of(GUARANTEES, "the payload of a request whose first stage fails without a lease")
def test_without_a_lease_a_message_with_its_request_id_is_an_attempt_with_a_payload_of_its_own(at: Scene) -> None:
    for stage in at.flow.stages:
        stage.lease = False
    at.script.pricing = boom
    at.deliver(at.message(body='{"order_id":"o1","note":"hers"}', reply_to="sqs:replies"))
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(body='{"order_id":"o1","note":"his"}')) == [True]
    [onward] = at.sent("close-order")
    assert "reply_to" not in json.loads(onward["MessageAttributes"]["flowguard"]["StringValue"])


@of(GUARANTEES, "effects outside AWS, or by calls of your own in a handler")
def test_a_call_of_ones_own_is_made_at_each_attempt(at: Scene) -> None:
    at.script.pricing = lambda step: add(at, "by boto3")
    killed(at)
    at.deliver(at.message())
    assert (count(at, "by boto3"), at.priced()) == (2, 1)


@of(GUARANTEES, "that what `step.once` and `step.apply` have done is undone")
@of(OUTSIDE, "The call is not undone")
@pytest.mark.parametrize("end", [boom, die], ids=["fails", "is taken over"])
def test_what_was_done_before_the_commit_stays_whatever_becomes_of_the_run(
    at: Scene, end: Callable[[Step[OrderState]], None]
) -> None:
    calls: list[str] = []

    def early(step: Step[OrderState]) -> None:
        step.once("charge", lambda: calls.append("charged"))
        with step.apply("announce"):
            step.update("orders", {"id": "early"}, "ADD n :one", values={":one": 1})
        end(step)

    at.script.pricing = early
    try:
        for retry in range(3):
            at.deliver(at.message(retry=retry))
    except Died:
        supersede(at)
    item = at.item()
    assert item is not None
    assert (item.status, item.request_id) in [(Status.FAILED, "run-1"), (Status.RUNNING, "run-2")]
    assert (len(calls), count(at, "early")) == (1, 1)


@of(GUARANTEES, "that a message is sent once")
def test_a_message_whose_worker_died_after_the_send_is_sent_again_under_its_id(at: Scene) -> None:
    killed(at, operation="SendMessageBatch", after=True)
    at.deliver(at.message())
    first, second = ids(at.sent("emails"))
    assert first == second


@of(GUARANTEES, "an order between runs")
def test_of_two_requests_the_older_one_that_comes_later_is_not_carried_out(at: Scene) -> None:
    at.deliver(at.newer())
    assert at.deliver(at.message()) == [True]
    assert [request for _, request, _ in at.script.handled] == ["run-2"]


@of(GUARANTEES, "an order between runs")
def test_of_two_requests_of_one_time_in_a_fifo_group_the_first_is_carried_out(at: Scene) -> None:
    for name in ("m-1", "m-2"):
        event = sqs_event("price-order.fifo", {"order_id": "o1"}, message_id=name, sent_at=START, group="o1")
        at.handler({"Records": event["Records"]})
    assert at.told(EventType.STALE) == 1
    item = at.item()
    assert item is not None
    assert item.request_id == "m-1"


@of(
    GUARANTEES,
    "an order between the side messages of one commit, or that they arrive before the effects of other runs are seen",
)
def test_side_messages_may_come_when_a_newer_run_has_written_already(at: Scene) -> None:
    killed(at, operation="SendMessageBatch")
    seen: list[tuple[int, int]] = []
    at.script.pricing = lambda step: seen.append((len(at.sent("emails")), at.priced()))
    at.deliver(at.newer())
    assert seen == [(1, 1)], "sent by the newer run, long after the older one's effect was there"


@of(GUARANTEES, "that clocks do not matter")
def test_a_fast_clock_lets_two_workers_do_the_same_attempt_and_one_commit_is_fenced(at: Scene) -> None:
    def fast(step: Step[OrderState]) -> None:
        at.script.pricing = lambda step: None
        at.clock.advance(seconds=31)  # another worker's clock, long before the lease is over
        at.deliver(at.message())

    at.script.pricing = fast
    at.deliver(at.message())
    assert (len(at.script.handled), at.told(EventType.FENCED), at.priced()) == (2, 1, 1)


@of(GUARANTEES, "that a repeated request id is recognised for ever")
def test_an_id_that_comes_again_later_than_another_request_is_a_new_request(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.newer())
    at.deliver(at.message(requested_at=START - 100))
    assert [request for _, request, _ in at.script.handled] == ["run-1", "run-2", "run-1"]


@of(GUARANTEES, "anything after the retention")
@pytest.mark.parametrize(("moved", "priced"), [(False, 1), (True, 2)])
def test_a_plain_request_that_sqs_moves_back_under_a_new_id_and_time_is_a_new_request(
    at: Scene, moved: bool, priced: int
) -> None:
    """Its worker died after the commit. The page about dead letters says so of the console's redrive."""
    plain = sqs_event("price-order", {"order_id": "o1"}, message_id="m-1", sent_at=START)
    at.handler(plain)
    at.clock.advance(seconds=60)
    at.handler(
        sqs_event("price-order", {"order_id": "o1"}, message_id="m-2", sent_at=at.clock.now()) if moved else plain
    )
    assert at.priced() == priced


def test_a_copy_that_outlives_the_run_item_is_a_new_request_and_a_later_hop_is_gone(at: Scene) -> None:
    at.deliver(at.message())
    item = stored(at)
    at.aws.client("dynamodb").delete_item(TableName="flowguard", Key={"pk": item["pk"], "sk": item["sk"]})
    at.deliver(at.second())
    assert at.told(EventType.GONE) == 1
    at.deliver(at.message())
    assert at.priced() == 2


@of(GUARANTEES, "other regions and accounts")
def test_a_second_region_knows_nothing_of_what_the_first_has_done() -> None:
    effects = 0
    for _ in ("eu-west-1", "eu-central-1"):
        with scene() as region:
            region.deliver(region.message())
            effects += region.priced()
    assert effects == 2, "of one request"


@of(GUARANTEES, "restores")
def test_a_table_that_is_restored_does_not_know_what_was_done_since(at: Scene) -> None:
    killed(at)
    backup = stored(at)
    at.deliver(at.message())
    at.aws.client("dynamodb").put_item(TableName="flowguard", Item=backup)
    at.deliver(at.message())
    assert at.priced() == 2


@of(GUARANTEES, "that a run item edited by hand is right")
def test_an_edited_run_item_is_believed(at: Scene) -> None:
    at.deliver(at.message())
    at.aws.client("dynamodb").put_item(TableName="flowguard", Item={**stored(at), "done": {"BOOL": False}})
    at.clock.advance(seconds=31)
    at.deliver(at.message())
    assert at.priced() == 2


@of(GUARANTEES, "that a record outlives an outage of more than 4 days in a flow with a FIFO queue")
def test_a_fifo_queue_deletes_without_a_word_what_nobody_took_for_four_days() -> None:
    kept_for = Retentions.of(timedelta(days=14), fifo=True, handled=True)
    assert timedelta(seconds=kept_for.inbox) == timedelta(days=4)
    assert Retentions.of(timedelta(days=42), fifo=True, handled=True).inbox == timedelta(days=12).total_seconds()
    clock = ManualClock(START)
    with MemoryAWS(clock) as aws:
        url = aws.create_queue("orders.fifo", FifoQueue="true", MessageRetentionPeriod=str(kept_for.inbox))
        sqs = aws.client("sqs")
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="o1", MessageDeduplicationId="1")
        clock.advance(seconds=kept_for.inbox + 1)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)


@of(GUARANTEES, "messages near the limits")
def test_a_run_whose_retry_has_no_room_beside_its_message_fails_at_its_first_attempt(at: Scene) -> None:
    at.script.pricing = boom
    assert at.deliver(filled(at.message())) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, len(at.sent("dead")), at.told(EventType.RETRIED)) == (Status.FAILED, 1, 0)


@of(GUARANTEES, "that an outage is told from a killed function in the very moment of a claim")
def test_a_worker_that_can_write_nothing_after_its_claim_counts_as_killed(at: Scene) -> None:
    def after_the_claim(call: ApiCall, proceed: Proceed) -> Response:
        claims = "if_not_exists" in str(call.params.get("UpdateExpression", ""))
        if call.service == "dynamodb" and not claims:
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return proceed()

    with intercept(after_the_claim):
        assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=31)
    at.deliver(at.message())
    [_, claimed] = [event for event in at.tally.events if event.type is EventType.CLAIMED]
    assert claimed.facts["kills"] == 1


@of(GUARANTEES, "a message for a flow that the function does not know")
def test_a_message_of_another_flow_stays_in_its_queue(at: Scene) -> None:
    assert at.deliver(at.message(flow="returns")) == [False]
    assert at.told(EventType.UNROUTABLE) == 1


@of(GUARANTEES, "who sent a message, without signatures")
def test_who_may_send_and_knows_a_run_takes_part_in_it(at: Scene) -> None:
    at.deliver(at.message())
    forged = record(at.second(body='{"total":1}'))
    assert at.handler({"Records": [forged]}) == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.status, item.hop) == (Status.COMPLETED, 2)


@of(GUARANTEES, "confidentiality of payloads at rest")
def test_a_payload_lies_in_the_outbox_as_it_is(at: Scene) -> None:
    killed(at, operation="SendMessageBatch")
    assert b"priced" in zlib.decompress(stored(at)["outbox"]["B"]), "packed, and not encrypted"


# -- your own tables --------------------------------------------------------------------------------------------------


@of(TABLES, "Programs outside the flow")
def test_what_another_program_puts_without_a_condition_stands(at: Scene) -> None:
    at.deliver(at.message())
    at.aws.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": "o1"}, "priced": {"N": "0"}})
    assert at.priced() == 0


@of(GUARANTEES, "that an item stays as a `condition` or `step.check` found it")
def test_what_was_checked_may_change_a_moment_after_the_commit(at: Scene) -> None:
    add(at, "open")
    at.script.pricing = lambda step: step.check("orders", {"id": "open"}, "n = :one", values={":one": 1})
    at.deliver(at.message())
    add(at, "open")
    assert (count(at, "open"), at.priced()) == (2, 1)


@of(GUARANTEES, "that the function of `step.modify` is called once")
def test_a_change_is_made_again_where_another_writer_was_quicker(at: Scene) -> None:
    made: list[int] = []

    def change(item: dict[str, Any] | None) -> dict[str, Any]:
        made.append(1)
        return {"n": int((item or {}).get("n", 0)) + 1}

    def pricing(step: Step[OrderState]) -> None:
        step.modify("orders", {"id": "counted"}, change)
        if len(made) == 1:
            add(at, "counted")

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (len(made), count(at, "counted")) == (2, 2)


@of(GUARANTEES, "that `step.newest_wins` knows an item that is gone")
def test_an_older_event_brings_back_an_item_whose_tombstone_is_gone(at: Scene) -> None:
    def writes(seconds: int, *, deleted: bool = False) -> None:
        moment = datetime.fromtimestamp(seconds, UTC)
        at.script.pricing = lambda step: step.newest_wins(
            "orders", {"id": "tea", "n": seconds}, "id", at=moment, deleted=deleted
        )
        at.deliver(at.order(f"o{seconds}"))

    writes(30, deleted=True)
    at.aws.client("dynamodb").delete_item(TableName="orders", Key={"id": {"S": "tea"}})
    writes(20)
    assert count(at, "tea") == 20


@of(GUARANTEES, "that a write under `step.fence()` belongs to the commit")
@of(TABLES, "Other accounts and regions.")
def test_a_write_under_an_item_fence_stays_though_the_attempt_fails(at: Scene) -> None:
    def to_another_account(step: Step[OrderState]) -> None:
        add(at, "theirs")
        assert step.fence().condition
        boom(step)

    at.script.pricing = to_another_account
    at.deliver(at.message())
    at.deliver(at.message(retry=1))
    assert (count(at, "theirs"), at.priced()) == (2, 0)


@of(TABLES, "More than 99 writes")
def test_a_hundredth_write_is_refused(at: Scene) -> None:
    refused: list[str] = []

    def many(step: Step[OrderState]) -> None:
        try:
            for number in range(100):
                step.put("orders", {"id": f"x{number}"})
        except TooManyWrites as error:
            refused.append(str(error))
            raise

    at.script.pricing = many
    at.deliver(at.message())
    assert "99" in refused[0]
    assert count(at, "x0") == 0


@of(TABLES, "Two writes to one item")
def test_a_second_write_to_one_item_is_refused(at: Scene) -> None:
    at.script.pricing = lambda step: step.put("orders", {"id": "o1"})  # the stage updates it too
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert "{'id': 'o1'} in the table 'orders' are two writes to one item" in str(item.error)


# -- effects outside AWS ----------------------------------------------------------------------------------------------


@of(OUTSIDE, "A process may die after the call and before its result is written.")
def test_a_call_whose_result_was_not_written_is_made_again_under_the_same_key(at: Scene) -> None:
    keys: list[str] = []

    def charge(step: Step[OrderState]) -> None:
        step.once("charge", lambda: keys.append(step.key("charge")))

    def dies(call: Any, proceed: Any) -> Any:
        if "memo" in call.params.get("UpdateExpression", ""):
            raise Died
        return proceed()

    at.script.pricing = charge
    with intercept(dies), pytest.raises(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=31)
    at.deliver(at.message())
    assert (len(keys), len(set(keys))) == (2, 1)


# -- without a flow ---------------------------------------------------------------------------------------------------


def guarded(at: Scene, calls: list[str], function: Callable[[], None] = lambda: None) -> tuple[Any, ManualClock]:
    """Return a function under ``@once`` that notes its calls, and its clock."""
    clock = ManualClock(START)
    at.aws.create_table("keys")
    ledger = ledger_of(Settings(), Clients(), KeyTable("keys", "pk", "sk", "ttl"))

    @once("charge", key="id", lease=timedelta(seconds=30))
    def charge(order: dict[str, str]) -> str:
        calls.append(order["id"])
        function()
        return f"call {len(calls)}"

    return charge.using(OnceServices(ledger, clock)), clock


@of(GUARANTEES, "that a function under `@once` is called once")
@of(ONCE, "it dies after its effect, before its result is stored")
def test_a_function_that_dies_after_its_effect_is_called_again(at: Scene) -> None:
    calls: list[str] = []

    def dies_once() -> None:
        if len(calls) == 1:
            raise Died

    charge, clock = guarded(at, calls, dies_once)
    with pytest.raises(Died):
        charge({"id": "o1"})
    clock.advance(seconds=31)
    assert (charge({"id": "o1"}), len(calls)) == ("call 2", 2)


@of(ONCE, "A call that lasts longer than its lease")
def test_a_call_that_lasts_longer_than_its_lease_runs_beside_another(at: Scene) -> None:
    calls: list[str] = []
    results: list[str] = []

    def slow() -> None:
        if len(calls) == 1:
            clock.advance(seconds=31)
            results.append(charge({"id": "o1"}))

    charge, clock = guarded(at, calls, slow)
    results.append(charge({"id": "o1"}))
    assert (len(calls), results) == (2, ["call 2", "call 2"])


@of(ONCE, "DynamoDB does not take the result: `ResultUnsaved`")
def test_a_result_that_was_not_stored_lets_the_function_be_called_again(at: Scene) -> None:
    calls: list[str] = []
    charge, clock = guarded(at, calls)

    def refuses(call: Any, proceed: Any) -> Any:
        if call.operation == "UpdateItem" and calls:
            raise ConnectionError("no answer")
        return proceed()

    with intercept(refuses), pytest.raises(ResultUnsaved):
        charge({"id": "o1"})
    clock.advance(seconds=31)
    charge({"id": "o1"})
    assert len(calls) == 2


@of(ONCE, "Two functions of one name share their keys")
@of(ONCE, "Whoever chooses the key gets the result that is stored for it")
def test_who_chooses_a_key_gets_the_result_that_another_caller_stored(at: Scene) -> None:
    calls: list[str] = []
    charge, _ = guarded(at, calls)
    charge({"id": "o1", "tenant": "ada"})

    @once("charge", key="id")
    def refund(order: dict[str, str]) -> str:
        return "refunded"

    refund = refund.using(charge._guarded.services)
    assert refund({"id": "o1", "tenant": "mallory"}) == "call 1"


# -- every hole that is named -----------------------------------------------------------------------------------------


def section(page: str, title: str) -> str:
    text = (DOCS / page).read_text()
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named(page: str) -> set[str]:
    """The holes that a page names: the first cells of its table, or what its section has in bold."""
    match page:
        case "explain/guarantees.md":
            rows = [line.split("|")[1].strip() for line in section(page, "What is not").splitlines() if line[:1] == "|"]
            return set(rows[2:])
        case "guides/writing-your-own-tables.md":
            return set(re.findall(r"^- \*\*(.*?)\*\*", section(page, "What is not covered"), re.MULTILINE))
        case "guides/side-effects-outside-aws.md":
            return set(re.findall(r"^\*\*(.*?)\*\*", section(page, "What does not hold"), re.MULTILINE))
        case _:
            return SHOWN[page]


@pytest.mark.parametrize("page", [GUARANTEES, TABLES, OUTSIDE, ONCE])
def test_each_hole_that_a_page_names_is_shown(page: str) -> None:
    assert named(page) - ELSEWHERE.keys() == SHOWN[page]
    assert all(line in (DOCS / page).read_text() for line in SHOWN[page])
    assert f"tests/worker/{Path(__file__).name}" in (DOCS / page).read_text()


@pytest.mark.parametrize(("file", "test"), ELSEWHERE.values())
def test_what_is_shown_elsewhere_is_there(file: str, test: str) -> None:
    assert f"\ndef {test}(" in (DOCS.parent / file).read_text()

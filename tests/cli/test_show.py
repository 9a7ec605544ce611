"""``flowguard show``: where the run of an object stands, played from its first message to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from flowguard.aws.history_rows import FullHistory, read_rows
from flowguard.aws.run_reader import RunReader
from flowguard.aws.services import aws_store
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.clock import Clock, ManualClock
from flowguard.destinations import Topic
from flowguard.errors import Reject, Retry
from flowguard.events import EventType
from flowguard.failed import Failure
from flowguard.flow import UNTIL_RESET, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.operate.history_facts import history_facts
from flowguard.operate.no_run import no_run
from flowguard.operate.run_facts import standing
from flowguard.outcome import AwaitedToken, Done, Outcome
from flowguard.protocol.run import RunItem
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_KEYS
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.message import ErrorNote
from flowguard.wire.token_form import without_tokens
from flowguard.wire.tokens import token_row_id
from tests.aws.engines import same_clients
from tests.cli.test_hostile_text import CONTROL, OBJECT
from tests.scene import START, OrderState, Scene, Script, orders, record, scene, told_orders, two_stages
from tests.waits import START as WAITS_START
from tests.waits import AnyOf, Progress, WaitScene, asks, wait_scene

SENT = "sent or, where that is refused, among the dead letters; unless the worker died after its commit"

REFUSED_OR_ELSEWHERE = (
    "there is no run; is it the right table and region? Or a request that was refused, such as for its payload, has "
    "none, and is a dead letter ('flowguard dlq list {}')"
)

TOKEN = f"k1.{'A' * 84}"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def run(*arguments: str, clock: Clock, code: int = 0, width: int | None = None) -> Result:
    """Run the command at the time of the test, and check its exit code and that it controls no terminal."""
    result = CliRunner().invoke(main, ["show", *arguments], obj=CommandTime(clock), terminal_width=width)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def lines(at: Scene, *options: str) -> list[str]:
    return run("orders", "o1", *options, clock=at.clock).stdout.splitlines()


def facts(at: Scene | WaitScene, flow: str = "orders", object_id: str = "o1", *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(flow, object_id, "--json", *options, clock=at.clock).stdout)
    return found


def break_down(step: Step[OrderState]) -> None:
    raise RuntimeError("no tariff")


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


def in_a_quarter(step: Step[OrderState]) -> None:
    raise Retry("the bank is closed", after=timedelta(minutes=15))


def test_a_run_in_back_off_says_why_and_when_it_goes_on(at: Scene) -> None:
    at.script.pricing = in_a_quarter
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "UpdateItem"], "the claim and the note"
    shown = lines(at)
    assert shown[1] == (
        "now         attempt 1 has failed (Retry), which is tried again: attempt 2 comes at 2027-01-15T08:15:00.000Z "
        "(in 15 min), by itself"
    )
    assert "last error  2027-01-15T08:00:00.000Z: Retry: the bank is closed" in shown
    assert facts(at)["back_off"] == {
        "error": "Retry: the bank is closed",
        "at": "2027-01-15T08:00:00.000Z",
        "next_attempt_at": "2027-01-15T08:15:00.000Z",
    }
    assert facts(at)["retry_refused"] == (
        "it goes on by itself: attempt 2 comes at 2027-01-15T08:15:00.000Z (in 15 min)"
    )
    at.clock.advance(seconds=1_000)
    late = facts(at)
    assert "does a function read its queue" in late["now"]
    assert (late["retry_refused"], late["look"]) == (None, None), "its message may lie parked soon"
    at.script.pricing = lambda step: None
    at.deliver(at.message().again(ErrorNote("Retry", "the bank is closed", START)))
    assert facts(at)["back_off"] is None


@pytest.mark.parametrize(
    ("pricing", "expected_at"),
    [(lambda step: None, 0), (break_down, 90), (in_a_quarter, 900)],
    ids=["committed", "no worker has it", "rests"],
)
def test_what_has_not_come_for_minutes_may_be_parked(at: Scene, pricing: Any, expected_at: int) -> None:
    at.script.pricing = pricing
    at.deliver(at.message())
    at.clock.advance(seconds=expected_at + 179)
    assert (facts(at)["look"], any(row.startswith("look") for row in lines(at))) == (None, False)
    at.clock.advance(seconds=1)
    assert facts(at)["look"] == "flowguard dlq list orders-dead-letters --request-id run-1"
    assert facts(at, "tests.scene:Orders")["look"] == "flowguard dlq list dead --request-id run-1"
    [look] = [row for row in lines(at) if row.startswith("look")]
    assert look.endswith(
        " 'flowguard dlq list orders-dead-letters --request-id run-1' shows its message if that is parked"
    )


def test_a_wait_may_be_parked_once_its_deadline_is_over(waiting: WaitScene) -> None:
    waiting.begin(for_some)
    waiting.clock.advance(seconds=3 * 86_400 + 179)
    assert facts(waiting, "carts", "c1")["look"] is None
    waiting.clock.advance(seconds=1)
    assert "dlq list" in facts(waiting, "carts", "c1")["look"]


def test_a_run_that_has_ended_has_no_message_that_may_be_parked(at: Scene) -> None:
    at.script.pricing = decline
    at.deliver(at.message())
    at.clock.advance(seconds=3_600)
    assert facts(at)["look"] is None


def test_a_short_rest_is_not_noted_and_a_note_that_fails_harms_nothing(at: Scene) -> None:
    at.script.pricing = break_down
    at.deliver(at.message())
    assert at.calls == ["UpdateItem"]

    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb" and "back_off" in call.params["UpdateExpression"].partition(" REMOVE ")[0]:
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, call.operation)
        return proceed()

    at.script.pricing = in_a_quarter
    with intercept(deny):
        assert at.deliver(at.order("o2")) == [True]
    assert facts(at, "orders", "o2")["back_off"] is None
    assert at.told(EventType.RETRIED) == 2


def test_a_record_that_stays_in_its_queue_says_at_once_why_it_failed_and_when_it_comes_again(at: Scene) -> None:
    at.script.pricing = break_down
    came = record(at.message())
    queue = {"eventSourceARN": came["eventSourceARN"].replace("price-order", "price-order.fifo")}
    at.handler({"Records": [{**came, **queue}]})
    back_off = facts(at)["back_off"]
    assert back_off["error"] == "RuntimeError: no tariff"
    assert back_off["next_attempt_at"] == "2027-01-15T08:00:20.000Z"
    assert facts(at)["now"].startswith("attempt 1 has failed (RuntimeError), which is tried again: attempt 2 comes at")
    assert str(facts(at)["retry_refused"]).startswith("it goes on by itself: attempt 2 comes at")


def test_a_later_attempt_says_that_the_one_before_it_has_failed(at: Scene) -> None:
    at.script.pricing = break_down
    at.deliver(at.message().again(ErrorNote("RuntimeError", "no tariff", START)))
    now = facts(at)["now"]
    assert now.startswith("attempt 1 has failed; a worker has attempt 2 until 2027-01-15T08:00:30.000Z (in 30 s), or ")
    assert "attempt 3 comes by itself" in now


def found_item(at: Scene) -> RunItem:
    item = at.item()
    assert item is not None
    return item


def test_a_failing_order_from_its_first_attempt_to_its_end(at: Scene) -> None:
    at.script.pricing = break_down
    at.deliver(at.message())
    assert lines(at) == [
        "orders of o1: RUNNING at price-order, hop 1, attempt 1",
        "now      a worker has attempt 1 until 2027-01-15T08:00:30.000Z (in 30 s), or it has failed: attempt 2 comes "
        "by itself, at 2027-01-15T08:01:30.000Z (in 2 min) at the latest, and its error is in the log of price-order, "
        "as 'retried'",
        "request  run-1, of 2027-01-15T07:59:59.000Z (1 s ago)",
        "stages   price-order",
        "expires  2027-02-12T08:00:00.000Z (in 28 d)",
    ]
    at.clock.advance(seconds=50)
    assert lines(at)[1] == (
        "now      no worker has it since 2027-01-15T08:00:30.000Z (20 s ago): its message comes again, or attempt 1 "
        "failed: attempt 2 comes by itself, at 2027-01-15T08:01:30.000Z (in 40 s) at the latest, and its error is in "
        "the log of price-order, as 'retried'"
    )
    assert standing(found_item(at), START + 90_001) == (
        "no worker has it since 2027-01-15T08:00:30.000Z (1 min ago); its message comes again, is parked, or was given "
        "up by SQS"
    )
    at.script.pricing = lambda step: at.clock.advance(seconds=1.25)
    at.deliver(at.message().again(ErrorNote("RuntimeError", "no tariff", START + 7)))
    at.clock.advance(seconds=125)
    assert lines(at) == [
        "orders of o1: RUNNING at price-order, hop 1, attempt 2",
        "now        hop 1 is committed; the message of hop 2 is on its way",
        "request    run-1, of 2027-01-15T07:59:59.000Z (2 min ago)",
        "committed  2027-01-15T08:00:51.250Z (2 min ago)",
        "stages     price-order",
        "outbox     side → sqs:emails, next → sqs:close-order: " + SENT,
        "state      11 bytes, shown with --payloads",
        "expires    2027-02-12T08:00:50.000Z (in 28 d)",
        "when                      hop  stage        attempt  epoch  what                           ms",
        "2027-01-15T08:00:00.007Z  1    price-order  1        1      failed, and is tried again       ",
        "2027-01-15T08:00:51.250Z  1    price-order  2        2      committed                   1,250",
    ]
    at.script.closing = decline
    at.deliver(at.second())
    at.clock.advance(seconds=3_600)
    assert lines(at, "--payloads") == [
        "orders of o1: FAILED at close-order, hop 2, attempt 1",
        "now        it has failed for good; its dead letter can be sent back",
        "request    run-1, of 2027-01-15T07:59:59.000Z (1 h ago)",
        "committed  2027-01-15T08:02:56.250Z (1 h ago)",
        "stages     price-order, close-order",
        "error      Reject: the card is declined",
        "outbox     complete → sqs:completed, dead → sqs:dead: " + SENT,
        'state      {"total":7}',
        "expires    2027-02-12T08:02:56.000Z (in 28 d)",
        "when                      hop  stage        attempt  epoch  what                           ms",
        "2027-01-15T08:00:00.007Z  1    price-order  1        1      failed, and is tried again       ",
        "2027-01-15T08:00:51.250Z  1    price-order  2        2      committed                   1,250",
        "2027-01-15T08:02:56.250Z  2    close-order  1        3      failed for good                 0",
    ]
    assert facts(at)["history"][0] == {
        "run": "this",
        "at": "2027-01-15T08:00:00.007Z",
        "stage": "price-order",
        "hop": 1,
        "attempt": 1,
        "redrive": 0,
        "epoch": 1,
        "verdict": "retried",
        "ms": None,
        "error": None,
    }
    at.deliver(at.newer())
    assert lines(at)[-2:] == [
        "2027-01-15T08:02:56.250Z  2    close-order  1        3      an earlier run: failed for good                 0",
        "2027-01-15T09:02:57.500Z  1    price-order  1        4      committed                                   1,250",
    ]


def test_a_run_that_ended_well_has_its_result_only_if_asked_for(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    plain = facts(at)
    assert (plain["status"], plain["now"]) == ("COMPLETED", "it has ended well")
    assert (plain["result_size"], "result" in plain, "state" in plain) == (11, False, False)
    assert '"total"' not in "\n".join(lines(at))
    shown = facts(at, "orders", "o1", "--payloads")
    assert (shown["result"], shown["state"]) == ({"total": 7}, {"total": 7})
    assert json.loads(shown["outbox"]["sends"][0]["payload"])["status"] == "COMPLETED"


def test_a_hop_at_work_shows_the_commit_before_it(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=10)
    at.script.closing = break_down
    at.deliver(at.second())
    assert "committed  hop 1, 2027-01-15T08:00:00.000Z (10 s ago)" in lines(at)


def test_a_newer_run_shows_nothing_of_the_one_before_it(at: Scene) -> None:
    at.deliver(at.message())
    at.script.pricing = break_down
    at.deliver(at.newer())
    found = facts(at, "orders", "o1", "--payloads")
    assert (found["request_id"], found["committed_at"]) == ("run-2", None)
    assert "state" not in found
    assert found["outbox"]["request_id"] == "run-1"
    assert "sqs:close-order of run-1: sent or, where" in "\n".join(lines(at))


def test_a_cancelled_run_says_why_before_and_after_its_end(at: Scene) -> None:
    at.deliver(at.message())
    aws_store(Settings(), same_clients()).cancellations.cancel(
        "orders", ObjectId("o1"), at.clock.now(), "the customer called", at.clock.now()
    )
    assert facts(at)["now"] == "it is cancelled: its next message ends it"
    at.deliver(at.second())
    found = facts(at)
    assert (found["now"], found["status"]) == ("it was cancelled; there is no dead letter of it", "FAILED")
    assert "cancelled  2027-01-15T08:00:00.000Z: the customer called" in lines(at)


# -- flows that keep results and take callers, or undo ----------------------------------------------------------------


def kept(script: Script) -> AnyFlow:
    class KeptOrders(
        Flow,
        name="orders",
        object_id="order_id",
        dead_letters="dead",
        keep_result=timedelta(minutes=10),
        trust_senders=True,
    ):
        stages = two_stages(script)

    return KeptOrders


class KeptByName(Flow, name="orders", object_id="order_id", keep_result=timedelta(minutes=10), trust_senders=True):
    stages = two_stages(Script())


def test_callers_are_shown_and_how_long_a_result_is_good() -> None:
    here = f"{__name__}:KeptByName"
    with scene(kept) as found:
        found.deliver(found.message())
        for number in range(2, 9):
            asks = {"request_id": RequestId(f"run-{number}"), "reply_to": "sqs:completed"}
            found.deliver(found.newer(**asks))
        with intercept(Recorder()) as calls:
            callers = facts(found)["callers"]
        assert [call.operation for call in calls.calls] == ["GetItem"], "no row was noted"
        assert [(one["request_id"], one["reply_to"]) for one in callers][:1] == [("run-2", "sqs:completed")]
        assert len(callers) == 7
        [shown] = [line for line in lines(found) if line.startswith("callers")]
        assert shown.endswith("→ sqs:completed, and 2 more")
        found.deliver(found.second())
        assert facts(found, here)["result_good_until"] == "2027-01-15T08:10:00.001Z"
        assert facts(found)["result_good_until"] is None


class KeptUntilReset(Flow, name="orders", object_id="order_id", keep_result=UNTIL_RESET, trust_senders=True):
    stages = two_stages(Script())


def test_a_result_may_be_good_until_it_is_reset_and_is_not_after_that() -> None:
    here = f"{__name__}:KeptUntilReset"
    with scene(kept) as found:
        found.deliver(found.message())
        found.deliver(found.second())
        assert facts(found, here)["result_good_until"] == "it is reset"
        assert "kept       the result is good for newer requests until it is reset" in (
            run(here, "o1", clock=found.clock).stdout.splitlines()
        )
        reset(found, found.clock.now() + 1)
        assert (facts(found, here)["result_good_until"], facts(found)["reset_at"]) == (None, "2027-01-15T08:00:00.001Z")


def test_a_run_at_work_that_was_reset_says_so() -> None:
    with scene(kept) as found:
        found.deliver(found.message())
        reset(found, found.clock.now())
        assert facts(found)["now"] == "it was reset: its next message begins the work anew"
        assert "reset      2027-01-15T08:00:00.000Z" in lines(found)


def reset(at: Scene, when: int) -> None:
    assert aws_store(Settings(), same_clients()).callers.reset("orders", ObjectId("o1"), "reset-1", when, when)


def test_a_new_run_of_a_kept_result_does_not_show_the_old_one() -> None:
    with scene(kept) as found:
        found.deliver(found.message())
        found.deliver(found.second())
        assert facts(found)["result_size"] == 11
        found.clock.advance(seconds=3_600)
        found.script.pricing = break_down
        found.deliver(found.newer(requested_at=found.clock.now()))
        assert (facts(found)["request_id"], facts(found)["status"]) == ("run-2", "RUNNING")
        assert "result_size" not in facts(found)


def test_callers_in_rows_are_shown_too_and_more_than_a_page_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene(kept) as found:
        found.deliver(found.message())
        for number in range(20):
            found.deliver(found.newer(request_id=RequestId(f"run-{number + 2}"), reply_to="sqs:completed"))
        result = run("orders", "o1", "--json", clock=found.clock)
        assert (len(json.loads(result.stdout)["callers"]), result.stderr) == (20, "")
        for module in ("cli.show", "aws.caller_lists"):
            monkeypatch.setattr(f"flowguard.{module}.ROWS_A_PAGE", 2)
        result = run("orders", "o1", "--json", clock=found.clock)
        assert len(json.loads(result.stdout)["callers"]) == 18
        assert result.stderr == "of the callers in rows, the first 2 are shown\n"


def undoing(script: Script) -> AnyFlow:
    class Undo(Stage[Failure, OrderState], name="undo", inbox="close-order"):
        def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
            return Done()

    class UndoneOrders(
        Flow, name="orders", object_id="order_id", dead_letters="dead", on_failed=Undo, trust_senders=True
    ):
        stages = (*two_stages(script), Undo)

    return UndoneOrders


def test_a_run_that_is_taken_back_says_where_it_failed() -> None:
    with scene(undoing) as at:
        at.script.pricing = decline
        at.deliver(at.message())
        found = facts(at)
        assert found["failed"] == {
            "hop": 1,
            "error": "Reject: the card is declined",
            "at": "2027-01-15T08:00:00.000Z",
            "undone": False,
        }
        assert (
            "failed     hop 1, 2027-01-15T08:00:00.000Z: Reject: the card is declined; it is being taken back"
            in lines(at)
        )


# -- waits ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitScene]:
    monkeypatch.setenv("FLOWGUARD_TOKEN_KEYS", SIMULATED_KEYS)
    with wait_scene() as found:
        yield found


def for_some(step: Step[Progress]) -> Outcome:
    row = token_row_id("carts", "c1", "run-1", WAITS_START, 1, "b")
    within = timedelta(days=3)
    token = AwaitedToken("unused", row)
    return AnyOf.when(quorum=2, a=step.event("paid/c1"), b=token, **asks(step, "c"), within=within, on_timeout="late")


def test_a_wait_is_shown_with_its_names_and_its_deadline(waiting: WaitScene) -> None:
    waiting.begin(for_some)
    shown = run("carts", "c1", clock=waiting.clock).stdout.splitlines()
    assert [line.rstrip() for line in shown] == [
        "carts of c1: WAITING at begin, hop 1, attempt 1",
        "now        it waits until 2027-01-18T08:00:00.000Z (in 3 d)",
        "request    run-1, of 2027-01-15T08:00:00.000Z (0 s ago)",
        "committed  2027-01-15T08:00:00.000Z (0 s ago)",
        "stages     begin",
        "waits      2 more of these answers, then some; at 2027-01-18T08:00:00.000Z without them, late",
        "outbox     side → sqs:mails, deadline → sqs:answers, ask → sqs:asked: " + SENT,
        "state      10 bytes, shown with --payloads",
        "expires    2027-02-15T08:00:00.000Z (in 31 d)",
        "when                      hop  stage  attempt  epoch  what                  ms",
        "2027-01-15T08:00:00.000Z  1    begin  1        1      committed, and waits   0",
        "name  what   answer   under the id",
        "a     event  awaited  paid/c1",
        "b     token  awaited",
        "c     asked  awaited  c#run-1-a109ea838f054834.1",
    ]
    waiting.clock.advance(seconds=300_000)
    assert facts(waiting, "carts", "c1")["now"] == "it waits, and its deadline passed 11 h ago: did that message come?"


def test_answers_are_shown_only_if_asked_for_and_no_token_ever(waiting: WaitScene) -> None:
    waiting.begin(for_some)
    waiting.answer("c", 4711)
    name = {"name": "c", "what": "asked", "answer": "answered", "id": "c#run-1-a109ea838f054834.1"}
    assert facts(waiting, "carts", "c1")["wait"]["names"][2] == name
    assert facts(waiting, "carts", "c1", "--payloads")["wait"]["names"][2] == {**name, "payload": 4711}
    row = token_row_id("carts", "c1", "run-1", WAITS_START, 1, "b")
    assert row not in run("carts", "c1", "--json", "--payloads", clock=waiting.clock).stdout


def test_a_wait_that_is_over_says_where_the_run_goes_on(waiting: WaitScene) -> None:
    waiting.begin(for_some)
    waiting.answer("c")
    waiting.answer("a")
    shown = run("carts", "c1", clock=waiting.clock).stdout
    assert "now        its wait is over (answered); the message of hop 2 is on its way" in shown
    assert "waits      over (answered); the run goes on at some" in shown


# -- tokens in payloads, hostile texts, long texts --------------------------------------------------------------------


def test_a_token_in_a_payload_is_masked(at: Scene) -> None:
    at.script.pricing = lambda step: step.send("emails", {"link": f"https://shop.example/a/{TOKEN}?x=1"})
    at.deliver(at.message())
    shown = run("orders", "o1", "--json", "--payloads", clock=at.clock).stdout
    assert "A" * 84 not in shown
    assert "https://shop.example/a/<token>?x=1" in shown
    assert without_tokens(f"{TOKEN} and {TOKEN}") == "<token> and <token>"


def test_a_token_in_an_error_is_masked(at: Scene) -> None:
    def fail(step: Step[OrderState]) -> None:
        raise Reject(f"{TOKEN} was used")

    at.script.pricing = fail
    at.deliver(at.message())
    assert facts(at)["error"] == "Reject: <token> was used"


def test_a_token_in_an_answer_is_masked(waiting: WaitScene) -> None:
    waiting.begin(for_some)
    waiting.answer("c", TOKEN)
    names = facts(waiting, "carts", "c1", "--payloads")["wait"]["names"]
    assert [one["payload"] for one in names if "payload" in one] == ["<token>"]


def test_hostile_ids_and_errors_are_escaped_and_cut(at: Scene) -> None:
    def fail(step: Step[OrderState]) -> None:
        raise Reject(f"[bold]{OBJECT}" + "x" * 2_000)

    at.script.pricing = fail
    at.deliver(at.order(OBJECT)._replace(body=json.dumps({"order_id": OBJECT})))
    shown = run("orders", OBJECT, clock=at.clock).stdout
    assert "[bold]" in shown
    assert "… (cut, of " in shown
    assert len(shown.splitlines()) == len(lines_of_a_failed_run())
    assert facts(at, "orders", OBJECT)["object_id"] == OBJECT


def lines_of_a_failed_run() -> tuple[str, ...]:
    return ("head", "now", "request", "committed", "stages", "error", "outbox", "expires", "when", "its end")


def test_a_time_that_no_calendar_has_is_a_number(at: Scene) -> None:
    put(at, requested_at={"N": "9" * 38})
    assert facts(at)["requested_at"] == f"{'9' * 38} ms"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_on_a_narrow_terminal_no_word_is_lost(at: Scene, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at.deliver(at.message())
    whole = "\n".join(lines(at)).split()
    monkeypatch.setattr("flowguard.cli.console.WIDE", width)
    narrow = lines(at)
    assert "".join("".join(narrow).split()) == "".join(whole), "a moment is longer than the narrowest line"
    assert max(map(len, narrow[1:])) <= max(width, max(map(len, whole)) + 4)


# -- what cannot be shown ---------------------------------------------------------------------------------------------


def put(at: Scene, **changes: Any) -> None:
    """Change attributes of the run item; None removes one."""
    at.deliver(at.message())
    dynamodb = at.aws.client("dynamodb")
    key: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
    item = dynamodb.get_item(TableName="flowguard", Key=key)["Item"] | changes
    dynamodb.put_item(TableName="flowguard", Item={name: value for name, value in item.items() if value is not None})


def test_an_object_without_a_run_is_said_to_have_none(at: Scene) -> None:
    result = run("orders", "nobody", clock=at.clock, code=1)
    assert (result.stdout, result.stderr) == (
        "",
        f"orders of nobody: {REFUSED_OR_ELSEWHERE.format('QUEUE')}\n",
    )


def test_of_a_flow_whose_class_is_given_the_queue_is_named_where_a_refused_request_lies(at: Scene) -> None:
    result = run("tests.scene:Orders", "nobody", clock=at.clock, code=1)
    assert result.stderr == f"orders of nobody: {REFUSED_OR_ELSEWHERE.format('dead')}\n"


def test_of_dead_letters_that_go_to_no_queue_no_command_is_named() -> None:
    class ToTopic(
        Flow, name="to-topic", object_id="order_id", dead_letters=Topic("arn:aws:sns:eu-west-1:123456789012:dead")
    ):
        stages = two_stages(Script())

    assert no_run(ToTopic).endswith("has none, and is a dead letter")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", ""), "OBJECT: it is empty"),
        (("orders", "x" * 2_000), "OBJECT: it has 2,000 bytes"),
        (("\udc80", "o1"), "FLOW: it "),
        (("nowhere:Orders", "o1"), "there is no module 'nowhere'"),
        (("orders", "o1", "--table", "not-there"), "table not-there: does not exist; name the flows' table with"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments, clock=at.clock, code=2)
    assert result.stdout == ""
    assert said in result.stderr


def test_a_read_that_is_denied_names_the_right(at: Scene) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    with intercept(refuse):
        result = run("orders", "o1", clock=at.clock, code=2)
    assert "table flowguard: GetItem is denied (no); allow it to whoever runs this: GetItem" in result.stderr


@pytest.mark.parametrize("changes", [{"epoch": None}, {"status": {"S": "PAUSED"}}, {"outbox": {"S": "{"}}])
def test_an_item_that_is_no_run_of_this_version_is_named(at: Scene, changes: dict[str, Any]) -> None:
    put(at, **changes)
    result = run("orders", "o1", clock=at.clock, code=2)
    assert "orders of o1: its item is no run that this version can read" in result.stderr


def test_a_text_that_is_gone_from_s3_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWGUARD_BUCKET", "texts")
    with scene(settings=Settings(bucket="texts", offload_above=1_024)) as at:
        at.aws.client("s3").create_bucket(Bucket="texts")
        at.script.pricing = lambda step: step.send("emails", {"n": list(range(2_000))})
        at.deliver(at.message())
        s3 = at.aws.client("s3")
        for one in s3.list_objects_v2(Bucket="texts")["Contents"]:
            s3.delete_object(Bucket="texts", Key=one["Key"])
        found = facts(at, "orders", "o1", "--payloads")
        assert found["status"] == "RUNNING"
        assert found["state"] == {"total": 7}
        assert "is gone" in found["outbox"]["problem"]


def test_without_payloads_nothing_is_read_from_s3_but_the_outbox(at: Scene) -> None:
    at.deliver(at.message())
    with intercept(Recorder()) as calls:
        facts(at)
    assert [call.operation for call in calls.calls] == ["GetItem"]


def test_the_machines_clock_is_the_default(at: Scene) -> None:
    at.deliver(at.message())
    result = CliRunner().invoke(main, ["show", "orders", "o1"])
    assert result.exit_code == 0
    assert CommandTime().clock.now() > ManualClock().now()
    assert orders(Script()).name in result.stdout


# -- a full history


@pytest.fixture
def told() -> Iterator[Scene]:
    """An order that failed twice, was priced at the third attempt, and whose flow has a full history."""
    with scene(told_orders) as found:
        message = found.message()
        found.script.pricing = break_down
        for _ in range(2):
            found.deliver(message)
            message = message.again(ErrorNote("RuntimeError", "no tariff", found.clock.now()))
            found.clock.advance(seconds=20)
        found.script.pricing = lambda step: None
        found.deliver(message)
        yield found


def test_rows_of_a_full_history_are_shown_with_their_errors(told: Scene) -> None:
    assert lines(told)[-4:] == [
        "when                      hop  stage        attempt  epoch  what                                      ms",
        "2027-01-15T08:00:00.000Z  1    price-order  1        1      failed, and is tried again: RuntimeError   0",
        "2027-01-15T08:00:20.000Z  1    price-order  2        2      failed, and is tried again: RuntimeError   0",
        "2027-01-15T08:00:40.000Z  1    price-order  3        3      committed                                  0",
    ]
    found = facts(told)
    assert [one["error"] for one in found["history"]] == ["RuntimeError", "RuntimeError", None]
    assert found["history_goes_on"] is False


def test_only_the_newest_rows_are_shown_and_more_on_request(told: Scene) -> None:
    result = run("orders", "o1", "--history", "2", "--json", clock=told.clock)
    found = json.loads(result.stdout)
    assert [one["attempt"] for one in found["history"]] == [2, 3]
    assert found["history_goes_on"] is True
    assert "of the history, the newest 2 rows are shown; --history has more" in result.stderr


def test_what_only_the_item_tells_is_shown_with_the_rows_but_not_before_rows_that_are_left_out(told: Scene) -> None:
    told.deliver(told.second())
    seen = RunReader.of(Settings(), same_clients()).read("orders", "o1")
    assert seen is not None
    rows = read_rows(told.aws.client("dynamodb"), "flowguard", "orders", "o1")

    def epochs(full: FullHistory) -> list[int]:
        return [one["epoch"] for one in history_facts(seen.item, full)]

    assert epochs(rows) == [1, 2, 3, 4]
    assert epochs(FullHistory(rows.told[3:])) == [2, 3, 4], "the rows were begun late"
    assert epochs(FullHistory(rows.told[:3])) == [1, 2, 3, 4], "they were ended early"
    assert epochs(FullHistory(rows.told[3:], True)) == [4], "there are rows of what is before"
    assert epochs(FullHistory()) == [2, 3, 4]


def test_a_run_without_rows_is_read_by_one_call(at: Scene) -> None:
    at.deliver(at.message())
    with intercept(Recorder()) as calls:
        lines(at)
    assert [call.operation for call in calls.calls] == ["GetItem"]

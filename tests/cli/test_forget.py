"""``flowguard forget``: what it says, what it removes, and what the other commands say afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.cli.out_of_reach import out_of_reach_of
from flowguard.clock import no_pause
from flowguard.errors import Reject
from flowguard.flow import Flow
from flowguard.operate.forget_object import OUT_OF_REACH
from flowguard.operate.moments import iso
from flowguard.outcome import Done, Outcome
from flowguard.protocol.forgotten import is_forgotten
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from tests.aws.test_batch_writes import Unprocessed
from tests.cli.test_cancel import for_a_day
from tests.cli.test_hostile_text import CONTROL, OBJECT
from tests.scene import Orders, OrderState, Scene, scene, told_orders
from tests.waits import WaitScene, wait_scene

ORDERS = "tests.scene:Orders"
NOW = "it is forgotten: what it had left was removed"


def run(at: Scene | WaitScene, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, obj=CommandTime(at.clock, no_pause))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def forget(at: Scene, *options: str, flow: str = ORDERS, object_id: str = "o1", code: int = 0) -> Result:
    return run(at, "forget", flow, object_id, "--wait", "0", *options, code=code)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def memory(at: Scene) -> MemoryAWS:
    assert isinstance(at.aws, MemoryAWS)
    return at.aws


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card of MARKERWORD is declined")


SENT = "messages and questions that stages of orders have sent to sqs:emails"
*_, UNNAMED = out_of_reach_of(Orders)
FENCE = (
    "its fence in a database of step.sql, if a stage has one: "
    "UPDATE flowguard_fence SET results = '{}' WHERE flow = 'orders' AND object_id = 'o1'"
)


def failed(at: Scene) -> None:
    """A run that has failed half an hour ago, with its dead letter."""
    at.script.pricing = decline
    at.deliver(at.message())
    at.clock.advance(seconds=31 * 60)


def ended(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    at.clock.advance(seconds=31 * 60)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("out of reach")]


def test_without_yes_it_says_what_there_is_and_changes_nothing(at: Scene) -> None:
    failed(at)
    before = memory(at).items("flowguard"), len(memory(at).messages("dead"))
    said = forget(at).stdout
    assert lines(said) == [
        "FOUND      orders of o1: the run of request run-1, of 2027-01-15T07:59:59.000Z (31 min ago), is FAILED",
        "       1  run item",
        "       1  dead letters",
        "       0  bucket, left: FLOWGUARD_BUCKET is not set, so no texts were looked for but those that items name",
        "messages under way may come until 2027-02-12T08:00:00.000Z (in 28 d); the run's are dropped",
    ]
    assert [line.removeprefix("out of reach: ") for line in said.splitlines()[5:]] == [
        *OUT_OF_REACH,
        SENT,
        UNNAMED,
        FENCE,
    ]
    assert (memory(at).items("flowguard"), len(memory(at).messages("dead"))) == before


def test_with_yes_it_is_gone_and_made_again_there_is_nothing_to_do(at: Scene) -> None:
    failed(at)
    assert lines(forget(at, "--yes").stdout)[0].startswith("FORGOTTEN  orders of o1: the run of request run-1")
    item = at.item()
    assert item is not None
    assert is_forgotten(item)
    assert at.sent("dead") == []
    assert "MARKERWORD" not in str(memory(at).items("flowguard"))
    assert lines(forget(at, "--yes").stdout)[:1] == [f"FORGOTTEN  orders of o1: request run-1: {NOW}"]


def test_the_report_as_json(at: Scene) -> None:
    failed(at)
    facts = json.loads(forget(at, "--yes", "--json").stdout)
    assert facts["found"] == {"run item": 1, "dead letters": 1}
    assert (facts["flow"], facts["object_id"], facts["removed"], facts["problem"]) == ("orders", "o1", True, None)
    assert (facts["children"], facts["out_of_reach"]) == ([], [*OUT_OF_REACH, SENT, UNNAMED, FENCE])
    assert facts["late_until"] == "2027-02-12T08:00:00.000Z"
    assert [left["what"] for left in facts["left"]] == ["bucket"]


def test_messages_come_for_twice_the_retention_after_the_last_that_a_run_may_have_sent(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=3 * 3600)
    going, now = json.loads(forget(at, "--json").stdout), at.clock.now()
    assert going["late_until"] == iso(now + 28 * 86_400_000)
    at.deliver(at.second())
    ended = at.clock.now()
    at.clock.advance(seconds=27 * 86_400)
    assert json.loads(forget(at, "--yes", "--json").stdout)["late_until"] == iso(ended + 28 * 86_400_000)
    assert json.loads(forget(at, "--json").stdout)["late_until"] == iso(ended + 28 * 86_400_000), "it is a trace now"
    at.clock.advance(seconds=86_400)
    assert json.loads(forget(at, "--json").stdout)["late_until"] is None
    assert "messages under way may come" not in forget(at).stdout
    assert json.loads(forget(at, "--json", object_id="nobody").stdout)["late_until"] is None


def test_of_an_object_that_nothing_is_known_of_nothing_is_removed(at: Scene) -> None:
    told = "NOTHING    orders of nobody: there is no run; is it the right id, table and region?"
    assert lines(forget(at, object_id="nobody").stdout)[0] == told
    assert lines(forget(at, "--yes", object_id="nobody").stdout)[0] == told
    facts = json.loads(forget(at, "--yes", "--json", object_id="nobody").stdout)
    assert (facts["now"], facts["removed"], facts["found"]) == ("there is no run", False, {})


def test_what_is_left_of_an_object_without_a_run_is_removed(at: Scene) -> None:
    failed(at)
    for item in memory(at).items("flowguard"):
        at.aws.client("dynamodb").delete_item(TableName="flowguard", Key={key: item[key] for key in ("pk", "sk")})
    facts = json.loads(forget(at, "--yes", "--json").stdout)
    assert (facts["now"], facts["removed"], facts["found"]) == ("there is no run", True, {"dead letters": 1})


def test_while_another_reader_holds_its_letter_it_is_not_said_to_be_gone(at: Scene) -> None:
    failed(at)
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    [held] = sqs.receive_message(QueueUrl=url)["Messages"]
    said = lines(forget(at, "--yes", code=1).stdout)
    assert said[0].startswith("NOT ALL    orders of o1")
    assert (
        "       1  unseen dead letters, left: letters that were hidden when this began, as those that another"
        in said[-2]
    )
    facts = json.loads(forget(at, "--yes", "--json", code=1).stdout)
    assert (facts["removed"], [left["what"] for left in facts["left"]]) == (False, ["bucket", "unseen dead letters"])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0)
    facts = json.loads(forget(at, "--yes", "--json").stdout)
    assert (facts["removed"], facts["found"]) == (True, {"dead letters": 1})
    assert at.sent("dead") == []


class Part(BaseModel):
    part_id: str


class Whole(BaseModel):
    order_id: str


class Fit(Stage[Part], name="fit"):
    def handle(self, part: Part, step: Step) -> Outcome:
        raise Reject("it does not fit")


class Parts(Flow, name="parts", object_id="part_id", dead_letters="fits-dead"):
    stages = (Fit,)


class Build(Stage[Whole], name="build", then="built"):
    def handle(self, whole: Whole, step: Step) -> Outcome:
        asked: dict[str, Any] = {name: step.ask(Parts, Part(part_id=name)) for name in ("p1", "p2", "p3")}
        return Built.when_all(**asked, within=timedelta(hours=1))


class Built(Stage[dict[str, Any]], name="built"):
    def handle(self, parts: dict[str, Any], step: Step) -> Outcome:
        raise Reject("some part does not fit")


class Wholes(Flow, name="wholes", object_id="order_id", answers="wholes-answers", dead_letters="fits-dead"):
    stages = (Build, Built)


class Lagging:
    """SQS's numbers of a queue, as they were when they were first asked for, and letters that are held among them."""

    def __init__(self) -> None:
        self.first: Any = None
        self.asked = 0

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation != "GetQueueAttributes":
            return answer
        self.first = self.first or answer["Attributes"]
        self.asked += 1
        held = {"ApproximateNumberOfMessagesNotVisible": "4"} if self.asked > 1 else {}
        return {**answer, "Attributes": {**self.first, **held}}


def test_children_whose_letters_lie_in_one_queue_are_not_doubted_for_numbers_of_a_minute_ago() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(Wholes, Parts)
        runner.send(Wholes, Whole(order_id="o1"))
        runner.send(Parts, Part(part_id="another"))
        runner.run()
        clock.advance(hours=2)
        assert len(aws.messages("fits-dead")) == 5
        arguments = ("forget", f"{__name__}:Wholes", "o1", "--children", f"{__name__}:Parts", "--wait", "0", "--yes")
        with intercept(Lagging()):
            result = CliRunner().invoke(main, arguments, obj=CommandTime(clock, no_pause))
        assert (result.exit_code, "unseen" in result.stdout) == (0, False), result.output
        assert result.stdout.count("FORGOTTEN") == 4
        assert len(aws.messages("fits-dead")) == 1


def test_what_the_other_commands_say_of_a_forgotten_run(at: Scene) -> None:
    failed(at)
    [letter] = at.sent("dead")
    forget(at, "--yes")
    shown = json.loads(run(at, "show", ORDERS, "o1", "--json").stdout)
    assert (shown["now"], shown["redrive"], shown["error"]) == (NOW, 0, "Forgotten: what the run had left was removed")
    assert (shown["retry_refused"], shown["again_refused"].partition(";")[0]) == (NOW, NOW)
    assert f"nothing was sent back: {NOW}" in run(at, "retry", ORDERS, "o1", code=1).stderr
    assert NOW in run(at, "retry", ORDERS, "o1", "--again", code=1).stderr
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=letter["Body"], MessageAttributes=letter["MessageAttributes"])
    said = run(at, "dlq", "redrive", "dead", "--all", "--yes", "--wait", "0").stdout
    assert "SUPERSEDED" in said
    assert NOW in " ".join(said.split())


def test_a_dead_letter_that_comes_late_runs_nothing(at: Scene) -> None:
    failed(at)
    forget(at, "--yes")
    handled = list(at.script.handled)
    assert at.deliver(at.message(redrive=1), at.message(), at.message(retry=2)) == [True, True, True]
    assert at.script.handled == handled
    assert at.sent("dead") == []


def test_a_run_that_goes_on_is_refused(at: Scene) -> None:
    at.deliver(at.message())
    said = forget(at, "--yes", code=1)
    assert said.stdout == ""
    assert said.stderr == (
        "orders of o1: the run of orders was not forgotten: it is RUNNING at price-order; cancel it first (--cancel), "
        "and repeat this at its end\n"
    )
    item = at.item()
    assert item is not None
    assert item.cancelled_because is None


def test_a_run_that_goes_on_is_cancelled_and_forgotten_at_its_end(at: Scene) -> None:
    at.deliver(at.message())
    said = forget(at, "--yes", "--cancel", code=1)
    assert said.stdout == ""
    [line] = said.stderr.splitlines()
    assert line.startswith("CANCELLED  orders of o1: it is cancelled: if a worker had it")
    assert line.endswith("; repeat this half an hour after its end")
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert (item.status, item.error) == (Status.FAILED, "Cancelled: its object is to be forgotten")
    at.clock.advance(seconds=31 * 60)
    forget(at, "--yes", "--cancel")
    trace = at.item()
    assert trace is not None
    assert is_forgotten(trace)


def test_a_run_that_ended_just_now_is_not_cancelled(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    [line] = forget(at, "--yes", "--cancel", code=1).stderr.splitlines()
    assert line.startswith("orders of o1: the run of orders was not forgotten: it may not have sent its end yet;")
    assert "cancel" not in line
    facts = json.loads(forget(at, "--yes", "--cancel", "--json", code=1).stdout)
    assert (facts["removed"], facts["cancelled"]) == (False, False)


def test_a_refusal_is_an_object_of_json_too(at: Scene) -> None:
    at.deliver(at.message())
    said = forget(at, "--yes", "--json", code=1)
    assert said.stderr == ""
    why = "the run of orders was not forgotten: it is RUNNING at price-order; cancel it first (--cancel), and repeat "
    assert json.loads(said.stdout) == {
        "flow": "orders",
        "object_id": "o1",
        "removed": False,
        "problem": f"{why}this at its end",
        "cancelled": False,
    }
    facts = json.loads(forget(at, "--yes", "--json", "--cancel", code=1).stdout)
    assert (facts["removed"], facts["cancelled"]) == (False, True)
    assert facts["problem"].startswith("it is cancelled: if a worker had it, that is fenced; its next message ends it")


def test_a_run_that_moved_on_while_it_was_to_be_cancelled_is_said_once(at: Scene) -> None:
    def ends(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "Scan":
            at.deliver(at.second())
        return proceed()

    at.deliver(at.message())
    with intercept(ends):
        [line] = forget(at, "--yes", "--cancel", code=1).stderr.splitlines()
    assert "it is RUNNING at price-order" in line
    assert line.endswith(". It was not cancelled: the run is COMPLETED")


def test_a_message_that_was_not_sent_is_said_beside_the_cancellation() -> None:
    unsent = "the message that ends it was not sent, so its deadline ends it"
    with wait_scene() as waiting:
        waiting.begin(for_a_day)
        sqs = waiting.aws.client("sqs")
        sqs.create_queue(QueueName="carts-dead-letters")
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="carts")["QueueUrl"])
        arguments = ("forget", "tests.waits:Carts", "c1", "--wait", "0", "--yes", "--cancel")
        lines = run(waiting, *arguments, code=1).stderr.splitlines()
    assert lines[0].startswith("CANCELLED  carts of c1: it is cancelled: ")
    assert lines[1].startswith(f"CANCELLED  carts of c1: {unsent}")


def test_a_bucket_that_is_not_there_is_named(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(at)
    monkeypatch.setenv("FLOWGUARD_BUCKET", "no-such")
    said = forget(at, "--yes", code=2)
    assert "bucket no-such: does not exist; set FLOWGUARD_BUCKET" in " ".join(said.stderr.split())
    item = at.item()
    assert item is not None
    assert not is_forgotten(item)


def test_at_once_a_run_that_goes_on_is_forgotten_and_its_worker_changes_nothing(at: Scene) -> None:
    told: list[Result] = []
    at.script.pricing = lambda step: told.append(forget(at, "--yes", "--at-once", code=1))
    assert at.deliver(at.message()) == [True]
    assert "worker, left: it may still save rows of a group, and texts in S3; repeat this after" in told[0].stdout
    trace = at.item()
    assert trace is not None
    assert is_forgotten(trace)
    assert trace.committed_at == at.clock.now()
    assert (at.priced(), at.sent("emails"), at.sent("close-order")) == (0, [], [])
    assert at.deliver(at.message(), at.second()) == [True, True]
    assert [stage for stage, *_ in at.script.handled] == ["price-order"]


def test_rows_of_a_full_history_are_removed() -> None:
    with scene(told_orders) as at:
        ended(at)
        assert json.loads(forget(at, "--yes", "--json").stdout)["found"] == {"run item": 1, "rows of the history": 2}
        assert {item["sk"]["S"] for item in memory(at).items("flowguard")} == {"run"}


def test_rows_that_dynamodb_does_not_take_are_said() -> None:
    with scene(told_orders) as told:
        ended(told)
        with intercept(Unprocessed(times=100)):
            assert "forget the object again" in forget(told, "--yes", code=1).stderr
        forget(told, "--yes")


@pytest.mark.parametrize("options", [("--cancel",), ("--cancel", "--yes", "--at-once")])
def test_to_cancel_goes_with_yes_and_not_with_at_once(at: Scene, options: tuple[str, ...]) -> None:
    assert "--cancel goes with --yes, and not with --at-once" in forget(at, *options, code=2).stderr


def test_where_dead_letters_go_to_a_topic_a_queue_has_to_be_named(at: Scene) -> None:
    failed(at)
    flow = "tests.cli.test_cancel:TopicLetters"
    assert "which is no queue; give --queue" in forget(at, flow=flow, code=2).stderr
    found: Any = json.loads(forget(at, "--queue", "dead", "--json", flow=flow).stdout)["found"]
    assert found["dead letters"] == 1
    said = forget(at, "--yes", "--children", flow, code=2)
    assert "which is no queue; give --queue" in said.stderr
    item = at.item()
    assert item is not None
    assert not is_forgotten(item), "nothing was written before"


def test_a_queue_or_flow_that_is_not_there_is_named(at: Scene) -> None:
    assert "no-such" in forget(at, "--queue", "no-such", code=2).stderr
    assert "tests.scene:Nobody" in forget(at, "--children", "tests.scene:Nobody", code=2).stderr


def test_what_a_sender_writes_reaches_no_terminal(at: Scene) -> None:
    at.deliver(at.order(OBJECT))
    assert "repeat this after" in forget(at, "--yes", object_id=OBJECT, code=1).stderr
    forget(at, object_id=OBJECT)


def test_what_the_flows_own_stages_leave_is_named() -> None:
    class Checked(BaseModel):
        order_id: str

    class Check(Stage[Checked], name="check"):
        def handle(self, asked: Checked, step: Step) -> Outcome:
            return Done()

    class Checks(Flow, name="checks", object_id="order_id"):
        stages = (Check,)

    class Prices(Flow, name="prices", object_id="order_id"):
        stages = (Check,)

    class Begin(Stage[Checked], name="begin", lease=False, then="later"):
        def handle(self, asked: Checked, step: Step) -> Outcome:
            step.start(Checks, asked)
            return Later.message(asked)

    class Later(Stage[Checked], name="later", then="last", lease=False):
        def handle(self, asked: Checked, step: Step) -> Outcome:
            step.send("mails", {"of": asked.order_id})
            return Last.when_all(
                price=step.ask(Prices, asked), parcel=step.ask("parcels", asked), within=timedelta(hours=1)
            )

    class Answers(BaseModel):
        price: Checked
        parcel: Checked

    class Last(Stage[Answers], name="last"):
        def handle(self, answers: Answers, step: Step) -> Outcome:
            return Done()

    class Begun(Flow, name="begun", object_id="order_id", answers="answers"):
        stages = (Begin, Later, Last)

    assert list(out_of_reach_of(Checks)) == []
    worker, asked, sent = out_of_reach_of(Begun)
    assert worker.startswith("a worker of begun at a first hop without a lease (begin): nothing tells of it")
    assert asked.startswith("requests of begun to checks, prices that have not begun")
    assert sent == "messages and questions that stages of begun have sent to sqs:mails, sqs:parcels"


def test_what_is_sent_to_a_place_that_the_code_does_not_name_is_in_the_report_with_its_line() -> None:
    class Ordered(BaseModel):
        order_id: str
        reply: str

    class Tell(Stage[Ordered], name="tell", lease=True):
        def handle(self, ordered: Ordered, step: Step) -> Outcome:
            step.send(ordered.reply, {"of": ordered.order_id})
            return Done()

    class Told(Flow, name="told", object_id="order_id"):
        stages = (Tell,)

    [unnamed] = out_of_reach_of(Told)
    assert unnamed.startswith("what stages of told have sent where nothing says where to (")
    assert "test_forget.py:" in unnamed

"""A whole run of a flow with a codec: nothing of its payloads stands anywhere as it is."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.clock import no_pause
from flowguard.codecs import Compressed, Encrypted
from flowguard.errors import Reject
from flowguard.events import log
from flowguard.failed import Failure
from flowguard.flow import ATTACH, Flow
from flowguard.group import GroupEnd
from flowguard.handler import lambda_handler
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codec
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import Message

MARKER = "MARKERWORD"
CODEC = Encrypted("alias/shop", compress=False)


class Order(BaseModel):
    order_id: str
    note: str = MARKER
    fails: bool = False


class Part(BaseModel):
    part_id: str
    note: str = MARKER


class Parts(BaseModel):
    small: dict[str, str]
    paid: dict[str, str]


class Kept(BaseModel):
    secret: str = ""


class Pick(Stage[Part], name="pick"):
    def handle(self, part: Part, step: Step) -> Outcome:
        if part.part_id == "refused":
            raise Reject(f"refused because of {part.note}")
        return Done({"picked": f"{part.note} of {part.part_id}"})


class Picks(Flow, name="picks", object_id="part_id", codec=CODEC):
    stages = (Pick,)


class Take(Stage[Order, Kept], name="take", then=("gather", "close")):
    def handle(self, order: Order, step: Step[Kept]) -> Outcome:
        step.state.secret = f"{order.note} in the state"
        step.once("ask", lambda: {"said": f"{MARKER} remembered"})
        return Gather.when_all(
            small=step.ask(Picks, Part(part_id=f"{order.order_id}-small", note=order.note)),
            paid=step.event(f"paid-{order.order_id}"),
            within=timedelta(hours=1),
        )


class Gather(Stage[Parts, Kept], name="gather", then="close"):
    retry = RetryPolicy(attempts=2, backoff=Fixed(5), jitter=0)

    def handle(self, parts: Parts, step: Step[Kept]) -> Outcome:
        assert parts.small["picked"].startswith(MARKER)
        assert parts.paid["by"] == MARKER
        if step.attempt == 1:
            raise ValueError(f"a customer's {MARKER} in an error")
        many = [(str(place), Part(part_id=f"{step.object_id}-{place}")) for place in range(3)]
        return Close.when_group(step.group(Picks, many), within=timedelta(hours=1))


class Close(Stage[GroupEnd, Kept], name="close", then="last"):
    def handle(self, end: GroupEnd, step: Step[Kept]) -> Outcome:
        for each in step.answers(dict):
            assert MARKER in str(each)
        step.state.secret = MARKER * 4_000
        return Last.message({"note": MARKER, "long": f"{MARKER} " * 2_500})


class Last(Stage[dict[str, Any], Kept], name="last"):
    def handle(self, payload: dict[str, Any], step: Step[Kept]) -> Outcome:
        assert payload["note"] == MARKER
        assert step.state.secret == MARKER * 4_000
        if step.object_id.startswith("bad"):
            raise Reject(f"refused because of {MARKER}")
        return Done({"told": MARKER})


class Undo(Stage[Failure, Kept], name="undo"):
    def handle(self, failure: Failure, step: Step[Kept]) -> Outcome:
        assert MARKER in failure.text
        assert MARKER in str(failure.payload)
        return Done({"undone": MARKER})


class Shop(
    Flow,
    name="shop",
    object_id="order_id",
    codec=CODEC,
    answers="shop-answers",
    complete_to="shop-ends",
    full_history=True,
    on_failed="undo",
    on_conflict=ATTACH,
):
    stages = (Take, Gather, Close, Last, Undo)


class Seen:
    """Everything that was handed to AWS or that it answered."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        for side in (call.params, answer):
            self.calls += [(f"{call.service}:{call.operation}", text) for text in texts(side)]
        return answer


def texts(value: Any) -> Iterator[str]:
    """Every text in a value, bytes as latin-1, and what is packed in them."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from texts(name)
            yield from texts(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from texts(part)
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
        try:
            yield zlib.decompress(value).decode("latin-1")
        except zlib.error:
            return
    elif hasattr(value, "read"):
        return
    else:
        yield str(value)


def holds(text: str, marker: str = MARKER) -> bool:
    """Whether the marker stands in the text, also behind base64."""
    if marker in text:
        return True
    for found in re.findall(r"[A-Za-z0-9+/]{12,}={0,2}", text):
        for start in range(4):
            part = found[start:]
            try:
                raw = base64.b64decode(part[: len(part) // 4 * 4])
            except binascii.Error:
                continue
            if marker.encode() in raw:
                return True
    return False


class Lines(logging.Handler):
    """What is logged, at every level."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def logged() -> Iterator[list[str]]:
    root, handler = logging.getLogger(), Lines()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


@contextmanager
def shop(*, bucket: bool = True) -> Iterator[tuple[FlowRunner, MemoryAWS, Seen]]:
    seen = Seen()
    with FlowClock() as clock, MemoryAWS(clock) as aws, intercept(seen):
        runner = FlowRunner(aws, clock)
        world = runner._world
        world._observer = log
        if bucket:
            aws.client("s3").create_bucket(Bucket="texts")
            world.settings = world.settings.model_copy(update={"bucket": "texts", "offload_above": 1_024})
        with runner:
            runner.serve(Shop, Picks)
            yield runner, aws, seen


def whole_run(runner: FlowRunner, object_id: str) -> Any:
    runner.send(Shop, Order(order_id=object_id), reply_to="callers")
    runner.run(within=timedelta(minutes=1))
    runner.answer(Shop, f"paid-{object_id}", {"by": MARKER})
    return runner.run()


def command(runner: FlowRunner, *arguments: str, given: str = "") -> str:
    """What a command prints, on the AWS and the clock of the runner."""
    settings = runner._world.settings
    env = {f"FLOWGUARD_{name.upper()}": getattr(settings, name) for name in ("table", "bucket")}
    at = CommandTime(runner._world.clock, no_pause)
    result = CliRunner().invoke(main, arguments, obj=at, input=given, env=env)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(runner: FlowRunner) -> None:
    runner.send(Picks, Part(part_id="refused"))
    assert runner.run().run("refused").status == "FAILED"


def redriven(runner: FlowRunner) -> None:
    said = command(runner, "dlq", "redrive", "picks-dead-letters", "--all", "--yes", "--wait", "0")
    assert said.endswith("1 REDRIVEN\n")
    deliveries = runner.run().deliveries
    assert [(delivery.verdict, delivery.stage) for delivery in deliveries if delivery.stage] == [("CLAIMED", "pick")]


def begun_anew(runner: FlowRunner, object_id: str) -> None:
    again = json.dumps({"order_id": object_id, "note": MARKER})
    said = command(runner, "retry", f"{__name__}:Shop", object_id, "--again", "--from", "-", given=again)
    assert said.startswith("BEGUN ANEW")
    assert runner.run(within=timedelta(minutes=1)).run(object_id).status == "WAITING"


def cancelled(runner: FlowRunner, object_id: str) -> None:
    """A run that waits is cancelled, and one before its first message."""
    runner.send(Shop, Order(order_id=object_id))
    runner.run(within=timedelta(minutes=1))
    assert runner.cancel(Shop, object_id, why="nobody wants it")
    assert runner.run().run(object_id).status == "FAILED"


def at_rest(aws: MemoryAWS) -> list[str]:
    """Where the marker stands in what the account keeps: rows of tables, messages in queues, objects of the bucket."""
    rows = [(f"row {row['pk']['S']} {row['sk']['S']}", text) for row in aws.items("flowguard") for text in texts(row)]
    queues = [url.rpartition("/")[2] for url in aws.client("sqs").list_queues()["QueueUrls"]]
    letters = [
        (f"queue {name}", text)
        for name in queues
        for message in aws.messages(name)
        for text in (message.body, repr(message.attributes))
    ]
    assert rows
    assert letters
    return [place for place, text in [*rows, *letters] if holds(text)]


@pytest.mark.slow("reads all that a run has written")
@pytest.mark.parametrize("bucket", [True, False], ids=["in S3", "in the item"])
def test_nothing_of_a_payload_stands_anywhere_as_it_is(bucket: bool) -> None:
    with logged() as lines, shop(bucket=bucket) as (runner, aws, seen):
        assert whole_run(runner, "good").run("good").status == "COMPLETED"
        bad = whole_run(runner, "bad").run("bad")
        assert (bad.status, bad.stage) == ("FAILED", "undo")
        assert "undo failed" not in str(bad), "it was taken back"
        assert [row for row in aws.items("flowguard") if row["sk"]["S"].startswith("history#")]
        assert aws.messages("shop-dead-letters")
        refused(runner)
        redriven(runner)
        begun_anew(runner, "bad")
        cancelled(runner, "given-up")
        assert at_rest(aws) == []
    assert [call for call, text in seen.calls if holds(text)] == []
    assert lines
    assert [line for line in lines if holds(line)] == []


def test_the_test_would_see_it() -> None:
    assert holds(base64.b64encode(f'{{"a":"{MARKER}"}}'.encode()).decode())
    assert holds(f"x{MARKER}")
    assert not holds(base64.b64encode(b"nothing of that kind").decode())


def test_a_flow_that_compresses_alone_runs_the_same_way() -> None:
    class Lean(Flow, name="lean", object_id="part_id", codec=Compressed()):
        stages = (Pick,)

    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(Lean, Part(part_id="p1", note="long " * 1_000))
        assert runner.run().run("p1").result == {"picked": f"{'long ' * 1_000} of p1"}


def run_with(codec: Codec | None, sent_by: Codec | None, *, sealed_only: bool = False) -> tuple[str | None, int]:
    """The status of a run whose request was sealed by one codec and read by another, and the dead letters."""

    class Sent(Flow, name="moved", object_id="part_id", codec=sent_by):
        stages = (Pick,)

    class Read(Flow, name="moved", object_id="part_id", codec=codec, sealed_only=sealed_only):
        stages = (Pick,)

    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.serve(Read).queue("moved-dead-letters")
        services = runner._world.services
        message, _ = Sent.request(Part(part_id="p1"), request_id=RequestId("r1"), requested_at=clock.now())
        event = old_record(message, clock.now() - 2 * 86_400_000)
        answer = lambda_handler(Read).using(services)(event)
        assert answer == {"batchItemFailures": []}
        letters = [letter.body for letter in aws.messages("moved-dead-letters")]
        assert all(message.text in json.loads(letter)["Message"] for letter in letters)  # as it came
        item = runner._world.store.read("moved", "p1")
        return None if item is None else item.status.value, len(letters)


def old_record(message: Message, sent_at: int) -> Any:
    """The SQS event of a message that has waited for days and was received often."""
    record = {
        "messageId": "m-1",
        "receiptHandle": "receipt",
        "body": message.text,
        "attributes": {"ApproximateReceiveCount": "90", "SentTimestamp": str(sent_at)},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, message.attributes()),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:moved",
        "awsRegion": REGION,
    }
    return {"Records": [record]}


@pytest.mark.parametrize(
    ("codec", "sent_by", "sealed_only", "ends"),
    [
        (CODEC, None, False, ("COMPLETED", 0)),
        (CODEC, CODEC, True, ("COMPLETED", 0)),
        (CODEC, None, True, (None, 1)),
        (None, CODEC, False, (None, 1)),
        (Compressed(), CODEC, False, (None, 1)),
        (CODEC, Encrypted("alias/other"), False, (None, 1)),
        (Encrypted("alias/new", opens=("alias/shop",)), CODEC, False, ("COMPLETED", 0)),
    ],
    ids=[
        "a plain request is taken",
        "a sealed one too",
        "a plain one is parked where only sealed ones are taken",
        "a flow without a codec parks a sealed one",
        "so does one with another codec",
        "and one with another key",
        "a key that has sealed before still opens",
    ],
)
def test_who_seals_and_who_opens(
    codec: Codec | None, sent_by: Codec | None, sealed_only: bool, ends: tuple[str | None, int]
) -> None:
    assert run_with(codec, sent_by, sealed_only=sealed_only) == ends

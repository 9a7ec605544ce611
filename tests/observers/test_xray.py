"""Traces reach the X-Ray daemon as documents that it accepts, and show DynamoDB's time beside the business's."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from aws_xray_sdk.core import xray_recorder
from aws_xray_sdk.core.lambda_launcher import LambdaContext
from aws_xray_sdk.core.recorder import AWSXRayRecorder
from botocore.awsrequest import AWSResponse, HTTPHeaders

from flowguard.aws.clients import Clients
from flowguard.events import Event, EventType
from flowguard.handler import LambdaHandler, lambda_handler
from flowguard.observers import Phase, Span, XRay
from flowguard.observers.named import named_observers
from flowguard.spans import open_span, opens_spans
from tests.scene import Scene, record, scene
from tests.test_handler import Context
from tests.worker.test_parallel import meeting, parallel, threaded
from tests.worker.test_together import orders

TRACE: Final = "1-5759e988-bd862e3fe1be46a994272793"
PARENT: Final = "53995c3f42cd8ad8"
HEADER: Final = f"Root={TRACE};Parent={PARENT};Sampled=1"
LONGEST_DOCUMENT: Final = 64 * 1024

Document = dict[str, Any]


@dataclass
class Daemon:
    """Receives what the SDK sends to X-Ray's daemon, and refuses what X-Ray would refuse."""

    socket: socket.socket
    documents: list[Document] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def received(self) -> list[Document]:
        """Every subsegment in the order in which they began, each without those within it."""
        while True:
            try:
                datagram = self.socket.recv(2 * LONGEST_DOCUMENT)
            except BlockingIOError:
                break
            header, _, body = datagram.partition(b"\n")
            assert json.loads(header) == {"format": "json", "version": 1}
            document = json.loads(body)
            assert len(body) <= LONGEST_DOCUMENT
            assert list(problems(document)) == []
            self.documents += flat(document, document["parent_id"])
        return sorted(self.documents, key=lambda one: float(one["start_time"]))


def problems(document: Document, *, is_inside: bool = False) -> Iterator[str]:
    """Yield where X-Ray's description of segment documents is not kept."""
    if not re.fullmatch(r"[\w\s.:/%&#=+\\@-]{1,200}", document.get("name", "")):
        yield "name"
    if not re.fullmatch("[0-9a-f]{16}", document.get("id", "")):
        yield "id"
    if not isinstance(document.get("start_time"), float) or not isinstance(document.get("end_time"), float):
        yield "times"
    elif document["end_time"] < document["start_time"]:
        yield "ends before it begins"
    if document.get("in_progress"):
        yield "is not closed"
    if not is_inside:
        parent = re.fullmatch("[0-9a-f]{16}", document.get("parent_id") or "")
        if (document.get("type"), document.get("trace_id")) != ("subsegment", TRACE) or not parent:
            yield "a subsegment that is sent alone names its trace and its parent"
    if document.get("namespace") not in ("local", "aws", "remote"):
        yield "namespace"
    yield from annotation_problems(document.get("annotations", {}))
    for inner in document.get("subsegments", []):
        yield from problems(inner, is_inside=True)


def annotation_problems(annotations: dict[str, Any]) -> Iterator[str]:
    if len(annotations) > 50:
        yield "has more than 50 annotations"
    for name, value in annotations.items():
        if not re.fullmatch("[A-Za-z0-9_]{1,500}", name):
            yield f"annotation {name}"
        if not isinstance(value, str | int | float | bool) or len(str(value)) > 1000:
            yield f"the value of annotation {name}"


def flat(document: Document, parent: str) -> Iterator[Document]:
    yield {**document, "parent": parent}
    for inner in document.get("subsegments", []):
        yield from flat(inner, document["id"])


@pytest.fixture(scope="module", autouse=True)
def _with_the_sdks_own_recorder_closed() -> Iterator[None]:
    """It opens a socket when it is imported, and never closes it."""
    yield
    xray_recorder.emitter._socket.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield Daemon(listening)


@pytest.fixture
def recorder(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A recorder as it is in a Lambda function that is traced."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", HEADER)
    made = AWSXRayRecorder()
    made.configure(context=LambdaContext(), daemon_address=daemon.address, streaming_threshold=0)
    yield made
    made.emitter._socket.close()


def traced(at: Scene, recorder: Any) -> LambdaHandler:
    return lambda_handler(at.flow, observers=[XRay(recorder)]).using(at.handler._services)


def fail(step: object) -> None:
    raise RuntimeError("card 4111-1111")


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said of an observer that is left out."""
    return [line.getMessage() for line in caplog.records if line.name == "flowguard"]


def deliver(handler: LambdaHandler, *messages: Any) -> None:
    handler({"Records": [record(one, place) for place, one in enumerate(messages)]}, Context())


def test_what_x_ray_would_refuse_is_seen(daemon: Daemon, recorder: Any) -> None:
    with open_span(XRay(recorder), Span(Phase.DISPATCH)):
        pass
    [good] = daemon.received()
    wrong: list[Document] = [
        {**good, "name": "a?b"},
        {**good, "id": "1"},
        {**good, "end_time": None},
        {**good, "end_time": good["start_time"] - 1},
        {**good, "in_progress": True},
        {**good, "trace_id": "1-2-3"},
        {**good, "parent_id": None},
        {**good, "annotations": {"a-b": 1}},
        {**good, "annotations": {"a": [1]}},
        {**good, "annotations": {"a": "x" * 1001}},
        {**good, "subsegments": [{**good, "name": ""}]},
    ]
    assert [one for one in wrong if not list(problems(one))] == []


def test_a_message_has_a_subsegment_and_claim_handler_and_commit_stand_in_it(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        deliver(traced(at, recorder), at.message())
    message, claim, handle, commit, *dispatched = daemon.received()
    assert [one["name"] for one in (message, claim, handle, commit)] == [
        "orders/price-order",
        "claim",
        "handle",
        "commit",
    ]
    assert [one["parent"] for one in (claim, handle, commit)] == [message["id"]] * 3
    assert [(one["name"], one["parent"]) for one in dispatched] == [("dispatch", PARENT)] * 2
    run = {"request_id": "run-1", "flow": "orders", "stage": "price-order", "hop": 1, "attempt": 1}
    for one in (message, claim, handle, commit, *dispatched):
        assert one["annotations"].items() >= run.items()
        assert "fault" not in one
    assert claim["annotations"]["verdict"] == "CLAIMED"
    assert commit["annotations"]["verdict"] == "COMMITTED"
    assert message["annotations"]["outcome"] == "committed"
    assert claim["end_time"] <= handle["start_time"] <= handle["end_time"] <= commit["start_time"]


def test_a_message_within_another_keeps_its_outcome_to_itself(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        handler = traced(at, recorder)
        other = at.order("o2", request_id="run-2", redrive=1)
        at.script.pricing = lambda step: deliver(handler, other) if step.request_id == "run-1" else None
        deliver(handler, at.message())
    outcomes = [one["annotations"]["outcome"] for one in daemon.received() if "/" in one["name"]]
    assert outcomes == ["committed", "committed"]


def test_a_duplicate_shows_its_verdict(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        deliver(traced(at, recorder), at.message(), at.message())
    outcomes = [one["annotations"]["outcome"] for one in daemon.received() if "/" in one["name"]]
    assert outcomes == ["committed", "done"]


def test_an_attempt_that_fails_is_a_fault_without_its_text(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        at.script.pricing = fail
        deliver(traced(at, recorder), at.message())
    found = {one["name"]: one for one in daemon.received()}
    assert found["handle"]["fault"] is True
    assert found["handle"]["annotations"]["error"] == "RuntimeError"
    assert found["orders/price-order"]["annotations"]["outcome"] == "retried"
    assert found["dispatch"]["parent"] == found["orders/price-order"]["id"], "the retry is sent within the message"
    assert "4111" not in json.dumps(found)


def test_a_subsegment_that_a_handler_forgets_is_closed_with_its_own(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        at.script.pricing = lambda step: recorder.begin_subsegment("forgotten")
        deliver(traced(at, recorder), at.message())
    found = {one["name"]: one for one in daemon.received()}
    assert found["forgotten"]["parent"] == found["handle"]["id"]
    assert found["commit"]["parent"] == found["orders/price-order"]["id"]


def test_a_subsegment_that_a_handler_ends_too_often_harms_nothing(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        at.script.pricing = lambda step: recorder.end_subsegment()
        deliver(traced(at, recorder), at.message())
        assert at.priced() == 1
    assert "commit" in {one["name"] for one in daemon.received()}


@pytest.mark.parametrize(("type_", "name"), [(EventType.ANSWERED, "answer"), (EventType.TIMED_OUT, "deadline")])
def test_an_answer_and_a_deadline_have_a_subsegment(
    type_: EventType, name: str, daemon: Daemon, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with scene() as at:
        XRay(recorder)(Event(type_, at.message(), {"verdict": "RESUMED", "failed": False, "none": None}))
    [found] = daemon.received()
    assert found["name"] == name
    assert found["annotations"].items() >= {"request_id": "run-1", "hop": 1, "verdict": "RESUMED"}.items()
    assert "none" not in found["annotations"]
    assert caplog.records == [], "the SDK warns of what it cannot take"


def test_what_a_sender_writes_becomes_no_name_and_fits_into_an_annotation(daemon: Daemon, recorder: Any) -> None:
    with scene() as at:
        hostile = at.message(stage="a?<script>\x1b\ud800", request_id="x" * 250_000)
        with open_span(XRay(recorder), Span(Phase.MESSAGE, (hostile,))):
            pass
    [found] = daemon.received()
    assert found["name"] == "message"
    assert found["annotations"]["stage"] == "a?<script>\\x1b\\ud800"


@pytest.mark.parametrize("header", ["", HEADER.replace("Sampled=1", "Sampled=0"), "Root=1"])
def test_nothing_is_sent_where_lambda_does_not_trace(
    header: str,
    daemon: Daemon,
    recorder: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header)
    with scene() as at:
        handler = traced(at, recorder)
        deliver(handler, at.message())
        at.script.pricing = fail
        deliver(handler, at.order("o2"))
        assert at.priced() == 1
    assert daemon.received() == []
    assert reports(caplog) == []


def test_outside_lambda_a_message_is_worked_on_without_a_trace(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = AWSXRayRecorder()
    recorder.configure(daemon_address=daemon.address, context_missing="IGNORE_ERROR")
    with scene() as at:
        at.script.pricing = fail
        deliver(traced(at, recorder), at.message())
    assert daemon.received() == []
    assert reports(caplog) == []
    recorder.emitter._socket.close()


def test_a_second_invocation_begins_with_nothing_of_the_first(
    daemon: Daemon, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene() as at:
        handler = traced(at, recorder)
        deliver(handler, at.message())
        first = len(daemon.received())
        deliver(handler, at.message())
    again = daemon.received()[first:]
    assert [one["name"] for one in again] == ["orders/price-order", "claim", "dispatch", "dispatch"]
    assert again[0]["parent"] == PARENT


def test_it_is_named_in_the_environment() -> None:
    assert opens_spans(named_observers("logs,xray"))


@pytest.mark.parametrize(
    ("service", "send"),
    [
        ("sqs", lambda clients: clients.sqs.send_message(QueueUrl="http://localhost/1/q", MessageBody="{}")),
        ("sns", lambda clients: clients.sns.publish(TopicArn="arn:aws:sns:us-east-1:1:t", Message="{}")),
    ],
)
def test_in_a_function_the_trace_goes_along_with_what_is_sent(
    service: str, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 sends the header. SQS keeps it with the message, and Lambda links the trace of the consumer."""
    for name, value in {
        "_X_AMZN_TRACE_ID": HEADER,
        "AWS_LAMBDA_FUNCTION_NAME": "orders",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        monkeypatch.setenv(name, value)
    sent: list[Any] = []

    def answered(request: Any, **_: Any) -> AWSResponse:
        sent.append(request)
        return AWSResponse(request.url, 400, HTTPHeaders(), Empty())

    clients = Clients()
    getattr(clients, service).meta.events.register(f"before-send.{service}", answered)
    with suppress(Exception):  # of the answer, which is none
        send(clients)
    header = sent[0].headers["X-Amzn-Trace-Id"]
    assert (header.decode() if isinstance(header, bytes) else header) == HEADER


class Empty:
    """An HTTP response without a body."""

    def stream(self) -> Iterator[bytes]:
        yield b""

    def read(self) -> bytes:
        return b""


def test_handlers_at_once_have_each_its_own_subsegments(daemon: Daemon, recorder: Any) -> None:
    with scene(parallel) as plain:
        at = threaded(plain)
        at.script.pricing = meeting(3)
        handler = traced(at, recorder)
        handler.together = True
        deliver(handler, *orders(at, 3))
    documents = daemon.received()
    assert [problem for one in documents for problem in problems(one)] == []
    messages = {one["id"]: one for one in documents if "/" in one["name"]}
    parents = [one["parent"] for one in documents if one["name"] == "handle"]
    assert sorted(parents) == sorted(messages)
    assert {one["annotations"]["request_id"] for one in messages.values()} == {"run-0", "run-1", "run-2"}

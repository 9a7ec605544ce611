"""Tracers see the calls of the lean client as they see those of botocore: the tracers themselves, not stand-ins."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final

import botocore.client
import pytest
from aws_xray_sdk.core import patch, patcher, xray_recorder
from aws_xray_sdk.core.context import Context as XRayContext
from botocore.client import BaseClient
from botocore.endpoint import Endpoint
from botocore.exceptions import ClientError
from opentelemetry.instrumentation import botocore as instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.handler import lambda_handler
from flowguard.observers import Observer, OpenTelemetry, Timings, XRay
from flowguard.settings import Settings
from tests.aws.transport.clients import KEYS, REGION, LeanClients, lean, session
from tests.aws.transport.served import Reply, Server, answer, served
from tests.proofs.bench.flow import Context, OneStage, a_cart, a_request

FINE: Final = Reply(answer(200, {}))
REFUSED: Final = Reply(answer(400, {"__type": "#ConditionalCheckFailedException", "message": "no"}))
THROTTLED: Final = Reply(answer(400, {"__type": "#ProvisionedThroughputExceededException", "message": "no"}))
BotocoreInstrumentor: Any = instrumentation.BotocoreInstrumentor
KEY: Final = {"pk": {"S": "run#f#o"}, "sk": {"S": "run"}}

Make = Callable[[str], Any]
"""Makes a client of DynamoDB for a URL."""


def ours(url: str) -> Any:
    return lean("dynamodb", url)


def theirs(url: str) -> Any:
    """The client that the lean one stands for."""
    return lean("dynamodb", url)._botocore()


def calls(server: Server, client: Any) -> None:
    """One call that succeeds, one that is refused, and one of which a try was throttled."""
    server.script(FINE, REFUSED, THROTTLED, FINE)
    for _ in range(3):
        with suppress(ClientError):
            client.get_item(TableName="t", Key=KEY)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
    with served(FINE) as server:
        yield server


# -- X-Ray's own SDK


class Emitted:
    """Keeps the segments that the recorder would send to its daemon."""

    def __init__(self) -> None:
        self.segments: list[dict[str, Any]] = []

    def send_entity(self, entity: Any) -> None:
        self.segments.append(json.loads(entity.serialize()))


@pytest.fixture(scope="module", autouse=True)
def _with_the_sdks_own_recorder_closed() -> Iterator[None]:
    """It opens a socket when it is imported, and never closes it."""
    yield
    xray_recorder.emitter._socket.close()


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """The recorder of the process, as patches use it, and botocore as it was afterwards."""
    emitter = Emitted()
    base: Any = BaseClient
    endpoint: Any = Endpoint
    monkeypatch.setattr(base, "_make_api_call", base._make_api_call)
    monkeypatch.setattr(endpoint, "prepare_request", endpoint.prepare_request)
    monkeypatch.setattr(botocore.client, "_xray_enabled", True, raising=False)
    monkeypatch.delattr(botocore.client, "_xray_enabled")
    monkeypatch.setattr(patcher, "_PATCHED_MODULES", set())
    monkeypatch.setattr(xray_recorder, "_emitter", emitter)
    monkeypatch.setattr(xray_recorder, "_context", XRayContext())
    monkeypatch.setattr(xray_recorder, "_sampling", False)
    return emitter


def subsegments(server: Server, emitted: Emitted, make: Make) -> Any:
    with xray_recorder.in_segment("a function"):
        calls(server, make(server.url))
    return plain(emitted.segments[-1]["subsegments"])


CHANGING: Final = frozenset({"id", "start_time", "end_time", "trace_id", "parent_id", "stack", "working_directory"})


def plain(segment: Any) -> Any:
    """Without what is another in each segment, and where in the code an error was met."""
    if isinstance(segment, dict):
        return {name: plain(value) for name, value in segment.items() if name not in CHANGING}
    return [plain(inner) for inner in segment] if isinstance(segment, list) else segment


@pytest.mark.parametrize("name", ["botocore", "boto3"])
def test_x_ray_has_a_subsegment_of_each_call(server: Server, emitted: Emitted, name: str) -> None:
    """What ``patch_all`` does with these; the others would stay patched."""
    before = ours(server.url)
    calls(server, before)
    assert before._made is None
    patch((name,))
    seen = subsegments(server, emitted, lambda _: before)
    assert seen == subsegments(server, emitted, theirs)
    assert [call["aws"]["operation"] for call in seen] == ["GetItem"] * 3
    assert [(call["name"], call["aws"]["table_name"], "cause" in call) for call in seen] == [
        ("dynamodb", "t", False),
        ("dynamodb", "t", True),
        ("dynamodb", "t", False),
    ]


# -- OpenTelemetry's own instrumentation


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    instrumentor = BotocoreInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield memory
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    provider.shutdown()


def spans(server: Server, memory: InMemorySpanExporter, make: Make) -> list[Any]:
    memory.clear()
    calls(server, make(server.url))
    return [(span.name, dict(span.attributes or {}), span.status.status_code) for span in memory.get_finished_spans()]


def test_opentelemetry_has_a_span_of_each_call(server: Server, exported: InMemorySpanExporter) -> None:
    seen, others = spans(server, exported, ours), spans(server, exported, theirs)
    assert seen == others
    assert [name for name, *_ in seen] == ["DynamoDB.GetItem"] * 3


def test_once_it_has_gone_calls_are_lean_again(server: Server, exported: InMemorySpanExporter) -> None:
    BotocoreInstrumentor().uninstrument()
    client: Any = ours(server.url)
    calls(server, client)
    assert client._made is None
    assert exported.get_finished_spans() == ()


# -- flowguard's own observers


def message(clients: Clients, observer: Observer) -> None:
    """One message, whose calls are answered by the server."""
    handler = lambda_handler(OneStage, observers=[observer]).using(aws_services(Settings(), clients))
    event, _ = a_request(OneStage, a_cart(), request_id="run-1", requested_at=1)
    assert handler(event, Context()) == {"batchItemFailures": []}


def both(server: Server) -> list[Clients]:
    urls = {"dynamodb": server.url}
    return [LeanClients(KEYS, REGION, urls), Clients(session(), urls)]


def test_timings_have_the_same_phases(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    lines = []
    with caplog.at_level(logging.INFO, "flowguard"):
        for clients in both(server):
            caplog.clear()
            message(clients, Timings(timer=itertools.count().__next__))
            lines.append([json.loads(line.getMessage().removeprefix("flowguard ")) for line in caplog.records])
    timed = [[line for line in of if line["event"] == "timed"] for of in lines]
    assert timed[0] == timed[1]
    assert {"claim_ms", "handle_ms", "commit_ms"} <= timed[0][0].keys()


def test_spans_of_opentelemetry_are_the_same(server: Server) -> None:
    seen = []
    for clients in both(server):
        memory, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(memory))
        message(clients, OpenTelemetry(provider.get_tracer("tests"), flush=False))
        seen.append([(span.name, dict(span.attributes or {})) for span in memory.get_finished_spans()])
        provider.shutdown()
    assert seen[0] == seen[1]
    assert len(seen[0]) >= 4


def test_subsegments_of_x_ray_are_the_same(server: Server, emitted: Emitted) -> None:
    for clients in both(server):
        with ExitStack() as stack:
            stack.enter_context(xray_recorder.in_segment("a function"))
            message(clients, XRay(xray_recorder))
    lean_one, other = [plain(segment["subsegments"]) for segment in emitted.segments]
    assert lean_one == other
    assert [phase["name"] for phase in lean_one[0]["subsegments"]] == ["claim", "handle", "commit"]

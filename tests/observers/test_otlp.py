"""Traces of OpenTelemetry arrive over the wire, at a receiver of OTLP that decodes what the exporter posts."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from flowguard.handler import lambda_handler
from flowguard.observers import OpenTelemetry
from tests.scene import record, scene
from tests.test_handler import Context


@dataclass
class Collector:
    """A receiver of OTLP over HTTP. ``is_down`` lets it answer that it is not there."""

    url: str = ""
    is_down: bool = False
    requests: list[Any] = field(default_factory=list)

    def spans(self) -> dict[str, Any]:
        """The last span of each name."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if not collector.is_down:
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(400 if collector.is_down else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - its base calls it so

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield collector
        server.shutdown()
        thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """The process is set up with an SDK that exports in batches, as in a function."""
    with collecting() as found:
        provider = TracerProvider(resource=Resource({"service.name": "orders"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(found.url)))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        yield found
        provider.shutdown()


def deliver() -> None:
    with scene() as at:
        function = lambda_handler(at.flow, observers=[OpenTelemetry()]).using(at.handler._services)
        assert function({"Records": [record(at.message())]}, Context()) == {"batchItemFailures": []}
        assert at.priced() == 1


def test_the_spans_of_a_message_have_arrived_when_its_invocation_ends(collector: Collector) -> None:
    deliver()
    found = collector.spans()
    assert found.keys() == {"invocation", "process price-order", "claim", "handle", "commit", "send"}
    message = found["process price-order"]
    said = {one.key: one.value.string_value or one.value.int_value for one in message.attributes}
    assert said["messaging.system"] == "aws_sqs"
    assert said["messaging.message.conversation_id"] == "run-1"
    assert said["flowguard.hop"] == 1
    assert {found[name].parent_span_id for name in ("claim", "handle", "commit")} == {message.span_id}
    assert {one.trace_id for one in found.values()} == {message.trace_id}


def test_a_receiver_that_refuses_harms_no_message(collector: Collector) -> None:
    collector.is_down = True
    deliver()
    assert collector.spans() == {}

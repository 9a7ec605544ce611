"""The engine on a port: it answers, gives its port back, and says why a port cannot be had."""

from __future__ import annotations

import socket
import sys

import pytest

from flowguard.dev.cannot_serve import CannotServe
from flowguard.dev.served import ServedEngine


def test_another_process_can_use_it_and_the_port_is_free_afterwards() -> None:
    with ServedEngine() as engine:
        sqs = engine.client("sqs")
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        assert url == f"{engine.url}/{engine.account}/orders"
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert len(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]) == 1
        assert engine.environment()["AWS_ENDPOINT_URL"] == engine.url
    with ServedEngine(port=engine.port) as again:
        assert again.port == engine.port


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"127.0.0.1 port {port}: Address already in use.*; give another"):
            ServedEngine(port=port).__enter__()


@pytest.mark.parametrize("host", ["256.0.0.1", "192.0.2.1", "h\udcff", "h\x00"])
def test_a_host_that_is_not_this_machines_is_refused(host: str) -> None:
    with pytest.raises(CannotServe, match=r"; give another|no name of a host"):
        ServedEngine(host).__enter__()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moto.moto_server.werkzeug_app", None)
    with pytest.raises(CannotServe, match=r"is not installed; pip install 'flowguard-aws\[serve\]'"):
        ServedEngine().__enter__()


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:7"), ("0.0.0.0", "http://127.0.0.1:7"), ("::", "http://[::1]:7")],  # noqa: S104
)
def test_the_url_is_one_that_this_machine_reaches(host: str, url: str) -> None:
    assert ServedEngine(host, 7).url == url

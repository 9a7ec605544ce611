"""The credentials of a container, as ECS and functions with SnapStart have them, are others before they end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import botocore.session
import pytest

from flowguard.aws.transport.made import json_client

TOKEN = "what-the-container-is-known-by"


class Container(HTTPServer):
    """Hands out a key that is good for as long as it says, and another one each time."""

    def __init__(self, good_for: timedelta) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.good_for = good_for
        self.asked: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: Container

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Authorization"])
        end = datetime.now(UTC) + self.server.good_for
        keys = {
            "AccessKeyId": f"AK{len(self.server.asked)}",
            "SecretAccessKey": "a-secret",
            "Token": "a-token",
            "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = json.dumps(keys).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    with Container(request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def asked_for(container: Container, monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """The keys that so many calls are signed with."""
    environment = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{container.server_port}/keys",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": TOKEN,
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client: Any = json_client("sqs", environment, botocore.session.Session, lambda: None)
    return [client._place.credentials().access_key for _ in range(times)]


@pytest.mark.parametrize("container", [timedelta(minutes=9)], indirect=True)
def test_those_that_end_within_minutes_are_renewed_before_they_do(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = asked_for(container, monkeypatch, 3)
    assert keys == sorted(set(keys)), "each call was signed with another key, none of which has ended"
    assert set(container.asked) == {TOKEN}


@pytest.mark.parametrize("container", [timedelta(hours=6)], indirect=True)
def test_those_that_are_good_for_hours_are_kept(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = asked_for(container, monkeypatch, 3)
    assert len(set(keys)) == 1
    assert len(container.asked) == 1

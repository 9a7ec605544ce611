"""The credentials of a container, as ECS and functions with SnapStart have them, are others before they end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from flowguard.aws.transport.made import json_client
from flowguard.errors import SettingsError

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


# -- a token that no header takes

WRONG = [("a-token\n", "has a line break"), ("a\rtoken", "has a line break"), ("töken\u20ac", "no header takes")]


def in_container(token: str, tmp_path: Path, *, in_file: bool) -> dict[str, str]:
    """The environment of a container with such a token."""
    environment = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/", "AWS_DEFAULT_REGION": "eu-west-1"}
    if not in_file:
        return {**environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN": token}
    (tmp_path / "token").write_text(token, encoding="utf-8", newline="")
    return {**environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(("token", "problem"), WRONG)
def test_a_token_that_no_header_takes_is_said_before_anybody_is_asked(
    tmp_path: Path, token: str, problem: str, *, in_file: bool
) -> None:
    environment = in_container(token, tmp_path, in_file=in_file)
    with pytest.raises(SettingsError, match=problem) as raised:
        json_client("sqs", environment, lambda: pytest.fail("asked"), lambda: None)
    assert raised.value.setting in environment
    assert token.strip() not in str(raised.value)


def test_a_token_in_a_file_that_is_no_text_is_said_too(tmp_path: Path) -> None:
    environment = in_container("", tmp_path, in_file=True)
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="no header takes"):
        json_client("sqs", environment, lambda: pytest.fail("asked"), lambda: None)


def test_a_token_that_is_wrong_when_the_keys_are_renewed_is_said_without_what_it_is(tmp_path: Path) -> None:
    environment = in_container("a-token", tmp_path, in_file=True)
    client: Any = json_client("sqs", environment, Renewing, lambda: None)
    assert client._place.credentials().access_key == "AK1"
    (tmp_path / "token").write_text("another\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="has a line break") as raised:
        client._place.credentials()
    assert raised.value.__suppress_context__
    (tmp_path / "token").write_text("another", encoding="utf-8")
    with pytest.raises(ValueError, match="of botocore"):
        client._place.credentials()


class Renewing:
    """A session of botocore whose credentials can be read twice, and not renewed after that."""

    def __init__(self) -> None:
        self.read = 0

    def get_credentials(self) -> Renewing:
        return self

    def get_frozen_credentials(self) -> Any:
        self.read += 1
        if self.read > 2:
            raise ValueError("of botocore")
        return SimpleNamespace(access_key="AK1", secret_key="s", token=None, account_id=None)

"""Whom the inspector answers, and what a browser may do with its pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowguard.client import FlowClient
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.ui.changes import Changes
from flowguard.ui.guards import HEADERS, hosts_of, is_own_token
from flowguard.ui.inspected import Inspected
from flowguard.ui.pages import inspector
from tests.aws.engines import same_clients
from tests.cli.test_list import played
from tests.scene import Scene, scene
from tests.ui.inspecting import TOKEN, opened, parsed

OWN = {"Host": "localhost", "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
CANCEL = {"flow": "orders", "object": "o2", "why": "the customer called", "token": TOKEN}


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        played(found)
        yield found


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "localhost:80"},
        {"Host": ""},
        {"Host": "127.0.0.1"},
        {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://evil.example"},
        {"Origin": "https://localhost"},
        {"Origin": "http://localhost:8000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/style.css", "/run?flow=orders&object=o1", "/nowhere"])
def test_a_request_of_another_host_or_site_is_refused(at: Scene, headers: dict[str, str], path: str) -> None:
    answer = opened(at).get(path, headers=headers)
    assert answer.status_code == 403
    assert "orders" not in answer.text
    assert ("http://localhost/ instead" in answer.text) is (headers.get("Host", "localhost") != "localhost")


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "none"}, OWN])
def test_what_a_person_asks_for_is_answered(at: Scene, headers: dict[str, str]) -> None:
    assert opened(at).get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_change_from_another_site_is_refused_though_it_has_the_token(at: Scene, headers: dict[str, str]) -> None:
    answer = opened(at, changes=True).post("/run/cancel", data=CANCEL, headers=headers)
    assert answer.status_code == 403
    assert is_running(at)


@pytest.mark.parametrize("token", [None, "", "x" * len(TOKEN), TOKEN[:-1], "\u0661\ud800"])
@pytest.mark.parametrize("path", ["/run/cancel", "/run/retry", "/letters/redrive"])
def test_a_change_without_the_token_is_refused(at: Scene, path: str, token: str | None) -> None:
    given = {**CANCEL, "queue": "dead", "id": "m"}
    form = {name: value for name, value in given.items() if name != "token"}
    sent = form if token is None else {**form, "token": token.encode("utf-8", "surrogatepass")}
    answer = opened(at, changes=True).post(path, data=sent)
    assert (answer.status_code, "of another start" in answer.text) == (403, True)
    assert is_running(at)


@pytest.mark.parametrize("path", ["/run/cancel", "/run/retry", "/letters/redrive"])
def test_read_only_refuses_each_change_and_shows_no_button(at: Scene, path: str) -> None:
    client = opened(at)
    answer = client.post(path, data={**CANCEL, "queue": "dead", "id": "m"})
    assert (answer.status_code, "read only" in answer.text) == (403, True)
    assert is_running(at)
    for page in ("/", "/run?flow=orders&object=o2", "/run?flow=orders&object=bad", "/letters?queue=dead"):
        assert TOKEN not in client.get(page).text
        assert 'method="post"' not in client.get(page).text


@pytest.mark.parametrize("path", ["/run/cancel", "/run/retry", "/letters/redrive"])
def test_a_change_is_no_link(at: Scene, path: str) -> None:
    answer = opened(at, changes=True).get(path, query_string=CANCEL)
    assert answer.status_code == 405
    assert is_running(at)


def test_a_form_that_is_too_large_is_refused(at: Scene) -> None:
    answer = opened(at, changes=True).post("/run/cancel", data={**CANCEL, "why": "x" * 100_000})
    assert answer.status_code == 413
    assert is_running(at)


@pytest.mark.parametrize("path", ["/", "/style.css", "/nowhere", "/run/cancel", "/?older=x"])
def test_each_answer_forbids_scripts_frames_and_guessing(at: Scene, path: str) -> None:
    answer = opened(at).get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert "Set-Cookie" not in answer.headers


def test_each_process_has_its_own_token(at: Scene) -> None:
    def drawn() -> str:
        inspected = Inspected(Settings(), same_clients(), at.clock, {"orders": at.flow})
        changes = Changes(inspected, FlowClient(at.handler._services.sender))
        client = inspector(inspected, frozenset({"localhost"}), changes=changes).test_client()
        return parsed(client.get("/run?flow=orders&object=o2")).fields["token"]

    first, second = drawn(), drawn()
    assert first != second
    assert len(first) >= 40


def test_the_hosts_are_those_of_this_machine_and_port() -> None:
    assert hosts_of(8123) == {"127.0.0.1:8123", "localhost:8123"}


def test_a_token_is_compared_whole() -> None:
    assert is_own_token(TOKEN, TOKEN)
    assert not is_own_token(TOKEN + " ", TOKEN)
    assert not is_own_token("", TOKEN)


def is_running(at: Scene) -> bool:
    item = at.item("o2")
    return item is not None and item.status is Status.RUNNING and item.cancelled_because is None

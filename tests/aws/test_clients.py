"""What flowguard's clients are set to, seen in the requests that they send."""

from __future__ import annotations

from typing import Any

import botocore
import botocore.session
import pytest
from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from flowguard.aws.clients import Clients
from flowguard.stage import MOST_AT_ONCE
from tests.proofs.bench.stub import answer


def agent_of(clients: Clients) -> str:
    """Return the user agent of a request to DynamoDB."""
    seen: list[str] = []

    def note(request: Any, **_: Any) -> None:
        seen.append(request.headers["User-Agent"].decode())

    answer(clients.dynamodb, lambda _: {})
    clients.dynamodb.meta.events.register_first("before-send.dynamodb", note)
    clients.dynamodb.get_item(TableName="flowguard", Key={"pk": {"S": "run#f#o"}})
    [found] = seen
    return found


def a_session(**config: Any) -> Session:
    core = botocore.session.Session()
    core.set_default_client_config(Config(**config))
    return Session("AKIAIOSFODNN7EXAMPLE", "a secret", region_name="eu-west-1", botocore_session=core)


def test_requests_name_botocore_and_flowguard_by_a_text_that_is_made_once() -> None:
    parts = agent_of(Clients(a_session())).split()
    assert parts[0] == f"Botocore/{botocore.__version__}"
    assert "lib/flowguard" in parts
    assert not any(part.startswith(("os/", "md/", "cfg/")) for part in parts), "botocore has put it together"


def test_what_a_session_adds_to_the_user_agent_is_sent_too() -> None:
    assert "billing/7" in agent_of(Clients(a_session(user_agent_extra="billing/7"))).split()


def test_there_are_connections_for_the_handlers_and_the_commits_that_go_at_once() -> None:
    dynamodb: Any = Clients(Session(region_name="eu-west-1")).dynamodb
    assert dynamodb.meta.config.max_pool_connections >= 2 * MOST_AT_ONCE


def sends(client: Any) -> int:
    """Count how often a call is sent that is not answered."""
    sent: list[str] = []

    def silent(request: Any, **_: Any) -> Any:
        sent.append(request.url)
        raise ReadTimeoutError(endpoint_url=request.url)

    client.meta.events.register_first("before-send.dynamodb", silent)
    with pytest.raises(ReadTimeoutError):
        client.batch_write_item(RequestItems={"flowguard": [{"DeleteRequest": {"Key": {"pk": {"S": "a"}}}}]})
    return len(sent)


def test_a_call_that_must_not_come_late_is_sent_once_and_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
    clients = Clients(a_session())
    assert sends(clients.dynamodb_once) == 1
    assert sends(clients.dynamodb) == 4

"""The live view: lines for people, lines of JSON, and nothing of a sender's that a terminal would obey."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from flowguard.cli.dev import commands
from flowguard.cli.dev_lines import LiveView
from tests.cli.test_hostile_text import CONTROL, HOSTILE
from tests.scene import START

DELIVERY: dict[str, Any] = {
    "event": "delivery",
    "at": START,
    "function": "place",
    "queue": "orders",
    "record": "m1",
    "receive": 1,
    "flow": "orders",
    "stage": "price-order",
    "object_id": "o1",
    "request_id": "run-1",
    "hop": 1,
    "attempt": 2,
    "verdict": "CLAIMED",
    "outcome": "committed",
    "not_due": False,
    "sent": ["sqs:emails", "sqs:arn:aws:sqs:us-east-1:123456789012:close-order"],
    "why": None,
    "raised": None,
    "acked": True,
    "ms": 12,
}
NOTHING: dict[str, Any] = {"functions": {}, "starts": [], "environment": {}, "weather": [], "notes": []}
LOADED = {"event": "loaded", "at": START, **NOTHING}
UNREADABLE = DELIVERY | dict.fromkeys(("flow", "stage", "object_id", "hop", "attempt", "outcome"))


def shown(capsys: pytest.CaptureFixture[str], said: dict[str, Any], *, as_json: bool = False) -> str:
    LiveView(as_json=as_json).show(said)
    found = capsys.readouterr()
    assert CONTROL.findall(found.out + found.err) == []
    return found.out + found.err


def test_it_says_first_where_aws_is_and_what_to_type_in_another_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    listening = {
        "event": "listening",
        "at": START,
        "url": "http://127.0.0.1:4566",
        "region": "us-east-1",
        "environment": {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
        "commands": ["flowguard list", "flowguard ui"],
        "mailbox": "http://127.0.0.1:4566/mailbox",
        "answers": "http://127.0.0.1:4567",
        "modules": ["shop"],
    }
    assert shown(capsys, listening) == (
        "AWS on http://127.0.0.1:4566, in us-east-1. In another terminal:\n"
        "  export AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL=http://127.0.0.1:4566\n"
        "  flowguard list\n"
        "  flowguard ui\n"
        "In a browser: http://127.0.0.1:4566/mailbox, what nobody reads here, such as mails, with its links\n"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "08:00:00.000  orders/price-order  o1  hop 1, attempt 2  CLAIMED, committed  12 ms"
            "  sent to sqs:emails, sqs:close-order\n",
        ),
        (
            {"outcome": "retried", "why": "RuntimeError: no tariff", "raised": "Traceback\n  line 7\n", "sent": []},
            "08:00:00.000  orders/price-order  o1  hop 1, attempt 2  CLAIMED, retried  12 ms"
            "  RuntimeError: no tariff\n    Traceback\n      line 7\n",
        ),
        (
            {"stage": None, "verdict": "DUPLICATE", "outcome": None, "sent": []},
            "08:00:00.000  orders  o1  hop 1, attempt 2  DUPLICATE  12 ms\n",
        ),
        (
            {"verdict": None, "outcome": None, "not_due": True, "sent": ["sqs:orders"]},
            "08:00:00.000  orders/price-order  o1  hop 1, attempt 2  deadline not due  12 ms  sent to sqs:orders\n",
        ),
        (
            {**UNREADABLE, "verdict": None, "sent": []},
            "08:00:00.000  place from orders  nothing was left to do  12 ms\n",
        ),
        (
            {**UNREADABLE, "verdict": None, "acked": False, "sent": []},
            "08:00:00.000  place from orders  no verdict  12 ms  stays in its queue\n",
        ),
    ],
)
def test_a_delivery(capsys: pytest.CaptureFixture[str], changes: dict[str, Any], line: str) -> None:
    assert shown(capsys, {**DELIVERY, **changes}) == line


def test_a_delivery_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(capsys, DELIVERY, as_json=True)) == {**DELIVERY, "at": "2027-01-15T08:00:00.000Z"}


@pytest.mark.parametrize("as_json", [True, False])
def test_no_control_of_a_sender_reaches_the_terminal(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    hostile = {"object_id": HOSTILE * 1_000, "why": HOSTILE, "raised": HOSTILE, "flow": HOSTILE, "sent": [HOSTILE]}
    found = shown(capsys, {**DELIVERY, **hostile}, as_json=as_json)
    assert as_json or len(found) < 5_000


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"event": "not loaded", "why": f"shop: {HOSTILE}"}, "nothing is served; save a file to load again"),
        ({"event": "changed", "files": ["shop/flow.py"]}, "changed: shop/flow.py; loading again"),
        (
            LOADED | {"functions": {"place": ["orders"], "none": []}, "notes": ["a note"]},
            "none reads no queue",
        ),
        (
            LOADED | {"weather": [{"name": "dynamodb-away", "begins": START + 60_000, "ends": START + 660_000}]},
            "08:00:00.000  weather: dynamodb-away from 2027-01-15T08:01:00.000Z until 2027-01-15T08:11:00.000Z\n",
        ),
        (
            LOADED | {"environment": {"FLOWGUARD_TABLE": "a b"}},
            "In the other terminal as well:\n  export FLOWGUARD_TABLE='a b'",
        ),
        ({"event": "problem", "queue": "orders", "why": HOSTILE}, "orders: h"),
        (
            {**LOADED, "functions": {"shop-start": []}, "starts": ["shop-start"]},
            "shop-start starts runs at /_flowguard/starts/shop-start\n",
        ),
        ({"event": "start", "method": "POST", "status": 202}, "a run was asked for: status 202\n"),
        ({"event": "start", "method": "GET", "status": 410}, "a run was looked at: status 410\n"),
        ({"event": "died", "code": -9, "pid": 1}, "ended with code -9"),
        ({"event": "starting", "modules": ["shop", "mails"]}, "starting AWS and the functions of shop, mails\n"),
        ({"event": "killed"}, "comes back after the visibility timeout"),
        ({"event": "stopped", "state": None}, "stopped\n"),
        ({"event": "stopped", "state": "dir"}, "the state is in dir"),
    ],
    ids=lambda one: one.get("event") if isinstance(one, dict) else "",
)
def test_whatever_else_happens(capsys: pytest.CaptureFixture[str], said: dict[str, Any], says: str) -> None:
    assert says in shown(capsys, said)
    assert json.loads(shown(capsys, said, as_json=True))["event"] == said["event"]


def test_the_inspector_is_named_only_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    others = ["flowguard send MODULE:FLOW FILE", "flowguard list", "flowguard mailbox"]
    assert commands() == [*others, "flowguard ui"]
    monkeypatch.setattr(sys, "path", [])
    assert commands() == others

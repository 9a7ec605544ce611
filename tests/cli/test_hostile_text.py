"""One hostile text through every command: whatever a sender writes, no control of theirs reaches the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.attributes import Attribute, attributes_to
from tests.cli.test_explore import SOURCE
from tests.scene import START, Scene, scene

ROOT = Path(__file__).parents[2]
HOSTILE = "h\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\x7f\x00\rover\ttab\nREDRIVEN  next\u2028\u202eevil\u2066\ud800 end"
OBJECT = re.sub("[\x00-\x08\x0b-\x1f\ud800-\udfff]", "", HOSTILE) + "\r"
"""What an object may be called: the rest no queue takes."""
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def run(*arguments: str, code: int) -> Result:
    """Run a command, and check all that it printed."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


# -- dlq


@pytest.fixture
def dead() -> Iterator[Scene]:
    """Letters that say hostile things: one parked, one unsent, one that cannot be read."""
    with scene() as at:
        place = {"version": 1, "hop": 1, "object": OBJECT, "error": [HOSTILE, HOSTILE, START]}
        put(at, {**place, "redrive": 1}, notification())
        unsent = {"kind": "side", "to": f"sqs:{HOSTILE}", "id": HOSTILE, "attributes": {HOSTILE: ["String", HOSTILE]}}
        put(at, {**place, "unsent": unsent}, '{"n":"\x9b\u202e\r"}')
        put(at, {"hop": HOSTILE}, "x")
        yield at


def notification() -> str:
    """A body in which a sender can write any character."""
    arn = "arn:aws:sqs:us-east-1:123456789012:price-order"
    told = {"Type": "Notification", "MessageId": "m", "TopicArn": arn, "Message": HOSTILE}
    return json.dumps({**told, "Timestamp": "2026-01-02T03:04:05.678Z"})


def put(at: Scene, place: dict[str, Any], body: str) -> None:
    said = {
        "uniquerequestid": Attribute.string("run\u202e\x9b-1"),
        "requestedat": Attribute.number(START),
        "flowstage": Attribute.string("orders\u202e/price\x9border"),
        "flowguard": Attribute.string(json.dumps(place)),
    }
    attributes: Any = attributes_to(Attribute.to_sqs_api, said)
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)


def dlq(command: str, *arguments: str, code: int = 0) -> Result:
    return run("dlq", command, "dead", *arguments, "--wait", "0", code=code)


@pytest.mark.usefixtures("dead")
def test_a_list_of_dead_letters() -> None:
    shown = dlq("list", "--payload").stdout
    assert shown.splitlines()[-1] == "3 dead letters"
    assert not re.search("^REDRIVEN", shown, re.MULTILINE)
    rows = [json.loads(line) for line in dlq("list", "--payload", "--json").stdout.split("\n")[:-1]]
    assert [row["kind"] for row in rows] == ["parked", "unsent", "unreadable"]
    assert (rows[0]["object_id"], rows[0]["payload"]) == (OBJECT, HOSTILE)
    assert rows[0]["error"]["text"] == HOSTILE.replace("\ud800", r"\ud800"), "as any service can store it"


@pytest.mark.usefixtures("dead")
def test_one_dead_letter_shown_whole() -> None:
    for line in dlq("list", "--json").stdout.split("\n")[:-1]:
        shown = dlq("show", json.loads(line)["message_id"], "--payload").stdout
        assert not re.search("^REDRIVEN", shown, re.MULTILINE), "what follows a newline is indented"
        dlq("show", json.loads(line)["message_id"], "--payload", "--json")


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_redriven_and_dropped(options: tuple[str, ...]) -> None:
    dlq("drop", "--all", *options)
    dlq("redrive", "--all", "--yes", *options, code=1)
    dlq("drop", "--all", "--yes", *options)


@pytest.mark.usefixtures("dead")
def test_what_a_service_says() -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "Odd", "Message": HOSTILE}}, call.operation)

    with intercept(refuse):
        assert r"\x1b[2J" in dlq("list", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("dlq", "show", "dead", HOSTILE),
        ("dlq", "list", HOSTILE),
        ("dlq", "list", "dead", "--older-than", HOSTILE),
        ("dlq", "list", "dead", "--flow-class", f"m:{HOSTILE}"),
        ("dlq", f"list{HOSTILE}"),
        ("dlq", "list", "dead", f"--{HOSTILE}"),
        ("dlq", "list", "dead", HOSTILE),
        (HOSTILE,),
        (f"--{HOSTILE}",),
        ("replay", "x.json", "--flow", HOSTILE),
        ("replay", "x.json", "--crash", HOSTILE),
        ("explore", HOSTILE, "--messages", HOSTILE),
        ("explore", "m:F", "--messages", "x.json", "--table", HOSTILE),
        ("normalize", HOSTILE.replace("\x00", "")),
        ("normalize", HOSTILE),
    ],
)
@pytest.mark.usefixtures("dead")
def test_what_was_typed_and_is_wrong(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, list(arguments))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2)
    assert result.stderr
    assert CONTROL.findall(result.stdout + result.stderr) == []


# -- normalize, replay, demo


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a record that can be read, and two that cannot."""
    monkeypatch.chdir(ROOT)
    cart = json.loads((ROOT / "samples" / "validate_cart" / "01-request.json").read_text())
    cart["cart_id"] = HOSTILE
    good = {"messageId": HOSTILE, "receiptHandle": "r", "body": json.dumps(cart), "eventSource": "aws:sqs"}
    attribute = {"dataType": HOSTILE, "stringValue": HOSTILE}
    bad = {"messageId": HOSTILE, "receiptHandle": "r", "body": "x", "messageAttributes": {HOSTILE: attribute}}
    file = tmp_path / "hostile\x9b\u202e.json"
    file.write_text(json.dumps({"Records": [good, bad, {"eventSource": f"aws:{HOSTILE}"}]}))
    return str(file)


def test_records_in_the_one_shape(records: str) -> None:
    result = run("normalize", records, code=2)
    assert json.loads(result.stdout)["messageId"] == HOSTILE
    assert len(result.stderr.split("\n")) == 3, "a line for each of the bad ones"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_replay(records: str, options: tuple[str, ...]) -> None:
    flow = ("--flow", "flows.validate_cart.flow:ValidateCart")
    result = run("replay", records, *flow, *options, code=2)
    assert len(result.stderr.split("\n")) == 4
    assert r"\x1b" in result.stdout or r"\u001b" in result.stdout


# -- explore


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A flow that counts twice, under the hostile name of the order."""
    monkeypatch.chdir(ROOT)
    source = SOURCE.replace('{"S": "monday"}', '{"S": order.order_id}')
    source = source.replace("one order was counted twice", "counted twice: \" + item['day'] + \"")
    source = source.replace('view.item("totals", day="monday")', 'next(iter(view.table("totals")), None)')
    (tmp_path / "hostile_totals.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "order.json"
    file.write_text(json.dumps({"order_id": OBJECT}))
    return str(file)


@pytest.mark.proof("explores a flow")
def test_an_exploration_its_report_and_its_page(order: str, tmp_path: Path) -> None:
    about = ("explore", "hostile_totals:CountOrders", "--messages", order)
    bounds = ("--bound", "0", "--walks", "0")
    page = tmp_path / "page.html"
    for options in (bounds, (*bounds, "--json"), ("--schedule", "a2"), ("--schedule", "a2", "--json")):
        shown = run(*about, *options, "--html", str(page), code=1).stdout
        assert not re.search("^REDRIVEN", shown, re.MULTILINE)
        assert CONTROL.findall(page.read_text(encoding="utf-8")) == []
        assert r"\x9b31m" in page.read_text(encoding="utf-8")


def test_a_stream_that_takes_little_gets_escapes() -> None:
    runner = CliRunner(charset="ascii")
    with scene() as at:
        put(at, {"hop": 1, "object": "Müller", "redrive": 1, "error": ["É", "ü", 1]}, "☕")
        for options in ((), ("--payload",), ("--json",)):
            result = runner.invoke(main, ["dlq", "list", "dead", "--wait", "0", *options])
            assert (result.exception, result.exit_code) == (None, 0)

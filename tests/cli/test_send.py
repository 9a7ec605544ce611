"""``flowguard send``: what reaches the queue, and what is refused before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from flowguard import PER_REQUEST, Done, Outcome, Stage, Step, Topic
from flowguard.cli import main
from flowguard.cli.connection import CommandTime
from flowguard.codecs import About, Encrypted
from flowguard.errors import KeyUnavailable
from flowguard.flow import Flow
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.cli.test_hostile_text import CONTROL, HOSTILE
from tests.scene import START, Scene, Script, scene, two_stages

ORDERS = "tests.scene:Orders"
SAMPLES = Path(__file__).parents[2] / "samples" / "validate_cart"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def send(at: Scene, *arguments: str, code: int = 0, stdin: str | bytes = "") -> Result:
    result = CliRunner().invoke(main, ["send", *arguments], obj=CommandTime(at.clock), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def received(at: Scene, queue: str = "price-order") -> list[Any]:
    sqs = at.aws.client("sqs")
    answer = sqs.receive_message(
        QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"],
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    )
    return answer.get("Messages", [])


# -- to a flow, later


@pytest.mark.parametrize(
    "when", [("--after", "10m"), ("--at", "2027-01-15T08:10:00Z"), ("--at", "2027-01-15T10:10:00+02:00")]
)
def test_a_request_that_is_sent_later_is_for_that_moment(at: Scene, when: tuple[str, str]) -> None:
    asked = (ORDERS, "--payload", '{"order_id":"o1"}', "--request-id", "run-7", *when)
    told = send(at, *asked).stdout
    assert told == "SENT  orders of o1: request run-7 to sqs:price-order, for 2027-01-15T08:10:00.000Z\n"
    assert received(at) == [], "SQS has it, and shows it later"
    shown = send(at, *asked, "--dry-run").stdout
    assert shown.startswith("would be sent to sqs:price-order in 10 min\n")
    [line] = send(at, *asked, "--dry-run", "--json").stdout.splitlines()
    assert json.loads(line)["delay"] == 600
    assert json.loads(line)["attributes"]["requestedat"] == str(START + 600_000)


# -- to a flow


def test_a_request_starts_a_run(at: Scene) -> None:
    said = send(at, ORDERS, "--payload", '{"order_id":"o1"}', "--request-id", "run-7").stdout
    assert said == "SENT  orders of o1: request run-7 to sqs:price-order\n"
    [message] = received(at)
    at.handler({"Messages": [{**message, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order"}]})
    item = at.item()
    assert item is not None
    assert (item.request_id, item.status) == ("run-7", Status.RUNNING)


def test_the_ids_as_json(at: Scene) -> None:
    said = json.loads(send(at, ORDERS, "--payload", '{"order_id":"o1"}', "--json").stdout)
    [message] = received(at)
    own = message["MessageAttributes"]["uniquerequestid"]["StringValue"]
    assert said == {
        "flow": "orders",
        "to": "sqs:price-order",
        "request_id": own,
        "requested_at": START,
        "object_id": "o1",
        "message_id": message["MessageId"],
    }


def test_a_payload_from_a_file_and_from_standard_input(at: Scene, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"order_id": "o1"}', encoding="utf-16")
    send(at, ORDERS, str(file))
    send(at, ORDERS, "-", stdin='{"order_id": "o2"}')
    assert [json.loads(one["Body"])["order_id"] for one in received(at)] == ["o1", "o2"]


@pytest.mark.parametrize("name", ["price-order", "staging-price-order"])
def test_a_queue_is_named_as_in_the_code_or_as_at_aws(at: Scene, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWGUARD_NAMES", "staging-*")
    at.aws.create_queue("staging-price-order")
    send(at, name, "--payload", "{}")
    assert (len(received(at)), len(received(at, "staging-price-order"))) == (0, 1)


PLACED = "arn:aws:sns:us-east-1:123456789012:placed"


class Place(Stage[dict[str, Any]], name="place", inbox=Topic(PLACED)):
    def handle(self, order: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Placing(Flow, name="placing", object_id=PER_REQUEST):
    stages = (Place,)


@pytest.mark.parametrize(
    ("target", "place"),
    [
        (ORDERS, "sqs:price-order (staging-price-order at AWS)"),
        ("price-order", "sqs:price-order (staging-price-order at AWS)"),
        ("arn:aws:sqs:us-east-1:123456789012:other", "sqs:arn:aws:sqs:us-east-1:123456789012:other"),
        (f"{__name__}:Placing", f"sns:{PLACED} ({PLACED.replace('placed', 'staging-placed')} at AWS)"),
    ],
)
def test_it_says_where_a_message_goes_under_a_rule_of_the_names(
    at: Scene, target: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWGUARD_NAMES", "staging-*")
    shown = send(at, target, "--payload", '{"order_id":"o1"}', "--dry-run").stdout
    assert shown.splitlines()[0] == f"would be sent to {place}"


@pytest.mark.parametrize(("target", "more"), [(ORDERS, ""), ("price-order", ": id ")])
def test_it_says_where_a_message_has_gone_under_a_rule_of_the_names(
    at: Scene, target: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWGUARD_NAMES", "staging-*")
    at.aws.create_queue("staging-price-order")
    told = send(at, target, "--payload", '{"order_id":"o1"}').stdout
    assert f" to sqs:price-order (staging-price-order at AWS){more}" in told


def test_a_dry_run_sends_nothing(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        shown = send(at, ORDERS, "--payload", '{"order_id":"o1"}', "--request-id", "r", "--dry-run").stdout
        told = json.loads(send(at, ORDERS, "--payload", '{"order_id":"o1"}', "--dry-run", "--json").stdout)
    assert calls.calls == []
    assert shown.splitlines()[0] == "would be sent to sqs:price-order"
    assert "  uniquerequestid: r" in shown.splitlines()
    assert shown.splitlines()[-1] == '  {"order_id":"o1","note":""}'
    assert (told["to"], told["body"]) == ("sqs:price-order", '{"order_id":"o1","note":""}')


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ('{"note":"n"}', "order_id: Field required"),
        ('{"order_id":7}', "order_id: Input should be a valid string"),
        ("[]", "the payload of orders/price-order is no Order: the whole"),
        ("not json", "the whole: Invalid JSON"),
        ("", "-: empty"),
        (json.dumps({"order_id": HOSTILE}), "the whole: Invalid JSON"),
        ('{"order_id":""}', "the object"),
        (json.dumps({"order_id": "o" * 2_000_000}), "of at most 1,024"),
        (json.dumps({"order_id": "o1", "note": "n" * 2_000_000}), "bytes"),
    ],
)
def test_a_payload_that_the_flow_would_refuse_is_not_sent(at: Scene, payload: str, says: str) -> None:
    said = send(at, ORDERS, "-", stdin=payload, code=2).stderr
    assert says in said
    assert "Nothing was sent" in said
    assert len(said) < 2_000
    assert received(at) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((ORDERS,), "give either a FILE or --payload"),
        ((ORDERS, "x.json", "--payload", "{}"), "give either a FILE or --payload"),
        ((ORDERS, "no-such.json"), "no-such.json: No such file or directory"),
        (("tests.scene:Nothing", "--payload", "{}"), "tests.scene has no 'Nothing'"),
        ((ORDERS, "--payload", "{}", "--object", ""), "--object"),
        ((ORDERS, "--payload", "{}", "--request-id", "r" * 2_000), "--request-id"),
        *(
            (("orders", "--payload", "x", option, "o1"), "are for a flow; write MODULE:FLOW")
            for option in ("--object", "--request-id", "--at", "--after")
        ),
        *(
            ((ORDERS, "--payload", "{}", "--at", text), f"'{text}' is no time with its zone; write")
            for text in ("now", "2027-01-15", "2027-01-15T08:10:00")
        ),
        *(
            (
                (ORDERS, "--payload", '{"order_id":"o1"}', *late),
                "needs FLOWGUARD_SCHEDULER_ROLE, the ARN of a role. Nothing",
            )
            for late in (("--after", "901s"), ("--at", "2027-01-15T08:15:01Z"))
        ),
        ((ORDERS, "--payload", "{}", "--after", "soon"), "'soon' is no length of time; write 90s"),
        (
            (ORDERS, "--payload", '{"order_id":"o1"}', "--after", "1d", "--at", "2027-01-15T08:10:00Z"),
            "at and after both say when; leave one out. Nothing was sent",
        ),
        (("no queue", "--payload", "x"), "a queue has a name"),
        (("nowhere", "--payload", "x"), "queue nowhere: does not exist; check its name, the region and the account"),
        (("emails", "--payload", "\x00"), "--payload: a message to sqs:emails"),
        ((ORDERS, "--payload", '{"order_id":"\udcff"}'), "Nothing was sent"),
        (("emails", "--payload", "\udcff"), "--payload: a message to sqs:emails"),
        (("emails", "--payload", ""), "--payload: a message to sqs:emails"),
        (("emails", "--payload", "x" * 2_000_000), "--payload: a message to sqs:emails"),
    ],
)
def test_what_cannot_be_sent(at: Scene, arguments: tuple[str, ...], says: str) -> None:
    assert says in send(at, *arguments, code=2).stderr
    assert received(at) == received(at, "emails") == []


def test_a_flow_whose_queue_is_not_there(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="price-order")["QueueUrl"])
    said = send(at, ORDERS, "--payload", '{"order_id":"o1"}', code=2).stderr
    assert said.startswith("Error: queue price-order: does not exist; ")


@pytest.mark.parametrize(("operation", "code"), [("GetQueueUrl", 2), ("SendMessageBatch", 1)])
@pytest.mark.parametrize("arguments", [(ORDERS, "--payload", '{"order_id":"o1"}'), ("price-order", "--payload", "x")])
def test_access_denied(at: Scene, arguments: tuple[str, ...], operation: str, code: int) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": HOSTILE}}, operation)
        return proceed()

    with intercept(deny):
        said = send(at, *arguments, "--json", code=code)
    assert said.stdout == ""
    assert "denied" in said.stderr.lower()
    assert "price-order" in said.stderr


# -- to a queue


def test_a_recorded_record_is_sent_as_it_is(at: Scene) -> None:
    sample = SAMPLES / "05-sns-to-sqs.json"
    [recorded] = json.loads(sample.read_text(encoding="utf-8"))["Records"]
    said = json.loads(send(at, "emails", str(sample), "--json").stdout)
    [message] = received(at, "emails")
    assert message["Body"] == recorded["body"]
    assert said == {"to": "sqs:emails", "message_id": message["MessageId"]}


def test_attributes_of_a_record_are_sent_too(at: Scene) -> None:
    given = {
        "uniquerequestid": {"stringValue": "run-1", "dataType": "String"},
        "picture": {"binaryValue": "AAH/", "dataType": "Binary"},
    }
    event = {
        "Records": [
            {"messageId": f"m{number}", "body": f"b{number}", "messageAttributes": given, "eventSource": "aws:sqs"}
            for number in (1, 2)
        ]
    }
    said = send(at, "emails", "-", stdin=json.dumps(event)).stdout
    assert [line.rpartition(" ")[0] for line in said.splitlines()] == [
        "SENT  message 1 of 2 to sqs:emails: id",
        "SENT  message 2 of 2 to sqs:emails: id",
    ]
    for number, message in enumerate(received(at, "emails"), 1):
        assert message["Body"] == f"b{number}"
        assert message["MessageAttributes"]["uniquerequestid"]["StringValue"] == "run-1"
        assert message["MessageAttributes"]["picture"]["BinaryValue"] == b"\x00\x01\xff"


@pytest.mark.parametrize("text", ["", "{", '{"Records":[]}', '{"Records":[{"eventSource":"aws:sqs","body":7}]}'])
def test_a_file_without_records_sends_nothing(at: Scene, text: str) -> None:
    assert "Nothing was sent" in send(at, "emails", "-", stdin=text, code=2).stderr
    assert received(at, "emails") == []


# -- to a flow with a codec


CODEC = Encrypted("alias/orders", compress=False)


class Sealed(Flow, name="orders", object_id="order_id", dead_letters="dead", codec=CODEC):
    stages = two_stages(Script())


class Away:
    """A codec whose keys do not answer."""

    def seal(self, data: bytes, about: About) -> bytes:
        raise KeyUnavailable("alias/orders", "AccessDeniedException: denied")

    def open(self, sealed: bytes, about: About) -> bytes:
        raise KeyUnavailable("alias/orders", "AccessDeniedException: denied")


class Unsealable(Flow, name="orders", object_id="order_id", dead_letters="dead", codec=Away()):
    stages = two_stages(Script())


SEALED = "tests.cli.test_send:Sealed"
NOTED = '{"order_id":"o1","note":"MARKERWORD"}'


def test_a_request_to_a_flow_with_a_codec_is_sealed_and_its_function_opens_it() -> None:
    with scene(lambda script: Sealed) as at:
        said = send(at, SEALED, "--payload", NOTED).stdout
        assert said.startswith("SENT  orders of o1: request ")
        [message] = received(at)
        assert "flowguard.sealed" in json.loads(message["Body"])
        assert "MARKERWORD" not in json.dumps(message)
        at.handler({"Messages": [{**message, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order"}]})
        item = at.item_of(CODEC)
        assert (item.status, item.state) == (Status.RUNNING, '{"total":7}')


def test_what_would_be_sent_to_a_flow_with_a_codec_is_shown_as_it_would_travel() -> None:
    with scene(lambda script: Sealed) as at:
        for options in ((), ("--json",)):
            said = send(at, SEALED, "--payload", NOTED, "--dry-run", *options).stdout
            assert "flowguard.sealed" in said
            assert "MARKERWORD" not in said
        assert received(at) == []


def test_a_key_that_does_not_answer_is_named_and_nothing_is_sent() -> None:
    with scene(lambda script: Unsealable) as at:
        said = send(at, "tests.cli.test_send:Unsealable", "--payload", NOTED, code=2)
        assert "the key alias/orders cannot be used now: AccessDeniedException: denied. Nothing was sent" in said.stderr
        assert received(at) == []


# -- whose work it is


def test_a_request_says_whose_work_it_is(at: Scene) -> None:
    send(at, ORDERS, "--payload", '{"order_id":"o1"}', "--group", "acme")
    [message] = received(at)
    assert message["Attributes"]["MessageGroupId"] == "acme"
    assert json.loads(message["MessageAttributes"]["flowguard"]["StringValue"])["tenant"] == "acme"


def test_a_message_says_whose_work_it_is(at: Scene) -> None:
    send(at, "price-order", "--payload", "{}", "--group", "acme")
    send(at, "price-order", "--payload", "{}", "--group", "two words")
    send(at, "price-order", "--payload", "{}")
    own, digest, none = [message["Attributes"].get("MessageGroupId") for message in received(at)]
    assert (own, len(digest), none) == ("acme", 64, None)


@pytest.mark.parametrize("target", [ORDERS, "price-order"])
def test_an_empty_group_is_refused(at: Scene, target: str) -> None:
    said = send(at, target, "--payload", '{"order_id":"o1"}', "--group", "", code=2)
    assert "Invalid value for --group: a group is no empty text; leave the option out" in said.stderr
    assert received(at) == []


def test_the_group_is_shown_before_it_is_sent(at: Scene) -> None:
    asked = ("price-order", "--payload", "{}", "--group", "acme", "--dry-run")
    assert "\n  group: acme\n" in send(at, *asked).stdout
    assert json.loads(send(at, *asked, "--json").stdout)["group"] == "acme"
    assert "group" not in json.loads(send(at, *asked[:3], "--dry-run", "--json").stdout)
    assert "group" not in send(at, *asked[:3], "--dry-run").stdout


def test_a_recorded_message_keeps_the_group_of_its_standard_queue(at: Scene, tmp_path: Path) -> None:
    def sent(queue: str) -> Any:
        arn = f"arn:aws:sqs:us-east-1:123456789012:{queue}"
        record: dict[str, Any] = {
            "messageId": "m1",
            "receiptHandle": "h",
            "body": "{}",
            "eventSourceARN": arn,
            "eventSource": "aws:sqs",
        }
        record |= {"attributes": {"MessageGroupId": "acme"}, "messageAttributes": {}}
        (tmp_path / "event.json").write_text(json.dumps({"Records": [record]}), encoding="utf-8")
        return json.loads(send(at, "price-order", str(tmp_path / "event.json"), "--dry-run", "--json").stdout)

    assert sent("a")["group"] == "acme"
    assert "group" not in sent("a.fifo")

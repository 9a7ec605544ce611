"""``flowguard dlq``, as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result
from rich.progress import Progress

from flowguard.cli import letter_rows, main
from flowguard.errors import Reject
from flowguard.flow import Flow
from flowguard.operate.moments import duration
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import ErrorNote
from tests.aws.dead_letters.letters import work
from tests.scene import ENGINES, START, OrderState, Scene, Script, scene, two_stages

TARIFF = "no such tariff"
NONE: dict[str, list[str]] = {}


@pytest.fixture(params=ENGINES)
def at(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Three letters of three objects."""
    with scene(engine=request.param) as found:
        found.script.pricing = reject
        found.deliver(*(found.order(f"o{i}", request_id=f"run-{i}") for i in range(1, 4)))
        found.script.pricing = lambda step: None
        yield found


def reject(step: Step[OrderState]) -> None:
    raise Reject(TARIFF)


def dlq(command: str, *arguments: str, queue: str = "dead") -> Result:
    return CliRunner().invoke(main, ["dlq", command, queue, *arguments, "--wait", "0"])


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def listed(*arguments: str) -> list[dict[str, Any]]:
    result = dlq("list", "--json", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return rows(result)


def test_what_it_has_shown_before_it_asks_is_not_held_by_another_reader(at: Scene) -> None:
    """SQS's numbers follow within a minute."""
    looks: list[str] = []

    def lag(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        looks.extend([call.operation] if call.operation == "GetQueueAttributes" else [])
        if call.operation == "GetQueueAttributes" and len(looks) == 2:
            answer["Attributes"]["ApproximateNumberOfMessagesNotVisible"] = "3"
        return answer

    with intercept(lag):
        result = CliRunner().invoke(main, ["dlq", "redrive", "dead", "--all", "--wait", "0"], input="y\n")
    assert (result.stdout.endswith("\n3 REDRIVEN\n"), "another reader" in result.stderr) == (True, False)
    assert (result.exit_code, len(looks) >= 2) == (0, True)


@pytest.mark.parametrize(("of_the_group", "pace"), [(1, "1"), (10, "20")])
def test_a_group_that_may_have_more_is_no_failure_where_sqs_counts_no_more(
    at: Scene, of_the_group: int, pace: str
) -> None:
    done = at.order("done")
    at.deliver(done, at.second(object_id="done"))
    queue = at.aws.create_queue("dead.fifo", FifoQueue="true")
    for number in range(of_the_group):
        at.aws.client("sqs").send_message(
            QueueUrl=queue,
            MessageBody=done.text,
            MessageAttributes=attributes_to(Attribute.to_sqs_api, done.attributes()),
            MessageGroupId="done",
            MessageDeduplicationId=str(number),
        )
    result = dlq("redrive", "--all", "--yes", "--per-second", pace, queue="dead.fifo")
    assert result.stdout.endswith(f"\n{of_the_group} COMPLETED\n")
    assert "a group of this FIFO queue has shown as many letters as were asked for at once" in result.stderr
    assert result.exit_code == 0


def ids() -> dict[str, str]:
    """Message ids by object."""
    return {row["object_id"]: row["message_id"] for row in listed()}


# -- list, show


def test_a_list_is_a_table_without_payloads(at: Scene) -> None:
    result = dlq("list")
    assert (result.exit_code, result.stderr) == (0, "")
    heading, *lines, count = result.stdout.splitlines()
    assert heading.split() == ["id", "stage", "object", "hop", "redrive", "error", "age", "seen"]
    assert count == "3 dead letters"
    assert all("orders/price-order" in line and TARIFF in line for line in lines)
    assert "order_id" not in result.stdout
    assert "order_id" in dlq("list", "--payload").stdout


def test_a_list_has_the_last_error_before_the_first(at: Scene) -> None:
    at.script.pricing = reject
    at.deliver(at.order("o9", request_id="run-9", retry=2, first_error=ErrorNote("Timeout", "no answer", START)))
    [row] = [row for row in listed("--error", TARIFF) if row["object_id"] == "o9"]
    assert (row["error"]["type"], row["last_error"]["type"]) == ("Timeout", "Reject")
    assert [row["object_id"] for row in listed("--error", "Timeout")] == ["o9"]
    assert "Reject: no such tariff; at first Timeout: no answer" in dlq("list", "--error", "Timeout").stdout
    shown = dlq("show", row["message_id"]).stdout
    assert "error          Timeout: no answer" in shown
    assert "last error     Reject: no such tariff" in shown


def test_a_list_of_an_inbox_says_that_it_is_none_of_dead_letters(at: Scene) -> None:
    url = at.aws.client("sqs").get_queue_url(QueueName="price-order")["QueueUrl"]
    at.aws.client("sqs").send_message(QueueUrl=url, MessageBody='{"order_id":"o4"}')
    assert "price-order seems to be no queue of dead letters" in dlq("list", queue="price-order").stderr
    assert dlq("list").stderr == ""


def test_what_no_queue_has_moved_is_not_said_to_be_given_up_by_sqs() -> None:
    """A schedule whose target takes nothing sends its message itself."""
    with scene() as at:
        sqs = at.aws.client("sqs")
        dead = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
        source = sqs.create_queue(QueueName="given-up", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})
        sqs.send_message(QueueUrl=source["QueueUrl"], MessageBody='{"order_id":"o8"}')
        for _ in range(2):
            sqs.receive_message(QueueUrl=source["QueueUrl"])
        [moved] = dlq("list").stdout.splitlines()[1:-1]
        assert "given up by SQS" in moved
        dlq("drop", "--all", "--yes")
        sqs.send_message(QueueUrl=dead, MessageBody='{"order_id":"o7"}')
        [sent] = dlq("list").stdout.splitlines()[1:-1]
        assert "sent here, as by a schedule that cannot deliver it" in sent


def test_an_empty_queue_is_said_to_be(at: Scene) -> None:
    assert dlq("list", queue="emails").stdout == "0 dead letters\n"


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ((), ["o1", "o2", "o3"]),
        (("--flow", "orders"), ["o1", "o2", "o3"]),
        (("--flow", "carts"), []),
        (("--flow", "tests.scene:Orders"), ["o1", "o2", "o3"]),
        (("--stage", "price-order", "--request-id", "run-2"), ["o2"]),
        (("--stage", "close-order"), []),
        (("--error", "Reject"), ["o1", "o2", "o3"]),
        (("--error", "NO SUCH"), ["o1", "o2", "o3"]),
        (("--error", "Rej"), []),
        (("--older-than", "1h"), []),
        (("--older-than", "0s", "--limit", "5"), ["o1", "o2", "o3"]),
    ],
)
def test_filters_narrow_the_list(at: Scene, filters: tuple[str, ...], found: list[str]) -> None:
    at.aws.client("sqs")  # the letters were sent by the system's clock, some milliseconds ago
    assert sorted(row["object_id"] for row in listed(*filters)) == found


def test_no_payload_shows_a_live_token() -> None:
    token = "k1." + "x" * 84
    with scene() as at:
        at.script.pricing = reject
        at.deliver(at.message(body=json.dumps({"order_id": "o1", "link": f"https://example.com/?token={token}"})))
        [row] = listed("--payload")
        [shown] = rows(dlq("show", row["message_id"], "--payload", "--json"))
        texts = (row["payload"], shown["payload"], dlq("list", "--payload").stdout)
        assert all("<token>" in text and token not in text for text in texts)


def test_a_list_that_stopped_says_so(at: Scene) -> None:
    result = dlq("list", "--limit", "2", "--json")
    assert len(rows(result)) == 2
    assert result.stderr == "stopped at 2; there may be more, see --limit\n"


def test_one_letter_is_shown_whole_its_payload_only_if_asked_for(at: Scene) -> None:
    name = ids()["o2"]
    shown = dlq("show", name)
    assert shown.exit_code == 0
    assert "request id     run-2\n" in shown.stdout
    assert f"error          Reject: {TARIFF}\n" in shown.stdout
    assert "payload" not in shown.stdout
    [row] = rows(dlq("show", name, "--payload", "--json"))
    assert row["payload"] == '{"order_id":"o2"}'


def test_a_letter_that_is_not_there_is_named(at: Scene) -> None:
    result = dlq("show", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("nobody: no such letter is visible now")


def test_looking_consumes_nothing(at: Scene) -> None:
    for _ in range(3):
        assert len(listed()) == 3
        dlq("show", "nobody")
        dlq("drop", "--all")


# -- redrive


def test_all_letters_go_back_and_it_is_said_of_each(at: Scene) -> None:
    result = dlq("redrive", "--all", "--yes")
    assert (result.exit_code, result.stderr) == (0, "")
    *lines, summary = result.stdout.splitlines()
    assert summary == "3 REDRIVEN"
    assert all(line.startswith("REDRIVEN    ") and "→ arn:aws:sqs:" in line for line in lines)
    assert (len(at.sent("price-order")), at.sent("dead")) == (3, [])


def test_a_letter_that_fails_again_at_once_stays_and_the_redrive_ends(at: Scene) -> None:
    def deliver_what_was_sent(call: ApiCall, proceed: Proceed) -> Response:
        """The function is as quick as the command: what it sends back is a letter again before the next page."""
        assert call.number < 200, "it goes on for ever"
        answer = proceed()
        if call.operation == "DeleteMessageBatch" and call.params["QueueUrl"].endswith("dead"):
            work(at, "price-order")
        return answer

    at.script.pricing = reject
    with intercept(deliver_what_was_sent):
        result = dlq("redrive", "--all", "--yes", "--json")
    assert result.exit_code == 1
    assert [row["verdict"] for row in rows(result)] == ["REDRIVEN"] * 3 + [None] * 3
    assert result.stderr.count("it arrived after this redrive began, and was left") == 3
    assert [row["redrive"] for row in listed()] == [2] * 3
    at.script.pricing = lambda step: None
    assert dlq("redrive", "--all", "--yes").exit_code == 0


def test_a_letter_that_arrives_while_others_are_dropped_stays_and_is_named(at: Scene) -> None:
    dropped: list[str] = []

    def late(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "DeleteMessageBatch" and not dropped:
            dropped.extend(entry["Id"] for entry in call.params["Entries"])
            at.deliver(at.order("late", request_id="run-late"))
        return answer

    at.script.pricing = reject
    with intercept(later_by_its_clock), intercept(late):
        result = dlq("drop", "--all", "--yes", "--json")
    assert result.exit_code == 1
    assert [(row["object_id"], row["deleted"]) for row in rows(result)][-1] == ("late", False)
    assert result.stderr.count("it arrived after this began, and was left") == 1
    assert len(dropped) == 3
    assert [row["object_id"] for row in listed()] == ["late"]
    assert dlq("drop", "--all", "--yes").exit_code == 0


def later_by_its_clock(call: ApiCall, proceed: Proceed) -> Response:
    """Make the time of the late letter a later one than that at which the queue was looked up."""
    answer = proceed()
    for message in answer.get("Messages", []) if call.operation == "ReceiveMessage" else []:
        if "run-late" in str(message):
            message["Attributes"]["SentTimestamp"] = str(int(message["Attributes"]["SentTimestamp"]) + 60_000)
    return answer


class NamedOrders(Flow, name="orders", object_id="order_id", request_id="note", dead_letters="dead"):
    """A flow that names its requests by their payload: a letter that it cannot read has no id that stays."""

    stages = two_stages(Script())


UNREADABLE = ("no JSON", '{"order_id":"o7"}', "no JSON")


@pytest.fixture
def unreadable() -> Iterator[Scene]:
    """Three letters that the flow could not read, two of them alike. Its function is as quick as the command."""
    with scene(lambda script: NamedOrders) as at:

        def work_at_once(call: ApiCall, proceed: Proceed) -> Response:
            assert call.number < 200, "it goes on for ever"
            answer = proceed()
            if call.operation == "DeleteMessageBatch" and call.params["QueueUrl"].endswith("dead"):
                work(at, "price-order")
            return answer

        url = at.aws.client("sqs").get_queue_url(QueueName="price-order")["QueueUrl"]
        for body in UNREADABLE:
            at.aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)
        work(at, "price-order")
        with intercept(work_at_once):
            yield at


def test_letters_that_their_stage_could_not_read_stay_unless_asked_for(unreadable: Scene) -> None:
    result = dlq("redrive", "--all", "--yes")
    assert (result.exit_code, result.stdout) == (1, "3 LEFT\n")
    assert result.stderr.count("its stage cannot read it") == 3
    assert result.stderr.count("with its id or with --unreadable sends it") == 3
    assert len(listed()) == 3


def test_each_unreadable_letter_goes_back_once_whatever_it_carries(unreadable: Scene) -> None:
    result = dlq("redrive", "--all", "--yes", "--unreadable", "--json")
    assert [row["verdict"] for row in rows(result)] == ["REDRIVEN"] * 3 + [None] * 3
    assert result.stderr.count("it arrived after this redrive began, and was left") == 3
    assert len(listed()) == 3


def test_an_unreadable_letter_that_is_named_was_asked_for(unreadable: Scene) -> None:
    chosen = listed()[0]["message_id"]
    [row] = rows(dlq("redrive", chosen, "--json"))
    assert (row["message_id"], row["verdict"]) == (chosen, "REDRIVEN")


def test_where_messages_are_signed_letters_are_signed_anew_and_forged_ones_stay(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", "k1:" + "x" * 32)
    assert dlq("redrive", "--all", "--yes").exit_code == 1
    result = dlq("redrive", "--all", "--yes", "--json")
    assert [json.loads(line)["failed"] for line in result.stdout.splitlines()] == [
        "it carries no signature; its stage would refuse it, too"
    ] * 3
    monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", "short")
    refused = dlq("redrive", "--all", "--yes")
    assert refused.exit_code == 2
    assert "FLOWGUARD_SIGNING_KEYS: key 1 is not id:secret" in refused.output
    assert "short" not in refused.output


def test_only_those_named_go_and_one_that_is_missing_is_a_failure(at: Scene) -> None:
    result = dlq("redrive", ids()["o3"], "nobody", "--json")
    assert result.exit_code == 1
    assert result.stderr.startswith("nobody: no such letter")
    [row] = rows(result)
    assert (row["verdict"], row["object_id"], row["deleted"], row["failed"]) == ("REDRIVEN", "o3", True, None)
    assert sorted(ids()) == ["o1", "o2"]


def test_each_letter_costs_one_read_and_ten_share_the_rest(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        dlq("redrive", "--all", "--yes")
    assert calls.count("dynamodb") == calls.count("dynamodb", "GetItem") == 3
    assert calls.count("sqs", "SendMessageBatch") == calls.count("sqs", "DeleteMessageBatch") == 1


def test_obsolete_letters_stay_unless_they_are_to_be_dropped(at: Scene) -> None:
    at.deliver(at.newer(object_id="o1"))
    first = dlq("redrive", "--all", "--yes", "--request-id", "run-1")
    assert first.exit_code == 0
    assert "SUPERSEDED" in first.stdout
    assert "request run-2 holds the object" in first.stdout
    assert "o1" in ids()
    second = dlq("redrive", "--all", "--yes", "--request-id", "run-1", "--drop-obsolete")
    assert "(deleted)" in second.stdout
    assert sorted(ids()) == ["o2", "o3"]


def test_what_could_not_be_sent_is_named_and_stays(at: Scene) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "KMS.Disabled", "Message": "the key"}}, call.operation)
        return proceed()

    with intercept(refuse):
        result = dlq("redrive", "--all", "--yes", "--to", "price-order")
    assert (result.exit_code, result.stdout) == (1, "3 FAILED\n")
    assert result.stderr.count("KMS.Disabled") == 3
    assert len(ids()) == 3


def test_a_flows_class_knows_the_queues_of_its_stages_and_the_objects_of_strangers(at: Scene) -> None:
    at.aws.create_queue("given-up")
    attributes: Any = attributes_to(Attribute.to_sqs_api, {"source": Attribute.string("shop")})
    at.aws.client("sqs").send_message(
        QueueUrl=at.aws.client("sqs").get_queue_url(QueueName="given-up")["QueueUrl"],
        MessageBody='{"order_id":"o9"}',
        MessageAttributes=attributes,
    )
    result = dlq("redrive", "--all", "--yes", "--flow-class", "tests.scene:Orders", "--json", queue="given-up")
    [row] = rows(result)
    assert (row["to"], row["object_id"], row["why"]) == ("price-order", "o9", "no run item: the run starts with it")


# -- messages that were not sent


def park(at: Scene, to: str) -> None:
    """A message that its destination refused for good, as it lies among the dead letters."""
    unsent = {"kind": "side", "to": to, "id": "run-9.1.0", "attributes": NONE}
    place = {"version": 1, "hop": 1, "object": "o9", "error": ["ClientError", "AccessDenied", 1], "unsent": unsent}
    said = {**at.message().attributes(), "flowguard": Attribute.string(json.dumps(place))}
    attributes: Any = attributes_to(Attribute.to_sqs_api, said)
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody='{"card":"4111"}', MessageAttributes=attributes)


def test_a_message_that_was_not_sent_is_listed_with_where_it_was_to_go_and_why() -> None:
    with scene() as at:
        park(at, "sqs:emails")
        assert "unsent to sqs:emails: ClientError: AccessDenied" in " ".join(dlq("list").stdout.split())
        [row] = listed()
        assert (row["kind"], row["to"], row["send_kind"], row["send_id"]) == (
            "unsent",
            "sqs:emails",
            "side",
            "run-9.1.0",
        )
        shown = dlq("show", row["message_id"]).stdout
        assert "kind           unsent\n" in shown
        assert "to             sqs:emails\n" in shown
        assert "error          ClientError: AccessDenied\n" in shown
        assert "4111" not in shown
        assert "4111" in dlq("show", row["message_id"], "--payload").stdout


def test_a_message_that_was_not_sent_goes_where_it_was_to_go() -> None:
    with scene() as at:
        park(at, "sqs:emails")
        result = dlq("redrive", "--all", "--yes")
        assert (result.exit_code, result.stderr) == (0, "")
        assert "orders/price-order o9: sent to where it was to go → emails\n" in result.stdout
        assert [found["Body"] for found in at.sent("emails")] == ['{"card":"4111"}']
        assert listed() == []


def test_a_message_to_another_account_needs_the_word() -> None:
    with scene() as at:
        park(at, "sns:arn:aws:sns:us-east-1:999999999999:told")
        refused = dlq("redrive", "--all", "--yes")
        assert (refused.exit_code, refused.stdout) == (1, "1 FAILED\n")
        assert "which is not in the account and region" in refused.stderr
        assert "NotFound" in dlq("redrive", "--all", "--yes", "--elsewhere").stderr, "it is tried"
        assert "unsent to sns:arn" in dlq("drop", "--all", "--yes").stdout
        assert listed() == []


# -- drop


def test_a_drop_only_says_what_it_would_do_until_it_is_told_yes(at: Scene) -> None:
    dry = dlq("drop", "--all")
    assert (dry.exit_code, dry.stdout.splitlines()[-1]) == (0, "3 WOULD DROP")
    assert len(ids()) == 3
    real = dlq("drop", ids()["o1"], "--yes")
    assert (real.exit_code, real.stdout.splitlines()[-1]) == (0, "1 DROPPED")
    assert f"orders/price-order o1: Reject: {TARIFF}" in real.stdout
    assert sorted(ids()) == ["o2", "o3"]


def test_nothing_to_do_is_no_failure(at: Scene) -> None:
    result = dlq("drop", "--all", "--yes", "--flow", "carts")
    assert (result.exit_code, result.stdout) == (0, "nothing to do: no letter was found\n")


class OlderProgress(Progress):
    """As rich's before 15."""

    def stop(self) -> None:
        super().stop()
        if not self.console.is_interactive:
            self.console.print()


def test_nothing_else_is_printed_whatever_rich_does_at_the_end(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_rows, "Progress", OlderProgress)
    result = dlq("drop", "--all", "--yes", "--flow", "carts")
    assert result.stdout == "nothing to do: no letter was found\n"


# -- how it is called


@pytest.mark.parametrize("command", ["redrive", "drop"])
def test_one_must_say_which_letters(command: str) -> None:
    for arguments in ((), ("m-1", "--all")):
        result = dlq(command, *arguments)
        assert result.exit_code == 2
        assert "--all" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--older-than", "soon"), "'soon' is no time; write 90s, 15m, 1h or 2d"),
        (("--flow-class", "tests.scene:Nothing"), "has no 'Nothing'; its flows: "),
        (("--flow-class", "nowhere"), "write MODULE:FLOW"),
        (("--visibility", "1"), "1 is not in the range"),
    ],
)
def test_a_wrong_option_says_what_is_right(arguments: tuple[str, ...], told: str) -> None:
    result = dlq("list", *arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_a_queue_that_does_not_exist_is_an_error_with_its_cure(at: Scene) -> None:
    result = dlq("list", queue="daed")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: queue 'daed': does not exist; "
        "check its name, the region and the account; its ARN or URL names all three\n"
    )


def test_a_table_that_does_not_exist_is_an_error_and_nothing_is_sent(at: Scene) -> None:
    result = dlq("redrive", "--all", "--yes", "--table", "runs")
    assert result.exit_code == 2
    assert "table 'runs': does not exist" in result.stderr
    assert (len(ids()), at.sent("price-order")) == (3, [])


def test_each_service_is_looked_for_where_it_was_said_to_be(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}

    def look(call: ApiCall, proceed: Proceed) -> Response:
        seen[call.service] = f"{call.client.meta.endpoint_url} {call.client.meta.region_name}"
        raise ClientError({"Error": {"Code": "Seen"}}, call.operation)

    urls = ("--endpoint-url", "http://sqs:1", "--dynamodb-endpoint-url", "http://db:2", "--region", "eu-west-1")
    with intercept(look):
        assert "Seen" in dlq("list", *urls).stderr
    assert seen == {"sqs": "http://sqs:1 eu-west-1"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "1 h"), (86_400, "1 d"), (10**7, "115 d")]
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_the_progress_of_a_redrive_is_seen_on_a_terminal_only(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "letters" not in dlq("redrive", ids()["o1"]).stdout
    monkeypatch.setattr("flowguard.cli.console.is_terminal", lambda: True)
    assert "━" in dlq("redrive", "--all", "--yes").stdout


@pytest.mark.slow("starts a process")
def test_as_a_process_it_needs_a_region() -> None:
    code = "from flowguard.cli import main; main(prog_name='flowguard')"
    environment = {"AWS_CONFIG_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-c", code, "dlq", "list", "dead"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr == "Error: queue 'dead': no region is known; give --region, or set AWS_DEFAULT_REGION\n"


@pytest.mark.parametrize("width", [60, 80, 120, None])
def test_a_list_breaks_no_identifier(at: Scene, width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if width is not None:
        monkeypatch.setattr("flowguard.cli.console.is_terminal", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
    found = listed()
    printed = click.unstyle(dlq("list").stdout).splitlines()
    words = " ".join(printed).split()
    assert all(row["message_id"] in words and row["object_id"] in words for row in found)
    assert words.count("orders/price-order") == 3
    assert width is None or max(map(len, printed)) <= width
    assert width is not None or len(printed) == 1 + 3 + 1

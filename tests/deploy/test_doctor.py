"""``flowguard doctor``: nothing is wrong with what the template makes, and each setting that is broken is found."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from boto3.session import Session
from click.testing import CliRunner, Result
from moto import mock_aws

from flowguard.cli import main
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding, Severity
from flowguard.deploy.live import LiveAccount, NotLive, redrive_of
from flowguard.deploy.needs import Deployment, QueueNeed
from flowguard.deploy.options import DeployOptions
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.deploy.deployed import REGION, Stack, code
from tests.deploy.everything import PLACED
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template

NEEDED: Final[Deployment] = needs(MODULES["everything"], options=options_of("everything"))
OPTIONS: Final = options_of("everything")
PACK: Final = "everything-pack"
KILLED: Final = "everything-killed"
HOUR: Final = 3_600_000


class OneOfEach:
    """A session that makes one client for each service: making them takes longer than all that they do here."""

    def __init__(self) -> None:
        self._session = Session("moto", "moto", region_name=REGION)
        self._clients: dict[str, Any] = {}

    def client(self, service: str, **options: Any) -> Any:
        key = f"{service} {options.get('region_name', REGION)}"
        if key not in self._clients:
            make: Any = self._session.client
            self._clients[key] = make(service, region_name=options.get("region_name", REGION))
        return self._clients[key]


SESSION: Final[Any] = OneOfEach()

TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}

HERE: Final = {"LocationConstraint": REGION}
JSON: Final = {"LogFormat": "JSON"}

THEIRS: Final = "arn:aws:sqs:eu-west-1:210987654321:theirs"
NOT_SERVED: Final = {"iam:simulate_principal_policy", "lambda:get_function_recursion_config"}
"""What moto does not serve."""


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """Everything, as the template makes it, beside what is said to be there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        made = Stack(template("everything"), SESSION)
        made.client("iam").create_role(RoleName="shipping", AssumeRolePolicyDocument=json.dumps(TRUST))
        made.client("sns").create_topic(Name="orders-placed")
        made.client("s3").create_bucket(Bucket="long-texts", CreateBucketConfiguration=HERE)
        made.client("secretsmanager").create_secret(Name="flowguard/keys", SecretString="keys")
        for name in ("parcels", "answers-here"):
            made.client("sqs").create_queue(QueueName=name)
        made.client("dynamodb").create_table(
            TableName="orders-a",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        )
        turn(made, "orders-a", restorable=True)
        made.make()
        yield made


def findings(stack: Stack, now: float | None = None, needed: Deployment = NEEDED) -> list[LiveFinding]:
    """What is wrong but for what moto does not serve, and a queue of another account."""
    return [one for one in all_findings(now, needed) if one.resource not in {*NOT_SERVED, THEIRS}]


def all_findings(
    now: float | None = None, needed: Deployment = NEEDED, options: DeployOptions = OPTIONS
) -> list[LiveFinding]:
    live = LiveAccount(SESSION)
    at = int((time.time() if now is None else now) * 1000)
    return list(examine(needed, options, live, now=at, most_runs=100))


def rules(stack: Stack) -> list[tuple[str, str, str]]:
    return [(one.rule, one.severity.value, one.resource) for one in findings(stack)]


# -- what is changed


def url(stack: Stack, name: str) -> str:
    return str(stack.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def attribute(stack: Stack, queue: str, **attributes: str) -> None:
    """Set attributes of a queue. Its policy, which moto drops where it is not given again, stays."""
    place = url(stack, queue)
    there = stack.client("sqs").get_queue_attributes(QueueUrl=place, AttributeNames=["Policy"]).get("Attributes", {})
    stack.client("sqs").set_queue_attributes(QueueUrl=place, Attributes={**there, **attributes})


def redrive(stack: Stack, queue: str, **changes: Any) -> None:
    found = stack.client("sqs").get_queue_attributes(QueueUrl=url(stack, queue), AttributeNames=["RedrivePolicy"])
    policy = {**json.loads(found["Attributes"]["RedrivePolicy"]), **changes}
    attribute(stack, queue, RedrivePolicy=json.dumps(policy))


def given_up_to(stack: Stack, queue: str, other: str) -> None:
    found = stack.client("sqs").get_queue_attributes(QueueUrl=url(stack, other), AttributeNames=["QueueArn"])
    redrive(stack, queue, deadLetterTargetArn=found["Attributes"]["QueueArn"])


def configure(stack: Stack, function: str, **changes: Any) -> None:
    stack.client("lambda").update_function_configuration(FunctionName=function, **changes)


def environment(stack: Stack, function: str, *without: str, **changes: str) -> None:
    found = stack.client("lambda").get_function_configuration(FunctionName=function)["Environment"]["Variables"]
    kept = {name: value for name, value in found.items() if name not in without}
    configure(stack, function, Environment={"Variables": {**kept, **changes}})


def turn(stack: Stack, table: str, *, restorable: bool) -> None:
    stack.client("dynamodb").update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": restorable}
    )


def expire(stack: Stack, *, enabled: bool, attribute: str = "ttl") -> None:
    stack.client("dynamodb").update_time_to_live(
        TableName="flowguard", TimeToLiveSpecification={"Enabled": enabled, "AttributeName": attribute}
    )


def remake(stack: Stack, **keys: str) -> None:
    stack.client("dynamodb").delete_table(TableName="lines")
    stack.client("dynamodb").create_table(
        TableName="lines",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in keys.items()],
        KeySchema=[{"AttributeName": name, "KeyType": "RANGE" if place else "HASH"} for place, name in enumerate(keys)],
    )
    turn(stack, "lines", restorable=True)


def run_item(stack: Stack, status: str, **more: Any) -> None:
    item: dict[str, Any] = {name: {"S": name} for name in ("request_id", "owner")}
    item |= {name: {"N": "1"} for name in ("requested_at", "version", "hop", "retry", "redrive", "epoch", "ttl")}
    item |= {"pk": {"S": "run#everything#o#1"}, "sk": {"S": "run"}, "status": {"S": status}, "stage": {"S": "pack"}}
    item |= {"done": {"BOOL": status == "WAITING"}, "committed_at": ago(0)}
    stack.client("dynamodb").put_item(TableName="flowguard", Item={**item, **more})


def wait(deadline: dict[str, str]) -> dict[str, Any]:
    """The attributes of a run that waits for an answer."""
    parts = {"deadline": deadline, "spare": {"N": "0"}, "room": {"N": "0"}, "answers": {"M": {}}}
    return {"waiting": {"SS": ["decided"]}, "wait": {"M": parts}}


def ago(ms: int) -> dict[str, str]:
    return {"N": str(int(time.time() * 1000) - ms)}


def resubscribe(stack: Stack, *, raw: bool) -> None:
    stack.client("sqs").create_queue(QueueName="another")
    stack.client("sns").subscribe(
        TopicArn=PLACED.arn,
        Protocol="sqs",
        Endpoint=f"arn:aws:sqs:{REGION}:123456789012:another",
        Attributes={"RawMessageDelivery": str(raw).lower()},
    )


def unsubscribe(stack: Stack) -> None:
    sns = stack.client("sns")
    for one in sns.list_subscriptions_by_topic(TopicArn=PLACED.arn)["Subscriptions"]:
        sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])


def resubscribe_without_redrive(stack: Stack) -> None:
    unsubscribe(stack)
    queue = f"arn:aws:sqs:{REGION}:123456789012:everything-pack"
    stack.client("sns").subscribe(TopicArn=PLACED.arn, Protocol="sqs", Endpoint=queue)


def unrule(stack: Stack) -> None:
    events = stack.client("events")
    for rule in events.list_rules()["Rules"]:
        events.remove_targets(Rule=rule["Name"], Ids=["queue"])
        events.delete_rule(Name=rule["Name"])


def source(stack: Stack, queue: str) -> dict[str, str]:
    return {"UUID": stack.sources[queue]}


def open_up(stack: Stack) -> None:
    """Let a queue come all at once. Its function reads nothing else."""
    stack.client("lambda").update_event_source_mapping(**source(stack, "everything-pack"), ScalingConfig={})


def misplace(stack: Stack) -> None:
    queue = f"arn:aws:sqs:{REGION}:123456789012:everything-events"
    stack.client("lambda").create_event_source_mapping(
        EventSourceArn=queue,
        FunctionName=PACK,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        ScalingConfig={"MaximumConcurrency": 20},
    )


def policy_of(stack: Stack, queue: str) -> Any:
    there = stack.client("sqs").get_queue_attributes(QueueUrl=url(stack, queue), AttributeNames=["Policy"])
    return json.loads(there["Attributes"]["Policy"])


def deny(principal: Any, queue: str = "everything-pack", action: str = "sqs:SendMessage") -> Callable[[Stack], None]:
    """Add a statement that denies to the policy of a queue."""
    statement = {"Effect": "Deny", "Principal": principal, "Action": action, "Resource": "*"}

    def change(stack: Stack) -> None:
        policy = policy_of(stack, queue)
        attribute(stack, queue, Policy=json.dumps({**policy, "Statement": [*policy["Statement"], statement]}))

    return change


def open_to_none(stack: Stack) -> None:
    stack.client("sqs").set_queue_attributes(QueueUrl=url(stack, "everything-events"), Attributes={"Policy": ""})


def pipe(stack: Stack) -> None:
    """Let two pipes read two queues, of which one's name begins with that of the other."""
    for number, name in enumerate(("everything-pack", "everything-pack-more")):
        source, target = (f"arn:aws:sqs:{REGION}:123456789012:{queue}" for queue in (name, "audit"))
        role = "arn:aws:iam::123456789012:role/audit"
        stack.client("pipes").create_pipe(Name=f"audit-{number}", Source=source, Target=target, RoleArn=role)


def read_too(stack: Stack) -> None:
    role = stack.client("iam").get_role(RoleName="shipping")["Role"]["Arn"]
    stack.client("lambda").create_function(
        FunctionName="audit", Runtime="python3.13", Role=role, Handler="a.b", Code={"ZipFile": code()}
    )
    queue = f"arn:aws:sqs:{REGION}:123456789012:everything-pack"
    stack.client("lambda").create_event_source_mapping(EventSourceArn=queue, FunctionName="audit")


Break = Callable[[Stack], object]
Expected = tuple[str, str, str]

BROKEN: Final[dict[str, tuple[Break, Expected]]] = {
    "a visibility time-out below the function's": (
        lambda at: attribute(at, "everything-pack", VisibilityTimeout="20"),
        ("visibility-short", "error", "everything-pack"),
    ),
    "a visibility time-out without margin": (
        lambda at: attribute(at, "everything-pack", VisibilityTimeout="60"),
        ("visibility-short", "warning", "everything-pack"),
    ),
    "receives of a record given up that throttles use up within hours": (
        lambda at: attribute(at, KILLED, VisibilityTimeout="300"),
        ("visibility-short", "warning", KILLED),
    ),
    "receives of an answer from outside that throttles use up within hours": (
        lambda at: attribute(at, "everything-events", VisibilityTimeout="300"),
        ("visibility-short", "warning", "everything-events"),
    ),
    "messages that expire in a longer outage": (
        lambda at: attribute(at, "everything-pack", MessageRetentionPeriod="172800"),
        ("retention-short", "warning", "everything-pack"),
    ),
    "a longer function": (
        lambda at: configure(at, PACK, Timeout=300),
        ("visibility-short", "error", "everything-pack"),
    ),
    "a queue that takes short messages": (
        lambda at: attribute(at, "parcels", MaximumMessageSize="262144"),
        ("message-size-small", "warning", "parcels"),
    ),
    "no redrive policy": (
        lambda at: attribute(at, "everything-pack", RedrivePolicy=""),
        ("redrive-missing", "error", "everything-pack"),
    ),
    "one receive": (
        lambda at: redrive(at, "everything-pack", maxReceiveCount=1),
        ("receives-few", "error", "everything-pack"),
    ),
    "fewer receives than the deployment says": (
        lambda at: redrive(at, "everything-pack", maxReceiveCount=99),
        ("receives-few", "warning", "everything-pack"),
    ),
    "records given up to the queue of somebody else": (
        lambda at: given_up_to(at, "everything-pack", "everything-dead-letters"),
        ("redrive-target-other", "warning", "everything-pack"),
    ),
    "dead letters that expire first": (
        lambda at: attribute(at, "to-ship.fifo", MessageRetentionPeriod="1209600"),
        ("dead-letters-expire-first", "error", "to-ship.fifo"),
    ),
    "dead letters": (
        lambda at: at.client("sqs").send_message(QueueUrl=url(at, "everything-dead-letters"), MessageBody="x"),
        ("dead-letters", "warning", "everything-dead-letters"),
    ),
    "no queue": (
        lambda at: at.client("sqs").delete_queue(QueueUrl=url(at, "replies")),
        ("queue-missing", "error", "replies"),
    ),
    "no queue that is given by its ARN": (
        lambda at: at.client("sqs").delete_queue(QueueUrl=url(at, "answers-here")),
        ("queue-missing", "error", "answers-here"),
    ),
    "no subscription": (unsubscribe, ("subscription-missing", "error", "everything-pack")),
    "raw delivery to one of two": (
        lambda at: resubscribe(at, raw=True),
        ("raw-delivery-mixed", "warning", PLACED.arn),
    ),
    "no dead-letter queue of a subscription": (
        resubscribe_without_redrive,
        ("undelivered-dropped", "warning", "everything-pack"),
    ),
    "no rule": (unrule, ("rule-missing", "error", "everything-events")),
    "no schedule group": (
        lambda at: at.client("scheduler").delete_schedule_group(Name="flowguard"),
        ("schedule-group-missing", "error", "flowguard"),
    ),
    "no topic": (
        lambda at: at.client("sns").delete_topic(TopicArn=PLACED.arn),
        ("topic-missing", "error", PLACED.arn),
    ),
    "no table": (
        lambda at: at.client("dynamodb").delete_table(TableName="lines"),
        ("table-missing", "error", "lines"),
    ),
    "other keys": (lambda at: remake(at, order_id="S"), ("keys-other", "error", "lines")),
    "other types of keys": (lambda at: remake(at, order_id="S", line="S"), ("keys-other", "error", "lines")),
    "items that never expire": (lambda at: expire(at, enabled=False), ("ttl-off", "warning", "flowguard")),
    "items that expire by another attribute": (
        lambda at: expire(at, enabled=True, attribute="committed_at"),
        ("ttl-other", "error", "flowguard"),
    ),
    "no restore": (
        lambda at: turn(at, "flowguard", restorable=False),
        ("not-restorable", "warning", "flowguard"),
    ),
    "no function": (
        lambda at: at.client("lambda").delete_function(FunctionName=PACK),
        ("function-missing", "error", PACK),
    ),
    "another handler": (lambda at: configure(at, PACK, Handler="x.y"), ("handler-other", "error", PACK)),
    "an old Python": (lambda at: configure(at, PACK, Runtime="python3.9"), ("runtime-other", "error", PACK)),
    "a function that is off": (
        lambda at: at.client("lambda").put_function_concurrency(FunctionName=PACK, ReservedConcurrentExecutions=0),
        ("function-off", "error", PACK),
    ),
    "a queue that delays": (
        lambda at: attribute(at, "everything-pack", DelaySeconds="60"),
        ("queue-delays", "warning", "everything-pack"),
    ),
    "a queue that denies": (
        deny({"AWS": "123456789012"}, action="sqs:ReceiveMessage"),
        ("queue-denied", "error", "everything-pack"),
    ),
    "a queue that keeps its rule out": (
        deny({"Service": "events.amazonaws.com"}, "everything-events"),
        ("queue-closed", "error", "everything-events"),
    ),
    "a queue without a policy that a rule feeds": (open_to_none, ("queue-closed", "error", "everything-events")),
    "a pipe that reads a queue too": (pipe, ("reader-other", "error", "everything-pack")),
    "a reader that is none of the flow's": (read_too, ("reader-other", "error", "everything-pack")),
    "no time for a whole batch": (lambda at: configure(at, PACK, Timeout=29), ("batch-slow", "error", PACK)),
    "another run table": (
        lambda at: environment(at, PACK, FLOWGUARD_TABLE="runs"),
        ("table-other", "error", PACK),
    ),
    "no signatures": (
        lambda at: environment(at, PACK, "FLOWGUARD_SIGNING_KEYS"),
        ("unsigned", "error", PACK),
    ),
    "no role for the scheduler": (
        lambda at: environment(at, PACK, "FLOWGUARD_SCHEDULER_ROLE"),
        ("setting-missing", "error", PACK),
    ),
    "a bucket that anybody may own": (
        lambda at: environment(at, PACK, "FLOWGUARD_BUCKET_OWNER"),
        ("bucket-owner-missing", "warning", PACK),
    ),
    "a setting that is none": (
        lambda at: environment(at, PACK, FLOWGUARD_TABEL="flowguard"),
        ("setting-unknown", "warning", PACK),
    ),
    "no event source": (
        lambda at: at.client("lambda").delete_event_source_mapping(**source(at, "everything-pack")),
        ("source-missing", "error", PACK),
    ),
    "an event source that is off": (
        lambda at: at.client("lambda").update_event_source_mapping(**source(at, "everything-pack"), Enabled=False),
        ("source-off", "error", PACK),
    ),
    "a queue of which all may come at once": (open_up, ("concurrency-open", "note", PACK)),
    "a queue of another function": (misplace, ("source-other", "error", PACK)),
    "no URL": (
        lambda at: at.client("lambda").delete_function_url_config(FunctionName="everything-answers-url"),
        ("url-missing", "warning", "everything-answers-url"),
    ),
    "a run that is stuck": (
        lambda at: run_item(at, "RUNNING", lease_until=ago(13 * HOUR)),
        ("run-stuck", "warning", "everything of o#1"),
    ),
    "a wait whose deadline is over": (
        lambda at: run_item(at, "WAITING", lease_until=ago(0), **wait(ago(2 * HOUR))),
        ("wait-late", "warning", "everything of o#1"),
    ),
}


@pytest.mark.proof("moto makes the whole deployment anew")
def test_nothing_is_wrong_with_what_the_template_makes(stack: Stack) -> None:
    assert rules(stack) == []


@pytest.mark.proof("moto makes the whole deployment anew")
def test_a_function_without_any_keys_makes_no_links_and_believes_no_answers(stack: Stack) -> None:
    environment(stack, PACK, "FLOWGUARD_TOKEN_KEYS", "FLOWGUARD_SIGNING_KEYS")
    assert sorted(rules(stack)) == [("setting-missing", "error", PACK), ("unsigned", "error", PACK)]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_function_without_a_bucket_needs_no_owner(stack: Stack) -> None:
    environment(stack, PACK, "FLOWGUARD_BUCKET_OWNER", "FLOWGUARD_BUCKET")
    assert "bucket-owner-missing" not in {one.rule for one in findings(stack)}


@pytest.mark.proof("moto makes the whole deployment anew for each setting")
@pytest.mark.parametrize("what", BROKEN)
def test_each_setting_that_is_broken_is_found_and_nothing_else(what: str, stack: Stack) -> None:
    broken, expected = BROKEN[what]
    broken(stack)
    found = findings(stack)
    assert [(one.rule, one.severity.value, one.resource) for one in found] == [expected]
    assert all(found[0].as_json().values())


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize(
    ("name", "said_by"),
    [
        ("replies", "where the code sends to it, or by name under [queues.…] of the options"),
        ("everything-pack", "inbox=, answers= or dead_letters="),
    ],
)
def test_where_a_queue_that_is_missing_is_named_is_said(name: str, said_by: str, stack: Stack) -> None:
    stack.client("sqs").delete_queue(QueueUrl=url(stack, name))
    [found] = [one for one in findings(stack) if one.rule == "queue-missing"]
    assert found.fix == f"create the queue {name}, or say where it is: {said_by}"


@pytest.mark.slow("asks about each part of a deployment")
def test_a_queue_of_another_account_is_named_and_not_looked_at(stack: Stack) -> None:
    [found] = [one for one in all_findings() if one.resource == THEIRS]
    assert (found.rule, found.severity) == ("queue-elsewhere", Severity.NOTE)
    assert found.what == "the queue is of account 210987654321, and was not looked at"


@pytest.mark.slow("asks about each part of a deployment")
def test_a_queue_that_is_given_by_its_arn_is_looked_at_in_its_region(stack: Stack) -> None:
    def elsewhere(queue: QueueNeed) -> QueueNeed:
        is_it = queue.name == "answers-here"
        return replace(queue, arn="arn:aws:sqs:eu-central-1:123456789012:answers-here") if is_it else queue

    needed = replace(NEEDED, queues=tuple(map(elsewhere, NEEDED.queues)))
    other = ("region-other", "arn:aws:sqs:eu-central-1:123456789012:answers-here")
    missing = ("queue-missing", "answers-here")
    assert [(one.rule, one.resource) for one in findings(stack, needed=needed)] == [other, missing]
    SESSION.client("sqs", region_name="eu-central-1").create_queue(
        QueueName="answers-here", Attributes={"MaximumMessageSize": "1024"}
    )
    small = ("message-size-small", "answers-here")
    assert [(one.rule, one.resource) for one in findings(stack, needed=needed)] == [other, small]


@pytest.mark.slow("asks about each part of a deployment")
def test_where_nobody_says_the_account_each_queue_is_looked_at(stack: Stack) -> None:
    def nobody(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        return {name: one for name, one in answer.items() if name != "Account"}

    with intercept(nobody):
        found = [(one.rule, one.severity) for one in all_findings() if one.resource in (THEIRS, "theirs")]
    assert found == [("queue-missing", Severity.ERROR)]


@pytest.mark.slow("asks about each part of a deployment")
def test_messages_that_outlive_their_items_are_found_in_each_queue(stack: Stack) -> None:
    attribute(stack, "everything-killed.fifo", MessageRetentionPeriod="1209600")
    assert rules(stack) == [
        ("dead-letters-expire-first", "error", "everything-killed.fifo"),
        *(("retention-long", "warning", name) for name in ("everything-news.fifo", "to-ship.fifo")),
    ]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_standard_queue_and_that_of_what_it_gives_up_keep_a_message_for_one_time(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both count from its first sending, and the later one keeps it longer."""
    (flow,) = {flow for function in NEEDED.functions for flow in function.definition.flows if flow.name == "everything"}
    both = 4 * 24 + 4.5 * 24
    for hours, expected in ((both, False), (4.5 * 24, False), (4.4 * 24, True)):
        monkeypatch.setattr(flow, "retention", timedelta(hours=hours))
        long = {one.resource for one in findings(stack) if one.rule == "retention-long"}
        assert (PACK in long, "to-ship.fifo" in long) == (expected, hours < both)


@pytest.mark.slow("asks about each part of a deployment")
def test_what_is_under_way_is_no_finding(stack: Stack) -> None:
    run_item(stack, "RUNNING", lease_until=ago(HOUR))
    stack.client("dynamodb").put_item(
        TableName="flowguard",
        Item={
            "pk": {"S": "run#another#o"},
            "sk": {"S": "run"},
            "status": {"S": "RUNNING"},
            "lease_until": ago(99 * HOUR),
        },
    )
    assert rules(stack) == []


# -- what moto does not do


class Refusing:
    """Refuses an operation, or answers it."""

    def __init__(self, operation: str, code: str = "AccessDeniedException", answer: Any = None) -> None:
        self.operation, self.code, self.answer = operation, code, answer

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation != self.operation:
            return proceed()
        if self.answer is not None:
            return dict(self.answer(call.params))
        raise call.client.exceptions.ClientError({"Error": {"Code": self.code, "Message": "no"}}, call.operation)


QUICK: Final = ("an old Python", "a function that is off", "a queue that delays", "a queue that denies")


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize("what", [*QUICK, "a reader that is none of the flow's"])
def test_a_setting_that_is_broken_is_found_quickly(what: str, stack: Stack) -> None:
    """The proof asks the others too."""
    broken, expected = BROKEN[what]
    broken(stack)
    assert rules(stack) == [expected]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_mapping_without_report_batch_item_failures_is_found(stack: Stack) -> None:
    """Moto has no way to take it off."""
    arn, bound = f"arn:aws:sqs:{REGION}:123456789012:everything-pack", {"MaximumConcurrency": 20}
    plain = {"EventSourceArn": arn, "State": "Enabled", "ScalingConfig": bound}

    def answer(params: Any) -> Any:
        return {"EventSourceMappings": [plain] if params.get("FunctionName") == PACK else []}

    with intercept(Refusing("ListEventSourceMappings", answer=answer)):
        found = [one for one in findings(stack) if one.resource == PACK]
    assert [(one.rule, one.severity) for one in found] == [("report-failures-missing", Severity.ERROR)]


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize(("loops", "expected"), [("Terminate", ["chain-stopped"]), ("Allow", [])])
def test_a_function_whose_chains_lambda_stops_is_found(loops: str, expected: list[str], stack: Stack) -> None:
    def answer(params: Any) -> Any:
        return {"RecursiveLoop": loops if params["FunctionName"] == PACK else "Allow"}

    with intercept(Refusing("GetFunctionRecursionConfig", answer=answer)):
        found = [one for one in findings(stack) if one.resource == PACK]
    assert [one.rule for one in found] == expected
    assert {one.severity for one in found} <= {Severity.ERROR}


@pytest.mark.slow("asks about each part of a deployment")
def test_queues_of_an_earlier_release_are_found_while_they_hold_messages(stack: Stack) -> None:
    sqs = stack.client("sqs")
    for name in ("to-weigh", "to-wrap", "to-wait"):
        sqs.create_queue(QueueName=name)
    sqs.send_message(QueueUrl=url(stack, "to-weigh"), MessageBody="x")
    sqs.send_message(QueueUrl=url(stack, "to-wait"), MessageBody="x", DelaySeconds=900)
    pages = {None: ["to-weigh", "to-wrap"], "more": ["to-wait", "gone", *(queue.name for queue in NEEDED.queues)]}

    def answer(params: Any) -> Any:
        assert params["TagFilters"] == [{"Key": "flowguard", "Values": ["everything"]}]
        names = pages[params.get("PaginationToken")]
        found = [{"ResourceARN": f"arn:aws:sqs:{REGION}:123456789012:{name}"} for name in names]
        return {"ResourceTagMappingList": found, "PaginationToken": "" if "PaginationToken" in params else "more"}

    with intercept(Refusing("GetResources", answer=answer)):
        found = findings(stack)
    assert [(one.rule, one.severity, one.resource) for one in found] == [
        ("queue-left-over", Severity.WARNING, "to-wait"),
        ("queue-left-over", Severity.WARNING, "to-weigh"),
    ]
    assert "as the dead-letter queue of a queue" in found[0].fix, "SQS moves messages out of no other queue"


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize(
    ("logging", "expected"),
    [
        ({"LogFormat": "JSON", "ApplicationLogLevel": "INFO"}, []),
        ({"LogFormat": "JSON"}, []),
        ({"LogFormat": "JSON", "ApplicationLogLevel": "WARN"}, ["log-level-high"]),
        ({"LogFormat": "Text"}, ["log-format-text"]),
        ({}, []),
    ],
)
def test_a_log_in_which_no_alarm_sees_events_is_found(logging: Any, expected: list[str], stack: Stack) -> None:
    """Moto keeps no configuration of logs."""
    configuration = stack.client("lambda").get_function_configuration

    def answer(params: Any) -> Any:
        return {**plain[params["FunctionName"]], "LoggingConfig": logging if params["FunctionName"] == PACK else JSON}

    plain = {one.name: configuration(FunctionName=one.name) for one in NEEDED.functions}
    with intercept(Refusing("GetFunctionConfiguration", answer=answer)):
        found = findings(stack)
    assert [(one.rule, one.severity, one.resource) for one in found] == [
        (rule, Severity.WARNING, PACK) for rule in expected
    ]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_bus_that_does_not_exist_is_found(stack: Stack) -> None:
    """Moto makes the bus ``default`` of each account."""
    with intercept(Refusing("DescribeEventBus", "ResourceNotFoundException")):
        found = findings(stack)
    assert [(one.rule, one.severity, one.resource) for one in found] == [("bus-missing", Severity.ERROR, "default")]


@pytest.mark.slow("asks about each part of a deployment")
def test_a_permission_that_is_missing_is_found(stack: Stack) -> None:
    asked = {}

    def answer(params: Any) -> Any:
        [resource] = params["ResourceArns"]
        entries = params.get("ContextEntries", ())
        asked[resource] = {one["ContextKeyName"]: one["ContextKeyValues"] for one in entries}
        denied = resource.endswith(":mails") or resource.endswith("table/lines")
        return {
            "EvaluationResults": [
                {
                    "EvalActionName": action,
                    "EvalDecision": "implicitDeny" if denied and "PutItem" in action else "allowed",
                }
                for action in params["ActionNames"]
            ]
        }

    with intercept(Refusing("SimulatePrincipalPolicy", answer=answer)):
        found = findings(stack)
    assert [(one.rule, one.resource) for one in found] == [("permission-missing", PACK)]
    assert "may not dynamodb:PutItem on arn:aws:dynamodb:eu-west-1:123456789012:table/lines" in found[0].what
    owned = {"aws:ResourceAccount": ["123456789012"]}
    assert asked["arn:aws:s3:::long-texts"] == {**owned, "s3:prefix": ["here/*"]}
    assert asked["arn:aws:s3:::long-texts/here/*"] == owned
    assert asked["arn:aws:dynamodb:eu-west-1:123456789012:table/lines"] == {}


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("GetQueueUrl", "sqs:get_queue_url"),
        ("GetQueueAttributes", "sqs:get_queue_attributes"),
        ("ListSubscriptionsByTopic", "sns:list_subscriptions_by_topic"),
        ("GetSubscriptionAttributes", "sns:get_subscription_attributes"),
        ("GetTopicAttributes", "sns:get_topic_attributes"),
        ("GetFunctionConcurrency", "lambda:get_function_concurrency"),
        ("DescribeLogGroups", "logs:describe_log_groups"),
        ("GetRole", "iam:get_role"),
        ("ListPipes", "pipes:list_pipes"),
        ("DescribeTable", "dynamodb:describe_table"),
        ("DescribeTimeToLive", "dynamodb:describe_time_to_live"),
        ("DescribeContinuousBackups", "dynamodb:describe_continuous_backups"),
        ("GetFunctionConfiguration", "lambda:get_function_configuration"),
        ("ListEventSourceMappings", "lambda:list_event_source_mappings"),
        ("GetFunctionUrlConfig", "lambda:get_function_url_config"),
        ("DescribeEventBus", "events:describe_event_bus"),
        ("ListRuleNamesByTarget", "events:list_rule_names_by_target"),
        ("GetScheduleGroup", "scheduler:get_schedule_group"),
        ("GetResources", "resourcegroupstaggingapi:get_resources"),
        ("Scan", "dynamodb:scan"),
    ],
)
def test_what_may_not_be_read_is_a_note_and_never_missing(operation: str, asked: str, stack: Stack) -> None:
    with intercept(Refusing(operation)):
        found = findings(stack)
    assert [(one.rule, one.severity, one.resource) for one in found] == [("not-read", Severity.NOTE, asked)]


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize(("off", "severity"), [(30, None), (120, "warning"), (-2_000, "error")])
def test_a_clock_that_is_wrong_is_found(off: int, severity: str | None, stack: Stack) -> None:
    moment = 1_800_000_000

    def answer(params: Any) -> Any:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(moment))
        return {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    with intercept(Refusing("GetCallerIdentity", answer=answer)):
        found = [one for one in findings(stack, now=moment + off) if one.rule == "clock-off"]
    assert [one.severity.value for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize("code", ["ExpiredToken", "UnrecognizedClientException"])
def test_credentials_that_are_not_accepted_are_no_finding(code: str, stack: Stack) -> None:
    with intercept(Refusing("DescribeTable", code)), pytest.raises(NotLive, match="sign in again"):
        findings(stack)


def test_a_redrive_policy_that_is_none_is_none() -> None:
    assert [dict(redrive_of({"RedrivePolicy": text})) for text in ("", "[1]", "{")] == [{}, {}, {}]


# -- the command


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "flows.orders.handlers", "--region", REGION, *arguments])


@pytest.mark.proof("derives all that whole flows need")
def test_the_exit_code_says_whether_anything_is_wrong(stack: Stack) -> None:
    at = Stack(template("orders"), SESSION)
    at.client("dynamodb").delete_table(TableName="flowguard")
    at.make()
    assert doctor().exit_code == 0
    turn(at, "stock", restorable=False)
    assert doctor().exit_code == 1
    assert doctor("--warnings-ok").exit_code == 0
    at.client("dynamodb").delete_table(TableName="orders")
    shown = doctor("--warnings-ok")
    assert shown.exit_code == 1
    assert "error: orders: the table does not exist [table-missing]" in shown.stdout
    assert "  fix: create it: order_id (S)" in shown.stdout
    assert shown.stdout.splitlines()[-1] == f"1 errors, 1 warnings, {len(NOT_SERVED) + 1} notes"
    told = [json.loads(line) for line in doctor("--json").stdout.splitlines()]
    assert [(one["rule"], one["severity"]) for one in told if one["resource"] not in NOT_SERVED] == [
        ("table-missing", "error"),
        ("not-restorable", "warning"),
        ("concurrency-open", "note"),
    ]
    assert {one["resource"] for one in told if one["rule"] == "not-read"} == NOT_SERVED


def test_without_credentials_and_without_a_region_it_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    shown = doctor()
    told = "there are no credentials; sign in, or choose a profile with AWS_PROFILE\n"
    assert (shown.exit_code, shown.stderr) == (2, f"Error: {told}")
    for credentials in names[:2]:
        monkeypatch.setenv(credentials, "nobody")
    shown = CliRunner().invoke(main, ["doctor", "flows.orders.handlers"])
    told = "no region is known; give --region, or set AWS_DEFAULT_REGION\n"
    assert (shown.exit_code, shown.stderr) == (2, f"Error: {told}")


def test_without_an_account_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    shown = doctor("--endpoint-url", "http://127.0.0.1:9")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "is --endpoint-url right" in shown.stderr

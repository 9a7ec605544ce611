"""What is found in a file is found in CloudFormation's language and in Terraform's, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.planned.legible import legible
from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.planned.terraform_plan import resources_of
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import FILE, Text, findings, found_in, read
from tests.deploy.planned.plans import plan_of
from tests.deploy.planned.test_files_looked_at import ELSEWHERE, forbid
from tests.deploy.templates import MODULES, options_of, text_of
from tests.deploy.topics import CLUSTER

Change = Callable[[Any], None]
CFN: Final = "cloudformation"
TF: Final = "terraform-json"
PACK: Final = "everything-pack"
KILLED: Final = "everything-killed"
NOTICE: Final = "changes-notice"
COPY: Final = "accounts-copy"
PLACE: Final = "orders-place"


def blocks(file: Any, type_: str, kind: str, **having: Any) -> Iterator[Any]:
    """The properties of the resources of a type, or of a kind in Terraform, that have these values."""
    if "Resources" in file:
        there = [each["Properties"] for each in file["Resources"].values() if each["Type"] == type_]
    else:
        there = [*file["resource"].get(kind, {}).values()]
    texts = {name: json.dumps(value) for name, value in having.items()}
    return (each for each in there if all(text.strip('"') in json.dumps(each) for text in texts.values()))


def queue(file: Any, name: str) -> Any:
    [given] = [
        each
        for each in blocks(file, "AWS::SQS::Queue", "aws_sqs_queue")
        if name in (each.get("QueueName"), each.get("name"))
    ]
    return given


def function(file: Any, name: str) -> Any:
    [given] = [
        each
        for each in blocks(file, "AWS::Lambda::Function", "aws_lambda_function")
        if name in (each.get("FunctionName"), each.get("function_name"))
    ]
    return given


def rule(file: Any) -> Any:
    return next(blocks(file, "AWS::Events::Rule", "aws_cloudwatch_event_rule"))


def url(file: Any) -> Any:
    return next(blocks(file, "AWS::Lambda::Url", "aws_lambda_function_url"))


def schedule(file: Any) -> Any:
    return next(blocks(file, "AWS::Scheduler::Schedule", "aws_scheduler_schedule", name="sweeps-tick"))


def unpaid(file: Any) -> None:
    """Let a rule be for events of another type."""
    pattern = {"source": ["bank"], "detail-type": ["Unpaid"]}
    say(rule, EventPattern=("event_pattern", json.dumps(pattern)))(file)
    if "Resources" in file:
        rule(file)["EventPattern"] = pattern


def filtered(file: Any) -> None:
    """Let a queue get a part of what its topic has."""
    policy = {"kind": ["x"]}
    given = next(
        blocks(file, "AWS::SNS::Subscription", "aws_sns_topic_subscription", topic="orders-placed"),
    )
    given |= {"FilterPolicy": policy} if "Resources" in file else {"filter_policy": json.dumps(policy)}


def flexible(file: Any) -> None:
    """Let a schedule come some time in a day."""
    if "Resources" in file:
        schedule(file)["FlexibleTimeWindow"] = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 1_440}
    else:
        schedule(file)["flexible_time_window"] = {"mode": "FLEXIBLE", "maximum_window_in_minutes": 1_440}


def source(file: Any, place: str) -> Any:
    """The first mapping whose text has a place."""
    return next(blocks(file, "AWS::Lambda::EventSourceMapping", "aws_lambda_event_source_mapping", place=place))


def add(file: Any, label: str, type_: str, properties: dict[str, Any], kind: str, block: dict[str, Any]) -> None:
    if "Resources" in file:
        file["Resources"][label] = {"Type": type_, "Properties": properties}
    else:
        file["resource"].setdefault(kind, {})[label] = block


def say(which: Callable[..., Any], *where: str, **changes: tuple[str, Any]) -> Change:
    """Say a property. Its name in Terraform goes with its value."""

    def change(file: Any) -> None:
        given = which(file, *where)
        for name, (argument, value) in changes.items():
            given[name if "Resources" in file else argument] = value

    return change


def unsay(which: Callable[..., Any], *where: str, **changes: str) -> Change:
    def change(file: Any) -> None:
        given = which(file, *where)
        for name, argument in changes.items():
            del given[name if "Resources" in file else argument]

    return change


def another_reader(file: Any) -> None:
    """Let a function of nobody's read the queue of a stage, and one read a queue of nobody's."""
    for number, place in enumerate((PACK, "anything")):
        arn = f"arn:aws:sqs:eu-west-1:123456789012:{place}"
        add(
            file,
            f"Second{number}",
            "AWS::Lambda::EventSourceMapping",
            {"EventSourceArn": arn, "FunctionName": "audit"},
            "aws_lambda_event_source_mapping",
            {"event_source_arn": arn, "function_name": "audit"},
        )


def deny(**statement: Any) -> Change:
    """Give the inbox of a stage a policy that denies."""
    policy = {"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*", **statement}]}

    def change(file: Any) -> None:
        if "Resources" in file:
            [label] = [key for key, each in file["Resources"].items() if each["Properties"].get("QueueName") == PACK]
            own = {"Queues": [{"Ref": label}], "PolicyDocument": policy}
            file["Resources"]["Denies"] = {"Type": "AWS::SQS::QueuePolicy", "Properties": own}
            return
        [label] = [key for key, each in file["resource"]["aws_sqs_queue"].items() if each["name"] == PACK]
        given = {"queue_url": f"${{aws_sqs_queue.{label}.id}}", "policy": json.dumps(policy)}
        file["resource"]["aws_sqs_queue_policy"]["denies"] = given

    return change


def lock_out(*queues: str) -> Change:
    """Leave services out of the policies of queues: one lets another topic in, the other nobody."""

    def change(file: Any) -> None:
        policy = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*", **OTHERS}]}
        for name in queues:
            place = json.dumps({"Ref": label_of_queue(file, name)})
            for given in blocks(file, "AWS::SQS::QueuePolicy", "aws_sqs_queue_policy"):
                if "Resources" in file and json.dumps(given["Queues"]) == f"[{place}]":
                    given["PolicyDocument"] = policy
                elif given.get("queue_url") == f"${{aws_sqs_queue.{label_of_queue(file, name)}.id}}":
                    given["policy"] = json.dumps(policy)

    return change


OTHERS: Final = {"Condition": {"ArnEquals": {"aws:SourceArn": f"arn:aws:sns:eu-west-1:{HERE.account}:others"}}}


def label_of_queue(file: Any, name: str) -> str:
    if "Resources" in file:
        named = {each["Properties"].get("QueueName"): key for key, each in file["Resources"].items()}
    else:
        named = {each["name"]: key for key, each in file["resource"]["aws_sqs_queue"].items()}
    return str(named[name])


def pipe_from(source: Callable[[Any], Any]) -> Change:
    """Add a pipe that reads what a reference in the file's language says."""

    def change(file: Any) -> None:
        place = source(file)
        add(
            file,
            "Audit",
            "AWS::Pipes::Pipe",
            {"Name": "audit", "Source": place},
            "aws_pipes_pipe",
            {"name": "audit", "source": place},
        )

    return change


def queue_of(name: str) -> Callable[[Any], Any]:
    def source(file: Any) -> Any:
        label = label_of_queue(file, name)
        return {"Fn::GetAtt": [label, "Arn"]} if "Resources" in file else f"${{aws_sqs_queue.{label}.arn}}"

    return source


def changes_of_stock(file: Any) -> Any:
    return (
        {"Fn::GetAtt": ["StockTable", "StreamArn"]} if "Resources" in file else "${aws_dynamodb_table.stock.stream_arn}"
    )


def redrive_to(arn: str) -> Change:
    def change(file: Any) -> None:
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 100}
        given = queue(file, PACK)
        given.update({"RedrivePolicy": policy} if "Resources" in file else {"redrive_policy": json.dumps(policy)})

    return change


def start_late(file: Any) -> None:
    source(file, "tock")["StartingPosition" if "Resources" in file else "starting_position"] = "LATEST"


def tell_others(file: Any) -> None:
    arn = "arn:aws:sqs:eu-west-1:123456789012:others"
    given = source(file, "tock")
    if "Resources" in file:
        given["DestinationConfig"] = {"OnFailure": {"Destination": arn}}
    else:
        given["destination_config"] = {"on_failure": {"destination_arn": arn}}


def no_topic_policy(file: Any) -> None:
    """Take the policy of the topic away. That of AWS lets nobody in but the account."""
    if "Resources" in file:
        del file["Resources"][_policy_of_topic(file)]
    else:
        del file["resource"]["aws_sns_topic_policy"]


def _policy_of_topic(file: Any) -> str:
    labels = [str(label) for label, each in file["Resources"].items() if each["Type"] == "AWS::SNS::TopicPolicy"]
    return labels[0]


def topic_policy_for_one(file: Any) -> None:
    """Let the policy of the topic forget the second bucket."""
    if "Resources" in file:
        file["Resources"][_policy_of_topic(file)]["Properties"]["PolicyDocument"]["Statement"].pop()
    else:
        [block] = file["resource"]["aws_sns_topic_policy"].values()
        policy = json.loads(block["policy"])
        policy["Statement"].pop()
        block["policy"] = json.dumps(policy)


def others_serve(file: Any) -> None:
    """Let the topic be read from other servers."""
    given = source(file, "kafka-1")
    if "Resources" in file:
        given["SelfManagedEventSource"] = {"Endpoints": {"KafkaBootstrapServers": ["other.example.com:9096"]}}
    else:
        given["self_managed_event_source"] = {"endpoints": {"KAFKA_BOOTSTRAP_SERVERS": "other.example.com:9096"}}


def second_of_a_group(file: Any) -> None:
    """Let a function of nobody's read the same cluster in the group of a topic."""
    add(
        file,
        "Second",
        "AWS::Lambda::EventSourceMapping",
        {
            "EventSourceArn": CLUSTER,
            "FunctionName": "audit",
            "Topics": ["accounts"],
            "AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "limits-copies"},
        },
        "aws_lambda_event_source_mapping",
        {
            "event_source_arn": CLUSTER,
            "function_name": "audit",
            "topics": ["accounts"],
            "amazon_managed_kafka_event_source_config": {"consumer_group_id": "limits-copies"},
        },
    )


def view(view: str) -> Change:
    def change(file: Any) -> None:
        if "Resources" in file:
            file["Resources"]["StockTable"]["Properties"]["StreamSpecification"] = {"StreamViewType": view}
        else:
            stock(file)["stream_view_type"] = view

    return change


def no_stream(file: Any) -> None:
    if "Resources" in file:
        del file["Resources"]["StockTable"]["Properties"]["StreamSpecification"]
    else:
        stock(file).update({"stream_enabled": False, "stream_view_type": ""})


def stock(file: Any) -> Any:
    [table] = [each for each in blocks(file, "AWS::DynamoDB::Table", "aws_dynamodb_table") if "stock" in each.values()]
    return table


def locked(who: str | dict[str, Any] | None, *queues: str) -> Change:
    """Put queues under a key of the file, which lets all of its account use it, or what is given."""
    statement = {"Effect": "Allow", "Principal": who, "Action": "kms:*", "Resource": "*"}
    policy = {"Statement": [statement]}

    def change(file: Any) -> None:
        add(file, "Lock", "AWS::KMS::Key", {"KeyPolicy": policy}, "aws_kms_key", {"policy": json.dumps(policy)})
        for name in queues:
            given = queue(file, name)
            if "Resources" in file:
                given["KmsMasterKeyId"] = {"Fn::GetAtt": ["Lock", "Arn"]}
            else:
                given["kms_master_key_id"] = "${aws_kms_key.Lock.arn}"

    return change


ACCOUNT: Final = {"AWS": "arn:aws:iam::123456789012:root"}

CASES: Final[dict[str, tuple[str, Change, Text]]] = {
    "another reader": ("everything", another_reader, ("reader-other", "error", PACK)),
    "a queue that delays": (
        "everything",
        say(queue, PACK, DelaySeconds=("delay_seconds", 900)),
        ("queue-delays", "warning", PACK),
    ),
    "a queue that is FIFO": (
        "everything",
        say(queue, PACK, FifoQueue=("fifo_queue", True)),
        ("fifo-other", "error", PACK),
    ),
    "a queue that is not FIFO": (
        "everything",
        unsay(queue, "to-ship.fifo", FifoQueue="fifo_queue"),
        ("fifo-other", "error", "to-ship.fifo"),
    ),
    "a policy that denies": (
        "everything",
        deny(Principal={"AWS": "123456789012"}),
        ("queue-denied", "error", PACK),
    ),
    "a policy that may deny": (
        "everything",
        deny(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}),
        ("queue-policy-open", "note", PACK),
    ),
    "a policy that keeps topics out": ("everything", lock_out(PACK), ("queue-closed", "error", PACK)),
    "a policy that keeps a rule out": (
        "everything",
        lock_out("everything-events"),
        ("queue-closed", "error", "everything-events"),
    ),
    "a policy that denies a topic": (
        "everything",
        deny(Principal={"Service": "sns.amazonaws.com"}),
        ("queue-closed", "error", PACK),
    ),
    "a pipe that reads a queue": ("everything", pipe_from(queue_of(PACK)), ("reader-other", "error", PACK)),
    "a pipe that reads a stream": ("streaming", pipe_from(changes_of_stock), ("stream-shared", "note", NOTICE)),
    "a key that the role may not use": (
        "everything",
        locked({**ACCOUNT, "Service": ["sns.amazonaws.com", "events.amazonaws.com"]}, "everything-killed"),
        ("key-denied", "error", KILLED),
    ),
    "a redrive to nothing": (
        "everything",
        redrive_to("arn:aws:sqs:eu-west-1:123456789012:everything-kiled"),
        ("redrive-target-missing", "warning", PACK),
    ),
    "no time-out": (
        "starting",
        unsay(function, "shipping-start", Timeout="timeout"),
        ("timeout-default", "warning", "shipping-start"),
    ),
    "a table without a stream": ("streaming", no_stream, ("stream-off", "error", NOTICE)),
    "a rule that is off": (
        "everything",
        say(rule, State=("state", "DISABLED")),
        ("rule-off", "error", "everything-events"),
    ),
    "a rule of other events": (
        "everything",
        unpaid,
        ("rule-other", "error", "everything-events"),
    ),
    "a URL that wants signed requests": (
        "everything",
        say(url, AuthType=("authorization_type", "AWS_IAM")),
        ("url-closed", "warning", "everything-answers-url"),
    ),
    "a filter of a topic": (
        "everything",
        filtered,
        ("subscription-filtered", "note", PACK),
    ),
    "a schedule that has ended": (
        "ticking",
        say(schedule, EndDate=("end_date", "1960-01-01T00:00:00Z")),
        ("schedule-over", "error", "sweeps-tick"),
    ),
    "a schedule that comes some time in a day": (
        "ticking",
        flexible,
        ("schedule-other", "error", "sweeps-tick"),
    ),
    "a function that is off": (
        "everything",
        say(function, PACK, ReservedConcurrentExecutions=("reserved_concurrent_executions", 0)),
        ("function-off", "error", PACK),
    ),
    "an old Python": (
        "everything",
        say(function, PACK, Runtime=("runtime", "python3.8")),
        ("runtime-other", "error", PACK),
    ),
    "another language": (
        "everything",
        say(function, PACK, Runtime=("runtime", "nodejs22.x")),
        ("runtime-other", "error", PACK),
    ),
    "a record that is given up soon": (
        "streaming",
        say(source, "tock", MaximumRecordAgeInSeconds=("maximum_record_age_in_seconds", 60)),
        ("stream-age-short", "warning", NOTICE),
    ),
    "a record that is tried once": (
        "streaming",
        say(source, "tock", MaximumRetryAttempts=("maximum_retry_attempts", 0)),
        ("stream-attempts-few", "error", NOTICE),
    ),
    "a start with what comes": ("streaming", start_late, ("stream-start-latest", "note", NOTICE)),
    "another queue is told": ("streaming", tell_others, ("stream-undelivered-other", "warning", NOTICE)),
    "a topic of MSK without provisioned mode": (
        "topics",
        unsay(source, "bank", ProvisionedPollerConfig="provisioned_poller_config"),
        ("kafka-unprovisioned", "error", COPY),
    ),
    "a topic outside without provisioned mode": (
        "topics",
        unsay(source, "kafka-1", ProvisionedPollerConfig="provisioned_poller_config"),
        ("kafka-unprovisioned", "error", PLACE),
    ),
    "another topic": (
        "topics",
        say(source, "kafka-1", Topics=("topics", ["others"])),
        ("source-missing", "error", PLACE),
    ),
    "other servers": ("topics", others_serve, ("source-missing", "error", PLACE)),
    "a record of a topic that is given up soon": (
        "topics",
        say(source, "kafka-1", MaximumRecordAgeInSeconds=("maximum_record_age_in_seconds", 60)),
        ("stream-age-short", "warning", PLACE),
    ),
    "a record of a topic without a bound of attempts": (
        "topics",
        say(source, "kafka-1", MaximumRetryAttempts=("maximum_retry_attempts", -1)),
        ("stream-attempts-few", "warning", PLACE),
    ),
    "a topic that lets no bucket in": ("uploading", no_topic_policy, ("topic-closed", "error", "told")),
    "a topic that lets one bucket in": ("uploading", topic_policy_for_one, ("topic-closed", "error", "told")),
    "another function of the same group": ("topics", second_of_a_group, ("kafka-group-shared", "error", COPY)),
    "an unbound batch of a topic outside": (
        "topics",
        unsay(source, "kafka-1", BatchSize="batch_size"),
        ("batch-slow", "error", PLACE),
    ),
}


@pytest.mark.parametrize("form", [CFN, TF])
@pytest.mark.parametrize("what", CASES)
def test_it_is_found_in_both_languages_and_nothing_else(what: str, form: str) -> None:
    name, change, expected = CASES[what]
    looked = {*found_in(name, form, change)} - ELSEWHERE.get(name, set())
    assert looked == {expected}


@pytest.mark.parametrize("form", [CFN, TF])
def test_the_view_of_a_stream_is_read(form: str) -> None:
    file = json.loads(text_of("streaming", form))
    view("KEYS_ONLY")(file)
    account = PlannedAccount(read(json.dumps(file), form), needs(MODULES["streaming"], options=options_of("streaming")))
    table = account.table("stock")
    assert table is not None
    assert table["StreamSpecification"]["StreamViewType"] == "KEYS_ONLY"


# -- what is bounded


def open_mappings(form: str, change: Change) -> list[str]:
    """The functions of which all may come at once."""
    file, options = json.loads(text_of("everything", form)), options_of("everything")
    change(file)
    looked = findings(read(json.dumps(file), form), needs(MODULES["everything"], options=options), options)
    return [each.resource for each in looked if each.rule == "concurrency-open"]


def bounded_by(name: str, argument: str, **bound: tuple[str, int]) -> Change:
    """Bound the mapping of a queue by a block alone. Without one it has no bound."""

    def change(file: Any) -> None:
        is_template = "Resources" in file
        given = source(file, "EverythingPackQueue" if is_template else "everything_pack")
        del given["ScalingConfig" if is_template else "scaling_config"]
        for property_, (attribute, value) in bound.items():
            given[name if is_template else argument] = {property_ if is_template else attribute: value}

    return change


@pytest.mark.parametrize("form", [CFN, TF])
def test_pollers_bound_what_comes_at_once(form: str) -> None:
    place = ("ProvisionedPollerConfig", "provisioned_poller_config")
    assert open_mappings(form, lambda _: None) == []
    assert open_mappings(form, bounded_by(*place)) == [PACK]
    assert open_mappings(form, bounded_by(*place, MaximumPollers=("maximum_pollers", 2))) == []
    assert open_mappings(form, bounded_by(*place, MinimumPollers=("minimum_pollers", 2))) == [PACK]


# -- one name, twice


def twice(file: Any) -> None:
    """Make another queue of the name."""
    if "Resources" in file:
        file["Resources"]["Again"] = {"Type": "AWS::SQS::Queue", "Properties": {**queue(file, PACK)}}
    else:
        file["resource"]["aws_sqs_queue"]["again"] = {**queue(file, PACK)}


@pytest.mark.parametrize("form", [CFN, TF])
def test_two_queues_of_one_name_are_found(form: str) -> None:
    looked = {*found_in("everything", form, twice)} - ELSEWHERE["everything"]
    assert looked == {("name-twice", "error", PACK)}


def of_two_places(**place: Any) -> list[LiveFinding]:
    """What is found in a plan that makes a queue of the name in two places."""
    configuration, options = json.loads(text_of("everything", TF)), options_of("everything")
    twice(configuration)
    plan = plan_of(configuration)
    for block in plan["configuration"]["root_module"]["resources"]:
        if block["address"] == "aws_sqs_queue.again":
            block["provider_config_key"] = place.get("provider", "aws")
        else:
            block["provider_config_key"] = "aws"
    for each in plan["planned_values"]["root_module"]["resources"]:
        if each["address"] == "aws_sqs_queue.again" and "region" in place:
            each["values"]["region"] = place["region"]
    return findings(resources_of(FILE, plan), needs(MODULES["everything"], options=options), options)


@pytest.mark.parametrize("place", [{"provider": "aws.west"}, {"region": "us-west-2"}])
def test_which_of_two_places_has_the_queue_is_not_known(place: dict[str, str]) -> None:
    looked = of_two_places(**place)
    assert "name-twice" not in {each.rule for each in looked}
    [noted] = [each for each in looked if "in several places" in each.what]
    assert (noted.rule, noted.resource) == ("not-looked-at", PACK)
    assert "aws_sqs_queue.again" in noted.what


def test_a_provider_that_is_named_is_one_place() -> None:
    assert [each.resource for each in of_two_places() if each.rule == "name-twice"] == [PACK]


# -- words for people


def test_a_finding_of_a_file_says_region_and_account_for_what_no_file_says() -> None:
    file, options = json.loads(text_of("everything", CFN)), options_of("everything")
    forbid(file)
    looked = findings(read(json.dumps(file), CFN), needs(MODULES["everything"], options=options), options)
    texts = [str(legible(each).as_json()) for each in looked]
    assert any("arn:aws:dynamodb:REGION:ACCOUNT:table/flowguard" in text for text in texts)
    assert not [text for text in texts if "-here:" in text or "000000000000" in text]
    assert [legible(each).severity for each in looked] == [each.severity for each in looked]

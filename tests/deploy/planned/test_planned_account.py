"""What a file answers of each resource, what it leaves open, and what it was to have and has not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.deploy.account import Account, NotKnown, function_name
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Role, ScheduleNeed, TableNeed, TopicNeed
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, Resource, Resources, queue_url
from flowguard.deploy.planned.template_file import resources_of
from flowguard.deploy.planned.values import UNKNOWN
from flowguard.project.declared import TableKey

QUEUE: Final = "AWS::SQS::Queue"
TABLE: Final = "AWS::DynamoDB::Table"
TOPIC: Final = "AWS::SNS::Topic"
FUNCTION: Final = "AWS::Lambda::Function"
ROLE: Final = "AWS::IAM::Role"
MAPPING: Final = "AWS::Lambda::EventSourceMapping"
OPEN: Final = {"Fn::ImportValue": "x"}
NEWS: Final = "arn:aws:sns:eu-west-1:123456789012:news"
Q: Final = KINDS[QUEUE].arn("q")

KEY: Final = TableKey(("pk",), ("S",))
NEEDED: Final = Deployment(
    names=(),
    flows=(),
    functions=(
        FunctionNeed(
            name="f",
            definition=FoundFunction("m", "f", FunctionKind.STAGES, ()),
            timeout=3,
            memory=256,
            batch_size=1,
            window=0,
            max_concurrency=None,
            reads=(),
            permissions=(),
            environment=(),
        ),
    ),
    tables=(TableNeed("t", KEY, None, existing=False), TableNeed("theirs", KEY, None, existing=True)),
    queues=(
        QueueNeed("q", Role.INBOX, existing=False, retention=1),
        QueueNeed("theirs", Role.OUTSIDE, existing=True, retention=1),
    ),
    topics=(TopicNeed(NEWS, existing=False), TopicNeed(f"{NEWS}-of-others", existing=True)),
    run_table="t",
    long_delays=False,
    scheduler_group="group",
    scheduler_role=None,
    signing_secret="secret",
)

Made = tuple[str, dict[str, Any]]
Ask = Callable[[PlannedAccount], Any]


def account(*resources: Made, needed: Deployment = NEEDED) -> PlannedAccount:
    there = {f"R{number}": {"Type": type_, "Properties": given} for number, (type_, given) in enumerate(resources)}
    return PlannedAccount(resources_of("f.json", {"Resources": there}, {}), needed)


def asked(ask: Ask, *resources: Made, needed: Deployment = NEEDED) -> tuple[Any, set[tuple[str, str]]]:
    """The answer, and what is noted to be open: of which resource what. An answer that is open is UNKNOWN."""
    made = account(*resources, needed=needed)
    try:
        answer = ask(made)
    except NotKnown:
        answer = UNKNOWN
    notes = [each for each in made.notes() if each.rule == "not-looked-at"]
    return answer, {(each.resource, each.what.removesuffix(": the file does not say it")) for each in notes}


def plain(answer: Any) -> Any:
    """An answer as far as it is known."""
    if isinstance(answer, Mapping):
        told = {}
        for key in answer:
            try:
                told[key] = plain(answer[key])
            except NotKnown:
                told[key] = UNKNOWN
        return told
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


MISSING: Final[dict[str, tuple[Ask, str, str]]] = {
    "a queue": (lambda at: at.queue("q"), "q", QUEUE),
    "the subscriptions of a topic": (lambda at: at.subscriptions(NEWS), "news", TOPIC),
    "the key of a topic": (lambda at: at.topic_key(NEWS), "news", TOPIC),
    "a table": (lambda at: at.table("t"), "t", TABLE),
    "the key of a table": (lambda at: at.table_key("t"), "t", TABLE),
    "the expiry of a table": (lambda at: at.time_to_live("t"), "t", TABLE),
    "the recovery of a table": (lambda at: at.restorable("t"), "t", TABLE),
    "a function": (lambda at: at.function("f"), "f", FUNCTION),
    "the loops of a function": (lambda at: at.loops("f"), "f", FUNCTION),
    "the concurrency of a function": (lambda at: at.reserved("f"), "f", FUNCTION),
    "the signers of a function": (lambda at: at.code_signing("f"), "f", FUNCTION),
    "the key of a secret": (lambda at: at.secret_key("secret"), "secret", "AWS::SecretsManager::Secret"),
}


@pytest.mark.parametrize("what", MISSING)
def test_what_the_file_was_to_have_and_has_not_is_missing(what: str) -> None:
    ask, _, type_ = MISSING[what]
    other: Made = (type_, {KINDS[type_].name: "another"})
    assert asked(ask, other) == (None, set())


@pytest.mark.parametrize("what", MISSING)
def test_what_may_have_the_name_is_named(what: str) -> None:
    ask, name, type_ = MISSING[what]
    nested: Made = ("AWS::CloudFormation::Stack", {})
    assert asked(ask, nested, (type_, {})) == (UNKNOWN, {(name, "whether R0, R1 makes it")})


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda at: at.queue("theirs"), "theirs"),
        (lambda at: at.queue("x", "arn:aws:sqs:eu-west-1:123456789012:other"), "other"),
        (lambda at: at.subscriptions(f"{NEWS}-of-others"), "news-of-others"),
        (lambda at: at.table("theirs"), "theirs"),
        (lambda at: at.table("arn:aws:dynamodb:eu-west-1:123456789012:table/other"), "other"),
        (lambda at: at.function("other"), "other"),
        (lambda at: at.secret_key("other"), "other"),
    ],
)
def test_what_the_file_need_not_have_is_not_known(ask: Ask, name: str) -> None:
    assert asked(ask) == (UNKNOWN, {(name, "whether anything has that name")})


def test_a_group_is_missing_or_there_or_not_the_files() -> None:
    group: Made = ("AWS::Scheduler::ScheduleGroup", {"Name": "group"})
    assert asked(lambda at: at.has_schedule_group("group"), group) == (True, set())
    assert asked(lambda at: at.has_schedule_group("group")) == (False, set())
    assert asked(lambda at: at.has_schedule_group("default")) == (True, set())
    theirs = replace(NEEDED, existing_group=True)
    unknown = (UNKNOWN, {("group", "whether anything has that name")})
    assert asked(lambda at: at.has_schedule_group("group"), needed=theirs) == unknown


NIGHTLY: Final = ScheduleNeed("nightly", "flow", "q", "rate(1 day)", "UTC", "{}", "dead")


def test_a_schedule_is_missing_or_says_what_it_does() -> None:
    def schedule(*resources: Made) -> tuple[Any, set[tuple[str, str]]]:
        answer, notes = asked(
            lambda at: at.schedule("group", "nightly"), *resources, needed=replace(NEEDED, schedules=(NIGHTLY,))
        )
        return plain(answer), notes

    assert schedule(("AWS::Scheduler::Schedule", {"Name": "nightly", "State": "ENABLED"})) == (
        {"Name": "nightly", "State": "ENABLED"},
        set(),
    )
    assert schedule(("AWS::Scheduler::Schedule", {"Name": "another"})) == (None, set())


# -- queues


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"MessageRetentionPeriod": "345600"}),
        (
            {"VisibilityTimeout": 30, "MaximumMessageSize": 1024, "DelaySeconds": 5, "MessageRetentionPeriod": 60},
            {
                "VisibilityTimeout": "30",
                "MaximumMessageSize": "1024",
                "DelaySeconds": "5",
                "MessageRetentionPeriod": "60",
            },
        ),
        ({"FifoQueue": True}, {"FifoQueue": "true", "MessageRetentionPeriod": "345600"}),
        (
            {"FifoQueue": OPEN, "DelaySeconds": OPEN},
            {"FifoQueue": UNKNOWN, "DelaySeconds": UNKNOWN, "MessageRetentionPeriod": "345600"},
        ),
        (
            {"RedrivePolicy": {"maxReceiveCount": 5}},
            {"RedrivePolicy": '{"maxReceiveCount": 5}', "MessageRetentionPeriod": "345600"},
        ),
        (
            {"RedrivePolicy": {"deadLetterTargetArn": OPEN}},
            {"RedrivePolicy": UNKNOWN, "MessageRetentionPeriod": "345600"},
        ),
        ({"KmsMasterKeyId": "k"}, {"KmsMasterKeyId": "k", "MessageRetentionPeriod": "345600"}),
    ],
)
def test_a_queue_has_its_attributes(given: dict[str, Any], expected: Any) -> None:
    answer, _ = asked(lambda at: at.queue("q"), (QUEUE, {"QueueName": "q", **given}))
    assert plain(answer) == {"QueueArn": Q, **expected}


def test_a_queue_may_go_by_its_arn() -> None:
    answer, notes = asked(lambda at: at.queue("x", "arn:aws:sqs:eu-west-1:123456789012:q"), (QUEUE, {"QueueName": "q"}))
    assert (answer["QueueArn"], notes) == (Q, set())


LOST: Final = "arn:aws:sqs:eu-west-1:123456789012:lost"


def giving_up(arn: Any, **given: Any) -> Made:
    return (QUEUE, {"QueueName": "other", "RedrivePolicy": {"deadLetterTargetArn": arn}, **given})


@pytest.mark.parametrize(
    ("resources", "answer"),
    [
        ([giving_up(LOST)], None),
        ([giving_up(LOST), (QUEUE, {"QueueName": "more"})], None),
        ([(QUEUE, {"QueueName": "more"})], UNKNOWN),
        ([giving_up(f"{LOST}x")], UNKNOWN),
        ([giving_up(OPEN)], UNKNOWN),
        ([giving_up(LOST), (QUEUE, {})], UNKNOWN),
        ([giving_up(LOST), ("AWS::CloudFormation::Stack", {})], UNKNOWN),
        ([(QUEUE, {"QueueName": "other", "RedrivePolicy": OPEN})], UNKNOWN),
        ([(QUEUE, {"QueueName": "other", "RedrivePolicy": {"Fn::Transform": {"Name": "x"}}})], UNKNOWN),
        ([(QUEUE, {"QueueName": "other", "RedrivePolicy": {"deadLetterTargetArn": LOST, "more": OPEN}})], UNKNOWN),
    ],
)
def test_a_queue_that_a_redrive_policy_names_and_nothing_makes_is_missing(resources: list[Made], answer: Any) -> None:
    assert asked(lambda at: at.queue("lost", LOST), *resources)[0] is answer


def test_a_queue_of_the_deployment_that_a_redrive_policy_names_is_looked_for_as_ever() -> None:
    theirs = "arn:aws:sqs:eu-west-1:123456789012:theirs"
    notes = {("theirs", "whether anything has that name")}
    assert asked(lambda at: at.queue("theirs", theirs), giving_up(theirs)) == (UNKNOWN, notes)
    here = KINDS[QUEUE].arn("lost")
    answer, _ = asked(lambda at: at.queue("lost", here), giving_up(LOST), (QUEUE, {"QueueName": "lost"}))
    assert answer["QueueArn"] == here


def policies(*queues: Any, document: Any = "d") -> tuple[Any, set[tuple[str, str]]]:
    def ask(at: PlannedAccount) -> Any:
        return at.queue_policies("q")

    return asked(
        ask, *[("AWS::SQS::QueuePolicy", {"Queues": each, "PolicyDocument": {"is": document}}) for each in queues]
    )


def test_the_policies_of_a_queue_are_those_that_name_it_or_may() -> None:
    it, whose = queue_url("q"), {("R0", "whose policy it is")}
    assert policies([it]) == ([{"is": "d"}], set())
    assert policies([queue_url("other")], [queue_url("x"), it]) == ([{"is": "d"}], set())
    assert policies([it, OPEN]) == ([{"is": "d"}], set())
    assert policies([queue_url("other")]) == ([], set())
    assert policies(OPEN) == ([UNKNOWN], whose)
    assert policies([queue_url("other"), OPEN]) == ([UNKNOWN], whose)
    named: Made = ("AWS::SQS::QueuePolicy", {"Queues": [it]})
    assert asked(lambda at: at.queue_policies("q"), named, ("AWS::SQS::QueuePolicy", {})) == (
        [UNKNOWN, UNKNOWN],
        {("R1", "whose policy it is")},
    )


def test_what_no_file_says_is_not_asked_of_it() -> None:
    made: Account = account()
    assert (made.account, made.clock(), made.queues_of("t", ["f"])) == (None, None, None)
    assert [*made.runs("t", 5)] == []
    assert made.was_read("sqs", "get_queue_url", "orders") is True
    [last] = made.notes()
    assert (last.rule, last.resource) == ("not-in-a-file", "f.json")


# -- topics, rules, pipes


def subscription(**given: Any) -> Made:
    return ("AWS::SNS::Subscription", {"TopicArn": NEWS, "Endpoint": Q, **given})


def subscribed(*resources: Made) -> Any:
    answer, _ = asked(lambda at: at.subscriptions(NEWS), *resources)
    return answer if answer is UNKNOWN else plain(answer)


def test_a_topic_has_the_subscriptions_that_name_it() -> None:
    topic: Made = (TOPIC, {"TopicName": "news"})
    here = KINDS[TOPIC].arn("news")
    plainly = {"TopicArn": here, "Endpoint": Q, "RawMessageDelivery": "false"}
    assert subscribed(topic) == []
    assert subscribed(topic, subscription()) == [plainly]
    assert subscribed(topic, subscription(TopicArn=f"{NEWS}-of-others")) == []
    assert subscribed(topic, subscription(RawMessageDelivery=True)) == [{**plainly, "RawMessageDelivery": "true"}]
    assert subscribed(topic, subscription(RawMessageDelivery=OPEN)) == [{**plainly, "RawMessageDelivery": UNKNOWN}]
    redrive = {"deadLetterTargetArn": "arn:x"}
    assert subscribed(topic, subscription(RedrivePolicy=redrive)) == [{**plainly, "RedrivePolicy": json.dumps(redrive)}]
    assert subscribed(topic, subscription(TopicArn=OPEN)) is UNKNOWN
    assert subscribed(subscription()) == [{**plainly, "TopicArn": NEWS}], "the topic is somebody else's"


def topic_policies(*topics: Any, topic: str = "news") -> tuple[Any, set[tuple[str, str]]]:
    """The policies of a topic, of those that name these."""
    stated: list[Made] = [("AWS::SNS::TopicPolicy", {"Topics": each, "PolicyDocument": {"is": "d"}}) for each in topics]
    return asked(lambda at: at.topic_policies(NEWS), (TOPIC, {"TopicName": topic}), *stated)


def test_the_policies_of_a_topic_are_those_that_name_it() -> None:
    here, whose = KINDS[TOPIC].arn("news"), {("R1", "whose policy it is")}
    assert topic_policies() == ([], set())
    assert topic_policies([here]) == topic_policies([NEWS]) == ([{"is": "d"}], set())
    assert topic_policies([f"{NEWS}-of-others"], [f"{NEWS}x", here]) == ([{"is": "d"}], set())
    assert topic_policies([here, OPEN]) == ([{"is": "d"}], set())
    assert topic_policies([f"{NEWS}-of-others"]) == ([], set())
    assert topic_policies(OPEN) == topic_policies([f"{NEWS}-of-others", OPEN]) == (UNKNOWN, whose)
    policy: Made = ("AWS::SNS::TopicPolicy", {"Topics": [here]})
    assert asked(lambda at: at.topic_policies(NEWS), (TOPIC, {"TopicName": "news"}), policy) == ([UNKNOWN], set())
    elsewhere = f"{NEWS}-of-others"
    unknown = (UNKNOWN, {("news-of-others", "whether anything has that name")})
    assert asked(lambda at: at.topic_policies(elsewhere)) == unknown


def test_a_topic_has_subscriptions_of_its_own() -> None:
    own = [{"Endpoint": Q, "Protocol": "sqs"}]
    named = {"Endpoint": Q, "Protocol": "sqs", "RawMessageDelivery": "false"}
    assert subscribed((TOPIC, {"TopicName": "news", "Subscription": own})) == [named]
    assert subscribed((TOPIC, {"TopicName": "other", "Subscription": own}), (TOPIC, {"TopicName": "news"})) == []
    for is_open in (OPEN, [OPEN]):
        assert subscribed((TOPIC, {"TopicName": "news", "Subscription": is_open})) == [
            {"TopicArn": UNKNOWN, "Endpoint": UNKNOWN}
        ]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, ""),
        ({"KmsMasterKeyId": "k"}, "k"),
        ({"KmsMasterKeyId": "alias/aws/sns"}, ""),
        ({"KmsMasterKeyId": "alias/ours"}, "the-key"),
        ({"KmsMasterKeyId": "arn:aws:kms:eu-west-1:123456789012:alias/ours"}, "the-key"),
        ({"KmsMasterKeyId": "alias/theirs"}, UNKNOWN),
        ({"KmsMasterKeyId": "alias/open"}, UNKNOWN),
        ({"KmsMasterKeyId": OPEN}, UNKNOWN),
    ],
)
def test_a_key_may_go_by_an_alias_of_the_file(given: dict[str, Any], key: Any) -> None:
    aliases: list[Made] = [
        ("AWS::KMS::Alias", {"AliasName": "alias/more", "TargetKeyId": "another"}),
        ("AWS::KMS::Alias", {"AliasName": "alias/ours", "TargetKeyId": "the-key"}),
        ("AWS::KMS::Alias", {"AliasName": "alias/open"}),
    ]
    assert asked(lambda at: at.topic_key(NEWS), (TOPIC, {"TopicName": "news", **given}), *aliases)[0] == key


def test_a_bus_is_there_or_not_the_files() -> None:
    bus: Made = ("AWS::Events::EventBus", {"Name": "shop"})
    arn = "arn:aws:events:eu-west-1:123456789012:event-bus/shop"
    assert asked(lambda at: [at.has_bus(name) for name in ("shop", arn, "default")], bus) == ([True, True, True], set())
    assert asked(lambda at: at.has_bus("other"), bus) == (None, {("other", "the bus, which is none of the file's")})


def rules(bus: str = "default", **given: Any) -> Any:
    rule: Made = ("AWS::Events::Rule", {"Name": "r", "Targets": [{"Arn": "arn:x"}, {"Arn": Q}], **given})
    return asked(lambda at: at.rules(Q, bus), rule)[0]


def test_a_queue_has_the_rules_of_a_bus_that_send_to_it() -> None:
    arn = KINDS["AWS::Events::Rule"].arn
    assert rules() == [arn("r")]
    assert rules(EventBusName="default") == [arn("r")]
    assert rules(EventBusName="shop") == []
    assert rules("shop") == []
    assert rules("arn:aws:events:a:b:event-bus/shop", EventBusName="shop") == [arn("shop/r")]
    assert rules("shop", EventBusName="arn:aws:events:a:b:event-bus/shop") == [arn("shop/r")]
    assert rules(Targets=[{"Arn": "arn:x"}]) == []
    assert rules(Targets=[{"Id": "none"}]) == []
    assert rules(Name=OPEN) == [UNKNOWN]
    assert rules(Targets=OPEN) is UNKNOWN
    assert rules(Targets=[{"Arn": OPEN}]) is UNKNOWN
    assert rules(EventBusName=OPEN) is UNKNOWN
    assert asked(lambda at: at.rules(Q, "default"), ("AWS::Events::Rule", {"Name": "r"}))[0] == []


def pipes(*given: dict[str, Any]) -> Any:
    there: list[Made] = [("AWS::Pipes::Pipe", each) for each in given]
    return asked(lambda at: at.pipes("arn:aws:sqs:eu-west-1:123456789012:q"), (QUEUE, {"QueueName": "q"}), *there)


def test_a_queue_has_the_pipes_that_read_it() -> None:
    assert pipes({"Name": "p", "Source": Q}, {"Source": Q}, {"Name": "o", "Source": f"{Q}x"}) == (["p", "R2"], set())
    assert pipes({"Name": "p"}) == (UNKNOWN, {("p", "Source")})


# -- tables and streams

WHOLE: Final = {
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
}


def table(ask: Ask, **given: Any) -> Any:
    return asked(ask, (TABLE, {"TableName": "t", **given}))[0]


def test_a_table_may_go_by_its_arn() -> None:
    asks: list[Ask] = [lambda at: at.table("arn:x:table/t"), lambda at: at.table_key("arn:x:table/t")]
    asks += [lambda at: at.time_to_live("arn:x:table/t"), lambda at: at.restorable("arn:x:table/t")]
    assert None not in [table(ask, **WHOLE) for ask in asks]


def test_a_table_has_its_properties() -> None:
    assert plain(table(lambda at: at.table("t"), **WHOLE)) == {"TableName": "t", **WHOLE}
    assert plain(table(lambda at: at.table("t"))) == {
        "TableName": "t",
        "AttributeDefinitions": UNKNOWN,
        "KeySchema": UNKNOWN,
    }
    assert plain(table(lambda at: at.table("t"), **{**WHOLE, "KeySchema": OPEN}))["KeySchema"] is UNKNOWN


@pytest.mark.parametrize(
    "given",
    [
        {"AttributeDefinitions": []},
        {"AttributeDefinitions": [{"AttributeName": "pk"}]},
        {"AttributeDefinitions": ["pk"]},
        {"KeySchema": [{"AttributeName": "pk"}]},
        {"KeySchema": [{"KeyType": "HASH"}]},
        {"KeySchema": [{"AttributeName": 7, "KeyType": "HASH"}]},
        {"KeySchema": [{"AttributeName": "sk", "KeyType": "HASH"}]},
    ],
)
def test_a_key_that_is_not_whole_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(NotReadable, match="the key of R0 is not whole, or has another form"):
        table(lambda at: at.table("t"), **{**WHOLE, **given})


INDEX: Final[dict[str, Any]] = {"IndexName": "i", "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}]}


@pytest.mark.parametrize("index", [INDEX, OPEN, {**INDEX, "IndexName": OPEN}, {**INDEX, "KeySchema": OPEN}])
def test_an_index_that_is_whole_or_left_open_is_told(index: Any) -> None:
    assert table(lambda at: at.table("t"), **{**WHOLE, "GlobalSecondaryIndexes": [index]})["TableName"] == "t"


@pytest.mark.parametrize(
    "index",
    [
        "i",
        {**INDEX, "IndexName": 7},
        {"KeySchema": INDEX["KeySchema"]},
        {"IndexName": "i"},
        {**INDEX, "KeySchema": ["pk"]},
        {**INDEX, "KeySchema": [{"AttributeName": "pk"}]},
        {**INDEX, "KeySchema": [{"KeyType": "HASH"}]},
    ],
)
def test_an_index_that_is_not_whole_is_refused(index: Any) -> None:
    with pytest.raises(NotReadable, match="an index of R0 is not whole, or has another form"):
        table(lambda at: at.table("t"), **{**WHOLE, "GlobalSecondaryIndexes": [index]})


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, ""),
        ({"SSESpecification": {"SSEEnabled": True}}, ""),
        ({"SSESpecification": {"KMSMasterKeyId": "k"}}, "k"),
        ({"SSESpecification": OPEN}, UNKNOWN),
        ({"SSESpecification": {"KMSMasterKeyId": OPEN}}, UNKNOWN),
    ],
)
def test_a_table_has_its_key_of_kms(given: dict[str, Any], key: Any) -> None:
    assert table(lambda at: at.table_key("t"), **given) == key


@pytest.mark.parametrize(
    ("given", "status", "attribute"),
    [
        ({}, "DISABLED", None),
        ({"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}}, "ENABLED", "ttl"),
        ({"TimeToLiveSpecification": {"Enabled": False, "AttributeName": "ttl"}}, "DISABLED", "ttl"),
    ],
)
def test_a_table_has_its_expiry(given: dict[str, Any], status: str, attribute: str | None) -> None:
    expected = {"TimeToLiveStatus": status, "AttributeName": attribute}
    assert table(lambda at: at.time_to_live("t"), **given) == expected
    assert table(lambda at: at.time_to_live("t"), TimeToLiveSpecification=OPEN) is UNKNOWN


def test_a_table_is_restorable_or_not() -> None:
    name = "PointInTimeRecoverySpecification"
    assert table(lambda at: at.restorable("t")) is False
    assert table(lambda at: at.restorable("t"), **{name: {"PointInTimeRecoveryEnabled": True}}) is True
    assert table(lambda at: at.restorable("t"), **{name: {"PointInTimeRecoveryEnabled": False}}) is False
    assert table(lambda at: at.restorable("t"), **{name: OPEN}) is UNKNOWN


def test_a_stream_of_kinesis_keeps_its_records() -> None:
    def keeps(**given: Any) -> Any:
        stream: Made = ("AWS::Kinesis::Stream", {"Name": "s", **given})
        return asked(lambda at: at.stream_keeps("arn:aws:kinesis:a:b:stream/s/consumer/c:1"), stream)

    assert keeps() == (86_400, set())
    assert keeps(RetentionPeriodHours=48) == (172_800, set())
    assert keeps(Name="other") == (None, {("s", "for how long the stream keeps a record")})


# -- functions


def function(ask: Ask, **given: Any) -> Any:
    return asked(ask, (FUNCTION, {"FunctionName": "f", **given}))[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"Timeout": 3, "LoggingConfig": {"LogFormat": "Text"}}),
        ({"Timeout": 9}, {"Timeout": 9, "LoggingConfig": {"LogFormat": "Text"}}),
        (
            {"LoggingConfig": {"LogFormat": "JSON", "LogGroup": "g"}},
            {"Timeout": 3, "LoggingConfig": {"LogFormat": "JSON", "LogGroup": "g"}},
        ),
        ({"LoggingConfig": {"LogGroup": "g"}}, {"Timeout": 3, "LoggingConfig": {"LogFormat": "Text", "LogGroup": "g"}}),
        ({"LoggingConfig": OPEN}, {"Timeout": 3, "LoggingConfig": UNKNOWN}),
    ],
)
def test_a_function_has_its_configuration(given: dict[str, Any], expected: Any) -> None:
    told = plain(function(lambda at: at.function("f"), **given))
    assert told == {"FunctionName": "f", "FunctionArn": KINDS[FUNCTION].arn("f"), **expected}


def test_a_function_has_what_it_says_or_what_lambda_does_by_itself() -> None:
    assert plain(function(lambda at: at.function("f"), KmsKeyArn="k"))["KMSKeyArn"] == "k"
    assert function(lambda at: at.loops("f")) == "Terminate"
    assert function(lambda at: at.loops("f"), RecursiveLoop="Allow") == "Allow"
    assert function(lambda at: at.reserved("f")) == -1
    assert function(lambda at: at.reserved("f"), ReservedConcurrentExecutions=0) == 0
    assert function(lambda at: at.code_signing("f")) == ""
    assert function(lambda at: at.code_signing("f"), CodeSigningConfigArn="c") == "c"
    assert function(lambda at: at.reserved("f"), ReservedConcurrentExecutions=OPEN) is UNKNOWN


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("f", "f"),
        ("f:live", "f"),
        ("arn:aws:lambda:eu-west-1:123456789012:function:f", "f"),
        ("arn:aws:lambda:eu-west-1:123456789012:function:f:live", "f"),
        ("123456789012:function:f", "f"),
        ("123456789012:function:f:live", "f"),
        ("arn:aws:lambda:x:y:z", "arn"),
        ("x:y:z:a:b:c:d", "x"),
    ],
)
def test_a_function_goes_by_its_name_or_a_part_of_its_arn(place: str, name: str) -> None:
    assert function_name(place) == name


def sources(**given: Any) -> Any:
    answer, _ = asked(lambda at: at.event_sources("f"), (MAPPING, given))
    return answer if answer is UNKNOWN else plain(answer)


@pytest.mark.parametrize(
    ("arn", "size"),
    [
        (Q, 10),
        ("arn:aws:kinesis:a:b:stream/s", 100),
        ("arn:aws:dynamodb:a:b:table/t/stream/s", 100),
        ("arn:aws:kafka:a:b:c", 100),
        ("none", 1),
        ("sqs:none", 1),
        (7, 1),
    ],
)
def test_a_mapping_has_the_batch_that_lambda_takes_by_itself(arn: Any, size: int) -> None:
    [mapping] = sources(FunctionName="f", EventSourceArn=arn)
    assert mapping["BatchSize"] == size
    [mapping] = sources(FunctionName="f", EventSourceArn=arn, BatchSize=5)
    assert mapping["BatchSize"] == 5


def test_a_function_has_the_mappings_that_name_it() -> None:
    told = {"FunctionName": "f", "FunctionArn": "f", "EventSourceArn": Q, "BatchSize": 10, "State": "Enabled"}
    assert sources(FunctionName="f", EventSourceArn=Q) == [told]
    assert sources(FunctionName="f", EventSourceArn=Q, Enabled=False)[0]["State"] == "Disabled"
    assert sources(FunctionName="f", EventSourceArn=Q, Enabled=True)[0]["State"] == "Enabled"
    assert sources(FunctionName="f", EventSourceArn=Q, Enabled=OPEN)[0]["State"] is UNKNOWN
    is_open = {"FunctionName": "f", "FunctionArn": "f", "EventSourceArn": UNKNOWN, "State": "Enabled"}
    assert sources(FunctionName="f") == [is_open]
    assert sources(FunctionName="g", EventSourceArn=Q) == []
    assert sources(EventSourceArn=Q) is UNKNOWN


SERVERS: Final = ["a:9096", "b:9096"]


@pytest.mark.parametrize(
    ("outside", "told"),
    [
        ({"Endpoints": {"KafkaBootstrapServers": SERVERS}}, {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": SERVERS}}),
        ({"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": SERVERS}}, {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": SERVERS}}),
        (
            {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": ",".join(SERVERS)}},
            {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": SERVERS}},
        ),
        ({"Endpoints": {}}, {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": UNKNOWN}}),
        ({"Endpoints": OPEN}, UNKNOWN),
        ({}, UNKNOWN),
        (OPEN, UNKNOWN),
    ],
)
def test_a_mapping_of_a_cluster_outside_has_its_servers(outside: Any, told: Any) -> None:
    [mapping] = sources(FunctionName="f", Topics=["orders"], SelfManagedEventSource=outside)
    assert mapping == {
        "FunctionName": "f",
        "FunctionArn": "f",
        "Topics": ["orders"],
        "EventSourceArn": "",
        "SelfManagedEventSource": told,
        "BatchSize": 100,
        "State": "Enabled",
    }


def test_a_queue_has_the_mappings_that_read_it() -> None:
    def readers(**given: Any) -> Any:
        ask: Ask = lambda at: at.readers("arn:aws:sqs:eu-west-1:123456789012:q")  # noqa: E731
        answer, _ = asked(ask, (QUEUE, {"QueueName": "q"}), (MAPPING, {"FunctionName": "g", **given}))
        return answer if answer is UNKNOWN else [each["FunctionArn"] for each in answer]

    assert readers(EventSourceArn=Q) == ["g"]
    assert readers(EventSourceArn=f"{Q}x") == []
    assert readers() is UNKNOWN


def test_a_function_has_the_url_that_names_it() -> None:
    def url(**given: Any) -> tuple[Any, Any]:
        made: Made = ("AWS::Lambda::Url", given)
        return asked(lambda at: at.function_url("f"), made)[0], asked(lambda at: at.url_auth("f"), made)[0]

    assert url(TargetFunctionArn="f", AuthType="NONE") == (True, "NONE")
    assert url(TargetFunctionArn=KINDS[FUNCTION].arn("f"), AuthType="AWS_IAM") == (True, "AWS_IAM")
    assert url(TargetFunctionArn="g", AuthType="NONE") == (False, None)
    assert url(TargetFunctionArn="f") == (True, UNKNOWN)
    assert url(AuthType="NONE") == (UNKNOWN, UNKNOWN)


def test_a_log_group_is_there_or_not_the_files() -> None:
    def group(**given: Any) -> Any:
        made: Made = ("AWS::Logs::LogGroup", {"LogGroupName": "/aws/lambda/f", **given})
        answer, notes = asked(lambda at: at.log_group("f"), made)
        return plain(answer), notes

    assert group() == ({}, set())
    assert group(RetentionInDays=30, KmsKeyId="k") == ({"retentionInDays": 30, "kmsKeyId": "k"}, set())
    assert group(LogGroupName="x") == (None, {("/aws/lambda/f", "the log group, which is none of the file's")})


def test_a_role_is_there_or_not_the_files() -> None:
    def role(**given: Any) -> Any:
        answer, notes = asked(lambda at: at.role("r"), (ROLE, {"RoleName": "r", **given}))
        return plain(answer), notes

    assert role() == ({}, set())
    assert role(Path="/p/", Tags=[{"Key": "a", "Value": "b"}]) == (
        {"Path": "/p/", "Tags": [{"Key": "a", "Value": "b"}]},
        set(),
    )
    assert role(PermissionsBoundary="b") == ({"PermissionsBoundary": {"PermissionsBoundaryArn": "b"}}, set())
    assert role(RoleName="x") == (None, {("r", "the role, which is none of the file's")})


def test_a_role_a_bucket_and_a_secret_of_the_file_are_there_and_of_others_nothing_is_known() -> None:
    secret = ("AWS::SecretsManager::Secret", {"Name": "secret"})
    there = account((ROLE, {"RoleName": "r"}), ("AWS::S3::Bucket", {"BucketName": "b"}), secret)
    assert (there.has_role("r"), there.has_role("theirs")) == (True, None)
    assert (there.has_bucket("b"), there.has_bucket("theirs")) == (True, None)
    assert (there.has_secret("secret"), there.has_secret("theirs")) == (True, None)
    assert account().has_secret("secret") is False, "the file was to have it"


def test_a_rule_has_its_own_settings_and_its_pattern_is_not_known_where_the_file_has_none() -> None:
    rule = "AWS::Events::Rule"
    target = {"Name": "news", "EventBusName": "bus", "Targets": [{"Arn": Q}], "State": "DISABLED"}
    other = (rule, {"Name": "other", "EventPattern": {"source": ["other"]}, "Description": "another rule"})
    [settings] = account((rule, {**target, "EventPattern": {"source": ["shop"]}}), other).rule_settings(Q, "bus")
    assert (settings["State"], settings["EventPattern"]) == ("DISABLED", {"source": ["shop"]})
    assert "Description" not in settings
    with pytest.raises(NotKnown):
        account((rule, target)).rule_settings(Q, "bus")[0]["EventPattern"]


def test_a_trust_policy_is_the_roles_or_not_known() -> None:
    def trust(**given: Any) -> Any:
        return asked(lambda at: at.trust("r"), (ROLE, {"RoleName": "r", **given}))

    document: dict[str, Any] = {"Statement": []}
    assert trust(AssumeRolePolicyDocument=document) == (document, set())
    assert trust() == (document, set()), "no one may assume it, and IAM does not make it"
    assert trust(AssumeRolePolicyDocument=UNKNOWN) == (UNKNOWN, {("r", "AssumeRolePolicyDocument")})
    assert trust(RoleName="x") == (None, {("r", "the role, which is none of the file's")})


# -- buckets, keys, roles


def test_a_bucket_has_its_key_or_is_not_the_files() -> None:
    def bucket(**given: Any) -> Any:
        return asked(lambda at: at.bucket_key("b"), ("AWS::S3::Bucket", {"BucketName": "b", **given}))

    def under(**key: Any) -> Any:
        return {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": key}]}

    assert bucket() == ("", set())
    assert bucket(BucketEncryption=under(KMSMasterKeyID="k")) == ("k", set())
    assert bucket(BucketEncryption=under()) == ("", set())
    assert bucket(BucketEncryption={"ServerSideEncryptionConfiguration": [{}]}) == ("", set())
    assert bucket(BucketEncryption={"ServerSideEncryptionConfiguration": []}) == ("", set())
    assert bucket(BucketName="x") == (None, {("b", "the bucket, which is none of the file's")})


def test_whom_a_bucket_tells_is_in_no_file() -> None:
    asks: list[Ask] = [lambda at: at.notified_queues("b"), lambda at: at.notified_topics("b")]
    for ask in asks:
        assert asked(ask) == (UNKNOWN, {("b", "whom the bucket tells of its objects")})


def test_a_key_is_known_by_its_arn_its_id_or_as_one_of_the_files() -> None:
    key: Made = ("AWS::KMS::Key", {"KeyId": "ours"})
    arn = KINDS["AWS::KMS::Key"].arn
    assert asked(lambda at: at.key("arn:x"), key)[0] == "arn:x"
    assert asked(lambda at: at.key("ours"), key)[0] == arn("ours")
    assert asked(lambda at: at.key("theirs"), key)[0] == arn("theirs")


def test_a_key_has_its_policy_or_that_which_leaves_all_to_the_account() -> None:
    def policy(**given: Any) -> Any:
        theirs: Made = ("AWS::KMS::Key", {"KeyId": "another", "KeyPolicy": {"of": "another"}})
        ours: Made = ("AWS::KMS::Key", {"KeyId": "ours", **given})
        return asked(lambda at: at.key_policy("arn:aws:kms:eu-west-1:123456789012:key/ours"), theirs, ours)

    assert policy(KeyPolicy={"Statement": []}) == ({"Statement": []}, set())
    [statement] = policy()[0]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Allow", {"AWS": HERE.account})
    arn = "arn:aws:kms:eu-west-1:123456789012:key/ours"
    assert policy(KeyId="x") == (None, {(arn, "the policy of the key, which is none of the file's")})


def test_what_the_policies_of_a_role_do_not_allow_is_denied_and_what_they_leave_open_is_noted() -> None:
    def denied(statement: dict[str, Any], *, role: str = "r", context: Any = None, path: Any = "/path/") -> Any:
        document = {"Statement": [{"Effect": "Allow", "Action": "sqs:Send*", "Resource": "*", **statement}]}
        made: Made = (ROLE, {"RoleName": "r", "Path": path, "Policies": [{"PolicyDocument": document}]})
        actions = ["sqs:SendMessage", "sqs:ReceiveMessage"]
        return asked(lambda at: at.denied(f"arn:aws:iam::1:role/path/{role}", actions, LOST, context), made)

    assert denied({}) == (["sqs:ReceiveMessage"], set())
    assert denied({"Action": "sqs:*"}) == ([], set())
    assert denied({"Resource": OPEN}) == (["sqs:ReceiveMessage"], {("r", "whether its policies allow sqs:SendMessage")})
    both = "whether its policies allow sqs:SendMessage, sqs:ReceiveMessage"
    assert denied({"Action": "sqs:*", "Resource": OPEN}) == ([], {("r", both)})
    assert denied({}, role="x") == ([], {("x", "the role, which is none of the file's")})
    other = "arn:aws:iam::1:role/path/r"
    assert denied({}, path="/") == ([], {(other, "the role, which is none of the file's")}), "IAM has each name once"
    assert denied({}, path=UNKNOWN) == (["sqs:ReceiveMessage"], set())
    condition = {"Condition": {"StringEquals": {"a:b": "yes"}}}
    assert denied(condition, context={"a:b": "yes"}) == (["sqs:ReceiveMessage"], set())
    assert denied(condition) == (["sqs:ReceiveMessage"], {("r", "whether its policies allow sqs:SendMessage")})


# -- one name, twice


def twice(*places: str) -> PlannedAccount:
    queues = [Resource(f"R{number}", QUEUE, {"QueueName": "q"}, place) for number, place in enumerate(places)]
    return PlannedAccount(Resources("f.json", queues), NEEDED)


def test_two_resources_of_one_name_and_place_are_an_error() -> None:
    made = twice("a", "a")
    [first, _] = made.notes()
    assert made.queue("q") is not None
    assert (first.rule, first.resource, first.what) == ("name-twice", "q", "R0, R1 have one name")
    once = twice("a")
    once.queue("q")
    assert [each.rule for each in once.notes()] == ["not-in-a-file"]


BUS_RULE: Final = "AWS::Events::Rule"
SCHEDULE: Final = "AWS::Scheduler::Schedule"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([(ROLE, {"RoleName": "r"}), (ROLE, {"RoleName": "r"})], [("r", "R0, R1 have one name")]),
        ([(ROLE, {"RoleName": "Works"}), (ROLE, {"RoleName": "works"})], [("Works", "R0, R1 have one name")]),
        ([(ROLE, {"RoleName": "a", "Path": "/x/"}), (ROLE, {"RoleName": "a"})], [("a", "R0, R1 have one name")]),
        ([(ROLE, {}), (ROLE, {})], []),
        ([(QUEUE, {"QueueName": "Q"}), (QUEUE, {"QueueName": "q"})], []),
        ([(QUEUE, {"QueueName": OPEN}), (QUEUE, {"QueueName": OPEN})], []),
        ([(QUEUE, {"QueueName": "n"}), (ROLE, {"RoleName": "n"})], []),
        ([(BUS_RULE, {"Name": "n"}), (BUS_RULE, {"Name": "n"})], []),
        ([(MAPPING, {"Name": "n"}), (MAPPING, {"Name": "n"})], []),
        ([(SCHEDULE, {"Name": "n", "GroupName": "a"}), (SCHEDULE, {"Name": "n", "GroupName": "b"})], []),
        (
            [(SCHEDULE, {"Name": "n", "GroupName": "a"}), (SCHEDULE, {"Name": "n", "GroupName": "a"})],
            [("n", "R0, R1 have one name")],
        ),
        (
            [(QUEUE, {"QueueName": "z"}), (ROLE, {"RoleName": "a"})] * 2,
            [("a", "R1, R3 have one name"), ("z", "R0, R2 have one name")],
        ),
    ],
)
def test_whatever_has_the_name_of_another_is_an_error(resources: list[Made], expected: list[tuple[str, str]]) -> None:
    notes = account(*resources).notes()
    assert [(each.resource, each.what) for each in notes if each.rule == "name-twice"] == expected


def test_which_of_two_places_is_meant_is_not_known() -> None:
    made = twice("a", "b")
    with pytest.raises(NotKnown):
        made.queue("q")
    [first, _] = made.notes()
    assert first.what == "which of R0, R1 it is, for they are in several places: the file does not say it"


def test_a_resource_goes_by_its_name_in_notes_or_by_its_label() -> None:
    assert asked(lambda at: at.loops("f"), (FUNCTION, {"FunctionName": "f", "RecursiveLoop": OPEN}))[1] == {
        ("f", "RecursiveLoop")
    }
    assert asked(lambda at: at.event_sources("f"), (MAPPING, {}))[1] == {("R0", "FunctionArn")}
    rule: Made = ("AWS::Events::Rule", {"Targets": OPEN})
    assert asked(lambda at: at.rules(Q, "default"), rule)[1] == {("R0", "Targets")}

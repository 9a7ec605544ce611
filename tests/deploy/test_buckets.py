"""Buckets that tell queues what happens to their objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import Callback, Done, Flow, Outcome, Queue, Stage, Step, Topic
from flowguard.cli.iac import FORMATS
from flowguard.deploy.as_json import described
from flowguard.deploy.audit import audited
from flowguard.deploy.bucket_checks import check_buckets
from flowguard.deploy.derive import needs_of
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.key_policy import key_policy
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.resource_policies import ResourcePolicies, _Longest, check_sizes, size_of
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from tests.deploy import uploading
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import read
from tests.deploy.templates import of_type, text_of
from tests.deploy.test_doctor import SESSION

KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/0123abcd-12ab-34cd-56ef-1234567890ab"
ARN: Final = "arn:aws:sqs:eu-west-1:123456789012:files"


class Change(BaseModel):
    object: dict[str, Any]


class Index(Stage[Change], name="index", inbox="files"):
    def handle(self, change: Change, step: Step) -> Outcome:
        return Done()


class Files(Flow, name="files", object_id="object.key", callbacks=(Callback(Queue("scans"), id="object.key"),)):
    stages = (Index,)


class Fifo(Flow, name="files", object_id="object.key", inbox="index.fifo"):
    stages = (type("Index", (Index,), {}, name="index", inbox="index.fifo"),)


def deployment(options: DeployOptions, flow: type[Flow] = Files) -> Deployment:
    stages = tuple((flow, stage) for stage in flow.stages)
    functions = [FoundFunction(__name__, "serve", FunctionKind.STAGES, (flow,), stages)]
    if flow.callbacks:
        functions.append(FoundFunction(__name__, "answers", FunctionKind.ANSWERS, (flow,), ()))
    return needs_of(functions, options)


def options(**queues: Any) -> DeployOptions:
    return DeployOptions.model_validate({"queues": queues or {"files": {"buckets": ["uploads", "more.uploads"]}}})


def policy(form: str, chosen: DeployOptions, queue: str = "files") -> list[Any]:
    """The statements of a queue's policy in a template."""
    made = json.loads(FORMATS[form](deployment(chosen), chosen))
    if form == "terraform-json":
        policies = made["resource"]["aws_sqs_queue_policy"]
        found = [json.loads(each["policy"]) for name, each in policies.items() if name == queue]
    else:
        of_queue = [
            each["Properties"] for each in made["Resources"].values() if each["Type"] == "AWS::SQS::QueuePolicy"
        ]
        found = [each["PolicyDocument"] for each in of_queue if each["Queues"] == [{"Ref": f"{queue.title()}Queue"}]]
    return [statement for each in found for statement in each["Statement"]]


@pytest.mark.parametrize(("form", "account"), [("cloudformation", {"Ref": "AWS::AccountId"}), ("sam", None)])
def test_each_bucket_may_send_as_long_as_it_is_of_this_account(form: str, account: Any) -> None:
    [first] = policy(form, options())
    assert first["Principal"] == {"Service": "s3.amazonaws.com"}
    assert first["Action"] == "sqs:SendMessage"
    assert first["Condition"] == {
        "ArnEquals": {
            "aws:SourceArn": [
                {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::{name}"} for name in ("uploads", "more.uploads")
            ]
        },
        "StringEquals": {"aws:SourceAccount": account or {"Ref": "AWS::AccountId"}},
    }
    assert policy(form, options(scans={"buckets": ["scanned"]})) == []


def test_terraform_says_the_same() -> None:
    [first] = policy("terraform-json", options())
    sources = first["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert [source.rpartition(":s3:::")[2] for source in sources] == ["uploads", "more.uploads"]
    assert "account_id" in first["Condition"]["StringEquals"]["aws:SourceAccount"]


def test_what_a_topic_feeds_names_no_account() -> None:
    class Told(Stage[Change], name="told", inbox=Topic("arn:aws:sns:eu-west-1:123456789012:told")):
        def handle(self, change: Change, step: Step) -> Outcome:
            return Done()

    class OfTopic(Flow, name="told", object_id="object.key"):
        stages = (Told,)

    chosen = DeployOptions()
    made = json.loads(FORMATS["cloudformation"](deployment(chosen, OfTopic), chosen))
    conditions = [
        statement.get("Condition", {})
        for each in made["Resources"].values()
        if each["Type"] == "AWS::SQS::QueuePolicy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow" and "Service" in statement["Principal"]
    ]
    assert len(conditions) == 2, "of the queue, and of what the topic cannot deliver"
    assert all("StringEquals" not in condition for condition in conditions)


def test_a_closed_queue_still_lets_its_buckets_send() -> None:
    chosen = options(files={"buckets": ["uploads"], "senders": ["arn:aws:iam::123456789012:role/shop"]})
    *_, denied = policy("cloudformation", chosen)
    assert denied["Effect"] == "Deny"
    assert denied["Condition"]["Bool"] == {"aws:PrincipalIsAWSService": "false"}


def test_the_queue_of_a_callback_may_be_told_too() -> None:
    chosen = options(scans={"buckets": ["scanned"]})
    assert {queue.name: queue.buckets for queue in deployment(chosen).queues}["scans"] == ("scanned",)
    assert "scanned" in str(policy("cloudformation", chosen, "scans"))


@pytest.mark.parametrize(
    ("flow", "queue", "problem"),
    [
        (Fifo, "index.fifo", "S3 sends nothing to a FIFO queue"),
        (Files, "files-dead-letters", "no request enters there"),
    ],
)
def test_what_no_bucket_can_tell_is_refused(flow: type[Flow], queue: str, problem: str) -> None:
    with pytest.raises(CannotDeploy) as refused:
        deployment(options(**{queue: {"buckets": ["uploads"]}}), flow)
    [only] = refused.value.problems
    assert problem in only
    deployment(options(**{queue: {}}), flow)


def test_a_bucket_goes_by_its_name_or_its_arn() -> None:
    assert options(files={"buckets": ["arn:aws:s3:::uploads"]}).queues["files"].buckets == ("uploads",)
    with pytest.raises(ValueError, match="pattern"):
        options(files={"buckets": ["arn:aws:s3:::uploads/keys"]})


def test_what_is_needed_and_the_audit_name_them() -> None:
    needed = deployment(options())
    buckets = {queue["name"]: queue["buckets"] for queue in json.loads(described(needed, options()))["queues"]}
    assert (buckets["files"], buckets["scans"]) == (["uploads", "more.uploads"], [])
    assert "the bucket uploads, the bucket more.uploads" in audited(needed, options())


def test_a_key_of_the_queue_lets_s3_use_it_for_that_queue_alone() -> None:
    chosen = DeployOptions.model_validate({"kms_key": KEY, "queues": {"files": {"buckets": ["uploads"]}}})
    statements = {each["Sid"]: each for each in key_policy(deployment(chosen), KEY, DeployOptions())["Statement"]}
    assert statements["Notices"]["Principal"] == {"Service": "s3.amazonaws.com"}
    assert statements["Notices"]["Condition"] == {"ArnEquals": {"kms:EncryptionContext:aws:sqs:arn": [ARN]}}
    without = DeployOptions.model_validate({"kms_key": KEY})
    assert "Notices" not in {each["Sid"] for each in key_policy(deployment(without), KEY, DeployOptions())["Statement"]}


# -- topics that buckets tell


BUCKETS = ("scans", "more.scans")


def told(**topics: Any) -> Deployment:
    given = {**uploading.OPTIONS, **({"topics": topics} if topics else {})}
    return needs("tests.deploy.uploading", options=DeployOptions.model_validate(given))


def test_each_bucket_may_publish_to_its_topic_as_long_as_it_is_of_this_account() -> None:
    """One statement for all: SNS refuses a policy of several statements without ids."""
    [(_, own)] = of_type("uploading", "AWS::SNS::TopicPolicy")
    assert own["PolicyDocument"]["Version"] == "2012-10-17"
    [first] = own["PolicyDocument"]["Statement"]
    [(label, _)] = of_type("uploading", "AWS::SNS::Topic")
    assert own["Topics"] == [first["Resource"]] == [{"Ref": label}]
    assert (first["Effect"], first["Action"]) == ("Allow", "sns:Publish")
    assert first["Principal"] == {"Service": "s3.amazonaws.com"}
    assert first["Condition"] == {
        "ArnEquals": {"aws:SourceArn": [{"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::{name}"} for name in BUCKETS]},
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
    }


def test_the_policy_of_a_topic_that_one_bucket_tells_names_it_alone() -> None:
    chosen = DeployOptions.model_validate({**uploading.OPTIONS, "topics": {"told": {"buckets": ["scans"]}}})
    made = json.loads(FORMATS["cloudformation"](needs("tests.deploy.uploading", options=chosen), chosen))
    [own] = [each for each in made["Resources"].values() if each["Type"] == "AWS::SNS::TopicPolicy"]
    [only] = own["Properties"]["PolicyDocument"]["Statement"]
    assert only["Condition"]["ArnEquals"] == {"aws:SourceArn": {"Fn::Sub": "arn:${AWS::Partition}:s3:::scans"}}


def test_a_topic_that_is_there_already_or_that_no_bucket_tells_gets_no_policy() -> None:
    others: tuple[dict[str, Any], ...] = ({"told": {"existing": True, "buckets": ["scans"]}}, {"told": {}})
    for topics in others:
        chosen = DeployOptions.model_validate({**uploading.OPTIONS, "topics": topics})
        made = json.loads(FORMATS["cloudformation"](needs("tests.deploy.uploading", options=chosen), chosen))
        assert "AWS::SNS::TopicPolicy" not in {each["Type"] for each in made["Resources"].values()}


def test_the_buckets_of_a_topic_are_those_of_its_name_and_of_its_arn() -> None:
    needed = told(told={"buckets": ["scans"]}, **{uploading.TOLD: {"buckets": ["more.scans", "scans"]}})
    assert [topic.buckets for topic in needed.topics] == [("more.scans", "scans")]
    assert json.loads(described(needed, options()))["topics"][0]["buckets"] == ["more.scans", "scans"]
    assert [topic.existing for topic in told(told={"existing": True}, **{uploading.TOLD: {}}).topics] == [True]


def test_a_file_whose_topic_lets_its_buckets_in_is_right() -> None:
    needed = told()
    account = PlannedAccount(read(text_of("uploading", "cloudformation"), "cloudformation"), needed)
    assert list(check_buckets(needed, account)) == []


@pytest.mark.parametrize(
    ("home", "wanted"), [(None, set()), ("123456789012", {"topic-closed"}), ("210987654321", set())]
)
def test_another_account_in_the_policy_of_a_file_lets_no_bucket_of_the_options_account_in(
    home: str | None, wanted: set[str]
) -> None:
    needed = replace(told(), account=home)
    text = json.dumps(json.loads(text_of("uploading", "cloudformation")))
    literal = text.replace('"aws:SourceAccount": {"Ref": "AWS::AccountId"}', '"aws:SourceAccount": "210987654321"')
    assert literal != text
    account = PlannedAccount(read(literal, "cloudformation"), needed)
    assert {each.rule for each in check_buckets(needed, account)} == wanted


def test_no_bucket_tells_a_fifo_topic() -> None:
    class OfFifo(Flow, name="fed", object_id="object.key"):
        stages = (type("Index", (Index,), {}, name="index", inbox=Topic(f"{uploading.TOLD}.fifo")),)

    chosen = DeployOptions.model_validate({"topics": {"told.fifo": {"buckets": ["scans"]}}})
    with pytest.raises(CannotDeploy, match=r"'told\.fifo'.* has buckets, and S3 sends nothing to a FIFO topic"):
        deployment(chosen, OfFifo)
    assert [topic.buckets for topic in deployment(DeployOptions(), OfFifo).topics] == [()]


def test_a_topic_that_more_buckets_tell_than_its_policy_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = [f"{'b' * 50}-{number}" for number in range(500)]
    needed = told(told={"buckets": buckets})
    problem = r"the policy of told may take \d\d,\d{3} bytes for 500 buckets, and SNS takes 30,000; let some"
    with pytest.raises(CannotDeploy, match=problem):
        check_sizes(needed, DeployOptions())
    check_sizes(told(told={"buckets": buckets, "existing": True}), DeployOptions())
    needed = told(told={"buckets": buckets[:101]})
    check_sizes(needed, DeployOptions())
    policy = ResourcePolicies(needed, DeployOptions(), _Longest(needed, DeployOptions())).of_topic(needed.topics[0])
    assert policy["Version"] == "2012-10-17"
    size = size_of(policy)
    monkeypatch.setattr("flowguard.deploy.resource_policies.LARGEST_TOPIC_POLICY", size)
    check_sizes(needed, DeployOptions())
    monkeypatch.setattr("flowguard.deploy.resource_policies.LARGEST_TOPIC_POLICY", size - 1)
    with pytest.raises(CannotDeploy):
        check_sizes(needed, DeployOptions())


def test_a_key_of_the_topic_lets_s3_use_it_for_that_topic_alone() -> None:
    chosen = {"buckets": ["scans"], "kms_key": KEY}
    statements = {each["Sid"]: each for each in key_policy(told(told=chosen), KEY, DeployOptions())["Statement"]}
    assert statements["NoticesToTopics"]["Principal"] == {"Service": "s3.amazonaws.com"}
    assert statements["NoticesToTopics"]["Condition"] == {
        "ArnEquals": {"kms:EncryptionContext:aws:sns:topicArn": [uploading.TOLD]}
    }
    for other in ({"kms_key": KEY}, {"buckets": ["scans"], "kms_key": KEY.replace("0123", "9999")}):
        of_queue = {"kms_key": KEY, "buckets": ["uploads"]}
        needed = needs(
            "tests.deploy.uploading",
            options=DeployOptions.model_validate(
                {**uploading.OPTIONS, "topics": {"told": other}, "queues": {"files": of_queue}}
            ),
        )
        assert "NoticesToTopics" not in {each["Sid"] for each in key_policy(needed, KEY, DeployOptions())["Statement"]}


# -- what is live


@pytest.fixture
def topic() -> Iterator[str]:
    with EmbeddedAWS():
        place = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}
        for bucket in ("scans", "more.scans"):
            SESSION.client("s3").create_bucket(Bucket=bucket, **place)
        yield SESSION.client("sns").create_topic(Name="told")["TopicArn"]


def let_in(*buckets: str, **changes: Any) -> None:
    """Let buckets publish to the topic."""
    statements = [
        {
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "SNS:Publish",
            "Resource": uploading.TOLD,
            "Condition": {
                "ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{bucket}"},
                "StringEquals": {"aws:SourceAccount": "123456789012"},
            },
            **changes,
        }
        for bucket in buckets
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    SESSION.client("sns").set_topic_attributes(TopicArn=uploading.TOLD, AttributeName="Policy", AttributeValue=policy)


def publish_to(bucket: str, topic: str) -> None:
    given = {"TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]}
    SESSION.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=given)


def found_of_topics() -> list[tuple[str, str, str]]:
    wanted = told(told={"buckets": ["scans", "more.scans"]})
    of_topics = replace(wanted, queues=())
    found = list(check_buckets(of_topics, LiveAccount(SESSION)))
    assert {each.severity.value for each in found} <= {"error"}
    return [(each.rule, each.resource, each.what) for each in found]


def test_a_topic_that_lets_no_bucket_in_is_found(topic: str) -> None:
    assert topic == uploading.TOLD
    publish_to("scans", topic)
    publish_to("more.scans", topic)
    let_in("scans", "more.scans")
    assert found_of_topics() == []
    let_in("scans")
    closed = "its policy does not let the bucket more.scans publish"
    assert found_of_topics() == [("topic-closed", "told", closed)]
    for wrong in ({"Action": "sns:Subscribe"}, {"Principal": {"Service": "events.amazonaws.com"}}):
        let_in("scans", "more.scans", **wrong)
        assert [rule for rule, _, _ in found_of_topics()] == ["topic-closed", "topic-closed"]
    of_others = {"StringEquals": {"aws:SourceAccount": "210987654321"}}
    let_in("scans", "more.scans", Condition=of_others)
    assert [rule for rule, _, _ in found_of_topics()] == ["topic-closed", "topic-closed"]
    let_in("scans", "more.scans", Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})
    assert found_of_topics() == [], "whether that holds is not known"


def test_a_bucket_that_tells_its_topic_nothing_is_found(topic: str) -> None:
    let_in("scans", "more.scans")
    publish_to("scans", topic)
    publish_to("more.scans", SESSION.client("sns").create_topic(Name="others")["TopicArn"])
    [(rule, resource, what)] = found_of_topics()
    assert (rule, resource) == ("bucket-silent", "told")
    assert "more.scans" in what
    SESSION.client("s3").delete_bucket(Bucket="more.scans")
    assert [(rule, resource) for rule, resource, _ in found_of_topics()] == [("bucket-missing", "more.scans")]


def test_a_topic_that_may_not_be_read_is_not_closed(topic: str) -> None:
    publish_to("scans", topic)
    publish_to("more.scans", topic)

    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetTopicAttributes":
            raise denied(call.operation)
        return proceed()

    with intercept(deny):
        assert found_of_topics() == []

    def unsaid(call: ApiCall, proceed: Proceed) -> Response:
        return {"Attributes": {}} if call.operation == "GetTopicAttributes" else proceed()

    with intercept(unsaid):
        assert [rule for rule, _, _ in found_of_topics()] == ["topic-closed", "topic-closed"]

    def deny_buckets(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetBucketNotificationConfiguration":
            raise denied(call.operation)
        return proceed()

    let_in("scans", "more.scans")
    with intercept(deny_buckets):
        assert found_of_topics() == []


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with EmbeddedAWS() as made:
        place = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}
        for bucket in ("uploads", "more.uploads"):
            SESSION.client("s3").create_bucket(Bucket=bucket, **place)
        SESSION.client("sqs").create_queue(QueueName="files")
        yield made


def tell(bucket: str, *queues: str) -> None:
    told = [{"QueueArn": queue, "Events": ["s3:ObjectCreated:*"]} for queue in queues]
    given = {"QueueConfigurations": told}
    SESSION.client("s3").put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=given)


def findings() -> list[LiveFinding]:
    return list(check_buckets(deployment(options()), LiveAccount(SESSION)))


def test_a_bucket_that_tells_its_queue_nothing_is_found(aws: EmbeddedAWS) -> None:
    SESSION.client("sqs").create_queue(QueueName="others")
    tell("uploads", ARN)
    tell("more.uploads", ARN.replace("files", "others"))
    [only] = findings()
    assert (only.rule, only.resource, only.severity.value) == ("bucket-silent", "files", "error")
    assert "more.uploads" in only.what
    tell("more.uploads", ARN)
    assert findings() == []


def test_the_doctor_asks(aws: EmbeddedAWS) -> None:
    tell("uploads", ARN)
    found = examine(deployment(options()), options(), LiveAccount(SESSION), now=0, most_runs=0)
    assert "bucket-silent" in {each.rule for each in found}


def test_a_bucket_that_is_not_there_is_found_and_one_that_may_not_be_read_is_none(aws: EmbeddedAWS) -> None:
    SESSION.client("s3").delete_bucket(Bucket="uploads")
    tell("more.uploads", ARN)
    assert [(each.rule, each.resource) for each in findings()] == [("bucket-missing", "uploads")]

    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetBucketNotificationConfiguration":
            raise denied(call.operation)
        return proceed()

    with intercept(deny):
        assert findings() == []


def denied(operation: str) -> Exception:
    from botocore.exceptions import ClientError

    return ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)


def test_a_queue_that_is_not_there_is_the_finding_of_others(aws: EmbeddedAWS) -> None:
    SESSION.client("sqs").delete_queue(QueueUrl=SESSION.client("sqs").get_queue_url(QueueName="files")["QueueUrl"])
    assert findings() == []


def test_a_file_does_not_say_whom_a_bucket_tells() -> None:
    chosen = options()
    needed = deployment(chosen)
    account = PlannedAccount(read(FORMATS["cloudformation"](needed, chosen), "cloudformation"), needed)
    assert list(check_buckets(needed, account)) == []
    assert "whom the bucket tells of its objects" in str([*account.notes()])

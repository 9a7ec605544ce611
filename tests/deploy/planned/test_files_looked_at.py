"""``flowguard doctor`` on files: nothing is wrong with what ``flowguard iac`` writes, and each break is found."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any, Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.deploy.planned.resources import KINDS
from flowguard.deploy.planned.values import Answer
from tests.deploy.everything import NEWS, PLACED
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import Text, findings, found_in, made, read
from tests.deploy.templates import MODULES, SHIPPED, options_of, template, text_of
from tests.deploy.test_doctor_security import ASKED, BOUNDARY, MODULE, OTHER_SIGNING, assumed_by
from tests.deploy.test_keys import KEY
from tests.deploy.test_keys import THEIRS as THEIR_KEY

ELSEWHERE: Final[dict[str, set[Text]]] = {
    "everything": {
        ("not-looked-at", "note", "answers-here, orders-a, orders-placed, parcels, theirs"),
        ("not-looked-at", "note", "shipping"),
    },
    "streaming": {("not-looked-at", "note", "clicked, viewed"), ("not-looked-at", "note", "prices")},
    "uploading": {("not-looked-at", "note", "more.scans, scans, uploads")},
}
"""What the files of a deployment do not say."""

PACK: Final = "EverythingPackFunction"
INBOX: Final = "EverythingPackQueue"


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here asks the network."""

    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_wrong_with_what_is_generated(name: str, form: str) -> None:
    assert {*found_in(name, form)} == ELSEWHERE.get(name, set())


def test_the_flows_that_are_shipped_are_among_them() -> None:
    assert {*SHIPPED} <= MODULES.keys()


# -- the formats agree


def plain(answer: Any, *keys: str) -> Any:
    """An answer as values, of which these are looked at."""
    if isinstance(answer, list):
        return sorted((plain(each, *keys) for each in answer), key=lambda each: json.dumps(each, sort_keys=True))
    if not isinstance(answer, Answer):
        return answer
    return {key: plain(answer[key]) for key in answer if not keys or key in keys}


def variables(account: PlannedAccount, function: str) -> list[str]:
    """The names of a function's variables. What they are is each language's own."""
    there = account.function(function)
    assert there is not None
    return sorted(there["Environment"]["Variables"])


def answers(name: str, form: str) -> dict[str, Any]:
    """What an account answers to all that is asked of a deployment, but what roles may do."""
    needed = needs(MODULES[name], options=options_of(name))
    account = PlannedAccount(read(text_of(name, form), form), needed)
    queue = ("QueueArn", "VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize", "RedrivePolicy")
    source = (
        *("EventSourceArn", "State", "BatchSize", "FunctionResponseTypes", "ScalingConfig", "MaximumRetryAttempts"),
        *("MaximumRecordAgeInSeconds", "BisectBatchOnFunctionError", "DestinationConfig"),
    )
    subscription = ("Endpoint", "Protocol", "RedrivePolicy", "RawMessageDelivery")
    function = ("FunctionArn", "Handler", "Timeout")
    return {
        **{f"queue {each.name}": plain(account.queue(each.name), *queue) for each in needed.queues if each.made},
        **{f"topic {each.arn}": plain(account.subscriptions(each.arn), *subscription) for each in needed.topics},
        **{f"ttl {each.name}": account.time_to_live(each.name) for each in needed.tables if not each.existing},
        **{f"restored {each.name}": account.restorable(each.name) for each in needed.tables if not each.existing},
        **{
            f"table {each.name}": plain(account.table(each.name), "KeySchema", "AttributeDefinitions")
            for each in needed.tables
            if not each.existing
        },
        **{f"function {each.name}": plain(account.function(each.name), *function) for each in needed.functions},
        **{f"variables {each.name}": variables(account, each.name) for each in needed.functions},
        **{f"loops {each.name}": account.loops(each.name) for each in needed.functions},
        **{f"sources {each.name}": plain(account.event_sources(each.name), *source) for each in needed.functions},
        **{f"url {each.name}": account.url_auth(each.name) for each in needed.functions},
        **{f"log {each.name}": plain(account.log_group(each.name)) for each in needed.functions},
        **{
            f"rule {each.name} {bus}": len(account.rules(KINDS["AWS::SQS::Queue"].arn(each.name), bus.name))
            for each in needed.queues
            for bus in each.rules
        },
    }


@pytest.mark.parametrize("form", ["sam", "terraform-json"])
@pytest.mark.parametrize("name", ["everything", "starting", "streaming", "topics", "charging"])
def test_the_files_of_one_deployment_answer_alike(name: str, form: str) -> None:
    assert answers(name, form) == answers(name, "cloudformation")


# -- what is broken is found


def properties(template: Any, label: str) -> Any:
    return template["Resources"][label]["Properties"]


def put(label: str, **changes: Any) -> Callable[[Any], None]:
    """Set properties of a resource. None takes one away."""

    def change(template: Any) -> None:
        given = properties(template, label)
        given.update(changes)
        for name in [name for name, value in changes.items() if value is None]:
            del given[name]

    return change


def without(label: str) -> Callable[[Any], None]:
    def change(template: Any) -> None:
        del template["Resources"][label]

    return change


def within(label: str, *path: str, **changes: Any) -> Callable[[Any], None]:
    """Set what is within a property. None takes it away."""

    def change(template: Any) -> None:
        given = properties(template, label)
        for part in path:
            given = given[part]
        given.update(changes)
        for name in [name for name, value in changes.items() if value is None]:
            del given[name]

    return change


def labels(name: str) -> dict[str, Any]:
    resources: dict[str, Any] = template(name)["Resources"]
    return resources


def label_of(type_: str) -> str:
    """The label of the first resource of a type."""
    return next(label for label, resource in labels("everything").items() if resource["Type"] == type_)


SOURCE: Final = "EverythingPackEverythingPackSource"
RUNS: Final = "FlowguardTable"
SUBSCRIPTION: Final = next(
    label
    for label, each in labels("everything").items()
    if each["Type"] == "AWS::SNS::Subscription" and "GetAtt': ['EverythingPackQueue" in str(each)
)
RULE: Final = next(label for label, each in labels("everything").items() if each["Type"] == "AWS::Events::Rule")


def mix(template: Any) -> None:
    """Subscribe another queue, which gets raw messages."""
    given = {**properties(template, SUBSCRIPTION), "Endpoint": "arn:aws:sqs:eu-west-1:1:x", "RawMessageDelivery": True}
    template["Resources"]["Mixed"] = {"Type": "AWS::SNS::Subscription", "Properties": given}


def misplace(template: Any) -> None:
    queue = {"Fn::GetAtt": ["EverythingEventsQueue", "Arn"]}
    given = {**properties(template, SOURCE), "EventSourceArn": queue}
    template["Resources"]["Misplaced"] = {"Type": "AWS::Lambda::EventSourceMapping", "Properties": given}


def untopic(template: Any) -> None:
    topic, resources = label_of("AWS::SNS::Topic"), template["Resources"]
    for label in [label for label, each in resources.items() if each["Type"] == "AWS::SNS::Subscription"]:
        del resources[label]
    del resources[topic]


def forbid(template: Any) -> None:
    properties(template, "EverythingAnswersRole")["Policies"][0]["PolicyDocument"]["Statement"][0]["Action"] = ["x:y"]


BROKEN: Final[dict[str, tuple[Callable[[Any], None], Text]]] = {
    "no queue": (without(INBOX), ("queue-missing", "error", "everything-pack")),
    "a short visibility": (put(INBOX, VisibilityTimeout=5), ("visibility-short", "error", "everything-pack")),
    "no visibility": (put(INBOX, VisibilityTimeout=None), ("visibility-short", "error", "everything-pack")),
    "no margin": (put(INBOX, VisibilityTimeout=100), ("visibility-short", "warning", "everything-pack")),
    "no retention": (
        put("EverythingKilledQueue", MessageRetentionPeriod=None),
        ("retention-short", "warning", "everything-killed"),
    ),
    "short messages": (put(INBOX, MaximumMessageSize=1024), ("message-size-small", "warning", "everything-pack")),
    "no redrive policy": (put(INBOX, RedrivePolicy=None), ("redrive-missing", "error", "everything-pack")),
    "few receives": (
        within(INBOX, "RedrivePolicy", maxReceiveCount=1),
        ("receives-few", "error", "everything-pack"),
    ),
    "dead letters that expire first": (
        put("EverythingKilledQueue", MessageRetentionPeriod="345600"),
        ("dead-letters-expire-first", "error", "everything-pack"),
    ),
    "no topic": (untopic, ("topic-missing", "error", NEWS.arn)),
    "no dead letters of a subscription": (
        put(SUBSCRIPTION, RedrivePolicy=None),
        ("undelivered-dropped", "warning", "everything-pack"),
    ),
    "raw messages for some": (mix, ("raw-delivery-mixed", "warning", PLACED.arn)),
    "another queue is subscribed": (
        put(SUBSCRIPTION, Endpoint="arn:aws:sqs:eu-west-1:1:x"),
        ("subscription-missing", "error", "everything-pack"),
    ),
    "no rule": (without(RULE), ("rule-missing", "error", "everything-events")),
    "a rule of another bus": (put(RULE, EventBusName="other"), ("rule-missing", "error", "everything-events")),
    "no schedule group": (without("SchedulerGroup"), ("schedule-group-missing", "error", "flowguard")),
    "no table": (without(RUNS), ("table-missing", "error", "flowguard")),
    "other keys": (
        put("LinesTable", KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}]),
        ("keys-other", "error", "lines"),
    ),
    "no expiry": (put(RUNS, TimeToLiveSpecification=None), ("ttl-off", "warning", "flowguard")),
    "another expiry": (
        within(RUNS, "TimeToLiveSpecification", AttributeName="expires"),
        ("ttl-other", "error", "flowguard"),
    ),
    "an expiry that is off": (
        within(RUNS, "TimeToLiveSpecification", Enabled="false"),
        ("ttl-off", "warning", "flowguard"),
    ),
    "no recovery": (put(RUNS, PointInTimeRecoverySpecification=None), ("not-restorable", "warning", "flowguard")),
    "no function": (without(PACK), ("function-missing", "error", "everything-pack")),
    "another handler": (put(PACK, Handler="x.y"), ("handler-other", "error", "everything-pack")),
    "a short time-out": (put(PACK, Timeout=2), ("timeout-short", "error", "everything-pack")),
    "no time-out": (put(PACK, Timeout=None), ("batch-slow", "error", "everything-pack")),
    "a log of text": (put(PACK, LoggingConfig=None), ("log-format-text", "warning", "everything-pack")),
    "a log without events": (
        within(PACK, "LoggingConfig", ApplicationLogLevel="ERROR"),
        ("log-level-high", "warning", "everything-pack"),
    ),
    "a chain that is stopped": (put(PACK, RecursiveLoop=None), ("chain-stopped", "error", "everything-pack")),
    "another run table": (
        within(PACK, "Environment", "Variables", FLOWGUARD_TABLE="x"),
        ("table-other", "error", "everything-pack"),
    ),
    "no scheduler": (
        within(PACK, "Environment", "Variables", FLOWGUARD_SCHEDULER_ROLE=None),
        ("setting-missing", "error", "everything-pack"),
    ),
    "no signatures": (
        within(PACK, "Environment", "Variables", FLOWGUARD_SIGNING_KEYS=None),
        ("unsigned", "error", "everything-pack"),
    ),
    "a setting that is none": (
        within(PACK, "Environment", "Variables", FLOWGUARD_TABEL="x"),
        ("setting-unknown", "warning", "everything-pack"),
    ),
    "a bucket that anybody may own": (
        within(PACK, "Environment", "Variables", FLOWGUARD_BUCKET_OWNER=None),
        ("bucket-owner-missing", "warning", "everything-pack"),
    ),
    "no source": (without(SOURCE), ("source-missing", "error", "everything-pack")),
    "a source that is off": (put(SOURCE, Enabled=False), ("source-off", "error", "everything-pack")),
    "a source without answers": (
        put(SOURCE, FunctionResponseTypes=None),
        ("report-failures-missing", "error", "everything-pack"),
    ),
    "a source that leaves records out": (
        put(SOURCE, FilterCriteria={"Filters": [{"Pattern": '{"body": {"kind": ["order"]}}'}]}),
        ("source-filtered", "error", "everything-pack"),
    ),
    "a batch that is gathered for longer than it is hidden": (
        put(SOURCE, MaximumBatchingWindowInSeconds="300"),
        ("visibility-short", "warning", "everything-pack"),
    ),
    "a batch that is slow": (put(SOURCE, BatchSize=500), ("batch-slow", "error", "everything-pack")),
    "a queue of another function": (misplace, ("source-other", "error", "everything-pack")),
    "no URL": (without("EverythingAnswersUrlUrl"), ("url-missing", "warning", "everything-answers-url")),
    "what a role may not": (forbid, ("permission-missing", "error", "everything-answers")),
    "a log that is kept for ever": (
        put("EverythingPackLogs", RetentionInDays=None),
        ("log-kept-other", "warning", "/aws/lambda/everything-pack"),
    ),
}


@pytest.mark.slow("breaks each part of a file")
@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_found(broken: str) -> None:
    change, expected = BROKEN[broken]
    assert expected in found_in("everything", change=change)


def test_an_open_queue_is_named() -> None:
    template = json.loads(text_of("everything", "cloudformation"))
    put(SOURCE, ScalingConfig=None)(template)
    needed = needs(MODULES["everything"], options=options_of("everything"))
    looked = findings(read(json.dumps(template), "cloudformation"), needed, options_of("everything"))
    assert [each.resource for each in looked if each.rule == "concurrency-open"] == ["everything-pack"]


NOT_MEANT: Final = '{"source": ["elsewhere"]}'


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (NOT_MEANT, {"rule-other"}),
        ({"Fn::Sub": NOT_MEANT}, {"rule-other"}),
        ('{"detail": {"a": ["b"]}}', set()),
        ({"Fn::ImportValue": "pattern"}, {"EventPattern"}),
        ("no JSON", {"EventPattern"}),
        ("[1]", {"EventPattern"}),
    ],
    ids=["of other events", "of other events, with Sub", "of some", "of another stack", "no JSON", "no mapping"],
)
def test_a_pattern_may_be_a_text(pattern: Any, found: set[str]) -> None:
    assert told(put(RULE, EventPattern=pattern)) == found


@pytest.mark.parametrize(
    ("policy", "found"),
    [('{"kind": ["x"]}', {"subscription-filtered"}), ("no JSON", {"FilterPolicy"}), ("{}", set())],
)
def test_a_filter_of_a_topic_may_be_a_text(policy: str, found: set[str]) -> None:
    assert told(put(SUBSCRIPTION, FilterPolicy=policy)) == found


def told(change: Callable[[Any], None]) -> set[str]:
    """The rules of what is found beyond what the untouched file has, and what of it is not known."""
    untouched, changed = findings_with(lambda file: None), findings_with(change)
    more = [each for each in changed if each not in untouched]
    return {each.rule for each in more if each.rule not in ("not-in-a-file", "not-looked-at")} | {
        name for each in more for name in ("EventPattern", "FilterPolicy") if name in each.what
    }


def findings_with(change: Callable[[Any], None]) -> list[LiveFinding]:
    file = json.loads(text_of("everything", "cloudformation"))
    change(file)
    options = options_of("everything")
    return findings(read(json.dumps(file), "cloudformation"), needs(MODULES["everything"], options=options), options)


def test_an_open_url_is_found() -> None:
    urls = [label for label, each in labels("starting").items() if each["Properties"].get("AuthType") == "AWS_IAM"]
    assert "url-open" in {rule for rule, _, _ in found_in("starting", change=put(urls[0], AuthType="NONE"))}


STREAM: Final = next(label for label, each in labels("streaming").items() if "StartingPosition" in each["Properties"])


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"MaximumRetryAttempts": None}, "stream-age-open"),
        ({"DestinationConfig": None}, "stream-undelivered-missing"),
        ({"BisectBatchOnFunctionError": None}, "stream-whole"),
        ({"TumblingWindowInSeconds": "30"}, "stream-windowed"),
        ({"FunctionResponseTypes": []}, "report-failures-missing"),
        ({"BatchSize": 9_000}, "batch-slow"),
    ],
)
def test_what_is_broken_of_a_stream_is_found(changes: dict[str, Any], rule: str) -> None:
    assert rule in {each for each, _, _ in found_in("streaming", change=put(STREAM, **changes))}


# -- what an account asks for


def secured(change: Callable[[Any], None] = lambda _: None, form: str = "cloudformation") -> set[tuple[str, str]]:
    options = DeployOptions.model_validate({**ASKED, "vpc": {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}})
    text, needed = made(MODULE, options, form)
    template = json.loads(text)
    change(template)
    looked = findings(read(json.dumps(template), form), needed, options)
    return {(each.rule, each.resource) for each in looked if each.rule not in ("not-in-a-file", "concurrency-open")}


NO_ACCOUNT: Final = {("account-open", "arn:aws:sns:eu-west-1:123456789012:decided")}
NOT_SAID: Final = {("not-looked-at", "long-texts"), *NO_ACCOUNT}
"""The bucket is none of the template's, and the options name no account."""


@pytest.mark.parametrize("form", FORMATS)
def test_what_an_account_asks_for_is_so(form: str) -> None:
    assert secured(form=form) == NOT_SAID


SECURED: Final[dict[str, tuple[Callable[[Any], None], tuple[str, str]]]] = {
    "a table": (within("FlowguardTable", "SSESpecification", KMSMasterKeyId=THEIR_KEY), ("key-other", "flowguard")),
    "a table without": (put("FlowguardTable", SSESpecification=None), ("key-other", "flowguard")),
    "a queue": (put("SecuredQueue", KmsMasterKeyId=THEIR_KEY), ("key-other", "secured")),
    "a function": (put("SecuredAnswersFunction", KmsKeyArn=None), ("key-other", "secured-answers")),
    "a log": (put("SecuredAnswersLogs", KmsKeyId=THEIR_KEY), ("key-other", "/aws/lambda/secured-answers")),
    "a role": (put("SecuredAnswersRole", PermissionsBoundary=f"{BOUNDARY}x"), ("boundary-other", "secured-answers")),
    "a role without": (put("SecuredAnswersRole", PermissionsBoundary=None), ("boundary-other", "secured-answers")),
    "code": (
        put("SecuredAnswersFunction", CodeSigningConfigArn=OTHER_SIGNING),
        ("code-signing-other", "secured-answers"),
    ),
    "code without": (
        put("SecuredAnswersFunction", CodeSigningConfigArn=None),
        ("code-signing-other", "secured-answers"),
    ),
    "a path": (put("SecuredAnswersRole", Path="/"), ("role-path-other", "secured-answers")),
    "a path without": (put("SecuredAnswersRole", Path=None), ("role-path-other", "secured-answers")),
    "tags of a table": (put("FlowguardTable", Tags=None), ("tags-other", "flowguard")),
    "the tag of a queue": (put("SecuredQueue", Tags=None), ("queue-untagged", "secured")),
    "the tag of another flow's queue": (
        put("SecuredQueue", Tags=[{"Key": "flowguard", "Value": "others"}, {"Key": "team", "Value": "secured"}]),
        ("queue-untagged", "secured"),
    ),
    "tags of a role": (put("SecuredAnswersRole", Tags=None), ("tags-other", "secured-answers")),
    "tags of a function": (
        put("SecuredAnswersFunction", Tags=[{"Key": "team", "Value": "shop"}]),
        ("tags-other", "secured-answers"),
    ),
    "tracing": (put("SecuredAnswersFunction", TracingConfig=None), ("tracing-other", "secured-answers")),
    "trust": (
        within("SecuredAnswersRole", "AssumeRolePolicyDocument", Statement=[]),
        ("trust-missing", "secured-answers"),
    ),
    "no trust policy": (
        put("SecuredAnswersRole", AssumeRolePolicyDocument=None),
        ("trust-missing", "secured-answers"),
    ),
    "trust of others": (
        within("SecuredAnswersRole", "AssumeRolePolicyDocument", Statement=[assumed_by("*")]),
        ("trust-other", "secured-answers"),
    ),
    "a network": (put("SecuredAnswersFunction", VpcConfig=None), ("network-other", "secured-answers")),
    "a secret": (put("FlowguardSigningKeysSecret", KmsKeyId=THEIR_KEY), ("key-other", "flowguard/signing-keys")),
}


@pytest.mark.parametrize("what", SECURED)
def test_what_is_not_as_an_account_asks_is_found(what: str) -> None:
    change, expected = SECURED[what]
    assert expected in secured(change)


def without_actions(service: str) -> Callable[[Any], None]:
    """Take what a role may do at a service."""

    def change(template: Any) -> None:
        [policy] = properties(template, "SecuredAnswersRole")["Policies"]
        statements = policy["PolicyDocument"]["Statement"]
        statements[:] = [each for each in statements if not each["Action"][0].startswith(f"{service}:")]

    return change


@pytest.mark.parametrize(
    ("service", "may_not", "why"),
    [
        ("xray", "xray:PutTelemetryRecords, xray:PutTraceSegments", "X-Ray gets no traces of it"),
        ("ec2", "ec2:UnassignPrivateIpAddresses", "Lambda makes no network interfaces for it, and does not start it"),
    ],
)
def test_what_lambda_does_with_a_role_on_all_resources_is_looked_for(service: str, may_not: str, why: str) -> None:
    options = DeployOptions.model_validate({**ASKED, "vpc": {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}})
    text, needed = made(MODULE, options, "cloudformation")
    template = json.loads(text)
    without_actions(service)(template)
    [found] = [
        each
        for each in findings(read(json.dumps(template), "cloudformation"), needed, options)
        if each.rule == "permission-missing"
    ]
    assert (found.severity.value, found.resource, found.why) == ("warning", "secured-answers", why)
    assert found.what.endswith(f"{may_not} on all resources")


def test_which_key_an_alias_names_is_not_known() -> None:
    looked = secured(put("SecuredQueue", KmsMasterKeyId="alias/ours"))
    assert ("not-looked-at", "secured") in looked
    assert ("key-other", "secured") not in looked


@pytest.mark.parametrize(("key", "is_other"), [(KEY, False), (THEIR_KEY, True)])
def test_the_key_of_a_bucket_of_the_template_is_compared(key: str, is_other: bool) -> None:
    rule = {"ServerSideEncryptionByDefault": {"KMSMasterKeyID": key}}
    bucket = {"BucketName": "long-texts", "BucketEncryption": {"ServerSideEncryptionConfiguration": [rule]}}

    def add(template: Any) -> None:
        template["Resources"]["Texts"] = {"Type": "AWS::S3::Bucket", "Properties": bucket}

    assert secured(add) == NO_ACCOUNT | ({("key-other", "long-texts")} if is_other else set())


def of_the_stream(resource: Any) -> Callable[[Any], None]:
    """Let a role read one stream of a table, in place of all that the table may get."""

    def change(template: Any) -> None:
        [policy] = properties(template, "ChangesNoticeRole")["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]:
            if "dynamodb:DescribeStream" in statement["Action"]:
                statement["Resource"][1] = resource

    return change


def test_a_role_may_name_the_stream_that_its_function_reads() -> None:
    its_own = {"Fn::GetAtt": ["StockTable", "StreamArn"]}
    assert found_in("streaming", change=of_the_stream(its_own)) == found_in("streaming")
    other = {"Fn::Sub": "${FlowguardTable.Arn}/stream/*"}
    assert ("permission-missing", "error", "changes-notice") in found_in("streaming", change=of_the_stream(other))


def test_a_role_is_looked_at_also_where_no_mapping_names_the_stream() -> None:
    def change(template: Any) -> None:
        of_the_stream("arn:aws:x:::y")(template)
        for label in [
            label for label in template["Resources"] if label.startswith("ChangesNotice") and "Role" not in label
        ]:
            if template["Resources"][label]["Type"] == "AWS::Lambda::EventSourceMapping":
                del template["Resources"][label]

    looked = found_in("streaming", change=change)
    assert ("permission-missing", "error", "changes-notice") in looked
    assert ("source-missing", "error", "changes-notice") in looked


# -- whom the scheduler's role trusts

ACCOUNT: Final = {"Ref": "AWS::AccountId"}
GROUP: Final = {"Fn::Sub": "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule-group/flowguard"}
OF_SCHEDULER: Final = "EventBridge Scheduler"


def trusted(name: str = "ticking", **given: Any) -> list[Text]:
    """What is found where the scheduler's role is trusted under a condition."""
    condition = {"Condition": given} if given else {}
    statement = assumed_by({"Service": "scheduler.amazonaws.com"}, **condition)
    change = within("SchedulerRole", "AssumeRolePolicyDocument", Statement=[statement])
    return [each for each in found_in(name, change=change) if each[0].startswith("trust")]


@pytest.mark.parametrize("name", ["ticking", "approval"])
def test_a_role_of_the_scheduler_that_is_trusted_for_others_is_found(name: str) -> None:
    assert trusted(name) == [("trust-open", "warning", OF_SCHEDULER)]
    assert trusted(name, StringEquals={"aws:SourceAccount": ACCOUNT}) == [("trust-open", "warning", OF_SCHEDULER)]


@pytest.mark.parametrize(
    "condition",
    [
        {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": GROUP},
        {"aws:SourceArn": GROUP},
        {"aws:SourceArn": "arn:aws:scheduler:eu-west-1:123456789012:schedule-group/flowguard"},
    ],
)
def test_a_role_of_the_scheduler_for_its_group_alone_is_as_it_should(condition: dict[str, Any]) -> None:
    assert trusted(StringEquals=condition) == []


@pytest.mark.parametrize("name", ["ticking", "approval"])
def test_a_role_of_the_scheduler_that_trusts_another_group_is_found(name: str) -> None:
    other = {"Fn::Sub": GROUP["Fn::Sub"].replace("/flowguard", "/others")}
    assert trusted(name, StringEquals={"aws:SourceArn": other}) == [("trust-missing", "error", OF_SCHEDULER)]


def test_the_role_of_a_schedule_is_looked_at_where_no_function_names_one() -> None:
    def change(file: Any) -> None:
        for each in file["Resources"].values():
            if each["Type"] == "AWS::Lambda::Function":
                each["Properties"]["Environment"]["Variables"].pop("FLOWGUARD_SCHEDULER_ROLE", None)
        statement = assumed_by({"Service": "scheduler.amazonaws.com"})
        file["Resources"]["SchedulerRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"] = [statement]

    assert ("trust-open", "warning", OF_SCHEDULER) in found_in("ticking", change=change)


def test_a_trust_policy_that_the_deployment_says_is_noted() -> None:
    looked = secured(put("SecuredAnswersRole", AssumeRolePolicyDocument={"Fn::Transform": {"Name": "Ours"}}))
    assert ("trust-missing", "secured-answers") not in looked
    assert looked - NOT_SAID == {("not-looked-at", "SecuredAnswersRole")}


@pytest.mark.parametrize(
    ("account", "of", "is_missing"),
    [
        ("123456789012", ACCOUNT, False),
        ("123456789012", "123456789012", False),
        ("123456789012", "210987654321", True),
        (None, "210987654321", False),
    ],
)
def test_a_role_for_another_account_than_the_options_name_is_found(
    account: str | None, of: Any, is_missing: bool
) -> None:
    statement = assumed_by({"Service": "lambda.amazonaws.com"}, Condition={"StringEquals": {"aws:SourceAccount": of}})
    options = DeployOptions.model_validate({**ASKED, "account": account})
    text, needed = made(MODULE, options, "cloudformation")
    template = json.loads(text)
    within("SecuredAnswersRole", "AssumeRolePolicyDocument", Statement=[statement])(template)
    looked = findings(read(json.dumps(template), "cloudformation"), needed, options)
    assert [each.resource for each in looked if each.rule == "trust-missing"] == ["secured-answers"] * is_missing


def test_a_role_of_the_scheduler_for_another_account_than_the_options_name_is_found() -> None:
    condition = {"aws:SourceAccount": "210987654321", "aws:SourceArn": GROUP}
    assert trusted(StringEquals=condition) == [], "which account it is deployed to is not known"
    options = options_of("ticking").model_copy(update={"account": "123456789012"})
    text, needed = made(MODULES["ticking"], options, "cloudformation")
    template = json.loads(text)
    statement = assumed_by({"Service": "scheduler.amazonaws.com"}, Condition={"StringEquals": condition})
    within("SchedulerRole", "AssumeRolePolicyDocument", Statement=[statement])(template)
    looked = findings(read(json.dumps(template), "cloudformation"), needed, options)
    assert [each.resource for each in looked if each.rule.startswith("trust")] == [OF_SCHEDULER]


@pytest.mark.parametrize(
    ("form", "tags", "severity"),
    [
        ("cloudformation", [], "note"),
        ("cloudformation", [{"Key": "team", "Value": "shop"}], "warning"),
        ("sam", {}, "note"),
        ("terraform-json", {}, "warning"),
    ],
)
def test_tags_that_the_stack_may_have_are_a_note(form: str, tags: Any, severity: str) -> None:
    """A plan of Terraform says the tags of the provider too."""
    options = DeployOptions.model_validate({**ASKED, "tags": {"team": "checkout"}})
    text, needed = made(MODULE, options, form)
    template = json.loads(text)
    if form == "terraform-json":
        template["resource"]["aws_lambda_function"]["secured_answers"]["tags"] = tags
    else:
        put("SecuredAnswersFunction", Tags=tags)(template)
    looked = findings(read(json.dumps(template), form), needed, options)
    found = [(each.severity.value, each.resource) for each in looked if each.rule == "tags-other"]
    assert found == [(severity, "secured-answers")]


def test_what_a_file_has_not_is_missing_and_has_no_other_tags() -> None:
    looked = secured(lambda template: template["Resources"].pop("FlowguardTable"))
    assert ("table-missing", "flowguard") in looked
    assert ("tags-other", "flowguard") not in looked


@pytest.mark.parametrize(
    "tags", [[{"Key": "team", "Value": {"Fn::Transform": {"Name": "Ours"}}}], {"Fn::Transform": {}}]
)
def test_tags_that_the_deployment_says_are_noted(tags: Any) -> None:
    looked = secured(put("SecuredAnswersFunction", Tags=tags))
    assert ("tags-other", "secured-answers") not in looked
    assert ("queue-untagged", "secured") not in secured(put("SecuredQueue", Tags=tags))
    assert [resource for rule, resource in looked if rule == "not-looked-at" and "secured-answers" in resource]

"""What ``flowguard iac --json`` says, for those who write resources by hand or by constructs of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX
from flowguard.deploy.as_json import described
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.options import AlarmTopicOptions, DeployOptions
from tests.deploy.exercised import needs
from tests.deploy.streaming import CLICKED, PRICES
from tests.deploy.templates import MODULES, of_type, options_of, template
from tests.deploy.topics import CLUSTER

PARTS: Final = {"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012"}


def said(name: str, options: DeployOptions | None = None) -> Any:
    chosen = options_of(name) if options is None else options
    return json.loads(described(needs(MODULES[name], options=chosen), chosen))


def filled(value: Any) -> Any:
    """A value of a template or of the JSON, in which the parts of ARNs are filled in as ``Fn::Sub`` does it."""
    match value:
        case {"Fn::Sub": text}:
            return filled(text)
        case {"Ref": name}:
            return PARTS[name]
        case {"Fn::GetAtt": ["SchedulerRole", "Arn"]}:
            return "${SchedulerRole}"
        case dict():
            return {key: filled(each) for key, each in value.items()}
        case list():
            return [filled(each) for each in value]
        case str():
            for name, part in PARTS.items():
                value = value.replace(f"${{{name}}}", part)
            return value
        case _:
            return value


@pytest.mark.parametrize("name", ["approval", "everything", "orders", "streaming"])
def test_the_statements_of_a_function_are_those_of_its_role_in_the_template(name: str) -> None:
    roles = [role["Policies"][0]["PolicyDocument"]["Statement"] for _, role in of_type(name, "AWS::IAM::Role")]
    made = [function for function in said(name)["functions"] if function["role"] is None]
    assert made != []
    for function in made:
        assert filled(function["statements"]) in filled(roles)


def test_the_scheduler_is_said_where_there_is_one() -> None:
    assert said("orders")["scheduler"] is None
    told = said("approval")
    assert told["scheduler"]["group"] == "flowguard"
    assert told["scheduler"]["role"] is None
    [policy] = [role for label, role in of_type("approval", "AWS::IAM::Role") if label == "SchedulerRole"]
    sent_to = filled(policy["Policies"][0]["PolicyDocument"]["Statement"][0]["Resource"])
    assert len(sent_to) == len(told["scheduler"]["sends_to"]) > 1
    assert told["signing_secret"] == "flowguard/signing-keys"


SECURED: Final[dict[str, Any]] = {
    "kms_key": "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "role_path": "/shop/",
    "permissions_boundary": "arn:aws:iam::123456789012:policy/bounds",
    "log_retention": 365,
    "tracing": True,
    "tags": {"team": "checkout"},
    "code_signing": "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdef0",
    "vpc": {"subnets": ["subnet-1"], "security_groups": ["sg-1"]},
    "settings": {"bucket": "long-texts"},
    "defaults": {"reserved": 10, "max_concurrency": 3, "environment": {"OURS": "a ${b}"}},
}


def secured(name: str, **settings: Any) -> tuple[Any, Any]:
    """What the JSON says, and the resources of the template, under a security team's options."""
    own = {**SECURED, "settings": {**SECURED["settings"], **settings}}
    options = DeployOptions.model_validate(own)
    needed = needs(MODULES[name], options=options)
    return json.loads(described(needed, options)), json.loads(cloudformation(needed, options))["Resources"]


@pytest.mark.parametrize("settings", [{}, {"bucket_owner": "210987654321"}, {"scheduler_role": "sends-later"}])
@pytest.mark.parametrize("name", ["approval", "orders"])
def test_the_variables_of_a_function_are_those_of_the_template(name: str, settings: dict[str, str]) -> None:
    told, resources = secured(name, **settings)
    made = {
        one["Properties"]["FunctionName"]: one["Properties"]["Environment"]["Variables"]
        for one in resources.values()
        if one["Type"] == "AWS::Lambda::Function"
    }
    for function in told["functions"]:
        wanted = filled(by_name(made[function["name"]], resources))
        assert (wanted.pop("FLOWGUARD_ANSWERS_URL", None) is None) is (function["links_to"] is None)
        given = filled(function["environment"])
        assert given.pop("OURS") == "a ${!b}", "it is for Fn::Sub, which makes that of it"
        assert wanted.pop("OURS") == "a ${b}"
        assert given == wanted
    assert any("FLOWGUARD_SCHEDULER_ROLE" in one["environment"] for one in told["functions"]) is (name == "approval")


def test_what_functions_and_roles_have_in_common_is_said() -> None:
    told, resources = secured("approval")
    functions = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::Lambda::Function"]
    common = told["of_functions"]
    assert {(one["Runtime"], *one["Architectures"]) for one in functions} == {
        (common["runtime"], common["architecture"])
    }
    [logging] = {
        (one["LoggingConfig"]["ApplicationLogLevel"], one["LoggingConfig"]["SystemLogLevel"]) for one in functions
    }
    assert logging == (common["log_level"], common["system_log_level"])
    assert common["vpc"] == {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}
    assert (common["tracing"], common["log_retention"], common["code_signing"]) == (True, 365, SECURED["code_signing"])
    assert told["of_roles"] == {"path": "/shop/", "boundary": SECURED["permissions_boundary"]}
    assert (told["kms_key"], told["tags"]) == (SECURED["kms_key"], {"team": "checkout"})
    assert {one["kms_key"] for one in (*told["tables"], *told["queues"])} == {SECURED["kms_key"]}
    assert said("orders")["of_functions"]["vpc"] is None
    urls = {one["name"]: one["url_auth"] for one in told["functions"] if one["url"]}
    assert set(urls.values()) == {"NONE"}
    assert {one["reserved"] for one in told["functions"]} == {10}
    assert {tuple(one["policies"]) for one in told["functions"]} == {()}


def test_the_statements_of_the_scheduler_are_those_of_its_role_in_the_template() -> None:
    told, resources = secured("approval")
    [policy] = resources["SchedulerRole"]["Properties"]["Policies"]
    made = filled(by_name(policy["PolicyDocument"]["Statement"], resources))
    assert filled(told["scheduler"]["statements"]) == made


def by_name(value: Any, resources: Any) -> Any:
    """The value with the ARNs of the queues that it refers to."""
    match value:
        case {"Fn::GetAtt": [label, "Arn"]} if "QueueName" in resources[label]["Properties"]:
            return f"arn:aws:sqs:eu-west-1:123456789012:{resources[label]['Properties']['QueueName']}"
        case dict():
            return {key: by_name(each, resources) for key, each in value.items()}
        case list():
            return [by_name(each, resources) for each in value]
        case _:
            return value


def test_a_stream_says_how_it_is_read_and_a_table_that_it_has_one() -> None:
    told = said("streaming")
    [clicked] = [each for one in told["functions"] for each in one["streams"] if each["name"] == "clicked"]
    given = {"start": "LATEST", "batch_size": 200, "window": 5, "parallel": 3, "max_age": 3600, "max_attempts": 50}
    assert clicked.items() >= given.items()
    assert {one["name"]: one["stream"] for one in told["tables"]} == {"flowguard": None, "stock": "NEW_AND_OLD_IMAGES"}
    kafka = [each["kafka"] for one in said("topics")["functions"] for each in one["streams"]]
    assert "accounts" in {each["topic"] for each in kafka}


def test_a_queue_says_which_events_feed_it() -> None:
    rules = [rule for queue in said("everything")["queues"] for rule in queue["rules"]]
    assert rules != []
    made = {
        (rule["Name"], *rule["EventPattern"]["source"], *rule["EventPattern"]["detail-type"])
        for _, rule in of_type("everything", "AWS::Events::Rule")
    }
    assert {(rule["name"], rule["source"], rule["detail_type"]) for rule in rules} == made
    assert {rule["undelivered"] for rule in rules} <= {queue["name"] for queue in said("everything")["queues"]}


def references(name: str) -> dict[str, Any]:
    """The properties of each resource of a template, by its label."""
    return {label: each["Properties"] for label, each in template(name)["Resources"].items()}


def closed(value: Any, name: str) -> Any:
    """A value of a template, with what the JSON has for the queues, topics and roles that it refers to."""
    resources = references(name)
    match value:
        case {"Fn::GetAtt": ["SchedulerRole", "Arn"]}:
            return "${SchedulerRole}"
        case {"Fn::GetAtt": [label, "Arn"]} if "QueueName" in resources[label]:
            return f"arn:aws:sqs:eu-west-1:123456789012:{resources[label]['QueueName']}"
        case {"Fn::GetAtt": [label, "Arn"]}:
            return f"${{{label}}}"
        case {"Ref": label} if "TopicName" in resources.get(label, {}):
            return f"arn:aws:sns:eu-west-1:123456789012:{resources[label]['TopicName']}"
        case {"Ref": _} | {"Fn::Sub": _}:
            return filled(value)
        case dict():
            return {key: closed(each, name) for key, each in value.items()}
        case list():
            return [closed(each, name) for each in value]
        case _:
            return value


@pytest.mark.parametrize("name", ["answer_ticket", "everything", "ticking", "uploading"])
def test_the_policies_of_queues_and_topics_are_those_of_the_template(name: str) -> None:
    told, resources = said(name), references(name)
    for kind, property_ in (("queues", "Queues"), ("topics", "Topics")):
        made = {}
        for _, policy in of_type(name, "AWS::SQS::QueuePolicy" if kind == "queues" else "AWS::SNS::TopicPolicy"):
            there = resources[policy[property_][0]["Ref"]]
            place = there.get("QueueName", there.get("TopicName"))
            made[place] = closed(policy["PolicyDocument"]["Statement"], name)
        assert {each["name"]: filled(each["statements"]) for each in told[kind] if each["statements"]} == made
    stood = {each["role_as"] for each in told["functions"]} - {None}
    assert stood <= {label for label, _ in of_type(name, "AWS::IAM::Role")}


@pytest.mark.parametrize("name", ["everything", "orders"])
def test_the_alarms_and_the_metrics_are_those_of_the_template(name: str) -> None:
    told = said(name)
    made = {each["AlarmName"]: each for _, each in of_type(name, "AWS::CloudWatch::Alarm")}
    assert {each["name"] for each in told["alarms"]} == made.keys()
    for alarm in told["alarms"]:
        other = made[alarm["name"]]
        assert {each["Name"]: each["Value"] for each in other["Dimensions"]} == alarm["dimensions"]
        assert (other["Namespace"], other["MetricName"], other["Statistic"], other["Threshold"]) == (
            *(alarm["namespace"], alarm["metric"], alarm["statistic"], alarm["threshold"]),
        )
        assert (other["Period"], other["EvaluationPeriods"]) == (alarm["period"], alarm["periods"])
        assert other["AlarmDescription"] == alarm["about"]
    metrics = [each for _, each in of_type(name, "AWS::Logs::MetricFilter")]
    assert [each["pattern"] for each in told["metrics"]] == [each["FilterPattern"] for each in metrics]
    for metric, filter_ in zip(told["metrics"], metrics, strict=True):
        [counted] = filter_["MetricTransformations"]
        assert (metric["namespace"], metric["metric"]) == (counted["MetricNamespace"], counted["MetricName"])
        assert metric["dimensions"] == {each["Key"]: each["Value"] for each in counted["Dimensions"]}
    assert told["alarms_to"] is None
    topic = "arn:aws:sns:eu-west-1:123456789012:on-call"
    assert said(name, options_of(name).model_copy(update={"alarm_topic": AlarmTopicOptions(arn=topic)}))[
        "alarms_to"
    ] == (topic)


def test_a_topic_that_feeds_a_queue_says_where_it_leaves_what_it_cannot_deliver() -> None:
    told = said("everything")
    made = set()
    for _, each in of_type("everything", "AWS::SNS::Subscription"):
        topic, queue, kept = (
            closed(part, "everything")
            for part in (each["TopicArn"], each["Endpoint"], each["RedrivePolicy"]["deadLetterTargetArn"])
        )
        made.add((topic, queue, kept.rpartition(":")[2]))
    assert made != set()
    assert made == {
        (topic["arn"], f"arn:aws:sqs:eu-west-1:123456789012:{queue['name']}", topic["undelivered"])
        for queue in told["queues"]
        for topic in queue["topics"]
    }


def test_a_stream_says_the_arn_by_which_it_is_read_where_that_is_known() -> None:
    sources = {each["name"]: each["source"] for one in said("streaming")["functions"] for each in one["streams"]}
    assert sources == {
        "viewed": "arn:${AWS::Partition}:kinesis:${AWS::Region}:${AWS::AccountId}:stream/viewed",
        "clicked": CLICKED,
        "stock": None,
        "prices": PRICES,
    }
    streams = {each["name"]: each for one in said("topics")["functions"] for each in one["streams"]}
    assert streams["orders"]["source"] is None
    assert streams["orders"]["kafka"]["mapping"]["Topics"] == ["orders"]
    assert streams["accounts"]["source"] == CLUSTER


def test_a_schedule_says_where_it_sends_and_by_which_role() -> None:
    told = said("ticking")
    assert told["scheduler"]["role_arn"] == "${SchedulerRole}"
    assert {each["name"]: each["undelivered"] for each in told["schedules"]} == {
        each["Name"]: closed(each["Target"]["DeadLetterConfig"]["Arn"], "ticking").rpartition(":")[2]
        for _, each in of_type("ticking", "AWS::Scheduler::Schedule")
    }
    given = DeployOptions.model_validate({"settings": {"signing_keys": "ssm:/keys", "scheduler_role": "later"}})
    wanted = "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/later"
    assert said("ticking", given)["scheduler"]["role_arn"] == wanted


def test_the_index_of_runs_is_said_of_the_table_that_has_it() -> None:
    given = DeployOptions.model_validate({"tables": {"flowguard": {"run_index": True}}})
    indexes = {each["name"]: each["indexes"] for each in said("orders", given)["tables"]}
    of_runs = {"name": RUN_INDEX, "key": dict.fromkeys(INDEX_KEY, "S"), "projection": "KEYS_ONLY"}
    assert indexes.pop("flowguard") == [of_runs]
    assert not any(indexes.values())


def test_a_function_says_how_it_is_invoked() -> None:
    options = DeployOptions.model_validate({"defaults": {"memory": 512, "batch_size": 5, "max_concurrency": 7}})
    for function in said("orders", options)["functions"]:
        assert (function["memory"], function["batch_size"], function["max_concurrency"]) == (512, 5, 7)
        assert (function["window"], function["role"]) == (0, None)


PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "your-own-infrastructure.md"
PARTS_OF: Final = {"queues": ("topics", "rules"), "functions": ("streams",)}
"""The lists in what is described that have rows of their own."""


def described_fields() -> set[tuple[str, str]]:
    """Each field of the description, by the row of the page that is to have it."""
    found = set[tuple[str, str]]()
    for whole in map(said, MODULES):
        rows = {name: part if isinstance(part, list) else [part] for name, part in whole.items()}
        for name, parts in PARTS_OF.items():
            rows |= {f"{name}[].{part}": [each for one_of in whole[name] for each in one_of[part]] for part in parts}
        found |= {(row, field) for row, all_ in rows.items() for one in all_ if isinstance(one, dict) for field in one}
        found |= {(name, name) for name in whole if name not in ("flows", "notes")}
    return {(row, field) for row, field in found if row != "tags"}


@pytest.mark.slow("describes each flow of the tests")
def test_the_page_says_each_field() -> None:
    rows: dict[str, set[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").partition("| field | what it says |")[2].splitlines():
        if line.startswith("| `"):
            names = {*re.findall(r"`([a-z_\[\].]+)`", line)}
            rows |= {name: rows.get(name, set()) | names for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    rows |= {"long_delays": rows["scheduler"]}
    lacking = {(row, field) for row, field in described_fields() if field not in rows.get(row, ())}
    assert lacking == set()

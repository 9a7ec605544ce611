"""What resources have in each format, where AWS's own default would lose or stop something."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.alarms import alarms_of
from flowguard.deploy.cloudformation import LARGEST_TEMPLATE, MOST_RESOURCES, cloudformation
from flowguard.deploy.found import FunctionKind
from flowguard.deploy.needs import Role
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.events import EventType
from flowguard.worker.patience import pause
from flows.orders import flow as orders_flow
from tests.deploy.everything import OPTIONS
from tests.deploy.exercised import needs
from tests.deploy.stated import stated
from tests.deploy.templates import MODULES, SHIPPED, options_of, template, text_of
from tests.deploy.terraform_schema import SCHEMA, problems_of_configuration

ALL = pytest.mark.parametrize("name", MODULES)
AS_RESOURCES = pytest.mark.parametrize("form", ["cloudformation", "sam"])


def resources(name: str, kind: str, form: str = "cloudformation") -> dict[str, Any]:
    """The resources of a type, by their names in the template."""
    found = template(name, form)["Resources"]
    return {key: one for key, one in found.items() if one["Type"] == kind}


def functions(name: str, form: str) -> Iterator[dict[str, Any]]:
    kind = "AWS::Serverless::Function" if form == "sam" else "AWS::Lambda::Function"
    yield from (one["Properties"] for one in resources(name, kind, form).values())


def blocks(name: str, kind: str) -> dict[str, Any]:
    """The blocks of a type in Terraform's configuration."""
    found: dict[str, Any] = template(name, "terraform-json")["resource"].get(kind, {})
    return found


def alarms(name: str) -> dict[str, Any]:
    found = (one["Properties"] for one in resources(name, "AWS::CloudWatch::Alarm").values())
    return {one["AlarmName"]: one for one in found}


# -- functions


@ALL
@AS_RESOURCES
def test_no_chain_of_requests_is_stopped_by_lambda(name: str, form: str) -> None:
    assert {one["RecursiveLoop"] for one in functions(name, form)} == {"Allow"}


@ALL
def test_no_chain_of_requests_is_stopped_by_lambda_with_terraform(name: str) -> None:
    made = blocks(name, "aws_lambda_function")
    allowed = blocks(name, "aws_lambda_function_recursion_config")
    assert {one["function_name"] for one in allowed.values()} == {
        f"${{aws_lambda_function.{key}.function_name}}" for key in made
    }
    assert {one["recursive_loop"] for one in allowed.values()} == {"Allow"}


@ALL
def test_a_chain_that_lambda_stops_all_the_same_is_an_alarm(name: str) -> None:
    for function in needs(MODULES[name], options=options_of(name)).functions:
        alarm = alarms(name)[f"{function.name}-chain-stopped"]
        assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/Lambda", "RecursiveInvocationsDropped")
        assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": function.name}]
        assert (alarm["Statistic"], alarm["Threshold"]) == ("Sum", 0)


@ALL
@AS_RESOURCES
def test_levels_of_the_log_are_explicit_so_that_events_and_metrics_are_written(name: str, form: str) -> None:
    for one in functions(name, form):
        levels = (one["LoggingConfig"]["ApplicationLogLevel"], one["LoggingConfig"]["SystemLogLevel"])
        assert levels == ("INFO", "INFO")


def test_lines_of_sampled_runs_ask_for_the_level_debug() -> None:
    options = DeployOptions.model_validate({"settings": {"debug_sampled": True}})
    made = json.loads(FORMATS["terraform-json"](needs("flows.orders.handlers", options=options), options))
    for one in made["resource"]["aws_lambda_function"].values():
        assert one["logging_config"]["application_log_level"] == "DEBUG"
        assert one["logging_config"]["system_log_level"] == "INFO"


@AS_RESOURCES
def test_the_function_with_a_url_is_one_of_its_own_with_its_own_concurrency(form: str) -> None:
    made = {one["FunctionName"]: one for one in functions("everything", form)}
    assert made["everything-answers-url"]["ReservedConcurrentExecutions"] == 10
    assert made["everything-answers-url"]["Handler"] == made["everything-answers"]["Handler"]
    assert "ReservedConcurrentExecutions" not in made["everything-answers"]
    needed = needs("tests.deploy.everything", options=options_of("everything"))
    assert {one.name: bool(one.reads) for one in needed.functions if one.definition.attribute == "answers"} == {
        "everything-answers": True,
        "everything-answers-url": False,
    }
    assert [one.name for one in needed.functions if one.has_url] == ["everything-answers-url"]
    url = needed.function("everything-answers-url")
    assert not any("sqs:ReceiveMessage" in one.actions for one in url.permissions)


def test_an_account_with_little_concurrency_reserves_none_for_the_url() -> None:
    options = DeployOptions.model_validate({"defaults": {"url_concurrency": 0}})
    text = FORMATS["terraform-json"](needs("flows.approval.handlers", options=options), options)
    assert "reserved_concurrent_executions" not in text


# -- queues


@ALL
def test_a_queue_takes_what_a_flow_may_send(name: str) -> None:
    assert all(
        one["Properties"]["MaximumMessageSize"] == 1_048_576 for one in resources(name, "AWS::SQS::Queue").values()
    )
    assert all(one["max_message_size"] == 1_048_576 for one in blocks(name, "aws_sqs_queue").values())


# -- what nobody can read


@ALL
def test_what_nobody_can_read_does_not_circle_in_the_queue_of_records_given_up(name: str) -> None:
    queues = {one["Properties"]["QueueName"]: one["Properties"] for one in resources(name, "AWS::SQS::Queue").values()}
    for queue in needs(MODULES[name], options=options_of(name)).queues:
        if queue.role is not Role.KILLED or queue.reader is None:
            continue
        redrive = queues[queue.name]["RedrivePolicy"]
        [key, _] = redrive["deadLetterTargetArn"]["Fn::GetAtt"]
        last = template(name)["Resources"][key]["Properties"]
        assert last.get("FifoQueue", False) is queue.fifo, "SQS refuses a redrive policy to another kind"
        assert last["QueueName"] in {f"{flow}-dead-letters" for flow in flows(name)} | {
            f"{flow}-undelivered.fifo" for flow in flows(name)
        }
        assert f"{last['QueueName']}-not-empty" in alarms(name)
        assert redrive["maxReceiveCount"] >= 100, "an outage of hours is no reason to give it up"


def flows(name: str) -> set[str]:
    return {flow.name for flow in needs(MODULES[name], options=options_of(name)).flows}


# -- what feeds queues


def test_a_queue_lets_its_topics_and_rules_in_before_they_feed_it() -> None:
    whole = template("everything")["Resources"]
    fed = [*resources("everything", "AWS::SNS::Subscription").values(), *rules("everything")]
    assert len(fed) == 3
    for one in fed:
        target = one["Properties"].get("Endpoint") or one["Properties"]["Targets"][0]["Arn"]
        allowed = {whole[name]["Properties"]["Queues"][0]["Ref"] for name in one["DependsOn"]}
        assert allowed == {target["Fn::GetAtt"][0], undelivered(one["Properties"])}
    for policy in resources("everything", "AWS::SQS::QueuePolicy").values():
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        sources = json.dumps([one["Condition"] for one in statements if one["Effect"] == "Allow"])
        assert "Fn::GetAtt" not in sources, "a rule that waits for the policy cannot be waited for"


def rules(name: str) -> list[dict[str, Any]]:
    return [*resources(name, "AWS::Events::Rule").values()]


def undelivered(fed: dict[str, Any]) -> str:
    if "RedrivePolicy" in fed:
        return str(fed["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0])
    return str(fed["Targets"][0]["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0])


def test_what_a_topic_rule_or_schedule_cannot_deliver_is_kept_in_a_queue_of_its_kind() -> None:
    whole, names = template("everything")["Resources"], set()
    for one in [*resources("everything", "AWS::SNS::Subscription").values(), *rules("everything")]:
        queue = whole[undelivered(one["Properties"])]["Properties"]
        names.add(queue["QueueName"])
        topic = one["Properties"].get("TopicArn", {})
        of_fifo_topic = isinstance(topic, dict) and topic.get("Ref", "").endswith("NewsFifoTopic")
        assert queue.get("FifoQueue", False) is of_fifo_topic, json.dumps(one)
    assert names == {"everything-dead-letters", "everything-undelivered.fifo"}


def test_what_the_scheduler_cannot_deliver_is_kept_too() -> None:
    letters = {"Fn::GetAtt": ["EverythingDeadLettersQueue", "Arn"]}
    variables = [one["Environment"]["Variables"] for one in functions("everything", "cloudformation")]
    scheduling = [one for one in variables if "FLOWGUARD_SCHEDULER_ROLE" in one]
    assert scheduling
    assert all(one["FLOWGUARD_SCHEDULER_UNDELIVERED"] == letters for one in scheduling)
    role = template("everything")["Resources"]["SchedulerRole"]["Properties"]
    [allowed] = role["Policies"][0]["PolicyDocument"]["Statement"]
    assert letters in allowed["Resource"]


def test_terraform_makes_policies_first_too_and_permissions_before_what_lambda_checks() -> None:
    policies = {f"aws_sqs_queue_policy.{key}" for key in blocks("everything", "aws_sqs_queue_policy")}
    fed = [
        *blocks("everything", "aws_sns_topic_subscription").values(),
        *blocks("everything", "aws_cloudwatch_event_target").values(),
    ]
    assert all(set(one["depends_on"]) <= policies and len(one["depends_on"]) == 2 for one in fed)
    mappings = blocks("everything", "aws_lambda_event_source_mapping").values()
    [pack] = [one for one in mappings if "pack" in one["function_name"]]
    assert [one.split(".")[0] for one in pack["depends_on"]] == [
        "aws_lambda_function_recursion_config",
        "aws_iam_role_policy",
        "aws_iam_role_policy_attachment",
    ]


# -- what is watched


@ALL
def test_what_is_lost_unread_mistrusted_or_tried_again_and_again_is_counted(name: str) -> None:
    kinds = {
        FunctionKind.STAGES: ["fenced", "lost", "retried", "untrusted"],
        FunctionKind.ANSWERS: ["untrusted"],
        FunctionKind.KILLED: ["untrusted"],
        FunctionKind.ONCE: [],
        FunctionKind.STARTS: [],
    }
    filters = {one["Properties"]["LogGroupName"]["Ref"]: one["Properties"] for one in metric_filters(name)}
    for function in needs(MODULES[name], options=options_of(name)).functions:
        [counted] = [one for key, one in filters.items() if log_group(name, key) == f"/aws/lambda/{function.name}"]
        [transformed] = counted["MetricTransformations"]
        assert transformed["Dimensions"] == [{"Key": "event", "Value": "$.event"}]
        events = ("broken", "unreadable", "unsaved", *kinds[function.definition.kind])
        assert counted["FilterPattern"].count("$.event") == len(events)
        for event in events:
            alarm = alarms(name)[f"{function.owner}-{event}"]
            assert (alarm["Namespace"], alarm["MetricName"]) == ("flowguard", transformed["MetricName"])
            assert alarm["Dimensions"] == [{"Name": "event", "Value": event}]
            assert f'($.event = "{event}")' in counted["FilterPattern"]
            assert event in set(EventType)
        lasting = alarms(name)[f"{function.owner}-broken-for-minutes"]
        assert (lasting["Threshold"], lasting["Period"], lasting["EvaluationPeriods"]) == (0, 300, 3)
        assert lasting["Dimensions"] == [{"Name": "event", "Value": "broken"}]


def test_a_record_of_an_outage_is_received_in_each_of_its_first_three_times_five_minutes() -> None:
    """So the alarm of what is broken for minutes rings for a single one, at its longest pauses."""
    seen = [0]
    while seen[-1] < 900:
        seen.append(seen[-1] + pause(len(seen), timedelta(days=14), Longest()))
    assert max(later - before for before, later in pairwise(seen)) < 300


class Longest(random.Random):
    """Draws the longest pauses."""

    def random(self) -> float:
        return 0.0


@ALL
def test_a_function_that_fails_before_flowguard_runs_is_an_alarm(name: str) -> None:
    """One with a URL at once, for nobody calls it again; others when they go on failing."""
    for function in needs(MODULES[name], options=options_of(name)).functions:
        found = alarms(name)
        problem = "failing" if function.has_url else "failing-for-minutes"
        [alarm] = [alarm for each, alarm in found.items() if each.startswith(f"{function.name}-failing")]
        assert alarm["AlarmName"] == f"{function.name}-{problem}"
        assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": function.name}]
        assert (alarm["Namespace"], alarm["MetricName"], alarm["Threshold"]) == ("AWS/Lambda", "Errors", 0)
        assert (alarm["Statistic"], alarm["EvaluationPeriods"]) == ("Sum", 1 if function.has_url else 3)
        assert alarm["TreatMissingData"] == "notBreaching"


@ALL
def test_one_message_of_a_function_that_always_fails_is_in_each_period_of_its_alarm(name: str) -> None:
    """SQS brings it again when it is visible again, so a period is longer than that, and no more than it must."""
    needed = needs(MODULES[name], options=options_of(name))
    for function in needed.functions:
        if not function.has_url:
            period = alarms(name)[f"{function.name}-failing-for-minutes"]["Period"]
            hidden = max((needed.queue(queue).visibility for queue in function.reads), default=0)
            assert period % 300 == 0
            assert hidden < period <= hidden + 300


LONGEST_ALARM: Final = 604_800
"""Seconds that an alarm looks at."""


def test_an_alarm_looks_no_longer_than_cloudwatch_does() -> None:
    needed = needs(MODULES["orders"], options=options_of("orders"))
    slow = replace(needed, queues=tuple(replace(queue, visibility=43_200) for queue in needed.queues))
    spans = [alarm.period * alarm.periods for alarm in alarms_of(slow, 900)]
    assert 86_400 < max(spans) < LONGEST_ALARM
    assert all(alarm.period * alarm.periods <= 86_400 for alarm in alarms_of(needed, 900) if alarm.period < 3_600)


@ALL
def test_what_waits_in_a_stream_is_an_alarm(name: str) -> None:
    options = options_of(name)
    for function in needs(MODULES[name], options=options).functions:
        old, behind = (alarms(name).get(f"{function.name}-{problem}") for problem in ("stream-old", "topic-behind"))
        assert (old is not None) is any(stream.kafka is None for stream in function.streams)
        assert (behind is not None) is any(stream.kafka is not None for stream in function.streams)
        dimensions = [{"Name": "FunctionName", "Value": function.name}]
        if old is not None:
            assert (old["Namespace"], old["MetricName"], old["Dimensions"]) == ("AWS/Lambda", "IteratorAge", dimensions)
            assert (old["Statistic"], old["Threshold"]) == ("Maximum", options.oldest_message * 1000)
            assert (old["Period"], old["EvaluationPeriods"]) == (300, 1)
        if behind is not None:
            found = (behind["Namespace"], behind["MetricName"], behind["Dimensions"])
            assert found == ("AWS/Lambda", "OffsetLag", dimensions)
            assert (behind["Statistic"], behind["Threshold"]) == ("Maximum", 10_000)
            assert (behind["Period"], behind["EvaluationPeriods"]) == (300, 3)


@pytest.mark.parametrize(("oldest", "counts"), [(43_199, 43_199), (43_200, 43_200), (86_400, 43_200)])
def test_the_alarm_of_a_stream_rings_before_the_stream_deletes_records(oldest: int, counts: int) -> None:
    needed = needs(MODULES["streaming"], options=options_of("streaming"))
    found = {alarm.threshold for alarm in alarms_of(needed, oldest) if alarm.metric == "IteratorAge"}
    assert found == {counts * 1_000}


def metric_filters(name: str) -> Iterator[dict[str, Any]]:
    yield from resources(name, "AWS::Logs::MetricFilter").values()


def log_group(name: str, key: str) -> str:
    return str(template(name)["Resources"][key]["Properties"]["LogGroupName"])


# -- CloudFormation's limits


@ALL
@AS_RESOURCES
def test_a_template_stays_inside_the_limits_of_cloudformation(name: str, form: str) -> None:
    whole = template(name, form)
    assert len(text_of(name, form).encode()) < LARGEST_TEMPLATE
    assert len(whole["Resources"]) < MOST_RESOURCES
    assert len(whole["Description"].encode()) <= 1_024
    assert len(whole.get("Outputs", {})) <= 200


@pytest.mark.parametrize("left_out", SHIPPED)
def test_all_shipped_flows_but_one_fit_into_one_template(left_out: str) -> None:
    needed = needs(*(MODULES[name] for name in SHIPPED if name != left_out))
    assert len(json.loads(cloudformation(needed, DeployOptions()))["Resources"]) < MOST_RESOURCES


def test_a_template_above_the_limits_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    needed, options = needs("flows.orders.handlers"), DeployOptions()
    monkeypatch.setattr("flowguard.deploy.cloudformation.MOST_RESOURCES", 20)
    with pytest.raises(
        CannotDeploy,
        match=r"has \d+ resources, and CloudFormation takes 20; write a nested stack .* by several templates",
    ):
        cloudformation(needed, options)
    monkeypatch.undo()
    monkeypatch.setattr("flowguard.deploy.cloudformation.LARGEST_TEMPLATE", 10_000)
    with pytest.raises(CannotDeploy, match=r"has [\d,]+ bytes, and CloudFormation takes 10,000; write a nested stack"):
        cloudformation(needed, options)


# -- what is kept, and whose it is

KEPT = {"AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Scheduler::ScheduleGroup"}


@ALL
@AS_RESOURCES
def test_a_table_queue_or_group_is_kept_once_its_deployment_has_succeeded(name: str, form: str) -> None:
    """A queue that is renamed may hold messages. A first deployment that fails leaves none, so the next can begin."""
    kept = [one for one in template(name, form)["Resources"].values() if one["Type"] in KEPT]
    assert kept
    for one in kept:
        assert (one["DeletionPolicy"], one["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@AS_RESOURCES
def test_the_role_of_what_is_scheduled_is_kept_as_its_group_is(form: str) -> None:
    """Schedules stay in the group, each with the ARN of its role. AWS names it, so a kept one is in nobody's way."""
    resources = template("ticking", form)["Resources"]
    role, others = resources["SchedulerRole"], [key for key in resources if key.endswith("Role") and key[0] != "S"]
    assert (role["DeletionPolicy"], role["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert others
    assert not any("DeletionPolicy" in resources[key] for key in others)


def test_terraform_destroys_the_role_of_no_schedule_by_itself() -> None:
    for kind in ("aws_iam_role", "aws_iam_role_policy"):
        kept = {key for key, block in blocks("ticking", kind).items() if "lifecycle" in block}
        assert kept == {"scheduler"}
        assert blocks("ticking", kind)["scheduler"]["lifecycle"] == {"prevent_destroy": True}


@ALL
def test_terraform_destroys_no_table_or_queue_by_itself(name: str) -> None:
    for kind in ("aws_dynamodb_table", "aws_sqs_queue", "aws_scheduler_schedule_group"):
        assert all(one["lifecycle"] == {"prevent_destroy": True} for one in blocks(name, kind).values())


@pytest.mark.slow("writes templates of all flows")
@ALL
@AS_RESOURCES
def test_resources_say_whose_they_are(name: str, form: str) -> None:
    tagged = 0
    for one in template(name, form)["Resources"].values():
        tags = one["Properties"].get("Tags")
        if one["Type"] in UNTAGGED:
            continue
        found = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        assert set(found) == {"flowguard"}
        assert set(found["flowguard"].split()) <= set(needs(MODULES[name], options=options_of(name)).names)
        tagged += 1
    assert tagged


UNTAGGED = {
    "AWS::Lambda::Permission",
    "AWS::Lambda::Url",
    "AWS::Logs::MetricFilter",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
}


@ALL
def test_terraform_tags_whatever_its_provider_takes_tags_of(name: str) -> None:
    names = set(needs(MODULES[name], options=options_of(name)).names)
    written = {kind: blocks(name, kind) for kind, schema in SCHEMA.items() if "tags" in schema["attributes"]}
    tags = [(kind, one.get("tags", {})) for kind, named in written.items() for one in named.values()]
    assert {kind for kind, of_block in tags if set(of_block) != {"flowguard"}} == set()
    assert set(" ".join(of_block["flowguard"] for _, of_block in tags).split()) <= names


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
def test_a_second_deployment_shares_the_run_table_and_the_group_of_the_first(form: str) -> None:
    there = {"existing": True}
    tables = {**OPTIONS["tables"], "flowguard": there}
    shared = {**OPTIONS, "tables": tables, "schedule_groups": {"flowguard": there}}
    options = DeployOptions.model_validate(shared)
    text = FORMATS[form](needs("tests.deploy.everything", options=options), options)
    assert "ScheduleGroup" not in text
    assert "aws_scheduler_schedule_group" not in text
    assert '"flowguard"' in text, "its functions use them"
    assert '"TableName": "flowguard"' not in text
    assert '"name": "flowguard",\n        "billing_mode"' not in text


@pytest.mark.parametrize("form", FORMATS)
def test_the_second_of_two_flows_that_wait_makes_no_second_secret(form: str) -> None:
    """With the options that docs/operate/deploy.md gives for a second deployment."""
    page = (Path(__file__).parents[2] / "docs/operate/deploy.md").read_text()
    given = page.partition("### A second deployment")[2].partition("```toml\n")[2].partition("```")[0]
    first = FORMATS[form](needs("flows.approval.handlers"), DeployOptions())
    options = DeployOptions.model_validate(tomllib.loads(given))
    second = FORMATS[form](needs("flows.validate_cart.handlers", options=options), options)
    made = ("AWS::SecretsManager::Secret", "aws_secretsmanager_secret")
    assert [any(kind in text for kind in made) for text in (first, second)] == [True, False]
    assert "flowguard/signing-keys" in second


def test_terraform_keeps_the_keys_in_no_state_and_writes_them_once() -> None:
    """What is ephemeral is in no plan and no state, and a version that stays the same is not written again."""
    found = json.loads(FORMATS["terraform-json"](needs("flows.approval.handlers"), DeployOptions()))
    [version] = found["resource"]["aws_secretsmanager_secret_version"].values()
    [(key, generated)] = found["ephemeral"]["aws_secretsmanager_random_password"].items()
    assert version == {
        "secret_id": f"${{aws_secretsmanager_secret.{key}.id}}",
        "secret_string_wo": f"${{ephemeral.aws_secretsmanager_random_password.{key}.random_password}}",
        "secret_string_wo_version": 1,
    }
    assert generated == {"password_length": 64, "exclude_punctuation": True}
    assert "aws_secretsmanager_random_password" not in found["data"]
    assert found["terraform"].keys() == {"required_providers"}, "checkov cannot read a required_version in JSON"
    assert "ephemeral" not in json.loads(FORMATS["terraform-json"](needs("flows.orders.handlers"), DeployOptions()))


# -- logs


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_stays_without_its_function_where_the_options_say_how_long_it_is_kept(form: str) -> None:
    for given, stays in (({"log_retention": 365}, True), ({"log_retention": 30}, True), ({}, None)):
        options = DeployOptions.model_validate(given)
        facts = stated(json.loads(FORMATS[form](needs("flows.orders.handlers", options=options), options)))
        logs = [fact for (kind, _), fact in facts.items() if kind == "logs"]
        assert len(logs) == 3
        assert [fact.get("stays") for fact in logs] == [stays] * 3


# -- tables


def test_a_table_may_be_warm_from_its_first_day() -> None:
    options = DeployOptions.model_validate({"tables": {"flowguard": {"warm_writes": 20_000, "warm_reads": 12_000}}})
    made = json.loads(FORMATS["cloudformation"](needs("flows.orders.handlers", options=options), options))["Resources"]
    tables = {one["Properties"].get("TableName"): one["Properties"] for one in made.values()}
    assert tables["flowguard"]["WarmThroughput"] == {"WriteUnitsPerSecond": 20_000, "ReadUnitsPerSecond": 12_000}
    assert "WarmThroughput" not in tables["orders"]
    terraform = json.loads(FORMATS["terraform-json"](needs("flows.orders.handlers", options=options), options))
    table = terraform["resource"]["aws_dynamodb_table"]["flowguard"]
    assert table["warm_throughput"] == {"write_units_per_second": 20_000, "read_units_per_second": 12_000}
    assert problems_of_configuration(terraform) == []


def test_the_table_of_the_runs_may_have_an_index_by_status() -> None:
    options = DeployOptions.model_validate({"tables": {"flowguard": {"run_index": True}}})
    made = json.loads(FORMATS["cloudformation"](needs("flows.orders.handlers", options=options), options))["Resources"]
    tables = {one["Properties"].get("TableName"): one["Properties"] for one in made.values()}
    [index] = tables["flowguard"]["GlobalSecondaryIndexes"]
    assert index == {
        "IndexName": "runs-by-status",
        "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    attributes = {part["AttributeName"]: part["AttributeType"] for part in tables["flowguard"]["AttributeDefinitions"]}
    assert attributes == {"pk": "S", "sk": "S", "status": "S"}
    assert "GlobalSecondaryIndexes" not in tables["orders"]
    terraform = json.loads(FORMATS["terraform-json"](needs("flows.orders.handlers", options=options), options))
    table = terraform["resource"]["aws_dynamodb_table"]["flowguard"]
    assert table["global_secondary_index"] == [
        {"name": "runs-by-status", "hash_key": "status", "range_key": "pk", "projection_type": "KEYS_ONLY"}
    ]
    assert [each["name"] for each in table["attribute"]] == ["pk", "sk", "status"]
    assert problems_of_configuration(terraform) == []


def test_a_table_has_the_indexes_that_the_code_names(monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = {"by-day": {"day": "N"}, "by-customer": ("customer", "order_id")}
    monkeypatch.setattr(orders_flow, "TABLES", {"orders": {"key": "order_id", "indexes": indexes}, "stock": "sku"})
    needed = needs("flows.orders.handlers")
    made = json.loads(FORMATS["cloudformation"](needed, DeployOptions()))["Resources"]
    table = next(one["Properties"] for one in made.values() if one["Properties"].get("TableName") == "orders")
    assert [(each["IndexName"], each["Projection"]) for each in table["GlobalSecondaryIndexes"]] == [
        ("by-day", {"ProjectionType": "ALL"}),
        ("by-customer", {"ProjectionType": "ALL"}),
    ]
    types = {part["AttributeName"]: part["AttributeType"] for part in table["AttributeDefinitions"]}
    assert types == {"order_id": "S", "day": "N", "customer": "S"}
    terraform = json.loads(FORMATS["terraform-json"](needed, DeployOptions()))
    block = terraform["resource"]["aws_dynamodb_table"]["orders"]
    assert block["global_secondary_index"] == [
        {"name": "by-day", "hash_key": "day", "projection_type": "ALL"},
        {"name": "by-customer", "hash_key": "customer", "range_key": "order_id", "projection_type": "ALL"},
    ]
    assert problems_of_configuration(terraform) == []


def test_no_other_table_has_that_index() -> None:
    options = DeployOptions.model_validate({"tables": {"orders": {"run_index": True}}})
    with pytest.raises(CannotDeploy, match=r"\[tables.orders\] run_index is for the table of the runs, flowguard"):
        needs("flows.orders.handlers", options=options)


@ALL
def test_writes_that_a_table_throttles_are_an_alarm(name: str) -> None:
    for table in needs(MODULES[name], options=options_of(name)).tables:
        if not table.existing:
            alarm = alarms(name)[f"{table.name}-writes-throttled"]
            assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/DynamoDB", "WriteThrottleEvents")
            assert alarm["Dimensions"] == [{"Name": "TableName", "Value": table.name}]

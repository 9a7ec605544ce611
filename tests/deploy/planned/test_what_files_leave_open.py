"""What a file does not say is a note with its name: no silent pass, and no finding. What is no file is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.deploy.planned.policies import allowed
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import KINDS
from flowguard.deploy.planned.template_file import resources_of
from flowguard.deploy.planned.terraform_plan import resources_of as resources_of_plan
from flowguard.deploy.planned.values import UNKNOWN
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings, found_in
from tests.deploy.planned.plans import plan_of
from tests.deploy.planned.test_files_looked_at import INBOX, PACK, RULE, RUNS, SOURCE, labels, put, within, without
from tests.deploy.templates import MODULES, SHIPPED, options_of, text_of

HCL: Final = Path(__file__).parent / "hcl" / "plan.json"
QUEUE: Final = "AWS::SQS::Queue"
NOT_LOOKED_AT: Final = "not-looked-at"
SOURCE_OF_PACK: Final = "everything_pack_everything_pack"
PARAMETER: Final = {"Fn::ImportValue": "of-another-stack"}


def rules(change: Callable[[Any], None]) -> set[tuple[str, str]]:
    return {(rule, resource) for rule, _, resource in found_in("everything", change=change)}


OPEN: Final[dict[str, tuple[Callable[[Any], None], str, set[str]]]] = {
    "a visibility": (put(INBOX, VisibilityTimeout=PARAMETER), "everything-pack", {"visibility-short"}),
    "a redrive policy": (put(INBOX, RedrivePolicy=PARAMETER), "everything-pack", {"redrive-missing", "receives-few"}),
    "a queue's name": (put(INBOX, QueueName=PARAMETER), "everything-pack", {"queue-missing"}),
    "a time-out": (put(PACK, Timeout=PARAMETER), "everything-pack", {"timeout-short", "batch-slow"}),
    "variables": (put(PACK, Environment=PARAMETER), "everything-pack", {"table-other", "unsigned", "setting-missing"}),
    "a variable": (
        within(PACK, "Environment", "Variables", FLOWGUARD_TABLE=PARAMETER),
        "everything-pack",
        {"table-other"},
    ),
    "a table's expiry": (put(RUNS, TimeToLiveSpecification=PARAMETER), "flowguard", {"ttl-off", "ttl-other"}),
    "a table's key": (put("LinesTable", KeySchema=PARAMETER), "lines", {"keys-other"}),
    "a source": (put(SOURCE, EventSourceArn=PARAMETER), SOURCE, {"source-missing"}),
    "whose source it is": (put(SOURCE, FunctionName=PARAMETER), SOURCE, {"source-missing"}),
    "a log group": (without("EverythingPackLogs"), "/aws/lambda/everything-pack", {"log-kept-other"}),
    "a role": (put(PACK, Role="arn:aws:iam::123456789012:role/theirs"), "theirs", {"permission-missing"}),
    "a policy": (put("EverythingAnswersRole", Policies=PARAMETER), "EverythingAnswersRole", {"permission-missing"}),
}


@pytest.mark.parametrize("what", OPEN)
def test_what_is_open_is_a_note_and_no_finding(what: str) -> None:
    change, name, not_found = OPEN[what]
    looked = rules(change)
    assert any(rule == NOT_LOOKED_AT and name in resource.split(", ") for rule, resource in looked)
    assert not not_found & {rule for rule, _ in looked}


OWN_POLICY: Final = next(
    label
    for label, each in labels("everything").items()
    if each["Type"] == "AWS::SQS::QueuePolicy" and each["Properties"]["Queues"] == [{"Ref": "EverythingEventsQueue"}]
)
EVENTS: Final = "everything-events"


def says(**statement: Any) -> Callable[[Any], None]:
    """Give the queue of events a policy of one statement."""
    allows = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:*", "Resource": "*"}
    return put(OWN_POLICY, PolicyDocument={"Statement": [{**allows, **statement}]})


def its_rule(**given: Any) -> dict[str, Any]:
    return {"Condition": {"ArnEquals": {"aws:SourceArn": given}}}


@pytest.mark.parametrize(
    ("changes", "looked"),
    [
        ([says()], "queue-open"),
        ([says(**its_rule(**{"Fn::GetAtt": [RULE, "Arn"]}))], None),
        ([says(**its_rule(**{"Fn::GetAtt": [INBOX, "Arn"]}))], "queue-closed"),
        ([says(), put(RULE, Name=None)], "queue-open"),
        ([says(**its_rule(**{"Fn::GetAtt": [RULE, "Arn"]})), put(RULE, Name=None)], "queue-policy-open"),
        ([put(RULE, Name=None)], "queue-policy-open"),
        ([put(RULE, Name="another")], "queue-closed"),
        ([put(OWN_POLICY, PolicyDocument=PARAMETER)], "queue-policy-open"),
        ([put(OWN_POLICY, Queues=PARAMETER)], "queue-policy-open"),
        ([without(OWN_POLICY)], "queue-closed"),
    ],
)
def test_a_rule_is_let_in_or_not_or_may_be(changes: list[Callable[[Any], None]], looked: str | None) -> None:
    def change(template: Any) -> None:
        for each in changes:
            each(template)

    there = {rule for rule, resource in rules(change) if resource == EVENTS and rule.startswith("queue-")}
    assert there == ({looked} if looked else set())


def piped(**given: Any) -> set[tuple[str, str]]:
    def change(template: Any) -> None:
        template["Resources"]["Audit"] = {"Type": "AWS::Pipes::Pipe", "Properties": given}

    return rules(change)


def test_a_pipe_without_a_name_goes_by_its_label() -> None:
    assert ("reader-other", "everything-pack") in piped(Source={"Fn::GetAtt": [INBOX, "Arn"]})
    assert "reader-other" not in {rule for rule, _ in piped(Source="arn:aws:sqs:eu-west-1:123456789012:others")}


@pytest.mark.parametrize("given", [{}, {"Source": PARAMETER}])
def test_what_a_pipe_reads_may_be_open(given: Any) -> None:
    looked = piped(Name="audit", **given)
    assert (NOT_LOOKED_AT, "audit") in looked
    assert "reader-other" not in {rule for rule, _ in looked}


def test_what_an_unseen_policy_may_allow_is_noted_with_the_actions() -> None:
    policies = ["arn:aws:iam::123456789012:policy/ours"]
    template, options = json.loads(text_of("everything", "cloudformation")), options_of("everything")
    put("EverythingAnswersRole", Policies=[], ManagedPolicyArns=policies)(template)
    looked = findings(resources_of("f.json", template, {}), needs(MODULES["everything"], options=options), options)
    noted = [each.what for each in looked if each.rule == NOT_LOOKED_AT]
    assert any("whether its policies allow" in text and "dynamodb:UpdateItem" in text for text in noted)


@pytest.mark.parametrize("what", ["a visibility", "a time-out", "a table's expiry"])
def test_what_else_is_wrong_is_found_all_the_same(what: str) -> None:
    def change(template: Any) -> None:
        OPEN[what][0](template)
        put(INBOX, MaximumMessageSize=1024)(template)
        put(RUNS, PointInTimeRecoverySpecification=None)(template)
        put(PACK, Handler="x.y")(template)

    assert {"message-size-small", "not-restorable", "handler-other"} <= {rule for rule, _ in rules(change)}


THEIRS_TOO: Final = "arn:aws:sqs:eu-west-1:123456789012:theirs-too"


@pytest.mark.parametrize(
    "target",
    [
        {"Ref": "Killed"},
        {"Fn::Sub": "arn:aws:sqs:eu-west-1:123456789012:${Name}"},
        {"Fn::Join": [":", ["arn:aws:sqs:eu-west-1:123456789012", {"Ref": "Name"}]]},
    ],
)
def test_a_queue_that_a_parameter_names_may_get_the_records_given_up(target: Any) -> None:
    def change(template: Any) -> None:
        template["Parameters"]["Killed"] = {"Type": "String", "Default": THEIRS_TOO}
        template["Parameters"]["Name"] = {"Type": "String", "Default": "theirs-too"}
        within(INBOX, "RedrivePolicy", deadLetterTargetArn=target)(template)

    looked = rules(change)
    assert "redrive-target-missing" not in {rule for rule, _ in looked}
    assert any(rule == NOT_LOOKED_AT and "theirs-too" in resource for rule, resource in looked)


def test_a_redrive_policy_that_another_stack_gives_is_open() -> None:
    looked = rules(within(INBOX, "RedrivePolicy", deadLetterTargetArn=PARAMETER))
    assert "redrive-target-missing" not in {rule for rule, _ in looked}
    assert any(rule == NOT_LOOKED_AT and "everything-pack" in resource for rule, resource in looked)


@pytest.mark.parametrize("type_", ["AWS::CloudFormation::Stack", "AWS::Serverless::Application", "My::Own::It::MODULE"])
def test_what_a_nested_template_may_make_is_not_missing(type_: str) -> None:
    def change(template: Any) -> None:
        without(INBOX)(template)
        template["Resources"]["Nested"] = {"Type": type_, "Properties": {}}

    assert "queue-missing" not in {rule for rule, _ in rules(change)}


def test_a_resource_whose_condition_is_open_is_not_missing_nor_there() -> None:
    def change(template: Any) -> None:
        template["Conditions"]["Open"] = {"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]}
        template["Resources"][INBOX]["Condition"] = "Open"

    looked = rules(change)
    assert any(rule == NOT_LOOKED_AT and "everything-pack" in resource for rule, resource in looked)
    assert "queue-missing" not in {rule for rule, _ in looked}


def test_a_resource_whose_condition_does_not_hold_is_missing() -> None:
    def change(template: Any) -> None:
        template["Conditions"]["Never"] = {"Fn::And": [{"Condition": "HasAlarmTopic"}, {"Fn::Equals": ["a", "a"]}]}
        template["Resources"][INBOX]["Condition"] = "Never"

    assert ("queue-missing", "everything-pack") in rules(change)


def test_what_no_file_says_is_named() -> None:
    template = json.loads(text_of("orders", "cloudformation"))
    needed = needs(MODULES["orders"], options=options_of("orders"))
    *_, last = findings(resources_of("f.json", template, {}), needed, options_of("orders"))
    assert (last.rule, last.severity.value, last.resource) == ("not-in-a-file", "note", "f.json")
    assert "messages in queues" in last.what


# -- what policies allow

ORDERS: Final = KINDS[QUEUE].arn("orders")


def statement(**changes: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Action": "sqs:Send*", "Resource": ORDERS, **changes}]}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([statement()], True),
        ([statement(Action=["sqs:GetQueueUrl", "sqs:SendMessage"])], True),
        ([statement(Action="sqs:Receive*")], False),
        ([statement(Action="SQS:sendmessage")], True),
        ([statement(Resource="*")], True),
        ([statement(Resource="arn:aws:sqs:eu-west-1:123456789012:ord?rs")], True),
        ([statement(Resource="arn:aws:sqs:eu-west-1:123456789012:others")], False),
        ([statement(Resource="arn:aws:sns:*:*:orders")], False),
        ([statement(Resource=UNKNOWN)], None),
        ([statement(Resource=UNKNOWN), statement()], True),
        ([UNKNOWN], None),
        ([{"Statement": UNKNOWN}], None),
        ([], False),
        ([statement(), statement(Effect="Deny")], False),
        ([statement(), statement(Effect="Deny", Resource=UNKNOWN)], None),
        ([statement(), UNKNOWN], True),
        ([{"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:sqs:*:*:x"}]}], True),
        ([{"Statement": [{"Effect": "Allow", "NotAction": "sqs:*", "Resource": "*"}]}], False),
        ([statement(Condition={"StringEquals": {"a:b": "yes"}})], True),
        ([statement(Condition={"StringEquals": {"a:b": ["no"]}})], False),
        ([statement(Condition={"StringLike": {"a:b": "y*"}})], True),
        ([statement(Condition={"StringEquals": {"c:d": "yes"}})], None),
        ([statement(Condition={"NumericEquals": {"a:b": "1"}})], None),
        ([statement(Condition=UNKNOWN)], None),
    ],
)
def test_policies_allow_or_not_or_leave_it_open(documents: list[Any], expected: bool | None) -> None:
    assert allowed(documents, "sqs:SendMessage", ORDERS, {"a:b": "yes"}) is expected


def test_whether_a_place_of_here_is_that_place_is_open() -> None:
    theirs = "arn:aws:sqs:eu-west-1:123456789012:orders"
    assert allowed([statement()], "sqs:SendMessage", theirs, {}) is None


# -- plans


@pytest.mark.parametrize("name", ["orders", "everything"])
def test_what_hcl_leaves_open_is_noted_and_nothing_is_found(name: str) -> None:
    plan = plan_of(json.loads(text_of(name, "terraform-json")), is_hcl=True)
    needed = needs(MODULES[name], options=options_of(name))
    looked = findings(resources_of_plan("plan.json", plan), needed, options_of(name))
    assert {each.severity.value for each in looked} == {"note"}
    assert any("RedrivePolicy" in each.what for each in looked)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"filter_criteria": [{"filter": [{"pattern": "{}"}]}]}, {"source-filtered"}),
        ({"maximum_batching_window_in_seconds": 300}, {"visibility-short"}),
    ],
)
def test_what_a_mapping_leaves_out_and_gathers_is_looked_at_in_a_plan(written: Any, expected: set[str]) -> None:
    def change(configuration: Any) -> None:
        configuration["resource"]["aws_lambda_event_source_mapping"][SOURCE_OF_PACK].update(written)

    looked = {rule for rule, _, _ in found_in("everything", "terraform-json", change=change)}
    assert looked - {NOT_LOOKED_AT} == expected


def test_what_was_made_before_under_an_address_says_nothing_of_what_will_be_there() -> None:
    """A resource that was replaced, and could not be deleted, stands in the plan with the address of the new one."""
    plan = plan_of(json.loads(text_of("everything", "terraform-json")))
    needed, options = needs(MODULES["everything"], options=options_of("everything")), options_of("everything")
    looked = findings(resources_of_plan("plan.json", plan), needed, options)
    left = {"deposed": "0a1b2c3d", "change": {"actions": ["delete"], "after_unknown": {}}}
    plan["resource_changes"] += [{**change, **left} for change in plan["resource_changes"]]
    assert findings(resources_of_plan("plan.json", plan), needed, options) == looked


def attached(plan: Any, roles: Any, unknown: Any) -> None:
    """Let roles have their policies by the older kind of attachment, which names several roles."""
    planned, changes = plan["planned_values"]["root_module"]["resources"], plan["resource_changes"]
    configured = plan["configuration"]["root_module"]["resources"]
    for change, block, resource in [*zip(changes, configured, planned, strict=True)]:
        if resource["type"] == "aws_iam_role":
            resource["values"]["name"] = resource["name"]
        if resource["type"] != "aws_iam_role_policy":
            continue
        place = {"address": f"aws_iam_policy.{resource['name']}", "type": "aws_iam_policy"}
        resource["values"]["name"] = resource["name"]
        for each in (resource, change, block):
            each.update(place)
        given = {"mode": "managed", "type": "aws_iam_policy_attachment", "name": resource["name"]}
        given["address"] = f"aws_iam_policy_attachment.{resource['name']}"
        planned.append({**given, "values": roles})
        changes.append({**given, "change": {"actions": ["create"], "after_unknown": {**unknown, "policy_arn": True}}})
        policy = {"constant_value": f"${{{place['address']}.arn}}"}
        configured.append({**given, "expressions": {"policy_arn": policy, "roles": {"references": ["each.value"]}}})


def test_a_policy_is_attached_to_each_of_several_roles() -> None:
    needed, options = needs(MODULES["orders"], options=options_of("orders")), options_of("orders")

    def looked(roles: Any, unknown: Any) -> set[str]:
        plan = plan_of(json.loads(text_of("orders", "terraform-json")))
        attached(plan, roles, unknown)
        return {each.rule for each in findings(resources_of_plan("plan.json", plan), needed, options)}

    all_roles = list(json.loads(text_of("orders", "terraform-json"))["resource"]["aws_iam_role"])
    assert not {"permission-missing", NOT_LOOKED_AT} & looked({"roles": ["another", *all_roles]}, {})
    assert "permission-missing" in looked({"roles": ["another"]}, {})
    assert NOT_LOOKED_AT in looked({}, {"roles": True})


# -- what is no file


def commanded(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "flows.orders.handlers", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "template.json"
    written.write_text(text_of("orders", "cloudformation"), encoding="utf-8")
    return written


def test_the_command_looks_at_a_template(file: Path) -> None:
    result = commanded("--template", str(file))
    assert result.exit_code == 0, result.output
    assert "0 errors, 0 warnings, 2 notes" in result.output
    broken = json.loads(file.read_text(encoding="utf-8"))
    next(each for each in broken["Resources"].values() if each["Type"] == QUEUE)["Properties"]["MaximumMessageSize"] = 1
    file.write_text(json.dumps(broken), encoding="utf-8")
    result = commanded("--template", str(file), "--json")
    assert result.exit_code == 1
    assert json.loads(result.output.splitlines()[0])["rule"] == "message-size-small"
    assert commanded("--template", str(file), "--warnings-ok").exit_code == 0


def test_the_command_looks_at_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of(json.loads(text_of("orders", "terraform-json")))), encoding="utf-8")
    result = commanded("--terraform-plan", str(plan))
    assert (result.exit_code, "0 errors, 0 warnings" in result.output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--template", "a", "--terraform-plan", "b"), "are two places to look at"),
        (("--template", "a", "--endpoint-url", "http://x"), "are two places to look at"),
        (("--template", "a", "--region", "eu-west-1"), "--region: a file is for any region, and has no runs"),
        (("--terraform-plan", "a", "--runs", "0"), "--runs: a file is for any region, and has no runs"),
        (("--terraform-plan", "a", "--region", "x", "--runs", "0"), "--region and --runs: a file"),
        (("--parameter", "a=b"), "--parameter goes with --template"),
        (("--template", "a", "--parameter", "a"), "is not NAME=VALUE"),
        (("--template", "nowhere.json"), "nowhere.json: it cannot be read"),
        (("--terraform-plan", "nowhere.json"), "nowhere.json: it is no JSON of terraform show"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    result = commanded(*arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


WRONG: Final[tuple[Any, ...]] = ("text", 7, True, None, [], ["x"], {}, {"x": "y"}, [{"x": "y"}])


@pytest.mark.parametrize(
    "wrongs",
    [
        pytest.param(1, marks=pytest.mark.proof("gives each property in turn another type")),
        pytest.param(len(WRONG), marks=pytest.mark.long("gives each property in turn every other type")),
    ],
)
@pytest.mark.parametrize("name", ["everything", "streaming", "topics"])
@pytest.mark.parametrize("form", ["cloudformation", "sam"])
def test_no_property_of_another_type_brings_it_down(name: str, form: str, wrongs: int) -> None:
    """Each property in turn has another type. The command refuses it, or looks at the rest."""
    types = itertools.cycle(WRONG)
    template = json.loads(text_of(name, form))
    options = options_of(name)
    needed = needs(MODULES[name], options=options)
    seen: set[tuple[str, str]] = set()
    bad = []
    for label, resource in template["Resources"].items():
        for property_ in resource["Properties"]:
            if (resource["Type"], property_) in seen:
                continue
            seen.add((resource["Type"], property_))
            for wrong in itertools.islice(types, wrongs):
                given = {**resource, "Properties": {**resource["Properties"], property_: wrong}}
                changed = {**template, "Resources": {**template["Resources"], label: given}}
                try:
                    findings(resources_of("f.json", changed, {}), needed, options)
                except NotReadable:
                    continue
                except Exception as error:
                    bad.append(f"{label}.{property_} = {wrong!r}: {error!r}")
    assert bad == []


def test_a_key_that_is_not_whole_is_refused() -> None:
    with pytest.raises(NotReadable, match="the key of LinesTable is not whole"):
        found_in("everything", change=put("LinesTable", AttributeDefinitions=[]))


def test_the_shipped_flows_have_plans_of_hcl_without_a_finding() -> None:
    for name in SHIPPED:
        plan = plan_of(json.loads(text_of(name, "terraform-json")), is_hcl=True)
        needed = needs(MODULES[name], options=options_of(name))
        looked = findings(resources_of_plan("plan.json", plan), needed, options_of(name))
        assert {each.severity.value for each in looked} == {"note"}, name

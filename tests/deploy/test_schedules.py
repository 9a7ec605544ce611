"""What a deployment needs of flows whose runs begin by the clock, and what is wrong with its schedules at AWS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from flowguard.cli.iac import FORMATS
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.derive import needs_of
from flowguard.deploy.event_checks import check_events
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.key_policy import key_policy
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.schedule_plan import schedules_of
from flowguard.deploy.terraform import terraform_json
from flowguard.every import SCHEDULED_AT, Every
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from tests.deploy import ticking
from tests.deploy.deployed import REGION, Stack
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import Text, found_in
from tests.deploy.stated import stated
from tests.deploy.templates import MODULES, of_type, options_of, template
from tests.deploy.test_doctor import SESSION
from tests.deploy.ticking import Day, Report

NAMES: Final = ["reports-daily", "reports-monthly", "sweeps-tick"]


def deployment(**changes: Any) -> Deployment:
    return needs(MODULES["ticking"], options=DeployOptions.model_validate({**ticking.OPTIONS, **changes}))


# -- what is needed


def test_each_schedule_of_a_flow_sends_to_the_queue_of_its_first_stage() -> None:
    needed = deployment()
    assert [(each.name, each.queue, each.enabled) for each in needed.schedules] == [
        ("reports-daily", "reports", True),
        ("reports-monthly", "reports", False),
        ("sweeps-tick", "to-sweep", True),
    ]
    assert sorted(queue.name for queue in needed.schedule_targets()) == ["reports", "to-sweep"]


def test_a_flow_with_schedules_alone_has_a_role_and_a_group_and_no_function_may_schedule() -> None:
    needed = needs(f"{MODULES['ticking']}:Sweeps")
    assert (needed.long_delays, needed.has_scheduler, needed.undelivered_schedules) == (False, True, None)
    permissions = [permission for function in needed.functions for permission in function.permissions]
    assert not any("scheduler:" in action for permission in permissions for action in permission.actions)


def test_a_flow_without_schedules_has_no_scheduler() -> None:
    assert not needs(MODULES["orders"]).has_scheduler


@pytest.mark.parametrize("name", ["orders", "ticking"])
def test_options_of_what_is_scheduled_are_noted_where_nothing_is(name: str) -> None:
    settings = {"scheduler_role": "later", "signing_keys": "ssm:/keys"}
    given = {"settings": settings, "schedule_groups": {"flowguard": {"existing": True}}}
    needed = needs(MODULES[name], options=DeployOptions.model_validate(given))
    idle = ["scheduler_role of [settings]", "[schedule_groups.flowguard]"] if name == "orders" else []
    assert [note for note in needed.notes if "nothing here is scheduled" in note] == [
        f"the options say {option}, and nothing here is scheduled; it has no effect" for option in idle
    ]
    alone = DeployOptions.model_validate({"schedule_groups": {"flowguard": {"existing": True}}})
    assert len([note for note in needs(MODULES["orders"], options=alone).notes if "scheduled" in note]) == 1
    assert not [note for note in needs(MODULES["orders"]).notes if "nothing here is scheduled" in note]


def test_the_time_of_a_tick_is_its_requests() -> None:
    inputs = [json.loads(each["Target"]["Input"]) for _, each in of_type("ticking", "AWS::Scheduler::Schedule")]
    for name, body in zip(NAMES, inputs, strict=True):
        tick = f"{name.replace('-', '/')}/{SCHEDULED_AT}"
        assert body["MessageAttributes"]["uniquerequestid"] == {"Type": "String", "Value": tick}
        assert json.loads(body["Message"])["time"] == SCHEDULED_AT


def test_a_payload_is_no_expression_of_terraform() -> None:
    every = Every("rate(1 day)", {"day": "${aws_sqs_queue.x.url} %{if true}"})
    needed = needs_of([serving(every)], DeployOptions())
    [made] = json.loads(terraform_json(needed, DeployOptions()))["resource"]["aws_scheduler_schedule"].values()
    assert "$${aws_sqs_queue.x.url} %%{if true}" in made["target"]["input"]


def test_the_role_that_sends_is_an_output() -> None:
    made = template("ticking")["Outputs"]["SchedulerRoleArn"]["Value"]
    assert made == {"Fn::GetAtt": ["SchedulerRole", "Arn"]}
    outputs = template("ticking", "terraform-json")["output"]
    assert outputs["scheduler_role_arn"]["value"] == "${aws_iam_role.scheduler.arn}"
    assert "scheduler_role_arn" not in template("orders", "terraform-json")["output"]


@pytest.mark.parametrize("rule", ["*", "staging-*"])
@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
def test_what_a_former_group_has_scheduled_may_still_use_the_role(form: str, rule: str) -> None:
    """What is scheduled there says the role, which is the same one."""
    groups = {"flowguard": {"former": True}, "old": {"former": True}, "others": {}}
    settings = {"scheduler_group": "orders", "names": rule}
    given = DeployOptions.model_validate({**ticking.OPTIONS, "settings": settings, "schedule_groups": groups})
    needed = needs(MODULES["ticking"], options=given)
    role = stated(json.loads(FORMATS[form](needed, given)))["role", "scheduler"]
    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    arn = "arn:{partition}:scheduler:{region}:{account}:schedule-group/"
    trusted = [f"{arn}{rule.replace('*', name)}" for name in ("orders", "flowguard", "old")]
    assert statement["Condition"]["StringEquals"]["aws:SourceArn"] == trusted
    unused = [note for note in needed.notes if "schedule_groups" in note]
    assert unused == ["the options say [schedule_groups.others], and nothing here is called that; it has no effect"]


def test_a_group_whose_name_aws_does_not_take_is_refused(tmp_path: Path) -> None:
    """It would stand in the role's trust alone, and nobody would notice what is lost."""
    file = tmp_path / "options.toml"
    file.write_text('[schedule_groups."a b"]\nformer = true\n')
    with pytest.raises(CannotDeploy) as refused:
        DeployOptions.read(file)
    assert refused.value.problems == (
        "schedule_groups.a b is no name of a group of schedules: up to 64 of a-z, A-Z, 0-9, _, . and -",
    )


def test_another_deployment_has_other_names() -> None:
    needed = deployment(settings={"names": "staging-*", "signing_keys": "ssm:/keys"})
    assert [(each.name, each.queue, each.owner) for each in needed.schedules] == [
        ("staging-reports-daily", "staging-reports", "staging-reports"),
        ("staging-reports-monthly", "staging-reports", "staging-reports"),
        ("staging-sweeps-tick", "staging-to-sweep", "staging-sweeps"),
    ]
    assert {each.undelivered for each in needed.schedules} == {
        "staging-reports-dead-letters",
        "staging-sweeps-dead-letters",
    }
    assert [each.input for each in needed.schedules] == [each.input for each in deployment().schedules]


@pytest.mark.parametrize(("module", "expected"), [("ticking", True), ("orders", False)])
def test_the_name_of_a_group_counts_where_there_are_schedules(module: str, expected: bool) -> None:
    names = {"settings": {"names": f"{'g' * 56}*", "scheduler_group": "schedules"}}
    with pytest.raises(CannotDeploy) as refused:
        needs(MODULES[module], options=DeployOptions.model_validate(names))
    assert any("a schedule group would be named" in each for each in refused.value.problems) is expected


def test_a_schedule_is_under_the_key_of_the_deployment() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    options = DeployOptions.model_validate({**ticking.OPTIONS, "kms_key": key})
    resources = json.loads(cloudformation(needs(MODULES["ticking"], options=options), options))["Resources"]
    keys = [each["Properties"]["KmsKeyArn"] for each in resources.values() if each["Type"].endswith("::Schedule")]
    assert keys == [key] * 3


def serving(*every: Every, name: str = "reports", dead_letters: str | None = None) -> FoundFunction:
    class Reports(Flow, name=name, object_id="day", every=every, dead_letters=dead_letters):
        stages = (Report,)

    flow: AnyFlow = Reports
    return FoundFunction("shop.handlers", "report", FunctionKind.STAGES, (flow,), ((flow, Report),))


@pytest.mark.parametrize(
    ("every", "made"), [((), []), ((Every("rate(1 day)", {"day": "a"}),), ["reports-undelivered"])]
)
def test_a_flow_whose_dead_letters_are_elsewhere_has_a_queue_of_what_its_schedules_cannot_deliver(
    every: tuple[Every, ...], made: list[str]
) -> None:
    served = serving(*every, dead_letters="arn:aws:sqs:eu-west-1:210987654321:theirs")
    names = [queue.name for queue in needs_of([served], DeployOptions()).queues]
    assert [name for name in names if name.endswith("-undelivered")] == made


def test_a_name_that_is_too_long_is_refused() -> None:
    every = Every("rate(1 day)", {"day": "all"}, name="monthly-report")
    with pytest.raises(CannotDeploy, match=r"\(65 characters\), and EventBridge Scheduler takes 64; give it a shorter"):
        needs_of([serving(every, name="r" * 50)], DeployOptions())


def test_a_name_that_is_as_long_as_may_be_is_taken() -> None:
    every = Every("rate(1 day)", {"day": "all"}, name="n" * 13)
    assert [len(each.name) for each in needs_of([serving(every, name="r" * 50)], DeployOptions()).schedules] == [64]


def test_a_flow_whose_first_stage_is_served_elsewhere_has_its_schedule_there() -> None:
    class Sum(Stage[Day], name="sum", inbox="to-sum"):
        def handle(self, day: Day, step: Step) -> Outcome:
            return Done()

    class Gather(Stage[Day], name="gather", then="sum"):
        def handle(self, day: Day, step: Step) -> Outcome:
            return Sum.message(day)

    class Reports(Flow, name="reports", object_id="day", every=(Every("rate(1 day)", {"day": "all"}),)):
        stages = (Gather, Sum)

    serves_sum = FoundFunction("shop.handlers", "sums", FunctionKind.STAGES, (Reports,), ((Reports, Sum),))
    assert schedules_of([serves_sum], {Reports: "reports-dead-letters"}, DeployOptions()) == ()


def test_two_flows_whose_schedules_have_one_name_are_refused() -> None:
    daily = Every("rate(1 day)", {"day": "all"}, name="a-b")
    hourly = Every("rate(1 hour)", {"day": "all"}, name="b")
    functions = [serving(daily, name="x"), replace(serving(hourly, name="x-a"), attribute="other")]
    with pytest.raises(CannotDeploy, match="2 schedules would be named 'x-a-b'; give one of them another name"):
        needs_of(functions, DeployOptions())


def test_an_option_for_no_schedule_is_told() -> None:
    told = deployment(schedules={"reports-weekly": {"enabled": False}}).notes
    assert any("[schedules.reports-weekly], and nothing here is called that" in note for note in told)


# -- at AWS


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        made = Stack(template("ticking"), SESSION)
        for key, resource in made.resources.items():
            if resource["Type"] == "AWS::Scheduler::Schedule":
                made.arn(key)
        yield made


def found(**changes: Any) -> list[Text]:
    looked = check_events(deployment(**changes), LiveAccount(SESSION), 0)
    return [(each.rule, each.severity.value, each.resource) for each in looked]


def change(at: Stack, name: str, **changes: Any) -> None:
    scheduler = at.client("scheduler")
    there = scheduler.get_schedule(GroupName="flowguard", Name=name)
    kept = ("Name", "GroupName", "ScheduleExpression", "ScheduleExpressionTimezone", "State", "FlexibleTimeWindow")
    target = {**there["Target"], **changes.pop("Target", {})}
    scheduler.update_schedule(**{**{each: there[each] for each in kept}, **changes, "Target": target})


def test_nothing_is_wrong_with_what_the_template_makes(stack: Stack) -> None:
    assert found() == []


BROKEN: Final[dict[str, tuple[Callable[[Stack], object], tuple[str, str, str]]]] = {
    "gone": (
        lambda at: at.client("scheduler").delete_schedule(GroupName="flowguard", Name="sweeps-tick"),
        ("schedule-missing", "error", "sweeps-tick"),
    ),
    "off": (lambda at: change(at, "reports-daily", State="DISABLED"), ("schedule-off", "warning", "reports-daily")),
    "on": (
        lambda at: change(at, "reports-monthly", State="ENABLED"),
        ("schedule-on", "warning", "reports-monthly"),
    ),
    "another expression": (
        lambda at: change(at, "sweeps-tick", ScheduleExpression="rate(6 minutes)"),
        ("schedule-other", "error", "sweeps-tick"),
    ),
    "another time zone": (
        lambda at: change(at, "reports-daily", ScheduleExpressionTimezone="UTC"),
        ("schedule-other", "error", "reports-daily"),
    ),
    "another queue": (
        lambda at: change(at, "sweeps-tick", Target={"Arn": "arn:aws:sqs:eu-west-1:123456789012:reports"}),
        ("schedule-other", "error", "sweeps-tick"),
    ),
    "another input": (
        lambda at: change(at, "sweeps-tick", Target={"Input": "{}"}),
        ("schedule-other", "error", "sweeps-tick"),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_found(broken: str, stack: Stack) -> None:
    breaks, expected = BROKEN[broken]
    breaks(stack)
    assert found() == [expected]


def test_each_flow_has_a_queue_of_its_own_for_what_its_schedules_cannot_deliver() -> None:
    needed = deployment()
    assert [each.undelivered for each in needed.schedules] == ["reports-dead-letters"] * 2 + ["sweeps-dead-letters"]
    assert needed.undelivered_by_scheduler == ["reports-dead-letters", "sweeps-dead-letters"]


def test_who_deploys_may_use_the_key_through_the_scheduler_for_schedules_alone() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    for module, expected in (("ticking", True), ("orders", False)):
        options = DeployOptions.model_validate({"kms_key": key})
        policy = key_policy(needs(MODULES[module], options=options), key, options)
        [statement] = [each for each in policy["Statement"] if each["Sid"] == "WhoDeploys"]
        assert ("scheduler.eu-west-1.amazonaws.com" in json.dumps(statement)) is expected
        assert any(each["Sid"] == "SchedulesAreSent" for each in policy["Statement"]) is expected


def test_a_schedule_that_may_not_be_read_is_not_missing(stack: Stack) -> None:
    class Refusing:
        def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
            if call.operation == "GetSchedule":
                raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetSchedule")
            return proceed()

    with intercept(Refusing()):
        assert found() == []


# -- in a file


def of_kind(file: Any, name: str) -> Any:
    if "Resources" in file:
        made = [each["Properties"] for each in file["Resources"].values() if each["Type"] == "AWS::Scheduler::Schedule"]
        return next(each for each in made if each["Name"] == name)
    return next(each for each in file["resource"]["aws_scheduler_schedule"].values() if each["name"] == name)


def say(name: str, property_: str, argument: str, value: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        of_kind(file, name)[property_ if "Resources" in file else argument] = value

    return change


def take_out(file: Any) -> None:
    there = file["Resources"] if "Resources" in file else file["resource"]["aws_scheduler_schedule"]
    for key in [key for key, each in there.items() if "sweeps-tick" in json.dumps(each.get("Properties", each))]:
        del there[key]


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, []),
        (take_out, [("schedule-missing", "error", "sweeps-tick")]),
        (say("reports-daily", "State", "state", "DISABLED"), [("schedule-off", "warning", "reports-daily")]),
        (
            say("sweeps-tick", "ScheduleExpression", "schedule_expression", "rate(6 minutes)"),
            [("schedule-other", "error", "sweeps-tick")],
        ),
    ],
)
def test_the_same_is_found_in_files(form: str, change: Callable[[Any], None] | None, expected: list[Text]) -> None:
    assert [each for each in found_in("ticking", form, change) if each[0].startswith("schedule")] == expected


def test_the_options_of_the_test_are_those_of_the_template() -> None:
    assert options_of("ticking") == DeployOptions.model_validate(ticking.OPTIONS)

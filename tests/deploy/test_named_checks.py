"""``flowguard doctor`` on what functions, schedules and callbacks name: keys, the bucket, roles, rules, filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from flowguard.deploy.cloudformation import whole
from flowguard.deploy.examination import examine
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.sim.calls import intercept
from tests.deploy.deployed import REGION, Stack, made_on_moto
from tests.deploy.exercised import needs
from tests.deploy.test_doctor import SESSION, Refusing, environment

OPTIONS: Final = DeployOptions.model_validate({"settings": {"bucket": "long-texts"}})
NEEDED: Final[Deployment] = needs("tests.deploy.naming", options=OPTIONS)
NOW: Final = datetime(2026, 11, 30, tzinfo=UTC)
QUEUE: Final = "lots-events"
TICK: Final = "lots-tick"
SECRET: Final = str(NEEDED.signing_secret)
Found = tuple[str, str, str]


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with made_on_moto(monkeypatch, whole(NEEDED, OPTIONS), SESSION) as made:
        made.client("s3").create_bucket(Bucket="long-texts", CreateBucketConfiguration={"LocationConstraint": REGION})
        yield made


def found() -> list[Found]:
    looked = examine(NEEDED, OPTIONS, LiveAccount(SESSION), now=int(NOW.timestamp() * 1000), most_runs=0)
    return [(each.rule, each.severity.value, each.resource) for each in looked if each.rule not in ALWAYS]


ALWAYS: Final = ("not-read", "clock-off", "concurrency-open")


def role_of_scheduler(stack: Stack) -> str:
    there = stack.client("scheduler").get_schedule(GroupName="flowguard", Name=TICK)
    return str(there["Target"]["RoleArn"])


def scheduled(stack: Stack, target: dict[str, Any] | None = None, **changes: Any) -> None:
    """Change the schedule."""
    client = stack.client("scheduler")
    there = client.get_schedule(GroupName="flowguard", Name=TICK)
    kept = ("ScheduleExpression", "ScheduleExpressionTimezone", "FlexibleTimeWindow", "State", "GroupName", "Name")
    same = {name: there[name] for name in kept}
    client.update_schedule(**{**same, "Target": {**there["Target"], **(target or {})}, **changes})


def without_role(stack: Stack) -> None:
    iam, name = stack.client("iam"), role_of_scheduler(stack).rpartition("/")[2]
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


def rule(stack: Stack) -> str:
    [name] = [each["Name"] for each in stack.client("events").list_rules()["Rules"]]
    return str(name)


def patterned(stack: Stack, **pattern: Any) -> None:
    stack.client("events").put_rule(Name=rule(stack), EventPattern=json.dumps(pattern))


def filtered(stack: Stack) -> None:
    sns = stack.client("sns")
    for each in sns.list_subscriptions()["Subscriptions"]:
        sns.set_subscription_attributes(
            SubscriptionArn=each["SubscriptionArn"],
            AttributeName="FilterPolicy",
            AttributeValue=json.dumps({"kind": ["x"]}),
        )


def deleted_later(stack: Stack) -> None:
    stack.client("secretsmanager").delete_secret(SecretId=SECRET, RecoveryWindowInDays=7)


def closed(stack: Stack) -> None:
    stack.client("lambda").update_function_url_config(FunctionName="lots-answers-url", AuthType="AWS_IAM")


NOBODY: Final = "arn:aws:iam::123456789012:role/nobody"
WRONG: Final[dict[str, tuple[Callable[[Stack], object], list[Found]]]] = {
    "nothing": (lambda at: None, []),
    "no secret of the keys": (
        lambda at: at.client("secretsmanager").delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True),
        [("secret-missing", "error", SECRET)],
    ),
    "a secret that is to be deleted": (deleted_later, [("secret-missing", "error", SECRET)]),
    "no bucket": (
        lambda at: at.client("s3").delete_bucket(Bucket="long-texts"),
        [("bucket-missing", "error", "long-texts")],
    ),
    "a schedule with a role that is not there": (
        lambda at: scheduled(at, {"RoleArn": NOBODY}),
        [("role-missing", "error", NOBODY)],
    ),
    "a schedule that has ended": (
        lambda at: scheduled(at, EndDate=datetime(2026, 11, 29, tzinfo=UTC)),
        [("schedule-over", "error", TICK)],
    ),
    "a schedule that ends later": (lambda at: scheduled(at, EndDate=datetime(2026, 12, 1, tzinfo=UTC)), []),
    "a schedule that comes some time in a day": (
        lambda at: scheduled(at, FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 1_440}),
        [("schedule-other", "error", TICK)],
    ),
    "a rule that is off": (
        lambda at: at.client("events").disable_rule(Name=rule(at)),
        [("rule-off", "error", QUEUE)],
    ),
    "a rule of another source": (
        lambda at: patterned(at, source=["other"], **{"detail-type": ["Paid"]}),
        [("rule-other", "error", QUEUE)],
    ),
    "a rule of another type": (
        lambda at: patterned(at, source=["bank"], **{"detail-type": ["Refunded"]}),
        [("rule-other", "error", QUEUE)],
    ),
    "a rule of several types": (
        lambda at: patterned(at, source=[{"prefix": "ba"}], **{"detail-type": ["Refunded", "Paid"]}),
        [],
    ),
    "a rule by the clock": (
        lambda at: at.client("events").put_rule(Name=rule(at), EventPattern="", ScheduleExpression="rate(1 day)"),
        [("rule-other", "error", QUEUE)],
    ),
    "a filter of what a topic sends": (filtered, [("subscription-filtered", "warning", "lots-news")]),
    "a URL that wants signed requests": (closed, [("url-closed", "warning", "lots-answers-url")]),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_named_and_does_not_work_is_found(what: str, stack: Stack) -> None:
    change, expected = WRONG[what]
    change(stack)
    assert found() == expected


def test_the_role_of_the_scheduler_is_missed_once(stack: Stack) -> None:
    role = role_of_scheduler(stack)
    without_role(stack)
    environment(stack, "lots-killed", FLOWGUARD_SCHEDULER_ROLE=role)
    looked = [*examine(NEEDED, OPTIONS, LiveAccount(SESSION), now=0, most_runs=0)]
    [missing] = [each for each in looked if each.rule == "role-missing"]
    assert (missing.resource, missing.what) == (
        role,
        f"the role does not exist; it is that of the scheduler, the schedule {TICK}",
    )


@pytest.mark.parametrize(
    "operation",
    ["DescribeSecret", "HeadBucket", "GetRole", "DescribeRule", "GetSchedule", "GetFunctionUrlConfig"],
)
def test_what_may_not_be_read_is_not_missing(operation: str, stack: Stack) -> None:
    deleted_later(stack)
    with intercept(Refusing(operation, "403" if operation == "HeadBucket" else "AccessDeniedException")):
        assert found() == ([] if operation == "DescribeSecret" else [("secret-missing", "error", SECRET)])

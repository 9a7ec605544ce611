"""CloudFormation, SAM and Terraform say the same of one deployment, and each says what flowguard's promises need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.alarms import alarms_of
from flowguard.deploy.needs import Deployment, Role
from flowguard.deploy.options import DeployOptions
from flowguard.sim.limits.queues import LARGEST
from tests.deploy.exercised import needs
from tests.deploy.stated import ALONE, Facts, stated
from tests.deploy.templates import MODULES, options_of, template

FORMS: Final = ("cloudformation", "sam", "terraform-json")


@pytest.mark.parametrize("form", ["sam", "terraform-json"])
@pytest.mark.parametrize("name", MODULES)
def test_every_format_says_the_same(name: str, form: str) -> None:
    assert shared(stated(template(name, form))) == shared(stated(template(name)))


def shared(facts: Facts) -> Facts:
    """What each format can say. A source of SAM is an event of its function, and takes no tags."""
    told = {key: fact for key, fact in facts.items() if key[0] not in ALONE}
    return {
        key: {name: value for name, value in fact.items() if key[0] != "source" or name != "Tags"}
        for key, fact in told.items()
    }


# -- what each says, beside what the deployment needs


@pytest.fixture(params=FORMS)
def said(request: pytest.FixtureRequest) -> Facts:
    return stated(template("everything", request.param))


NEEDED: Final[Deployment] = needs(MODULES["everything"], options=options_of("everything"))
QUEUES: Final = [queue for queue in NEEDED.queues if queue.made]


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_a_queue_has_its_times_its_size_and_its_redrive_policy_and_stays(said: Facts, queue: Any) -> None:
    found = said["queue", queue.name]
    times = found["VisibilityTimeout"], found["MessageRetentionPeriod"], found["MaximumMessageSize"]
    assert times == (queue.visibility, queue.retention, LARGEST)
    assert found["stays"] is True
    policy = found.get("RedrivePolicy", {})
    assert (policy.get("maxReceiveCount"), policy.get("deadLetterTargetArn")) == (
        (queue.max_receive_count, f"<queue {queue.give_up_to}>") if queue.give_up_to is not None else (None, None)
    )


@pytest.mark.parametrize("function", NEEDED.functions, ids=lambda function: function.name)
def test_a_function_has_its_time_memory_logs_and_queues(said: Facts, function: Any) -> None:
    found = said["function", function.name]
    assert (found["Timeout"], found["MemorySize"]) == (function.timeout, function.memory)
    assert found.get("ReservedConcurrentExecutions") == function.reserved
    assert found["RecursiveLoop"] == "Allow"
    logging = {"LogFormat": "JSON", "LogGroup": f"<logs /aws/lambda/{function.name}>"}
    levels = {"ApplicationLogLevel": options_of("everything").log_level, "SystemLogLevel": "INFO"}
    assert found["LoggingConfig"] == {**logging, **levels}
    assert said["logs", f"/aws/lambda/{function.name}"]["RetentionInDays"]
    for queue in function.reads:
        [source] = [one for key, one in said.items() if key[0] == "source" and _is_of(one, function.name, queue)]
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["BatchSize"] == function.batch_size
        assert source.get("MaximumBatchingWindowInSeconds", 0) == function.window
        assert source.get("ScalingConfig", {}).get("MaximumConcurrency") == function.max_concurrency


def _is_of(source: dict[str, Any], function: str, queue: str) -> bool:
    arn: str = source["EventSourceArn"]
    is_queue = arn == f"<queue {queue}>" or arn.endswith(f":{queue}")
    return is_queue and bool(source["FunctionName"] == f"<function {function}>")


def test_a_deployment_has_one_of_each() -> None:
    """What no function and no queue of it had, the tests above would not compare."""
    functions = NEEDED.functions
    assert any(one.window for one in functions)
    assert any(one.reserved is not None for one in functions)
    assert any(one.max_concurrency is not None for one in functions)
    assert any(queue.give_up_to for queue in QUEUES)
    kinds = {kind for name in MODULES for kind, _ in shared(stated(template(name)))}
    assert kinds == {*KINDS}


KINDS: Final = (
    *("table", "queue", "topic", "subscription", "rule", "policy", "secret", "group", "role", "logs", "function"),
    *("source", "url", "metric", "alarm", "schedule", "topic policy"),
)


def test_each_alarm_has_its_metric_and_threshold(said: Facts) -> None:
    found = {name: fact for (kind, name), fact in said.items() if kind == "alarm"}
    expected = {alarm.name: alarm for alarm in alarms_of(NEEDED, options_of("everything").oldest_message)}
    assert found.keys() == expected.keys()
    for name, alarm in expected.items():
        facts = found[name]
        metric = facts["Namespace"], facts["MetricName"], facts["Dimensions"], facts["Statistic"]
        assert metric == (alarm.namespace, alarm.metric, dict([alarm.dimension]), alarm.statistic)
        times = facts["Threshold"], facts["Period"], facts["EvaluationPeriods"], facts["ComparisonOperator"]
        assert times == (alarm.threshold, alarm.period, alarm.periods, "GreaterThanThreshold")
        assert (facts["TreatMissingData"], facts["AlarmActions"]) == ("notBreaching", "the alarm topic")


def test_what_a_queue_is_sent_and_cannot_take_goes_to_a_queue(said: Facts) -> None:
    subscriptions = [fact for (kind, _), fact in said.items() if kind == "subscription"]
    rules = [fact for (kind, _), fact in said.items() if kind == "rule"]
    assert subscriptions
    assert rules
    letters = {f"<queue {queue.name}>" for queue in QUEUES if queue.role is Role.DEAD_LETTERS}
    assert {one["RedrivePolicy"]["deadLetterTargetArn"] for one in subscriptions} <= letters
    assert {one["DeadLetterConfig"]["Arn"] for one in rules} <= letters


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["table", "queue", "secret", "group"])
def test_what_holds_something_stays(form: str, kind: str) -> None:
    """A stack or a configuration without it does not delete it. Terraform refuses to, as long as it has its block."""
    found = [fact for name in MODULES for (one, _), fact in stated(template(name, form)).items() if one == kind]
    assert found
    assert all(fact.get("stays") is True for fact in found)


PUBLIC: Final = {"Principal": "*", "Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True}


@pytest.mark.parametrize(
    ("form", "permissions"),
    [
        ("cloudformation", {"lambda:InvokeFunctionUrl": {"FunctionUrlAuthType": "NONE"}, "lambda:InvokeFunction": {}}),
        ("sam", {}),
        ("terraform-json", {"lambda:InvokeFunction": {}}),
    ],
)
def test_anybody_may_call_a_url_by_what_the_template_says_or_its_tool_adds(
    form: str, permissions: dict[str, Any]
) -> None:
    """SAM adds both permissions to a URL, and Terraform's provider the first of the two."""
    facts = stated(template("everything", form))
    found = {name.rpartition(" ")[2]: fact for (kind, name), fact in facts.items() if kind == "permission"}
    assert found.keys() == permissions.keys()
    for action, more in permissions.items():
        wanted = PUBLIC if not more else {"Principal": "*", "Action": action, **more}
        assert {key: one for key, one in found[action].items() if key != "FunctionName"} == wanted
        assert found[action].get("FunctionName", "<function ").startswith("<function ")


def test_terraform_makes_a_function_and_its_mapping_after_what_they_need() -> None:
    facts = stated(template("everything", "terraform-json"))
    orders = {name: fact["after"] for (kind, name), fact in facts.items() if kind == "order"}
    assert orders
    for function in NEEDED.functions:
        policy = [] if function.role is not None else ["aws_iam_role_policy"]
        of_function = [kind_of(one) for one in orders[f"<function {function.name}>"]]
        assert of_function[: len(policy)] == policy
        for queue in function.reads:
            [name] = [
                one for one in orders if one.startswith(f"<source <function {function.name}>") and is_last(one, queue)
            ]
            assert [kind_of(one) for one in orders[name]][: 1 + len(policy)] == [LOOP, *policy]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODULES)
def test_new_code_of_a_function_runs_when_what_it_uses_is_there(name: str, form: str) -> None:
    """A release that adds a queue or a table is not at work before it is made."""
    needed = needs(MODULES[name], options=options_of(name))
    facts = stated(template(name, form))
    made = {f"<queue {each.name}>": ("queue", each.name) for each in needed.queues if each.made}
    made |= {f"<table {each.name}>": ("table", each.name) for each in needed.tables if not each.existing}
    made |= {f"<topic {each.name}>": ("topic", each.arn) for each in needed.topics if not each.existing}
    for function in needed.functions:
        used = {(each.target, each.name) for each in function.permissions}
        after = facts.get(("order", f"<function {function.name}>"), {"after": []})["after"]
        assert {place for place, key in made.items() if key in used} <= set(after), function.name
        assert all(each in made or each.startswith("<aws_iam") for each in after), function.name


def is_last(name: str, queue: str) -> bool:
    return name.endswith((f"<queue {queue}>>", f":{queue}>"))


LOOP: Final = "aws_lambda_function_recursion_config"


def kind_of(reference: str) -> str:
    return reference[1:].partition(".")[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most", [7, None])
def test_what_bounds_a_backlog_is_in_every_format_where_it_is_given(form: str, most: int | None) -> None:
    """Records that no function has handed back come as fast as mappings take them: nothing else bounds them."""
    options = DeployOptions.model_validate({"defaults": {} if most is None else {"max_concurrency": most}})
    facts = stated(json.loads(FORMATS[form](needs(MODULES["orders"], options=options), options)))
    sources = [fact for (kind, _), fact in facts.items() if kind == "source"]
    assert sources
    assert [one.get("ScalingConfig") for one in sources] == [
        None if most is None else {"MaximumConcurrency": most} for _ in sources
    ]


@pytest.mark.parametrize("queue", [one for one in QUEUES if one.reader is not None], ids=lambda queue: queue.name)
def test_the_alarm_of_a_queue_says_at_which_age_it_deletes_a_message(said: Facts, queue: Any) -> None:
    days = said["queue", queue.name]["MessageRetentionPeriod"] / 86_400
    assert (
        f"SQS deletes them after {days:.3g} days." in said["alarm", f"{queue.name}-oldest-message"]["AlarmDescription"]
    )


# -- and the comparison bites: whatever is left out or changed of a format is missed


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a template, those that hold others included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*path, key)
        yield from leaves(one, (*path, key))


def parts(whole: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """One place for each part of each type of resource, with the name of that part."""
    seen: set[str] = set()
    for path in leaves(resources(whole)):
        kind, rest = (path[0], path[2:]) if "resource" in whole else (whole["Resources"][path[0]]["Type"], path[1:])
        part = ".".join([kind, *("*" if isinstance(one, int) else str(one) for one in rest)])
        if part not in seen:
            seen.add(part)
            yield part, path


def resources(whole: Any) -> Any:
    return whole["resource"] if "resource" in whole else whole["Resources"]


@contextmanager
def without(whole: Any, path: tuple[Any, ...]) -> Iterator[None]:
    place = resources(whole)
    for key in path[:-1]:
        place = place[key]
    left_out = place.pop(path[-1])
    yield
    place.insert(path[-1], left_out) if isinstance(place, list) else place.update({path[-1]: left_out})


@pytest.mark.slow("writes templates of all flows")
@pytest.mark.parametrize("name", ["everything", "approval"])
@pytest.mark.parametrize("form", FORMS)
def test_whatever_is_left_out_of_a_format_is_missed(name: str, form: str) -> None:
    """One of each part of each type of resource."""
    whole = template(name, form)
    before, unseen = stated(whole), []
    for part, path in [*parts(whole)]:
        with without(whole, path):
            try:
                after = stated(whole)
            except (AssertionError, KeyError, TypeError, ValueError):
                continue
        if after == before:
            unseen.append(part)
    assert unseen == []

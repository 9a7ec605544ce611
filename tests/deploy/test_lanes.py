"""What is deployed for inboxes with lanes: a queue and a share for each, and who may send there."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.cli.iac import FORMATS
from flowguard.deploy.as_json import described
from flowguard.deploy.derive import needs_of
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.flow_graph import EdgeKind, graph_of
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.flow import AnyFlow
from flowguard.lanes import Lane
from tests.deploy import laned
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings, read

OPTIONS: Final = DeployOptions.model_validate(laned.OPTIONS)
SHARES: Final = {
    "orders": 5,
    "orders-urgent": 15,
    "orders-answers": 20,
    "shipping": 3,
    "shipping-urgent": 3,
    "prices": 2,
    "prices-urgent": 2,
    "orders-killed": None,
}


@cache
def needed() -> Deployment:
    return needs("tests.deploy.laned", options=OPTIONS)


@cache
def text_of(form: str) -> str:
    return FORMATS[form](needed(), OPTIONS)


def test_each_lane_has_a_mapping_with_its_share() -> None:
    assert {queue: function.at_once(queue) for function in needed().functions for queue in function.reads} == SHARES


def most_by_cloudformation(template: Any) -> Iterable[tuple[str, Any]]:
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            yield resource["Properties"]["EventSourceArn"]["Fn::GetAtt"][0], resource["Properties"].get("ScalingConfig")


def most_by_sam(template: Any) -> Iterable[tuple[str, Any]]:
    for resource in template["Resources"].values():
        for event in resource["Properties"].get("Events", {}).values():
            yield event["Properties"]["Queue"]["Fn::GetAtt"][0], event["Properties"].get("ScalingConfig")


@pytest.mark.parametrize(("form", "most"), [("cloudformation", most_by_cloudformation), ("sam", most_by_sam)])
def test_templates_say_the_shares(form: str, most: Callable[[Any], Iterable[tuple[str, Any]]]) -> None:
    template = json.loads(text_of(form))
    names = {logical: one["Properties"].get("QueueName") for logical, one in template["Resources"].items()}
    assert {names[queue]: scaling for queue, scaling in most(template)} == {
        queue: None if share is None else {"MaximumConcurrency": share} for queue, share in SHARES.items()
    }


def test_terraform_says_the_shares() -> None:
    made = json.loads(text_of("terraform-json"))["resource"]["aws_lambda_event_source_mapping"]
    given = sorted(one.get("scaling_config", {}).get("maximum_concurrency", 0) for one in made.values())
    assert given == sorted(share or 0 for share in SHARES.values())


def test_who_reads_the_json_gets_the_shares_where_there_are_any() -> None:
    functions = {one["name"]: one for one in json.loads(described(needed(), OPTIONS))["functions"]}
    assert functions["orders-take"]["shares"] == {"orders": 5, "orders-urgent": 15}
    assert "shares" not in functions["orders-dead-letters"]


def test_the_queue_of_each_lane_is_as_that_of_the_first() -> None:
    queues = {queue.name: queue for queue in needed().queues}
    for first, other in (("orders", "orders-urgent"), ("shipping", "shipping-urgent"), ("prices", "prices-urgent")):
        its, others = queues[first], queues[other]
        assert (its.role, its.retention, its.visibility, its.reader, its.give_up_to, its.hops_only, its.owner) == (
            others.role,
            others.retention,
            others.visibility,
            others.reader,
            others.give_up_to,
            others.hops_only,
            others.owner,
        )
    assert queues["shipping-urgent"].hops_only
    assert not queues["orders-urgent"].hops_only


@pytest.mark.parametrize(
    ("function", "queues"),
    [
        ("orders-take", {"shipping", "shipping-urgent", "prices", "prices-urgent", "orders", "orders-urgent"}),
        ("orders-dead-letters", {"orders", "orders-urgent", "shipping", "shipping-urgent"}),
        ("prices-price", {"prices", "prices-urgent", "orders-answers"}),
        ("orders-ship", {"shipping", "shipping-urgent"}),
    ],
)
def test_a_function_may_send_to_all_lanes_of_what_it_sends_to(function: str, queues: set[str]) -> None:
    (its,) = [each for each in needs("tests.deploy.laned", options=OPTIONS).functions if each.name == function]
    assert queues <= {one.name for one in its.permissions if "sqs:SendMessage" in one.actions}


def test_a_schedule_sends_to_the_queue_of_its_lane() -> None:
    assert [schedule.queue for schedule in needed().schedules] == ["orders-urgent"]


def test_shares_follow_the_names_of_an_environment() -> None:
    options = DeployOptions.model_validate(
        {**laned.OPTIONS, "settings": {"names": "staging-*", "signing_keys": "ssm:/keys"}}
    )
    (take,) = [each for each in needs("tests.deploy.laned", options=options).functions if each.name.endswith("-take")]
    assert take.at_once("staging-orders-urgent") == 15


def test_each_function_of_the_flow_knows_how_the_queue_of_a_lane_is_called() -> None:
    options = DeployOptions.model_validate({**laned.OPTIONS, "queues": {"orders-urgent": {"name": "fast"}}})
    by_name = {each.name: dict(each.environment) for each in needs("tests.deploy.laned", options=options).functions}
    for name in ("orders-take", "orders-ship", "orders-dead-letters"):
        assert "fast" in by_name[name]["FLOWGUARD_NAMES"], name


def test_the_graph_of_a_flow_shows_its_lanes() -> None:
    graph = graph_of(laned.Orders)
    entering = [edge.source for edge in graph.edges if edge.line is EdgeKind.ENTERS]
    assert entering == ["sqs:orders", "sqs:orders-urgent"]
    (details,) = (node.details for node in graph.nodes if node.name == "ship")
    assert "reads shipping, shipping-urgent" in details


# -- what cannot be shared --------------------------------------------------------------------------------------------


class Take(Stage[laned.Order], name="take", inbox=(Lane("normal", "orders"), Lane("urgent", "orders-urgent"))):
    def handle(self, order: laned.Order, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Take,)


class Other(Take, name="other", inbox=(Lane("normal", "orders"), Lane("urgent", "others-urgent"))):
    pass


class Others(Flow, name="others", object_id="order_id"):
    stages = (Other,)


def deployed(*flows: AnyFlow, **options: Any) -> Deployment:
    stages = tuple((flow, stage) for flow in flows for stage in flow.stages)
    function = FoundFunction(__name__, "serve", FunctionKind.STAGES, flows, stages)
    return needs_of([function], DeployOptions.model_validate({"functions": {"serve": options}}))


@pytest.mark.parametrize(("options", "most"), [({}, "none"), ({"max_concurrency": 3}, "3")])
def test_lanes_need_a_bound_that_they_share(options: dict[str, int], most: str) -> None:
    with pytest.raises(CannotDeploy) as raised:
        deployed(Orders, **options)
    assert raised.value.problems == (
        f"tests.deploy.test_lanes.serve has max_concurrency = {most}, which its lanes orders and orders-urgent share "
        "by their weights, and each gets 2 or more: say 4 or more under [functions.…] of the options",
    )
    assert deployed(Orders, max_concurrency=4).functions[0].shares == (("orders", 2), ("orders-urgent", 2))


def test_a_lane_that_brings_answers_too_takes_retries() -> None:
    class Told(Flow, name="told", object_id="order_id", answers="orders-urgent"):
        stages = (Take,)

    (function,) = deployed(Told, max_concurrency=4).functions
    sends = {one.name for one in function.permissions if "sqs:SendMessage" in one.actions}
    assert sends == {"orders", "orders-urgent", "told-dead-letters"}


def test_lanes_are_one_queue_to_what_is_reserved() -> None:
    assert deployed(Orders, max_concurrency=4, reserved=4).functions[0].reserved == 4
    with pytest.raises(CannotDeploy, match="has reserved = 3, and its queue has max_concurrency = 4"):
        deployed(Orders, max_concurrency=4, reserved=3)


def test_two_flows_that_share_a_queue_share_its_lanes() -> None:
    class Same(Flow, name="same", object_id="order_id"):
        stages = (Take,)

    shared = deployed(Orders, Same, max_concurrency=4)
    assert shared.functions[0].shares == (("orders", 2), ("orders-urgent", 2))
    with pytest.raises(
        CannotDeploy, match="'orders/take' and 'others/other' both read the queue 'orders', and by other"
    ):
        deployed(Orders, Others, max_concurrency=10)


# -- what is live -----------------------------------------------------------------------------------------------------


def looked(change: Callable[[Any], None] | None = None) -> list[LiveFinding]:
    template = copy.deepcopy(json.loads(text_of("cloudformation")))
    if change is not None:
        change(template)
    found = findings(read(json.dumps(template), "cloudformation"), needed(), OPTIONS)
    return [each for each in found if each.rule not in ("not-in-a-file", "account-open")]


def mapping(template: Any, queue: str) -> tuple[str, Any]:
    resources = template["Resources"]
    return next(
        (name, one["Properties"])
        for name, one in resources.items()
        if one["Type"] == "AWS::Lambda::EventSourceMapping"
        and resources[one["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]["QueueName"] == queue
    )


def share(queue: str, most: int | None) -> Callable[[Any], None]:
    def change(template: Any) -> None:
        _, properties = mapping(template, queue)
        del properties["ScalingConfig"]
        if most is not None:
            properties["ScalingConfig"] = {"MaximumConcurrency": most}

    return change


def test_nothing_is_wrong_with_what_the_template_makes() -> None:
    assert looked() == []


@pytest.mark.parametrize(
    ("queue", "most", "what"),
    [
        ("orders", 20, "its mapping from orders has MaximumConcurrency 20"),
        ("orders-urgent", 5, "its mapping from orders-urgent has MaximumConcurrency 5"),
    ],
)
def test_a_lane_with_another_share_is_found(queue: str, most: int, what: str) -> None:
    (found,) = looked(share(queue, most))
    assert (found.rule, found.severity.value, found.resource, found.what) == (
        "lane-share",
        "warning",
        "orders-take",
        what,
    )
    assert found.fix.startswith(f"set MaximumConcurrency to {SHARES[queue]};")


def test_a_lane_without_a_bound_is_found() -> None:
    found = {each.rule: each for each in looked(share("orders", None))}
    assert found.keys() == {"lane-share", "concurrency-open"}
    assert found["lane-share"].what == "its mapping from orders has no MaximumConcurrency"


def test_another_queue_of_the_function_has_no_share() -> None:
    assert looked(share("orders-answers", 7)) == []


def test_a_lane_without_a_mapping_is_found() -> None:
    def unmap(template: Any) -> None:
        name, _ = mapping(template, "orders-urgent")
        del template["Resources"][name]

    assert [(each.rule, each.severity.value) for each in looked(unmap)] == [("source-missing", "error")]

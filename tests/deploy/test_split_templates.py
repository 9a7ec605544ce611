"""Whole deployments in nested stacks: each resource of the single template is in one of them, and is the same."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import (
    Bus,
    Callback,
    Done,
    Flow,
    Outcome,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
)
from flowguard.deploy.cloudformation import MOST_RESOURCES, cloudformation, nested, whole
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.needs import Deployment
from flowguard.deploy.nested_stacks import file_of
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.resources import REDRIVE_IS_GIVEN
from flowguard.deploy.planned.template_file import read_template, resources_of
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stack_parts import references
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import Names
from flowguard.stage import AnyStage
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings
from tests.deploy.templates import MODULES, SHIPPED, options_of
from tests.deploy.test_derive import AnyStep, Deploy
from tests.deploy.test_derive import deploy as deploy  # noqa: PLC0414 - a fixture

STACK: Final = "AWS::CloudFormation::Stack"


class Order(BaseModel):
    order_id: str


def copies(count: int) -> Deployment:
    """A deployment of so many flows, which differ in their names alone."""
    functions = []
    for number in range(count):
        own = {"name": f"take-{number:03}"}

        class Take(Stage[Order], **own):
            def handle(self, order: Order, step: Step) -> Outcome:
                return Done()

        given: Any = {"name": f"copy-{number:03}", "object_id": "order_id"}
        flow: Any = type(f"Copy{number}", (Flow,), {"stages": (Take,), "__module__": __name__}, **given)
        functions.append(FoundFunction(__name__, f"copy_{number}", FunctionKind.STAGES, (flow,), ((flow, Take),)))
    return needs_of(functions, DeployOptions())


def deployments() -> Iterator[tuple[str, Deployment, DeployOptions]]:
    for name in MODULES:
        options = options_of(name)
        yield name, needs(MODULES[name], options=options), options
    yield "all that are shipped", needs(*(MODULES[name] for name in SHIPPED)), DeployOptions()
    yield "17 copies", copies(17), DeployOptions()
    yield "40 copies", copies(40), DeployOptions()


ALL: Final = {name: (needed, options) for name, needed, options in deployments()}
EACH: Final = pytest.mark.parametrize("name", ALL)


def stacks(name: str) -> dict[str, Any]:
    needed, options = ALL[name]
    return {file: json.loads(text) for file, text in nested(needed, options).items()}


def written(name: str, directory: Path) -> Path:
    """Write the templates of a deployment. Returns the parent's file."""
    needed, options = ALL[name]
    for file, text in nested(needed, options).items():
        (directory / file).write_text(text, encoding="utf-8")
    return directory / "template.json"


def test_a_deployment_of_many_flows_is_too_large_for_one_template() -> None:
    needed, options = ALL["40 copies"]
    with pytest.raises(CannotDeploy, match=r"takes 500; write a nested stack for each flow, with --split DIR"):
        cloudformation(needed, options)


@EACH
def test_each_resource_is_in_one_of_the_stacks(name: str) -> None:
    parts = [part["Resources"] for file, part in stacks(name).items() if file != "template.json"]
    assert Counter(label for part in parts for label in part) == Counter(whole(*ALL[name])["Resources"].keys())


@EACH
def test_each_stack_stays_inside_the_limits(name: str) -> None:
    for file, text in nested(*ALL[name]).items():
        template = json.loads(text)
        assert len(text.encode()) < 1_000_000, file
        assert len(template["Resources"]) <= MOST_RESOURCES, file
        assert max(len(template.get("Parameters", {})), len(template.get("Outputs", {}))) <= 200, file


@EACH
def test_there_is_a_stack_for_each_flow_and_one_for_what_they_share(name: str) -> None:
    needed, _ = ALL[name]
    kinds = {
        file: {each["Type"] for each in part["Resources"].values()}
        for file, part in stacks(name).items()
        if not file.startswith("stack-policies-")
    }
    assert {*kinds} == {
        "template.json",
        "stack-base.json",
        *(f"{file_of(flow)}.json" for flow in {each.owner for each in needed.functions}),
    }
    assert kinds["template.json"] == {STACK}
    shared = {"AWS::DynamoDB::Table", "AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::Scheduler::ScheduleGroup"}
    assert not any(shared & types for file, types in kinds.items() if file != "stack-base.json")
    assert "AWS::Lambda::Function" not in kinds["stack-base.json"]
    own = [each["Properties"] for each in stacks(name)["stack-base.json"]["Resources"].values()]
    assert not {each.name for each in needed.queues if each.reader} & {each.get("QueueName") for each in own}


def without_stacks(value: Any) -> Any:
    """A value without the labels of stacks before those of resources."""
    if isinstance(value, dict):
        return {key: without_stacks(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_stacks(each) for each in value]
    return _bare(value) if isinstance(value, str) else value


def _bare(text: str) -> str:
    head, _, label = text.rpartition("Stack.")
    return f"{head.rpartition('/')[0]}/{label}" if "/" in head else label if head else text


@EACH
def test_each_resource_is_the_same_as_in_the_single_template(name: str, tmp_path: Path) -> None:
    """Read as the doctor reads them: parameters and outputs of the stacks are followed."""
    single = resources_of("one.json", whole(*ALL[name]), {})
    several = read_template(written(name, tmp_path), {})
    types = {each["Type"] for each in whole(*ALL[name])["Resources"].values()}
    for type_ in types:
        ours = {each.label: each.properties for each in single.of(type_)}
        theirs = {_bare(each.label): without_stacks(each.properties) for each in several.of(type_)}
        for properties in theirs.values():
            properties.pop(REDRIVE_IS_GIVEN, None)  # says of a queue that another stack makes its dead-letter queue
        assert theirs == ours, type_


@pytest.mark.slow("writes templates of all flows")
@EACH
def test_the_doctor_finds_the_same_in_both(name: str, tmp_path: Path) -> None:
    needed, options = ALL[name]
    several = findings(read_template(written(name, tmp_path), {}), needed, options)
    single = findings(resources_of(str(tmp_path / "template.json"), whole(needed, options), {}), needed, options)
    assert several == single


@EACH
def test_a_stack_comes_after_those_that_it_needs(name: str) -> None:
    """What a stack gets of others are outputs that these have, and nothing goes round."""
    made = stacks(name)
    parent = made["template.json"]["Resources"]
    needed: dict[str, set[str]] = {}
    for label, stack in parent.items():
        template = made[stack["Properties"]["TemplateURL"]]
        given = stack["Properties"].get("Parameters", {})
        assert given.keys() == template.get("Parameters", {}).keys()
        needed[label] = {*stack.get("DependsOn", [])}
        for reference in references(given):
            if reference.label in parent:
                output = reference.attribute.removeprefix("Outputs.")
                assert output in made[parent[reference.label]["Properties"]["TemplateURL"]]["Outputs"]
                needed[label].add(reference.label)
            else:
                assert reference.label in made["template.json"]["Parameters"]
    while needed:
        first = [label for label, others in needed.items() if not others]
        assert first, f"these wait for each other: {needed}"
        needed = {label: others - {*first} for label, others in needed.items() if label not in first}


@EACH
def test_what_a_stack_names_is_there(name: str) -> None:
    for file, template in stacks(name).items():
        there = {*template["Resources"], *template.get("Parameters", {})}
        named = {each.label for each in references([template["Resources"], template.get("Outputs", {})])}
        assert not {label for label in named if not label.startswith("AWS::")} - there, file
        for resource in template["Resources"].values():
            assert {*resource.get("DependsOn", [])} <= {*template["Resources"]}, file


@EACH
def test_the_outputs_are_those_of_the_single_template(name: str) -> None:
    made, single = stacks(name), whole(*ALL[name])
    outputs = made["template.json"].get("Outputs", {})
    assert outputs.keys() == single.get("Outputs", {}).keys()
    assert made["template.json"]["Parameters"] == single["Parameters"]
    for key, output in outputs.items():
        [reference] = references(output["Value"])
        stack = made["template.json"]["Resources"][reference.label]["Properties"]["TemplateURL"]
        assert reference.attribute == f"Outputs.{key}"
        assert made[stack]["Outputs"][key] == single["Outputs"][key]


def test_a_stack_comes_after_those_to_whose_queues_its_functions_send(deploy: Deploy) -> None:
    """New code that sends to a flow which the release adds runs when its queue is there."""
    flows = [flow("bills", Bill), flow("mailing", inbox="mails")]
    needed = deploy({}, **{each.name: lambda_handler(each) for each in flows})
    parent = json.loads(nested(needed, DeployOptions())["template.json"])["Resources"]
    assert "MailingStack" in parent["BillsStack"]["DependsOn"]
    assert "BillsStack" not in parent["MailingStack"].get("DependsOn", [])


# -- another release


PLACED: Final = Topic("arn:aws:sns:eu-west-1:123456789012:orders-placed")
LETTERS: Final[dict[str, Any]] = {"dead_letters": "shop-dead-letters"}


class Take(Stage[Order], name="take"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Done()


class Bill(Stage[Order], name="bill"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.send("mails", order)
        return Done()


class Ask(Stage[Order], name="ask"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.start(flow("orders"), order)
        return Done()


def flow(name: str, stage: AnyStage = Take, **given: Any) -> AnyFlow:
    names: dict[str, Any] = {"name": name, "object_id": "order_id", **given}
    body = {"stages": (stage,), "__module__": __name__}
    return types.new_class(name.capitalize(), (Flow,), names, lambda made: made.update(body))


FED: Final = flow("orders", inbox=PLACED, **LETTERS)
RELEASES: Final[Mapping[str, tuple[list[AnyFlow], list[AnyFlow]]]] = {
    "a flow with the same dead letters": ([FED], [FED, flow("refunds", **LETTERS)]),
    "such a flow before it": ([FED], [flow("refunds", **LETTERS), FED]),
    "a flow whose dead letters are those of another": (
        [flow("orders", inbox=PLACED)],
        [flow("refunds", dead_letters="orders-dead-letters"), flow("orders", inbox=PLACED)],
    ),
    "a flow that listens to the same topic": ([FED], [flow("refunds", inbox=PLACED), FED]),
    "a topic": ([flow("orders", **LETTERS)], [FED]),
    "a bus": ([flow("orders")], [flow("orders", callbacks=(Callback(Bus("shop", "billing", "paid"), id="order_id"),))]),
    "a flow that sends to the same queue": ([flow("orders", Bill)], [flow("bills", Bill), flow("orders", Bill)]),
    "a flow that sends to another's inbox": ([FED], [flow("asks", Ask), FED]),
    "shared dead letters of a third": (
        [FED, flow("refunds", **LETTERS)],
        [flow("a-first", **LETTERS), FED, flow("refunds", **LETTERS)],
    ),
    "a flow without dead letters in common": ([FED], [flow("refunds"), FED]),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("rule", ["*", "*-staging", "staging-*"])
def test_another_release_moves_nothing_from_one_stack_to_another(release: str, rule: str, deploy: Deploy) -> None:
    """What moves has a name that is taken, or is removed after it was made: AWS knows a subscription by its queue."""

    def placed(flows: list[AnyFlow]) -> dict[str, str]:
        handlers = {flow.name.replace("-", "_"): lambda_handler(flow) for flow in flows}
        killed = {f"{name}_killed": dlq_handler(flow) for name, flow in zip(handlers, flows, strict=True)}
        answers = {f"{flow.name}_answers": callback_handler(flow) for flow in flows if flow.callbacks}
        options = {"settings": {"names": rule}}
        needed = deploy(options, **handlers, **killed, **answers)
        made = nested(needed, DeployOptions.model_validate(options))
        parts = {file: json.loads(text)["Resources"] for file, text in made.items() if file != "template.json"}
        return {label: file for file, resources in parts.items() for label in resources}

    before, after = (placed(flows) for flows in RELEASES[release])
    gone = before.keys() - after.keys()
    assert len(gone) == (3 if release == "a topic" else 0), "an inbox behind a topic has another name"
    assert {label: after[label] for label in before.keys() - gone} == {
        label: before[label] for label in before.keys() - gone
    }


@pytest.mark.parametrize("rule", ["*", "*-staging", "staging-*"])
def test_what_is_named_for_a_flow_is_in_its_stack_and_other_queues_that_nothing_reads_are_in_the_base(
    rule: str, deploy: Deploy
) -> None:
    flows = [flow("refunds", dead_letters="orders-dead-letters"), flow("orders", Bill, inbox="in.fifo")]
    flows.append(flow("bills", **LETTERS))
    handlers = {flow.name: lambda_handler(flow) for flow in flows}
    killed = {f"{flow.name}_killed": dlq_handler(flow) for flow in flows}
    options = {"settings": {"names": rule}}
    made = nested(deploy(options, **handlers, **killed), DeployOptions.model_validate(options))
    places = {
        resource["Properties"]["QueueName"]: file
        for file, text in made.items()
        for resource in json.loads(text)["Resources"].values()
        if resource["Type"] == "AWS::SQS::Queue"
    }
    assert {name: places[called(name, rule)] for name in ("orders-dead-letters", "orders-undelivered.fifo")} == {
        "orders-dead-letters": f"stack-{called('orders', rule)}.json",
        "orders-undelivered.fifo": f"stack-{called('orders', rule)}.json",
    }
    assert {places[called(name, rule)] for name in ("mails", "shop-dead-letters")} == {"stack-base.json"}


def test_rules_that_wait_for_each_others_policies_are_in_one_stack(deploy: Deploy) -> None:
    """A rule is made after the policies of its queue and of its dead letters, here those of the other flow."""
    letters = {"orders": "refunds-dead-letters", "refunds": "orders-dead-letters"}
    flows = [
        flow(name, dead_letters=to, callbacks=(Callback(Bus("shop", name, "paid"), id="order_id"),))
        for name, to in letters.items()
    ]
    handlers = {flow.name: lambda_handler(flow) for flow in flows}
    killed = {f"{flow.name}_killed": dlq_handler(flow) for flow in flows}
    answers = {f"{flow.name}_answers": callback_handler(flow) for flow in flows}
    made = nested(deploy({}, **handlers, **killed, **answers), DeployOptions())
    rules = {
        label: resource["DependsOn"]
        for text in made.values()
        for label, resource in json.loads(text)["Resources"].items()
        if resource["Type"] == "AWS::Events::Rule"
    }
    assert rules == {
        "OrdersEventsEventsOrdersPaidShopRule": ["OrdersEventsQueuePolicy", "RefundsDeadLettersQueuePolicy"],
        "RefundsEventsEventsRefundsPaidShopRule": ["RefundsEventsQueuePolicy", "OrdersDeadLettersQueuePolicy"],
    }


def called(name: str, rule: str) -> str:
    return Names(rule).by_rule(name)


@pytest.mark.proof("cfn-lint takes a second for each template")
def test_cfn_lint_has_nothing_to_say(tmp_path: Path) -> None:
    for name in ("everything", "streaming", "topics", "ticking", "all that are shipped"):
        (tmp_path / name).mkdir()
        written(name, tmp_path / name)
    command = [str(Path(sys.executable).with_name("cfn-lint")), *map(str, sorted(tmp_path.glob("*/*.json")))]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)

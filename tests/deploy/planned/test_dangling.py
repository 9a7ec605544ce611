"""References of a template to nothing are errors, since CloudFormation refuses the template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.deploy.planned.dangling import Dangling
from flowguard.deploy.planned.template_file import read_template, resources_of
from tests.deploy.planned.looked import found_in
from tests.deploy.templates import MODULES, text_of

QUEUE: Final = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "q"}}


def dangling(value: Any, **more: Any) -> list[Dangling]:
    there = {"Q": QUEUE, "R": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": value}}}
    template = {"Parameters": {"P": {"Type": "String"}}, **more, "Resources": {**there, **more.get("Resources", {})}}
    return list(resources_of("t.json", template, {}).dangling)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"Ref": "X"}, ["X"]),
        ({"Fn::GetAtt": ["X", "Arn"]}, ["X"]),
        ({"Fn::GetAtt": "X.Arn"}, ["X"]),
        ({"Fn::Sub": "a-${X}-${Y.Arn}-${Q}"}, ["X", "Y"]),
        ({"Fn::Sub": ["${X}-${Y}", {"X": {"Ref": "Z"}}]}, ["Y", "Z"]),
        ([{"Fn::If": ["C", {"Ref": "X"}, {"Ref": "P"}]}, {"Ref": "X"}], ["X"]),
        ({"Ref": "Q"}, []),
        ({"Ref": "P"}, []),
        ({"Fn::GetAtt": ["Q", "Arn"]}, []),
        ({"Fn::GetAtt": "Q.Arn"}, []),
        ({"Ref": "AWS::NoValue"}, []),
        ({"Fn::Sub": "${AWS::Region} ${!X} ${P} ${Q.Arn}"}, []),
        ({"Ref": "X", "more": 1}, []),
        ({"Fn::GetAtt": ["X", "Arn"], "more": 1}, []),
        ({"Fn::Sub": "${X}", "more": 1}, []),
        ({"Fn::Sub": ["${X}", {}], "more": 1}, []),
    ],
)
def test_what_names_nothing_is_found(value: Any, names: list[str]) -> None:
    assert dangling(value) == [Dangling("R", name) for name in names]


@pytest.mark.parametrize(("given", "names"), [("Xs", ["Xs"]), (["Q", "Xs"], ["Xs"]), ("Q", []), ([{"Ref": "Xs"}], [])])
def test_what_waits_for_nothing_is_found(given: Any, names: list[str]) -> None:
    assert dangling("r", Resources={"S": {**QUEUE, "DependsOn": given}}) == [Dangling("S", name) for name in names]


def test_an_output_that_names_nothing_is_found() -> None:
    outputs = {"A": {"Value": {"Ref": "Q"}}, "B": {"Value": {"Ref": "X"}}}
    assert dangling("r", Outputs=outputs) == [Dangling("Outputs.B", "X")]


@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        ({"Transform": "AWS::Serverless-2016-10-31"}, True),
        ({"Transform": ["AWS::LanguageExtensions"]}, True),
        ({"Transform": "Our::Macro"}, False),
        ({"Transform": ["AWS::Serverless-2016-10-31", "Our::Macro"]}, False),
        ({"Resources": {"Fn::ForEach::All": []}}, False),
    ],
)
def test_what_a_macro_or_a_loop_makes_is_not_known(more: dict[str, Any], is_found: bool) -> None:
    assert bool(dangling({"Ref": "X"}, **more)) is is_found


@pytest.mark.parametrize("name", ["QAliaslive", "Q.Version", "ServerlessRestApi"])
def test_what_sam_makes_has_labels_that_the_template_has_not(name: str) -> None:
    assert dangling({"Ref": name}, Transform="AWS::Serverless-2016-10-31") == []
    assert [each.label for each in dangling({"Ref": name})] == ["R"]


def test_what_a_module_makes_has_labels_that_begin_with_its_own() -> None:
    module = {"M": {"Type": "Our::Queues::Two::MODULE"}}
    assert dangling([{"Ref": "M.Dead"}, {"Ref": "MDead"}, {"Ref": "X"}], Resources=module) == [Dangling("R", "X")]


def test_those_of_nested_stacks_have_its_label(tmp_path: Path) -> None:
    child = {"Resources": {"C": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "X"}}}}}
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "child.json"}}
    (tmp_path / "child.json").write_text(json.dumps(child))
    (tmp_path / "parent.json").write_text(json.dumps({"Resources": {"N": nested}}))
    assert list(read_template(tmp_path / "parent.json", {}).dangling) == [Dangling("N.C", "X")]


@pytest.mark.parametrize("form", ["cloudformation", "sam"])
@pytest.mark.parametrize("name", MODULES)
def test_no_template_that_is_written_refers_to_nothing(name: str, form: str) -> None:
    assert list(resources_of("t.json", json.loads(text_of(name, form)), {}).dangling) == []


def test_the_doctor_takes_it_for_an_error() -> None:
    def break_it(template: Any) -> None:
        template["Resources"]["PaymentsQueue"]["Properties"]["QueueName"] = {"Ref": "Paymens"}

    found = found_in("take_payment", change=break_it)
    assert ("reference-dangling", "error", "PaymentsQueue") in found

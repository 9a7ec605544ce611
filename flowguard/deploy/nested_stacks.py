"""The templates of a deployment that is too large for one: a parent with a nested stack for each flow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Deployment, Role
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stack_parts import BASE, Json, Parts, Reference, is_by_name, references
from flowguard.deploy.template import TAG

PARENT: Final = "template"
MOST_PARAMETERS: Final = 200
"""Of a template, and as many outputs."""

BY_ITSELF: Final = "deploy some flows, MODULE:FLOW each, by a template of their own"
"""What helps where a stack of a flow is too large."""

_FOR_LINTERS: Final = {"cfn-lint": {"config": {"ignore_checks": ["W3002"]}}}
"""Lets cfn-lint take the files beside a template as places of nested ones."""

_OUTPUTS: Final = "Outputs."

_NAMED_FOR_THEM: Final = ("-dead-letters", "-dead-letters.fifo", "-undelivered", "-undelivered.fifo")
"""What ends the names of queues that a flow, or a rule of ``@once``, has without being asked for them."""


def split(whole: Json, flows: list[str], queues: Mapping[str, str]) -> dict[str, Json]:
    """Return the templates of the parent and of its nested stacks, by the names of their files.

    ``queues`` are the flows of queues whose tag does not say it (:func:`places_of`). Raises :class:`CannotDeploy` where
    a stack needs more of others than a template may have parameters.
    """
    return _Split(whole, flows, queues).templates()


def places_of(needed: Deployment) -> dict[str, str]:
    """Return the flow of each queue that no function here reads, by its name at AWS.

    Any flow may send to one, or have its dead letters there. One that is named for a flow is that flow's. Others are in
    the base, whichever flows use them: a flow that is added moves none of them.
    """
    named_for = {
        needed.at_aws.queue(f"{name}{end}"): needed.at_aws.by_rule(name)
        for name in needed.names
        for end in _NAMED_FOR_THEM
    }
    unread = [queue for queue in needed.queues if queue.role in (Role.DEAD_LETTERS, Role.OUTSIDE)]
    return {queue.name: named_for.get(queue.name, BASE) for queue in unread}


class _Split:
    def __init__(self, whole: Json, flows: list[str], queues: Mapping[str, str]) -> None:
        self._whole = whole
        self._resources: Mapping[str, Json] = whole["Resources"]
        self._parts = Parts(self._resources, TAG, flows, queues)
        self._ids = LogicalIds()
        self._outputs: dict[str, Json] = {}

    def templates(self) -> dict[str, Json]:
        parts = self._parts.all()
        made = {name: self._part(name, resources) for name, resources in parts.items()}
        written = {name: self._telling(name, template) for name, template in made.items()}
        return {PARENT: self._parent(written), **{file_of(name): template for name, template in written.items()}}

    def _telling(self, name: str, template: Json) -> Json:
        """Return the template of a part with its outputs."""
        outputs = self._outputs_of(name)
        telling = {**template, **({"Outputs": outputs} if outputs else {})}
        for what in ("Parameters", "Outputs"):
            if (count := len(telling.get(what, {}))) > MOST_PARAMETERS:
                problem = f"it has {count} {what.lower()}, and CloudFormation takes {MOST_PARAMETERS}; {BY_ITSELF}"
                raise CannotDeploy(f"the stack {name}", (problem,))
        return telling

    def _part(self, name: str, resources: Mapping[str, Json]) -> Json:
        """Return a template whose references to other parts are parameters."""
        taken: dict[str, Json] = {}
        made = {label: self._resource(label, name, taken) for label, resource in resources.items()}
        named = {each.label for each in references(made)}
        conditions = {
            key: value for key, value in self._whole.get("Conditions", {}).items() if key in {*_conditions(made)}
        }
        named |= {each.label for each in references(conditions)}
        parameters = {key: value for key, value in self._whole["Parameters"].items() if key in named} | taken
        return {
            "AWSTemplateFormatVersion": self._whole["AWSTemplateFormatVersion"],
            "Description": f"{name}: a nested stack, made by flowguard iac",
            **({"Parameters": parameters} if parameters else {}),
            **({"Conditions": conditions} if conditions else {}),
            "Resources": made,
        }

    def _resource(self, label: str, name: str, taken: dict[str, Json]) -> Json:
        resource = self._resources[label]
        made = {**resource, "Properties": self._placed(resource["Properties"], label, name, taken)}
        if "DependsOn" in made:
            made["DependsOn"] = [other for other in made["DependsOn"] if self._parts[other] == name]
            if not made["DependsOn"]:
                del made["DependsOn"]
        return made

    def _placed(self, value: Any, label: str, name: str, taken: dict[str, Json]) -> Any:
        """Return a value of a part. What is in another part is a parameter, or goes by its name."""
        [reference, *_] = [*references(value)] if _is_reference(value) else [None]
        if reference is not None and reference.label in self._resources and self._parts[reference.label] != name:
            return self._elsewhere(reference, label, taken)
        if isinstance(value, dict):
            return {key: self._placed(each, label, name, taken) for key, each in value.items()}
        return [self._placed(each, label, name, taken) for each in value] if isinstance(value, list) else value

    def _elsewhere(self, reference: Reference, label: str, taken: dict[str, Json]) -> Json:
        resource = self._resources[reference.label]
        if is_by_name(self._resources, label, reference):
            queue = resource["Properties"]["QueueName"]
            return {"Fn::Sub": f"arn:${{AWS::Partition}}:sqs:${{AWS::Region}}:${{AWS::AccountId}}:{queue}"}
        parameter = f"{reference.label}{reference.attribute}"
        about = f"{reference.attribute or 'Ref'} of {reference.label}, which another nested stack makes."
        taken[parameter] = {"Type": "String", "Description": about}
        value = {"Fn::GetAtt": [*reference]} if reference.attribute else {"Ref": reference.label}
        self._outputs[parameter] = {"Value": value}
        return {"Ref": parameter}

    def _outputs_of(self, name: str) -> dict[str, Json]:
        """Return what a part tells the others and the parent."""
        told = {**self._outputs, **self._whole.get("Outputs", {})}
        return {key: output for key, output in told.items() if self._maker(output) == name}

    def _maker(self, output: Json) -> str:
        [reference] = references(output["Value"])
        return self._parts[reference.label]

    # -- the parent

    def _parent(self, written: Mapping[str, Json]) -> Json:
        needed = self._parts.needed()
        stacks = {self._stack(name): self._nested(name, template, needed[name]) for name, template in written.items()}
        outputs = {
            key: {**output, "Value": self._told(key, output)}
            for key, output in self._whole.get("Outputs", {}).items()
            if "Export" not in output  # the nested stack itself exports it
        }
        return {
            **{key: value for key, value in self._whole.items() if key not in ("Conditions", "Resources", "Outputs")},
            "Metadata": _FOR_LINTERS,
            "Resources": stacks,
            **({"Outputs": outputs} if outputs else {}),
        }

    def _nested(self, name: str, template: Json, needed: set[str]) -> Json:
        given = {
            key: self._told(key, self._outputs[key]) if key in self._outputs else {"Ref": key}
            for key in template.get("Parameters", {})
        }
        makers = {self._maker(self._outputs[key]) for key in given if key in self._outputs}
        after = sorted(self._stack(other) for other in needed - makers)
        return {
            "Type": "AWS::CloudFormation::Stack",
            **({"DependsOn": after} if after else {}),
            "Properties": {
                "TemplateURL": f"{file_of(name)}.json",
                **({"Parameters": given} if given else {}),
            },
        }

    def _stack(self, name: str) -> str:
        return self._ids.camel("Stack", name)

    def _told(self, key: str, output: Json) -> Json:
        return {"Fn::GetAtt": [self._stack(self._maker(output)), f"{_OUTPUTS}{key}"]}


def file_of(name: str) -> str:
    """Return the name of a part's file, without its ending."""
    return f"stack-{re.sub('[^A-Za-z0-9_.-]', '-', name)}"


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("Ref", "Fn::GetAtt")


def _conditions(value: Any) -> Iterator[str]:
    """Yield the conditions that a value asks."""
    match value:
        case {"Fn::If": [str(name), *_]}:
            yield name
        case dict():
            for each in value.values():
                yield from _conditions(each)
        case list():
            for each in value:
                yield from _conditions(each)
        case _:
            pass

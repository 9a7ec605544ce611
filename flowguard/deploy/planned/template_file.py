"""A reader of CloudFormation's templates, in JSON or YAML, also of SAM's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from flowguard.deploy.planned.intrinsics import Beside, Intrinsics, Nested
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import Resources
from flowguard.deploy.planned.sam_functions import without_sam

_LOOP: Final = {"Type": "AWS::CloudFormation::Stack", "Properties": {}}
"""What a loop of a template is taken for: it may make any resources, as a stack whose template is elsewhere."""


def read_template(file: Path, parameters: Mapping[str, str]) -> Resources:
    """Read the resources of a template file. ``parameters`` gives values. Raises :class:`NotReadable`.

    Those of nested stacks are among them, whose templates are files beside it.
    """
    return resources_of(str(file), _parsed(file), parameters, _beside(file))


def resources_of(file: str, template: Any, parameters: Mapping[str, str], beside: Beside = lambda _: None) -> Resources:
    """Return the resources of a template. Parameters that are not given have their defaults."""
    given = _whole(file, template)
    if unknown := sorted(name for name in parameters.keys() - given["Parameters"] if ":" not in name):
        raise NotReadable(file, f"it has no parameter {', '.join(unknown)}")
    try:
        whole = Intrinsics(given, parameters, beside)
        return Resources(file, [*whole.resources()], tuple(whole.dangling()), get_tags=True)
    except RecursionError:
        raise NotReadable(file, "it is nested too deeply") from None


def _beside(*files: Path) -> Beside:
    """Return what reads the nested templates beside the last of some files, each of which nests the next one."""

    def read(url: str) -> Nested | None:
        file = files[-1].parent / url
        if ":" in url:
            return None
        if not file.is_file():
            raise NotReadable(str(file), f"{files[-1]} nests it, and there is no such file")
        if file.resolve() in [outer.resolve() for outer in files]:
            raise NotReadable(str(file), "it nests itself")
        return _whole(str(file), _parsed(file)), _beside(*files, file)

    return read


def _whole(file: str, template: Any) -> Mapping[str, Any]:
    """Return a template in which each resource has properties, and those of SAM are what SAM makes of them."""
    if not isinstance(template, dict) or not isinstance(template.get("Resources"), dict):
        raise NotReadable(file, "it is no template: it has no mapping Resources")
    sections = {name: _section(file, template, name) for name in ("Conditions", "Mappings", "Outputs", "Parameters")}
    made = {str(label): _resource(file, str(label), it) for label, it in template["Resources"].items()}
    of_transforms = {"Transform": template.get("Transform", [])}
    return {**sections, **of_transforms, "Resources": without_sam(made, template.get("Globals"))}


def _resource(file: str, label: str, resource: Any) -> dict[str, Any]:
    if label.startswith("Fn::"):
        return _LOOP
    properties = resource.get("Properties") if isinstance(resource, dict) else "none"
    if properties is not None and not isinstance(properties, dict):
        raise NotReadable(file, f"Resources.{label} is no resource: it has no mapping Properties")
    return {**resource, "Properties": {} if properties is None else properties}


def _section(file: str, template: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = template.get(name)
    if section is not None and not isinstance(section, dict):
        raise NotReadable(file, f"{name} is no mapping")
    return {} if section is None else section


def _parsed(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotReadable(str(file), f"it cannot be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _of_yaml(file, text)


def _of_yaml(file: Path, text: str) -> Any:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise NotReadable(str(file), "it is not JSON; to read YAML: pip install PyYAML") from None
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": _without_times(resolvers)})
    loader.add_multi_constructor("!", _short)
    try:
        return yaml.load(text, loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotReadable(str(file), f"it is neither JSON nor YAML: {error}") from None


def _without_times(resolvers: Mapping[Any, list[tuple[str, Any]]]) -> dict[Any, list[tuple[str, Any]]]:
    """Return what tells YAML's types, so that a date stays a text, as in JSON."""
    return {first: [pair for pair in pairs if not pair[0].endswith(":timestamp")] for first, pairs in resolvers.items()}


def _short(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    """Return the long form of a function. Those but ``!Ref`` and ``!Condition`` begin with ``Fn::``."""
    kind = type(node).__name__
    if kind == "ScalarNode":
        value: Any = loader.construct_scalar(node)
    elif kind == "SequenceNode":
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}

"""Tags, as CloudFormation has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from flowguard.deploy.planned.values import is_known


def as_list(tags: Any) -> Any:
    """Return tags as a list of keys and values. SAM and Terraform have a mapping."""
    return [{"Key": name, "Value": value} for name, value in tags.items()] if isinstance(tags, dict) else tags


def lacks(properties: Mapping[str, Any], key: str, values: Collection[str]) -> bool:
    """Answer whether a resource has no tag of that key with one of these values. It may have what is not known."""
    tags = as_list(properties.get("Tags", []))
    return is_known(tags) and not any(each.get("Key") == key and each.get("Value") in values for each in tags)

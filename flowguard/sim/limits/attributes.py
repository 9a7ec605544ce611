"""The names, types and values of message attributes that SQS and SNS accept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowguard.sim.limits.texts import byte_size, forbidden

LONGEST_NAME: Final = 256

_NAME: Final = re.compile("[A-Za-z0-9_.-]+")
_TYPE: Final = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_RESERVED: Final = ("aws.", "amazon.")


@dataclass(frozen=True, slots=True)
class AttributeProblem:
    """Why an attribute cannot be sent. ``character`` marks a wrong character, for which SQS has a code of its own."""

    what: str
    character: bool = False


def attributes_size(attributes: Mapping[str, Any]) -> int:
    """Return the size of all names, types and values in bytes."""
    return sum(
        byte_size(name) + byte_size(attribute["DataType"]) + byte_size(_value(attribute))
        for name, attribute in attributes.items()
    )


def problem_of(attributes: Mapping[str, Any]) -> AttributeProblem | None:
    """Return what is wrong with the first attribute that cannot be sent. None where all can."""
    for name, attribute in attributes.items():
        problem = _name_problem(name) or _value_problem(name, attribute)
        if problem is not None:
            return problem
    return None


def _name_problem(name: str) -> AttributeProblem | None:
    if not 0 < len(name) <= LONGEST_NAME:
        return AttributeProblem(f"A message attribute's name has 1 to {LONGEST_NAME} characters.")
    if not _NAME.fullmatch(name):
        return AttributeProblem(
            "A message attribute's name has letters, digits, underscores, hyphens and periods only."
        )
    if name.startswith(".") or name.endswith(".") or ".." in name:
        return AttributeProblem("A message attribute's name has no period at its ends and no two in succession.")
    if name.lower().startswith(_RESERVED):
        return AttributeProblem("A message attribute's name does not begin with 'AWS.' or 'Amazon.'.")
    return None


def _value_problem(name: str, attribute: Mapping[str, Any]) -> AttributeProblem | None:
    kind, value = attribute["DataType"], _value(attribute)
    if len(kind) > LONGEST_NAME or not _TYPE.fullmatch(kind):
        return AttributeProblem(f"The type of message attribute '{name}' is not String, Number or Binary.")
    if kind.startswith("Binary") is not isinstance(value, bytes):
        return AttributeProblem(f"The message attribute '{name}' of type '{kind}' must use that type's field.")
    if not value:
        return AttributeProblem(f"The message attribute '{name}' must contain a non-empty value of type '{kind}'.")
    for text in (kind, value):
        if isinstance(text, str) and (character := forbidden(text)):
            return AttributeProblem(
                f"Invalid character '{character}' in the message attribute '{name}'.", character=True
            )
    return None


def _value(attribute: Mapping[str, Any]) -> str | bytes:
    """Return the attribute's content. It is empty where nothing is given."""
    empty: str | bytes = b"" if attribute["DataType"].startswith("Binary") else ""
    binary = attribute.get("BinaryValue")
    if binary is not None:
        return binary.encode() if isinstance(binary, str) else bytes(binary)
    text: str | bytes = attribute.get("StringValue", empty)
    return text

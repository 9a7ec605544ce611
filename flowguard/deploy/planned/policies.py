"""What the policies of a file allow a role."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from flowguard.deploy.planned.resources import HERE, Resource, Resources
from flowguard.deploy.planned.values import UNKNOWN, is_known

_HERE = (HERE.region, HERE.account)


def documents_of(role: Resource, resources: Resources) -> Iterator[Any]:
    """Yield the policies of a role. One that the file does not have is ``UNKNOWN``."""
    policies = role.properties.get("Policies", [])
    yield from [UNKNOWN] if policies is UNKNOWN else [_document(policy) for policy in policies]
    managed = {str(policy.arn): policy for policy in resources.of("AWS::IAM::ManagedPolicy")}
    arns = role.properties.get("ManagedPolicyArns", [])
    for arn in [UNKNOWN] if arns is UNKNOWN else arns:
        yield _document(managed[str(arn)].properties) if str(arn) in managed else UNKNOWN
    for type_ in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
        for policy in resources.of(type_):
            roles = policy.properties.get("Roles", [policy.properties.get("RoleName")])
            if roles is UNKNOWN or UNKNOWN in roles:
                yield UNKNOWN
            elif role.name in roles:
                yield _document(policy.properties)


def _document(policy: Any) -> Any:
    return policy.get("PolicyDocument", UNKNOWN) if isinstance(policy, dict) else UNKNOWN


def allowed(documents: list[Any], action: str, resource: str, context: Mapping[str, str]) -> bool | None:
    """Answer whether policies allow an action on a resource. None if they leave it open."""
    answers = [
        (effect, holds)
        for document in documents
        for effect, holds in _statements(document, action, resource, context)
        if holds is not False
    ]
    if ("Deny", True) in answers:
        return False
    is_open = any(holds is None for _, holds in answers)
    if ("Allow", True) in answers:
        return None if ("Deny", None) in answers else True
    return None if is_open else False


def _statements(
    document: Any, action: str, resource: str, context: Mapping[str, str]
) -> Iterator[tuple[str, bool | None]]:
    """Yield the effect of each statement, and whether the request is one of its. None where that is open."""
    statements = document.get("Statement", UNKNOWN) if isinstance(document, dict) else UNKNOWN
    for statement in statements if isinstance(statements, list) else [statements]:
        if not isinstance(statement, dict):
            yield "Allow", None
            continue
        parts = (
            _names(statement, "Action", action),
            _names(statement, "Resource", resource),
            _condition(statement, context),
        )
        holds = False if False in parts else None if None in parts else True
        yield str(statement.get("Effect")), holds


def _names(statement: Mapping[str, Any], part: str, wanted: str) -> bool | None:
    """Answer whether a statement names an action or a resource."""
    negated = f"Not{part}" in statement
    given = statement.get(f"Not{part}" if negated else part, [])
    patterns = given if isinstance(given, list) else [given]
    matched = [_matches(pattern, wanted) for pattern in patterns if isinstance(pattern, str)]
    if True in matched:
        return not negated
    return None if None in matched or not is_known(patterns) else negated


def _matches(pattern: str, wanted: str) -> bool | None:
    """Answer whether a pattern is of what is wanted. None if that depends on where the file is deployed."""
    parts, here = pattern.split(":", 5), wanted.split(":", 5)
    if not (len(parts) == len(here) == 6 and parts[0] == here[0] == "arn"):
        return _glob(pattern.lower()).fullmatch(wanted.lower()) is not None  # IAM reads actions in any case
    fits = [_fits(part, each) for part, each in zip(parts[2:], here[2:], strict=True)]
    return False if False in fits else None if None in fits else True


def _fits(part: str, wanted: str) -> bool | None:
    if wanted in _HERE or _glob(part).fullmatch(wanted):
        return True
    return None if part in _HERE else False


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)


def _condition(statement: Mapping[str, Any], context: Mapping[str, str]) -> bool | None:
    """Answer whether the condition of a statement holds. None where it asks what the context does not have."""
    condition = statement.get("Condition", {})
    if not is_known(condition) or not isinstance(condition, dict):
        return None
    for operator, compared in condition.items():
        for key, given in compared.items() if isinstance(compared, dict) else ():
            values = given if isinstance(given, list) else [given]
            if operator not in ("StringEquals", "StringLike") or key not in context:
                return None
            if context[key] not in _HERE and not any(_glob(str(value)).fullmatch(context[key]) for value in values):
                return None if any(place in str(values) for place in _HERE) else False
    return True

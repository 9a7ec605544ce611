"""What the policies of a file allow a role, and what those of a resource deny it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.planned.managed_policies import of_aws
from flowguard.deploy.planned.resources import Resource, Resources
from flowguard.deploy.planned.statements import Context, holds, names_role, names_service, statements_in
from flowguard.deploy.planned.values import UNKNOWN

_SEND: Final = "sqs:SendMessage"
_NO_SERVICE: Final[Context] = {
    "aws:PrincipalIsAWSService": "false",
    "aws:SecureTransport": "true",
    "aws:SourceAccount": None,
    "aws:SourceArn": None,
}
"""The condition keys of a request that a role makes. None stands for one that only requests of services have."""

_OF_SERVICE: Final[Context] = {
    "aws:PrincipalArn": None,
    "aws:PrincipalIsAWSService": "true",
    "aws:SecureTransport": "true",
}
"""Those of a request that a service makes in its own name."""


def documents_of(role: Resource, resources: Resources) -> Iterator[Any]:
    """Yield the policies of a role. One that neither the file nor AWS has is ``UNKNOWN``."""
    policies = role.properties.get("Policies", [])
    yield from [UNKNOWN] if policies is UNKNOWN else [_document(policy) for policy in policies]
    managed = {str(policy.arn): policy for policy in resources.of("AWS::IAM::ManagedPolicy")}
    arns = role.properties.get("ManagedPolicyArns", [])
    for arn in [UNKNOWN] if arns is UNKNOWN else arns:
        yield _document(managed[str(arn)].properties) if str(arn) in managed else of_aws(arn)
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
        (statement.get("Effect"), holds(statement, action, resource, context))
        if isinstance(statement, dict)
        else ("Allow", None)
        for document in documents
        for statement in statements_in(document)
    ]
    return _verdict(answers)


def service_may_send(service: str, source: Any, documents: list[Any], queue: str) -> bool | None:
    """Answer whether the policies of a queue let a service send to it for the topic or rule of the ARN ``source``.

    None if they leave it open.
    """
    known = {} if source is UNKNOWN else {"aws:SourceArn": source, "aws:SourceAccount": source.split(":")[4]}
    return _may(_SEND, documents, lambda each: names_service(each, service), queue, {**_OF_SERVICE, **known})


def role_may(role: str, action: str, documents: list[Any], queue: str) -> bool | None:
    """Answer whether the policies of a queue let a role of another account do that. None if they leave it open."""
    context = {**_NO_SERVICE, "aws:PrincipalArn": role}
    return _may(action, documents, lambda each: names_role(each, role), queue, context)


def _may(
    action: str, documents: list[Any], names: Callable[[Any], bool | None], queue: str, context: Context
) -> bool | None:
    answers = [
        (statement.get("Effect"), _both(names(statement), holds(statement, action, queue, context)))
        if isinstance(statement, dict)
        else ("Allow", None)
        for document in documents
        for statement in statements_in(document)
    ]
    return _verdict(answers)


def _verdict(answers: list[tuple[Any, bool | None]]) -> bool | None:
    """Answer what statements say together. Each has its effect, and whether the request is one of its."""
    if ("Deny", True) in answers:
        return False
    if ("Allow", True) in answers:
        return None if ("Deny", None) in answers else True
    return None if any(answer is None for _, answer in answers) else False


def denied_to(role: str, documents: list[Any], action: str, resource: str) -> bool | None:
    """Answer whether the policies of a resource deny a role an action on it. None if they leave it open."""
    context = {**_NO_SERVICE, "aws:PrincipalArn": role}
    answers = [
        _both(names_role(statement, role), holds(statement, action, resource, context))
        if isinstance(statement, dict)
        else None
        for document in documents
        for statement in statements_in(document)
        if not isinstance(statement, dict) or statement.get("Effect") == "Deny"
    ]
    return True if True in answers else None if None in answers else False


def key_lets_role(policy: Any, role: str, action: str, context: Context) -> str | bool | None:
    """Answer whether the policy of a key lets a role use it.

    ``"account"`` stands for a policy that leaves that to the role's own policies. None if it leaves it open.
    """
    if _lets(policy, lambda statement: names_role(statement, role, with_account=False), action, context):
        return True
    by_account = _lets(policy, lambda statement: names_role(statement, role), action, context)
    return "account" if by_account else by_account


def key_lets_service(policy: Any, service: str, action: str) -> bool | None:
    """Answer whether the policy of a key lets a service use it. None if it leaves it open."""
    return _lets(policy, lambda statement: names_service(statement, service), action, {})


def lets_service(documents: list[Any], service: str, action: str, context: Context) -> bool | None:
    """Answer whether the policies of a resource let a service act on it. None if they leave it open."""
    answers = [_lets(each, lambda statement: names_service(statement, service), action, context) for each in documents]
    return True if True in answers else None if None in answers else False


def _lets(policy: Any, names: Callable[[Any], bool | None], action: str, context: Context) -> bool | None:
    answers = [
        _both(names(statement), holds({**statement, "Resource": "*"}, action, "*", context))
        if isinstance(statement, dict)
        else None
        for statement in statements_in(policy)
        if not isinstance(statement, dict) or statement.get("Effect") == "Allow"
    ]
    return True if True in answers else None if None in answers else False


def _both(first: bool | None, second: bool | None) -> bool | None:
    return False if False in (first, second) else None if None in (first, second) else True

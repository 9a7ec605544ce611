"""What the policies of a file allow a role, and what those of a resource deny it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from flowguard.deploy.planned.managed_policies import of_aws
from flowguard.deploy.planned.parties import OF_SERVICE, Party, principal
from flowguard.deploy.planned.resources import Resource, Resources
from flowguard.deploy.planned.statements import Context, holds, names_role, names_service, not_judged, statements_in
from flowguard.deploy.planned.values import UNKNOWN

_SEND: Final = "sqs:SendMessage"


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


def allowed(documents: list[Any], action: str, resource: str, context: Context) -> bool | None:
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
    of_service = Party(service, lambda each: names_service(each, service), {**OF_SERVICE, **known})
    return may(of_service, _SEND, documents, queue)


def may(party: Party, action: str, documents: list[Any], queue: str) -> bool | None:
    """Answer whether the policies of a queue let somebody of another account do that. None if they leave it open."""
    answers = [
        (statement.get("Effect"), _is_of(party, statement, action, queue))
        if isinstance(statement, dict)
        else ("Allow", None)
        for document in documents
        for statement in statements_in(document)
    ]
    return _verdict(answers)


def doubts(party: Party, action: str, documents: list[Any], queue: str) -> Iterator[str]:
    """Yield the keys of conditions that are not judged, of statements that may allow it."""
    for document in documents:
        for statement in statements_in(document):
            is_open = isinstance(statement, dict) and _is_of(party, statement, action, queue) is None
            if is_open and statement.get("Effect") == "Allow":
                yield from not_judged(statement, party.context)


def _is_of(party: Party, statement: Any, action: str, queue: str) -> bool | None:
    return _both(party.names(statement), holds(statement, action, queue, party.context))


def _verdict(answers: list[tuple[Any, bool | None]]) -> bool | None:
    """Answer what statements say together. Each has its effect, and whether the request is one of its."""
    if ("Deny", True) in answers:
        return False
    if ("Allow", True) in answers:
        return None if ("Deny", None) in answers else True
    return None if any(answer is None for _, answer in answers) else False


def denied_to(role: str, documents: list[Any], action: str, resource: str) -> bool | None:
    """Answer whether the policies of a resource deny a role an action on it. None if they leave it open."""
    party = principal(role)
    answers = [
        _is_of(party, statement, action, resource) if isinstance(statement, dict) else None
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
    answers = [
        (
            statement.get("Effect"),
            _both(names_service(statement, service), holds({**statement, "Resource": "*"}, action, "*", context)),
        )
        if isinstance(statement, dict)
        else ("Allow", None)
        for document in documents
        for statement in statements_in(document)
    ]
    return _verdict(answers)


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

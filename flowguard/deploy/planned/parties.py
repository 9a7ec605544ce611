"""Roles, organisations and services that a queue's policies may let in, with the condition keys of their requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from flowguard.deploy.planned.statements import Context, compared_with, named_principals, names_role, names_service

NOBODY: Final = "of-nobody"
"""A made-up name. A policy that lets it in lets in any account, organisation, topic, bucket or rule."""

OF_ROLE: Final[Context] = {
    "aws:PrincipalIsAWSService": "false",
    "aws:SecureTransport": "true",
    "aws:SourceAccount": None,
    "aws:SourceArn": None,
    "aws:SourceOrgID": None,
}
"""The condition keys of a role's request. It does not have those that are None."""

OF_SERVICE: Final[Context] = {
    "aws:PrincipalAccount": None,
    "aws:PrincipalArn": None,
    "aws:PrincipalIsAWSService": "true",
    "aws:PrincipalOrgID": None,
    "aws:SecureTransport": "true",
}
"""Those of a service's request in its own name."""

SOURCES: Final = {
    "sns.amazonaws.com": "arn:aws:sns:us-east-1:{}:of-nobody",
    "s3.amazonaws.com": "arn:aws:s3:::of-nobody",
    "events.amazonaws.com": "arn:aws:events:us-east-1:{}:rule/of-nobody",
}
"""The services that send to queues, each with a topic, bucket or rule. The ARN of a bucket names no account."""

_ALL_ROLES: Final = f":role/{NOBODY}"
_ANYWHERE: Final = f"arn:aws:iam::{NOBODY}{_ALL_ROLES}"
_ACCOUNT: Final = re.compile("[0-9]{12}")
_WHOLE: Final = re.compile("([^:]*:){5}.+", re.DOTALL)
_SESSION: Final = re.compile("(arn:[^:]*):sts::([^:]*):assumed-role/([^/]*)/.*")


class Party(NamedTuple):
    """Somebody who makes requests, whom a finding calls ``who``.

    ``names`` answers whether the party is one of a statement's principals.
    """

    who: str
    names: Callable[[Any], bool | None]
    context: Context

    @property
    def is_service(self) -> bool:
        """Answer whether the party is a service that acts for something."""
        return self.context["aws:PrincipalArn"] is None

    @property
    def has_account(self) -> bool:
        """Answer whether the party is of an account that policies name."""
        account = self.context["aws:PrincipalAccount"] or self.context["aws:SourceAccount"]
        return account != NOBODY


def everybody() -> Party:
    """Return the party that stands for everybody."""
    return Party("everybody", *_requests_of(_ANYWHERE, {"aws:PrincipalOrgID": NOBODY}))


def organisations(documents: Sequence[Any]) -> list[Party]:
    """Return the organisations that conditions name, each as an account of it that no policy names."""
    named = dict.fromkeys(_texts(compared_with(documents, "aws:PrincipalOrgID")))
    return [Party(f"the organisation {each}", *_requests_of(_ANYWHERE, {"aws:PrincipalOrgID": each})) for each in named]


def principal(arn: str) -> Party:
    """Return the party of an ARN that :func:`principals` returns."""
    return Party(arn.replace(_ALL_ROLES, ":root"), *_requests_of(arn, {}))


def principals(documents: Sequence[Any], home: str) -> list[str]:
    """Return the ARNs of all whom policies name as principals or in conditions, behind that of the account ``home``."""
    keys = ("aws:PrincipalArn", "aws:PrincipalAccount")
    compared = [each for key in keys for each in _texts(compared_with(documents, key))]
    named = (home, *_texts(named_principals(documents)), *compared)
    return list(dict.fromkeys(_arn_of(each) for each in named if _WHOLE.fullmatch(each) or _ACCOUNT.fullmatch(each)))


def is_account(arn: str) -> bool:
    """Answer whether an ARN of :func:`principals` stands for all of an account."""
    return arn.endswith(_ALL_ROLES)


def is_one_of(arn: str, roles: Collection[str]) -> bool:
    """Answer whether an ARN is that of one of these roles, or of a session of it. A session does not say the path."""
    session = _SESSION.fullmatch(arn)
    return arn in roles if session is None else _role_of(arn) in map(_without_path, roles)


def sources(service: str, documents: Sequence[Any]) -> Iterator[tuple[str, str, Party]]:
    """Yield the parties for which a service may send: any account, then each that conditions name.

    Each has its account or organisation, and its ARN in a condition. Buckets have no account in theirs.
    """
    form = SOURCES[service]
    yield NOBODY, "", _of_service(service, "what is of any account", form.format(NOBODY), NOBODY)
    for arn in _texts(compared_with(documents, "aws:SourceArn")):
        parts = arn.split(":", 5)
        if len(parts) == 6 and parts[2] == form.split(":")[2] and "{}" in form:
            account = parts[4]
            is_any = account == "*"
            parts[4] = NOBODY if is_any else account
            who = f"{arn}, of any account" if is_any else arn
            yield parts[4], arn, _of_service(service, who, ":".join(parts), parts[4])
    for account in _texts(compared_with(documents, "aws:SourceAccount")):
        yield account, "", _of_service(service, f"what is of the account {account}", form.format(account), account)
    for each in _texts(compared_with(documents, "aws:SourceOrgID")):
        who = f"what is of the organisation {each}"
        yield each, "", _of_service(service, who, form.format(NOBODY), NOBODY, each)


def _of_service(service: str, source: str, arn: str, account: str, organisation: str = NOBODY) -> Party:
    keys = {"aws:SourceArn": arn, "aws:SourceAccount": account, "aws:SourceOrgID": organisation}
    return Party(f"{service} for {source}", partial(_names_service, service=service), {**OF_SERVICE, **keys})


def _names_service(statement: Any, service: str) -> bool | None:
    """Answer whether a service is one of a statement's principals. Here everybody is the services too."""
    return True if "*" in named_principals([{"Statement": statement}]) else names_service(statement, service)


def _requests_of(arn: str, more: Context) -> tuple[Callable[[Any], bool | None], Context]:
    role = _role_of(arn)
    keys = {"aws:PrincipalArn": role, "aws:PrincipalAccount": role.split(":")[4]}
    return partial(names_role, role=arn), {**OF_ROLE, **keys, **more}


def _role_of(arn: str) -> str:
    """Return the ``aws:PrincipalArn`` of a principal: of a session it is the role's."""
    session = _SESSION.fullmatch(arn)
    return arn if session is None else f"{session[1]}:iam::{session[2]}:role/{session[3]}"


def _without_path(role: str) -> str:
    return f"{role.partition(':role/')[0]}:role/{role.rpartition('/')[2]}"


def _arn_of(principal: str) -> str:
    """Return the ARN of a principal. Of an account it is that of a role which no policy names."""
    whole = f"arn:aws:iam::{principal}:root" if _ACCOUNT.fullmatch(principal) else principal
    return whole.replace(":root", _ALL_ROLES)


def _texts(values: Iterator[Any]) -> Iterator[str]:
    return (each for each in values if isinstance(each, str))

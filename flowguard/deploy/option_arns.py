"""The ARNs that options name: all are of one partition, and some of the account that is deployed to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from flowguard.deploy.imports import NOBODY
from flowguard.deploy.queue_arns import partition_of

_ARN: Final = re.compile("(?:ssm:|secretsmanager:)?arn:([a-z0-9-]+):[a-z0-9-]+:([a-z0-9-]*):([0-9]*|aws):.+")
_OF_USERS: Final = frozenset({"environment", "tags"})
"""The options whose texts are the users' own."""

APART: Final = "no call goes from one to another"
_IN_REGION: Final = "functions make schedules in their region"
_POLICY: Final = "IAM attaches policies of the role's own account, and those of AWS"
_OWN: Final = {
    "role": "Lambda takes a role of its own account alone",
    "scheduler_role": "EventBridge Scheduler takes a role of its own account alone",
    "scheduler_group": "functions make schedules in their own account",
    "permissions_boundary": _POLICY,
    "policies": _POLICY,
    "database_users": "IAM lets roles connect to databases of their own account alone",
    "code_signing": "Lambda takes a configuration of its own account alone",
}
"""The options that name something of the account that is deployed to, and why it is of no other."""


class _Named(NamedTuple):
    """An ARN in the options. Its region and its account are empty where it says none, or the account of AWS."""

    place: tuple[str, ...]
    partition: str
    region: str
    account: str

    def __str__(self) -> str:
        return ".".join(self.place)


def arn_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the ARNs in options that a file gives."""
    named = [*named_arns(given)]
    yield from _partition_problems(named, given.get("region"))
    yield from _account_problems(named, given.get("account"))


def named_arns(given: Mapping[str, Any]) -> Iterator[_Named]:
    """Yield the ARNs in options, but those that stand for what other stacks export."""
    yield from _named(given, ())


def _partition_problems(named: Sequence[_Named], region: str | None) -> Iterator[str]:
    """Yield what is of another partition than the region that is deployed to. Without ``region`` the first says it."""
    for each in named:
        wanted = named[0].partition if region is None else partition_of(region)
        if each.region and (right := partition_of(each.region)) != each.partition:
            yield f"{each} has the partition {each.partition}, and its region {each.region} is of {right}"
        elif each.partition != wanted:
            other = named[0] if region is None else "region"
            yield f"{each} is of the partition {each.partition}, and {other} of {wanted}: {APART}"
        elif each.place[-1] == "scheduler_group" and region not in (None, each.region):
            yield f"{each} is of {each.region}, and it is deployed to {region}: {_IN_REGION}"


def _account_problems(named: Sequence[_Named], account: str | None) -> Iterator[str]:
    """Yield what must be of the account that is deployed to, and is not. Without ``account`` the first says it."""
    bound = [each for each in named if each.account and each.place[-1] in _OWN]
    for each in bound:
        if each.account != (account or bound[0].account):
            wanted = f"it is deployed to {account}" if account else f"{bound[0]} of {bound[0].account}"
            yield f"{each} is of the account {each.account}, and {wanted}: {_OWN[each.place[-1]]}"


def _named(value: Any, place: tuple[str, ...]) -> Iterator[_Named]:
    match value:
        case dict():
            for key, each in value.items():
                yield from () if key in _OF_USERS else _named(each, (*place, key))
        case list():
            for each in value:
                yield from _named(each, place)
        case str() if (arn := _ARN.fullmatch(value)) is not None and arn[3] != NOBODY:
            yield _Named(place, arn[1], arn[2], arn[3].removeprefix("aws"))

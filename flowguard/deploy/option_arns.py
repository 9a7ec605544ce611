"""The ARNs that options name: whose account they are of, where AWS takes none of another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from flowguard.deploy.imports import NOBODY

_ARN: Final = re.compile("(?:ssm:|secretsmanager:)?arn:[a-z0-9-]+:[a-z0-9-]+:[a-z0-9-]*:([0-9]*|aws):.+")
_OF_USERS: Final = frozenset({"environment", "tags"})
"""The options whose texts are the users' own."""

_POLICY: Final = "IAM attaches policies of the role's own account, and those of AWS"
_OWN: Final = {
    "role": "Lambda takes a role of its own account alone",
    "scheduler_role": "EventBridge Scheduler takes a role of its own account alone",
    "scheduler_group": "functions make schedules in their own account",
    "permissions_boundary": _POLICY,
    "policies": _POLICY,
    "code_signing": "Lambda takes a configuration of its own account alone",
}
"""The options that name something of the account that is deployed to, and why it is of no other."""


class _Named(NamedTuple):
    """An ARN in the options. Its account is empty where it says none, or AWS."""

    place: tuple[str, ...]
    account: str

    def __str__(self) -> str:
        return ".".join(self.place)


def arn_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the ARNs in options that a file gives."""
    named = [*_named(given, ())]
    yield from _account_problems(named, given.get("account"))


def _account_problems(named: Iterable[_Named], account: str | None) -> Iterator[str]:
    """Yield what must be of the account that is deployed to, and is not. Without ``account`` the first says it."""
    bound = [each for each in named if each.account and each.place[-1] in _OWN]
    for each in bound:
        if each.account != (account or bound[0].account):
            wanted = f"it is deployed to {account}" if account else f"{bound[0]} of {bound[0].account}"
            yield f"{each} is of the account {each.account}, and {wanted}: {_OWN[each.place[-1]]}"


def _named(value: Any, place: tuple[str, ...]) -> Iterator[_Named]:
    """Yield the ARNs in a value, but those that stand for what other stacks export."""
    match value:
        case dict():
            for key, each in value.items():
                yield from () if key in _OF_USERS else _named(each, (*place, key))
        case list():
            for each in value:
                yield from _named(each, place)
        case str() if (arn := _ARN.fullmatch(value)) is not None and arn[1] != NOBODY:
            yield _Named(place, "" if arn[1] == "aws" else arn[1])

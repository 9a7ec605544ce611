"""The requests that a statement of a policy is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.planned.values import UNKNOWN, is_known

Context = Mapping[str, str | None]
"""The condition keys of a request. It does not have those that are None."""

_HERE: Final = (HERE.region, HERE.account)
_ADDRESS: Final = re.compile("(Not)?IpAddress(?:IfExists)?")
_ANY_ADDRESS: Final = frozenset({"0.0.0.0/0", "::/0"})
"""The ranges that have every address, of one of the two forms."""

_OPERATOR: Final = re.compile(r"(?:(String|Arn)(Not)?(Equals|Like)|Bool)(IfExists)?")


def statements_in(document: Any) -> list[Any]:
    """Return the statements of a policy. One that is open is ``UNKNOWN``."""
    statements = document.get("Statement", UNKNOWN) if isinstance(document, dict) else UNKNOWN
    return _list(statements)


def holds(statement: Mapping[str, Any], action: str, resource: str, context: Context) -> bool | None:
    """Answer whether a request is one of a statement's. None if the statement leaves it open."""
    parts = (
        _names(statement, "Action", action.lower()),
        _names(statement, "Resource", resource),
        _condition(statement, context),
    )
    return False if False in parts else None if None in parts else True


def names_role(statement: Mapping[str, Any], role: str, *, with_account: bool = True) -> bool | None:
    """Answer whether a role, or its account, is among the principals of a statement. None if it leaves that open."""
    account = role.split(":")[4]
    wanted = (account, f"arn:aws:iam::{account}:root", role) if with_account else (role,)
    if "NotPrincipal" in statement and statement.get("Effect") == "Allow":
        left_out = _any(
            _matches(name, each) for name in _principals(statement, "AWS", "NotPrincipal") for each in wanted
        )
        return None if left_out is None else not left_out
    return _any(_matches(name, each) for name in _principals(statement, "AWS") for each in wanted)


def named_principals(documents: Iterable[Any]) -> Iterator[Any]:
    """Yield the AWS principals of the statements."""
    for statement in _known_statements(documents):
        yield from _principals(statement, "AWS")


def compared_with(documents: Iterable[Any], key: str) -> Iterator[Any]:
    """Yield the values of a key in the conditions of policies."""
    for statement in _known_statements(documents):
        for _, name, given in _comparisons(statement):
            if str(name).lower() == key.lower():
                yield from _list(given)


def not_judged(statement: Mapping[str, Any], context: Context) -> Iterator[str]:
    """Yield the keys of a statement's conditions that are not judged."""
    for operator, key, given in _comparisons(statement):
        if is_known(given) and _compared(operator, key, given, context) is None:
            yield str(key)


def names_service(statement: Mapping[str, Any], service: str) -> bool | None:
    """Answer whether a service is among the principals of a statement. None if it leaves that open.

    Whether all of AWS are services too, each service decides, but for what is denied to all.
    """
    denies = statement.get("Effect") == "Deny"
    if "NotPrincipal" in statement and denies:
        left_out = _any(_matches(name, service) for name in _principals(statement, "Service", "NotPrincipal"))
        return None if left_out is None else not left_out
    named = [_matches(name, service) for name in _principals(statement, "Service")]
    return _any([*named, *(True if denies else None for name in _principals(statement, "AWS") if name == "*")])


def others_trusted(document: Any, service: str, actions: Iterable[str]) -> Iterator[str]:
    """Yield whom a trust policy allows one of the actions, beside a service. An action that is open may be one."""
    lowered = [action.lower() for action in actions]
    for statement in _known_statements([document]):
        named = _any(_names(statement, "Action", each) for each in lowered)
        if statement.get("Effect") != "Allow" or named is False:
            continue
        yield from (
            str(each) for kind, each in _parties(statement, "Principal") if (kind, each) != ("Service", service)
        )
        if "NotPrincipal" in statement:
            left_out = sorted(str(each) for _, each in _parties(statement, "NotPrincipal"))
            yield f"everybody but {', '.join(left_out) or 'some'}"


def _parties(statement: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any]]:
    """Yield the known principals of a statement, each with its kind."""
    named = statement.get(part, UNKNOWN)
    for kind, given in named.items() if isinstance(named, dict) else [("", named)]:
        yield from ((kind, each) for each in _list(given) if is_known(each))


def _known_statements(documents: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    return (each for document in documents for each in statements_in(document) if isinstance(each, dict))


def _principals(statement: Mapping[str, Any], kind: str, part: str = "Principal") -> list[Any]:
    principal = statement.get(part, UNKNOWN)
    return _list(principal.get(kind, []) if isinstance(principal, dict) else principal)


def _names(statement: Mapping[str, Any], part: str, wanted: str) -> bool | None:
    """Answer whether a statement names an action or a resource."""
    is_negated = f"Not{part}" in statement
    given = statement.get(f"Not{part}" if is_negated else part, [])
    lower = [each.lower() if part == "Action" and isinstance(each, str) else each for each in _list(given)]
    answer = _any(_matches(pattern, wanted) for pattern in lower)
    return not answer if is_negated and answer is not None else answer


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _any(answers: Iterable[bool | None]) -> bool | None:
    given = [*answers]
    return True if True in given else None if None in given else False


def _matches(pattern: Any, wanted: str) -> bool | None:
    """Answer whether a pattern is of what is wanted. None if that depends on where the file is deployed."""
    if not isinstance(pattern, str):
        return None
    parts, here = pattern.split(":", 5), wanted.split(":", 5)
    if parts[0] != "arn":
        return _fits(pattern, wanted)
    if len(parts) != len(here):
        return _glob(pattern).fullmatch(wanted) is not None
    fits = [_fits(part, each) for part, each in zip(parts[2:], here[2:], strict=True)]
    return False if False in fits else None if None in fits else True


def _fits(part: str, wanted: str) -> bool | None:
    if wanted in _HERE or _glob(part).fullmatch(wanted):
        return True
    return None if any(place in part for place in _HERE) else False


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)


def _condition(statement: Mapping[str, Any], context: Context) -> bool | None:
    """Answer whether the condition of a statement holds. None where it asks what is not known of the request."""
    answers = [_compared(operator, key, given, context) for operator, key, given in _comparisons(statement)]
    return False if False in answers else None if None in answers else True


def _comparisons(statement: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each operator of a statement's condition with a key and its values."""
    condition = statement.get("Condition", {})
    for operator, keys in (condition if isinstance(condition, dict) else {UNKNOWN: UNKNOWN}).items():
        for key, given in (keys if isinstance(keys, dict) else {UNKNOWN: UNKNOWN}).items():
            yield operator, key, given


def _compared(operator: Any, key: Any, given: Any, context: Context) -> bool | None:
    if (addresses := _ADDRESS.fullmatch(str(operator))) is not None:
        return (addresses[1] is None) if _ANY_ADDRESS.intersection(map(str, _list(given))) else None
    match, known = _OPERATOR.fullmatch(str(operator)), {name.lower(): wanted for name, wanted in context.items()}
    if match is None or (name := str(key).lower()) not in known:
        return None
    is_negated = match[2] is not None
    if (wanted := known[name]) is None:
        return is_negated or match[4] is not None
    values = [str(value).lower() if isinstance(value, bool) else value for value in _list(given)]
    is_exact = match[1] == "String" and match[3] == "Equals"
    answer = _any(_equals(value, wanted) if is_exact else _matches(value, wanted) for value in values)
    return not answer if is_negated and answer is not None else answer


def _equals(value: Any, wanted: str) -> bool | None:
    """Answer whether a text is the same, wherever the file is deployed."""
    if wanted.startswith("arn:") and is_known(value) and not {"*", "?"} & {*str(value)}:
        return _matches(value, wanted)
    if not is_known(value) or any(place in str(value) for place in _HERE):
        return True if value == wanted else None
    return wanted in _HERE or value == wanted

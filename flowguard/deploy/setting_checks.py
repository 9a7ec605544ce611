"""Checks of what the variables of live functions name: tables and queues at AWS, and where keys are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.account import known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import FunctionNeed
from flowguard.deploy.options import NAMES
from flowguard.names.at_aws import Names
from flowguard.settings import Settings
from flowguard.text.setting_problems import KEYS

_TABLE: Final = "FLOWGUARD_TABLE"
_KEYS: Final = ("FLOWGUARD_SIGNING_KEYS", "FLOWGUARD_TOKEN_KEYS")


def check_settings(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    """Yield the variables of a function that name another deployment."""
    yield from known(
        _table(function, deployed),
        _names(function, deployed),
        *(_keys(function, deployed, variable) for variable in _KEYS),
    )


def _variable(deployed: Mapping[str, Any], name: str) -> str | None:
    """Return a variable of a function as text. A file may have a number."""
    value = deployed.get("Environment", {}).get("Variables", {}).get(name)
    return None if value is None else str(value)


def _wanted_names(function: FunctionNeed) -> Names:
    return Names.parse(dict(function.environment).get(NAMES, "*"))


def _table(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    given, wanted = _variable(deployed, NAMES), _wanted_names(function)
    table = dict(function.environment)[_TABLE]
    actual = _variable(deployed, _TABLE) or Settings.model_fields["table"].default
    names = _parsed(given)
    at_aws = wanted.table(actual) if isinstance(names, str) else names.table(actual)
    if at_aws != wanted.table(table):
        fix = f'set {_TABLE} to {table!r}, or say [settings] table = "{actual}"'
        yield error(
            "table-other",
            function.name,
            f"its {_TABLE} is {actual!r}" + ("" if at_aws == actual else f", at AWS {at_aws!r}"),
            "functions of one flow that use two run tables do not see each other's runs, nor keys under @once",
            f"let {NAMES} make {wanted.table(table)!r} of it" if actual == table else fix,
        )


def _names(function: FunctionNeed, deployed: Mapping[str, Any]) -> Iterator[LiveFinding]:
    given, wanted = _variable(deployed, NAMES), _wanted_names(function)
    names = _parsed(given)
    if isinstance(names, str):
        problem = f"its {NAMES} {names}"
    elif names.rule != wanted.rule or (given is None and not wanted.are_those_of_the_code):
        problem = f"it has no {NAMES}" if given is None else f"its {NAMES} is {given!r}"
    elif others := sorted(place for place in {**wanted.given, **names.given} if _differ(place, names, function)):
        problem = f"its {NAMES} has other names at AWS for {', '.join(others)}"
    else:
        return
    yield error(
        "names-other",
        function.name,
        problem,
        "it uses the tables, queues and functions of another deployment, or such as are not there",
        f"take {NAMES} away" if wanted.are_those_of_the_code else f"set {NAMES} to {str(wanted)!r}",
    )


def _parsed(text: str | None) -> Names | str:
    """Return the names in a text, or what is wrong with it."""
    try:
        return Names.parse("*" if text is None else text)
    except ValueError as error:
        return str(error)


def _differ(place: str, names: Names, function: FunctionNeed) -> bool:
    """Answer whether a name that is given by itself is another one than the deployment's."""
    name = place.partition(".")[2]
    in_all = function.at_aws
    return names.given.get(place, names.by_rule(name)) != in_all.given.get(place, in_all.by_rule(name))


def _keys(function: FunctionNeed, deployed: Mapping[str, Any], variable: str) -> Iterator[LiveFinding]:
    """Yield the finding about keys in the open, or elsewhere. The keys stay out of it."""
    actual, wanted = _variable(deployed, variable), dict(function.environment).get(variable)
    if actual is None:
        return
    if not re.match(KEYS, actual):
        yield warning(
            "keys-open",
            function.name,
            f"its {variable} has the keys themselves",
            "who may read the function's configuration can sign messages, or make tokens, that flows believe",
            f"set it to {wanted}" if wanted is not None else "store them, and name their secret or parameter",
        )
    elif wanted not in (None, actual) and not (_is_of(actual, str(wanted)) or _is_of(str(wanted), actual)):
        yield error(
            "keys-elsewhere",
            function.name,
            f"its {variable} is {actual}",
            "it does not believe what the other functions sign, nor they what it signs",
            f"set it to {wanted}, or say it in the [settings] of the options",
        )


def _is_of(arn: str, place: str) -> bool:
    """Answer whether keys that are given by an ARN are those in the secret or parameter of that name."""
    kind, _, name = place.partition(":")
    name = re.escape(name.removeprefix("/"))
    resource = f"parameter/{name}" if kind == "ssm" else f"secret:{name}(-[A-Za-z0-9]{{6}})?"
    return re.fullmatch(f"{kind}:arn:[^:]+:{kind}:[^:]+:[^:]+:{resource}", arn) is not None

"""The names that resources have at AWS, where these are not the names in the code.

An account and region can hold several deployments of one flow then: ``FLOWGUARD_NAMES=staging-*`` calls the queue
``orders`` of the code ``staging-orders`` at AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple

RULE: Final = r"[A-Za-z0-9_-]*\*[A-Za-z0-9_-]*"
"""The pattern of a rule: what stands before and after a name, with ``*`` for the name."""

_GIVEN: Final = late_pattern(r"(?P<kind>[a-z]+)\.(?P<name>[^=,\s]+)=(?P<at_aws>[^=,\s]+)")
_FIFO: Final = ".fifo"
_DEFAULT_BUS: Final = "default"


class NameKind(StrEnum):
    """A kind of resource that code names."""

    TABLES = "tables"
    QUEUES = "queues"
    TOPICS = "topics"
    FUNCTIONS = "functions"
    BUSES = "buses"


class Names(NamedTuple):
    """The rule for the names of a deployment, and those ``given`` one by one under ``queues.parcels``.

    A name given by its ARN or URL is the same everywhere. Of a topic, which code names by its ARN, the rule changes the
    last part.
    """

    rule: str = "*"
    given: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def parse(cls, text: str) -> Names:
        """Read a rule with the names given after it, as in ``staging-*,queues.parcels=shared-parcels``.

        Raises ValueError, saying what is wrong, for anything else.
        """
        rule, *others = (part.strip() for part in text.split(","))
        if not re.fullmatch(RULE, rule):
            raise ValueError(
                "does not begin with a rule: one * for the name in the code, with letters, digits, - and _ around it, "
                "as in staging-*"
            )
        given: dict[str, str] = {}
        for part in others:
            read = _GIVEN.fullmatch(part)
            if read is None or read["kind"] not in set(NameKind):
                kinds = ", ".join(NameKind)
                raise ValueError(f"has a part that is not <kind>.<name>=<name at AWS>; kinds are {kinds}")
            given[f"{read['kind']}.{read['name']}"] = read["at_aws"]
        return cls(rule, MappingProxyType(given))

    def __str__(self) -> str:
        return ",".join([self.rule, *(f"{place}={name}" for place, name in sorted(self.given.items()))])

    def with_given(self, kind: NameKind, names: Mapping[str, str]) -> Names:
        """Return these names, with further ones given of a kind."""
        return self._replace(given={**self.given, **{f"{kind}.{name}": at_aws for name, at_aws in names.items()}})

    @property
    def are_those_of_the_code(self) -> bool:
        return self.rule == "*" and not self.given

    def by_rule(self, name: str) -> str:
        """Return a name as the rule has it. ``.fifo`` stays its end."""
        stem = name.removesuffix(_FIFO)
        return self.rule.replace("*", stem) + name[len(stem) :]

    def table(self, name: str) -> str:
        """Return a table's name at AWS, or its ARN."""
        return self._at_aws(NameKind.TABLES, name)

    def queue(self, name: str) -> str:
        """Return a queue's name at AWS, or its ARN or URL."""
        return self._at_aws(NameKind.QUEUES, name)

    def topic(self, arn: str) -> str:
        """Return a topic's ARN at AWS."""
        place, _, name = arn.rpartition(":")
        at_aws = self.given.get(f"{NameKind.TOPICS}.{name}", self.by_rule(name))
        return at_aws if at_aws.startswith("arn:") else f"{place}:{at_aws}"

    def function(self, name: str) -> str:
        """Return a function's name at AWS, or its ARN. An alias behind it stays."""
        bare, colon, alias = name.partition(":")
        if ":" in alias or bare == "function":
            return name  # a part of an ARN
        return self._at_aws(NameKind.FUNCTIONS, bare) + colon + alias

    def bus(self, name: str) -> str:
        """Return a bus's name at AWS, or its ARN. Each account has the bus ``default``."""
        return name if name == _DEFAULT_BUS else self._at_aws(NameKind.BUSES, name)

    def queue_in_code(self, name: str) -> str:
        """Return what the code calls the queue that has this name at AWS.

        Another queue's name is returned as it is, and so are an ARN and a URL, which are the same everywhere.
        """
        if self.are_those_of_the_code or is_exact(name):
            return name
        return _in_code(self, NameKind.QUEUES, name)

    def queue_of_arn(self, arn: str) -> str:
        """Return what the code calls the queue of this ARN. That of another deployment has its account in its name."""
        name = arn.rpartition(":")[2]
        if self.are_those_of_the_code:
            return name
        in_code, exact = _in_code(self, NameKind.QUEUES, name), exact_name(arn)
        at_aws = self.queue(in_code)
        return in_code if at_aws == name or exact_name(at_aws) == exact else str(exact)

    def topic_in_code(self, arn: str) -> str:
        """Return the ARN by which the code names the topic that has this ARN at AWS."""
        if self.are_those_of_the_code:
            return arn
        place, _, name = arn.rpartition(":")
        return f"{place}:{_in_code(self, NameKind.TOPICS, name)}"

    def _at_aws(self, kind: NameKind, name: str) -> str:
        if is_exact(name):
            return name
        return self.given.get(f"{kind}.{name}") or self.by_rule(name)

    def __hash__(self) -> int:
        return hash(str(self))


def rule_of(text: str) -> str:
    """Return the rule in a text of names. An empty text has the rule that changes none."""
    return text.partition(",")[0].strip() or "*"


def is_exact(name: str) -> bool:
    """Answer whether a queue or function is given by its ARN or URL."""
    return name.startswith("arn:") or "://" in name


def is_foreign(queue: str | None) -> bool:
    """Answer whether what :meth:`Names.queue_of_arn` has returned is the name of no queue of this deployment."""
    return queue is not None and ":" in queue


def exact_name(name: str) -> str | None:
    """Return ``account:name`` of a queue given by its ARN or URL. None of one that is given by its name alone."""
    return ":".join(re.split("[:/]", name)[-2:]) if is_exact(name) else None


AS_IN_CODE: Final = Names()
"""The names of a deployment that are those in the code."""


def _in_code(names: Names, kind: NameKind, name: str) -> str:
    for place, at_aws in names.given.items():
        if place.startswith(f"{kind}.") and at_aws.rpartition(":")[2].rpartition("/")[2] == name:
            return place.removeprefix(f"{kind}.")
    before, _, after = names.rule.partition("*")
    stem = name.removesuffix(_FIFO)
    if len(stem) <= len(before) + len(after) or not (stem.startswith(before) and stem.endswith(after)):
        return name
    in_code = stem[len(before) : len(stem) - len(after)] + name[len(stem) :]
    return name if f"{kind}.{in_code}" in names.given else in_code

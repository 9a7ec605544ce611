"""The names of statements that owners paste into policies, which other environments share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_PLAIN: Final = re.compile(r"((?:[a-z][a-z0-9]*-)*)\*((?:-[a-z][a-z0-9]*)*)")
"""The rules whose words alone tell them from each other."""


def of_environment(statements: Iterable[Mapping[str, Any]], rule: str) -> Iterator[Mapping[str, Any]]:
    """Yield statements whose ``Sid`` follows the rule of the names, as ``StagingLogs`` does ``staging-*``.

    IAM takes letters and digits alone there. Rules that differ in signs or capital letters get a digest too.
    """
    before, _, after = rule.partition("*")
    digest = "" if _PLAIN.fullmatch(rule) else hashlib.sha256(rule.encode()).hexdigest()[:8]
    for statement in statements:
        yield {**statement, "Sid": f"{_words(before)}{statement['Sid']}{_words(after)}{digest}"}


def _words(part: str) -> str:
    return "".join(f"{word[0].upper()}{word[1:]}" for word in re.findall("[A-Za-z0-9]+", part))

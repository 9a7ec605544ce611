"""The names of statements that owners paste into policies, which other environments share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def of_environment(statements: Iterable[Mapping[str, Any]], rule: str) -> Iterator[Mapping[str, Any]]:
    """Yield statements whose ``Sid`` follows the rule of the names, as ``StagingLogs`` does ``staging-*``.

    IAM takes letters and digits alone there.
    """
    before, _, after = rule.partition("*")
    for statement in statements:
        yield {**statement, "Sid": f"{_words(before)}{statement['Sid']}{_words(after)}"}


def _words(part: str) -> str:
    return "".join(f"{word[0].upper()}{word[1:]}" for word in re.findall("[A-Za-z0-9]+", part))

"""What the statements of a batch say of run items: read from their text, as DynamoDB reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowguard.sim.calls import ApiCall

STATEMENTS: Final = "BatchExecuteStatement"
RETURNING: Final = " RETURNING ALL OLD *"

_INSERTED: Final = re.compile(r"'([^']+)': \?")
_COMPARED: Final = re.compile(r'"([^"]+)" (=|<>|<=|<|>=|>|\+) \?')
_BY_COMPARISON: Final = {
    ("lease_until", "<="): "now",
    ("lease_until", "<"): "abandoned_before",
    ("lease_until", ">"): "believed_until",
}
"""Conditions on values that are written nowhere, by the names that a single call gives them."""


def statements_of(call: ApiCall) -> Sequence[Mapping[str, Any]]:
    """The statements of the call. None of any other call."""
    found: Sequence[Mapping[str, Any]] = call.params["Statements"] if call.operation == STATEMENTS else ()
    return found


def written(statement: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """What a statement does (claim, commit, release or take), its partition, and the values of the single call."""
    text, parameters = statement["Statement"], statement["Parameters"]
    change, _, condition = text.partition(" WHERE ")
    if names := _INSERTED.findall(text):
        values = dict(zip(names, parameters, strict=True))
        return ("take" if "committed_at" in values else "claim"), *_keyed(values)
    changed, compared = _COMPARED.findall(change), _COMPARED.findall(condition)
    values = {name: value for (name, _), value in zip(changed, parameters, strict=False)}
    counts = ("epoch", "+") in changed
    if counts:
        del values["epoch"]
    for (name, sign), value in zip(compared, parameters[len(changed) :], strict=True):
        values.setdefault(_BY_COMPARISON.get((name, sign), name), value)
    if "committed_at" in values and ("committed_at", "=") in changed:
        return ("take" if "lease_until" in dict(changed) else "commit"), *_keyed(values)
    return ("claim" if counts else "release"), *_keyed(values)


def _keyed(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return values["pk"]["S"], {f":{name}": value for name, value in values.items()}


def showing_what_was_there(statement: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same update, which answers with the item that it found."""
    text = statement["Statement"]
    if not text.startswith("UPDATE") or text.endswith(RETURNING):
        return statement
    return {**statement, "Statement": f"{text}{RETURNING}"}

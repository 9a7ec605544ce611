"""Parsers for the options of ``flowguard explore``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowguard.errors import SettingsError
from flowguard.sim.engine import EngineFor
from flowguard.testing.explorer import Explored, Invariant, in_memory, on_moto
from flowguard.testing.explorer.checks.invariants import is_invariant
from flowguard.testing.explorer.run.explored import modules_of

ENGINES: Final[Mapping[str, EngineFor]] = {"memory": in_memory, "moto": on_moto}


def invariants_of(flows: Iterable[Explored]) -> list[Invariant]:
    """Return the invariants of the flows' modules."""
    return [var for module in modules_of(flows) for var in vars(module).values() if is_invariant(var)]


def free_of(flows: Iterable[Explored], given: Iterable[str]) -> dict[str, list[str]]:
    free: dict[str, list[str]] = {}
    for module in modules_of(flows):
        for table, names in getattr(module, "FREE", {}).items():
            free.setdefault(table, []).extend(names)
    for text in given:
        table, name = pair_in(text, ".", "TABLE.ATTRIBUTE")
        free.setdefault(table, []).append(name)
    return free


def table_in(text: str) -> tuple[str, dict[str, str]]:
    """Parse ``--table NAME=KEY[,KEY]``.

    A key attribute holds strings. ``line:N`` names one that holds numbers, ``line:B`` one that holds bytes.
    """
    table, keys = pair_in(text, "=")
    parts = [key.partition(":") for key in keys.split(",")]
    key_types = {name: kind or "S" for name, _, kind in parts}
    if len(key_types) < len(parts):
        raise SettingsError(text, "names one attribute twice; write NAME=HASH, or NAME=HASH,RANGE")
    return table, key_types


def named_json(option: str) -> Callable[[str], tuple[str, Any]]:
    """Return a parser of ``NAME=JSON`` for this option."""

    def read(text: str) -> tuple[str, Any]:
        name, value = pair_in(text, "=")
        try:
            return name, json.loads(value)
        except (ValueError, RecursionError):
            raise SettingsError(option, f"what stands behind {name}= is no JSON; write NAME=JSON") from None

    return read


def items_in(given: Iterable[str], option: str = "--item") -> dict[str, list[Any]]:
    """Parse the ``--item`` options, such as ``orders={"order_id": "o1"}``. Returns the items by table."""
    items: dict[str, list[Any]] = {}
    for table, item in map(named_json(option), given):
        items.setdefault(table, []).append(item)
    return items


def pair_in(text: str, mark: str, form: str = "") -> tuple[str, str]:
    """Parse a name and a value with a mark between them. ``form`` is how an error says what to write."""
    name, sign, value = text.partition(mark)
    if not (name and sign and value):
        raise SettingsError(text, f"write {form or f'NAME{mark}VALUE'}")
    return name, value


def fields_in(given: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Parse options of a form such as ``TABLE.ATTRIBUTE``. Raises :class:`SettingsError` for one name given twice."""
    fields: dict[str, str] = {}
    for name, value in (pair_in(text, ".", form) for text in given):
        if fields.setdefault(name, value) != value:
            raise SettingsError(option, f"it has two for {name}, {fields[name]} and {value}; give one")
    return fields


def each_once(given: Iterable[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Return what an option gives by name. Raises :class:`SettingsError` for a name that is given twice."""
    several: dict[str, Any] = {}
    for name, value in given:
        if name in several:
            raise SettingsError(option, f"it is given twice for {name}; give it once")
        several[name] = value
    return several


def party_in(text: str) -> tuple[str, Any]:
    """Parse ``--outside HOST`` and ``--outside HOST=JSON``. A host without an answer answers with an empty object."""
    return named_json("--outside")(text) if "=" in text else (text, None)

"""``BatchExecuteStatement`` in memory. It updates and inserts single items.

Each statement is judged and answered on its own. It is read back into the expressions that it was made from, and the
same code judges both. Of PartiQL there is what flowguard says; for anything else a call raises :class:`NotInMemory`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.memory.service import Params
from flowguard.sim.memory.table import Table
from flowguard.sim.memory.writing import PlannedWrite, planned
from flowguard.text.printable import bounded

MOST_STATEMENTS: Final = 25
LONGEST_STATEMENT: Final = 8_192

_TOKEN: Final = re.compile(r"""\s*("[^"]+"|'[^']+'|[A-Za-z_]+|<>|<=|>=|[-+=<>(),.?*{}:])""")
_UPDATE: Final = 'UPDATE "table" SET|REMOVE "path" … WHERE "key" = ? … AND (condition) [RETURNING ALL OLD *]'
_INSERT: Final = "INSERT INTO \"table\" VALUE {'name': ?, …}"
_CODES: Final = {"ValidationException": "ValidationError", "ResourceNotFoundException": "ResourceNotFound"}
_MISMATCH: Final = "Number of parameters in request and statement don't match."
_ENTRY: Final = frozenset({"Statement", "Parameters", "ReturnValuesOnConditionCheckFailure", "ConsistentRead"})


@dataclass(frozen=True, slots=True)
class _Inserted:
    """An insert. ``names`` are its attributes in the order of the parameters."""

    table: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Updated:
    """An update as expressions. ``key`` names the key's attributes by the parameters that give them."""

    table: str
    update: str
    condition: str
    names: Mapping[str, str]
    key: Mapping[str, str]
    values: tuple[str, ...]
    returns: bool


def batch_execute(table: Callable[[Params], Table], params: Params) -> Response:
    """Execute each statement on its own. Only what is wrong with the request as a whole fails as a whole."""
    statements = params["Statements"]
    if not 0 < len(statements) <= MOST_STATEMENTS:
        raise invalid(f"Member must have length less than or equal to {MOST_STATEMENTS}; there are {len(statements)}")
    writes = [_planned(table, statement) for statement in statements]
    keys = [(write.table.name, write.key) for write in writes if isinstance(write, PlannedWrite)]
    if len(set(keys)) < len(keys):
        raise invalid("Provided list of item keys contains duplicates")
    return {"Responses": [_entry(write) if isinstance(write, Fault) else _executed(write) for write in writes]}


def key_of(statement: Params) -> Params | None:
    """Return the key of the item that a statement updates, or all that it inserts. None where it cannot be read."""
    try:
        parsed, parameters = _read(statement["Statement"]), statement.get("Parameters", [])
    except NotInMemory:
        return None
    if isinstance(parsed, _Inserted):
        return dict(zip(parsed.names, parameters, strict=False))
    values = dict(zip(parsed.values, parameters, strict=False))
    return {name: values.get(value) for name, value in parsed.key.items()}


def _entry(fault: Fault) -> Response:
    error = {"Code": _CODES.get(fault.code, fault.code), "Message": fault.message, **fault.more}
    return {"Error": error}


def _planned(table: Callable[[Params], Table], statement: Params) -> PlannedWrite | Fault:
    if unknown := statement.keys() - _ENTRY:
        raise NotInMemory(f"a statement with {', '.join(sorted(unknown))}", _ENTRY, "dynamodb")
    text, parameters = statement["Statement"], statement.get("Parameters", [])
    try:
        if len(text) > LONGEST_STATEMENT:
            raise invalid(f"Member must have length less than or equal to {LONGEST_STATEMENT}")
        parsed = _read(text)
        target = table({"TableName": parsed.table})
        if isinstance(parsed, _Inserted):
            _check_count(parameters, parsed.names)
            return planned("Put", target, {"Item": dict(zip(parsed.names, parameters, strict=True))})
        _check_count(parameters, parsed.values)
        return planned("Update", target, _update_params(parsed, parameters, statement))
    except Fault as fault:
        return fault


def _check_count(parameters: list[Any], wanted: tuple[str, ...]) -> None:
    if len(parameters) != len(wanted):
        raise invalid(_MISMATCH)


def _update_params(parsed: _Updated, parameters: list[Any], statement: Params) -> dict[str, Any]:
    values = dict(zip(parsed.values, parameters, strict=True))
    return {
        "Key": {name: values.pop(value) for name, value in parsed.key.items()},
        "UpdateExpression": parsed.update,
        "ConditionExpression": parsed.condition,
        "ExpressionAttributeNames": parsed.names,
        "ExpressionAttributeValues": values,
        "ReturnValues": "ALL_OLD" if parsed.returns else "NONE",
        "ReturnValuesOnConditionCheckFailure": statement.get("ReturnValuesOnConditionCheckFailure", "NONE"),
    }


def _executed(write: PlannedWrite) -> Response:
    where = {"TableName": write.table.name}
    try:
        write.check_key()
        if write.kind == "Put":
            if write.old is not None:
                raise Fault("DuplicateItem", "Duplicate primary key exists in table")
        elif write.old is None or not write.holds():
            raise Fault("ConditionalCheckFailed", "The conditional request failed", **write.shown_on_failure())
        old, new = write.old, write.new()
    except Fault as fault:
        return {**_entry(fault), **where}
    write.table.store(write.key, new)
    answer = write.answer(old, new)
    return {**({"Item": answer["Attributes"]} if answer else {}), **where}


# -- reading statements


@lru_cache(maxsize=512)
def _read(text: str) -> _Inserted | _Updated:
    return _Statement(text, _tokens(text)).read()


def _tokens(text: str) -> list[str]:
    tokens, place, text = [], 0, text.rstrip()
    while place < len(text):
        if (match := _TOKEN.match(text, place)) is None:
            raise _unknown(text)
        tokens.append(match.group(1))
        place = match.end()
    return tokens


def _unknown(text: str) -> NotInMemory:
    return NotInMemory(f"the PartiQL statement {bounded(text)}", (_UPDATE, _INSERT), "dynamodb")


@dataclass(slots=True)
class _Statement:
    """Reads one statement, token by token."""

    text: str
    tokens: list[str]
    place: int = 0
    names: dict[str, str] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)

    def read(self) -> _Inserted | _Updated:
        if self._takes("INSERT"):
            return self._inserted()
        self._expect("UPDATE")
        return self._updated()

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self.place += 1
        return token

    def _takes(self, *words: str) -> bool:
        tokens = tuple(self.tokens[self.place : self.place + len(words)])
        if tokens != words:
            return False
        self.place += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._takes(*words):
            raise _unknown(self.text)

    def _quoted(self, quote: str) -> str:
        token = self._take()
        if not token.startswith(quote):
            raise _unknown(self.text)
        return token[1:-1]

    def _end(self) -> None:
        if self._next():
            raise _unknown(self.text)

    def _inserted(self) -> _Inserted:
        self._expect("INTO")
        table = self._quoted('"')
        self._expect("VALUE", "{")
        names = [self._entry_name()]
        while self._takes(","):
            names.append(self._entry_name())
        self._expect("}")
        self._end()
        return _Inserted(table, tuple(names))

    def _entry_name(self) -> str:
        name = self._quoted("'")
        self._expect(":", "?")
        return name

    def _updated(self) -> _Updated:
        table, sets, removes = self._quoted('"'), [], []
        while self._next() in ("SET", "REMOVE"):
            if self._take() == "SET":
                path = self._path()
                self._expect("=")
                sets.append(f"{path} = {self._assigned()}")
            else:
                removes.append(self._path())
        self._expect("WHERE")
        key = {}
        while not self._takes("("):
            name = self._quoted('"')
            self._expect("=", "?")
            key[name] = self._given()
            self._expect("AND")
        condition = self._condition()
        returns = self._takes("RETURNING", "ALL", "OLD", "*")
        self._end()
        update = (f"SET {', '.join(sets)}" if sets else "") + (f" REMOVE {', '.join(removes)}" if removes else "")
        return _Updated(table, update.strip(), condition, self.names, key, tuple(self.values), returns)

    def _assigned(self) -> str:
        if self._takes("?"):
            return self._given()
        path = self._path()
        self._expect("+", "?")
        return f"{path} + {self._given()}"

    def _given(self) -> str:
        self.values.append(f":v{len(self.values)}")
        return self.values[-1]

    def _path(self) -> str:
        parts = [self._name()]
        while self._takes("."):
            parts.append(self._name())
        return ".".join(parts)

    def _name(self) -> str:
        name = self._quoted('"')
        return next((known for known, meant in self.names.items() if meant == name), None) or self._new_name(name)

    def _new_name(self, name: str) -> str:
        placeholder = f"#n{len(self.names)}"
        self.names[placeholder] = name
        return placeholder

    def _condition(self) -> str:
        """Read up to the parenthesis that ends the condition."""
        parts: list[str] = []
        depth = 1
        while True:
            part = self._part()
            depth += {"(": 1, ")": -1}.get(part, 0)
            if depth == 0:
                return " ".join(parts)
            parts.append(part)

    def _part(self) -> str:
        if self._next().startswith('"'):
            path = self._path()
            if self._takes("IS", "MISSING"):
                return f"attribute_not_exists({path})"
            return f"attribute_exists({path})" if self._takes("IS", "NOT", "MISSING") else path
        if self._takes("?"):
            return self._given()
        if self._next() not in ("AND", "OR", "NOT", "size", "(", ")", "=", "<>", "<", "<=", ">", ">="):
            raise _unknown(self.text)
        return self._take()

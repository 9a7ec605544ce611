"""Update expressions. Each is parsed once for a text and its names into a function from the old item to the new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.memory.grammar import At, Call, Check, Given, Names, Operand, Read, Reader, Values, only, reading
from flowguard.sim.memory.paths import Path, backwards, found, meeting, placed, removed
from flowguard.sim.memory.values import EXACT, SETS, Item, Value, decimal, decimal_text, set_of, tag_of

_FUNCTIONS: Final = {"if_not_exists": 2, "list_append": 2}
_ADDABLE: Final = SETS | {"N"}


@dataclass(frozen=True, slots=True)
class UpdateExpression:
    """A parsed update. ``touched`` are the paths it names; ``checks``, ``names`` and ``values`` as for a condition."""

    sets: tuple[tuple[Path, Read], ...]
    removes: tuple[Path, ...]
    adds: tuple[tuple[Path, str], ...]
    deletes: tuple[tuple[Path, str], ...]
    touched: tuple[Path, ...]
    checks: tuple[Check, ...]
    names: frozenset[str]
    values: frozenset[str]

    def applied(self, old: Item, values: Values) -> Item:
        """Return the new item. Operands of SET read the old item; indices of lists are those of the old item too."""
        new, gone = dict(old), list(self.removes)
        for path, read in self.sets:
            new = _with(new, path, _there(read(old, values)))
        for path, name in self.adds:
            new = _with(new, path, _sum(found(old, path), values[name]))
        for path, name in self.deletes:
            left = _difference(found(old, path), values[name])
            if left is None:
                gone.append(path)
            else:
                new = _with(new, path, left)
        for path in sorted(gone, key=backwards, reverse=True):
            new = removed(new, path)
        return new


@lru_cache(maxsize=4096)
def update(kind: str, text: str, names: Names) -> UpdateExpression:
    reader = Reader(kind, text, names)
    parser = _UpdateParser(reader)
    parser.sections()
    reader.end()
    touched = tuple(parser.touched)
    if problem := meeting(touched):
        raise reader.wrong(problem)
    return UpdateExpression(
        sets=tuple(sorted(parser.sets, key=lambda change: backwards(change[0]))),
        removes=tuple(parser.removes),
        adds=tuple(parser.adds),
        deletes=tuple(parser.deletes),
        touched=touched,
        checks=tuple(parser.checks),
        names=frozenset(reader.names_used),
        values=frozenset(reader.values_used),
    )


class _UpdateParser:
    def __init__(self, reader: Reader) -> None:
        self.sets: list[tuple[Path, Read]] = []
        self.removes: list[Path] = []
        self.adds: list[tuple[Path, str]] = []
        self.deletes: list[tuple[Path, str]] = []
        self.touched: list[Path] = []
        self.checks: list[Check] = []
        self._reader = reader

    def sections(self) -> None:
        entry: dict[str, Callable[[], None]] = {
            "SET": self._set,
            "REMOVE": self._remove,
            "ADD": self._add,
            "DELETE": self._delete,
        }
        seen: set[str] = set()
        while word := self._reader.next().upper():
            if word not in entry:
                raise self._reader.unexpected()
            if word in seen:
                raise self._reader.wrong(f'The "{word}" section can only be used once in an update expression;')
            seen.add(word)
            self._reader.take()
            entry[word]()
            while self._reader.takes(","):
                entry[word]()

    def _path(self) -> Path:
        path = self._reader.path()
        self.touched.append(path)
        return path

    def _set(self) -> None:
        path = self._path()
        self._reader.expect("=")
        self.sets.append((path, self._value()))

    def _remove(self) -> None:
        self.removes.append(self._path())

    def _add(self) -> None:
        path, given = self._path(), self._reader.given()
        self.checks += only(given, _ADDABLE, "ADD", self._reader.kind)
        self.adds.append((path, given.name))

    def _delete(self) -> None:
        path, given = self._path(), self._reader.given()
        self.checks += only(given, SETS, "DELETE", self._reader.kind)
        self.deletes.append((path, given.name))

    # -- what SET assigns

    def _value(self) -> Read:
        """Read one operand, or the sum or difference of two."""
        if self._grouped_sum():
            self._reader.take()
            value = self._value()
            self._reader.expect(")")
            return value
        left = self._reader.operand(_FUNCTIONS)
        sign = self._reader.next()
        if sign not in ("+", "-"):
            return self._read(left)
        self._reader.take()
        right = self._reader.operand(_FUNCTIONS)
        for operand in (left, right):
            self.checks += only(operand, frozenset({"N"}), sign, self._reader.kind)
        return _arithmetic(self._read(left), self._read(right), sign)

    def _grouped_sum(self) -> bool:
        """Answer whether a parenthesis opens that holds a sum rather than one operand."""
        if self._reader.next() != "(":
            return False
        depth, ahead = 0, 0
        while sign := self._reader.next(ahead):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if depth == 0:
                return False
            if depth == 1 and sign in ("+", "-"):
                return True
            ahead += 1
        return False

    def _read(self, operand: Operand) -> Read:
        match operand:
            case Call("if_not_exists", (first, second)):
                if not isinstance(first, At):
                    raise self._reader.wrong(
                        "Operator or function requires a document path; operator or function: if_not_exists"
                    )
                return _or_else(reading(first), self._read(second))
            case Call(function, (first, second)):
                for member in (first, second):
                    self.checks += only(member, frozenset({"L"}), function, self._reader.kind)
                return _joined(self._read(first), self._read(second))
            case At() | Given():
                return reading(operand)
            case _:
                raise self._reader.unexpected()


def _with(new: Item, path: Path, value: Value) -> Item:
    """Place the value in ``new``, this update's own copy.

    Its attributes may be replaced, but not what is inside them.
    """
    if len(path) > 1:
        return placed(new, path, value)
    new[str(path[0])] = value
    return new


def _there(value: Value | None) -> Value:
    if value is None:
        raise invalid("The provided expression refers to an attribute that does not exist in the item")
    return value


def _mismatch() -> Fault:
    return invalid("An operand in the update expression has an incorrect data type")


def _arithmetic(left: Read, right: Read, sign: str) -> Read:
    def read(item: Item, values: Values) -> Value:
        match _there(left(item, values)), _there(right(item, values)):
            case {"N": a}, {"N": b}:
                other = decimal(b) if sign == "+" else -decimal(b)
                return {"N": decimal_text(EXACT.add(decimal(a), other))}
            case _:
                raise _mismatch()

    return read


def _or_else(read: Read, otherwise: Read) -> Read:
    return lambda item, values: old if (old := read(item, values)) is not None else otherwise(item, values)


def _joined(left: Read, right: Read) -> Read:
    def read(item: Item, values: Values) -> Value:
        match _there(left(item, values)), _there(right(item, values)):
            case {"L": first}, {"L": second}:
                return {"L": [*first, *second]}
            case _:
                raise _mismatch()

    return read


def _sum(old: Value | None, given: Value) -> Value:
    if old is None:
        return given
    match old, given:
        case {"N": a}, {"N": b}:
            return {"N": decimal_text(EXACT.add(decimal(a), decimal(b)))}
        case _ if (tag := tag_of(old)) in SETS and tag in given:
            return set_of(tag, [*old[tag], *given[tag]])
        case _:
            raise _mismatch()


def _difference(old: Value | None, given: Value) -> Value | None:
    """Return the set without the given members. None where nothing is left."""
    if old is None:
        return None
    if (tag := tag_of(old)) not in SETS or tag not in given:
        raise _mismatch()
    left = [member for member in old[tag] if member not in given[tag]]
    return set_of(tag, left) if left else None

"""The resources that the handler of a stage uses, as its source says.

Nothing of it runs. A function that the handler hands its step to is read too. What cannot be read is named with its
place, so that nobody takes it for nothing.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import FunctionType
from typing import Any, Final, NamedTuple

from flowguard.destinations import Bus, Destination, Function, Queue, Topic, destination
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done
from flowguard.stage import AnyStage, Stage

WRITES: Final[Mapping[str, frozenset[str]]] = {
    "put": frozenset({"PutItem"}),
    "newest_wins": frozenset({"PutItem"}),
    "update": frozenset({"UpdateItem"}),
    "delete": frozenset({"DeleteItem"}),
    "check": frozenset({"ConditionCheckItem"}),
    "modify": frozenset({"GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"}),
}
"""The methods of a step that name a table, with the actions of DynamoDB that their commit needs there."""

_SENDS: Final = frozenset({"send", "ask"})
_WAITS: Final = frozenset({"when_all", "when_any", "when"})
_MAKERS: Final = (Queue, Topic, Function, Bus, timedelta)
"""What may be made in a handler's source, and is known when it is read."""


class SourcePlace(NamedTuple):
    """A line of source, with what is there that cannot be read."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


class WaitUse(NamedTuple):
    """A wait that a handler may return. ``within`` is None where it is not written as a value."""

    stage: str
    names: tuple[str, ...]
    within: timedelta | None
    on_timeout: str | None
    on_error: str | None


@dataclass(frozen=True)
class Uses:
    """What the handler of a stage uses.

    ``tables`` are actions of DynamoDB by table. ``asks_flows`` are flows whose result is awaited. ``rows`` says that
    parties outside answer, ``early`` that kept answers are looked for, ``tokens`` that links are made, ``ends`` that
    the run may be complete.
    """

    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sends: frozenset[Destination] = frozenset()
    starts: frozenset[AnyFlow] = frozenset()
    asks_flows: frozenset[AnyFlow] = frozenset()
    waits: tuple[WaitUse, ...] = ()
    rows: bool = False
    early: bool = False
    tokens: bool = False
    ends: bool = False
    unknown_tables: tuple[SourcePlace, ...] = ()
    unknown_sends: tuple[SourcePlace, ...] = ()


@functools.cache
def uses_of(stage: AnyStage) -> Uses:
    """Read what a stage uses from the source of its handler."""
    found = _Found()
    handle = inspect.getattr_static(stage, "handle")
    function = getattr(handle, "__func__", handle)
    function = inspect.unwrap(function) if callable(function) else function
    _read(function, 2 if not isinstance(handle, staticmethod) else 1, stage, found)
    return found.uses()


class _Found:
    """Collects what is used."""

    def __init__(self) -> None:
        self.tables: dict[str, frozenset[str]] = {}
        self.sends: set[Destination] = set()
        self.starts: set[AnyFlow] = set()
        self.asks_flows: set[AnyFlow] = set()
        self.waits: list[WaitUse] = []
        self.flags: set[str] = set()
        self.unknown_tables: list[SourcePlace] = []
        self.unknown_sends: list[SourcePlace] = []
        self.read: set[tuple[object, object]] = set()

    def unknown(self, place: SourcePlace) -> None:
        """Note a place where everything may happen."""
        self.unknown_tables.append(place)
        self.unknown_sends.append(place)

    def uses(self) -> Uses:
        return Uses(
            tables=dict(sorted(self.tables.items())),
            sends=frozenset(self.sends),
            starts=frozenset(self.starts),
            asks_flows=frozenset(self.asks_flows),
            waits=tuple(dict.fromkeys(self.waits)),
            rows="rows" in self.flags,
            early="early" in self.flags,
            tokens="tokens" in self.flags,
            ends="ends" in self.flags,
            unknown_tables=tuple(dict.fromkeys(self.unknown_tables)),
            unknown_sends=tuple(dict.fromkeys(self.unknown_sends)),
        )


def _read(function: object, parameter: int | str, stage: AnyStage, found: _Found) -> None:
    """Read a function that gets the step as its parameter of that place or name."""
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", repr(function))
        found.unknown(SourcePlace(stage.__module__, 0, f"{name} gets the step, and is no function written in Python"))
        return
    if (function.__code__, parameter) in found.read:
        return
    found.read.add((function.__code__, parameter))
    file, first = function.__code__.co_filename, function.__code__.co_firstlineno
    tree = _tree(function)
    if tree is None:
        found.unknown(SourcePlace(file, first, f"the source of {function.__qualname__} is not there"))
        return
    names = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)]
    if isinstance(parameter, int):
        if parameter >= len(names):
            found.unknown(SourcePlace(file, first, f"{function.__qualname__} takes its step among others"))
            return
        parameter = names[parameter]
    elif parameter not in (*names, *(one.arg for one in tree.args.kwonlyargs)):
        found.unknown(SourcePlace(file, first, f"{function.__qualname__} takes its step among others"))
        return
    _Reader(function, tree, parameter, stage, found).read()


def _tree(function: FunctionType) -> ast.FunctionDef | None:
    try:
        lines, first = inspect.getsourcelines(function)
        parsed = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    ast.increment_lineno(parsed, max(first, 1) - 1)
    return next((one for one in parsed.body if isinstance(one, ast.FunctionDef)), None)


class _Reader:
    """Reads one function. ``step`` is what its step is called there."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef, step: str, stage: AnyStage, found: _Found):
        self._function = function
        self._tree = tree
        self._step = step
        self._stage = stage
        self._found = found
        self._file = function.__code__.co_filename
        self._names = {**function.__globals__, **_closure(function)}
        self._locals = _locals(tree)

    def read(self) -> None:
        seen: set[ast.AST] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and self._is_step(node.value):
                seen.add(node.value)
            if isinstance(node, ast.Call):
                seen.update(self._call(node))
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id == self._step and node not in seen:
                self._found.unknown(self._place(node, f"{self._step} is handed on where it cannot be followed"))

    def _call(self, node: ast.Call) -> Iterator[ast.AST]:
        """Read one call. Yield what of it needs no other look."""
        if isinstance(node.func, ast.Attribute):
            if self._is_step(node.func.value):
                self._method(node.func.attr, node)
            elif node.func.attr in _WAITS:
                self._wait(node.func.value, node)
        elif self._values(node.func) == [Done]:
            self._found.flags.add("ends")
        for place, given in enumerate(node.args):
            if self._is_step(given):
                yield given
                self._handed_on(node, place)
        for keyword in node.keywords:
            if self._is_step(keyword.value):
                yield keyword.value
                self._handed_on(node, keyword.arg or "")

    # -- what the step's methods use

    def _method(self, name: str, node: ast.Call) -> None:
        if name in WRITES:
            self._table(node, WRITES[name])
        elif name in _SENDS:
            self._send(node, asks=name == "ask")
        elif name == "start":
            self._start(node)
        elif name == "token":
            self._found.flags |= {"rows", "tokens"}
        elif name == "event":
            self._found.flags.add("rows")
            kept = _argument(node, 1, "keep_early")
            if kept is not None and self._values(kept) != [False]:
                self._found.flags.add("early")

    def _table(self, node: ast.Call, actions: frozenset[str]) -> None:
        given = _argument(node, 0, "table")
        values = None if given is None else self._values(given)
        if not values or not all(isinstance(one, str) for one in values):
            what = f"the table in {ast.unparse(node.func)}(…) is not known"
            self._found.unknown_tables.append(self._place(node, what))
            return
        for table in values:
            self._found.tables[table] = self._found.tables.get(table, frozenset()) | actions

    def _send(self, node: ast.Call, *, asks: bool) -> None:
        given = _argument(node, 0, "to")
        for value in (None if given is None else self._values(given)) or [None]:
            if isinstance(value, type) and issubclass(value, Flow):
                self._found.asks_flows.add(value)
            elif isinstance(value, str | Queue | Topic | Function | Bus):
                self._found.sends.add(destination(value))
                self._found.flags |= {"rows"} if asks else set()
            else:
                where = f"where {ast.unparse(node.func)}(…) sends is not known"
                self._found.unknown_sends.append(self._place(node, where))
                self._found.flags |= {"rows"} if asks else set()

    def _start(self, node: ast.Call) -> None:
        given = _argument(node, 0, "flow")
        for value in (None if given is None else self._values(given)) or [None]:
            if isinstance(value, type) and issubclass(value, Flow):
                self._found.starts.add(value)
            else:
                self._found.unknown_sends.append(self._place(node, "the flow that step.start starts is not known"))

    def _wait(self, of: ast.expr, node: ast.Call) -> None:
        targets = self._values(of) or []
        options = {one.arg: one.value for one in node.keywords if one.arg is not None}
        own = {"within", "on_timeout", "on_error", "quorum"}
        within = self._values(options["within"]) if "within" in options else None
        for target in targets:
            if isinstance(target, type) and issubclass(target, Stage):
                self._found.waits.append(
                    WaitUse(
                        target.name,
                        tuple(name for name in options if name not in own),
                        within[0] if within and isinstance(within[0], timedelta) else None,
                        self._stage_name(options.get("on_timeout")),
                        self._stage_name(options.get("on_error")),
                    )
                )

    def _stage_name(self, node: ast.expr | None) -> str | None:
        [value, *_] = (None if node is None else self._values(node)) or [None]
        return value if isinstance(value, str) else getattr(value, "name", None)

    # -- where the step goes

    def _handed_on(self, node: ast.Call, parameter: int | str) -> None:
        function, is_bound = self._callee(node.func)
        if isinstance(function, type) or not callable(function):
            what = f"{self._step} is handed to {ast.unparse(node.func)}, which cannot be followed"
            self._found.unknown(self._place(node, what))
            return
        place = parameter + 1 if is_bound and isinstance(parameter, int) else parameter
        _read(inspect.unwrap(function), place, self._stage, self._found)

    def _callee(self, func: ast.expr) -> tuple[object, bool]:
        """Return the function that is called, and whether its first parameter is bound."""
        if isinstance(func, ast.Attribute) and (owner := self._owner(func.value)) is not None:
            try:
                found = inspect.getattr_static(owner, func.attr)
            except AttributeError:
                return None, False
            if isinstance(found, staticmethod):
                return found.__func__, False
            return getattr(found, "__func__", found), True
        values = self._values(func)
        return (values[0] if values and len(values) == 1 else None), False

    def _owner(self, node: ast.expr) -> object:
        """Return the class on which ``self.x`` or ``super().x`` looks. None for other values."""
        if isinstance(node, ast.Name) and self._tree.args.args and node.id == self._tree.args.args[0].arg:
            return self._stage if node.id in ("self", "cls") else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            owners = self._stage.__mro__
            for place, owner in enumerate(owners):
                if any(getattr(one, "__code__", None) is self._function.__code__ for one in vars(owner).values()):
                    return next((one for one in owners[place + 1 :] if self._function.__name__ in vars(one)), None)
        return None

    # -- values

    def _is_step(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._step

    def _values(self, node: ast.expr) -> list[Any] | None:
        """Return the values that an expression may have. None where they cannot be told from the source."""
        match node:
            case ast.Constant(value):
                return [value]
            case ast.Name(name):
                return self._named(name)
            case ast.Attribute(of, name):
                owners = self._values(of)
                found = None if owners is None else [getattr(one, name, None) for one in owners]
                return None if found is None or None in found else found
            case ast.IfExp(_, one, other):
                both = self._values(one), self._values(other)
                return None if both[0] is None or both[1] is None else [*both[0], *both[1]]
            case ast.Call(func, arguments, keywords):
                return self._made(func, arguments, keywords)
            case _:
                return None

    def _named(self, name: str) -> list[Any] | None:
        if name in self._locals:
            assigned = self._locals[name]
            found = [None if one is None else self._values(one) for one in assigned]
            return None if None in found else [value for values in found if values is not None for value in values]
        if name in self._names:
            return [self._names[name]]
        return [getattr(builtins, name)] if hasattr(builtins, name) else None

    def _made(self, func: ast.expr, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[Any] | None:
        [maker, *_] = self._values(func) or [None]
        if maker not in _MAKERS:
            return None
        given = [self._values(one) for one in arguments]
        named = {one.arg: self._values(one.value) for one in keywords}
        if not all(one is not None and len(one) == 1 for one in (*given, *named.values())) or None in named:
            return None
        make: Callable[..., Any] = maker
        try:
            return [make(*(one[0] for one in given if one), **{str(k): v[0] for k, v in named.items() if v})]
        except (TypeError, ValueError, OverflowError):
            return None

    def _place(self, node: ast.expr, what: str) -> SourcePlace:
        return SourcePlace(self._file, node.lineno, what)


def _argument(node: ast.Call, place: int, name: str) -> ast.expr | None:
    """Return the argument that a call gives at that place or by that name."""
    if place < len(node.args):
        return None if any(isinstance(one, ast.Starred) for one in node.args[: place + 1]) else node.args[place]
    return next((one.value for one in node.keywords if one.arg == name), None)


def _closure(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _locals(tree: ast.FunctionDef) -> dict[str, list[ast.expr | None]]:
    """Return what each local name is assigned. None stands for what is not one plain value."""
    found: dict[str, list[ast.expr | None]] = {}
    arguments = tree.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None:
            found[one.arg] = [None]
    plain = {
        id(node.targets[0]): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(plain.get(id(node)))
    return found

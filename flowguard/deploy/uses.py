"""The reader of handlers. It finds the resources that a stage uses in the source of its handler.

Nothing of it runs. A function that the handler hands its step to is read too, and so is a class that keeps the step, as
far as its methods are called. What cannot be read is named with its place, so that nobody takes it for nothing.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import FunctionType
from typing import Any, Final

from flowguard.deploy.source_values import SourceValues, argument, parameters_of, tree_of
from flowguard.deploy.used import DatabaseUse, FoundUses, SourcePlace, Uses, WaitUse
from flowguard.destinations import Bus, Function, Queue, Topic, destination
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done
from flowguard.sql import DataApi
from flowguard.stage import AnyStage, Stage, name_of

WRITES: Final[Mapping[str, frozenset[str]]] = {
    "put": frozenset({"PutItem"}),
    "newest_wins": frozenset({"PutItem"}),
    "update": frozenset({"UpdateItem"}),
    "delete": frozenset({"DeleteItem"}),
    "check": frozenset({"ConditionCheckItem"}),
    "modify": frozenset({"GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"}),
}
"""The methods of a step that name a table, with the actions of DynamoDB that their commit needs there."""

_SENDS: Final = frozenset({"send", "ask", "group"})
_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "token": frozenset({"rows", "tokens"}),
    "event": frozenset({"rows"}),
    "group": frozenset({"groups"}),
    "answers": frozenset({"group answers"}),
    "is_current": frozenset({"reads its run"}),
}
_WAITS: Final = frozenset({"when_all", "when_any", "when", "when_group"})

_REMEMBERING: Final = "flowguard.ai.remembered_calls"
"""The module whose classes keep a step for nothing but ``step.once``, which needs no more than each stage may."""


@dataclasses.dataclass(frozen=True)
class Held:
    """The value of a name. It is the step, or an object that keeps the step in ``attributes``."""

    keeper: type | None = None
    attributes: frozenset[str] = frozenset()


STEP: Final = Held()


@functools.cache
def uses_of(stage: AnyStage) -> Uses:
    """Return the resources that a stage uses, from the source of its handler."""
    collected = FoundUses()
    handle = inspect.getattr_static(stage, "handle")
    place = 1 if isinstance(handle, staticmethod) else 2
    _read(_plain(handle), {place: STEP}, stage, collected)
    return collected.uses()


def _only_remembers(called: object) -> bool:
    return isinstance(called, type) and called.__module__ == _REMEMBERING


def _plain(function: object) -> object:
    function = getattr(function, "__func__", function)
    return inspect.unwrap(function) if callable(function) else function


def _read(function: object, given: Mapping[int | str, Held], stage: AnyStage, collected: FoundUses) -> None:
    """Read a function. ``given`` are its parameters, by place or name, that hold the step."""
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", repr(function))
        problem = f"{name} gets the step, and is no function written in Python"
        collected.unknown(SourcePlace(stage.__module__, 0, problem))
        return
    known = (function.__code__, frozenset(given.items()))
    if known in collected.read:
        return
    collected.read.add(known)
    tree = tree_of(function)
    where = function.__code__.co_filename, function.__code__.co_firstlineno
    if tree is None:
        collected.unknown(SourcePlace(*where, f"the source of {function.__qualname__} is not there"))
        return
    names = parameters_of(tree)
    both = [*names, *(kwonlyarg.arg for kwonlyarg in tree.args.kwonlyargs)]
    held: dict[str, Held] = {}
    for parameter, value in given.items():
        name = names[parameter] if isinstance(parameter, int) and parameter < len(names) else parameter
        if name not in both:
            collected.unknown(SourcePlace(*where, f"{function.__qualname__} takes the step among others"))
            return
        held[str(name)] = value
    _Reader(function, tree, held, stage, collected).read()


class _Reader:
    """Reads one function. ``held`` are its names that hold the step."""

    def __init__(
        self,
        function: FunctionType,
        tree: ast.FunctionDef,
        held: dict[str, Held],
        stage: AnyStage,
        collected: FoundUses,
    ) -> None:
        self._function = function
        self._tree = tree
        self._held = held
        self._stage = stage
        self._found = collected
        self._values = SourceValues(function, tree)
        self._followed: set[ast.AST] = set()

    def read(self) -> None:
        for _ in range(2):  # a name may be assigned from one that is assigned further down
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Assign):
                    self._assigned(node)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute):
                self._attribute(node)
            if isinstance(node, ast.Call):
                self._call(node)
        for node in ast.walk(self._tree):
            is_read = isinstance(node, ast.Name | ast.Call) and not isinstance(getattr(node, "ctx", None), ast.Store)
            if is_read and node not in self._followed and self._holding(node) is not None:
                self._found.unknown(self._place(node, f"{ast.unparse(node)} is handed on where it cannot be followed"))

    # -- what holds the step

    def _holding(self, node: ast.AST) -> Held | None:
        match node:
            case ast.Name(name):
                return self._held.get(name)
            case ast.Attribute(of, name):
                owner = self._holding(of)
                return STEP if owner is not None and name in owner.attributes else None
            case ast.Call(func, arguments, keywords):
                keeper = self._values.one(func)
                if _only_remembers(keeper):
                    return None
                held = {place: self._holding(arg) for place, arg in enumerate(arguments)}
                named = {keyword.arg or "": self._holding(keyword.value) for keyword in keywords}
                given: list[int | str] = [place for places in (held, named) for place, kept in places.items() if kept]
                return _kept(keeper, given) if isinstance(keeper, type) and given else None
            case _:
                return None

    def _assigned(self, node: ast.Assign) -> None:
        """Follow the step into other names."""
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            else:
                pairs = [(target, node.value)]
            for to, value in pairs:
                held = self._holding(value)
                if held is None:
                    continue
                if isinstance(to, ast.Name):
                    self._held[to.id] = held
                    self._followed.add(value)
                elif isinstance(to, ast.Attribute) and self._is_keeper(to.value):
                    self._followed.add(value)

    def _is_keeper(self, node: ast.expr) -> bool:
        held = self._holding(node)
        return held is not None and held.keeper is not None

    def _attribute(self, node: ast.Attribute) -> None:
        held = self._holding(node.value)
        if held is None:
            return
        self._followed.add(node.value)
        if held.keeper is not None and node.attr not in held.attributes:
            member = inspect.getattr_static(held.keeper, node.attr, None)
            getter = member.fget if isinstance(member, property) else getattr(member, "func", None)  # a cached one
            if getter is not None:
                _read(_plain(getter), {0: held}, self._stage, self._found)

    # -- calls

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            owner = self._holding(node.func.value)
            if owner == STEP:
                self._method(node.func.attr, node)
            elif owner is not None:
                self._member(owner, node.func.attr, node)
                return
            elif node.func.attr in _WAITS:
                self._wait(node.func.value, node)
        elif self._values.one(node.func) is Done:
            self._found.flags.add("ends")
        if (given := dict(self._given(node))) and not _only_remembers(self._values.one(node.func)):
            self._handed_on(node, given)

    def _given(self, node: ast.Call) -> Iterator[tuple[int | str, Held]]:
        for place, arg in enumerate(node.args):
            if (held := self._holding(arg)) is not None:
                self._followed.add(arg)
                yield place, held
        for keyword in node.keywords:
            if (held := self._holding(keyword.value)) is not None:
                self._followed.add(keyword.value)
                yield keyword.arg or "", held

    def _member(self, owner: Held, name: str, node: ast.Call) -> None:
        """Read a method of an object that keeps the step."""
        member = inspect.getattr_static(owner.keeper, name, None) if owner.keeper is not None else None
        given = dict(self._given(node))
        if isinstance(member, staticmethod):
            _read(_plain(member), given, self._stage, self._found)
        elif member is not None:
            moved = {place + 1 if isinstance(place, int) else place: held for place, held in given.items()}
            _read(_plain(member), {0: owner, **moved}, self._stage, self._found)
        else:
            self._found.unknown(self._place(node, f"{ast.unparse(node.func)} cannot be followed"))

    def _handed_on(self, node: ast.Call, given: dict[int | str, Held]) -> None:
        function, is_bound = self._callee(node.func)
        if isinstance(function, type) and (kept := self._holding(node)) is not None:
            making = inspect.getattr_static(function, "__init__")
            if isinstance(making, FunctionType) and tree_of(making) is not None:
                moved = {place + 1 if isinstance(place, int) else place: held for place, held in given.items()}
                _read(making, {0: kept, **moved}, self._stage, self._found)
            return
        if isinstance(function, type) or (not callable(function) and not isinstance(function, staticmethod)):
            why = f"the step is handed to {ast.unparse(node.func)}, which cannot be followed"
            self._found.unknown(self._place(node, why))
            return
        moved = {place + 1 if is_bound and isinstance(place, int) else place: held for place, held in given.items()}
        _read(_plain(function), moved, self._stage, self._found)

    def _callee(self, func: ast.expr) -> tuple[object, bool]:
        """Return the function that is called, and whether its first parameter is bound."""
        if isinstance(func, ast.Attribute) and (owner := self._owner(func.value)) is not None:
            attribute = inspect.getattr_static(owner, func.attr, None)
            return _plain(attribute), not isinstance(attribute, staticmethod)
        return self._values.one(func), False

    def _owner(self, node: ast.expr) -> object:
        """Return the class on which ``self.x`` or ``super().x`` looks. None for other values."""
        parameters = parameters_of(self._tree)[:1]
        if isinstance(node, ast.Name) and node.id in parameters and node.id not in self._held:
            return self._stage if node.id in ("self", "cls") else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            owners = self._stage.__mro__
            for place, owner in enumerate(owners):
                if any(getattr(var, "__code__", None) is self._function.__code__ for var in vars(owner).values()):
                    return next(
                        (later for later in owners[place + 1 :] if self._function.__name__ in vars(later)), None
                    )
        return None

    # -- what the step's methods use

    def _method(self, name: str, node: ast.Call) -> None:
        self._found.flags |= _FLAGS.get(name, frozenset())
        if name in WRITES:
            self._table(node, WRITES[name])
        elif name == "sql":
            self._database(node)
        elif name in _SENDS:
            self._send(node, asks=name != "send")
        elif name == "start":
            self._flow(node, self._found.starts)
        elif name == "reset":
            self._flow(node, self._found.resets)
        elif name == "cancel":
            self._flow(node, self._found.cancels)
        elif name == "event":
            self._found.flags |= {"early"} if self._may_be_true(argument(node, 1, "keep_early")) else set()

    def _may_be_true(self, given: ast.expr | None) -> bool:
        return given is not None and self._values.of(given) != [False]

    def _table(self, node: ast.Call, actions: frozenset[str]) -> None:
        given = argument(node, 0, "table")
        values = None if given is None else self._values.of(given)
        if not values or not all(isinstance(value, str) for value in values):
            why = f"the table in {ast.unparse(node.func)}(…) is not known"
            self._found.unknown_tables.append(self._place(node, why))
            return
        for table in values:
            self._found.tables[table] = self._found.tables.get(table, frozenset()) | actions

    def _database(self, node: ast.Call) -> None:
        given = argument(node, 1, "database")
        values = None if given is None else self._values.of(given)
        if values is None:
            why = f"the database in {ast.unparse(node.func)}(…) is not known"
            self._found.unread_databases.append(self._place(node, why))
        for value in values or ():
            if isinstance(value, DataApi):
                self._found.databases.add(DatabaseUse(value.cluster, value.secret))

    def _send(self, node: ast.Call, *, asks: bool) -> None:
        given = argument(node, 0, "to")
        for value in (None if given is None else self._values.of(given)) or [None]:
            if isinstance(value, type) and issubclass(value, Flow):
                self._found.asks_flows.add(value)
                if self._may_be_true(argument(node, None, "cancel_too")):
                    self._found.cancel_too.add(value)
                continue
            self._found.flags |= {"rows"} if asks else set()
            if isinstance(value, str | Queue | Topic | Function | Bus):
                (self._found.asks if asks else self._found.sends).add(destination(value))
            else:
                where = f"where {ast.unparse(node.func)}(…) sends is not known"
                self._found.unknown_sends.append(self._place(node, where))

    def _flow(self, node: ast.Call, flows: set[AnyFlow]) -> None:
        given = argument(node, 0, "flow")
        for value in (None if given is None else self._values.of(given)) or [None]:
            if isinstance(value, type) and issubclass(value, Flow):
                flows.add(value)
            else:
                why = f"the flow in {ast.unparse(node.func)}(…) is not known"
                self._found.unknown_sends.append(self._place(node, why))

    def _wait(self, of: ast.expr, node: ast.Call) -> None:
        options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        reserved = {"within", "on_timeout", "on_error", "quorum"}
        within = self._values.of(options["within"]) if "within" in options else None
        goes_on = [
            tuple(self._stages(options[name])) if name in options else self._handed(node)
            for name in ("on_timeout", "on_error")
        ]
        targets = self._values.of(of)
        stages = [value.name for value in targets or () if isinstance(value, type) and issubclass(value, Stage)]
        if targets is None and "within" in options:  # a method of this name may be that of anything
            stages = self._any_stage(of)
        for stage in stages:
            wait = WaitUse(
                stage,
                tuple(name for name in options if name not in reserved),
                within[0] if within and isinstance(within[0], timedelta) else None,
                *goes_on,
            )
            self._found.waits.append(wait)

    def _handed(self, node: ast.Call) -> tuple[str, ...]:
        """Return each stage where options are handed on as a whole."""
        more = [keyword.value for keyword in node.keywords if keyword.arg is None]
        return tuple(self._any_stage(more[0])) if more else ()

    def _stages(self, node: ast.expr) -> list[str]:
        """Return the names of the stages that an expression may be: those that the source says, or else each."""
        values: list[Any] | None = self._values.of(node)
        if values is None:
            return self._any_stage(node)
        return [name for name in map(name_of, values) if name is not None]

    def _any_stage(self, node: ast.expr) -> list[str]:
        """Return each stage at which a run may go on here. What ``then=`` does not name is refused when it runs."""
        why = f"which stage {ast.unparse(node)} is cannot be read, so each of then= counts"
        self._found.unread_stages.append(self._place(node, why))
        return [*self._stage.then]

    def _place(self, node: ast.AST, why: str) -> SourcePlace:
        return SourcePlace(self._function.__code__.co_filename, getattr(node, "lineno", 0), why)


def _kept(keeper: type, given: Sequence[int | str]) -> Held | None:
    """Return where an object keeps the step that it is made with. None if its class does not say."""
    if dataclasses.is_dataclass(keeper):
        fields = [field.name for field in dataclasses.fields(keeper) if field.init]
        names = {fields[place] if isinstance(place, int) and place < len(fields) else str(place) for place in given}
        return Held(keeper, frozenset(names)) if names <= set(fields) else None
    making = inspect.getattr_static(keeper, "__init__")
    tree = tree_of(making) if isinstance(making, FunctionType) else None
    if tree is None:
        return None
    parameters = parameters_of(tree)
    names = {
        parameters[place + 1] if isinstance(place, int) and place + 1 < len(parameters) else str(place)
        for place in given
    }
    kept = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == parameters[0]
    }
    return Held(keeper, frozenset(kept)) if kept else None

"""Whether a stage does nothing but what its step records, as its code shows it.

A proof, and no guess: what is not known to be harmless is a reason against it. From where a handler's code can reach
anything at all, all has to be known:

==================================  ====================================================================
it starts from                      which is known where it is
==================================  ====================================================================
a name of its module, a builtin     a value that only is read, one of :data:`_BUILTINS`, a harmless module,
                                    a class or function whose own code is judged in the same way
what it is given                    the payload, the state, the step, the stage: what they have by a name
                                    is a field, a method whose code is judged, or a name of :data:`_NAMES`
==================================  ====================================================================

It reads compiled code, so that nothing of a source is needed where the handler runs.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import logging
import re
import sys
from collections.abc import Container, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

_OF_STEP: Final = (
    "answer_id attempt attributes cancel check delete hop key log modify newest_wins now object_id put refused "
    "request_id requested_at reset send start state superseded superseded_error update"
)
"""Names of a step that record an effect for the commit, or only read."""

_OF_VALUES: Final = (
    "add append capitalize casefold clear copy count date day days debug difference digest discard encode endswith "
    "error exception extend find fromkeys get hexdigest hour index info insert intersection isalnum isalpha isascii "
    "isdecimal isdigit isoformat issubset issuperset items join keys lower lstrip microsecond minute model_copy "
    "model_dump model_dump_json month name partition pop popitem quantize remove removeprefix removesuffix replace "
    "reverse rpartition rsplit rstrip second seconds setdefault sort split splitlines startswith strftime strip title "
    "total_seconds union upper value values warning weekday year zfill"
)
"""What the values of Python and of models have, and loggers."""

_NAMES: Final = frozenset({*_OF_STEP.split(), *_OF_VALUES.split(), "message"})

_CLAIMED: Final = "answers apply ask event fence group is_current once sql token when when_all when_any when_group"
_NEVER: Final = frozenset(_CLAIMED.split())
"""Names of a step that act before the commit, or begin a wait. A stage that uses one keeps its lease."""

_SAID: Final = "inbox lease lease_given name parallel payload retry state then timeout"
_OF_STAGES: Final = frozenset(_SAID.split())
"""What each stage says of itself."""

_PLAIN: Final = (
    "abs all any bool bytes dict divmod enumerate filter float frozenset int isinstance iter len list map max min "
    "next range repr reversed round set slice sorted str sum tuple zip"
)
_BUILTINS: Final = frozenset(getattr(builtins, name) for name in _PLAIN.split())
_CLASSES: Final = (Decimal, NoneType, date, datetime, time, timedelta, timezone, UUID)
_VALUES: Final = (bool, int, float, complex, str, bytes, *_CLASSES, re.Pattern, logging.Logger)
_MODULES: Final = frozenset({"datetime", "decimal", "hashlib", "itertools", "json", "math", "re", "statistics"})
_OURS: Final = frozenset({"Done", "Failed", "Failure", "GroupEnd", "Next", "Reject", "Retry"})
"""The classes of flowguard whose values a handler returns, raises or gets."""

_OF_ATTRIBUTES: Final = frozenset({"DELETE_ATTR", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"})
_LIBRARIES: Final = frozenset({"abc", "builtins", "decimal", "enum", "flowguard", "pydantic", "typing"})
_RUNS_LATER: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


class _Unknown(Exception):
    """Something that may do more than the step records. Its text says what."""


def unrecorded(stage: type[Any], given: tuple[Any, ...]) -> str | None:
    """Return what a stage may do that its step does not record. None where it is proven that there is nothing.

    ``given`` are the types of its payload and state.
    """
    judge = _Judge()
    try:
        for kind in given:
            judge.class_(kind)
        judge.stage(stage)
    except _Unknown as unknown:
        return str(unknown)
    return judge.problem()


class _Judge:
    """Reads code, and all code that it may call. Names of attributes are judged when all of it is known."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._known: set[str] = set(_NAMES)
        self._doubted: set[str] = set(_NEVER)
        self._used: dict[str, str] = {}

    def problem(self) -> str | None:
        """Return what is used of a value that is not known."""
        known = self._known - self._doubted
        unknown = [f"{where} uses .{name}" for name, where in self._used.items() if name not in known]
        return unknown[0] if unknown else None

    def stage(self, stage: type[Any]) -> None:
        """Judge the handler of a stage, its other methods and the values of its class."""
        for kind in _written_by_users(stage):
            self._members(kind, _OF_STAGES)
        self.function(stage.handle)

    def class_(self, kind: Any) -> None:
        """Judge a class of values, such as a model with its fields."""
        if not isinstance(kind, type):  # list[Line], Line | None
            for part in (*getattr(kind, "__args__", ()), getattr(kind, "__origin__", None)):
                if part is not None:
                    self.class_(part)
            return
        if kind in _BUILTINS or kind in _CLASSES or id(kind) in self._seen or _is_library(kind):
            return
        self._seen.add(id(kind))
        if not issubclass(kind, BaseModel | Enum | Exception):
            raise _Unknown(f"{kind.__qualname__} is no model")
        fields = kind.model_fields if issubclass(kind, BaseModel) else {}
        for base in _written_by_users(kind):
            self._members(base, fields)
        for name, field in fields.items():
            self._known.add(name)
            self._field(field)

    def _field(self, field: FieldInfo) -> None:
        """Judge the type of a field, and the functions that make and check its values."""
        self.class_(field.annotation)
        if field.default is not PydanticUndefined and not self._is_value(field.default):
            raise _Unknown(f"a field has the default {type(field.default).__qualname__}")
        for part in (field.default_factory, *(getattr(annotation, "func", None) for annotation in field.metadata)):
            if part is not None and part not in _BUILTINS:
                self.function(part)

    def _members(self, kind: type[Any], known: Container[str]) -> None:
        """Judge what a class has beside the names that are known: methods, properties, values."""
        for name, value in vars(kind).items():
            if isinstance(value, property):
                for part in (value.fget, value.fset, value.fdel):
                    if part is not None:
                        self.function(part)
            elif isinstance(value, FunctionType | staticmethod | classmethod):
                self.function(value)
            elif name.startswith(("__", "_abc_", "model_")) or name in known:
                continue
            elif not self._is_value(value):
                self._doubted.add(name)
            self._known.add(name)

    def function(self, function: Any) -> None:
        """Judge a function of the user's. A decorator may do anything, and so may the value of a default."""
        function = getattr(function, "__func__", function)
        name = getattr(function, "__qualname__", repr(type(function)))
        if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
            raise _Unknown(f"{name} is decorated")
        if id(function) in self._seen or _is_foreign(function):
            return
        self._seen.add(id(function))
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        if set(function.__code__.co_freevars) - {"__class__"} or not all(map(self._is_value, defaults)):
            raise _Unknown(f"{name} keeps values of its own")
        self._code(function.__code__, function.__globals__, name)

    def _code(self, code: CodeType, names: Mapping[str, Any], where: str) -> None:
        if code.co_flags & _RUNS_LATER:
            raise _Unknown(f"{where} awaits")
        module: str | None = None
        for each in dis.get_instructions(code):
            if each.opname == "LOAD_GLOBAL":
                module = self._global(str(each.argval), names, where)
                continue
            if each.opname in _OF_ATTRIBUTES:
                if module is None:
                    self._used.setdefault(str(each.argval), where)
            elif each.opcode in dis.hasname or "WITH" in each.opname or each.opname == "LOAD_SPECIAL":
                raise _Unknown(f"{where} has {each.opname}")
            module = None
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._code(inner, names, where)

    def _global(self, name: str, names: Mapping[str, Any], where: str) -> str | None:
        """Judge what a name stands for. Return that of a harmless module: what it has is known."""
        if name not in names and not hasattr(builtins, name):
            raise _Unknown(f"{where} uses {name}, which is not there")
        value = names[name] if name in names else getattr(builtins, name)
        if isinstance(value, ModuleType):
            if value.__name__ in _MODULES:
                return value.__name__
            raise _Unknown(f"{where} uses the module {name}")
        if self._is_value(value) or (isinstance(value, type) and self._is_class(value)):
            return None
        if isinstance(value, FunctionType) and not _is_library(value):
            self.function(value)
            return None
        raise _Unknown(f"{where} uses {name}")

    def _is_class(self, value: type[Any]) -> bool:
        """Answer whether a class is known. One of the user's is judged."""
        if value in _BUILTINS or value in _CLASSES:
            return True
        if _is_library(value):
            is_error = issubclass(value, Exception) and value.__module__ == "builtins"
            return is_error or value.__name__ in _OURS
        if _is_part_of_a_flow(value):
            return True
        self.class_(value)
        return True

    def _is_value(self, value: Any) -> bool:
        """Answer whether a value is only read. What is in a container is looked at."""
        if isinstance(value, Enum):
            self.class_(type(value))
            return True
        if type(value) in (tuple, list, set, frozenset):
            return all(map(self._is_value, value))
        if type(value) is dict:
            return all(self._is_value(part) for pair in value.items() for part in pair)
        if isinstance(value, BuiltinFunctionType):
            return value in _BUILTINS
        return type(value) in _VALUES or type(value).__module__ == "flowguard.destinations"


def _is_part_of_a_flow(kind: type[Any]) -> bool:
    """Answer whether it is a stage or a flow: a handler only names these."""
    return any(base.__module__ in ("flowguard.flow", "flowguard.stage") for base in kind.__mro__)


def _is_library(value: Any) -> bool:
    """Answer whether a class or function is of a library that is known, and not only made by it."""
    module = sys.modules.get(str(value.__module__))
    if module is None or module.__name__.partition(".")[0] not in _LIBRARIES:
        return False
    return getattr(module, value.__qualname__, None) is value


def _is_foreign(function: FunctionType) -> bool:
    """Answer whether it is of a library that knows no AWS: it puts some of its own into the classes of users."""
    return str(function.__module__).partition(".")[0] in _LIBRARIES - {"flowguard"}


def _written_by_users(kind: type[Any]) -> Iterator[type[Any]]:
    return (base for base in kind.__mro__ if not _is_library(base))

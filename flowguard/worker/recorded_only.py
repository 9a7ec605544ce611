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

Values of a module are judged by what they hold then: what is put into them later is not seen.

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
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, ModuleType, NoneType
from typing import Any, Final, ForwardRef, Literal
from uuid import UUID

from pydantic import BaseModel, ImportString
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
_VALUES: Final = (NoneType, bool, int, float, complex, str, bytes, *_CLASSES, re.Pattern, logging.Logger)
_MODULES: Final = frozenset({"datetime", "decimal", "hashlib", "itertools", "json", "math", "re", "statistics"})
_OF_PYDANTIC: Final = frozenset({"_abc_impl", "model_config"})
_OURS: Final = frozenset({"Done", "Failed", "Failure", "GroupEnd", "Next", "Reject", "Retry"})
"""The classes of flowguard whose values a handler returns, raises or gets."""

_OF_ATTRIBUTES: Final = frozenset({"DELETE_ATTR", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"})
_OF_BLOCKS: Final = ("WITH", "LOAD_SPECIAL")
_LIBRARIES: Final = frozenset({"abc", "builtins", "decimal", "enum", "flowguard", "pydantic", "typing"})
_RUNS_LATER: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


_ANNOTATING: Final = frozenset({"annotated_types", "pydantic"})
_PARTS: Final = ("__args__", "__origin__", "__value__", "__supertype__", "__bound__", "__constraints__", "__default__")
"""Where what stands for a type has the types that it is made of."""


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
        self._stage: type[Any] | None = None

    def problem(self) -> str | None:
        """Return what is used of a value that is not known."""
        known = self._known - self._doubted
        unknown = [f"{where} uses .{name}" for name, where in self._used.items() if name not in known]
        return unknown[0] if unknown else None

    def stage(self, stage: type[Any]) -> None:
        """Judge the handler of a stage, its other methods and the values of its class."""
        self._stage = stage
        if not _is_library(type(stage.retry)):
            raise _Unknown(f"{type(stage.retry).__qualname__} is a retry policy of the user's own")
        for kind in _written_by_users(stage):
            self._members(kind, _OF_STAGES)
        self.function(stage.handle)

    def class_(self, kind: Any) -> None:
        """Judge a class of values, such as a model with its fields."""
        if not isinstance(kind, type):  # list[Line], Line | None
            self._annotation(kind)
            return
        if kind is ImportString:
            raise _Unknown("a field has ImportString")
        if kind in _CLASSES or id(kind) in self._seen or _is_library(kind):
            return
        self._seen.add(id(kind))
        if not issubclass(kind, BaseModel | Enum | Exception):
            raise _Unknown(f"{kind.__qualname__} is no model")
        if not _is_library(type(kind)):
            raise _Unknown(f"{kind.__qualname__} has a metaclass")
        if issubclass(kind, Enum) and not all(self._is_value(member.value) for member in kind):
            raise _Unknown(f"{kind.__qualname__} has a value that is not known")
        fields = kind.model_fields if issubclass(kind, BaseModel) else {}
        for base in _written_by_users(kind):
            self._members(base, _OF_PYDANTIC)
        for name, field in fields.items():
            self._known.add(name)
            self._field(field)
        if issubclass(kind, BaseModel):
            self._unasked(kind)

    def _annotation(self, kind: Any) -> None:
        """Judge what stands for a type: its parts, and what is said of it beside them."""
        parts = [part for name in _PARTS for part in _listed(getattr(kind, name, None))]
        is_known = self._is_value(kind) or (type(kind).__module__ == "typing" and not isinstance(kind, ForwardRef))
        if not parts and not is_known:
            raise _Unknown(f"{kind!r} is no type that is known")
        if getattr(kind, "__origin__", None) is not Literal and any(isinstance(part, str) for part in parts):
            raise _Unknown(f"{kind!r} names a type by a text")
        for part in parts:
            if part is not Ellipsis and type(part).__name__ != "NoDefaultType":
                self.class_(part)
        for part in getattr(kind, "__metadata__", ()):
            self._metadata(part)

    def _metadata(self, part: Any) -> None:
        """Judge what is said of a type: it may have functions, which are called with its values."""
        if isinstance(part, FieldInfo):
            self._field(part)
        elif not self._is_value(part):
            if type(part).__module__.partition(".")[0] not in _ANNOTATING or type(part) is ImportString:
                raise _Unknown(f"an annotation has {type(part).__qualname__}")
            slots = [name for kind in type(part).__mro__ for name in _listed(getattr(kind, "__slots__", ()))]
            for name in {*slots, *getattr(part, "__dict__", ())}:
                self._called(getattr(part, name, None))

    def _called(self, value: Any) -> None:
        """Judge what may be a function that a library calls."""
        if not self._is_value(value) and value not in _BUILTINS:
            self.function(value)

    def _unasked(self, kind: type[BaseModel]) -> None:
        """Judge what runs where a model is made or written, though no name of it is used."""
        for computed in kind.model_computed_fields.values():
            wrapped: Any = computed.wrapped_property
            self.function(wrapped.fget if isinstance(wrapped, property) else wrapped.func)
        for private in kind.__private_attributes__.values():
            self._called(private.default_factory)
            if private.default is not PydanticUndefined and not self._is_value(private.default):
                raise _Unknown(f"a private field has the default {type(private.default).__qualname__}")
        if kind.model_config.get("json_encoders"):
            raise _Unknown(f"{kind.__qualname__} has json_encoders")

    def _field(self, field: FieldInfo) -> None:
        """Judge the type of a field, and the functions that make and check its values."""
        self.class_(field.annotation)
        if field.default is not PydanticUndefined and not self._is_value(field.default):
            raise _Unknown(f"a field has the default {type(field.default).__qualname__}")
        self._called(field.default_factory)
        self._called(getattr(field, "exclude_if", None))
        for part in (*field.metadata, *_listed(field.discriminator)):
            self._metadata(part)

    def _members(self, kind: type[Any], known: Container[str]) -> None:
        """Judge what a class has beside the names that are known: methods, properties, values."""
        for name, value in vars(kind).items():
            if isinstance(value, property):
                for part in (value.fget, value.fset, value.fdel):
                    if part is not None:
                        self.function(part)
            elif isinstance(value, FunctionType | staticmethod | classmethod):
                self.function(value)
            elif name.startswith("__"):
                if name == "__match_args__" or (_runs(value) and not _is_of_a_library(value)):
                    raise _Unknown(f"{kind.__qualname__} has its own {name}")
            elif name not in known and not self._is_value(value):
                self._doubted.add(name)
            if not name.startswith("__"):
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
        defaults = (*_listed(function.__defaults__), *dict(function.__kwdefaults__ or ()).values())
        if set(function.__code__.co_freevars) - {"__class__"} or not all(map(self._is_value, defaults)):
            raise _Unknown(f"{name} keeps values of its own")
        self._code(function.__code__, function.__globals__, name)

    def _code(self, code: CodeType, names: Mapping[str, Any], where: str) -> None:
        if code.co_flags & _RUNS_LATER:
            raise _Unknown(f"{where} awaits")
        module: ModuleType | None = None
        before: Any = None
        for each in dis.get_instructions(code):
            if each.opname == "MATCH_CLASS":
                self._used.update(dict.fromkeys(before, where))
            before = each.argval
            if each.opname == "LOAD_GLOBAL":
                module = self._global(str(each.argval), names, where)
                continue
            if each.opname in _OF_ATTRIBUTES:
                if module is None or isinstance(getattr(module, str(each.argval), module), ModuleType):
                    self._used.setdefault(str(each.argval), where)
            elif each.opcode in dis.hasname or any(part in each.opname for part in _OF_BLOCKS):
                raise _Unknown(f"{where} has {each.opname}")
            module = None
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._code(inner, names, where)

    def _global(self, name: str, names: Mapping[str, Any], where: str) -> ModuleType | None:
        """Judge what a name stands for. Return a harmless module: what it has is known, but for other modules."""
        if name not in names and not hasattr(builtins, name):
            raise _Unknown(f"{where} uses {name}, which is not there")
        value = names[name] if name in names else getattr(builtins, name)
        if isinstance(value, ModuleType):
            if value.__name__ in _MODULES:
                return value
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
        if value is self._stage:
            return True
        if _is_part_of_a_flow(value):
            self._part_of_a_flow(value)
            return True
        self.class_(value)
        return True

    def _part_of_a_flow(self, kind: type[Any]) -> None:
        """Doubt what users wrote in another stage or flow: its own code is not judged."""
        for base in _written_by_users(kind):
            for name, value in vars(base).items():
                if isinstance(value, FunctionType) and name.startswith("__"):
                    raise _Unknown(f"{kind.__qualname__} has its own {name}")
                if _runs(value):
                    self._doubted.add(name)

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


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _is_part_of_a_flow(kind: type[Any]) -> bool:
    """Answer whether it is a stage or a flow: a handler only names these."""
    return any(base.__module__ in ("flowguard.flow", "flowguard.stage") for base in kind.__mro__)


def _is_library(value: Any) -> bool:
    """Answer whether a class or function is of a library that is known, and not only made by it."""
    module = sys.modules.get(str(value.__module__))
    if module is None or module.__name__.partition(".")[0] not in _LIBRARIES:
        return False
    return getattr(module, value.__qualname__, None) is value


def _runs(value: Any) -> bool:
    """Answer whether code runs where it is used, which is not so for what Python and pydantic put into each class."""
    if isinstance(value, GetSetDescriptorType) or type(value).__module__.startswith("pydantic."):
        return False
    return callable(value) or hasattr(type(value), "__get__")


def _is_of_a_library(value: Any) -> bool:
    """Answer whether it is a method that a known class has in C: an Enum copies some of those."""
    kind = getattr(value, "__objclass__", getattr(value, "__self__", None))
    return isinstance(kind, type) and _is_library(kind)


def _is_foreign(function: FunctionType) -> bool:
    """Answer whether it is of a library that knows no AWS: it puts some of its own into the classes of users."""
    return str(function.__globals__.get("__name__")).partition(".")[0] in _LIBRARIES - {"flowguard"}


def _written_by_users(kind: type[Any]) -> Iterator[type[Any]]:
    return (base for base in kind.__mro__ if not _is_library(base))

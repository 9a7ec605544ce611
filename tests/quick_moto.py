"""Moto's answers, for which it finds out again with each call what it knew from the one before.

It looks a field up under each of its names: which names those are is found out once.

An answer of DynamoDB is made of plain dicts, so that the names of a field depend on nothing but its shape. Moto finds
them out anew for each field of each value, and needs more time for that than for all else.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from moto.core import responses, serialize
from moto.core.base_backend import BaseBackend
from moto.sqs import models

BY_MOTO: Final = serialize.ResponseSerializer.get_value
"""Moto's own way."""

KNOWN_BY_MOTO: Final[tuple[tuple[Any, str], ...]] = (
    (responses, "method_names_from_class"),
    (responses, "camelcase_to_underscores"),
    (models, "camelcase_to_underscores"),
)
"""Functions whose answer follows from what they are given."""


@functools.cache
def find_names_once() -> None:
    """Let moto look fields of plain dicts up under names that it found out before, as long as this process lives.

    The same is done with the methods of a service, Python's names of what it is asked for, and its addresses.
    """
    serialize.ResponseSerializer.get_value = with_known_names()  # type: ignore[method-assign]  # it answers the same
    for module, name in KNOWN_BY_MOTO:
        setattr(module, name, functools.cache(getattr(module, name)))
    BaseBackend.urls = with_known_addresses()  # type: ignore[method-assign]  # the property, with a memory


def with_known_addresses() -> Any:
    """Return the property of a service's handlers by their addresses. They are the same for all of its regions."""
    by_moto: Any = BaseBackend.urls
    known: dict[Any, Any] = {}
    return property(lambda backend: known.get(type(backend)) or known.setdefault(type(backend), by_moto.fget(backend)))


def with_known_names() -> Any:
    """Return what looks a field up, by moto's own way where that is no plain dict or where moto transforms some."""

    @functools.cache
    def names_of(kind: Any, shape: Any, key: str) -> tuple[str, ...]:
        context = serialize.AttributePickerContext(obj={}, key=key, shape=shape)
        found = tuple(kind().get_possible_keys(context))
        return () if any("." in name for name in found) else found  # moto would follow a path

    def value(serializer: Any, there: Any, key: str, shape: Any) -> Any:
        picker = serializer._value_picker
        if type(there) is dict and not getattr(picker, "response_transformers", True):
            names = names_of(picker.__class__, shape, key)
            for name in names:
                if name in there:
                    return there[name]
            if names:
                return None
        return BY_MOTO(serializer, there, key, shape)

    return value

"""Models whose JSON reads back unchanged for certain, judged by their declarations alone."""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_PLAIN: Final = frozenset({str, int, bool, type(None), date, datetime, UUID})
"""Types whose values pydantic reads as it writes them. Of floats JSON does not have all."""

_SETTINGS: Final = frozenset({"title", "frozen", "json_schema_extra", "use_attribute_docstrings", "defer_build"})
"""Settings of a model that change nothing of what is written or read."""

_HOOKS: Final = frozenset(
    {"__get_pydantic_core_schema__", "__init__", "__new__", "__setattr__", "model_dump_json", "model_post_init"}
)
"""Methods with which a model may change what is written or read."""


@cache
def is_plain(kind: type[BaseModel]) -> bool:
    """Answer whether the model's JSON reads back unchanged, as long as each field holds a value of its type.

    Its fields have plain types, or models like it. It has no alias, constraint, validator, serializer or setting that
    changes what is written or read, and leaves no field out. A model that contains itself may be deeper than pydantic
    reads.
    """
    return _is_plain(kind, frozenset())


def _is_plain(kind: Any, around: frozenset[type]) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        return inner[0] is str and _is_plain(inner[1], around)
    if origin in (Union, UnionType):
        return len(inner) == 2 and type(None) in inner and all(_is_plain(part, around) for part in inner)
    if origin is list:
        return _is_plain(inner[0], around)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind not in around and _is_plain_model(kind, around | {kind})
    return kind in _PLAIN


def _is_plain_model(kind: type[BaseModel], around: frozenset[type]) -> bool:
    decorators, bases = kind.__pydantic_decorators__, [base for base in kind.__mro__ if issubclass(base, BaseModel)]
    if any(getattr(decorators, name) for name in decorators.__slots__) or kind.__pydantic_root_model__:
        return False
    if not _SETTINGS.issuperset(kind.model_config):
        return False
    if any(_HOOKS.intersection(vars(base)) for base in bases if base is not BaseModel):
        return False
    return all(_is_plain_field(field) and _is_plain(field.annotation, around) for field in kind.model_fields.values())


def _is_plain_field(field: FieldInfo) -> bool:
    return not (
        field.alias
        or field.validation_alias
        or field.serialization_alias
        or field.metadata
        or field.exclude
        or getattr(field, "exclude_if", None)
    )

"""Encode payloads, requests and states, and check that flowguard will decode the same value from the text.

What pydantic writes need not be what it reads. Such a text is refused where it is written, while nothing has happened:
the one who reads it could only take it for another release's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args, get_origin

from pydantic import AliasChoices, BaseModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from flowguard.errors import PayloadLost
from flowguard.payload.encoding import encode, problems_of, sendable_json
from flowguard.payload.plain_models import is_plain

SECRETS: Final = (SecretStr, SecretBytes, Secret)

BY_REFERENCE: Final = (
    "a secret does not travel: carry what it is called in Secrets Manager, and read it where it is used"
)
_LEFT_OUT: Final = "exclude= leaves it out of the text; make it a private attribute, or let it travel"
_BY_KIND: Final = "give the models of its union a discriminator"
_NOT_WRITTEN: Final = "is read, and is not written; is there another model in the place of the declared one?"
_NOT_READ: Final = (
    "is written, and is not read; has a model more than the declared one? Declare a union of its models, with a "
    "discriminator"
)
_WHOLE: Final = "the whole"
_NOTHING: Final = "nothing was written"
_MASK: Final = "**********"
"""What pydantic writes in the place of a secret, wherever it is found."""


def written(kind: type[Any], value: Any, *, what: str) -> str:
    """Return the text of a value that is read again as ``kind``, which it is an instance of.

    Raises :class:`PayloadLost`, which names fields and never quotes values, where the value would not come back.
    """
    if not isinstance(value, BaseModel):
        return encode(value)
    if type(value) is kind and is_plain(type(value)) and (plain := _of_its_types(value)) is not None:
        return plain
    text = encode(value)
    try:
        back: BaseModel = kind.model_validate_json(text)
    except ValidationError as error:
        raise PayloadLost(
            f"{what} would not be read again as {kind.__name__}: {problems_of(error)}; {_NOTHING}"
        ) from None
    except Exception:  # a validator that asks something outside fails for whoever reads
        return text
    if type(value) is kind and (problem := _changed(value, back, text)):
        raise PayloadLost(f"{what} would not be read again as it is: {problem}; {_NOTHING}")
    return text


def comparable(value: Any, text: str) -> str:
    """Return a text that is the same for an equal value in another process, where its sets have another order."""
    return json.dumps(_ordered(json.loads(text))) if isinstance(value, BaseModel) and has_sets(type(value)) else text


def comparable_tree(value: BaseModel) -> Any:
    """Return a model as JSON values that are equal for equal models: the elements of its sets are sorted."""
    tree = value.model_dump(mode="json")
    return _ordered(tree) if has_sets(type(value)) else tree


def _of_its_types(value: BaseModel) -> str | None:
    """Return the text of a plain model. None where a field has a value of another type, or none.

    pydantic refuses to write the former, but for None and objects in the place of models. Where that may be it is read.
    """
    try:
        text = value.__pydantic_serializer__.to_json(value, warnings="error").decode()
        if "null" in text:
            type(value).__pydantic_validator__.validate_json(text)
    except (PydanticSerializationError, UnicodeEncodeError, ValidationError):
        return None
    return sendable_json(text) if _is_whole(value) else None


def _is_whole(value: BaseModel) -> bool:
    """Answer whether a plain model has all its fields, and each model inside it too, and is of its declared type."""
    has, (fields_in, models) = vars(value), _shape_of(type(value))
    if len(has) < fields_in:
        return False
    return not models or all(_are_whole(has.get(name), inner) for name, inner in models)


def _are_whole(value: Any, kind: type[BaseModel]) -> bool:
    if type(value) is kind:
        return _is_whole(value)
    if type(value) is dict:
        value = list(value.values())
    return value is None or (type(value) is list and all(_are_whole(part, kind) for part in value))


@cache
def _shape_of(kind: type[BaseModel]) -> tuple[int, tuple[tuple[str, type[BaseModel]], ...]]:
    """Return the number of a plain model's fields, and those with models inside, each with their one class."""
    kinds = [(name, inner) for name, field in kind.model_fields.items() for inner in _classes_in(field.annotation)]
    return len(kind.model_fields), tuple((name, inner) for name, inner in kinds if issubclass(inner, BaseModel))


def _changed(value: BaseModel, back: BaseModel, text: str) -> str | None:
    """Say what is lost. A serializer may round, as its author says: what comes back is written the same then."""
    again = _text_of(back)
    if again != text and back != value:  # the text of a set has any order
        ours, theirs = json.loads(text), json.loads(again)
        if has_sets(type(value)):
            ours, theirs = _ordered(ours), _ordered(theirs)
        if ours != theirs and (problem := _difference(type(value), text, ours, theirs)):
            return problem
    return _lost(value, back, "") if _MASK in text or _may_hide(type(value)) else None


def _text_of(back: BaseModel) -> str:
    return sendable_json(back.model_dump_json(by_alias=True))  # JSON has brought no float that is no number


def _difference(kind: type[BaseModel], text: str, ours: Any, theirs: Any) -> str | None:
    """Say what a reader changes. None where its validators do, as their author says, and do it once.

    They may give a form to what was assigned without them, or make a value anew at each read, such as a time.
    """
    place, on_one_side = _first_changed(ours, theirs, "")
    if on_one_side:
        return f"{place} {on_one_side}"
    if _has_two_names(kind):
        return f"{place} changes; are the aliases for reading and writing the same?"
    try:
        settled, anew = (_text_of(kind.model_validate_json(each)) for each in (json.dumps(theirs), text))
    except Exception:  # a user's validator may raise anything, also on its own output
        return f"{place} changes, and what becomes of it would not be read"
    if _as_tree(kind, settled) == theirs or _as_tree(kind, anew) != theirs:
        return None
    return f"{place} changes each time that it is read; does a validator take what was written for what was given?"


def _as_tree(kind: type[BaseModel], text: str) -> Any:
    return _ordered(json.loads(text)) if has_sets(kind) else json.loads(text)


def _ordered(tree: Any) -> Any:
    """Return JSON whose lists are in an order of their own."""
    if isinstance(tree, dict):
        return {name: _ordered(part) for name, part in tree.items()}
    return sorted(map(_ordered, tree), key=json.dumps) if isinstance(tree, list) else tree


def _first_changed(ours: Any, theirs: Any, place: str) -> tuple[str, str]:
    """Return the place of the first difference, and what is wrong where it is on one side alone."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in (*ours, *theirs):
            named = f"{place}.{name}" if place else str(name)
            if (name in ours) != (name in theirs):
                return named, _NOT_READ if name in ours else _NOT_WRITTEN
            if ours[name] != theirs[name]:
                return _first_changed(ours[name], theirs[name], named)
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = enumerate(zip(ours, theirs, strict=False))
        different = ((f"{place}.{number}" if place else str(number), *pair) for number, pair in pairs)
        first = next(((inner, mine, other) for inner, mine, other in different if mine != other), None)
        return (place or _WHOLE, "") if first is None else _first_changed(first[1], first[2], first[0])
    return place or _WHOLE, ""


@cache
def _has_two_names(kind: type[BaseModel]) -> bool:
    """Answer whether a field of a model, or of one inside it, is written under a name under which it is not read."""
    return any(_name_of(field, name) not in _read_as(model, field, name) for model, name, field in _fields_in(kind))


def _name_of(field: FieldInfo, name: str) -> str:
    return field.serialization_alias or name


def _read_as(model: type[BaseModel], field: FieldInfo, name: str) -> list[Any]:
    """Return the names of a field under which it is read."""
    alias, settings = field.validation_alias, model.model_config
    if alias is None:
        return [name]
    by_name = settings.get("populate_by_name") or settings.get("validate_by_name")
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [*choices, *([name] if by_name else [])]


def _lost(value: Any, back: Any, place: str) -> str | None:
    """Say which hidden field comes back as another one. None where all come back, such as one with its default."""
    pairs: list[tuple[Any, Any, str]] = []
    match value:
        case _ if isinstance(value, SECRETS):
            return f"{place}: {BY_REFERENCE}" if value != back else None
        case BaseModel() if isinstance(back, BaseModel):
            if not isinstance(value, type(back)):
                return f"{place}: {type(value).__name__} comes back as {type(back).__name__}; {_BY_KIND}"
            for name, field in type(value).model_fields.items():
                ours, theirs = getattr(value, name, None), getattr(back, name, None)
                named = f"{place}.{name}" if place else name
                if _is_left_out(field, ours) and ours != theirs and not _made_anew(value, name, ours):
                    return f"{named}: {_LEFT_OUT}"
                pairs.append((ours, theirs, named))
        case dict() if isinstance(back, dict):
            pairs += [(value[name], back[name], place) for name in value if name in back]
        case list() | tuple() if isinstance(back, list | tuple):
            pairs += [(ours, theirs, place) for ours, theirs in zip(value, back, strict=False)]
        case _ if is_dataclass(value):
            names = [field.name for field in fields(value)]
            pairs += [(getattr(value, name, None), getattr(back, name, None), place) for name in names]
        case _:
            pass
    return next((problem for pair in pairs if (problem := _lost(*pair))), None)


def _is_left_out(field: FieldInfo, value: Any) -> bool:
    leaves_out: Callable[[Any], bool] | None = getattr(field, "exclude_if", None)
    return bool(field.exclude or (leaves_out is not None and leaves_out(value)))


def _made_anew(model: BaseModel, name: str, value: Any) -> bool:
    """Answer whether a field has what its factory made, as each reader makes it: an id, a time, a client, a lock."""
    is_made = type(model).model_fields[name].default_factory is not None and name not in model.model_fields_set
    return is_made and not isinstance(value, list | dict | set | BaseModel)


@cache
def hidden_fields(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields of a model, and of models inside it, whose values never stand in its text."""
    return tuple(
        f"{model.__name__}.{name}"
        for model, name, field in _fields_in(kind)
        if field.exclude or any(issubclass(inner, SECRETS) for inner in _classes_in(field.annotation))
    )


def hidden_in(annotation: Any) -> list[str]:
    """Return what the models that a type names hide."""
    models = (kind for kind in _classes_in(annotation) if issubclass(kind, BaseModel))
    return [name for model in models for name in hidden_fields(model)]


@cache
def _may_hide(kind: type[BaseModel]) -> bool:
    """Answer whether a model may come back as another value with the same text."""
    fields_in = [field for _, _, field in _fields_in(kind)]
    is_in_union = any(sum(issubclass(inner, BaseModel) for inner in _classes_in(f.annotation)) > 1 for f in fields_in)
    return bool(hidden_fields(kind)) or is_in_union or any(getattr(f, "exclude_if", None) for f in fields_in)


@cache
def has_sets(kind: type[BaseModel]) -> bool:
    """Answer whether a model, or one inside it, has fields whose text has any order."""
    kinds = (inner for _, _, field in _fields_in(kind) for inner in _classes_in(field.annotation))
    return any(issubclass(inner, AbstractSet) for inner in kinds)


def _fields_in(kind: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str, FieldInfo]]:
    """Yield the fields of a model, and of models inside it."""
    seen, ahead = {kind}, [kind]
    while ahead:
        model = ahead.pop()
        for name, field in model.model_fields.items():
            yield model, name, field
            kinds = _classes_in(field.annotation)
            models = [inner for inner in kinds if issubclass(inner, BaseModel) and inner not in seen]
            seen.update(models)
            ahead.extend(models)


def _classes_in(annotation: Any) -> list[type]:
    """Return the classes that an annotation names, at whatever depth."""
    parts = (*get_args(annotation), get_origin(annotation))
    inner = [kind for part in parts if part is not None for kind in _classes_in(part)]
    return [annotation, *inner] if isinstance(annotation, type) else inner

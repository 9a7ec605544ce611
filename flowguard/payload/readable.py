"""Encode what flowguard decodes later: the payload of a later stage, a request, the state of a run.

What pydantic writes need not be what it reads. Such a text is refused where it is written, while nothing has happened:
the one who reads it could only take it for another release's.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError
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
_NOTHING: Final = "nothing was written"


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


def _of_its_types(value: BaseModel) -> str | None:
    """Return the text of a plain model. None where a field was given a value of another type after it was made."""
    try:
        return sendable_json(value.__pydantic_serializer__.to_json(value, warnings="error").decode())
    except (PydanticSerializationError, UnicodeEncodeError):
        return None


def _changed(value: BaseModel, back: BaseModel, text: str) -> str | None:
    """Say what is lost. A serializer may round, as its author says: what comes back is written the same then."""
    if (again := encode(back)) != text and back != value:  # the text of a set has any order
        ours, theirs = json.loads(text), json.loads(again)
        if ours != theirs:
            return f"{_first_changed(ours, theirs)} changes; are the aliases for reading and writing the same?"
    return _lost(value, back, "") if hidden_fields(type(value)) else None


def _first_changed(ours: Any, theirs: Any) -> str:
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return "the whole"
    changed = (
        name for name in (*ours, *theirs) if (name in ours, ours.get(name)) != (name in theirs, theirs.get(name))
    )
    return str(next(changed, "the whole"))


def _lost(value: Any, back: Any, place: str) -> str | None:
    """Say which hidden field comes back as another one. None where all come back, such as one with its default."""
    pairs: list[tuple[Any, Any, str]] = []
    match value:
        case _ if isinstance(value, SECRETS):
            return f"{place}: {BY_REFERENCE}" if value != back else None
        case BaseModel() if isinstance(back, BaseModel):
            for name, field in type(value).model_fields.items():
                ours, theirs = getattr(value, name, None), getattr(back, name, None)
                named = f"{place}.{name}" if place else name
                if _is_left_out(field) and ours != theirs:
                    return f"{named}: {_LEFT_OUT}"
                pairs.append((ours, theirs, named))
        case dict() if isinstance(back, dict):
            pairs += [(value[name], back[name], place) for name in value if name in back]
        case list() | tuple() if isinstance(back, list | tuple):
            pairs += [(ours, theirs, place) for ours, theirs in zip(value, back, strict=False)]
    return next((problem for pair in pairs if (problem := _lost(*pair))), None)


@cache
def hidden_fields(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields of a model, and of models inside it, whose values do not stand in its text."""
    hidden: list[str] = []
    seen, ahead = {kind}, [kind]
    while ahead:
        model = ahead.pop()
        for name, field in model.model_fields.items():
            kinds = _classes_in(field.annotation)
            if _is_left_out(field) or any(issubclass(inner, SECRETS) for inner in kinds):
                hidden.append(f"{model.__name__}.{name}")
            models = [inner for inner in kinds if issubclass(inner, BaseModel) and inner not in seen]
            seen.update(models)
            ahead.extend(models)
    return tuple(hidden)


def _is_left_out(field: FieldInfo) -> bool:
    return bool(field.exclude or getattr(field, "exclude_if", None))


def _classes_in(annotation: Any) -> list[type]:
    """Return the classes that an annotation names, at whatever depth."""
    inner = [kind for argument in get_args(annotation) for kind in _classes_in(argument)]
    return [annotation, *inner] if isinstance(annotation, type) else inner

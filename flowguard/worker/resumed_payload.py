"""The payload of a stage that was waited for: the answers by name, and failures where its fields take them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from flowguard.errors import OtherRelease, RunFailed
from flowguard.failed import Failed
from flowguard.group import GroupEnd
from flowguard.payload.encoding import decode, encode, problem_of
from flowguard.protocol.waiting import GivenAnswer, Wait, WaitEnd, WaitPlan
from flowguard.recorded.read_answers import TIMED_OUT
from flowguard.stage import AnyStage

OF_GROUPS: Final = (GroupEnd, dict)
"""The payloads that a stage after a group takes."""


def fields_of(stage: AnyStage) -> dict[str, FieldInfo] | None:
    """Return the fields of the stage's payload. None where it takes any."""
    return stage.payload.model_fields if issubclass(stage.payload, BaseModel) else None


def admits_failed(stage: AnyStage, name: str) -> bool:
    """Answer whether the stage takes a failure in place of this answer."""
    fields = fields_of(stage)
    return fields is None or (name in fields and _has_failed(fields[name].annotation))


def check_answer(stage: AnyStage, name: str, answer: GivenAnswer) -> None:
    """Check that the stage can read the answer.

    Raises :class:`RunFailed`, which names the field and quotes no value.
    """
    fields = fields_of(stage)
    if answer.failed or fields is None or name not in fields:
        return
    if (problem := _problem(stage, name, fields[name], answer.text)) is not None:
        where = ".".join(map(str, problem["loc"][1:]))
        raise RunFailed(f"{name}{where and '.' + where}: {problem_of(problem)}")


def _problem(stage: AnyStage, name: str, field: FieldInfo, text: str) -> Any:
    """Return pydantic's first error of the answer's field, None where it has none.

    The whole model is asked, with this answer alone: constraints, strictness and validators of the field are the
    model's. Validators of the whole model may miss the other answers; then the type of the field decides.
    """
    key = _key(name, field)
    try:
        stage.payload.model_validate_json(f"{{{json.dumps(key)}:{text}}}")
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False, include_context=False)
        return next((problem for problem in errors if problem["loc"] and problem["loc"][0] in (key, name)), None)
    except Exception:  # of the user's own validators, without the other answers
        return _problem_of_type(name, field, text)
    return None


def _problem_of_type(name: str, field: FieldInfo, text: str) -> Any:
    kind: Any = field.annotation
    try:
        TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        return {**first, "loc": (name, *first["loc"])}
    return None


def resumed_payload(stage: AnyStage, wait: Wait | None) -> Any:
    """Build the payload of the stage that goes on after a wait, from the answers that the run item holds.

    Raises :class:`RunFailed`, naming each answer that failed or is missing, and :class:`OtherRelease` where the wait
    was begun for another payload than the stage takes now.
    """
    if wait is None or wait.plan is None:
        raise RunFailed(f"{stage.name!r} was to go on after a wait, and the run item holds none")
    if wait.plan.group is not None:
        group = wait.plan.group
        if stage.payload not in OF_GROUPS:
            raise OtherRelease(f"{stage.name} takes {stage.payload.__name__}, and its run has waited for a group")
        end = GroupEnd(requests=group.size, timed_out=wait.timed_out)
        return decode(stage.payload, encode(end), what=f"the group for {stage.name}")
    fields = fields_of(stage)
    names = [name for name in wait.plan.names if fields is None or name in fields]
    parts = {name: text for name in names if (text := _part(stage, wait, wait.plan, name)) is not None}
    keys = {name: name if fields is None else _key(name, fields[name]) for name in parts}
    text = "{" + ",".join(f"{json.dumps(keys[name])}:{part}" for name, part in parts.items()) + "}"
    payload = _decoded(stage, text, wait.answers, wait.plan)
    failed = {name: _failure(wait, name) for name in parts if fields is not None and _is_failure(wait, name)}
    return payload.model_copy(update=failed) if failed else payload  # a field of dicts would read a failure as one


def _decoded(stage: AnyStage, text: str, answers: Mapping[str, GivenAnswer], plan: WaitPlan) -> Any:
    """Decode the payload.

    Where the stage needs a name that is not awaited, or cannot read an answer, one of the two is of another release.
    What else is wrong is wrong with the run.
    """
    try:
        return decode(stage.payload, text, what=f"the answers for {stage.name}")
    except RunFailed as problem:
        needed = {name for name, field in (fields_of(stage) or {}).items() if field.is_required()}
        if unknown := sorted(needed - plan.names.keys()):
            raise OtherRelease(f"{stage.name} needs {', '.join(unknown)}, which this wait has not asked for") from None
        try:
            for name, answer in answers.items():
                check_answer(stage, name, answer)
        except RunFailed as unread:
            raise OtherRelease(f"{stage.name} cannot read what it waited for: {unread}") from None
        raise problem


def _part(stage: AnyStage, wait: Wait, plan: WaitPlan, name: str) -> str | None:
    """Return the JSON text for one name; None where it is left out.

    A failure is left out where its field has a default, unless too much has failed and this stage is to go on with it.
    """
    answer = wait.answers.get(name)
    if answer is not None and not answer.failed:
        return answer.text
    if answer is None and wait.end is not WaitEnd.TIMED_OUT:
        return None
    if admits_failed(stage, name):
        return _failure(wait, name).model_dump_json()
    has_failed = wait.end is WaitEnd.FAILED and stage.name == plan.stage
    if not (has_failed or _is_required(stage, name)):
        return None
    raise RunFailed(_reason(wait, name))


def _is_failure(wait: Wait, name: str) -> bool:
    answer = wait.answers.get(name)
    return answer is None or answer.failed


def _failure(wait: Wait, name: str) -> Failed:
    answer = wait.answers.get(name)
    if answer is None:
        return Failed(type=TIMED_OUT, text="no answer came in time")
    return Failed.model_validate_json(answer.text)


def _reason(wait: Wait, name: str) -> str:
    if name not in wait.answers:
        return f"no answer to {name} came in time"
    failure = _failure(wait, name)
    return f"{name} failed: {failure.type}: {failure.text}"


def _is_required(stage: AnyStage, name: str) -> bool:
    fields = fields_of(stage)
    return fields is not None and fields[name].is_required()


def _key(name: str, field: FieldInfo) -> str:
    """Return the key under which the model reads the field."""
    alias = field.validation_alias or field.alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _has_failed(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return any(_has_failed(arg) for arg in get_args(annotation))
    return annotation is Failed

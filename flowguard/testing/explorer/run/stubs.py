"""Answers of AWS that the user gives, for what the engine does not have: ``{"ssm.GetParameter": {"Parameter": …}}``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.limits.functions import body_of

GivenStubs: TypeAlias = Mapping[str, Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]]
"""Answers by service and operation, or functions that make one of the call's parameters."""

_LIKE: Final = 'name a service and its operation: stubs={"ssm.GetParameter": {"Parameter": {"Value": "tea"}}}'


class Stubs:
    """An interceptor that answers some operations. Raises :class:`SettingsError` for what cannot be an answer."""

    def __init__(self, given: GivenStubs) -> None:
        if not isinstance(given, Mapping):
            raise SettingsError("stubs", f"{shown(repr(given))} are no answers; {_LIKE}")
        for name, answer in given.items():
            service, dot, operation = str(name).partition(".")
            if not (service and dot and operation) or not (isinstance(answer, Mapping) or callable(answer)):
                raise SettingsError("stubs", f"{shown(repr(name))} with {shown(repr(answer))} is no answer; {_LIKE}")
        self._given = given

    @property
    def are_given(self) -> bool:
        """Answer whether there is any."""
        return bool(self._given)

    @property
    def have_functions(self) -> bool:
        """Answer whether any is a function, which may answer by what it was asked before."""
        return any(map(callable, self._given.values()))

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = self._given.get(f"{call.service}.{call.operation}")
        if answer is None:
            return proceed()
        response = dict(answer(call.params)) if callable(answer) else copy.deepcopy(dict(answer))
        for name in ("Payload", "Body"):
            if isinstance(response.get(name), str | bytes | dict | list) and (call.service, name) in _STREAMS:
                response[name] = body_of(_content(response[name]))
        return {"ResponseMetadata": {"HTTPStatusCode": 200}, **response}


_STREAMS: Final = frozenset({("lambda", "Payload"), ("s3", "Body")})
"""What boto3 returns as a stream."""


def _content(value: str | bytes | dict[str, Any] | list[Any]) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()

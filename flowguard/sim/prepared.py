"""The parameters of a call as they would go out, before anything has been sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.validate import ParamValidationDecorator, validate_parameters

from flowguard.sim.calls import ApiCall


def prepared(call: ApiCall) -> Mapping[str, Any]:
    """Return the parameters of a call as they would be sent.

    They are validated if the client validates, and those of a table resource are in low-level form.
    """
    params = low_level(call)
    serializer = getattr(call.client, "_serializer", None)  # the one place where botocore keeps whether it checks
    if isinstance(serializer, ParamValidationDecorator):
        shape = call.client.meta.service_model.operation_model(call.operation).input_shape
        if shape is not None:
            validate_parameters(params, shape)
    return params


def low_level(call: ApiCall) -> Mapping[str, Any]:
    """Return the parameters of a call, where a table resource's plain values are in DynamoDB's low-level form."""
    params = call.params
    if call.service == "dynamodb":
        for _, changed in emit("provide-client-params", call, params=params):
            params = changed if changed is not None else params
        emit("before-parameter-build", call, params=params)
    return params


def emit(event: str, call: ApiCall, **arguments: Any) -> list[tuple[Any, Any]]:
    """Emit an event to botocore's listeners. boto3's resources translate by it."""
    meta, name = call.client.meta, f"{event}.{call.service}.{call.operation}"
    model = meta.service_model.operation_model(call.operation)
    answers: list[tuple[Any, Any]] = meta.events.emit(name, model=model, context={}, **arguments)
    return answers

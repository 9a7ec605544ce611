"""What is written down of services is what botocore's models say of them."""

from __future__ import annotations

from typing import Any, Final

import botocore.session
import pytest
from botocore import xform_name
from botocore.retries.standard import ExponentialBackoff

from flowguard.aws.transport.services import DYNAMODB, SERVICES

SESSION: Final = botocore.session.Session()


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(service: str) -> Any:
    return SESSION.get_service_model(service)


def test_the_protocol_is_json(service: str, model: Any) -> None:
    ours = SERVICES[service]
    assert (ours.target, ours.version) == (model.metadata["targetPrefix"], model.metadata["jsonVersion"])
    assert model.resolved_protocol == "json"
    assert model.signing_name == model.endpoint_prefix == service
    assert ours.is_query_compatible == model.is_query_compatible
    assert ours.has_checksums == (ours is DYNAMODB)


def test_operations_are_as_the_model_says(service: str, model: Any) -> None:
    for method, ours in SERVICES[service].operations.items():
        theirs = model.operation_model(ours.name)
        assert method == xform_name(ours.name)
        assert ours.errors == {shape.error_code for shape in theirs.error_shapes}
        assert theirs.idempotent_members == ([] if ours.token is None else [ours.token])
        assert (theirs.http["method"], theirs.http["requestUri"]) == ("POST", "/")
        assert theirs.endpoint is theirs.request_compression is None
        assert not (theirs.has_streaming_input)
        assert not (theirs.has_streaming_output)


def test_errors_have_the_fields_of_the_model(service: str, model: Any) -> None:
    operations = SERVICES[service].operations.values()
    declared = {"AccessDeniedException", "ResourceNotFoundException", "ThrottlingException"}.union(
        *(operation.errors for operation in operations)
    )
    theirs = {shape.error_code: shape for shape in model.error_shapes if shape.error_code in declared}
    assert SERVICES[service].errors == {code: frozenset(shape.members) for code, shape in theirs.items()}
    assert SERVICES[service].repeats == {c for c, shape in theirs.items() if shape.metadata.get("retryable")}
    assert not any(shape.metadata.get("retryable", {}).get("throttling") for shape in theirs.values())


def test_what_is_of_another_kind_in_python_is_named_or_a_value_of_dynamodb(service: str, model: Any) -> None:
    for ours in SERVICES[service].operations.values():
        for field, shape, kind in kinds("", model.operation_model(ours.name).output_shape, set()):
            assert (kind == "timestamp") == (field in SERVICES[service].times), field
            if service == "dynamodb":
                assert kind != "blob" or shape == "BinaryAttributeValue"
            else:
                assert (kind == "blob") == (field in SERVICES[service].blobs), field


def kinds(field: str, shape: Any, met: set[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """The field, the name and the type of all shapes inside one."""
    if shape is None or (field, shape.name) in met:
        return []
    met.add((field, shape.name))
    inside = [*getattr(shape, "members", {}).items()]
    inside += [(field, getattr(shape, part)) for part in ("key", "value", "member") if hasattr(shape, part)]
    return [(field, shape.name, shape.type_name), *(kind for name, part in inside for kind in kinds(name, part, met))]


def test_pauses_begin_as_botocores(service: str) -> None:
    backoff: Any = ExponentialBackoff
    usual = backoff._DEFAULT_BACKOFF_CONFIG["non_throttling_base_scale"]
    theirs = backoff._SERVICE_BACKOFF_CONFIG.get(service, {}).get("non_throttling_base_scale", usual)
    assert SERVICES[service].backoff == theirs

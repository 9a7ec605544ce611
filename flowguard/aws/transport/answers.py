"""Answers of services, read into what botocore's clients return and raise."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

from flowguard.aws import botocore_errors
from flowguard.aws.transport.http_answers import Answer
from flowguard.aws.transport.services import Service
from flowguard.startup.named_tuple import NamedTuple

CHECKSUM: Final = "x-amz-crc32"
QUERY_ERROR: Final = "x-amzn-query-error"
REQUEST_ID: Final = "x-amzn-requestid"


class Read(NamedTuple):
    """What has been read. ``code`` is that of an error, ``modelled`` the name that its service has for it."""

    content: dict[str, Any]
    is_error: bool
    code: str = ""
    modelled: str = ""

    def __repr__(self) -> str:
        """Return nothing of an item or a payload."""
        return f"Read({self.code!r}, …)" if self.is_error else "Read(…)"

    def error(self, operation: str) -> botocore_errors.ClientError:
        """Return the error that botocore raises for it."""
        content: Any = self.content
        return (_kind(self.modelled) if self.modelled else botocore_errors.ClientError)(content, operation)


def read(service: Service, answer: Answer) -> Read:
    """Read an answer. Raises ValueError for a damaged one: its checksum is another, or a success is no JSON object."""
    if service.has_checksums and CHECKSUM in answer.headers and not _is_whole(answer):
        raise ValueError("its checksum is another")
    result = (
        _read_error(service, answer) if answer.status >= 300 else Read(_content(service, answer.body), is_error=False)
    )
    metadata: dict[str, Any] = {"HTTPStatusCode": answer.status, "HTTPHeaders": answer.headers}
    if REQUEST_ID in answer.headers:
        metadata = {"RequestId": answer.headers[REQUEST_ID], **metadata}
    result.content["ResponseMetadata"] = metadata
    return result


def _is_whole(answer: Answer) -> bool:
    return answer.headers[CHECKSUM] == str(crc32(answer.body))


def _content(service: Service, body: bytes) -> dict[str, Any]:
    """Return an object of JSON as Python has it, with the bytes among DynamoDB's values, and with times."""
    if not body or body == b"{}":  # of most writes
        return {}
    content = _decoder(service, body).decode(body.decode())
    if not isinstance(content, dict):
        raise ValueError("it is no object")
    return _without_nulls(content) if b"null" in body else content


def _without_nulls(value: Any) -> Any:
    """Leave out the fields of objects that are null, as botocore does."""
    match value:
        case dict():
            return {name: _without_nulls(part) for name, part in value.items() if part is not None}
        case list():
            return [*map(_without_nulls, value)]
        case _:
            return value


def _decoder(service: Service, body: bytes) -> json.JSONDecoder:
    """Return what also reads the values in each object that are no text in Python, if there may be some."""
    if service.times:
        return json.JSONDecoder(object_hook=partial(_with_kinds, service))
    return _WITH_BYTES if b'"B"' in body or b'"BS"' in body else _PLAIN


def _with_kinds(service: Service, value: dict[str, Any]) -> dict[str, Any]:
    for name in service.times & value.keys():
        value[name] = _moment(value[name])
    for name in service.blobs & value.keys():
        value[name] = b64decode(value[name])
    return value


def _moment(value: Any) -> Any:
    """Return a time as botocore's answers have it."""
    if not isinstance(value, int | float):
        raise ValueError("a time is no number")
    zones: Any = import_module("dateutil.tz")  # botocore's, which has no types; few answers have times
    return datetime.fromtimestamp(value, zones.tzlocal())


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Decode bytes where the object is a value of DynamoDB. An attribute called B has an object for its value."""
    match value:
        case {"B": str(text)}:
            return {"B": b64decode(text)}
        case {"BS": [*texts]}:
            return {"BS": [b64decode(text) for text in texts]}
        case _:
            return value


_PLAIN: Final = json.JSONDecoder()
_WITH_BYTES: Final = json.JSONDecoder(object_hook=_with_bytes)


def _read_error(service: Service, answer: Answer) -> Read:
    try:
        body = _content(service, answer.body)
    except ValueError:
        body = {"message": answer.body.decode(errors="replace")}
    if _is_generic(answer):
        from http.client import responses  # few answers are

        code, message, body = str(answer.status), responses.get(answer.status, ""), {}
    else:
        code, message = _code(body, answer.status), body.get("message", body.get("Message", ""))
    error = {"Message": message, "Code": code}
    name = code
    if (older := answer.headers.get(QUERY_ERROR, "").split(";"))[0] and len(older) == 2:
        error |= {"QueryErrorCode": code, "Type": older[1], "Code": older[0]}
        code = older[0]
    fields = service.errors.get(code, ())
    content = {"Error": error, **{field: body[field] for field in fields if body.get(field) is not None}}
    return Read(content, is_error=True, code=code, modelled=name if name in service.errors else "")


def _is_generic(answer: Answer) -> bool:
    """Answer whether it is not the service's own: it comes from something in front of it."""
    text = answer.body.strip()
    return answer.status >= 500 and (not text or text.startswith(b"<html>"))


def _code(body: dict[str, Any], status: int) -> str:
    code = str(body.get("__type", status))
    return code.partition(":")[0].rpartition("#")[2]


_kinds: dict[str, type[botocore_errors.ClientError]] = {}


def modelled(error: BaseException | None) -> str | None:
    """Return the name that a service has for an error which was read here. None for any other."""
    name = type(error).__name__
    return name if type(error) is _kinds.get(name) else None


def _kind(name: str) -> type[botocore_errors.ClientError]:
    """Return the class of an error, such as ``ConditionalCheckFailedException``. Each is made once."""
    return _kinds.setdefault(name, type(name, (botocore_errors.ClientError,), {}))

"""The lean client on an AWS of the process: what it sends is read as the service would, and answered as by its HTTP."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from math import inf
from typing import Any, Final

from botocore import xform_name
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.transport.http_answers import Answer
from flowguard.aws.transport.json_client import JSONClient, Place
from flowguard.aws.transport.services import SERVICES
from flowguard.clock import no_pause
from tests.aws.transport.clients import KEYS, REGION

_TARGET: Final = re.compile(r"\r\nx-amz-target: \w+\.(\w+)\r\n")


class LeanInProcess(Clients):
    """Clients of an AWS of the process, of which those are lean that the lean client has."""

    def _client(self, service: str, *, once: bool = False) -> Any:
        botocores = super()._client(service, once=once)
        if service not in SERVICES:
            return botocores
        connections: Any = _InProcess(botocores)
        client = JSONClient(
            SERVICES[service], Place(REGION, connections, lambda: KEYS), lambda: botocores, pause=no_pause
        )
        watch: Any = _Unwatched()
        client._watch = watch
        return client


class _Unwatched:
    """Who has patched botocore here is the AWS of the process."""

    def is_watched(self) -> bool:
        return False


class _InProcess:
    """Stands for connections: makes the call of each request by botocore's client, and answers bytes."""

    host, endpoint = "in.process", "http://in.process/"

    def __init__(self, botocores: Any) -> None:
        self._botocores = botocores

    def exchange(self, request: bytes, seconds: float = inf) -> Answer:
        head, _, body = request.partition(b"\r\n\r\n")
        target = _TARGET.search(head.decode("latin-1"))
        assert target is not None
        parameters = json.loads(body, object_hook=_with_bytes)
        try:
            answer = getattr(self._botocores, xform_name(target[1]))(**parameters)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
            told: Any = error.response["Error"]
            content = {"__type": f"com.amazonaws#{told['Code']}", "message": told.get("Message", "")}
            return _answer(status, content)
        return _answer(200, {name: value for name, value in answer.items() if name != "ResponseMetadata"})


def _answer(status: int, content: dict[str, Any]) -> Answer:
    body = json.dumps(content, default=lambda value: b64encode(value).decode()).encode()
    return Answer(status, {}, body, is_last=False)


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    return {name: b64decode(part) if name == "BinaryValue" else part for name, part in value.items()}

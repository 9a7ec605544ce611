"""A client of one service that makes the calls of a message's way itself, and has botocore's client make all others."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import uuid
from base64 import b64encode
from calendar import timegm
from collections.abc import Callable
from email.utils import parsedate
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from flowguard.aws import botocore_errors
from flowguard.aws.transport.agent import AGENT
from flowguard.aws.transport.answers import Read, modelled, read
from flowguard.aws.transport.connections import Connections
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.hidden import HiddenBytes, HiddenMap
from flowguard.aws.transport.patched import Watch
from flowguard.aws.transport.retries import Failed, Quota, delay, may_pass, price
from flowguard.aws.transport.services import Operation, Service
from flowguard.aws.transport.signature import Signer
from flowguard.aws.transport.time_left import LEAST_SECONDS, seconds_left
from flowguard.startup.named_tuple import NamedTuple

logger = logging.getLogger("flowguard")

MOST_ATTEMPTS: Final = 4

SKEWED: Final = frozenset(
    {
        "InvalidSignatureException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
"""How a service refuses what was signed by a clock that is wrong. It has done nothing then."""

SKEW_SECONDS: Final = 240
"""How far a clock may be off before it is the reason. AWS bears five minutes."""

DOUBTED: Final = frozenset(
    {
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SerializationException",
        "SignatureDoesNotMatch",
        "UnknownOperationException",
        "UnrecognizedClientException",
    }
)
"""How a service refuses a request for its form or its signature. It has done nothing then."""

OPENING_SECONDS: Final = 1.0
"""How long a function waits for a connection while it is initialised. The first event opens one where none is there."""

_PLAIN_IN_TRACE: Final = "-=;:+&[]{}\"',"
_TRACE, _FUNCTION = "_X_AMZN_TRACE_ID", "AWS_LAMBDA_FUNCTION_NAME"


class Place(NamedTuple):
    """Where the calls go. ``credentials`` returns what is good at the moment of a call."""

    region: str
    connections: Connections
    credentials: Callable[[], Credentials]


class JSONClient:
    """A client for some calls, by the names and with the answers and errors that botocore's clients have.

    ``botocore`` makes botocore's client, for every other call, and for all of them while somebody has patched botocore,
    or once somebody has asked for its ``meta.events``. Until a service has understood a call, one that is refused for
    its form, or whose certificate is not believed, is botocore's too; where botocore succeeds, so are all that follow.
    ``once`` makes no call twice by itself. ``left`` returns for how long (s) a call may wait: no try begins after that,
    and none waits for longer. Safe in threads and after a fork.
    """

    def __init__(
        self,
        service: Service,
        place: Place,
        botocore: Callable[[], Any],
        *,
        once: bool = False,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        left: Callable[[], float] = seconds_left,
    ) -> None:
        self._service = service
        self._place = place
        self._make = botocore
        self._made: Any = None
        self._making = threading.Lock()
        self._is_heard = False
        self._is_understood = False
        self._watch = Watch()
        self._names_errors = False
        self._attempts = 1 if once else MOST_ATTEMPTS
        self._pause = pause
        self._clock = clock
        self._left = left
        self._skew = 0.0
        self._quota = Quota()
        self._signer = Signer(service.name, place.region)
        self.meta = _Meta(place.region, self._all_by_botocore)

    def __getattr__(self, name: str) -> Any:
        """Return the method of a call, or whatever botocore's client has by the name."""
        operation = self._service.operations.get(name)
        if operation is None:
            return getattr(self._botocore(), name)
        method = partial(self._call, name, operation)
        setattr(self, name, method)
        return method

    def connect(self) -> None:
        """Open a connection for the first call. Raises BotoCoreError where none can be made in a short time."""
        self._place.connections.open(OPENING_SECONDS)

    # -- botocore's client

    @property
    def exceptions(self) -> Any:
        """Return botocore's exception classes for this service. From now on the client raises these.

        So does it for the error that is being handled: ``except client.exceptions.…`` asks when it was raised.
        """
        self._names_errors = True
        exceptions = self._botocore().exceptions
        error = sys.exc_info()[1]
        if (code := modelled(error)) is not None:
            error.__class__ = exceptions.from_code(code)
        return exceptions

    def _botocore(self) -> Any:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _all_by_botocore(self) -> Any:
        """Return botocore's client, which makes all calls from now on. Its listeners must hear of them."""
        self._is_heard = True
        return self._botocore()

    # -- calls

    def _call(self, method: str, operation: Operation, **parameters: Any) -> dict[str, Any]:
        parameters = HiddenMap(parameters)
        if self._is_heard or self._watch.is_watched():
            return self._by_botocore(method, parameters)
        if operation.token is not None:
            parameters.setdefault(operation.token, str(uuid.uuid4()))
        try:
            body = HiddenBytes(_JSON.encode(parameters).encode())
        except TypeError:  # no bytes, and no value of JSON: botocore knows its form, or what to say of it
            return self._by_botocore(method, parameters)
        if any(map(body.__contains__, self._service.elsewhere)):
            return self._by_botocore(method, parameters)
        try:
            result = self._answered(operation, body)
        except botocore_errors.SSLError as error:
            if self._is_understood:
                raise
            return self._asked_of_botocore(method, parameters, type(error).__name__)
        if result.code in DOUBTED and not self._is_understood:
            return self._asked_of_botocore(method, parameters, result.code)
        self._is_understood = True
        if result.is_error:
            raise self._error(result, operation)
        return result.content

    def _asked_of_botocore(self, method: str, parameters: dict[str, Any], why: str) -> dict[str, Any]:
        """Have botocore make a call of which nothing was done. Where it succeeds, it makes all calls from now on."""
        answer = self._by_botocore(method, parameters)
        self._is_heard = True
        logger.warning(
            "boto3 makes the calls of %s from now on: flowguard's own client met %s, and boto3 did not; "
            "FLOWGUARD_CLIENT=boto3 does so from the start",
            self._service.name,
            why,
        )
        return answer

    def _error(self, result: Read, operation: Operation) -> botocore_errors.ClientError:
        """Return the exception for a failed call.

        Once :attr:`exceptions` was read its classes are raised, so that ``except client.exceptions.…`` catches them.
        """
        if not self._names_errors:
            return result.error(operation.name)
        content: Any = result.content
        kind = self._botocore().exceptions.from_code(result.modelled)
        error: botocore_errors.ClientError = kind(content, operation.name)
        return error

    def _by_botocore(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self._botocore(), method)(**parameters)
        return answer

    def _answered(self, operation: Operation, body: bytes) -> Read:
        """Return the last answer. Raises BotoCoreError where the last attempt got none."""
        call, attempt, paid, is_corrected = _call_id(), 0, 1, False
        while True:
            attempt += 1
            result = self._tried(operation, body, call, attempt)
            if (failed := _failure(result)) is None:
                self._quota.earn(paid)
                break
            if not is_corrected and self._corrects(failed):
                is_corrected = True
                continue
            if attempt >= self._attempts or not may_pass(self._service, operation, failed):
                break
            pause = delay(self._service, operation, failed, attempt)
            if pause >= self._left() - LEAST_SECONDS:  # after the end, too, what is left is the least of a call
                break
            paid = price(operation, failed)
            if not self._quota.take(paid):
                _note(result, RetryQuotaReached=True)
                break
            self._pause(pause)
        if not isinstance(result, Read):
            raise result
        if attempt >= self._attempts:
            _note(result, MaxAttemptsReached=True)
        _note(result, RetryAttempts=attempt - 1)
        return result

    def _tried(
        self, operation: Operation, body: bytes, call: str, attempt: int
    ) -> Read | botocore_errors.BotoCoreError:
        connections = self._place.connections
        request = self._request(operation, body, f"{call}\r\namz-sdk-request: attempt={attempt}; max={self._attempts}")
        try:
            return read(self._service, connections.exchange(request, self._left()))
        except botocore_errors.BotoCoreError as error:
            return error
        except ValueError as error:
            return botocore_errors.ConnectionClosedError(endpoint_url=connections.endpoint, error=error)

    def _request(self, operation: Operation, body: bytes, call: str) -> bytes:
        """Return the bytes of a request, signed at this moment."""
        service, credentials = self._service, self._place.credentials()
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock() + self._skew))
        signed = HiddenMap()
        signed |= {
            "content-type": f"application/x-amz-json-{service.version}",
            "host": self._place.connections.host,
            "x-amz-date": moment,
            "x-amz-target": f"{service.target}.{operation.name}",
        }
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        if service.is_query_compatible:
            signed["x-amzn-query-mode"] = "true"
        authorization = self._signer.authorization(signed, body, credentials)
        lines = "".join([f"{name}: {value}\r\n" for name, value in signed.items()])
        head = (
            f"POST / HTTP/1.1\r\n{lines}authorization: {authorization}\r\nuser-agent: {AGENT}\r\n{_trace()}"
            f"amz-sdk-invocation-id: {call}\r\naccept-encoding: identity\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return HiddenBytes(head.encode("latin-1") + body)

    def _corrects(self, failed: Failed) -> bool:
        """Take over the service's time where this process' clock is the reason of a refusal."""
        if failed.code not in SKEWED or (date := parsedate(failed.headers.get("date"))) is None:
            return False
        try:
            skew = timegm(date) - self._clock()
        except (ValueError, OverflowError):  # a year that no calendar has
            return False
        if abs(skew - self._skew) < SKEW_SECONDS:
            return False
        self._skew = skew
        return True


class _Meta:
    """What botocore's client says of itself. The region is known without one."""

    def __init__(self, region_name: str, botocore: Callable[[], Any]) -> None:
        self.region_name = region_name
        self._botocore = botocore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._botocore().meta, name)


def _call_id() -> str:
    """Return a random UUID. The class that makes them takes a twentieth of a call's CPU."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _failure(result: Read | botocore_errors.BotoCoreError) -> Failed | None:
    """Return how the attempt failed. None for a success."""
    if not isinstance(result, Read):
        return Failed()
    if not result.is_error:
        return None
    metadata = result.content["ResponseMetadata"]
    return Failed(metadata["HTTPStatusCode"], result.code, metadata["HTTPHeaders"])


def _note(result: Read | botocore_errors.BotoCoreError, **facts: Any) -> None:
    if isinstance(result, Read):
        result.content["ResponseMetadata"].update(facts)


def _trace() -> str:
    """Return the header of Lambda's trace, by which AWS also notices a function that calls itself."""
    trace = os.environ.get(_TRACE)
    if not trace or _FUNCTION not in os.environ:
        return ""
    return f"x-amzn-trace-id: {quote(trace, safe=_PLAIN_IN_TRACE)}\r\n"


def _base64(value: Any) -> str:
    return b64encode(value).decode("ascii")


_JSON: Final = json.JSONEncoder(default=_base64, check_circular=False)

"""The lean client beneath all that watches calls: whatever fails them, counts them or kills at them stays where it is.

::

    botocore's client ── interceptors: deaths, faults, journals ── innermost: the lean client ── the engine
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from botocore import xform_name

from flowguard.aws.transport.connections import Connections
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.json_client import JSONClient, Place
from flowguard.aws.transport.services import SERVICES
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept


class Beneath:
    """An innermost interceptor that makes the calls of a message's way by the lean client, and leaves the others.

    Address, keys and number of tries are those of the client that was called. ``made`` counts what it has made.
    """

    def __init__(self) -> None:
        self.made = 0
        self._clients: dict[int, tuple[Any, JSONClient]] = {}
        self._lock = threading.Lock()

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        method = xform_name(call.operation)
        if call.service not in SERVICES or method not in SERVICES[call.service].operations:
            return proceed()
        with self._lock:
            self.made += 1
            _, client = self._clients.setdefault(id(call.client), (call.client, _lean(call)))
        answer: Response = getattr(client, method)(**call.params)
        return answer


class _Unwatched:
    """Whoever watches botocore here has seen the call already."""

    def is_watched(self) -> bool:
        return False


def _lean(call: ApiCall) -> JSONClient:
    botocores: Any = call.client
    keys = botocores._request_signer._credentials.get_frozen_credentials()
    retries = botocores.meta.config.retries or {}
    place = Place(
        botocores.meta.region_name,
        Connections(botocores.meta.endpoint_url, read_seconds=60),
        lambda: Credentials(keys.access_key, keys.secret_key, keys.token),
    )
    once = retries.get("total_max_attempts") == 1
    client = JSONClient(SERVICES[call.service], place, _nobody, once=once)
    unwatched: Any = _Unwatched()
    client._watch = unwatched
    return client


def _nobody() -> NoReturn:
    raise AssertionError("the lean client has left a call to botocore")


def of_every_other(number: int) -> AbstractContextManager[object]:
    """The lean client beneath the process of an odd number."""
    return intercept(Beneath(), innermost=True) if number % 2 else nullcontext()

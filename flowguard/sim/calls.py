"""The one hook at the API call: every boto3 call of the process goes through the interceptors installed here.

A call is what a client's method makes, such as ``UpdateItem``: botocore's own repeats over HTTP happen inside it. Calls
from any thread are seen, those of resources, paginators and waiters too, and of clients made before the hook was there.

::

    with intercept(Recorder()) as recorder:
        handler(event, context)
    assert recorder.count("dynamodb") == 2
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from botocore.client import BaseClient

Response: TypeAlias = dict[str, Any]
Proceed: TypeAlias = Callable[[], Response]


@dataclass(frozen=True)
class ApiCall:
    """One API call. ``service`` is the client's name ("dynamodb"), ``operation`` the API's ("UpdateItem").

    ``number`` counts from 1 what this interceptor has seen, so that "fail the third call" means the same in each run.
    """

    service: str
    operation: str
    params: Mapping[str, Any]
    number: int
    client: BaseClient = field(repr=False, compare=False)


class Interceptor(Protocol):
    """Wraps each API call. ``proceed()`` makes it: once, not at all (a failure), or again (a repeated request)."""

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response: ...


AnyInterceptor = TypeVar("AnyInterceptor", bound=Interceptor)


@contextmanager
def intercept(interceptor: AnyInterceptor, *, innermost: bool = False) -> Iterator[AnyInterceptor]:
    """Pass each call of the process through the interceptor while the block runs.

    Nested blocks compose, the outer block's interceptor first. An ``innermost`` one stays next to the real call even
    when others are nested inside it later: a lock must not be held by a call that another interceptor keeps waiting.
    """
    layer = _Layer(interceptor, innermost)
    _hook.add(layer)
    try:
        yield interceptor
    finally:
        _hook.remove(layer)


def one_at_a_time() -> Interceptor:
    """Return an interceptor that holds one lock during every call.

    moto's conditional writes need it: in two threads, both could find the condition true. Install it innermost.
    """
    lock = threading.RLock()

    def locked(_: ApiCall, proceed: Proceed) -> Response:
        with lock:
            return proceed()

    return locked


class Recorder:
    """Records the calls that were made in their order. Failed ones are included."""

    def __init__(self) -> None:
        self.calls: list[ApiCall] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        self.calls.append(call)
        return proceed()

    def count(self, service: str | None = None, operation: str | None = None) -> int:
        """Count the recorded calls. They are those of all services, of one, or of one operation."""
        return sum(service in (None, call.service) and operation in (None, call.operation) for call in self.calls)


class _Layer:
    """An interceptor with its own count of calls."""

    def __init__(self, interceptor: Interceptor, innermost: bool) -> None:
        self.innermost = innermost
        self._interceptor = interceptor
        self._numbers = itertools.count(1)

    def round(self, client: BaseClient, operation: str, params: Mapping[str, Any], proceed: Proceed) -> Proceed:
        def call() -> Response:
            service = client.meta.service_model.service_name
            return self._interceptor(ApiCall(service, operation, params, next(self._numbers), client), proceed)

        return call


class _Hook:
    """Replaces botocore's method while there are layers. They are swapped as a whole, so a call reads them unlocked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._layers: tuple[_Layer, ...] = ()  # the one next to the real call first
        self._original: Callable[[BaseClient, str, Mapping[str, Any]], Response] | None = None

    def add(self, layer: _Layer) -> None:
        with self._lock:
            if not self._layers:
                self._install()
            self._layers = tuple(sorted((layer, *self._layers), key=lambda each: not each.innermost))

    def remove(self, layer: _Layer) -> None:
        with self._lock:
            self._layers = tuple(each for each in self._layers if each is not layer)
            if not self._layers:
                self._uninstall()

    def _install(self) -> None:
        self._original = original = _base_client._make_api_call

        def make_api_call(client: BaseClient, operation: str, params: Mapping[str, Any]) -> Response:
            proceed: Proceed = functools.partial(original, client, operation, params)
            for layer in self._layers:
                proceed = layer.round(client, operation, params, proceed)
            return proceed()

        _base_client._make_api_call = make_api_call

    def _uninstall(self) -> None:
        _base_client._make_api_call = self._original


_base_client: Any = BaseClient  # its stubs do not show the method
_hook = _Hook()

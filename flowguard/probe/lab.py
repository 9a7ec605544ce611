"""The place in which a program works."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Event
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from botocore.exceptions import ClientError

Clients = Callable[[str], Any]
"""Returns the client of a service."""

PREFIX: Final = "fgprobe-"
TAG: Final = "flowguard-probe"

_ROUNDS: Final = 20
_ROUND: Final = 3
"""How often, and after how many seconds, a deletion is tried again of what AWS is still busy with."""

_OF_NOBODY: Final = frozenset({"GetCallerIdentity", "AssumeRole"})
"""Operations that name no resource, or one that only the caller has."""

Found = TypeVar("Found")


class Interrupted(Exception):
    """The command was interrupted. What a program has made is deleted."""


class NotOurs(Exception):
    """A program has called for something that it did not make. The call was not sent."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation

    def __str__(self) -> str:
        return f"{self.operation} names nothing that this probe has made; it was not sent"


class NotWaited(Exception):
    """A program would wait for longer than its engine is worth."""

    def __str__(self) -> str:
        return "it was not waited for any longer"


class Lab:
    """A namespace in which one program makes, asks and deletes.

    All that it makes has a name that begins with ``namespace``, and its tag. A call that names neither is not sent. At
    the end of the block everything is deleted, last first, also after an error or an interruption; ``left`` then names
    what could not be.
    """

    def __init__(
        self,
        clients: Clients,
        pause: Callable[[float], None],
        stop: Event | None = None,
        services: Collection[str] | None = None,
        rest: Callable[[float], None] = time.sleep,
        longest: float = math.inf,
    ) -> None:
        self.namespace = f"{PREFIX}{uuid.uuid4().hex[:10]}"
        self.tags: Mapping[str, str] = {TAG: self.namespace}
        self.left: list[str] = []
        self.waited = 0.0
        self._clients = clients
        self._services = services
        self._rest = rest
        self._longest = longest
        self._pause = pause
        self._stop = stop if stop is not None else Event()
        self._ours: set[str] = {self.namespace}
        self._made: list[tuple[str, Callable[[], object]]] = []
        self._names = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in range(_ROUNDS):
            self._made = self._deleted()
            if not self._made:
                return
            self._rest(_ROUND)
        self.left += [f"{name} (still in use)" for name, _ in self._made]

    def _deleted(self) -> list[tuple[str, Callable[[], object]]]:
        """Delete what was made, last first, and return what AWS is still busy with."""
        busy: list[tuple[str, Callable[[], object]]] = []
        while self._made:
            name, delete = self._made.pop()
            try:
                delete()
            except Exception as problem:
                if _says(problem, *_BUSY):
                    busy.insert(0, (name, delete))
                elif not _says(problem, *_GONE):
                    self.left.append(f"{name} ({type(problem).__name__}: {problem})")
        return busy

    def has(self, service: str) -> bool:
        """Answer whether the engine has a service."""
        return self._services is None or service in self._services

    def name(self, suffix: str = "") -> str:
        """Return a new name of this namespace."""
        self._names += 1
        return f"{self.namespace}-{self._names}{suffix}"

    def undo(self, name: str, delete: Callable[[], object]) -> None:
        """Delete this at the end. It is said before the thing is made, so that an interruption finds it."""
        self._made.append((name, delete))

    def ours(self, identity: str) -> None:
        """Note an id that AWS has given to what was made here, such as that of an event source mapping."""
        self._ours.add(identity)

    def ask(self, service: str, operation: str, **params: Any) -> Any:
        """Make a call. Raises :class:`NotOurs` for one that names nothing of this namespace."""
        if self._stop.is_set():
            raise Interrupted
        return self._send(service, operation, params)

    def clean(self, service: str, operation: str, **params: Any) -> Any:
        """Make a call that deletes, also after an interruption."""
        return self._send(service, operation, params)

    def _send(self, service: str, operation: str, params: Mapping[str, Any]) -> Any:
        client = self._clients(service)
        method = client.meta.method_to_api_mapping.get(operation, operation)
        if method not in _OF_NOBODY and not any(mark in text for text in _texts(params) for mark in self._ours):
            raise NotOurs(f"{service}:{method}")
        return getattr(client, operation)(**params)

    def code_of(self, service: str, operation: str, **params: Any) -> str:
        """Make a call that may be refused, and return the code of the error. It is empty where there is none."""
        try:
            self.ask(service, operation, **params)
        except ClientError as error:
            return code(error)
        return ""

    def pause(self, seconds: float) -> None:
        """Wait. It is a moment where the engine's time can be moved."""
        if self._stop.is_set():
            raise Interrupted
        if self.waited + seconds > self._longest:
            raise NotWaited
        self.waited += seconds
        self._pause(seconds)

    def until(self, look: Callable[[], Found], seconds: float, every: float = 1) -> Found:
        """Look until something is there or the time is over. What was seen last is returned."""
        end = self.waited + seconds
        while not (result := look()) and self.waited < end:
            self.pause(min(every, end - self.waited))
        return result


def code(error: ClientError) -> str:
    """Return the code of an error: by its class where AWS has two names for it."""
    details = error.response.get("Error", {})
    return str(details.get("QueryErrorCode") or details.get("Code", "")).rpartition(".")[2]


def _texts(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _texts(part)
            yield from (key for key in value if isinstance(key, str))
        case list() | tuple():
            for part in value:
                yield from _texts(part)
        case _:
            pass


_GONE: Final = ("NotFound", "DoesNotExist", "NonExistent", "NoSuch", "NotInMemory", "404")
_BUSY: Final = ("ResourceInUse", "ResourceConflict", "ConcurrentModification", "DeleteConflict")


def _says(error: Exception, *words: str) -> bool:
    """Answer whether an error is named by one of these words."""
    text = code(error) if isinstance(error, ClientError) else type(error).__name__
    return any(word in text for word in words)

"""The parties outside AWS that handlers call.

    outside=["psp.example"]                          each request is answered with an empty object
    outside={"rates.example": {"rate": 2}}           … with this
    outside={"psp.example": fake}                    … with what ``fake(request)`` returns

A party begins each schedule as it was given, and a crash of a worker takes nothing from it. It knows idempotency keys:
a request under a key that it has seen is answered as the first one and does nothing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.testing.explorer.record.history import Items
from flowguard.testing.explorer.record.outside_call import ASKS, OF_PARTIES, OF_SERVICES

_LIKE: Final = 'name hosts, or say what each answers: outside={"psp.example": {"status": "paid"}}, or a function'
_KEYS: Final = ("idempotency-key", "x-idempotency-key", "paypal-request-id")
_SAME_AGAIN: Final = frozenset({"PUT", "DELETE"})
_TOKENS: Final = ("ClientToken", "ClientRequestToken", "IdempotencyToken", "CallerReference", "name")


@dataclass(frozen=True, slots=True)
class OutsideRequest:
    """A request to a party outside. ``headers`` have small letters, ``body`` is parsed where it is JSON."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def key(self) -> str | None:
        """Return its idempotency key."""
        return next((self.headers[name] for name in _KEYS if name in self.headers), None)


@dataclass(frozen=True, slots=True)
class OutsideAnswer:
    """An answer of a party outside. A ``body`` that is no text is sent as JSON."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Fake: TypeAlias = Callable[[OutsideRequest], Any]
GivenOutside: TypeAlias = Sequence[str] | Mapping[str, Any]
"""A list of hosts, or a dict from each host to its answer: JSON, or a function that takes the request."""


class OutsideWorld:
    """All parties of an exploration. Raises :class:`SettingsError` for what are none."""

    def __init__(self, given: GivenOutside) -> None:
        self._given = _read(given)
        self._parties: dict[str, _Party] = {}
        self._services: dict[str, _Done] = {}
        self.begin()

    @property
    def has_functions(self) -> bool:
        """Answer whether a party answers by a function, which may remember what it was asked."""
        return any(map(callable, self._given.values()))

    def begin(self) -> None:
        """Give each party its beginning."""
        self._parties = {name: _Party(copy.deepcopy(given)) for name, given in self._given.items()}
        self._services = {}

    def party_at(self, host: str, port: int | None) -> str | None:
        """Return the name under which a host is given. None for one that is not."""
        return next((name for name in (f"{host}:{port}", host) if name in self._given), None)

    def ask(self, party: str, request: OutsideRequest) -> tuple[OutsideAnswer, bool]:
        """Return the answer to a request, and whether it has changed anything."""
        return self._parties[party].ask(request)

    def mailed(self, party: str, mail: Mapping[str, Any]) -> None:
        """Note a mail that a server took."""
        self._parties[party].done.add(mail)

    def called(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        """Note a call of an AWS service whose state is not compared. One token does one thing."""
        done = self._services.setdefault(service, _Done())
        token = next((str(params[name]) for name in _TOKENS if name in params), None)
        rest = {name: _plain(value) for name, value in params.items() if name not in _TOKENS}
        if done.is_new(None if token is None else f"{operation} {token}"):
            done.add({"call": operation, **rest})

    def items(self) -> Items:
        """Return what was done at each, like items of a table."""
        parties = {f"{OF_PARTIES}{name}": party.done.items() for name, party in self._parties.items()}
        return {**parties, **{f"{OF_SERVICES}{name}": done.items() for name, done in self._services.items()}}


class _Done:
    """What was done at a party."""

    def __init__(self) -> None:
        self._once: list[Mapping[str, Any]] = []
        self._at: dict[str, Mapping[str, Any]] = {}
        self._keys: set[str] = set()

    def is_new(self, key: str | None) -> bool:
        """Answer whether nothing was done under a key, and note it. Without a key everything is new."""
        is_new = key is None or key not in self._keys
        if key is not None:
            self._keys.add(key)
        return is_new

    def add(self, entry: Mapping[str, Any]) -> None:
        self._once.append(entry)

    def put(self, place: str, entry: Mapping[str, Any]) -> bool:
        """Put something in a place. Answer whether it was not there."""
        is_new = self._at.get(place) != entry
        self._at[place] = entry
        return is_new

    def items(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(sorted((*self._once, *self._at.values()), key=lambda entry: repr(sorted(entry.items()))))


class _Party:
    """A party with its answers, and with what was done there."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self._answers: dict[str, OutsideAnswer] = {}
        self.done = _Done()

    def ask(self, request: OutsideRequest) -> tuple[OutsideAnswer, bool]:
        key = request.key
        if key is not None and key in self._answers:
            return self._answers[key], False
        answer = self._answer(request)
        if request.method in ASKS or not 200 <= answer.status < 300:
            return answer, False
        if key is not None:
            self._answers[key] = answer
        entry = {"request": f"{request.method} {request.path}", **_fields(request.body)}
        if request.method in _SAME_AGAIN:
            return answer, self.done.put(request.path, entry)
        self.done.add(entry)
        return answer, True

    def _answer(self, request: OutsideRequest) -> OutsideAnswer:
        answer = self._given(request) if callable(self._given) else copy.deepcopy(self._given)
        return answer if isinstance(answer, OutsideAnswer) else OutsideAnswer({} if answer is None else answer)


def _fields(body: Any) -> Mapping[str, Any]:
    """Return a body's fields by their names, so that one of them can be said to be free."""
    if isinstance(body, dict):
        return {str(name): value for name, value in body.items()}
    return {} if body in ("", None) else {"body": body}


def _plain(value: Any) -> Any:
    """Return a parameter as what can be compared and shown."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)


def _read(given: Any) -> Mapping[str, Any]:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        given = dict.fromkeys(given)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise SettingsError("outside", f"{shown(given)} are no parties; {_LIKE}")
    for name, answer in given.items():
        if not (callable(answer) or _is_json(answer)):
            raise SettingsError("outside", f"{shown(answer)} is no answer of {name}; {_LIKE}")
    return given


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return isinstance(value, OutsideAnswer)
    return True

"""What a hop does before its commit, once in all its attempts, because it remembers that it did."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from flowguard.errors import OtherRelease, RunFailed, shown
from flowguard.items.writes import Write
from flowguard.payload.encoding import encode_json, problems_of
from flowguard.recorded.table_writes import TableWrites
from flowguard.wire.message import Message
from flowguard.wire.send_ids import key_of

_LONGEST_NAME: Final = 128
"""Bytes of what a hop remembers something under."""


class Remembers(Protocol):
    """What one hop remembers before its commit, and whether it is still this worker's, as seen from its step."""

    def is_current(self) -> bool: ...

    def recall(self, name: str) -> str | None: ...

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None: ...


class ForgottenMemory:
    """A memory of nothing: for a stage that is called without its runtime, and so makes each of its calls."""

    def is_current(self) -> bool:
        return True

    def recall(self, name: str) -> str | None:
        return None

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None:
        """Forget it."""


class EarlyEffects:
    """Makes calls and applies blocks of writes before the commit, each once in a hop, by its name."""

    def __init__(self, memory: Remembers, writes: TableWrites) -> None:
        self._memory = memory
        self._writes = writes
        self._names: set[str] = set()

    def once(self, name: str, call: Callable[[], Any], result: Any) -> Any:
        """Return the result of the call, which is made where none is remembered. Of an async one it is awaited."""
        self._begin(name)
        kind = _type_of_result(name, call, result)
        if inspect.iscoroutinefunction(call):
            return self._awaited(name, call, kind, result)
        text = self._memory.recall(name)
        return _read(name, self._made(name, call(), kind) if text is None else text, kind, result)

    async def _awaited(self, name: str, call: Callable[[], Any], kind: TypeAdapter[Any] | None, result: Any) -> Any:
        text = self._memory.recall(name)
        return _read(name, self._made(name, await call(), kind) if text is None else text, kind, result)

    def _made(self, name: str, result: Any, kind: TypeAdapter[Any] | None) -> str:
        """Remember the result of a call, and return its text."""
        text = _text_of(name, result, kind)
        self._memory.remember(name, text)
        return text

    def is_current(self) -> bool:
        """Answer whether what the hop does would still count."""
        return self._memory.is_current()

    @contextmanager
    def apply(self, name: str) -> Iterator[None]:
        """Apply what is recorded within the block, where it is not remembered as applied."""
        self._begin(name)
        with self._writes.apart() as inner:
            yield
        if inner and self._memory.recall(name) is None:
            self._memory.remember(name, "null", inner)

    def _begin(self, name: str) -> None:
        """Raise :class:`RunFailed` for a name that the hop cannot remember something under."""
        _check_name(name)
        if name in self._names:
            raise RunFailed(f"two calls or blocks of one handler are named {shown(name)}; give each a name of its own")
        if self._writes.are_apart:
            raise RunFailed(f"{shown(name)} is within a block of step.apply, which holds nothing but writes")
        self._names.add(name)


def idempotency_key(message: Message, name: str, reset_by: str | None) -> str:
    """Return the same UUID for the name in each attempt of the message's hop, and another one for any other hop.

    Another reset of the object, ``reset_by``, is another beginning of its first hop.
    """
    _check_name(name)
    return key_of(message, name, reset_by)


def _type_of_result(name: str, call: object, result: Any) -> TypeAdapter[Any] | None:
    """Return what reads the remembered result, None for plain JSON. Raises :class:`RunFailed` before any call."""
    if not callable(call):
        raise RunFailed(f"step.once({shown(name)}, …) has {shown(call)} to call; write a function. Nothing was done")
    if isinstance(result, str):
        raise RunFailed(f"step.once({shown(name)}, …): result is no type but text: {shown(result)}. Nothing was called")
    try:
        return None if result is None else TypeAdapter(result)
    except PydanticUserError as error:
        problem = str(error).partition("\n")[0]
        raise RunFailed(f"step.once({shown(name)}, …): result is no type: {problem}. Nothing was called") from None


def _read(name: str, text: str, kind: TypeAdapter[Any] | None, result: Any) -> Any:
    if kind is None:
        from flowguard.payload.results import from_text  # not needed to start a function

        return from_text(text)
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        why = f"what step.once({shown(name)}, …) remembers is no {shown(result)}: {problems_of(error)}"
        raise OtherRelease(why) from None


def _text_of(name: str, result: object, kind: TypeAdapter[Any] | None) -> str:
    if isinstance(result, Coroutine):
        result.close()
        fix = "give the async function itself, and await what step.once returns"
        raise RunFailed(f"step.once({shown(name)}, …) got a coroutine from its call; {fix}. It was not awaited")
    try:
        return encode_json(result) if kind is not None else _plain_text(result)
    except TypeError as error:
        raise RunFailed(
            f"step.once({shown(name)}, …) has made its call, and cannot remember the result: {error}"
        ) from None


def _plain_text(result: object) -> str:
    """Return the text from which a value comes back as it was, without a type. A model comes back as JSON values."""
    from flowguard.payload.results import Unstorable, to_plain_text  # not needed to start a function

    try:
        return to_plain_text(result, encode_json)
    except (Unstorable, RecursionError):
        return encode_json(result)


def _check_name(name: object) -> None:
    if type(name) is not str or not name or not name.isprintable() or len(name.encode()) > _LONGEST_NAME:
        raise RunFailed(
            f"{shown(name)} names nothing to remember; write printable text of at most {_LONGEST_NAME} bytes"
        )

"""What a hop does before its commit, once in all its attempts, because it remembers that it did."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import PydanticUserError, ValidationError

from flowguard.errors import OtherRelease, RunFailed, shown
from flowguard.items.writes import Write
from flowguard.payload.encoding import encode_json, problems_of
from flowguard.payload.readable import BY_REFERENCE, hidden_in
from flowguard.recorded.table_writes import TableWrites
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import Message
from flowguard.wire.send_ids import key_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_LONGEST_NAME: Final = 128
"""Bytes of what a hop remembers something under."""


class Remembers(Protocol):
    """What one hop remembers before its commit, and whether it is still this worker's, as seen from its step."""

    def is_current(self) -> bool: ...

    def recall(self, name: str) -> str | None: ...

    def fetch_key(self) -> None: ...

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None: ...


class ForgottenMemory:
    """A memory of nothing: for a stage that is called without its runtime, and so makes each of its calls."""

    def is_current(self) -> bool:
        return True

    def recall(self, name: str) -> str | None:
        return None

    def fetch_key(self) -> None:
        """Need no key."""

    def remember(self, name: str, text: str, writes: Sequence[Write] = ()) -> None:
        """Forget it."""


class EarlyEffects:
    """Makes calls and applies blocks of writes before the commit, each once in a hop, by its name."""

    def __init__(self, memory: Remembers, writes: TableWrites) -> None:
        self._memory = memory
        self._writes = writes
        self._names: set[str] = set()
        self._is_elsewhere = False

    def once(self, name: str, call: Callable[[], Any], result: Any) -> Any:
        """Return the result of the call, which is made where none is remembered. Of an async one it is awaited."""
        self._begin(name)
        form = ResultForm.of(f"step.once({shown(name)}, …)", call, result)
        if inspect.iscoroutinefunction(call):
            return self._awaited(name, call, form)
        text = self._memory.recall(name)
        if text is None:
            with self._free_if_raised(name):
                self._memory.fetch_key()
                made = call()
            text = self._made(name, made, form)
        return form.read(text)

    async def _awaited(self, name: str, call: Callable[[], Any], form: ResultForm) -> Any:
        text = self._memory.recall(name)
        if text is None:
            with self._free_if_raised(name):
                self._memory.fetch_key()
                made = await call()
            text = self._made(name, made, form)
        return form.read(text)

    @contextmanager
    def _free_if_raised(self, name: str) -> Iterator[None]:
        """Let a handler that catches what its call raises make it again, for nothing is remembered of it."""
        try:
            yield
        except BaseException:
            self._names.discard(name)
            raise

    def _made(self, name: str, result: Any, form: ResultForm) -> str:
        """Remember the result of a call, and return its text."""
        text = form.text_of(result)
        self._memory.remember(name, text)
        return text

    def kept_elsewhere(
        self,
        name: str,
        call: Callable[[Any], Any],
        result: Any,
        *,
        keeper: Callable[[Callable[[Any], str]], str],
    ) -> Any:
        """Return the result of a call that is remembered elsewhere. ``keeper`` makes it once, and keeps its text.

        A cursor is no result: ``cursor.execute`` returns it. A handler may make a call again that raised.
        """
        self._begin(name)
        form = ResultForm.of(f"step.sql({shown(name)}, …)", call, result)
        if inspect.iscoroutinefunction(call):
            raise RunFailed(f"{form.called} has an async function; write a plain one. Nothing was called")

        def text_of(handle: Any) -> str:
            made = call(handle)
            return form.text_of(None if hasattr(made, "fetchall") else made)

        self._is_elsewhere = True
        try:
            with self._free_if_raised(name):
                text = keeper(text_of)
            return form.read(text)
        finally:
            self._is_elsewhere = False

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
        if self._is_elsewhere:
            raise RunFailed(f"{shown(name)} is within the statements of step.sql; call it before or after them")
        if self._writes.are_apart:
            raise RunFailed(f"{shown(name)} is within a block of step.apply, which holds nothing but writes")
        self._names.add(name)


def idempotency_key(message: Message, name: str, reset_by: str | None) -> str:
    """Return the same UUID for the name in each attempt of the message's hop, and another one for any other hop.

    Another reset of the object, ``reset_by``, is another beginning of its first hop.
    """
    _check_name(name)
    return key_of(message, name, reset_by)


class ResultForm(NamedTuple):
    """The form in which the result of a call is remembered.

    ``called`` names the call in errors. ``adapter`` reads and writes results of a ``kind``; None is for plain JSON.
    """

    called: str
    kind: Any
    adapter: TypeAdapter[Any] | None

    @classmethod
    def of(cls, called: str, call: object, kind: Any) -> ResultForm:
        """Return the form of a call's result. Raises :class:`RunFailed` before any call."""
        if not callable(call):
            raise RunFailed(f"{called} has {shown(call)} to call; write a function. Nothing was done")
        if isinstance(kind, str):
            raise RunFailed(f"{called}: result is no type but text: {shown(kind)}. Nothing was called")
        if kind is None:
            return cls(called, kind, None)
        from pydantic import TypeAdapter  # most functions remember plain JSON, or nothing

        if hidden := _hidden_in(kind):
            raise RunFailed(f"{called}: result would not come back: {hidden}. Nothing was called")
        try:
            return cls(called, kind, TypeAdapter(kind))
        except PydanticUserError as error:
            problem = str(error).partition("\n")[0]
            raise RunFailed(f"{called}: result is no type: {problem}. Nothing was called") from None

    def read(self, text: str) -> Any:
        """Return the result. Raises :class:`OtherRelease` where the text is none of the kind."""
        if self.adapter is None:
            from flowguard.payload.results import from_text  # not needed to start a function

            return from_text(text)
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            why = f"what {self.called} remembers is no {shown(self.kind)}: {problems_of(error)}"
            raise OtherRelease(why) from None

    def text_of(self, result: object) -> str:
        """Return the text of a result. Raises :class:`RunFailed` where it has none, or would not be read again."""
        if isinstance(result, Coroutine):
            result.close()
            fix = "give the async function itself, and await what step.once returns"
            raise RunFailed(f"{self.called} got a coroutine from its call; {fix}. It was not awaited")
        problem = f"{self.called} has made its call, and cannot remember the result"
        if self.adapter is None and (hidden := _hidden_in(type(result))):
            raise RunFailed(f"{problem}: {hidden}")
        try:
            text = encode_json(result) if self.adapter is not None else _plain_text(result)
        except TypeError as error:
            raise RunFailed(f"{problem}: {error}") from None
        try:
            if self.adapter is not None:
                self.adapter.validate_json(text)
        except ValidationError as error:
            why = f"its text is no {shown(self.kind)}: {problems_of(error)}"
            raise RunFailed(f"{problem}: {why}") from None
        return text


def _hidden_in(kind: Any) -> str:
    """Say what a type of results hides. Nothing where all of it comes back."""
    hidden = hidden_in(kind)
    return f"{', '.join(hidden)} (a secret, or exclude=True); {BY_REFERENCE}" if hidden else ""


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

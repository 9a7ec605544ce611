"""The codec of a flow. It seals texts before they leave the process, and opens them again.

::

    text ── seal(bytes, about) ──▶ sealed bytes     in the run item, in S3
                                   sealed text      {"flowguard.sealed": "…"}, in a message

What is sealed stands where only sealed values stand: no text is taken for one because of how it begins.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from flowguard.errors import CannotOpen, KeyUnavailable, SettingsError, shown
from flowguard.startup.named_tuple import NamedTuple

PAYLOAD: Final = "payload"
END: Final = "end"
"""The kinds of what is sealed in messages: the payload of a stage, and the end of a run or another answer."""

_FIELD: Final = "flowguard.sealed"
_CODECS: Final = "flowguard.codecs."


class About(NamedTuple):
    """What a sealed value is, such as the state of the object of a flow.

    It is known from where the value stands, and authenticated: a value that is moved elsewhere is not opened there.
    """

    flow: str
    object_id: str
    kind: str

    def to_bytes(self) -> bytes:
        """Return it unambiguously, to be authenticated."""
        return json.dumps([self.flow, self.object_id, self.kind], separators=(",", ":")).encode()


class Codec(Protocol):
    """Seals and opens texts as bytes. One object of it serves all threads of a process."""

    def seal(self, data: bytes, about: About) -> bytes:
        """Return the sealed form. Raises :class:`flowguard.errors.KeyUnavailable` while it cannot be made."""
        ...

    def open(self, sealed: bytes, about: About) -> bytes:
        """Return what was sealed.

        Raises :class:`flowguard.errors.KeyUnavailable` while its keys cannot be asked, and
        :class:`flowguard.errors.CannotOpen` for what was changed, or is about something else.
        """
        ...


class Coded(Protocol):
    """A flow, as far as its codec goes."""

    @property
    def name(self) -> str: ...

    @property
    def codec(self) -> Codec | None: ...


class Codecs:
    """The codecs of the flows that a process serves. They are learned once, and read by any thread."""

    def __init__(self, flows: Iterable[Coded] = ()) -> None:
        self._by_flow: dict[str, Codec | None] = {}
        self._seals = False
        self.learn(flows)

    def learn(self, flows: Iterable[Coded]) -> None:
        """Note the codecs of these flows."""
        for flow in flows:
            self._by_flow[flow.name] = flow.codec
            self._seals = self._seals or flow.codec is not None

    def of(self, flow: str) -> Codec | None:
        """Return the flow's codec, None where it has none.

        Raises :class:`SettingsError` for a flow that was not learned where others seal: its texts would be plain.
        """
        if self._seals and flow not in self._by_flow:
            raise SettingsError("codec", f"the flow {shown(flow)} is not known here, and may have a codec")
        return self._by_flow.get(flow)


def is_of_another_kind(codec: Codec, other: Codec) -> bool:
    """Answer whether a codec certainly opens nothing that another seals: they are the two kinds of flowguard's own.

    Of a codec of a user's nobody knows what it opens, nor of one that is made of flowguard's.
    """
    kinds = {type(codec), type(other)}
    return len(kinds) > 1 and all(kind.__module__.startswith(_CODECS) for kind in kinds)


class HasCodec(Protocol):
    """A flow, as seen from its codec."""

    @property
    def name(self) -> str: ...

    @property
    def codec(self) -> Codec | None: ...


def codec_problems(asking: HasCodec, asked: HasCodec) -> Iterator[str]:
    """Yield why a flow could not read the answer of one that it asks: that one seals it."""
    if asked.codec is None:
        return
    fix = f"give {asking.name} one that opens what {asked.name} seals"
    if asking.codec is None:
        yield f"{asked.name} has a codec, which seals its answer, and {asking.name} has none; {fix}"
    elif is_of_another_kind(asking.codec, asked.codec):
        theirs, ours = (type(flow.codec).__name__ for flow in (asked, asking))
        yield f"{asked.name} seals its answer by {theirs}, and {asking.name} opens by {ours}; {fix}"


def opened(codec: Codec | None, sealed: bytes, about: About) -> bytes:
    """Decrypt a sealed value by its flow's codec.

    Raises :class:`CannotOpen` where the flow has no codec, or the codec fails. :class:`KeyUnavailable` and
    :class:`SettingsError` of the codec are raised as they are; the former is marked as being about this value alone.
    """
    if codec is None:
        raise CannotOpen(about.kind, f"it is sealed, and {about.flow} has no codec here")
    try:
        return codec.open(sealed, about)
    except KeyUnavailable as error:
        error.opening = True
        raise
    except (CannotOpen, SettingsError):
        raise
    except Exception as error:  # of a user's own codec, which may quote what it read
        raise CannotOpen(about.kind, f"its codec raised {type(error).__name__}") from error


def opened_text(codec: Codec | None, sealed: bytes, about: About) -> str:
    """Open a value that is text. Raises as :func:`opened` does."""
    try:
        return opened(codec, sealed, about).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CannotOpen(about.kind, "what was sealed is no text") from None


def sealed_text(codec: Codec, text: str, about: About) -> str:
    """Return the text sealed, as JSON for a message. Every destination takes that."""
    sealed = codec.seal(text.encode("utf-8", "surrogatepass"), about)
    return f'{{"{_FIELD}":"{b64encode(sealed).decode("ascii")}"}}'


def text_of_sealed(codec: Codec | None, message: str, about: About) -> str:
    """Return the text that :func:`sealed_text` sealed. Raises as :func:`opened` does."""
    return opened_text(codec, _sealed_in(message, about), about)


def _sealed_in(message: str, about: About) -> bytes:
    try:
        data = json.loads(message)
        sealed = data.get(_FIELD) if isinstance(data, dict) else None
        if isinstance(sealed, str):
            return b64decode(sealed, validate=True)
    except (ValueError, RecursionError):
        pass
    raise CannotOpen(about.kind, f"the message says that it is sealed, and has no {_FIELD!r} in base64")

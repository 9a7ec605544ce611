"""The codecs of people who look: they open what is sealed with the permissions of who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flowguard.codecs import compressed, encrypted
from flowguard.codecs.compressed import Compressed
from flowguard.codecs.encrypted import Encrypted, OpensAny
from flowguard.errors import CannotOpen, KeyUnavailable, SettingsError
from flowguard.payload.codec import About, Codec, Codecs, Coded
from flowguard.payload.data_keys import DataKeys
from flowguard.wire.message import Message
from flowguard.wire.sealed_message import opened_message


class ReadingCodecs(Codecs):
    """Opens sealed values of any flow for a person.

    The codecs of this package are known by their forms, those of a user's own by their ``flows``.
    ``make`` makes what asks for keys in the name of who looks. Nothing is asked before something is opened.
    """

    def __init__(self, make: Callable[[], DataKeys], flows: Iterable[Coded] = ()) -> None:
        super().__init__(flows)
        self._forms = _Forms(make)

    def of(self, flow: str) -> Codec:
        """Return what opens the flow's values."""
        known = self._by_flow.get(flow)
        return self._forms if known is None or isinstance(known, Encrypted) else known


class _Forms:
    """Opens each value by the form that its codec gave it."""

    def __init__(self, make: Callable[[], DataKeys]) -> None:
        self._openers: dict[bytes, Codec] = {
            compressed.MARK: Compressed(),
            encrypted.MARK: OpensAny(make),
        }

    def seal(self, data: bytes, about: About) -> bytes:
        raise SettingsError("codec", f"the {about.kind} is to be sealed by those who only look")

    def open(self, sealed: bytes, about: About) -> bytes:
        opener = self._openers.get(sealed[: len(encrypted.MARK)])
        if opener is None:
            raise CannotOpen(about.kind, "a codec of its own has sealed it; give its flow's class, as MODULE:FLOW")
        return opener.open(sealed, about)


def readable_body(codecs: Codecs, message: Message) -> str:
    """Return the payload's text of a message. Of one that cannot be opened, it is a text that says so."""
    try:
        return opened_message(codecs.of(message.flow), message).body
    except (CannotOpen, KeyUnavailable) as error:
        return f"({error})"

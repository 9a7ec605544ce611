"""The ends of runs and the answers to runs, sealed as they travel.

::

    a notice    {"flow": …, "object_id": …, "request_id": …, "status": …, "sealed": …}     for those who are notified
    an answer   {"flow": …, "object_id": …, "request_id": …, "sealed": …}                  for a run that waits

What is sealed is JSON: the end without what stands beside it. An answer says its status only there, so that a release
that knows no codec parks it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from flowguard.errors import CannotOpen, shown
from flowguard.payload.codec import END, About, Codec, opened_text
from flowguard.startup.named_tuple import NamedTuple

_FIELD: Final = "sealed"


class SealedEnd(NamedTuple):
    """What is sealed of an end, of which flow and object it is."""

    flow: str
    object_id: str
    sealed: bytes

    @classmethod
    def read(cls, body: str) -> SealedEnd:
        """Read the body of a message that says that it is sealed. Raises ValueError for one that is not."""
        match json.loads(body):
            case {"flow": str(flow), "object_id": str(object_id), "sealed": str(sealed)}:
                return cls(flow, object_id, _bytes_of(sealed))
            case _:
                raise ValueError("says that its body is sealed, and that has no flow, object_id and sealed")

    def opened(self, codec: Codec | None) -> str:
        """Return the JSON text that was sealed. Raises as :func:`flowguard.payload.codec.opened` does."""
        if codec is None:
            raise CannotOpen(END, f"it is of {shown(self.flow)}, which seals, and no codec is there to open it")
        return opened_text(codec, self.sealed, About(self.flow, self.object_id, END))


def sealed_end(codec: Codec, flow: str, object_id: str, clear: Mapping[str, Any], text: str) -> str:
    """Return the body of a message that says what is ``clear``, and has the JSON text sealed."""
    sealed = codec.seal(text.encode("utf-8", "surrogatepass"), About(flow, object_id, END))
    return json.dumps({**clear, _FIELD: b64encode(sealed).decode("ascii")}, separators=(",", ":"))


def _bytes_of(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("says that its body is sealed, and that is no base64") from None

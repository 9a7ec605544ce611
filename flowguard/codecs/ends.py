"""The end of a run, opened by those who are notified of it."""

from __future__ import annotations

import json
from typing import Any

from flowguard.errors import CannotOpen
from flowguard.payload.codec import END, Codec
from flowguard.wire.sealed_end import SealedEnd


def opened_end(codec: Codec, body: str) -> dict[str, Any]:
    """Return the end of a run of a flow with a codec, from the body of its Complete message.

    It has the keys of a plain one: ``result`` and ``error`` beside those that are not sealed. A body that is not sealed
    is returned as it is. Raises :class:`flowguard.errors.CannotOpen`, :class:`flowguard.errors.KeyUnavailable`, and
    ValueError for what is no end.
    """
    end = json.loads(body)
    if not isinstance(end, dict):
        raise ValueError("this is no end of a run: it is no JSON object")
    sealed = end.pop("sealed", None)
    if sealed is None:
        return end
    opened = json.loads(SealedEnd.read(body).opened(codec))
    if not isinstance(opened, dict):
        raise CannotOpen(END, "what was sealed is no end of a run")
    return {**end, **opened}

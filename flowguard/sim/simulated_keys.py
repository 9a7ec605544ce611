"""The data keys of a simulation. They are no secret, the same in each run, and ask no service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from flowguard.payload.data_keys import NewDataKey

_MARK: Final = b"simulated:"


class SimulatedDataKeys:
    """Makes the data key of a key and a context from their names, and opens no other."""

    def make(self, key: str, context: Mapping[str, str]) -> NewDataKey:
        """Make the data key."""
        sealed = _MARK + json.dumps([key, dict(context)]).encode()
        return NewDataKey(hashlib.sha256(sealed).digest(), sealed, key)

    def opened(self, sealed: bytes, keys: Sequence[str], context: Mapping[str, str]) -> bytes | None:
        """Open a data key that was made here."""
        return next((made.secret for key in keys if (made := self.make(key, context)).sealed == sealed), None)


SIMULATED_DATA_KEYS: Final = SimulatedDataKeys()

"""The body of a message that goes on after a wait. The payload of its stage is made of the answers, not of it."""

from __future__ import annotations

import json

from flowguard.startup.named_tuple import NamedTuple


class ResumedBody(NamedTuple):
    """How a wait has ended, with the deadline (ms) until which answers may come.

    ``until`` is 0 where the message is of a release that did not say it.
    """

    end: str
    until: int = 0

    def to_text(self) -> str:
        """Return the JSON text."""
        return json.dumps({"wait": self.end, "until": self.until})

    @classmethod
    def read(cls, text: str) -> ResumedBody:
        """Read what :meth:`to_text` wrote. Whatever else stands there says nothing."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return cls("")
        if not isinstance(body, dict):
            return cls("")
        end, until = body.get("wait"), body.get("until")
        return cls(end if isinstance(end, str) else "", until if type(until) is int else 0)

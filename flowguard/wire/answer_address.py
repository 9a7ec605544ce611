"""The address of an answer: the run, the hop and the name that wait for it.

The asked party brings it back unchanged, in the ``flowguard`` attribute of its answer.
"""

from __future__ import annotations

import json
from typing import Any

from flowguard.names.ids import ObjectId, RequestId, id_problem
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import LATEST_TIME, MOST_HOPS

LONGEST_AWAITED_NAME = 64

_FORM = "flowguard-answer-1"
_LONGEST_SIGNATURE = 128


class AnswerAddress(NamedTuple):
    """Names one thing that a run waits for.

    ``requested_at`` tells the run from another one with its request id.

    ``admits`` says that the resumed stage takes a failure as an answer. ``signature`` is the asking function's own,
    where messages are signed.
    """

    flow: str
    object_id: ObjectId
    request_id: RequestId
    requested_at: int
    hop: int
    name: str
    admits: bool = False
    signature: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what stands in the ``flowguard`` attribute."""
        return {
            "flow": self.flow,
            "object": self.object_id,
            "request": self.request_id,
            "at": self.requested_at,
            "hop": self.hop,
            "name": self.name,
            **({"admits": True} if self.admits else {}),
            **({"sig": self.signature} if self.signature is not None else {}),
        }

    @property
    def run(self) -> tuple[ObjectId, RequestId, int]:
        """Return what names the run in its flow. The last part is when its request was made (ms)."""
        return self.object_id, self.request_id, self.requested_at

    @property
    def statement(self) -> str:
        """Return what a signature covers, unambiguous and in ASCII."""
        return json.dumps([_FORM, *self._replace(signature=None)], separators=(",", ":"))

    @classmethod
    def parse(cls, data: object) -> AnswerAddress:
        """Read what :meth:`as_json` wrote. Raises ValueError, naming the part, for anything else."""
        if not isinstance(data, dict):
            raise ValueError("has the address of an answer that is not a JSON object")
        signature = data.get("sig")
        if signature is not None and not (isinstance(signature, str) and len(signature) <= _LONGEST_SIGNATURE):
            raise ValueError(f"has the address of an answer whose 'sig' is no text of at most {_LONGEST_SIGNATURE}")
        return cls(
            flow=_text(data, "flow"),
            object_id=ObjectId(_text(data, "object")),
            request_id=RequestId(_text(data, "request")),
            requested_at=_whole(data, "at", 0, LATEST_TIME),
            hop=_whole(data, "hop", 1, MOST_HOPS),
            name=_text(data, "name", LONGEST_AWAITED_NAME),
            admits=data.get("admits") is True,
            signature=signature,
        )


def _whole(data: dict[str, Any], name: str, least: int, most: int) -> int:
    value = data.get(name)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"has the address of an answer whose {name!r} is no whole number from {least} to {most:,}")
    return value


def _text(data: dict[str, Any], name: str, longest: int | None = None) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"has the address of an answer without {name!r}")
    if problem := id_problem(value):
        raise ValueError(f"has the address of an answer whose {name!r} {problem}")
    if longest is not None and len(value) > longest:
        raise ValueError(
            f"has the address of an answer whose {name!r} has {len(value)} characters of at most {longest}"
        )
    return value

"""What the flows have sent to the outside, taken out of the queues while the soak goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.proofs.soak.place import OF_INSIDER
from tests.proofs.soak.places import DEAD, NEWS, TOLD
from tests.proofs.soak.sandbox import Sandbox, id_of
from tests.sent_ids import readable


class Told(NamedTuple):
    """A Complete message: its own id, and what it says."""

    id: str
    request_id: str
    status: str
    error: str = ""


@dataclass(frozen=True)
class Mail:
    """Copies included. ``letters`` are the request ids of dead letters, ``news`` the ids of the stages' messages.

    ``forged`` are the dead letters of the insider.
    """

    letters: Sequence[str] = ()
    told: Sequence[Told] = ()
    news: Sequence[str] = ()
    forged: Sequence[str] = ()


@dataclass
class Postman:
    """Takes what lies in the queues whenever he is sent."""

    sandbox: Sandbox
    _letters: list[str] = field(default_factory=list)
    _told: list[Told] = field(default_factory=list)
    _news: list[str] = field(default_factory=list)
    _forged: list[str] = field(default_factory=list)

    def collect(self) -> None:
        for letter in self.sandbox.take(DEAD):
            forged = OF_INSIDER.search(str(letter))
            if forged is None:
                self._letters.append(id_of(letter) if "MessageAttributes" in letter else str(letter["Body"]))
            else:
                self._forged.append(forged[0])
        self._told += [_told(message["Body"], readable(id_of(message))) for message in self.sandbox.take(TOLD)]
        self._news += [readable(id_of(message)) for message in self.sandbox.take(NEWS)]

    def mail(self) -> Mail:
        self.collect()
        return Mail(tuple(self._letters), tuple(self._told), tuple(self._news), tuple(self._forged))


def _told(body: str, own: str) -> Told:
    said = json.loads(body)
    return Told(own, said["request_id"], said["status"], said.get("error") or "")

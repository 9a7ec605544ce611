"""What the processes race through here: a page of two stages, which is kept until it is reset."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.flow import UNTIL_RESET, Flow
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.signing import Keyring, Keys, KeySigner, signed_attributes
from tests.proofs.races.shared import START
from tests.proofs.races.shared_file import Record, sqs_record

MADE, INBOX, READERS = "race-made", "pages", "readers"
PAGES: Final = 20
LEASE: Final = 150
"""In ticks of the shared clock."""

SIGNER: Final = KeySigner(Keyring(lambda: Keys.parse("races:a-key-that-is-no-secret-of-anybody"), ManualClock()))
"""The key of all processes: the order to reset is believed only signed, and so is a ``reply_to``."""

_LEASE = timedelta(milliseconds=LEASE)


class Wanted(BaseModel):
    page: str


class Read(Stage[Wanted], name="read", then="make", inbox=INBOX, timeout=_LEASE):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Make.message(wanted)


class Make(Stage[Wanted], name="make", inbox=INBOX, timeout=_LEASE):
    """Count how often the page was made, in the transaction of the run's end."""

    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        step.update(MADE, {"id": wanted.page}, "ADD times :one", values={":one": 1})
        return Done({"page": wanted.page, "by": step.request_id})


class Pages(Flow, name="pages", object_id="page", keep_result=UNTIL_RESET, answers=INBOX):
    stages = (Read, Make)


def page(number: int) -> str:
    return f"page-{number % PAGES}"


def caller(number: int) -> str:
    return f"caller-{number}"


def asked(number: int) -> Record:
    """Return the record of a request. Their times are near each other, and in no order."""
    message, _ = Pages.request(
        Wanted(page=page(number)),
        request_id=RequestId(caller(number)),
        requested_at=START - number * 7_919 % 1_000,
        reply_to=Queue(READERS),
    )
    return sqs_record(f"m{number}", INBOX, message.body, signed_attributes(message, SIGNER))

"""A message that was sent once more."""

from __future__ import annotations

from typing import Any

from flowguard.wire.attributes import Attribute
from tests.make_records import sqs_record

RETRIED = {"uniquerequestid": Attribute.string("r-1"), "retry": Attribute.number(1)}


def received(sent: tuple[str, dict[str, Attribute]]) -> dict[str, Any]:
    """The record of a message that was sent with this body and these attributes."""
    return sqs_record(sent[0], sent[1], messageId="m-2")

"""The text of a message where its destination has no attributes: they go into the text.

Here and not beside the calls, because the size of a message is that of the text which goes over the wire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.notification import to_json


def bus_detail(body: str, attributes: Mapping[str, Attribute]) -> str:
    """Return the detail of an EventBridge event. It is always an object, with the attributes under ``flowguard``."""
    addition = {"flowguard": {name: a.value for name, a in attributes.items()}}
    try:
        read = json.loads(body, parse_constant=_refuse)
        return to_json((read if isinstance(read, dict) else {"payload": read}) | addition)
    except (ValueError, RecursionError):  # not JSON, or JSON that nobody else would read: 1e999, 100,000 levels
        return to_json({"payload": body, **addition})


def function_payload(message_id: str, body: str, attributes: Mapping[str, Attribute]) -> str:
    """Return the event of an invoked function.

    It is one record in the shape of SQS, so that id and attributes go along.
    """
    record: dict[str, Any] = {
        "messageId": message_id,
        "body": body,
        "attributes": {},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, attributes),
        "eventSource": "aws:lambda",
    }
    return to_json({"Records": [record]})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")

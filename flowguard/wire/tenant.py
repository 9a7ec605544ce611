"""The tenant whose work a run is. A standard queue gives the messages of quiet tenants out before those of a busy one.

::

    payload, start(tenant=…) or a record's group ─▶ "tenant" in flowguard's own attribute ─▶ hop, retry, ask, answer …
                                                                                           └▶ MessageGroupId of each
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.destinations import Destination, Queue, Topic
from flowguard.startup.late_pattern import late_pattern
from flowguard.wire.attributes import Attribute

TENANT: Final = "tenant"
"""The key of flowguard's own attribute that names the tenant."""

_PLAIN: Final = late_pattern(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
"""What SQS takes as a message group, and a FIFO queue as a deduplication id."""


def plain_id(text: str) -> str:
    """Return the text where SQS takes it as a message group or deduplication id, else its digest."""
    return text if _PLAIN.fullmatch(text) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def tenant_named(text: str | None) -> str | None:
    """Return the tenant that a text names, as SQS takes it. None for no text, or an empty one."""
    return plain_id(text) if text else None


def read_tenant(value: object) -> str | None:
    """Return the value if it is a tenant; else None. A wrong one costs a message its turn, and nothing else."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else None


def tenant_for(to: Destination, group: str | None, tenant: str | None) -> str | None:
    """Return the ``group`` that the sender gives it as its tenant, unless that orders messages."""
    if not group or (isinstance(to, Queue | Topic) and to.fifo):
        return tenant
    return plain_id(group)


def of_tenant(tenant: str | None) -> dict[str, str]:
    """Return what flowguard's own attribute says of the tenant: nothing where there is none."""
    return {} if tenant is None else {TENANT: tenant}


def tenant_in(place: Attribute | None) -> str | None:
    """Return the tenant in flowguard's own attribute. Reads no JSON where none can be there."""
    if place is None or f'"{TENANT}":' not in place.value:
        return None
    try:
        data: Any = json.loads(place.value)
    except (ValueError, RecursionError):
        return None
    return read_tenant(data.get(TENANT)) if isinstance(data, Mapping) else None

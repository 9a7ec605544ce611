"""Checks of what a test hands to the runner, made before anything changes.

Each check raises :class:`flowguard.errors.SettingsError`, which names the method and what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.destinations import Destination
from flowguard.errors import EnvelopeError, SettingsError
from flowguard.flow import AnyFlow, is_flow
from flowguard.items.rows import row
from flowguard.names.ids import RequestId
from flowguard.project.declared import TableKey, low_level, read_key
from flowguard.wire.attributes import Attribute


def check_flows(method: str, flows: Iterable[object]) -> None:
    example = "MyFlow, payload" if method == "send" else "MyFlow"
    for flow in flows:
        if not is_flow(flow):
            raise _refused(method, f"{flow!r} is no Flow; give the class of a flow: {method}({example})")


def check_request(flow: AnyFlow, payload: Any, **about: Any) -> None:
    """Check the arguments of ``send``. ``about`` are the named ones; those that are None were not given."""
    for name, (fits, fix) in _ABOUT_A_REQUEST.items():
        value = about[name]
        if value is not None and not fits(value):
            raise _refused("send", f"{name} is {value!r}; give {fix}")
    try:
        flow.request(payload, request_id=RequestId("any"), requested_at=0, object_id=about["object_id"])
    except TypeError as wrong:
        raise _refused("send", str(wrong)) from None


def check_event(number: int, event: object) -> None:
    """Check an event for two slips whose outcome would mislead. Raises EnvelopeError.

    Any other JSON may be an event.
    """
    record = f"event {number} of deliver"
    if isinstance(event, BaseModel):
        kind = type(event).__name__
        fix = "send(MyFlow, payload) asks for a run, sqs_event(queue, payload) makes an event"
        raise EnvelopeError(record, "(all of it)", f"{kind} is a payload and no event; {fix}")
    if isinstance(event, list | tuple) and any(isinstance(part, Mapping) and "Records" in part for part in event):
        raise EnvelopeError(record, "(all of it)", "it is a list of events; give them one by one: deliver(*events)")


def read_table(name: object, key: object) -> TableKey:
    """Read the key of a table that a test names."""
    for kind, value in (("name", name), ("key", key)):
        if not (_is_text(value) or (kind == "key" and isinstance(value, tuple | Mapping))):
            raise _refused("table", f'{kind} is {value!r}; give the table and its hash key: table("prices", "sku")')
    try:
        return read_key(str(name), key)
    except SettingsError as error:
        raise _refused("table", error.problem) from None


def read_items(table: str, items: Iterable[object]) -> list[dict[str, Any]]:
    """Read items into the low-level form that ``put_item`` takes."""
    stored = []
    for number, item in enumerate(items, 1):
        values = row(item, "table") if isinstance(item, BaseModel) else item
        if not isinstance(values, Mapping):
            fix = 'give each item as a dict or a pydantic model: table("prices", "sku", {"sku": "tea", "price": 4})'
            raise _refused("table", f"item {number} of {table} is {item!r}; {fix}")
        stored.append(low_level(f"item {number} of {table}", values))
    return stored


def check_within(within: object) -> None:
    if not isinstance(within, timedelta) or within < timedelta(0):
        raise _refused("run", f"within is {within!r}; give a time from now on: run(within=timedelta(minutes=5))")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_moment(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_place(value: object) -> bool:
    return isinstance(value, Destination) or _is_text(value)


def _are_attributes(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(name) and isinstance(attribute, Attribute | str) for name, attribute in value.items()
    )


_ABOUT_A_REQUEST: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "object_id": (_is_text, "a text"),
    "request_id": (_is_text, "a text"),
    "requested_at": (_is_moment, "ms since 1970, a whole number"),
    "reply_to": (_is_place, "the name of a queue, or a Queue, Topic, Function or Bus"),
    "attributes": (_are_attributes, 'each by its name: {"tenant": "t1"}'),
    "tenant": (_is_text, "a text"),
    "lane": (_is_text, "a text"),
}


def _refused(method: str, problem: str) -> SettingsError:
    return SettingsError(f"flow_runner.{method}", problem)

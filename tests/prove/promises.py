"""What flowguard promises beside the explorer's own invariants, of run items and messages: checked in own cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from flowguard.events import Event
from flowguard.message import PLACE
from flowguard.run import RunItem, Status
from flowguard.testing.explore import View
from flowguard.testing.explore.history import History
from flowguard.testing.explore.posted import Posted

_TWO_RETENTIONS: Final = 2 * 14 * 86_400_000
_HOUR: Final = 3_600_000
TENANT: Final = "tenant"


def an_item_lives_for_two_retentions(view: View) -> str | None:
    """From each claim and each commit on (docs/decisions/0003)."""
    calls = _history(view).calls
    return next(
        (
            f"{version.key} may go at {version.item.ttl}"
            for version in _history(view).versions
            if version.item is not None
            if version.item.ttl * 1000 < calls[version.call - 1].at + _TWO_RETENTIONS - _HOUR
        ),
        None,
    )


def an_item_says_what_is_so(view: View) -> str | None:
    """Stages passed until the run is complete; a result, or an error, of a run that has ended and of no other."""
    return next((found for item in _items(view) for found in _untrue(item)), None)


def _untrue(item: RunItem) -> Iterator[str]:
    wanted = item.status is not Status.COMPLETED
    if (item.stages.get(item.stage) == item.request_id) is not wanted:
        yield f"{item.status} at hop {item.hop} with the stages {dict(item.stages)}"
    if (item.error is not None) is not (item.status is Status.FAILED):
        yield f"{item.status} with the error {item.error}"
    if item.result is not None and item.status is not Status.COMPLETED:
        yield f"{item.status} with the result {item.result}"
    if item.status is Status.FAILED and not item.done:
        yield "FAILED and not done"


def a_dead_letter_says_why(view: View) -> str | None:
    """Its first error, and after how many attempts it became one."""
    for one in _history(view).posted:
        if one.name == "dead.fifo" or one.name.endswith("-dead-letters"):
            place = _place(one)
            if missing := {"error", "attempts", "version"} - place.keys():
                return f"{one.id} does not say {', '.join(sorted(missing))}"
    return None


def a_group_is_an_object(view: View) -> str | None:
    """What FIFO queues get of flowguard's own is grouped by the object that it is for."""
    for one in _history(view).posted:
        own = _place(one).get("object")
        if one.to.endswith(".fifo") and own is not None and one.group != own:
            return f"{one.id} to {one.name} has the group {one.group}"
    return None


def what_is_carried_goes_along(view: View) -> str | None:
    """Where a request has the attribute, everything that is sent for it has; what is sent again, inside its body."""
    posted = [one for one in _history(view).posted if TENANT not in one.attributes and f'"{TENANT}"' not in one.body]
    return next((f"{one.id} to {one.to}" for one in posted), None)


def a_result_stays(view: View) -> str | None:
    """In the item of a run that has one."""
    done = [item for item in _items(view) if item.status is Status.COMPLETED]
    return next((f"{item.request_id} has no result" for item in done if item.result is None), None)


def an_item_says_where_it_is(view: View) -> str | None:
    """The stage whose worker wrote it."""
    at_work = {one.worker: one.stage for one in _history(view).deliveries if one.stage is not None}
    return next(
        (
            f"{version.key} says {version.item.stage}, and {at_work[version.worker]} wrote it"
            for version in _history(view).versions
            if version.item is not None and version.worker in at_work
            if version.item.stage != at_work[version.worker]
        ),
        None,
    )


def nothing_breaks_by_itself(view: View) -> str | None:
    """A service may fail, and the network; flowguard's own code does not."""
    told = (str(happening.facts.get("why", "")) for _, happening in _history(view).told(Event.BROKEN))
    crashed = (one.why or "" for one in _history(view).deliveries)
    return next((why for why in (*told, *crashed) if why.startswith(_MISTAKES)), None)


_MISTAKES: Final = ("AssertionError", "AttributeError", "KeyError", "NameError", "TypeError", "UnboundLocalError")

ALWAYS: Final = (
    nothing_breaks_by_itself,
    an_item_says_where_it_is,
    an_item_lives_for_two_retentions,
    an_item_says_what_is_so,
    a_dead_letter_says_why,
    a_group_is_an_object,
)


def _history(view: View) -> History:
    return view._history


def _items(view: View) -> list[RunItem]:
    return [version.item for version in _history(view).versions if version.item is not None]


def _place(message: Posted) -> dict[str, Any]:
    found = message.attributes.get(PLACE)
    said: Any = json.loads(found.value) if found is not None else {}
    return dict(said)

"""First messages that have nothing to do with one another, so that each part of them is explored by itself.

Two runs that touch nothing of one another's commute: every order of their deliveries ends alike, and a fault of one is
none of the other. Explored together, n such runs have n! orders and as many interleavings with each held-up worker; by
themselves they have one each, and each schedule is shorter.
"""

from __future__ import annotations

from collections.abc import Mapping

from flowguard.testing.explorer.checks.whole_runs import first_records
from flowguard.testing.explorer.record.happened import touched_at
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.touched import Touched
from flowguard.testing.explorer.run.inbox import Coming
from flowguard.testing.explorer.search.runs import Messages


def parts_of(first: History, coming: Mapping[int, Coming]) -> list[Messages]:
    """Return the parts of the messages, which are given by their numbers, by the undisturbed run of all.

    Returns one part where that run does not show what each touches.

    What a module keeps from one record for the next is no call that could be seen, and a message that nobody received
    might have done anything.
    """
    ids = {number: message.recorded.envelope.message_id for number, message in coming.items()}
    touched = _touched_by_message(first)
    if first.kept or not touched.keys() >= set(ids.values()):
        return [tuple(ids)]
    numbers: dict[str, Messages] = {}
    for number, name in ids.items():
        numbers[name] = (*numbers.get(name, ()), number)
    return joined({messages: touched[name] for name, messages in numbers.items()})


def joined(touched: Mapping[Messages, Touched]) -> list[Messages]:
    """Return these parts after joining those that meet."""
    parts: dict[Messages, Touched] = {}
    for messages, touches in touched.items():
        together, numbers = Touched(), set(messages)
        together.join(touches)
        for meeting in [part for part in parts if parts[part].meets(touches)]:
            together.join(parts.pop(meeting))
            numbers.update(meeting)
        parts[tuple(sorted(numbers))] = together
    return sorted(parts)


def _touched_by_message(history: History) -> dict[str, Touched]:
    """Return by the id of each first message what its run has touched."""
    records = [delivery.record for delivery in history.deliveries]
    firsts = dict(zip(records, first_records(history), strict=True))
    names = {delivery.record: delivery.message_id for delivery in history.deliveries}
    touched: dict[str, Touched] = {}
    for delivery in history.deliveries:
        for record in (delivery.record, *delivery.batch):
            name = names.get(firsts.get(record, record), "")
            touched.setdefault(name, Touched()).join(touched_at(history, delivery))
    return touched

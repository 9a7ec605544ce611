"""The comparison of an end with the undisturbed one: tables item by item and messages by their ids.

With several requests for one object there is more than one right end. Then the end must be that of *some* order of
deliveries in which each record is handled once, undisturbed.

A run that failed and went on after a redrive has to end like one that never failed. One that failed again has to end
like one that failed once, at the next redrive (``failures.py``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from flowguard.aws.ledger import lasting
from flowguard.events import EventType
from flowguard.project.declared import Keys, TableKey
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import Status
from flowguard.sim.posted_messages import Posted, as_posted
from flowguard.testing.explorer.checks.either import Forms, or_nothing
from flowguard.testing.explorer.checks.failures import Failures, last_of_runs
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, Problem
from flowguard.testing.explorer.record.history import BUCKETS, History
from flowguard.testing.explorer.record.naming import RESTARTED, Names
from flowguard.testing.explorer.record.parked import as_sent
from flowguard.testing.explorer.record.view import Same, body_of, id_in_body
from flowguard.testing.explorer.record.wait_messages import address_in, asks_a_group
from flowguard.wire.message import FLOW_STAGE

Free: TypeAlias = Mapping[str, Sequence[str]]
"""What may differ: attributes by table, and by queue the fields of bodies. ``{"orders": ["updated_at"]}``"""


@dataclass(frozen=True)
class End:
    """The state that a schedule left behind. Two ends with equal ``digest`` are equal.

    ``final`` are messages that need not be those of an undisturbed end, ``repeated`` those of which a copy may differ,
    ``optional`` those that need not be sent.
    """

    tables: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
    messages: Mapping[tuple[str, str], str]
    anonymous: Mapping[tuple[str, str], int]
    failed: frozenset[tuple[str, str]]
    digest: str = field(compare=False, default="")
    final: frozenset[tuple[str, str]] = frozenset()
    repeated: frozenset[tuple[str, str]] = frozenset()
    optional: frozenset[tuple[str, str]] = frozenset()

    def allows(self, key: tuple[str, str], should: str | None) -> bool:
        """Answer whether a message may be what it is, where an undisturbed end has ``should``."""
        copies = f" | {self.messages.get(key)} | "
        if should is None and key in self.optional:
            return True
        return key in self.final or (key in self.repeated and should is not None and f" | {should} | " in copies)


_OF_OBJECTS: Final = TableKey(("key",), ("S",))


def end_of(
    history: History, keys: Keys, free: Free, same: Same | None = None, either: Mapping[str, Forms] | None = None
) -> End:
    """Build the end of a history. ``keys`` maps tables to the names of their hash keys.

    ``either`` are the forms of which each item or body has to have one.
    """
    forms = either or {}
    last = last_of_runs(history)
    failures = Failures.of(history, last)
    names = failures.names
    tables = {
        table: _by_key(
            [_named(item, names) for item in items] if names.waits else items,
            _OF_OBJECTS if table.startswith(BUCKETS) else history.row_keys.get(table) or keys.get(table),
            frozenset(free.get(table, ())),
            forms.get(table),
        )
        for table, items in history.tables.items()
    }
    sent = [
        posted
        for posted in (*map(as_sent, history.posted), *_dropped(history))
        if not _is_inner(posted, history)
        and not failures.is_overcome(posted)
        and not history.is_of_insider(posted.call)
    ]
    named: dict[tuple[str, str], set[str]] = {}
    final: set[tuple[str, str]] = set()
    repeated: set[tuple[str, str]] = set()
    optional: set[tuple[str, str]] = set()
    for posted in sent:
        if (name := failures.id_of(posted) or id_in_body(posted, same or {})) is not None:
            key = (posted.to, name)
            content = _body(posted, free, forms, without=("error",) if failures.is_notice(posted) else ())
            named.setdefault(key, set()).add(names.plain_text(_body_text(content)))
            if _is_optional(content):
                optional.add(key)
            if failures.is_final(posted):
                final.add(key)
            if failures.may_repeat(posted):
                repeated.add(key)
    nameless = [posted for posted in sent if posted.id is None and id_in_body(posted, same or {}) is None]
    anonymous: Counter[tuple[str, str]] = Counter()
    for message in nameless:
        content = _body(message, free, forms)
        key = message.to, names.plain_text(_body_text(content))
        anonymous[key] = 1 if message.is_letter else anonymous[key] + 1  # each copy of what names no request leaves one
        if _is_optional(content):
            optional.add(key)
    messages = {key: " | ".join(sorted(bodies)) for key, bodies in named.items()}
    failed = frozenset(run for run, item in last.items() if item.status is Status.FAILED)
    digest = repr((tables, sorted(messages.items()), sorted(anonymous.items()), sorted(failed)))
    once = frozenset(key for key in final if len(named[key]) == 1)
    return End(tables, messages, dict(anonymous), failed, digest, once, frozenset(repeated), frozenset(optional))


def differences(end: End, expected: End) -> list[Problem]:
    """Return everything in which an end differs from an undisturbed one."""
    problems = [problem for table in end.tables for problem in _table(table, end, expected)]
    for key in sorted(expected.messages.keys() | end.messages.keys()):
        should, is_ = expected.messages.get(key), end.messages.get(key)
        if should != is_ and not end.allows(key, should) and not (is_ is None and key in expected.optional):
            problems.append(Problem(EQUIVALENCE, key[0], f"message {key[1]}", should, is_))
    for key in sorted(expected.anonymous.keys() | end.anonymous.keys()):
        times, was = expected.anonymous.get(key, 0), end.anonymous.get(key, 0)
        is_optional = key in (end.optional | expected.optional) and {times, was} == {0, 1}
        if times != was and not is_optional:
            problems.append(Problem(EQUIVALENCE, key[0], f"times sent without an id: {_short(key[1])}", times, was))
    problems += [
        Problem("I14", key, "the run failed, and only answers were lost", "COMPLETED", "FAILED")
        for key, _ in sorted(end.failed - expected.failed)
    ]
    return problems


def nearest(end: End, references: Iterable[End]) -> list[Problem]:
    """Return the differences from the undisturbed end that is most like this one. Empty where it equals one."""
    return min((differences(end, reference) for reference in references), key=len, default=[])


def _table(table: str, end: End, expected: End) -> Iterator[Problem]:
    actual, wanted = end.tables[table], expected.tables.get(table, {})
    for key in sorted(actual.keys() | wanted.keys()):
        ours, theirs = actual.get(key, ()), wanted.get(key, ())
        if len(ours) == len(theirs) == 1:
            yield from _attributes(table, key, ours[0], theirs[0])
        elif ours != theirs and not (len(ours) + len(theirs) == 1 and or_nothing((*ours, *theirs)[0].values())):
            yield Problem(EQUIVALENCE, table, key, _items(theirs), _items(ours))


def _items(items: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(items)} items" if len(items) > 1 else "an item" if items else "no item"


def _attributes(table: str, key: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Problem]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield Problem(EQUIVALENCE, table, f"{key}: {name}", theirs.get(name), ours.get(name))


def _by_key(
    items: Sequence[Mapping[str, Any]], key: TableKey | None, free: frozenset[str], forms: Forms | None
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        kept = {name: value for name, value in sorted(lasting(item).items()) if name not in free}
        if key is not None and kept.keys() >= set(key.names):
            name = ", ".join(f"{part} {kept[part]}" for part in key.names)
        else:
            name = f"with {_short(json.dumps(kept, sort_keys=True, default=str))}"
        by_name.setdefault(name, []).append(kept if forms is None else forms.folded(kept))
    return by_name


def _dropped(history: History) -> Iterator[Posted]:
    """Yield the asks of waits that ended before their asks were sent.

    Another answer ended them, or a newer run took over. Nobody needs to be asked any more.
    """
    hops = {
        (version.key, version.item.request_id): version.item.hop
        for version in history.versions
        if version.item is not None
    }
    latest = history.latest()
    for version in history.versions:
        item = version.item
        if item is None or item.status is not Status.WAITING or item.outbox is None:
            continue
        last = latest.get(version.key)
        if hops[version.key, item.request_id] > item.hop or (last and last.request_id != item.request_id):
            yield from (as_posted(send, version.call) for send in item.outbox.sends if send.kind is Kind.ASK)


def _named(value: Any, names: Names) -> Any:
    """Return a value with plain names in each of its texts."""
    match value:
        case str():
            return names.plain_text(value)
        case dict():
            return {key: _named(part, names) for key, part in value.items()}
        case list() | tuple():
            return [_named(part, names) for part in value]
        case _:
            return value


def _is_inner(message: Posted, history: History) -> bool:
    """Answer whether a message is the flows' own wiring.

    Those are later hops (parked ones too), retries and messages that go on saving a group, but no dead letters, and
    what settles a wait of theirs. A message from one plain function to another is wiring, too. A copy of it counts by
    what it leads to.
    """
    if message.to in history.inner or message.says_to:
        return True
    if message.to in history.answers and (
        address_in(attributes := message.attributes) is not None or asks_a_group(attributes)
    ):
        return True
    if message.id is not None and RESTARTED.fullmatch(message.id) and not (message.is_letter or message.from_user):
        return True
    place = message.place
    if FLOW_STAGE not in message.attributes or message.is_letter:
        return False
    waits = place.turn is not None
    return place.hop > 1 or place.retry > 0 or place.since > 0 or waits or _goes_on(message, history)


def _goes_on(message: Posted, history: History) -> bool:
    """Answer whether a message is a request's own, with which another invocation goes on to save its group."""
    if message.from_user:
        return False
    continued = (event.message for _, event in history.events(EventType.CONTINUED, EventType.PUT_OFF))
    return any(other is not None and message.id == other.request_id for other in continued)


def _body(message: Posted, free: Free, forms: Mapping[str, Forms], without: Sequence[str] = ()) -> Any:
    """Return what is compared of a message. None for a dead letter, which tells when it failed, too."""
    if message.is_letter:
        return None
    body = _without_wrapping(message)
    if isinstance(body, dict):
        left_out = {*free.get(message.name, ()), *without}
        body = {name: value for name, value in body.items() if name not in left_out}
        if (of_body := forms.get(message.name)) is not None:
            body = of_body.folded(body)
    return json.dumps(body, sort_keys=True) if not isinstance(body, dict) else body


def _body_text(content: Any) -> str:
    return "" if content is None else content if isinstance(content, str) else json.dumps(content, sort_keys=True)


def _is_optional(content: Any) -> bool:
    return isinstance(content, dict) and or_nothing(content.values())


def _without_wrapping(message: Posted) -> Any:
    """Return the body without what flowguard puts into it where a service has no attributes. One of those is a time."""
    body = body_of(message)
    if message.id is None or not isinstance(body, dict):
        return body
    if message.to.startswith("lambda:") and "Records" in body:
        return [record.get("body") for record in body["Records"]]
    return {name: value for name, value in body.items() if name != "flowguard"}


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"

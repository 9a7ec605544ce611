"""What ``@pytest.mark.flow_explore`` asks for, checked as a whole before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from flowguard.errors import FlowguardError, SettingsError
from flowguard.flow import is_flow
from flowguard.project.declared import read_items, read_keys
from flowguard.sim.world import START
from flowguard.testing.explorer import (
    Invariant,
    PlainFunction,
    Report,
    Trace,
    checked_batching,
    checked_percentage,
    explore,
    in_memory,
    replay,
)
from flowguard.testing.explorer.checks.either import checked_either
from flowguard.testing.explorer.run.explored import keys_of
from flowguard.testing.explorer.run.given_buckets import Buckets
from flowguard.testing.explorer.run.inbox import Later, read_given
from flowguard.testing.explorer.run.old_code import given_code
from flowguard.testing.explorer.run.outside_world import OutsideWorld
from flowguard.testing.explorer.run.parties import Parties
from flowguard.testing.explorer.run.postgres_copies import read_postgres
from flowguard.testing.explorer.run.sandbox import checked_weather
from flowguard.testing.explorer.run.stubs import Stubs
from flowguard.testing.explorer.run.time_to_live import checked_ttl

MARKER: Final = "flow_explore"

_ARGUMENTS: Final = [name for name in inspect.signature(explore).parameters if name != "flows"]
_OF_REPLAY: Final = inspect.signature(replay).parameters.keys() & set(_ARGUMENTS)
_COUNTS: Final = ("bound", "walks", "most")


class MarkerError(FlowguardError):
    """The marker's arguments cannot be used. ``problems`` lists every mistake found, each with its fix."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"@pytest.mark.{MARKER} is not well defined:" + "".join(f"\n  - {problem}" for problem in self.problems)


class Exploration:
    """The flows or plain functions of an exploration, and its arguments. Raises :class:`MarkerError`."""

    def __init__(self, flows: tuple[Any, ...], arguments: Mapping[str, Any]) -> None:
        problems = tuple(_problems(flows, arguments)) or tuple(_unreadable(flows, arguments))
        if problems:
            raise MarkerError(problems)
        self._flows = flows
        self._arguments = arguments

    def explore(self, body: Invariant) -> Report:
        """Explore the flows with ``body`` as one more invariant."""
        return explore(list(self._flows), **self._with(body, self._arguments))

    def replay(self, schedule: str, body: Invariant) -> Trace:
        """Replay exactly one schedule with ``body`` as one more invariant.

        Raises :class:`flowguard.testing.NoSuchSchedule`.
        """
        fitting = {name: value for name, value in self._arguments.items() if name in _OF_REPLAY}
        return replay(list(self._flows), schedule=schedule, **self._with(body, fitting))

    @staticmethod
    def _with(body: Invariant, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {**arguments, "invariants": [*(arguments.get("invariants") or ()), body]}


def _problems(flows: tuple[Any, ...], arguments: Mapping[str, Any]) -> Iterator[str]:
    if not flows:
        yield f"it names no flow; write {MARKER}(MyFlow, messages=[…])"
    for flow in flows:
        if not (is_flow(flow) or isinstance(flow, PlainFunction)):
            yield f"{flow!r} is no Flow; flows come first, everything else has a name: {MARKER}(MyFlow, messages=[…])"
    for name in arguments:
        if name not in _ARGUMENTS:
            yield f"it takes no {name!r}; there are {', '.join(_ARGUMENTS)}"
    yield from _unfit_messages(arguments.get("messages"))
    yield from _wrong_numbers(arguments)
    if not callable(engine := arguments.get("engine", in_memory)):
        yield f"engine is {engine!r}; give in_memory or on_moto of flowguard.testing"
    yield from _wrong_kinds(arguments)


def _wrong_numbers(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _COUNTS:
        count = arguments.get(name, 1)
        if count is None and name != "most":
            continue
        if isinstance(count, bool) or not isinstance(count, int) or count < (name == "most"):
            yield f"{name} is {count!r}; give a whole number from {int(name == 'most')}"
    if not isinstance(seed := arguments.get("seed", 0), int):
        yield f"seed is {seed!r}; give a whole number"
    above = arguments.get("offload_above")
    if above is not None and (isinstance(above, bool) or not isinstance(above, int)):
        yield f"offload_above is {above!r}; give a number of bytes, as in Settings"
    if not callable(progress := arguments.get("progress", print)):
        yield f"progress is {progress!r}; give a function of two numbers, schedules and violations"
    yield from _wrong_seconds(arguments)
    for name in ("for_good", "any_order", "invariants_only", "rollback"):
        if not isinstance(flag := arguments.get(name, True), bool):
            yield f"{name} is {flag!r}; give True or False"
    if not isinstance(insider := arguments.get("insider"), bool | None):
        yield f"insider is {insider!r}; give True, False or None"
    yield from _unread(checked_percentage, arguments.get("fail_under"))
    yield from _unread(checked_weather, arguments.get("weather", ""))
    yield from _unread(
        lambda batch: checked_batching(batch, together=arguments.get("together", False)), arguments.get("batch", 1)
    )


def _wrong_seconds(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in ("seconds", "patience"):
        seconds = arguments.get(name)
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0):
            yield f"{name} is {seconds!r}; give a number of seconds above 0"


def _unfit_messages(messages: Any) -> Iterator[str]:
    if not _is_list(messages) or not messages:
        yield f"messages is {messages!r}; give what starts it: messages=[a payload, or a recorded event, …]"
        return
    for given in messages:
        if not isinstance(given.message if isinstance(given, Later) else given, BaseModel | Mapping):
            one_of = "a payload (a pydantic model), a recorded event, or Later(one of them)"
            yield f"messages has {given!r}; each is {one_of}"


def _wrong_kinds(arguments: Mapping[str, Any]) -> Iterator[str]:
    tables, items, free, invariants = (arguments.get(name) for name in ("tables", "items", "free", "invariants"))
    if tables is not None and not _are_keys(tables):
        yield f'tables is {tables!r}; give each table the name of its hash key: tables={{"stock": "sku"}}'
    if items is not None and not _maps_names(items, _is_list):
        yield f'items is {items!r}; list what lies in each table: items={{"prices": [{{"sku": "tea", "price": 4}}]}}'
    if free is not None and not _maps_names(free, lambda listed: _is_list(listed) and all(map(_is_name, listed))):
        yield f'free is {free!r}; list what may differ of each table: free={{"orders": ["updated_at"]}}'
    yield from _wrong_objects(arguments)
    if not _is_list(network := arguments.get("network", ())) or not all(map(_is_name, network)):
        yield f'network is {network!r}; list the hosts that may be reached: network=["localhost"]'
    if (same := arguments.get("same")) is not None and not _maps_names(same, _is_name):
        yield f'same is {same!r}; name the field of each queue by which copies are dropped: same={{"emails": "id"}}'
    kinds = (
        ("buckets", Buckets),
        ("stubs", Stubs),
        ("outside", OutsideWorld),
        ("postgres", read_postgres),
        ("answers", lambda given: Parties(given, ())),
        ("either", lambda given: checked_either(given, {})),
        ("ttl", lambda given: checked_ttl(given, given)),
        ("before", given_code),
    )
    for name, read in kinds:
        if (given := arguments.get(name)) is not None:
            yield from _unread(read, given)
    if invariants is not None and not (_is_list(invariants) and all(map(callable, invariants))):
        yield f"invariants is {invariants!r}; give functions of a view: invariants=[nothing_is_counted_twice]"


def _wrong_objects(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, which in (("failing", "are expected to fail"), ("may_fail", "may fail or not")):
        if not _is_list(listed := arguments.get(name, ())) or not all(map(_is_name, listed)):
            yield f'{name} is {listed!r}; list the objects whose runs {which}: {name}=["o1"]'


def _unread(read: Callable[[Any], object], given: Any) -> Iterator[str]:
    try:
        read(given)
    except SettingsError as error:
        yield str(error)


def _are_keys(tables: Any) -> bool:
    try:
        return all(map(_is_name, read_keys(tables)))
    except SettingsError:
        return False


def _maps_names(value: object, is_good: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_name(name) and is_good(part) for name, part in value.items())


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)


def _unreadable(flows: tuple[Any, ...], arguments: Mapping[str, Any]) -> Iterator[str]:
    functions = [flow for flow in flows if isinstance(flow, PlainFunction)]
    real = [flow for flow in flows if is_flow(flow)]
    try:
        read_given(
            real,
            arguments["messages"],
            START,
            [function.queue for function in functions],
            [function.queue for function in functions if function.direct],
        )
    except (FlowguardError, TypeError) as error:
        yield f"messages cannot be read: {error}"
    try:
        read_items(arguments.get("items") or {}, keys_of(real, functions, arguments.get("tables") or {}))
    except SettingsError as error:
        yield f"items cannot be put in: {error.problem}"

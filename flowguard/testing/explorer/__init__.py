"""Run a flow under every fault there is and name the line of user code that does not survive it.

    report = explore(PlaceOrder, [OrderPlaced(order_id="o1")], tables={"orders": "order_id"})
    assert report.ok, str(report)

The real handlers run, with real boto3 calls, on an AWS inside the process and a virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias, TypeVar

from flowguard.codecs.kept_keys import standing_in
from flowguard.errors import SettingsError, shown
from flowguard.flow import AnyFlow
from flowguard.project.declared import DeclaredKey as DeclaredKey
from flowguard.project.declared import GivenItems as GivenItems
from flowguard.sim.engine import Engine as Engine
from flowguard.sim.engine import EngineFor as EngineFor
from flowguard.sim.engines import in_memory as in_memory
from flowguard.sim.engines import on_moto as on_moto
from flowguard.sim.engines import with_moto
from flowguard.sim.functions import Batching
from flowguard.sim.simulated_keys import SIMULATED_DATA_KEYS
from flowguard.testing.explorer.checks.either import Either as Either
from flowguard.testing.explorer.checks.equivalence import Free
from flowguard.testing.explorer.checks.invariants import Invariant as Invariant
from flowguard.testing.explorer.checks.invariants import invariant as invariant
from flowguard.testing.explorer.checks.unplayed import unplayed
from flowguard.testing.explorer.record.question import Question as Question
from flowguard.testing.explorer.record.schedule import OF_CODE, OF_WEATHER
from flowguard.testing.explorer.record.schedule import NoSuchSchedule as NoSuchSchedule
from flowguard.testing.explorer.record.schedule import Schedule as Schedule
from flowguard.testing.explorer.record.unmet import UnmetSchedule as UnmetSchedule
from flowguard.testing.explorer.record.unmet import check_met
from flowguard.testing.explorer.record.view import Same as Same
from flowguard.testing.explorer.record.view import View as View
from flowguard.testing.explorer.report.findings import Report as Report
from flowguard.testing.explorer.report.findings import Trace as Trace
from flowguard.testing.explorer.report.findings import Violation as Violation
from flowguard.testing.explorer.report.lanes import lanes
from flowguard.testing.explorer.report.lines import timeline
from flowguard.testing.explorer.run.debugger import Debugger as Debugger
from flowguard.testing.explorer.run.given_buckets import GivenBuckets as GivenBuckets
from flowguard.testing.explorer.run.inbox import Given
from flowguard.testing.explorer.run.inbox import Later as Later
from flowguard.testing.explorer.run.module_state import with_imported
from flowguard.testing.explorer.run.old_code import GivenCode as GivenCode
from flowguard.testing.explorer.run.outside_world import GivenOutside as GivenOutside
from flowguard.testing.explorer.run.outside_world import OutsideAnswer as OutsideAnswer
from flowguard.testing.explorer.run.outside_world import OutsideRequest as OutsideRequest
from flowguard.testing.explorer.run.parties import GivenAnswers as GivenAnswers
from flowguard.testing.explorer.run.plain import PlainFunction as PlainFunction
from flowguard.testing.explorer.run.postgres_copies import GivenPostgres as GivenPostgres
from flowguard.testing.explorer.run.sandbox import PATIENCE, Needs, Sandbox
from flowguard.testing.explorer.run.stubs import GivenStubs as GivenStubs
from flowguard.testing.explorer.run.time_to_live import TimeToLive as TimeToLive
from flowguard.testing.explorer.search.known_runs import KnownRuns, fingerprint_of
from flowguard.testing.explorer.search.next_schedules import SearchBudget
from flowguard.testing.explorer.search.outcomes import read
from flowguard.testing.explorer.search.runs import Lacking, Runs
from flowguard.testing.explorer.search.search import Progress, Search, unheard

Explored: TypeAlias = AnyFlow | PlainFunction

Found = TypeVar("Found")

MOST_AT_ONCE = 10
"""Records that a function of flows gets at once at most."""

MOST = 20


def explore(  # noqa: PLR0913 - everything but the first two has a default
    flows: Explored | Sequence[Explored],
    messages: Sequence[Given],
    *,
    tables: Mapping[str, DeclaredKey] | None = None,
    items: GivenItems | None = None,
    invariants: Sequence[Invariant] = (),
    free: Free | None = None,
    either: Either | None = None,
    ttl: TimeToLive | None = None,
    bound: int | None = None,
    walks: int | None = None,
    most: int = MOST,
    seconds: float | None = None,
    seed: int = 0,
    engine: EngineFor = in_memory,
    offload_above: int | None = None,
    for_good: bool = True,
    failing: Sequence[str] = (),
    any_order: bool = False,
    may_fail: Sequence[str] = (),
    invariants_only: bool = False,
    buckets: GivenBuckets | None = None,
    stubs: GivenStubs | None = None,
    answers: GivenAnswers | None = None,
    same: Same | None = None,
    network: Sequence[str] = (),
    outside: GivenOutside | None = None,
    postgres: GivenPostgres | None = None,
    patience: float = PATIENCE,
    batch: int = 1,
    together: bool = False,
    insider: bool | None = None,
    weather: str = "",
    before: GivenCode | None = None,
    rollback: bool = True,
    fail_under: float | None = None,
    resume: str | Path | None = None,
    progress: Progress = unheard,
) -> Report:
    """Run every single fault at every AWS call. Then run ``bound`` schedules of two faults and ``walks`` of more.

    None of those two are run where neither is given: the only message is then run with its twin, and the report says
    how many pairs there are. Zeros for both leave out the twin.

    ``flows`` is one or several, each a flow or a :class:`PlainFunction`. ``messages`` start them: payloads of a flow's
    first stage, or recorded events in any shape. They all wait at the beginning, but for each :class:`Later`.

    ``tables`` are those that the flows write to, each with the name of its hash key; those that a flow's module lists
    in ``TABLES`` need not be given. ``items`` lie in them at the beginning of each schedule: ``{"prices": [{"sku":
    "tea", "price": 4}]}``. ``free`` says what may differ from the undisturbed end: ``{"orders": ["updated_at"]}``.
    ``either`` lists forms of which each item of a table, or each body for a destination, has to have one, with None
    where it need not be there; or ``EITHER`` in the module: ``{"orders": [{"status": "paid"}, {"status":
    "refunded"}]}``. Texts above ``offload_above`` bytes, as in :class:`flowguard.Settings`, go to S3; none where it is
    not given. Without ``for_good`` no refusal that never ends is tried. ``invariants`` are rules of yours, called with
    the :class:`View` of each end. A run that fails though nothing goes wrong is a violation, unless ``failing`` names
    its object (or the queue of a plain function). So is an end of plain functions that depends on the order of the
    records, which a standard queue does not keep, and one of two runs of flows that met which is as in no order of the
    whole runs; unless ``any_order`` is right, here or as ``ANY_ORDER`` in the module. The runs of objects in
    ``may_fail`` may fail or not, as the order decides, and those of objects in both lists fail if they are run at all.
    With ``invariants_only`` no end is compared with another: promises and invariants alone are checked. ``progress`` is
    called after each schedule with the numbers of schedules and of violations until then.

    ``ttl`` names the attributes by which DynamoDB removes items, ``{"locks": "expires_at"}``; or ``TTL`` in the module.
    What has expired is removed at once, or never (``k1``). No end is compared by whether it still lies there.

    ``buckets`` are those in S3 that the handlers use: their names, or what lies in each,
    ``{"reports": {"monday.csv": "5"}}``. ``stubs`` are answers of services that the engine does not have:
    ``{"ssm.GetParameter": {"Parameter": {"Value": "tea"}}}``, or functions of the call's parameters. ``answers`` are
    those of parties outside to what the flows await, by its name: ``{"parcel": {"number": 17}}``, or functions of the
    :class:`Question`. They come in every order, twice, at their deadline, after it, and never. All three may stand in
    the flow's module, as ``BUCKETS``, ``STUBS`` and ``ANSWERS``. ``same`` says by which field of their body a receiver
    drops copies of messages that have no id: ``{"emails": "id"}``. Nothing goes out over the network but to the hosts
    in ``network``. ``outside`` are hosts that the handlers ask over HTTP or send mails to, and what each answers:
    ``{"psp.example": {"status": "paid"}}``, or a function of the :class:`OutsideRequest`; or ``OUTSIDE`` in the module.
    What is done there is compared like a table, and what is done twice without one idempotency key is done twice. So
    are databases of SQLite, and those of PostgreSQL that ``postgres`` or ``POSTGRES`` in the module gives by the URL of
    a test database: each schedule has a copy, which the handlers connect to by psycopg or the Data API. An invocation
    that takes more than ``patience`` seconds of CPU, or does nothing for so long, is given up, which is a violation.
    ``engine`` is :func:`in_memory` or :func:`on_moto`.

    The functions of flows get up to ``batch`` records at once, 10 at most, and with ``together`` they are those of
    ``lambda_handler(…, together=True)``. A schedule has to end as the records do one by one, in some order. A plain
    function says its own ``batch``.

    Wherever a run waits, somebody who knows every address and may send to every queue, but has no signing key, sends
    what would settle, end, reset or move it on. None of it may change anything. With ``insider`` that is also tried at
    flows that say ``trust_senders=True``, which believe it. Where it is False, it is tried at none.

    ``weather`` is a bad day as for ``flowguard replay --weather``, such as ``dynamodb-away=60m``. It begins before each
    call of the undisturbed run in turn, and each run has to end as without it.

    ``before`` is the older code, for a release while messages are on their way: a directory that has the flows' modules
    under the same names, or its flows. Schedules switch from it to the newer code before each delivery, and back, for
    good and for one delivery, also right after each fault. Each part of an end has to be as either version leads to.
    Without ``rollback`` nothing is said of what the older code does at last.

    With ``fail_under`` it is noted which lines of the handlers run: of the stages' methods, and of what these name in
    user code. Where fewer than so many of 100 did in all schedules, the verdict is ``not looked at``, and the report
    names the others.

    ``resume`` is a file to which each run is written that broke nothing, as JSON. A search that finds runs there takes
    them: one that was cut off goes on, and ends as if it had not been. Begin a new file when environment
    variables, data files, installed libraries, or globals and closures of invariants change: they are not looked at.
    The file has parts of payloads and tables in clear text.

    Equal arguments give equal reports; another ``seed`` tries other schedules of more than two faults. The search ends
    at ``most`` different violations, and after ``seconds`` by the clock on the wall where they are given. One at a time
    in a process.
    """
    batching = checked_batching(batch, together=together)
    wanted = checked_percentage(fail_under)
    needs = Needs(
        network,
        patience,
        buckets,
        stubs,
        answers,
        batching,
        insider,
        weather,
        outside,
        wanted is not None,
        ttl,
        postgres,
        before,
    )
    search = partial(
        Search,
        invariants=invariants,
        failing=failing,
        any_order=any_order,
        may_fail=may_fail,
        invariants_only=invariants_only,
    )
    budget = SearchBudget(
        bound or 0, walks or 0, seed, most, for_good, seconds, twin=bound is walks is None, rollback=rollback
    )
    began = time.perf_counter()

    def searched(engine: EngineFor, may_lack: bool) -> Report:
        with standing_in(SIMULATED_DATA_KEYS):  # requests are sealed before the engine is there
            sandbox = Sandbox(_several(flows), messages, tables or {}, engine, seed, items, offload_above, needs)
            judged = [free, same, either, failing, any_order, may_fail, invariants_only, invariants, rollback]
            with sandbox, _known(resume, sandbox, judged, wanted) as known:
                runs = Runs(sandbox, free, same, either, may_lack=may_lack, known=known)
                report = search(runs, progress=progress).all(budget)
                report = replace(report, unwritten=known.unwritten if known is not None else "")
                return report if wanted is None else replace(report, lines=sandbox.lines.result(wanted))

    return replace(_on_engines(engine, searched), seconds=time.perf_counter() - began)


def _known(
    resume: object, sandbox: Sandbox, judged: Sequence[object], fail_under: float | None
) -> AbstractContextManager[KnownRuns | None]:
    """Return the runs of the file to go on from. Raises :class:`SettingsError`."""
    if resume is None:
        return nullcontext()
    if not isinstance(resume, str | Path):
        raise SettingsError("resume", f"{shown(resume)}; name a file")
    if fail_under is not None:
        raise SettingsError("resume", "the lines that ran are in no file; leave out fail_under, or this")
    about = {**sandbox.about(), "judged": judged}
    of = fingerprint_of(with_imported(sandbox.modules), version("flowguard-aws"), about)
    return KnownRuns(Path(resume), of, read)


def replay(  # noqa: PLR0913 - everything but the first three has a default
    flows: Explored | Sequence[Explored],
    messages: Sequence[Given],
    schedule: str,
    *,
    tables: Mapping[str, DeclaredKey] | None = None,
    items: GivenItems | None = None,
    invariants: Sequence[Invariant] = (),
    free: Free | None = None,
    either: Either | None = None,
    ttl: TimeToLive | None = None,
    seed: int = 0,
    engine: EngineFor = in_memory,
    offload_above: int | None = None,
    failing: Sequence[str] = (),
    any_order: bool = False,
    may_fail: Sequence[str] = (),
    invariants_only: bool = False,
    buckets: GivenBuckets | None = None,
    stubs: GivenStubs | None = None,
    answers: GivenAnswers | None = None,
    same: Same | None = None,
    network: Sequence[str] = (),
    outside: GivenOutside | None = None,
    postgres: GivenPostgres | None = None,
    patience: float = PATIENCE,
    batch: int = 1,
    together: bool = False,
    insider: bool | None = None,
    weather: str = "",
    before: GivenCode | None = None,
    debugger: Debugger | None = None,
) -> Trace:
    """Run exactly one schedule by its id. Returns its time line as text and as data, and the violations after it.

    Raises :class:`NoSuchSchedule`, and :class:`UnmetSchedule` for one that names a call, delivery or dead letter that
    there is not. ``tables``, ``items``, ``invariants``, ``free``, ``either``, ``ttl``, ``seed``, ``engine``,
    ``offload_above``, ``failing``, ``any_order``, ``may_fail``, ``invariants_only``, ``buckets``, ``stubs``,
    ``answers``, ``same``, ``network``, ``outside``, ``postgres``, ``patience``, ``batch``, ``together``, ``insider``,
    ``weather`` and ``before`` are as for :func:`explore`. Where something is wrong, a ``debugger`` stops in the handler
    before the call at which the schedule parts from the undisturbed run, or at the exception.
    """
    wanted = Schedule.parse(schedule)
    if wanted.has(OF_WEATHER) and not weather:
        raise SettingsError("weather", f"the schedule {schedule!r} has some; say which")
    if wanted.has(OF_CODE) and before is None:
        raise SettingsError("before", f"the schedule {schedule!r} switches to another code; say where the old one is")
    batching = checked_batching(batch, together=together)
    needs = Needs(
        network, patience, buckets, stubs, answers, batching, insider, weather, outside, ttl=ttl, postgres=postgres,
        before=before,
    )  # fmt: skip
    search = partial(
        Search,
        invariants=invariants,
        failing=failing,
        any_order=any_order,
        may_fail=may_fail,
        invariants_only=invariants_only,
    )

    def traced(engine: EngineFor, may_lack: bool) -> Trace:
        with Sandbox(_several(flows), messages, tables or {}, engine, seed, items, offload_above, needs) as sandbox:
            runs = Runs(sandbox, free, same, either, may_lack=may_lack)
            searched = search(runs)
            history, violations = searched.again(wanted)
            check_met(history)
            met = tuple(unplayed(history))
            if debugger is not None and violations:
                searched.debug(wanted, history, violations, debugger)
            return Trace(sandbox.names, wanted.id, timeline(history), lanes(history), violations, met)

    return _on_engines(engine, traced)


def _on_engines(engine: EngineFor, search: Callable[[EngineFor, bool], Found]) -> Found:
    """Search on an engine, and on one with moto for what turns out to be lacking in memory."""
    lacking: frozenset[str] = frozenset()
    while True:
        more = engine if not lacking else with_moto(lacking)
        try:
            return search(more or engine, engine is not in_memory or with_moto(lacking) is None)
        except Lacking as error:
            lacking |= error.services


def checked_batching(batch: object, *, together: object = False) -> Batching:
    """Return how many records functions get at once. Raises :class:`SettingsError`."""
    if isinstance(batch, bool) or not isinstance(batch, int) or not 0 < batch <= MOST_AT_ONCE:
        raise SettingsError("batch", f"{shown(batch)}; give a whole number from 1 to {MOST_AT_ONCE}")
    if not isinstance(together, bool):
        raise SettingsError("together", f"{shown(together)}; give True or False")
    if together and batch == 1:
        raise SettingsError("together", "one record at once shares no calls; give batch=2 or more")
    return Batching(batch, together)


def checked_percentage(value: object) -> float | None:
    """Return how many of 100 lines have to run. Raises :class:`SettingsError`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise SettingsError("fail_under", f"{shown(value)}; give a percentage from 0 to 100")
    return float(value)


def _several(flows: Explored | Sequence[Explored]) -> list[Explored]:
    return [flows] if isinstance(flows, type | PlainFunction) else list(flows)

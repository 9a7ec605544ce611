"""What all schedules of an exploration share.

That is the engine with its tables and queues, the clients and the virtual time.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from pydantic import ValidationError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.writes import from_item
from flowguard.clock import Clock, SystemClock, no_pause
from flowguard.errors import SettingsError, shown
from flowguard.events import Event, Observer
from flowguard.flow import AnyFlow
from flowguard.names.ids import SeededIds
from flowguard.project.declared import (
    DeclaredKey,
    GivenItems,
    TableKey,
    declared_by_name,
    declared_items,
    declared_tables,
    joined,
    read_items,
)
from flowguard.project.queues import topics
from flowguard.protocol.outbox import Outbox
from flowguard.protocol.run import RunItem
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_ROLE, SIMULATED_SECRETS, Variables, environment_here
from flowguard.sim.calls import Interceptor, intercept
from flowguard.sim.engine import Engine, EngineFor, Forgets, Snapshots
from flowguard.sim.final_state import plain
from flowguard.sim.functions import ONE_BY_ONE, Batching, Functions
from flowguard.sim.issued_tokens import MadeTokens
from flowguard.sim.provision import AutoProvisioner
from flowguard.sim.reused_clients import SameClients
from flowguard.sim.scans import Scans, TurnsScans
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.weather.forecast import forecast
from flowguard.sim.world import START
from flowguard.testing.explorer.record.history import Items
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.testing.explorer.run import anyio_threads
from flowguard.testing.explorer.run.debugger import Debugger
from flowguard.testing.explorer.run.explored import keys_of, modules_of
from flowguard.testing.explorer.run.given_buckets import Buckets, GivenBuckets
from flowguard.testing.explorer.run.inbox import Coming, Given, at_their_times, read_given
from flowguard.testing.explorer.run.invocation import Invocation
from flowguard.testing.explorer.run.known_prefix import KnownPrefix
from flowguard.testing.explorer.run.late_imports import Change, changed_when_imported
from flowguard.testing.explorer.run.late_modules import remembered_when_imported
from flowguard.testing.explorer.run.module_state import Memory, with_imported
from flowguard.testing.explorer.run.network import no_network
from flowguard.testing.explorer.run.old_code import GivenCode, OldCode
from flowguard.testing.explorer.run.outside_aiohttp import answered_aiohttp
from flowguard.testing.explorer.run.outside_data_api import DataApiCalls
from flowguard.testing.explorer.run.outside_drivers import refused_drivers
from flowguard.testing.explorer.run.outside_http import answered_http
from flowguard.testing.explorer.run.outside_httpx import answered_httpx
from flowguard.testing.explorer.run.outside_mail import answered_mail
from flowguard.testing.explorer.run.outside_postgres import PostgresDatabases
from flowguard.testing.explorer.run.outside_sql import Databases, answered_sql
from flowguard.testing.explorer.run.outside_world import GivenOutside, OutsideWorld
from flowguard.testing.explorer.run.parties import GivenAnswers, Parties
from flowguard.testing.explorer.run.plain import PlainFunction
from flowguard.testing.explorer.run.postgres_copies import GivenPostgres, declared_postgres
from flowguard.testing.explorer.run.process_exit import caught_exits
from flowguard.testing.explorer.run.quiet_asyncio import quiet_asyncio
from flowguard.testing.explorer.run.seeded_random import SeededRandom, repeatable
from flowguard.testing.explorer.run.stubs import GivenStubs, Stubs
from flowguard.testing.explorer.run.time_to_live import Removed, TimeToLive, checked_ttl, with_removed
from flowguard.testing.explorer.run.twins import twin_of
from flowguard.testing.explorer.run.virtual_waits import virtual_waits
from flowguard.testing.explorer.run.watched_lines import WatchedLines
from flowguard.testing.explorer.run.watched_steps import watched_steps
from flowguard.testing.explorer.run.worker import Threads, Worker
from flowguard.wire.signing import simulated
from flowguard.worker.denials import Denials
from flowguard.worker.ports import Services

PATIENCE: Final = 10.0
"""How long one invocation may take, in seconds of CPU, or may do nothing."""

BUCKET: Final = "flowguard-texts"
"""Where long texts go, if any do."""


@dataclass(frozen=True)
class Needs:
    """What handlers need beside their tables and what they may do.

    ``network`` are hosts that they may reach, ``outside`` parties outside AWS, ``buckets`` their buckets in S3,
    ``stubs`` answers of what the engine does not have, ``answers`` what parties outside answer. Where these are not
    given they are those of the modules (``OUTSIDE``, ``BUCKETS``, ``STUBS``, ``ANSWERS``). ``patience`` is how long one
    invocation may take, in seconds of CPU, or may do nothing. ``batching`` is how many records the functions of
    flows get at once. ``insider`` says that somebody without a signing key sends forged records to flows that wait;
    where it is None, to those that do not trust their senders. ``weather`` is that of the schedules that have any.
    ``postgres`` are test databases of PostgreSQL, those of ``POSTGRES`` in the modules where none are given.
    ``watches_lines`` says that it is noted which lines of the handlers run. ``ttl`` are the attributes by which items
    expire, those of ``TTL`` in the modules where none are given. ``before`` is the older code of the flows.
    """

    network: Collection[str] = ()
    patience: float = PATIENCE
    buckets: GivenBuckets | None = None
    stubs: GivenStubs | None = None
    answers: GivenAnswers | None = None
    batching: Batching = ONE_BY_ONE
    insider: bool | None = None
    weather: str = ""
    outside: GivenOutside | None = None
    watches_lines: bool = False
    ttl: TimeToLive | None = None
    postgres: GivenPostgres | None = None
    before: GivenCode | None = None


class Sandbox:
    """A block whose ``fresh`` gives each schedule the same beginning: ``items`` in the user's tables and nothing else.

    It is also a clock: that of the schedule which is running. ``fast`` is its engine where that can go back. ``old`` is
    the older code where there is one; ``all_flows`` are the flows of both versions, the newer last.
    """

    _sent: Sequence[dict[str, None]] = ()
    """What the processes of a schedule remember to have sent for streams, those of each version by themselves."""

    def __init__(
        self,
        explored: Iterable[AnyFlow | PlainFunction],
        given: Sequence[Given],
        tables: Mapping[str, DeclaredKey],
        engine: EngineFor,
        seed: int,
        items: GivenItems | None = None,
        offload_above: int | None = None,
        needs: Needs = Needs(),
    ) -> None:
        explored = tuple(explored)
        flows = tuple(target for target in explored if not isinstance(target, PlainFunction))
        self.flows = flows
        self.plain = tuple(target for target in explored if isinstance(target, PlainFunction))
        self.names = tuple(target.name for target in explored)
        self.old = _old_code(needs.before, flows)
        old_flows, old_modules = ((), []) if self.old is None else (self.old.flows, self.old.modules)
        self.all_flows = (*old_flows, *flows)
        self.keys = joined(declared_tables(old_modules), keys_of(flows, self.plain, tables))
        self._given = read_items(declared_items(modules_of(explored)) if items is None else items, self.keys)
        self.topics = {
            **topics(self.all_flows),
            **{function.queue: function.topic for function in self.plain if function.topic is not None},
        }
        self.settings = _settings(offload_above)
        self.hash_keys = {**{table: key.names[0] for table, key in self.keys.items()}, self.settings.table: "pk"}
        self.coming = self._read(given)
        self.twin = self._made_twin(given)
        self.start, self.coming = at_their_times(self.coming, START)
        self.seed, self.randomness = seed, SeededRandom()
        self.time = VirtualTime(self.start)
        self.patience, self.batching = needs.patience, needs.batching
        self.weather = checked_weather(needs.weather)
        self.lines = WatchedLines(explored if needs.watches_lines else ())
        self.threads = Threads()
        self.invocation = Invocation(self.now, self._move_to)
        self.made_tokens = MadeTokens()
        self._needs, self._offload_above = needs, offload_above
        self.distrusted = {flow.name: flow for flow in flows if _is_met(flow, needs.insider)}
        self.modules = modules = modules_of(explored)
        self.ttl = checked_ttl(declared_by_name("TTL", modules) if needs.ttl is None else needs.ttl, self.keys)
        kept = dict.fromkeys([*with_imported(modules), *old_modules])
        self.memory = Memory(module for module in kept if module not in _loaded_anew(self.plain))
        self._buckets = Buckets(declared_by_name("BUCKETS", modules) if needs.buckets is None else needs.buckets)
        self._stubs = Stubs(declared_by_name("STUBS", modules) if needs.stubs is None else needs.stubs)
        self.outside = OutsideWorld(declared_by_name("OUTSIDE", modules) if needs.outside is None else needs.outside)
        self.databases = Databases(self.invocation)
        databases = declared_postgres(modules) if needs.postgres is None else needs.postgres
        self.postgres = PostgresDatabases(self.invocation, databases)
        self.data_api = DataApiCalls(self.postgres, self.now)
        answers = declared_by_name("ANSWERS", modules) if needs.answers is None else needs.answers
        self.parties = Parties(answers, self.all_flows)
        self.answers_are_declared = needs.answers is None
        self.any_order = any(_says("ANY_ORDER", module) for module in modules)
        self._engine = _made(engine, self)
        self.fast = self._engine if isinstance(self._engine, Snapshots) else None
        self.turning = self._engine if isinstance(self._engine, TurnsScans) else None
        self.elsewhere = self._engine.elsewhere if isinstance(self._engine, Forgets) else frozenset[str]()
        self.calls_draw = self.fast is None or self._stubs.are_given or bool(self.elsewhere)
        self._exit, self._same = ExitStack(), SameClients()
        self._snapshot: Any = None
        self._beginning = 0
        self.prefix = KnownPrefix()

    def _read(self, given: Sequence[Given]) -> list[Coming]:
        """Read messages. A payload of a model that both versions of the code have is a request of the older one's."""
        return read_given(
            self.all_flows, given, START, [function.queue for function in self.plain], _direct(self.plain)
        )

    def _made_twin(self, given: Sequence[Given]) -> Coming | None:
        """Return the only message under a new id. None where there are several, or it has no twin."""
        twin = twin_of(given[0], self.all_flows) if len(given) == len(self.coming) == 1 else None
        if twin is None:
            return None
        both = self._read([*given, twin])
        return both[-1] if len(both) > 1 else None

    @property
    def has_batches(self) -> bool:
        """Answer whether an invocation may get several records, which then share their fate."""
        return self.batching.size > 1 or any(function.batch > 1 for function in self.plain)

    @property
    def has_stub_functions(self) -> bool:
        """Answer whether others answer by functions, which may keep something from one call for the next."""
        return self._stubs.have_functions or self.outside.has_functions

    def about(self) -> dict[str, Any]:
        """Return what was given that decides the runs, beside the code."""
        messages = [*self.coming, *([] if self.twin is None else [self.twin])]
        return {
            "explored": [self.names, list(self.plain)],
            "messages": [(coming.recorded.raw, coming.after, coming.function) for coming in messages],
            "tables": [self.keys, self._given, self.ttl],
            "settings": [self.seed, self._offload_above, type(self._engine).__name__],
            "needs": {**vars(self._needs), "before": None if self.old is None else self.old.about()},
        }

    def now(self) -> int:
        return self.time.now()

    def _move_to(self, moment: int) -> None:
        self.time.move_to(moment)  # that of the schedule which is running

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.callback(self.threads.end)
            opened.callback(self.memory.lose)
            opened.enter_context(self._engine)
            opened.callback(self.postgres.end)
            self.postgres.start()
            opened.enter_context(virtual_waits(self.invocation))
            opened.enter_context(caught_exits(self.invocation))
            opened.enter_context(no_network(self.invocation, self._needs.network))
            opened.enter_context(answered_http(self.invocation, self.outside))
            opened.enter_context(changed_when_imported(self._late_changes()))
            opened.enter_context(remembered_when_imported(self.memory))
            opened.enter_context(answered_mail(self.invocation, self.outside))
            opened.enter_context(answered_sql(self.databases))
            opened.enter_context(self._same.kept())
            opened.enter_context(quiet_asyncio())
            opened.enter_context(watched_steps(self.all_flows, self.invocation))
            self._set_up()
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def _late_changes(self) -> dict[str, Change]:
        """Return what is changed in libraries that handlers may import."""
        return {
            **dict.fromkeys(("httpx", "httpx2"), answered_httpx(self.invocation, self.outside)),
            "aiohttp": answered_aiohttp(self.invocation, self.outside),
            anyio_threads.BACKEND: anyio_threads.without_threads(self.invocation),
            **refused_drivers(self.invocation, tuple(self._needs.network)),
            **self.postgres.changes(),
        }

    def _set_up(self) -> None:
        self._clients = _clients(environment_here())
        self.store = aws_store(self.settings, self._clients)
        self.store.codecs.learn(self.flows)
        self.dynamodb = self._engine.client("dynamodb")
        self.provisioner = AutoProvisioner(self._engine, self.keys, self.settings.table)
        functions = self.functions_for(self._services(lambda _: None), self.flows)
        self.provisioner.set_up(functions.by_queue, sorted(set(self.topics.values())))
        self._put_in()
        if self.fast is not None:
            self._snapshot = self.fast.snapshot()
            self._provided = self.provisioner.provided()

    def _make_buckets(self) -> None:
        s3: Any = self._engine.client("s3")
        self._buckets.put_in(s3)
        if self.settings.bucket is not None:
            s3.create_bucket(Bucket=self.settings.bucket)

    def _put_in(self) -> None:
        self._make_buckets()
        for number, (table, item) in enumerate(self._given, 1):
            try:
                self.dynamodb.put_item(TableName=table, Item=item)
            except Exception as error:  # boto3's, which is known at the edge alone
                raise SettingsError("items", f"DynamoDB refuses number {number}, of {table}: {error}") from error

    @contextmanager
    def debugged(self, debugger: Debugger) -> Iterator[None]:
        """Let a debugger stop invocations, each for as long as somebody looks."""
        patience, self.patience = self.patience, float("inf")
        self.invocation.debugger = debugger
        try:
            yield
        finally:
            self.patience, self.invocation.debugger = patience, None

    @contextmanager
    def fresh(self, interceptor: Interceptor, scans: Scans = Scans.FORWARDS) -> Iterator[None]:
        """Restore the beginning: given items in the tables and the time at its start.

        This interceptor is then around each call, and Scans answer as is said where the engine can do that.
        """
        if self.turning is not None:
            self.turning.scans = scans
        self._take_back()
        begins = (self._beginning, self.start, self.batching, tuple(map(id, self.coming)), self.memory.is_lost)
        self.prefix.begin(begins)
        self.memory.begin()
        self.outside.begin()
        self.databases.begin()
        self.data_api.begin()
        self.postgres.begin()
        self.time = VirtualTime(self.start, self.invocation.asked)
        with ExitStack() as opened:
            opened.enter_context(self.time)
            opened.enter_context(repeatable(self.randomness))
            for layer in (interceptor, self._stubs, self.data_api, self.provisioner):
                opened.enter_context(intercept(layer))
            yield

    def _take_back(self) -> None:
        if self.fast is not None:
            self._go_back(self.fast)
            return
        for table in (self.settings.table, *self.provisioner.tables):
            names = ("pk", "sk") if table == self.settings.table else self.key_of(table)
            for item in self._scan(table):
                self.dynamodb.delete_item(TableName=table, Key={name: item[name] for name in names})
        scheduler = self._engine.client("scheduler")
        for schedule in scheduler.list_schedules()["Schedules"]:
            scheduler.delete_schedule(Name=schedule["Name"], GroupName=schedule["GroupName"])
        self._put_in()

    def _go_back(self, engine: Snapshots) -> None:
        """Restore the beginning, which from now on has what the last schedule was the first to use."""
        engine.restore(self._snapshot)
        if isinstance(self._engine, Forgets):
            self._engine.forget()
            if "s3" in self.elsewhere:
                self._make_buckets()
        if self.provisioner.go_back(self._provided):
            self._snapshot, self._provided = engine.snapshot(), self.provisioner.provided()
            self._beginning += 1

    def code_of(self, worker: Worker) -> AbstractContextManager[None]:
        """Let imports find the modules of the version that a worker has, for a block."""
        return nullcontext() if self.old is None else self.old.imported(is_it=worker.entry.code == "old")

    # -- what is known of the undisturbed invocations

    @property
    def shares(self) -> bool:
        """Answer whether all that invocations leave behind is in the engine, as far as can be said before."""
        is_alone = self.plain or self.has_batches or self._stubs.are_given or self.elsewhere or self.postgres.are_given
        return self.fast is not None and not is_alone and self.invocation.debugger is None

    def keeps_elsewhere(self) -> bool:
        """Answer whether something of this schedule is kept outside the engine."""
        return bool(self.memory.has_kept or self.outside.items() or self.databases.items())

    def drawn(self) -> tuple[object, object]:
        """Return how far the services have drawn ids and chances."""
        return self._ids.state(), self._draw.getstate()

    def draw_on(self, drawn: tuple[Any, Any]) -> None:
        """Let the services go on drawing from there."""
        ids, draw = drawn
        self._ids.put_back(ids)
        self._draw.setstate(draw)

    def key_of(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's key."""
        if table in self.keys:
            return self.keys[table].names
        described = self.dynamodb.describe_table(TableName=table)["Table"]["KeySchema"]
        return tuple(part["AttributeName"] for part in described)

    def functions(self, observer: Observer, is_awaited: Callable[[str], bool]) -> tuple[Functions, Functions]:
        """Return the functions of the flows and those of the older code, with services of their own for each schedule.

        Both are the same where there is one version. Processes of each know for themselves what is refused and sent.
        ``is_awaited`` answers whether a wait for the row of a token is committed.
        """
        made = self.made_tokens = MadeTokens(is_awaited)

        def tell(event: Event) -> None:
            made.tell(event)
            observer(event)

        services = self._services(tell)
        services = services._replace(tokens=made.noting(services.tokens))
        new, self._sent = self.functions_for(services, self.flows), (services.stream_sends,)
        if self.old is None:
            return new, new
        of_old = services._replace(denials=Denials(), stream_sends={})
        self._sent = (*self._sent, of_old.stream_sends)
        return new, self.functions_for(of_old, self.old.flows)

    def end_processes(self) -> None:
        """Forget what was sent for streams. The next process knows nothing of what a killed one has sent."""
        for sent in self._sent:
            sent.clear()

    def functions_for(self, services: Services, flows: Sequence[AnyFlow]) -> Functions:
        read = Counter(function.queue for function in self.plain)
        if twice := [queue for queue, readers in read.items() if readers > 1]:
            raise SettingsError("functions", f"two of them read the same queue, {twice[0]}; give each its own")
        plain = {function.queue: function.deployed(self, self._same, self.memory) for function in self.plain}
        if self.parties.given:
            plain[PARTIES] = self.parties.function(services, self.made_tokens, flows)
        return Functions(flows, services, plain, batching=self.batching, more_queues=self._brought_by())

    def _brought_by(self) -> Iterator[str]:
        """Yield the queues that messages of the user lie in. Where no flow names one, its records go back there too."""
        yield from filter(None, (coming.recorded.envelope.queue for coming in self.coming))

    def _services(self, observer: Observer) -> Services:
        self._ids, self._draw = SeededIds(self.seed), random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        services = aws_services(
            self.settings,
            self._clients,
            clock=self,
            ids=self._ids,
            observer=observer,
            draw=self._draw,
            pause=no_pause,
        )
        return services._replace(signer=simulated(services.signer, self.invocation.meets_insider))

    # -- what is there

    def item(self, key: Mapping[str, Any]) -> RunItem | None:
        """Return a run item by its low-level key with its long texts as they are now."""
        stored = self.raw(key)
        return None if stored is None else self._whole(stored)

    def raw(self, key: Mapping[str, Any]) -> Any:
        """Return an item of the run table by its low-level key, as it is stored. None where there is none."""
        if self.fast is not None:
            return next((item for item in self.fast.items(self.settings.table) if key.items() <= item.items()), None)
        return self.dynamodb.get_item(TableName=self.settings.table, Key=key, ConsistentRead=True).get("Item")

    def _whole(self, raw: Any) -> RunItem:
        item = self.store.whole(raw)
        if item.outbox is None:
            return item
        return item._replace(outbox=Outbox(item.outbox.request_id, item.outbox.committed_at, item.outbox.sends))

    def items(self, removed: Removed = []) -> Items:  # noqa: B006 - it is not changed
        """Return the user's tables with each item's attributes and the items themselves in one order.

        What was ``removed`` because it has expired counts as if it were there. The user's buckets and databases are
        among them, and what was done at parties outside.
        """
        tables = {
            table: tuple(sorted((plain(from_item(raw)) for raw in self._with_removed(table, removed)), key=_order))
            for table in sorted(self.provisioner.tables)
        }
        buckets = self._buckets.contents(self._engine.client("s3"), {self.settings.bucket})
        return {**tables, **buckets, **self.outside.items(), **self.databases.items(), **self.postgres.items()}

    def row_keys(self) -> dict[str, TableKey]:
        """Return the primary keys of the tables of databases."""
        return {**self.databases.keys(), **self.postgres.keys()}

    def drop(self, worker: object) -> None:
        """Take back what a worker that died had not committed in a database."""
        self.databases.drop(worker)
        self.postgres.drop(worker)

    def failed(self, worker: object) -> None:
        """Take back what an invocation that raised left open in a database."""
        self.databases.failed(worker)
        self.postgres.failed(worker)

    def _with_removed(self, table: str, removed: Removed) -> list[Any]:
        items = self._scan(table)
        return with_removed(items, table, self.key_of(table), removed) if table in self.ttl else items

    def items_of(self, table: str) -> list[Any]:
        """Return all items of a table of the user in low-level form."""
        return self._scan(table)

    def run_items(self) -> list[Any]:
        """Return all items of flowguard's table in low-level form."""
        return self._scan(self.settings.table)

    def _scan(self, table: str) -> list[Any]:
        if self.fast is not None:
            return self.fast.items(table)
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=table)
        return [item for page in pages for item in page["Items"]]


def checked_weather(text: object) -> str:
    """Return the text of some weather. Raises :class:`SettingsError` for what is none."""
    if not isinstance(text, str):
        raise SettingsError("weather", f"{shown(text)}; give a text such as dynamodb-away=60m")
    forecast(text, SystemClock())
    return text


def _old_code(given: GivenCode | None, flows: Sequence[AnyFlow]) -> OldCode | None:
    return given if given is None or isinstance(given, OldCode) else OldCode(given, flows)


def _loaded_anew(functions: Iterable[PlainFunction]) -> list[ModuleType | None]:
    """Return the modules that each execution environment has for itself."""
    return [function.module for function in functions if function.is_loaded_anew]


def _direct(functions: Iterable[PlainFunction]) -> list[str]:
    """Return the names of those that are invoked without a queue."""
    return [function.queue for function in functions if function.direct]


def _is_met(flow: AnyFlow, insider: bool | None) -> bool:
    return insider is not False and (insider is True or not flow.trust_senders)


def _says(name: str, module: ModuleType) -> bool:
    """Return what a module declares under a name. Raises SettingsError for anything but True or False."""
    value: object = getattr(module, name, False)
    if not isinstance(value, bool):
        raise SettingsError(name, f"{module.__name__} says {shown(value)}; give True or False")
    return value


def _settings(offload_above: int | None) -> Settings:
    """Build the settings with a bucket only where something is to go there.

    Raises SettingsError for an ``offload_above`` that is not valid.
    """
    values: dict[str, Any] = {
        "scheduler_role": SIMULATED_ROLE,
        **SIMULATED_SECRETS,
    }
    if offload_above is not None:
        values |= {"bucket": BUCKET, "offload_above": offload_above}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError("offload_above", error.errors(include_url=False)[0]["msg"]) from None


@functools.lru_cache(maxsize=8)
def _clients(environment: Variables) -> Clients:
    """Return flowguard's own clients in this environment. No user code can change them."""
    return Clients()


def _made(engine: EngineFor, clock: Clock) -> Engine:
    made: object = engine(clock)
    if not isinstance(made, Engine):
        raise SettingsError("engine", f"{engine!r} makes {made!r}, which is no engine; give in_memory or on_moto")
    return made


def _order(item: Mapping[str, Any]) -> str:
    return repr(sorted(item.items()))

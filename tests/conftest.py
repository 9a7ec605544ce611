"""What tests of several modules share: the engines, botocore's tables, and the reasons of those that take long."""

from __future__ import annotations

import functools
import gc
import inspect
import resource
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import boto3
import botocore.hooks
import botocore.session
import pytest
from botocore import useragent
from botocore.hooks import EventAliaser, HierarchicalEmitter
from hypothesis import settings

from flowguard.aws import botocore_clients
from flowguard.aws.service_models import ServiceModels
from flowguard.sim import in_process, memory_and_moto, moto
from flowguard.sim.account import session_here
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.reused_clients import SameClients
from flowguard.testing.explorer.run import sandbox
from flowguard.worker.denials import Denials
from flowguard.worker.patience import SOME_MINUTES
from tests import unit
from tests.early_starts import EarlyStarts
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.elasticmq import elasticmq
from tests.engines.ministack import ministack
from tests.engines.postgres import postgres
from tests.engines.skipping import or_skip
from tests.few_reports import FewReports
from tests.garbage import spare_what_is_there

CLEANED: Final[Callable[[str, bool], str]] = useragent.sanitize_user_agent_string_component
"""What looks at each letter of a part of the user agent: it is asked ninety times for a call."""


def pytest_configure(config: pytest.Config) -> None:
    """Share what takes longer to make than most tests run, from the collection on.

    That is what botocore reads of a service, the engines' own clients, and those that explored handlers make.
    """
    settings.register_profile("patient", settings(), deadline=None)  # a busy machine makes no example wrong
    settings.load_profile("patient")
    config.pluginmanager.register(EarlyStarts())
    FewReports.register(config)
    gc.disable()  # until all is collected, all of which is kept: to look for garbage takes a quarter of it
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(EventAliaser, "_alias_event_name", _with_one_table(EventAliaser))
    patch.setattr(botocore.hooks, "accepts_kwargs", _as_compiled(botocore.hooks.accepts_kwargs))
    patch.setattr(useragent, "sanitize_user_agent_string_component", functools.cache(CLEANED))
    patch.setattr(botocore.session, "create_loader", functools.cache(botocore.session.create_loader))
    patch.setattr(botocore_clients, "ServiceModels", functools.cache(ServiceModels))
    patch.setattr(in_process, "session_here", functools.partial(_with_same_clients, {}))
    patch.setattr(sandbox, "SameClients", functools.cache(SameClients))
    for using in (moto, memory_and_moto):
        patch.setattr(using, "moto_engines", _quickly(moto.moto_engines))


def _with_one_table(aliaser: Any) -> Callable[[object, str], str]:
    """Return what looks for an event's new name in a table for all clients: each new one has about a hundred."""
    alias, table = aliaser._alias_event_name, aliaser(HierarchicalEmitter())
    return lambda _, event: alias(table, event)


def _as_compiled(accepts_kwargs: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return what asks the code of a hook whether it takes ``**kwargs``: a session puts its signature together first.

    That is two thirds of what it takes to make a session, and a session is made for most tests.
    """

    def accepts(hook: Any) -> object:
        code = getattr(hook, "__code__", None)
        return accepts_kwargs(hook) if code is None else code.co_flags & inspect.CO_VARKEYWORDS

    return accepts


def _with_same_clients(sessions: dict[boto3.Session, Any]) -> boto3.Session:
    """Return the session of the environment, whose clients are made once."""
    session: Any = session_here()
    if session not in sessions:
        sessions[session] = session.client = functools.cache(session.client)
    return session  # type: ignore[no-any-return]


def _quickly(engines: Callable[[int], AbstractContextManager[None]]) -> Callable[[int], AbstractContextManager[None]]:
    """Return what runs moto's engines, which find out once under which names they look fields up."""

    def quick(seed: int) -> AbstractContextManager[None]:
        from tests.quick_moto import find_names_once  # here, since moto is heavy, and not all tests need it

        find_names_once()
        return engines(seed)

    return quick


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that was imported and collected: it lives as long as the session."""
    gc.enable()
    spare_what_is_there()


@pytest.fixture
def embedded() -> Iterator[EmbeddedAWS]:
    """An empty AWS of this test's own, in the process."""
    with EmbeddedAWS() as aws:
        yield aws


@pytest.fixture(scope="session")
def dynamodb_local_url() -> Iterator[str]:
    """One DynamoDB Local for the whole session; use an access key or a table of your own."""
    yield from or_skip(dynamodb_local())


@pytest.fixture(scope="session")
def elasticmq_url() -> Iterator[str]:
    """One ElasticMQ for the whole session; use queues of your own."""
    yield from or_skip(elasticmq())


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    """One MiniStack for the whole session; use queues of your own."""
    yield from or_skip(ministack())


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One PostgreSQL for the whole session; use tables of your own."""
    yield from or_skip(postgres())


@pytest.fixture
def denied_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is denied is so for as long as a record waits for it, in each process."""
    monkeypatch.setattr(Denials, "_last_until", lambda *_: SOME_MINUTES)
    monkeypatch.setattr(Denials, "have_lasted", lambda *_: True)


# -- how long a test may take ------------------------------------------------------------------------------------------

REASONED: Final = ("long", "proof", "slow")
"""The marks of a test that may take long; each gives the reason."""

QUICKEST: Final = 0.1
"""Seconds of CPU: no machine that is known takes less for a unit."""


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "fail a test that takes more CPU than this and is marked as neither proof, long nor slow"
    parser.addoption("--cpu-limit", type=float, metavar="UNITS", help=about)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Refuse a mark without its reason."""
    bare = {item.nodeid for item in items for mark in _reasons(item) if not any(mark.args)}
    if bare:
        raise pytest.UsageError(f"say why it takes so long, as in slow('all characters'): {', '.join(sorted(bare))}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge the CPU of the test's own process and its children, which a loaded machine hardly lengthens.

    A unit is measured where a test took more than the limit on the quickest machine, so most tests cost no measure.
    """
    began = _cpu_seconds()
    outcome = yield
    limit, spent = item.config.getoption("--cpu-limit"), _cpu_seconds() - began
    if limit is None or _reasons(item) or spent <= limit * QUICKEST:
        return outcome
    a_unit = max(unit.seconds() for _ in range(3))  # a neighbour that comes and goes may have slowed the test alone
    if spent > limit * a_unit:
        pytest.fail(
            f"took {spent:.1f} s of CPU, {spent / a_unit:.2g} units of at most {limit:g}: make it quicker, or give the "
            "reason with @pytest.mark.slow('…'), so that `make prove` runs it instead",
            pytrace=False,
        )
    return outcome


def _reasons(item: pytest.Item) -> list[pytest.Mark]:
    return [mark for name in REASONED for mark in item.iter_markers(name)]


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime

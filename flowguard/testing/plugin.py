"""The pytest plugin ``flowguard``.

It has fixtures that run flows, and a marker that makes a test an exploration. pytest loads this module in every project
that has flowguard installed. So it imports pytest and the front page of :mod:`flowguard.testing`, whose names load when
a test first asks for them, and next to nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from flowguard import testing
from flowguard.errors import FlowguardError
from flowguard.testing.raised import up_to_users

if TYPE_CHECKING:
    from flowguard.sim.engine import Engine
    from flowguard.sim.memory.aws import MemoryAWS
    from flowguard.testing.exploration import Exploration
    from flowguard.testing.explorer import View
    from flowguard.testing.flow_clock import FlowClock
    from flowguard.testing.runner import FlowRunner

MARKER = "flow_explore"
TIME_LINE = "flow time line"
_FIXTURES = frozenset({"flow_clock", "flow_engine", "flow_runner"})
_SCHEDULES, _VIOLATIONS, _SUMMARY = "flow_schedules", "flow_violations", "flow_summary"

_exploration: pytest.StashKey[Exploration] = pytest.StashKey()
_runner: pytest.StashKey[FlowRunner] = pytest.StashKey()


@contextmanager
def _without_traceback() -> Iterator[None]:
    """Report a mistake of the caller by its message, without a traceback."""
    try:
        yield
    except FlowguardError as error:
        raise pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False) from None


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def flow_clock() -> Iterator[FlowClock]:
    """Provide the clock of the whole process. It stands still at 2026-01-01T00:00:00Z until it is moved."""
    with _without_traceback(), testing.FlowClock() as clock:
        yield clock


@pytest.fixture
def flow_engine(flow_clock: FlowClock) -> Iterator[MemoryAWS]:
    """Provide an empty AWS in memory that answers every boto3 call of the process.

    It needs no account, no credentials and no network. Override it with ``flowguard.testing.EmbeddedAWS()`` where code
    calls services that it does not have.
    """
    with _without_traceback(), testing.MemoryAWS(flow_clock) as aws:
        yield aws


@pytest.fixture
def flow_runner(request: pytest.FixtureRequest, flow_engine: Engine, flow_clock: FlowClock) -> Iterator[FlowRunner]:
    """Provide a runner of flows on ``flow_engine`` and ``flow_clock``. It has ``send``, ``deliver`` and ``run``."""
    with _without_traceback(), testing.FlowRunner(flow_engine, flow_clock) as runner:
        request.node.stash[_runner] = runner
        yield runner
        del request.node.stash[_runner]


@pytest.fixture
def flow_view(request: pytest.FixtureRequest) -> View:
    """Provide the end of a schedule in a test marked ``flow_explore``. The test is called with each of them."""
    if request.node.get_closest_marker(MARKER) is None:
        pytest.fail(f"flow_view is for tests marked with @pytest.mark.{MARKER}; see flow_runner.run()", pytrace=False)
    return _OfTheTestAlone()  # type: ignore[return-value]  # each call of the test gets its own instead


class _OfTheTestAlone:
    """What a fixture gets that asks for a view: no schedule has been run yet."""

    def __getattr__(self, name: str) -> Any:
        problem = "there is one for each schedule, and a fixture is made before them; the test itself asks for it"
        pytest.fail(f"flow_view.{name}: {problem}", pytrace=False)


# -- the marker --------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("flowguard").addoption(
        "--flow-schedule",
        metavar="ID",
        help=f"run exactly this schedule in tests marked {MARKER}, and show its time line",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(*flows, messages, tables=…, items=…, invariants=…, free=…, bound=…, walks=…): run the flows under "
        "every fault there is. The test itself looks at what each schedule leaves, its flow_view.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker(MARKER)
    if mark is None:
        return
    if (problem := _unfit(item)) is not None:
        pytest.fail(f"@pytest.mark.{MARKER}: {problem}", pytrace=False)
    with _without_traceback():
        item.stash[_exploration] = testing.Exploration(mark.args, mark.kwargs)


def _unfit(item: pytest.Item) -> str | None:
    """Say why the marked test cannot be called once for each schedule. None where it can."""
    function = getattr(item, "obj", None)
    if (
        type(item) is not pytest.Function
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        return "it marks plain test functions and methods; this is none"
    taken = _FIXTURES & set(item.fixturenames)
    if taken:
        return f"an exploration has an engine and a clock of its own; take {', '.join(sorted(taken))} out of the test"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    exploration = pyfuncitem.stash.get(_exploration, None)
    if exploration is None:
        return None
    schedule, body = pyfuncitem.config.getoption("--flow-schedule"), _body(pyfuncitem)
    with _without_traceback():
        if schedule is None:
            _explore(pyfuncitem, exploration, body)
        else:
            _replay(pyfuncitem, exploration, schedule, body)
    return True


def _body(item: pytest.Function) -> Callable[[View], object]:
    """Return the test as an invariant."""
    names = [name for name in inspect.signature(item.obj).parameters if name in item.funcargs]
    given = {name: item.funcargs[name] for name in names}

    def holds(view: View) -> object:
        try:
            return item.obj(**given, **({"flow_view": view} if "flow_view" in names else {}))
        except pytest.xfail.Exception:  # is among those below, and expected
            raise
        except pytest.fail.Exception as failed:  # is no Exception; it would end the search
            return failed.msg or "pytest.fail()"

    holds.__name__ = item.name
    given.pop("flow_view", None)
    return holds


def _explore(item: pytest.Function, exploration: Exploration, body: Callable[[View], object]) -> None:
    report = exploration.explore(body)
    item.user_properties += [
        (_SCHEDULES, report.schedules),
        (_VIOLATIONS, len(report.violations)),
        (_SUMMARY, report.tried),
    ]
    if not report.ok:
        again = [f"pytest '{item.nodeid}' --flow-schedule {violation.schedule}" for violation in report.violations]
        pytest.fail("\n".join([str(report), "", *again]), pytrace=False)


def _replay(item: pytest.Function, exploration: Exploration, schedule: str, body: Callable[[View], object]) -> None:
    trace = exploration.replay(schedule, body)
    shown = f"schedule {schedule}\n\n{trace}"
    if not trace.ok:
        pytest.fail(shown, pytrace=False)
    item.add_report_section("call", TIME_LINE, shown)


# -- telling -----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    raised = call.excinfo
    if raised is not None and _is_clear_by_its_words(item, raised):
        call.excinfo = _up_to_the_test(raised)
    report = yield
    call.excinfo = raised
    runner = item.stash.get(_runner, None)
    if runner is not None and report.when == "call" and report.failed and (lines := _time_line(runner)):
        report.sections.append((TIME_LINE, lines))
    return report


def _is_clear_by_its_words(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Answer whether an error is shown without the lines of flowguard that raised it.

    Those are for ``--full-trace``.
    """
    uses_it = not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    return uses_it and isinstance(raised.value, FlowguardError) and not item.config.getoption("fulltrace")


def _up_to_the_test(raised: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    return pytest.ExceptionInfo.from_exc_info((raised.type, raised.value, up_to_users(raised.tb)))


def _time_line(runner: FlowRunner) -> str:
    try:
        return runner.timeline()
    except Exception as error:  # whatever it is, the test's own failure has to be reported
        return f"it cannot be shown: {type(error).__name__}: {error}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [
        report
        for outcomes in terminalreporter.stats.values()
        for report in outcomes
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    explored = [(report.nodeid, dict(report.user_properties)) for report in reports]
    _show_counts(terminalreporter, [(name, counts) for name, counts in explored if _SUMMARY in counts])
    if config.getoption("--flow-schedule") is not None:
        for report in reports:
            _show_time_line(terminalreporter, report)


def _show_counts(terminal: pytest.TerminalReporter, explored: list[tuple[str, dict[str, Any]]]) -> None:
    if not explored or terminal.verbosity < 0:
        return
    terminal.write_sep("-", "flow explorations")
    if terminal.verbosity > 0:
        for name, counts in explored:
            terminal.write_line(f"{name}: {counts[_SUMMARY]}")
    schedules, violations = (sum(counts[name] for _, counts in explored) for name in (_SCHEDULES, _VIOLATIONS))
    terminal.write_line(f"{schedules} schedules, {violations} violation{'s' if violations != 1 else ''}")


def _show_time_line(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> None:
    for title, text in report.sections:
        if report.passed and TIME_LINE in title:
            terminal.write_sep("-", f"{TIME_LINE} of {report.nodeid}")
            terminal.write_line(text)

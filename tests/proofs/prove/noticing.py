"""Running unit tests on mutants: they are collected once, and each mutant meets them in a process of its own."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import Phase, settings

from tests.proofs.prove import probes
from tests.proofs.prove.fork import grant
from tests.proofs.prove.mutant import ROOT

_OFF: Final = ("cacheprovider", "xdist", "flowguard", "logging")
_LEFT_OUT: Final = (
    "not dynamodb-local and not dynamodb_local and not moto and not test_without_that_part "
    "and not test_without_one_part"
)
"""Engines that take their time, and tests that lose a guard themselves: they fail where they do not find it."""
_QUICK: Final = "not proof and not long"
"""What notices guards: the scenes of the runtime stand on moto only for the proofs."""

_UNSHRUNK: Final = "unshrunk"
"""That a property fails is all that is asked: to find its smallest example takes longer than to find one."""

_OPTIONS: Final = (
    "-q",
    "--capture=no",
    "--assert=plain",
    "--tb=no",
    "--hypothesis-seed=0",
    f"--hypothesis-profile={_UNSHRUNK}",
    *(f"-pno:{name}" for name in _OFF),
    f"--rootdir={ROOT}",
    f"-k={_LEFT_OUT}",
    f"-m={_QUICK}",
)


CPU_SECONDS: Final = 1.0
"""Of a test on a mutant that takes no more than a tenth of it undisturbed. Others have ten times what they take."""


class Seen(NamedTuple):
    """A test on the whole flowguard: the numbers of the mutants that it meets."""

    test: str
    fails: bool
    met: frozenset[int]
    seconds: float


class Collected:
    """Tests that can be run in processes forked from the one where they were collected."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._by_id = {one.nodeid: one for one in items}

    def files(self) -> list[str]:
        return list(dict.fromkeys(name.partition("::")[0] for name in self._by_id))

    def known(self, tests: Iterable[str]) -> list[str]:
        """Those of the tests that are here."""
        return [test for test in tests if test in self._by_id]

    def watch(self, tests: Iterable[str]) -> list[Seen]:
        """Each test of these files and functions, in a process with probes."""
        return [_seen(one, after) for one, after in self._each(tests)]

    def first_failing(self, tests: Mapping[str, float]) -> str | None:
        """The first of these tests that fails now, each with the seconds that it takes undisturbed.

        To be called in a forked process, which ends in an endless test.
        """
        for one, after in self._each(tests):
            grant(CPU_SECONDS, undisturbed=tests[one.nodeid])
            if _fails(one, after):
                return one.nodeid
        return None

    def _each(self, tests: Iterable[str]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
        """In the order in which they are named, each with the one that is next."""
        chosen = [one for named in tests for one in self._named(named)]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield from zip(chosen, [*chosen[1:], None], strict=True)

    def _named(self, named: str) -> Sequence[pytest.Item]:
        """One test, or those of a file or a function."""
        if (one := self._by_id.get(named)) is not None:
            return [one]
        several = [one for name, one in self._by_id.items() if name.startswith(named)]
        if not several:
            raise LookupError(f"no test is named {named}")
        return several


def collected(tests: Iterable[str], then: Callable[[Collected], None]) -> None:
    """Collects these files and calls ``then`` with them while pytest is set up."""
    loop = _Loop(then)
    files = sorted({str(ROOT / test.partition("::")[0]) for test in tests})
    said = io.StringIO()
    settings.register_profile(_UNSHRUNK, settings(), phases=(Phase.explicit, Phase.reuse, Phase.generate))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        pytest.main([*_OPTIONS, *files], plugins=[loop])
    if loop.error is not None:
        raise loop.error
    if not loop.was_reached:
        raise RuntimeError(f"the tests cannot be collected: {said.getvalue()}")


class _Loop:
    """A plugin in the place of pytest's own loop over the tests."""

    def __init__(self, then: Callable[[Collected], None]) -> None:
        self._then = then
        self.was_reached = False
        self.error: Exception | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.was_reached = not session.testsfailed
        if self.was_reached:
            try:
                self._then(Collected(session.items))
            except Exception as error:  # pytest would print it, and go on
                self.error = error
        return True


class _Failures:
    """A plugin that is there while one test runs."""

    def __init__(self) -> None:
        self.any = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.any = self.any or report.failed


def _fails(one: pytest.Item, after: pytest.Item | None) -> bool:
    failures = _Failures()
    one.config.pluginmanager.register(failures)
    one.config.hook.pytest_runtest_protocol(item=one, nextitem=after)
    one.config.pluginmanager.unregister(failures)
    return failures.any


def _seen(one: pytest.Item, after: pytest.Item | None) -> Seen:
    probes.taken()
    began = time.perf_counter()
    fails = _fails(one, after)
    return Seen(one.nodeid, fails, probes.taken(), time.perf_counter() - began)

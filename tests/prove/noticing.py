"""Running unit tests on mutants: they are collected once, and each mutant meets them in a process of its own."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

from tests.prove.mutant import ROOT

_OFF: Final = ("cacheprovider", "xdist", "flowguard", "logging")
_LEFT_OUT: Final = "not dynamodb-local and not moto and not test_without"
"""Engines that take their time, and tests that lose a guard themselves: they fail where they do not find it."""

_OPTIONS: Final = (
    "-q",
    "--capture=no",
    "--assert=plain",
    "--hypothesis-seed=0",
    *(f"-pno:{name}" for name in _OFF),
    f"--rootdir={ROOT}",
    f"-k={_LEFT_OUT}",
)


class Collected:
    """Tests that can be run in processes forked from the one where they were collected."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._items = items

    def first_failing(self, tests: Iterable[str]) -> str | None:
        """The first test of these files and functions that fails now. To be called once in a process."""
        named = tuple(tests)
        chosen = [one for one in self._items if one.nodeid.startswith(named)]
        if not chosen:
            raise LookupError(f"no test is named {', '.join(named)}")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return next((one.nodeid for one, after in _with_next(chosen) if _fails(one, after)), None)


def collected(tests: Iterable[str], then: Callable[[Collected], None]) -> None:
    """Collects these files and calls ``then`` with them while pytest is set up."""
    loop = _Loop(then)
    files = sorted({str(ROOT / test.partition("::")[0]) for test in tests})
    said = io.StringIO()
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


def _with_next(items: Sequence[pytest.Item]) -> Iterable[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)

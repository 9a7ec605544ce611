"""What a worker of xdist sends of each test: how it ended, and not that it began, was set up and was cleared away.

xdist sends six messages a test. To take them costs a process half as much as to run a test that does nothing, and the
tests wait for its core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

UNREAD: dict[str, Any] = {"unread": True}
"""Stands for a report that nobody misses."""

LOGGED = frozenset({"logstart", "logfinish"})


class FewReports:
    """A plugin of a worker. Failures are sent from wherever they are, and all where somebody asks for the steps."""

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Let the worker of this process send less, if there is one, and nobody asks for the times of each step."""
        interactor = _interactor(config)
        if interactor is not None and not asks_for_steps(config.option):
            interactor.sendevent = sends_less(interactor.sendevent)
            config.pluginmanager.register(cls())

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        return dict(UNREAD) if is_unread(report) else None


def asks_for_steps(option: Any) -> bool:
    return option.verbose > 0 or option.durations is not None or option.xmlpath is not None


def is_unread(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and report.passed and report.when != "call"


def sends_less(send: Callable[..., None]) -> Callable[..., None]:
    """Return what sends an event unless it says nothing that is printed."""

    def sent(name: str, **about: Any) -> None:
        if name not in LOGGED and not about.get("data", {}).get("unread"):
            send(name, **about)

    return sent


def _interactor(config: pytest.Config) -> Any:
    """Return the plugin by which a worker of xdist sends; None in a process that is none."""
    plugins: list[Any] = [one for one in config.pluginmanager.get_plugins() if hasattr(one, "sendevent")]
    return plugins[0] if plugins and hasattr(config, "workerinput") else None

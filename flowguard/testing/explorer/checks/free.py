"""The check of what may differ at the end. A name that nothing has is a mistake."""

from __future__ import annotations

from collections.abc import Iterable

from flowguard.errors import SettingsError
from flowguard.project.declared import Keys
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.view import Same


def check_same(same: Same, history: History) -> None:
    """Raise :class:`SettingsError` for a destination to which the undisturbed run sends nothing."""
    known = {message.name for message in history.posted}
    for name in same:
        if name not in known:
            there = ", ".join(sorted(known)) or "nothing at all"
            raise SettingsError("same", f"nothing is sent to {name!r}; there is {there}")


def check_free(
    free: Iterable[str], history: History, keys: Keys, dead_letters: Iterable[str], setting: str = "free"
) -> None:
    """Raise :class:`SettingsError` for a table or destination that the undisturbed run does not know.

    An attribute that nothing has is let pass: it may come with other messages, and hides nothing.
    """
    known = {*keys, *history.tables, *(message.name for message in history.posted), *dead_letters}
    for name in free:
        if name not in known:
            there = ", ".join(sorted(known)) or "nothing at all"
            raise SettingsError(setting, f"nothing is written or sent to {name!r}; there is {there}")


def check_answers(given: Iterable[str], history: History) -> None:
    """Raise :class:`SettingsError` for an answer to a name that no wait of the undisturbed run names."""
    waits = (
        version.item.wait for version in history.versions if version.item is not None and version.item.wait is not None
    )
    known = {
        name
        for wait in waits
        if wait.plan is not None
        for name, awaited_id in wait.plan.names.items()
        if awaited_id is not None
    }
    for name in given:
        if name not in known:
            there = ", ".join(sorted(known)) or "nothing at all"
            raise SettingsError("answers", f"no run awaits {name!r} from outside; there is {there}")

"""Imports of user modules from which nothing goes out over the network, as from the runs that follow.

A command that has its process for itself stays closed until that ends.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from flowguard.cli.forked_notes import ForkedNotes
from flowguard.cli.own_process import OwnProcess, own_process
from flowguard.cli.printing import complain
from flowguard.errors import SettingsError
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.run.network import Words, no_network

_FOR_CREDENTIALS: Final = ("169.254.169.254", "fd00:ec2::254", "169.254.170.2")
"""Where boto3 looks for credentials when a client is made. It is this machine's own host, and nothing is done there."""

_IMPORTED: Final = Words(
    "goes out to {host} when it is imported",
    "ask it in the handler, or allow it: --network {host}",
    "a flow is imported",
    "starts {host} when it is imported",
    "start it in the handler, or allow it: --network {host}",
)

_BESIDE: Final = Words(
    "goes out to {host} beside the runs: in a thread, or when the process ends",
    "give the call a fake, or allow it: --network {host}",
    "a command has closed the way out",
    "starts {host} beside the runs: in a thread, or when the process ends",
    "give the call a fake, or allow it: --network {host}",
)
_WENT_OUT: Final = 2
"""The exit code where something was refused after a verdict."""


class Outward:
    """What functions would have reached outside, each place once on standard error.

    Processes that were forked meanwhile leave theirs for this one.
    """

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._notes = ForkedNotes()

    @property
    def refused(self) -> int:
        """Return at how many places something was refused."""
        for problem in self._notes.take():
            self._tell(problem)
        return len(self._told)

    def is_inside(self) -> bool:
        """Answer whether the calling thread is watched: each is."""
        return True

    def lack(self, site: Site, what: str, fix: str, /, *, driver: str = "") -> None:
        """Print what was refused, and where."""
        problem = f"{site}: {what}; {fix}"
        if self._notes.are_elsewhere:
            self._notes.leave(problem)
        else:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            complain(problem)


@contextmanager
def closed_imports(network: Collection[str]) -> Iterator[None]:
    """Refuse what user modules want outside while the block imports them, but for the hosts of ``network``.

    Raises :class:`SettingsError` at the end of a block in which that was anything, whatever the modules made of it.
    """
    if (process := own_process()) is not None:
        _close(process, network)
    outward = Outward()
    with no_network(outward, (*network, *_FOR_CREDENTIALS), _IMPORTED):
        yield
    if outward.refused:
        raise SettingsError("--flow", "an import that goes out says nothing of the flow; see above what was refused")


def _close(process: OwnProcess, network: Collection[str]) -> None:
    """Refuse what goes out of this process until it ends, by whatever thread."""
    outward = Outward()
    process.until_end.enter_context(no_network(outward, (*network, *_FOR_CREDENTIALS), _BESIDE))
    process.before_end = end_processes
    process.last = lambda code: _WENT_OUT if outward.refused else code
    process.arrange()


def end_processes() -> bool:
    """End what ``multiprocessing`` has started and nobody has ended. Answer whether there was anything.

    Such a process waits for work for ever, and this one would wait for it.
    """
    started = sys.modules.get("multiprocessing")
    running = [] if started is None else started.active_children()
    if running:
        complain(f"processes that were started and not ended: {len(running)}; they are ended with the command")
    for process in running:
        process.kill()
    return bool(running)

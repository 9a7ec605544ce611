"""Imports of user modules from which nothing goes out over the network, as from the runs that follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

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


class Outward:
    """What functions would have reached outside, each place once on standard error."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    @property
    def refused(self) -> int:
        """Return at how many places something was refused."""
        return len(self._told)

    def is_inside(self) -> bool:
        """Answer whether the calling thread is watched: each is."""
        return True

    def lack(self, site: Site, what: str, fix: str, /) -> None:
        """Print what was refused, and where."""
        problem = f"{site}: {what}; {fix}"
        if problem not in self._told:
            self._told.add(problem)
            complain(problem)


@contextmanager
def closed_imports(network: Collection[str]) -> Iterator[None]:
    """Refuse what user modules want outside while the block imports them, but for the hosts of ``network``.

    Raises :class:`SettingsError` at the end of a block in which that was anything, whatever the modules made of it.
    """
    outward = Outward()
    with no_network(outward, (*network, *_FOR_CREDENTIALS), _IMPORTED):
        yield
    if outward.refused:
        raise SettingsError("--flow", "an import that goes out says nothing of the flow; see above what was refused")

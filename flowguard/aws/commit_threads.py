"""Commits with recorded writes. Each is a transaction, and several are made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from functools import partial

from flowguard.errors import ConditionFailed, NotHeld, Reject
from flowguard.items.writes import Put
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, Refused
from flowguard.stage import MOST_AT_ONCE
from flowguard.worker.asks import CommitAnswer

Transact = Callable[[Claim, Commit], Committed | Fenced | Refused]
Commits = Mapping[int, tuple[Claim, Commit]]


def transactions(transact: Transact, commits: Commits, *, in_threads: bool) -> Iterator[tuple[int, CommitAnswer]]:
    """Make each commit by itself. Yield the answers by their places.

    Those that write to one item go in turn, as far as keys show it: at once they would cancel each other.
    """
    if not in_threads or len(commits) < 2:
        yield from ((place, _answer(transact, *pair)) for place, pair in commits.items())
        return
    from concurrent.futures import ThreadPoolExecutor  # a function that records no writes starts quicker

    for several in _rounds(commits):
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            made = {
                place: pool.submit(copy_context().run, partial(_answer, transact, *pair))
                for place, pair in several.items()
            }
        yield from ((place, future.result()) for place, future in made.items())


def _answer(transact: Transact, claim: Claim, commit: Commit) -> CommitAnswer:
    """Return the answer, or the error that says that nothing was written. None where neither is known."""
    try:
        return transact(claim, commit)
    except (ConditionFailed, NotHeld, Reject) as error:
        return error
    except Exception:  # a conflict, the service, the network: what was written shows when it is asked alone
        return None


def _rounds(commits: Commits) -> Iterator[Commits]:
    """Yield those that may be made at once. Those that write to one item are in different rounds, in order."""
    left = commits
    while left:
        met: set[tuple[str, str]] = set()
        now: dict[int, tuple[Claim, Commit]] = {}
        later: dict[int, tuple[Claim, Commit]] = {}
        for place, pair in left.items():
            items = _items(pair[1])
            (now if met.isdisjoint(items) else later)[place] = pair
            met |= items
        yield now
        left = later


def _items(commit: Commit) -> set[tuple[str, str]]:
    """Return what tells the items apart that its writes name. A put does not say which attributes are its key.

    Where two names of one item are missed, DynamoDB still keeps the transactions apart.
    """
    return {(write.table, repr(sorted(write.key.items()))) for write in commit.writes if not isinstance(write, Put)}

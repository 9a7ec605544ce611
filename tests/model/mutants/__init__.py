"""The protocol with one thing broken at a time, in the library's own code. Each is caught by some scenario, or says why
it can do no harm."""

from __future__ import annotations

from tests.model.mutants.attempts import ATTEMPTS
from tests.model.mutants.commits import COMMITS
from tests.model.mutants.conflicts import CONFLICTS
from tests.model.mutants.dispatches import DISPATCHES
from tests.model.mutants.failures import FAILURES
from tests.model.mutants.fifo import FIFO
from tests.model.mutants.items import ITEMS
from tests.model.mutants.mutant import Mutant
from tests.model.mutants.outboxes import OUTBOXES

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = (*CONFLICTS, *ATTEMPTS, *FIFO, *ITEMS, *COMMITS, *FAILURES, *OUTBOXES, *DISPATCHES)

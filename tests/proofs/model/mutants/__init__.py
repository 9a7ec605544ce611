"""The protocol with one thing broken at a time, in the library's own code. Each is caught by some scenario, or says why
it can do no harm."""

from __future__ import annotations

from tests.proofs.model.mutants.attempts import ATTEMPTS
from tests.proofs.model.mutants.calling import CALLING
from tests.proofs.model.mutants.cancelling import CANCELLING
from tests.proofs.model.mutants.commits import COMMITS
from tests.proofs.model.mutants.conflicts import CONFLICTS
from tests.proofs.model.mutants.dispatches import DISPATCHES
from tests.proofs.model.mutants.failures import FAILURES
from tests.proofs.model.mutants.fifo import FIFO
from tests.proofs.model.mutants.items import ITEMS
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.mutants.names import NAMES
from tests.proofs.model.mutants.outboxes import OUTBOXES
from tests.proofs.model.mutants.sharing import SHARING
from tests.proofs.model.mutants.undoing import UNDOING
from tests.proofs.model.mutants.unleased import UNLEASED
from tests.proofs.model.mutants.waits import WAITS

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = (
    *NAMES,
    *CONFLICTS,
    *ATTEMPTS,
    *FIFO,
    *ITEMS,
    *COMMITS,
    *FAILURES,
    *OUTBOXES,
    *DISPATCHES,
    *WAITS,
    *UNDOING,
    *CALLING,
    *CANCELLING,
    *UNLEASED,
    *SHARING,
)

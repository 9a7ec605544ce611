"""Claims and commits that records share."""

from __future__ import annotations

from typing import Any

from flowguard.protocol.run import Committed, Fenced, Refused
from flowguard.worker.batch import Batch
from tests.proofs.model.mutants.mutant import Mutant

_FINISHED = Batch._finished


def _takes_silence_for_a_commit(self: Any, left: Any, answer: Any) -> Any:
    return _FINISHED(self, left, answer or Committed())


def _is_blind_to_fences(self: Any, left: Any, answer: Any) -> Any:
    return _FINISHED(self, left, Committed() if isinstance(answer, Fenced) else answer)


def _is_blind_to_a_move(self: Any, left: Any, answer: Any) -> Any:
    return _FINISHED(self, left, Committed() if isinstance(answer, Refused) else answer)


SHARING = (
    Mutant(
        "shared-silent-commit",
        "a commit that a shared call leaves unanswered is taken for made",
        patches=((Batch, "_finished", _takes_silence_for_a_commit),),
        caught_by="shared-lost",
    ),
    Mutant(
        "shared-blind",
        "a commit that a shared call refuses is taken for made",
        patches=((Batch, "_finished", _is_blind_to_fences),),
        caught_by="shared-early-lost",
    ),
    Mutant(
        "shared-unmoved",
        "a hop that was only read, and that a shared call finds changed, is taken for committed",
        patches=((Batch, "_finished", _is_blind_to_a_move),),
        caught_by="shared-unleased-newer-lost",
    ),
)

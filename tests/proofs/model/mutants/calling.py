"""Callers who are missed, forgotten, or answered with an end that is not theirs; and resets."""

from __future__ import annotations

from typing import Any

from flowguard.protocol import claims
from flowguard.protocol.run import ENDED, Status
from flowguard.verdicts import Verdict
from flowguard.worker.caller_answers import CallerAnswers
from tests.proofs.model.actions import Environment
from tests.proofs.model.function import _Lists
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.mutants.told import acks, told


def _nothing(self: Any, *arguments: Any, **more: Any) -> tuple[()]:
    return ()


CALLING = (
    Mutant(
        "list-stays-open",
        "the commit of an end leaves its list of callers open",
        environment=Environment(closes_list=False),
        caught_by="attach",
    ),
    Mutant(
        "attach-to-any-list",
        "a caller is added to whatever list is open",
        environment=Environment(closes_list=False, looks_at_list=False),
        caught_by="attach",
    ),
    Mutant(
        "done-answers-nobody",
        "a worker that finds its hop committed does not answer the callers",
        ((CallerAnswers, "answered", _nothing),),
        caught_by="attach",
    ),
    Mutant(
        "commit-answers-nobody",
        "the callers that the commit brings are not answered",
        ((CallerAnswers, "replies", _nothing),),
        caught_by="attach",
    ),
    Mutant(
        "kept-answers-nobody",
        "a request that meets an end gets no answer",
        ((CallerAnswers, "answer", _nothing),),
        caught_by="attach",
    ),
    Mutant(
        "left-end-dropped",
        "a newer run does not answer the callers that the one before has left",
        ((CallerAnswers, "_answer_left", _nothing),),
        caught_by="attach-later",
    ),
    Mutant(
        "asker-dropped",
        "a newer run does not adopt the request whose run it took over",
        ((CallerAnswers, "_adopt", _nothing),),
        caught_by="attach-abandoned",
    ),
    Mutant(
        "row-last",
        "the item says that there are rows before the row is written",
        ((_Lists, "row_first", False),),
        caught_by="attach-rows",
    ),
    Mutant(
        "ended-attached",
        "a request is said to be attached to a run that has ended",
        (told(Verdict.KEPT, Verdict.ATTACHED),),
        caught_by="attach",
    ),
    Mutant(
        "attach-takes-over",
        "a newer request takes a run at work",
        (told(Verdict.ATTACHED, Verdict.CLAIMED),),
        caught_by="attach",
    ),
    Mutant(
        "attached-and-acked",
        "a request is acked before it is a caller",
        ((CallerAnswers, "attach", lambda self, arrival, item: True),),
        caught_by="attach",
    ),
    Mutant(
        "no-restart",
        "a later hop of a run that was reset is acked, and nothing begins anew",
        (acks(Verdict.RESET),),
        caught_by="attach-reset",
    ),
    Mutant(
        "reset-goes-on",
        "a later hop of a run that was reset is claimed",
        (told(Verdict.RESET, Verdict.CLAIMED),),
        caught_by="attach-reset",
    ),
    Mutant(
        "reset-without-fence",
        "a reset leaves the epoch and the owner as they are",
        environment=Environment(reset_fences=False),
        caught_by="attach-reset",
    ),
    Mutant(
        "reset-of-a-failed-run",
        "a run that is being undone is reset",
        ((claims, "can_be_reset", lambda item, by, at: item.status is not Status.FAILED and item.reset_by != by),),
        caught_by="undo-reset",
    ),
    Mutant(
        "asker-forgotten",
        "a commit that does not end the run forgets who asked",
        (
            (
                claims,
                "answered_askers",
                lambda claim, commit: list(claim.item.askers) if commit.status not in ENDED else [],
            ),
        ),
        caught_by="attach-reset",
    ),
)

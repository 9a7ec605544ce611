"""Direct calls have the time of their arrival: a newer one may overtake an older one that has committed nothing."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flowguard import SUPERSEDE, Done, Flow, Outcome, Stage, Step
from flowguard.sim.engines import in_memory
from flowguard.testing import explore, replay
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.checks.whole_runs import overtaken
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox


class Claim(BaseModel):
    claim_id: str
    amount: int


class MailClaim(Stage[Claim], name="mail-claim"):
    def handle(self, claim: Claim, step: Step) -> Outcome:
        step.send("mails", {"amount": claim.amount})
        return Done("mailed")


class Claims(Flow, name="claims", object_id="claim_id", inbox="claims", on_conflict=SUPERSEDE):
    stages = (MailClaim,)


TWO = [{"claim_id": "z1", "amount": 5}, {"claim_id": "z1", "amount": 9}]


def history_of(schedule: str) -> History:
    with Sandbox([Claims], TWO, {}, in_memory, 0) as sandbox:
        return run(sandbox, Schedule.parse(schedule))


@pytest.mark.parametrize(
    ("schedule", "which"),
    [("none", []), ("a2", []), ("z1-1", [0]), ("z2-1", [0])],
    ids=["none", "it has committed", "it has not claimed", "it has claimed"],
)
def test_what_was_overtaken_before_its_first_commit_is_known(schedule: str, which: list[int]) -> None:
    history = history_of(schedule)
    came = list(dict.fromkeys(one.envelope.message_id for one in history.deliveries if one.envelope is not None))
    assert overtaken(history) == {came[place] for place in which}


@pytest.mark.proof("explores every single fault of two calls")
def test_it_need_not_have_done_anything() -> None:
    report = explore(Claims, TWO, bound=0, walks=0)
    assert not report.violations, str(report)


def test_a_schedule_in_which_it_was_is_replayed_without_a_violation() -> None:
    assert [one.rule for one in replay(Claims, TWO, "z2-1").violations] == []


def test_what_neither_its_queue_nor_the_dead_letters_take_comes_until_it_expires() -> None:
    """Each delivery of one call begins its run anew: that is more than a run of the explorer makes."""
    history = history_of("f3.f4")
    assert history.refusals
    history.at_rest = False
    assert "queues" not in {problem.where for problem in broken(history, [Claims], ())}

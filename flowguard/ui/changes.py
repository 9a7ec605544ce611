"""The changes that the inspector makes when it was started with ``--allow-changes``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flowguard.aws.dead_letter_queue import Reading
from flowguard.aws.redriver import Outcome, Redriver
from flowguard.aws.services import aws_sender
from flowguard.aws.signing_keys import aws_signer
from flowguard.client import FlowClient
from flowguard.destinations import Queue
from flowguard.errors import RunFailed, RunTooBusy
from flowguard.flow import AnyFlow
from flowguard.operate.begun_anew import NotAnew, begin_again, first_in_letters
from flowguard.operate.cancel_run import cancel_run
from flowguard.operate.own_letters import OwnLetters, refusal
from flowguard.ui.inspected import Inspected
from flowguard.worker.dead_letters import Letter


class Change(NamedTuple):
    """The outcome of a change. ``lines`` are for the person who asked for it."""

    is_done: bool
    lines: list[str]


@dataclass(frozen=True)
class Changes:
    """Changes runs and dead letters. ``client`` is what cancels."""

    inspected: Inspected
    client: FlowClient

    def cancel(self, flow: AnyFlow, object_id: str, why: str) -> Change:
        """Cancel a run, as ``flowguard cancel`` does."""
        try:
            done = cancel_run(self.client, self.inspected.reader(), flow, object_id, why, self.inspected.clock.now())
        except (RunFailed, RunTooBusy) as error:
            return Change(False, [f"Nothing was cancelled: {error}"])
        line = f"cancelled: {done.now}" if done.is_cancelled else f"nothing was cancelled: {done.now}"
        return Change(done.is_cancelled and done.unsent is None, [line, *([done.unsent] if done.unsent else [])])

    def retry(self, flow: AnyFlow, object_id: str) -> Change:
        """Send the dead letter of a failed run back, as ``flowguard retry`` does."""
        if not isinstance(flow.dead_letters, Queue):
            return Change(False, [f"the dead letters of {flow.name} go to {flow.dead_letters}, which is no queue"])
        seen = self.inspected.reader().read(flow.name, object_id)
        why = "there is no run" if seen is None else refusal(seen.item, self.inspected.clock.now(), flow)
        if seen is None or why is not None:
            return Change(False, [f"nothing was sent back: {why}"])
        queue, lines = flow.dead_letters.name, []
        letters = OwnLetters(flow.name, object_id, seen.item.request_id)
        with self.inspected.reading(queue, flow) as reading:
            redriver = self._redriver(reading)
            for page in reading.pages():
                lines += [_said(outcome) for outcome in letters.counted(redriver.redrive(letters.among(page)))]
                if letters.sent:
                    break
        return Change(letters.sent > 0 and not letters.kept, [*lines, *reading.warnings, *letters.problems(queue)])

    def again(self, flow: AnyFlow, object_id: str) -> Change:
        """Begin a run anew that was taken back, as ``flowguard retry --again`` does."""
        inspected, now = self.inspected, self.inspected.clock.now()
        if not isinstance(flow.dead_letters, Queue):
            return Change(False, [f"the dead letters of {flow.name} go to {flow.dead_letters}, which is no queue"])
        seen = inspected.reader().read(flow.name, object_id)
        if seen is None:
            return Change(False, ["nothing was begun anew: there is no run"])
        signer = aws_signer(inspected.settings, inspected.clients, inspected.clock)
        try:
            letters = inspected.reading(flow.dead_letters.name, flow)
            first = first_in_letters(flow, object_id, seen.item, letters, signer)
            begun = begin_again(
                flow, first, seen.item, now, sender=aws_sender(inspected.settings, inspected.clients), signer=signer
            )
        except NotAnew as error:
            return Change(False, [f"nothing was begun anew: {error}"])
        return Change(True, [f"begun anew: request {begun.message.request_id} to {begun.to}"])

    def redrive(self, queue: str, message_id: str, flow: AnyFlow | None) -> Change:
        """Send one letter of a queue back, as ``flowguard dlq redrive`` does."""
        with self.inspected.reading(queue, flow) as reading:
            redriver = self._redriver(reading)
            for page in reading.pages():
                if chosen := _named(page, message_id):
                    outcomes = redriver.redrive(chosen)
                    return Change(
                        all(outcome.failed is None and outcome.deleted for outcome in outcomes),
                        list(map(_said, outcomes)),
                    )
        return Change(False, ["no such letter is visible now; is it gone, or held by a reader?", *reading.warnings])

    def _redriver(self, reading: Reading) -> Redriver:
        inspected = self.inspected
        signer = aws_signer(inspected.settings, inspected.clients, inspected.clock)
        return Redriver(
            inspected.clients,
            inspected.settings.run_table,
            reading,
            unreadable=True,
            clock=inspected.clock,
            signer=signer,
            names=inspected.settings.at_aws,
        )


def _named(page: Sequence[Letter], message_id: str) -> list[Letter]:
    return [letter for letter in page if letter.message_id == message_id]


def _said(outcome: Outcome) -> str:
    if outcome.failed is not None and outcome.sent:
        return f"it is in the queue still: {outcome.failed}"
    if outcome.failed is not None or outcome.judgement is None:
        return f"it was not sent back: {outcome.failed}"
    to = f", to {outcome.to}" if outcome.to else ""
    return f"{outcome.judgement.fate.value}: {outcome.judgement.why}{to}"

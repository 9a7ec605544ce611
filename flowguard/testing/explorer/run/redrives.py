"""The redrives of one schedule: dead letters that are sent back when all is at rest."""

from __future__ import annotations

from flowguard.aws.items import run_key
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.record.history import History, Redriven
from flowguard.testing.explorer.record.redriven_letters import judged, letters, posted_back, read
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.run.expiry import last_moment
from flowguard.testing.explorer.run.inbox import Inbox
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.worker.dead_letters import Letter


class Redrives:
    """The redrives that are left to do. Each is carried out once, as soon as its letter is there."""

    def __init__(self, sandbox: Sandbox, schedule: Schedule, history: History) -> None:
        self._sandbox = sandbox
        self._history = history
        self._left = [choice for choice in schedule.choices if choice.kind is FaultKind.REDRIVEN]

    def next(self, inbox: Inbox) -> str | None:
        """Send back the first letter that is named and there. Returns a note of it, or None where there is none."""
        sandbox, now = self._sandbox, self._sandbox.now()
        there = letters(self._history, sandbox.flows) if self._left else []
        for choice in [choice for choice in self._left if choice.at <= len(there)]:
            self._left.remove(choice)
            posted = there[choice.at - 1]
            letter = read(posted, sandbox.flows, now) if now <= last_moment(sandbox, posted.at) else None
            if letter is not None and (back := posted_back(letter)) is not None:
                return self._send(inbox, choice, letter, back)
        return None

    def _send(self, inbox: Inbox, choice: Choice, letter: Letter, back: Posted) -> str:
        history, message, now = self._history, letter.returning(), self._sandbox.now()
        item = self._sandbox.item(run_key(message.flow, message.object_id)) if message.object_id else None
        fate = judged(letter, item, now).fate
        times = 2 if choice.more else 1
        records = tuple(record.number for _ in range(times) for record in inbox.receive(back, now))
        key = f"run#{message.flow}#{message.object_id}"
        done = len(history.calls), len(history.versions), len(history.posted)
        history.redriven.append(Redriven(choice.at, key, message, item, fate, *done, records))
        return f"dead letter {choice.at} is sent back{', twice' if choice.more else ''}; redrive would say {fate}"

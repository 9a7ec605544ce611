"""The rules of ``flowguard check``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    """A rule. ``what`` completes the sentence that names the code, ``page`` is the page of the docs about it."""

    id: str
    name: str
    what: str
    why: str
    fix: str
    page: str


UNREADABLE: Final = Rule(
    "FG001",
    "unreadable",
    "cannot be read",
    "nothing in it was checked",
    "correct the file, or leave it out",
    "guides/check-your-handlers.md",
)
BAD_SUPPRESSION: Final = Rule(
    "FG002",
    "suppression-without-reason",
    "suppresses a rule without a reason, or one that is none",
    "a later reader cannot know whether it is still right",
    "write # flowguard: ignore[FG102] and the reason after it",
    "guides/check-your-handlers.md",
)
UNUSED_SUPPRESSION: Final = Rule(
    "FG003",
    "suppression-unused",
    "suppresses a rule that finds nothing here",
    "it would hide the next fault of its kind",
    "take it out",
    "guides/check-your-handlers.md",
)
NOT_IMPORTED: Final = Rule(
    "FG004",
    "not-imported",
    "cannot be imported",
    "Lambda could not import it either, and its rules were read from a source that does not run",
    "correct what the error names; --no-import leaves this out where the libraries are not installed",
    "guides/check-your-handlers.md",
)
CHECK_THEN_ACT: Final = Rule(
    "FG101",
    "check-then-act",
    "writes without a condition, after a read in the same handler",
    "another worker changes the item between the two, and its change is lost",
    "give the write condition=…, or use step.modify, which reads and writes under one condition",
    "guides/writing-your-own-tables.md",
)
DIRECT_WRITE: Final = Rule(
    "FG102",
    "direct-write",
    "writes or sends by boto3",
    "it happens at each attempt, and also if the run fails or is superseded",
    "record it: step.put, step.update, step.delete, step.send; or before the commit within step.apply",
    "guides/side-effects-outside-aws.md",
)
KEY_NOT_UNIQUE: Final = Rule(
    "FG103",
    "key-not-unique",
    "uses one key or name for several operations",
    "the second gets the first one's result, and never happens",
    "put what tells the operations apart into it: step.once(f'charge-{line.id}', …)",
    "guides/side-effects-outside-aws.md",
)
NOT_REPEATABLE: Final = Rule(
    "FG104",
    "not-repeatable",
    "records a time or an id that each attempt draws anew",
    "a repeated attempt records something else, and what it was sent as an id or key counts twice",
    "use step.now(), step.requested_at, step.request_id or step.key('…')",
    "guides/test-your-flow.md",
)
MODULE_STATE: Final = Rule(
    "FG105",
    "module-state",
    "changes what the module keeps",
    "the next message of another run finds it, on this worker and on no other",
    "keep it in step.state, or in a table",
    "guides/prove-your-flow.md",
)
PAYLOAD_LOGGED: Final = Rule(
    "FG106",
    "payload-logged",
    "logs a payload or the state as a whole",
    "personal data ends up in logs, where it is kept and read by others",
    "log ids: step.request_id, step.object_id",
    "explain/guarantees.md",
)
STEP_ELSEWHERE: Final = Rule(
    "FG107",
    "step-elsewhere",
    "uses the step in another thread, task or process",
    "what it records after the handler has returned is lost, or belongs to nobody",
    "do the work in the handler, and hand only its results to the step",
    "explain/guarantees.md",
)
NO_DEADLINE: Final = Rule(
    "FG108",
    "no-deadline",
    "waits without a deadline",
    "the run fails, for a wait that nobody answers would never end",
    "say within=timedelta(…), and on_timeout= for what follows",
    "guides/waiting-for-others.md",
)
SWALLOWED: Final = Rule(
    "FG109",
    "errors-swallowed",
    "catches every error round a call of the step, and goes on",
    "the step raises where another worker has the hop, or a condition does not hold: the handler goes on without it",
    "catch the errors that you mean, or raise again",
    "explain/when-a-stage-fails.md",
)
SLEEPS: Final = Rule(
    "FG110",
    "sleeps",
    "sleeps",
    "the function is paid for meanwhile, and its lease and its batch run out",
    "raise Retry('…', after=…), or send with delay=",
    "explain/when-a-stage-fails.md",
)
EFFECT_REPEATED: Final = Rule(
    "FG111",
    "effect-repeated",
    "changes something at another service outside step.once",
    "it happens at each attempt",
    "write step.once('…', lambda: …), with step.key('…') as the other service's idempotency key; "
    "give an agent capabilities=[RememberedCalls(step, '…')]",
    "guides/side-effects-outside-aws.md",
)

REMEMBERS_SHORTLY: Final = Rule(
    "FG112",
    "remembers-shortly",
    "looks at the run before, which its flow remembers only as long as its queues keep messages",
    "a newer version that comes after that (by default four weeks, twice the 14 days of a queue) finds nothing to take "
    "back, and does everything once more",
    "say how long an object may be changed: class Orders(Flow, …, remember=timedelta(days=365))",
    "guides/sagas.md",
)

UNDOES_SHORTLY: Final = Rule(
    "FG113",
    "undoes-shortly",
    "undoes a run that its flow remembers only as long as its queues keep messages",
    "after that (by default four weeks, twice the 14 days of a queue) nobody can look up what was undone, or retry "
    "it, and the same request is a new run",
    "say how long a failed run may be asked for: class Orders(Flow, …, remember=timedelta(days=365))",
    "guides/sagas.md",
)

RULES: Final = (
    UNREADABLE,
    BAD_SUPPRESSION,
    UNUSED_SUPPRESSION,
    NOT_IMPORTED,
    CHECK_THEN_ACT,
    DIRECT_WRITE,
    KEY_NOT_UNIQUE,
    NOT_REPEATABLE,
    MODULE_STATE,
    PAYLOAD_LOGGED,
    STEP_ELSEWHERE,
    NO_DEADLINE,
    SWALLOWED,
    SLEEPS,
    EFFECT_REPEATED,
    REMEMBERS_SHORTLY,
    UNDOES_SHORTLY,
)
"""All rules, in the order of their ids."""


@dataclass(frozen=True, order=True)
class CodeFinding:
    """What a rule found at a place. Line and column count from 1.

    ``code`` is what stands there, or the start of it; of a file that cannot be read, the reason.
    """

    path: str
    line: int
    column: int
    rule_id: str
    code: str

    @property
    def rule(self) -> Rule:
        return next(rule for rule in RULES if rule.id == self.rule_id)

    @property
    def text(self) -> str:
        """Return what is wrong, in a sentence."""
        if self.rule in (UNREADABLE, NOT_IMPORTED):
            return f"{self.rule.what}: {self.code}"
        return f"{self.code} {self.rule.what}" if self.code else f"this {self.rule.what}"

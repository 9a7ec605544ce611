"""The printing of dead letters, and the filters that choose them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from flowguard.aws.redriver import Outcome
from flowguard.cli.connection import flow_named
from flowguard.cli.console import cell, console, line
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import complain, say, say_json
from flowguard.codecs.reading import readable_body
from flowguard.operate.moments import duration, seconds_in
from flowguard.payload.codec import Codecs
from flowguard.text.printable import bounded
from flowguard.wire.notification import to_json
from flowguard.wire.tenant import tenant_named
from flowguard.wire.token_form import without_tokens
from flowguard.worker.dead_letters import Letter

_COLUMNS: Final = (
    *map(Column, ("id", "stage", "object", "hop", "redrive")),
    Column("error", folds=True),
    *map(Column, ("age", "seen")),
)
NO_LETTER: Final = "nothing to do: no letter was found"

_EXCERPT: Final = 80


class Seconds(click.ParamType):  # type: ignore[type-arg]  # click 8.1 knows none
    """A click type for times. ``90s``, ``15m``, ``1h`` or ``2d`` becomes seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        seconds = seconds_in(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no time; write 90s, 15m, 1h or 2d", param, ctx)
        return seconds


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of letters. None matches every letter."""

    flow: str | None = None
    stage: str | None = None
    error: str | None = None
    request_id: str | None = None
    older_than: int | None = None
    tenant: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Filters:
        check_not_empty(options)
        flow = options["flow"]
        name = None if flow is None else flow_named(flow, "--flow")[0]
        return cls(**{name: options[name] for name in cls.__slots__} | {"flow": name})

    def pass_(self, letter: Letter, now: int) -> bool:
        m = letter.message
        return (
            (self.flow is None or (m is not None and m.flow == self.flow))
            and (self.stage is None or (m is not None and m.stage == self.stage))
            and (self.request_id is None or (m is not None and m.request_id == self.request_id))
            and (self.tenant is None or (m is not None and m.tenant == tenant_named(self.tenant)))
            and (self.older_than is None or now - letter.sent_at > self.older_than * 1000)
            and (self.error is None or self._has_error(letter, self.error))
        )

    @staticmethod
    def _has_error(letter: Letter, wanted: str) -> bool:
        errors = (letter.error, letter.last_error)
        return any(e is not None and (e.type == wanted or wanted.lower() in e.text.lower()) for e in errors)


# -- looking


def show_letters(
    letters: Sequence[Letter], now: int, *, as_json: bool, payload: bool, codecs: Codecs | None = None
) -> None:
    """Show letters in rows. Payloads are opened by the ``codecs``."""
    if as_json:
        for letter in letters:
            say_json(
                to_json(letter.facts(now) | ({"payload": shown_payload(letter, codecs)[:_EXCERPT]} if payload else {}))
            )
        return
    rows = []
    for letter in letters:
        facts = letter.facts(now)
        cells = [
            letter.message_id,
            _stage(facts),
            facts["object_id"] or "",
            str(facts["hop"] or ""),
            str(facts["redrive"] if facts["redrive"] is not None else ""),
            _error(letter, facts),
            duration(facts["age"]),
            f"{facts['receive_count']}×",
            *([shown_payload(letter, codecs)[:_EXCERPT]] if payload else []),
        ]
        rows.append([cell(text) for text in cells])
    if letters:
        show_table(console(), [*_COLUMNS, *([Column("payload", folds=True)] if payload else [])], rows)
    say(f"{len(letters)} dead letter{'' if len(letters) == 1 else 's'}")


def shown_payload(letter: Letter, codecs: Codecs | None) -> str:
    """Return the payload as it may be looked at: who sees a token can answer in place of its holder.

    One that is sealed is opened by the ``codecs``.
    """
    if codecs is None or letter.message is None or letter.message.sealed is None:
        return without_tokens(letter.text)
    return without_tokens(readable_body(codecs, letter.message))


def show_letter(letter: Letter, now: int, *, as_json: bool, payload: bool, codecs: Codecs | None = None) -> None:
    facts = letter.facts(now) | ({"payload": shown_payload(letter, codecs)} if payload else {})
    if as_json:
        say_json(to_json(facts))
        return
    for name in ("error", "last_error"):
        facts[name] = _text(facts[name])
    facts["age"] = duration(facts["age"])
    for name, value in facts.items():
        if value is not None:
            say(f"{name.replace('_', ' '):<13}  {value}".replace("\n", f"\n{'':<15}"))


# -- doing


class Telling:
    """Prints the outcome for each letter as it happens. On a terminal a progress bar is shown below."""

    def __init__(self, expected: int, *, as_json: bool) -> None:
        self.failed = 0
        self._as_json = as_json
        self._counts: Counter[str] = Counter()
        columns = (TextColumn("letters"), BarColumn(), MofNCompleteColumn())
        out = console()
        self._bar = Progress(*columns, console=out, disable=as_json or not out.is_terminal, transient=True)
        self._task = self._bar.add_task("", total=expected or None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._bar.disable:  # rich before 15 ends a bar that it did not show with an empty line
            self._bar.stop()

    def redriven(self, outcomes: Sequence[Outcome]) -> None:
        for each in outcomes:
            judgement = each.judgement
            fate = "LEFT" if judgement is None else "FAILED" if each.failed is not None else judgement.fate.value
            row = {
                "verdict": None if judgement is None else judgement.fate.value,
                "why": None if judgement is None else judgement.why,
                "to": each.to,
                "deleted": each.deleted,
            }
            where = f" → {each.to}" if each.to and each.failed is None else ""
            dropped = " (deleted)" if each.deleted and not each.to else ""
            why = each.failed if judgement is None or each.failed else judgement.why
            self._tell(each.letter, fate, f"{why}{where}{dropped}", row, each.failed)

    def dropped(self, letters: Sequence[Letter], failures: Mapping[str, str], *, really: bool) -> None:
        for letter in letters:
            failed = failures.get(letter.message_id)
            word = "FAILED" if failed is not None else "DROPPED" if really else "WOULD DROP"
            row = {"deleted": really and failed is None}
            self._tell(letter, word, failed or _error(letter, letter.facts(0)), row, failed)

    def left(self, letters: Sequence[Letter], why: str) -> None:
        """Print the letters that stay in the queue."""
        for letter in letters:
            self._tell(letter, "LEFT", why, {"deleted": False}, why)

    def summary(self) -> None:
        if not self._as_json:
            counts = ", ".join(f"{count} {word}" for word, count in sorted(self._counts.items()))
            self._print(counts or NO_LETTER)

    def _tell(self, letter: Letter, word: str, why: str, row: dict[str, Any], failed: str | None) -> None:
        self._counts[word] += 1
        facts = letter.facts(0)
        if failed is not None:
            self.failed += 1
            complain(f"{letter.message_id}: {failed}")
        if self._as_json:
            names = ("message_id", "flow", "stage", "object_id", "request_id", "hop", "redrive")
            say_json(to_json({name: facts[name] for name in names} | row | {"failed": failed}))
        elif failed is None:
            subject = " ".join(bounded(part) for part in (_stage(facts), facts["object_id"]) if part)
            self._print(f"{word:<10}  {letter.message_id}  {subject}: {bounded(why)}")
        self._bar.advance(self._task)

    def _print(self, text: str) -> None:
        self._bar.console.print(line(text), soft_wrap=True)


def letter_line(letter: Letter) -> str:
    """Return a line that names the letter and its error."""
    facts = letter.facts(0)
    subject = " ".join(bounded(part) for part in (_stage(facts), facts["object_id"]) if part)
    return f"{letter.message_id}  {subject}: {_error(letter, facts)}"


def _stage(facts: Mapping[str, Any]) -> str:
    return f"{facts['flow']}/{facts['stage']}" if facts["flow"] else "(no flow)"


def _error(letter: Letter, facts: Mapping[str, Any]) -> str:
    """Return the error on one line, the last one first. For an unsent message it names the destination too."""
    first, last = _text(facts["error"]), _text(facts["last_error"])
    text = f"{last}; at first {first}" if last and first else first or last or _without_error(letter)
    if facts["problem"]:
        text = f"unreadable: {facts['problem']}"
    elif facts["to"]:
        text = f"unsent to {bounded(facts['to'])}: {text}"
    return " ".join(bounded(text).split())


def _without_error(letter: Letter) -> str:
    """Say how a letter came here that has no error. Of what SQS moves it names the queue."""
    return "given up by SQS" if letter.source_arn is not None else "sent here, as by a schedule that cannot deliver it"


def _text(error: Mapping[str, Any] | None) -> str | None:
    return None if error is None else f"{error['type']}: {error['text']}"


def check_not_empty(options: Mapping[str, Any]) -> None:
    """Refuse an empty ``--tenant`` or ``--error``. A variable that is not set is one."""
    for option in ("tenant", "error"):
        if options[option] is not None and not options[option].strip():
            raise click.UsageError(f"--{option} is empty; leave it out to take all")

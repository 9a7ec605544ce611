"""The commands of ``flowguard dlq``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading, Unusable
from flowguard.aws.redriver import Redriver
from flowguard.aws.signing_keys import aws_signer
from flowguard.cli.connection import CONNECTION, CannotRun, clients_of, reading_codecs, settings_of, with_options
from flowguard.cli.letter_rows import NO_LETTER, Filters, Seconds, Telling, letter_line, show_letter, show_letters
from flowguard.cli.many import SHOWN, at_pace, counted, may_go_on, nothing_done, pace_of, paced, say_in_hand
from flowguard.cli.printing import complain, say
from flowguard.clock import SystemClock
from flowguard.errors import SettingsError
from flowguard.operate.many_letters import paced_pages
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.worker.dead_letters import Letter

FAILED: Final = 1  # the exit code where a letter is not as it was asked for
LISTED: Final = 100
_ARRIVED: Final = "it arrived after this began, and was left"
_IS_INBOX: Final = (
    "{queue} seems to be no queue of dead letters: flowguard has parked none of these, and SQS does not say that it "
    "moved them. Looking at a stage's inbox hides its messages from its function for a while"
)


_OPTIONS: Final = (
    click.argument("queue"),
    *CONNECTION,
    click.option("--flow-class", metavar="MODULE:FLOW", help="A flow's class: it knows its queues and objects."),
    click.option("--flow", metavar="FLOW", help="Only letters of this flow: its name, or its class."),
    click.option("--stage", metavar="NAME", help="Only letters of this stage."),
    click.option("--error", metavar="TEXT", help="Only letters whose error has this type, or this in its text."),
    click.option("--request-id", metavar="ID", help="Only letters of this request."),
    click.option("--tenant", metavar="NAME", help="Only letters of this tenant's work."),
    click.option("--older-than", metavar="TIME", type=Seconds(), help="Only those sent longer ago: 90s, 15m, 1h."),
    click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop after so many letters."),
    click.option("--visibility", metavar="SECONDS", type=click.IntRange(5, 43_200), default=300, show_default=True,
                 help="How long letters stay hidden if this command dies; as long as it may take."),
    click.option("--wait", metavar="SECONDS", type=click.IntRange(0, 3), default=1, show_default=True,
                 help="How long the queue must give nothing to count as empty."),
    click.option("--json", "as_json", is_flag=True, help="A line of JSON for each letter."),
)  # fmt: skip


_common: Final = with_options(*_OPTIONS)


@click.group()
def dlq() -> None:
    """Look at the dead letters of QUEUE, send them back to their stages or drop them.

    QUEUE is the name, URL or ARN of a flow's queue of dead letters, or of one to which SQS itself moves what was
    received too often. It is an argument here: other commands, which are about a flow, name it with --queue. Letters
    that are only looked at stay; SQS counts them as received once more.

    The exit code is 0 where all is done, 1 where something failed and is named, 2 where the command cannot be run: it
    is not well formed, or there is no such queue, table or region. Of redrive it is 1 too where you said no, and where
    Ctrl-C ended the work, and 130 after Ctrl-C before that was begun.
    """


@dlq.command("list")
@_common
@click.option("--payload", is_flag=True, help="Show the beginning of each payload.")
def list_(*, limit: int | None, as_json: bool, payload: bool, **options: Any) -> None:
    """List the letters, 100 of them unless --limit says otherwise. Payloads are not shown unless asked for."""
    most = limit or LISTED
    with _reading(options) as reading:
        letters = [letter for page in _pages(reading.pages(), Filters.of(options), (), most) for letter in page]
    codecs = reading_codecs(options)
    show_letters(letters, SystemClock().now(), as_json=as_json, payload=payload, codecs=codecs)
    if letters and all(letter.kind == "raw" and letter.source_arn is None for letter in letters):
        complain(_IS_INBOX.format(queue=options["queue"]))
    if len(letters) == most:
        complain(f"stopped at {most}; there may be more, see --limit")


@dlq.command()
@_common
@click.argument("message_id", metavar="ID")
@click.option("--payload", is_flag=True, help="Show the payload too.")
def show(*, message_id: str, limit: int | None, as_json: bool, payload: bool, **options: Any) -> None:
    """Show one letter. Its payload is shown only with --payload."""
    with _reading(options) as reading:
        letters = [
            letter for page in _pages(reading.pages(), Filters.of(options), (message_id,), limit) for letter in page
        ]
    for letter in letters:
        show_letter(letter, SystemClock().now(), as_json=as_json, payload=payload, codecs=reading_codecs(options))
    sys.exit(FAILED if _missing((message_id,), letters) else 0)


@dlq.command()
@_common
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All letters that pass the filters.")
@click.option("--to", metavar="QUEUE", help="Send all of them there; without it each goes to its stage's queue.")
@click.option("--elsewhere", is_flag=True, help="Send unsent messages also to another account or region.")
@click.option("--unreadable", is_flag=True, help="Also those that their stage cannot read. A named one goes anyway.")
@click.option("--unawaited", is_flag=True, help="Also those whose answer nobody awaits. A named one goes anyway.")
@click.option("--drop-obsolete", is_flag=True, help="Delete those that are not sent: superseded, completed, expired.")
@paced
def redrive(
    *,
    ids: tuple[str, ...],
    every: bool,
    to: str | None,
    elsewhere: bool,
    drop_obsolete: bool,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Send letters back to their stages and print a verdict for each.

    The verdict is REDRIVEN, SUPERSEDED, COMPLETED, GIVEN_UP, NOT_AWAITED, TOO_DEEP or EXPIRED. Only REDRIVEN ones are
    sent; a message that its destination refused goes to that destination. Each is sent first and deleted after that,
    so whatever stops this loses nothing, and it can be run again. A letter that arrives after this has begun stays
    where it is. With --all the first letters that pass are shown, and you are asked. A letter that no run takes any
    more is sent while a flow that has asked for it waits: its stage tells it so.
    """
    _check_choice(ids, every)
    look = _ask(options, limit, as_json=as_json) if every and not options["yes"] else None
    settings, pace = settings_of(options), pace_of(options)
    done: list[Letter] = []
    in_hand: list[Letter] = []
    with _reading(options, look) as reading, Telling(reading.queue.count, as_json=as_json) as telling:
        clients = clients_of(options)
        signer = aws_signer(settings, clients, SystemClock())
        redriver = Redriver(
            clients,
            settings.run_table,
            reading,
            to=to,
            drop_obsolete=drop_obsolete,
            elsewhere=elsewhere,
            unreadable=options["unreadable"] or bool(ids),
            unawaited=options["unawaited"] or bool(ids),
            signer=signer,
            names=settings.at_aws,
        )
        try:
            pages = paced_pages(reading, pace)
            for page in _pages(pages, Filters.of(options), ids, limit):
                pace.wait(len(page))
                in_hand = page
                telling.redriven(redriver.redrive(page))
                in_hand = []
                done += page
        except KeyboardInterrupt:
            complain("interrupted; the same command goes on")
            if in_hand:
                say_in_hand(len(in_hand))
            elif not done:
                complain("nothing was done")
            sys.exit(FAILED)
        finally:
            if done or sys.exception() is None:
                telling.summary()
    sys.exit(FAILED if _missing(ids, done) or telling.failed or (every and reading.fell_short) else 0)


@dlq.command()
@_common
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All letters that pass the filters.")
@click.option("--yes", is_flag=True, help="Really delete them.")
def drop(*, ids: tuple[str, ...], every: bool, yes: bool, limit: int | None, as_json: bool, **options: Any) -> None:
    """Delete letters for good. Without --yes, only say which.

    A letter that arrives after this has begun stays where it is.
    """
    _check_choice(ids, every)
    done: list[Letter] = []
    with _reading(options) as reading, Telling(reading.queue.count, as_json=as_json) as telling:
        try:
            for page in _pages(reading.pages(), Filters.of(options), ids, limit):
                there = [letter for letter in page if reading.queue.contained(letter)]
                telling.dropped(there, reading.delete(there) if yes else {}, really=yes)
                telling.left([letter for letter in page if not reading.queue.contained(letter)], _ARRIVED)
                done += page
        finally:
            if done or sys.exception() is None:
                telling.summary()
    sys.exit(FAILED if _missing(ids, done) or telling.failed or (every and reading.fell_short) else 0)


# -- what the four commands have in common


@contextmanager
def _reading(options: dict[str, Any], look: Reading | None = None) -> Iterator[Reading]:
    """Open the queue for reading, after a look at it or without one. Errors of AWS become the command's own."""
    try:
        flow = load_flows([options["flow_class"]])[0] if options["flow_class"] else None
    except NoSuchFlow as error:
        raise click.BadParameter(str(error), param_hint="--flow-class") from None
    try:
        clients = clients_of(options)
        queue = DeadLetterQueue.find(clients, options["queue"], names=settings_of(options).at_aws)
        queue = queue if look is None else look.looked_up_again(queue)
        reading = Reading(clients, queue, flow=flow, visibility=options["visibility"], wait=options["wait"])
        with reading:
            yield reading
        for warning in reading.warnings:
            complain(f"warning: {warning}")
    except (Unusable, SettingsError) as error:
        raise CannotRun(str(error)) from None


def _pages(
    all_pages: Iterable[list[Letter]], filters: Filters, ids: tuple[str, ...], most: int | None
) -> Iterator[list[Letter]]:
    """Yield the chosen letters, page by page. The queue is read no further than needed."""
    missing, left = set(ids), most
    now = SystemClock().now()
    for page in all_pages:
        letters = [
            letter for letter in page if (not ids or letter.message_id in missing) and filters.pass_(letter, now)
        ][:left]
        if letters:
            yield letters
        missing -= {letter.message_id for letter in letters}
        left = None if left is None else left - len(letters)
        if left == 0 or (ids and not missing):
            return


def _ask(options: dict[str, Any], limit: int | None, *, as_json: bool) -> Reading:
    """Show the first letters that pass the filters, and ask. They are given back before that.

    Returns that look. Exits where the answer is no, and where none passes: nobody was asked about letters that come
    later.
    """
    try:
        with _reading(options) as reading:
            page = next(_pages(reading.pages(), Filters.of(options), (), min(SHOWN, limit or SHOWN)), [])
            count = reading.queue.count
    except KeyboardInterrupt:
        nothing_done()
    if not page:
        say(NO_LETTER, err=as_json)
        sys.exit(0)
    complain(f"of about {counted(count, 'letter')} in {options['queue']} these pass, and maybe more:")
    for letter in page:
        complain(f"  {letter_line(letter)}")
    which, number = ("all", count) if limit is None else (f"the first {limit:,}", min(limit, count))
    if not may_go_on(f"redrive {which} that pass?{at_pace(number, options)}", options):
        sys.exit(FAILED)
    return reading


def _check_choice(ids: tuple[str, ...], every: bool) -> None:
    if bool(ids) is every:
        raise click.UsageError("name the letters by their message ids, or say --all" + (", not both" if ids else ""))


def _missing(ids: tuple[str, ...], letters: list[Letter]) -> bool:
    """Print the ids that were not found. Returns whether there are any."""
    missing = [name for name in ids if name not in {letter.message_id for letter in letters}]
    for name in missing:
        complain(f"{name}: no such letter is visible now; is it gone, filtered out, or held by a reader?")
    return bool(missing)

"""The command ``flowguard retry``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import click

from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.redriver import Redriver
from flowguard.aws.run_reader import RunReader
from flowguard.aws.services import aws_sender
from flowguard.aws.signing_keys import aws_signer
from flowguard.cli.connection import (
    CannotRun,
    check_id,
    clients_of,
    command_time,
    connected,
    connection_errors,
    flow_class,
    settings_of,
)
from flowguard.cli.letter_rows import Telling as LetterTelling
from flowguard.cli.many import (
    Choice,
    Telling,
    check_choice,
    for_many,
    may_go_on,
    pace_of,
    progress,
    report,
    say_in_hand,
)
from flowguard.cli.printing import complain, say_json
from flowguard.cli.recordings import read_payload
from flowguard.cli.run_lines import say_line
from flowguard.cli.table_reading import reading_errors
from flowguard.destinations import Queue
from flowguard.errors import RunFailed, TooLarge
from flowguard.flow import AnyFlow
from flowguard.operate.begun_anew import Begun, NotAnew, begin_again, check_again, first_in_letters
from flowguard.operate.bulk import FAILED, Chosen, FailureStreak
from flowguard.operate.many_letters import ManyLetters, can_be_retried
from flowguard.operate.no_run import no_run
from flowguard.operate.own_letters import OwnLetters, refusal
from flowguard.protocol.run import RunItem
from flowguard.wire.message import Message
from flowguard.wire.notification import to_json
from flowguard.wire.signing import Signer
from flowguard.worker.again import with_payload
from flowguard.worker.redrive import Fate

NOT_DONE: Final = 1  # the exit code where nothing was sent
_ONE_AGAIN: Final = (
    "--again is for one OBJECT and not for --all: on_failed has taken its work back on purpose, so look at each before "
    "you begin it anew. 'flowguard list --status failed --json' names them"
)


@click.command()
@click.argument("flow", metavar="MODULE:FLOW")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@connected
@for_many
@click.option("--queue", metavar="NAME", help="The queue of dead letters, if not the one that the flow's class names.")
@click.option("--visibility", metavar="SECONDS", type=click.IntRange(5, 43_200), default=300, show_default=True,
              help="How long letters stay hidden if this command dies.")  # fmt: skip
@click.option("--wait", metavar="SECONDS", type=click.IntRange(0, 3), default=1, show_default=True,
              help="How long the queue must give nothing to count as empty.")  # fmt: skip
@click.option("--again", is_flag=True, help="Begin a run anew that failed and was taken back by on_failed.")
@click.option("--from", "file", metavar="FILE", help="With --again: the request's payload, where no letter has it.")
@click.option("--lane", metavar="NAME", help="With --from: the run's lane, where the flow's inbox has several.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each letter, or for the request.")
def retry(
    flow: str,
    object_id: str | None,
    *,
    queue: str | None,
    again: bool,
    file: str | None,
    every: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Send the dead letter of OBJECT's run back to its stage, as 'flowguard dlq redrive' does for one letter.

    The run item is read first: a run that is COMPLETED, cancelled, or taken back by the flow's on_failed stage is left
    alone. Then the queue of dead letters is read until the letter of this very request is found. All other letters
    stay.

    With --again a run that on_failed has taken back is begun anew: its first message is sent as a request of now, under
    an id that is made of the run's, so that two calls begin one run. The message is that of the run's dead letter,
    which stays. The letter of a run that failed at a later hop has another message: give the request's payload with
    --from; a dash is standard input. --lane says the lane of a run that had another than the first. What
    goes on is left alone, whichever request began it. So is each run of a flow that names its requests by their
    payload: a late copy of the request would be carried out once more after one of another id.

    With --all the letters of all runs that pass the filters are sent back. Their number and the first of them are
    shown, and you are asked. A letter whose run has changed meanwhile stays. The same command goes on where this was
    stopped.

    The exit code is 0 where a letter or the request was sent, 1 where none was, 2 where the command cannot be run. With
    --all it is 0 where each letter was sent or left; 1 where some failed, the table or the queue was not read to its
    end, the table has items that this version cannot read, you said no, or Ctrl-C ended the work; 2 where it cannot go
    on, either; 130 after Ctrl-C before anything was done.
    """
    check_choice(object_id, every=every)
    if file is not None and not again:
        raise click.UsageError("--from is for --again")
    if options["lane"] is not None and file is None:
        raise click.UsageError("--lane is for --from; a letter names its own")
    if again and object_id is None:
        raise click.UsageError(_ONE_AGAIN)
    loaded = flow_class(flow)
    if object_id is None:
        sys.exit(_retry_many(loaded, queue, options, as_json=as_json))
    check_id("OBJECT", object_id)
    if again:
        sys.exit(_again(loaded, object_id, queue, file, options, as_json=as_json))
    name = queue if queue is not None else _queue_of(loaded)
    item = _failed_run(loaded, object_id, options)
    letters = OwnLetters(loaded.name, object_id, item.request_id)
    with connection_errors(f"queue {name}"):
        reading, redriver = _opened(loaded, name, options)
        with reading, LetterTelling(0, as_json=as_json) as telling:
            for page in reading.pages():
                telling.redriven(letters.counted(redriver.redrive(letters.among(page))))
                if letters.sent:
                    break
    for problem in (*reading.warnings, *letters.problems(name)):
        complain(f"{loaded.name} of {object_id}: {problem}")
    sys.exit(0 if letters.sent and not letters.kept else NOT_DONE)


def _failed_run(flow: AnyFlow, object_id: str, options: Mapping[str, Any]) -> RunItem:
    """Return the run, which a letter can move on. Ends the command for any other."""
    item = _read(flow, object_id, options)
    why = no_run(flow) if item is None else refusal(item, command_time().clock.now(), flow)
    if item is None or why is not None:
        complain(f"{flow.name} of {object_id}: nothing was sent back: {why}")
        sys.exit(NOT_DONE)
    return item


def _read(flow: AnyFlow, object_id: str, options: Mapping[str, Any]) -> RunItem | None:
    settings = settings_of(options)
    with connection_errors(f"table {settings.run_table}"):
        seen = RunReader.of(settings, clients_of(options)).read(flow.name, object_id)
    return None if seen is None else seen.item


# -- many -------------------------------------------------------------------------------------------------------------


def _retry_many(flow: AnyFlow, queue: str | None, options: Mapping[str, Any], *, as_json: bool) -> int:
    """Send back the letters of all runs that pass the filters. Return the exit code."""
    name = queue if queue is not None else _queue_of(flow)
    with reading_errors(options):
        choice = Choice(flow, can_be_retried(flow, command_time().clock.now()), options)
    choice.show("retry")
    if not choice.chosen:
        report({}, 0, as_json=as_json)
        choice.say_rest()
        return 0 if not choice.is_short else NOT_DONE
    if not may_go_on(choice.question("retry", options), options):
        return NOT_DONE
    words: dict[Chosen, str] = {}
    is_done, has_failed, in_hand, streak = False, False, 0, FailureStreak(options["most_failures"])
    with connection_errors(f"queue {name}"), progress(len(choice.chosen)) as advance:
        telling = Telling(lambda: None, as_json=as_json)
        reading, redriver = _opened(flow, name, options)
        letters = ManyLetters(choice.chosen, reading, redriver, pace_of(options))
        try:
            with reading:
                for run, end in letters.ends():
                    if run not in words:
                        advance()
                    words[run] = _of_run(words.get(run), end.word)
                    has_failed = has_failed or end.word == FAILED
                    telling.tell(run, end)
                    streak.add(end)
            is_done = True
        except KeyboardInterrupt:
            complain("interrupted; the same command goes on")
            if in_hand := letters.in_hand:
                say_in_hand(in_hand)
        finally:
            report(Counter(words.values()), len(choice.chosen), as_json=as_json, in_hand=in_hand > 0)
            if is_done and not has_failed:
                choice.say_rest()
    for warning in reading.warnings:
        complain(f"warning: {warning}")
    is_all = is_done and not choice.is_short and not reading.fell_short
    return 0 if is_all and not has_failed else NOT_DONE


def _of_run(before: str | None, word: str) -> str:
    """Return the outcome of a run with several letters: REDRIVEN if any was sent, else FAILED if any failed."""
    words = [word] if before is None else [before, word]
    return next((each for each in (Fate.REDRIVEN.value, FAILED) if each in words), words[0])


# -- begun anew -------------------------------------------------------------------------------------------------------


def _again(
    flow: AnyFlow, object_id: str, queue: str | None, file: str | None, options: Mapping[str, Any], *, as_json: bool
) -> int:
    """Begin the run anew, and return the exit code. What is asked for once the run is read is newer than it."""
    now, item = command_time().clock.now(), _read(flow, object_id, options)
    begun, problem = None, no_run(flow)
    try:
        if item is not None:
            check_again(flow, item)
            begun = _begun(flow, object_id, item, now, queue, file, options)
    except NotAnew as error:
        problem = str(error)
    facts: dict[str, Any] = {"flow": flow.name, "object_id": object_id, "begun": begun is not None}
    if begun is None:
        complain(f"{flow.name} of {object_id}: nothing was begun anew: {problem}")
        facts["problem"] = problem
    else:
        sent, facts["to"] = begun.message, begun.to
        facts |= {"request_id": sent.request_id, "requested_at": sent.requested_at}
    if as_json:
        say_json(to_json(facts))
    elif begun is not None:
        say_line(f"BEGUN ANEW  {flow.name} of {object_id}: request {begun.message.request_id} to {begun.to}")
    return NOT_DONE if begun is None else 0


def _begun(
    flow: AnyFlow,
    object_id: str,
    item: RunItem,
    now: int,
    queue: str | None,
    file: str | None,
    options: Mapping[str, Any],
) -> Begun:
    settings, clients = settings_of(options), clients_of(options)
    signer = aws_signer(settings, clients, command_time().clock)
    if file is not None:
        first = _given(flow, file, object_id, item, signer, options["lane"])
    else:
        name = queue if queue is not None else _queue_of(flow)
        with connection_errors(f"queue {name}"):
            first = first_in_letters(flow, object_id, item, _opened(flow, name, options)[0], signer)
    with connection_errors("the first stage's inbox"):
        return begin_again(flow, first, item, now, sender=aws_sender(settings, clients), signer=signer)


def _given(flow: AnyFlow, file: str, object_id: str, item: RunItem, signer: Signer, lane: str | None) -> Message:
    """Return the first message with the payload of a file."""
    try:
        return with_payload(flow, read_payload(file), object_id, item, signed=signer.is_on, lane=lane)
    except (RunFailed, TooLarge, TypeError) as error:
        raise CannotRun(f"{error}. Nothing was sent") from None


def _queue_of(flow: AnyFlow) -> str:
    if isinstance(flow.dead_letters, Queue):
        return flow.dead_letters.name
    raise CannotRun(f"the dead letters of {flow.name} go to {flow.dead_letters}, which is no queue; give --queue")


def _opened(flow: AnyFlow, name: str, options: Mapping[str, Any]) -> tuple[Reading, Redriver]:
    settings, clients, clock = settings_of(options), clients_of(options), command_time().clock
    dead = DeadLetterQueue.find(clients, name, names=settings.at_aws)
    visibility, wait = options["visibility"], options["wait"]
    reading = Reading(clients, dead, flow=flow, visibility=visibility, wait=wait, clock=clock)
    signer = aws_signer(settings, clients, clock)
    return reading, Redriver(clients, settings.run_table, reading, clock=clock, signer=signer, names=settings.at_aws)

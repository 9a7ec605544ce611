"""The last line of a command that Ctrl-C ends: what it has done, and what not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from flowguard.cli.printing import complain

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as of any program that a shell sees end by it."""

_READS: Final = "nothing was changed, for it only reads; what it has printed is not all"
_HERE: Final = "it runs in this process alone, so nothing was changed outside it"
_LETTERS: Final = "nothing was changed; a letter that it was reading is visible again after --visibility at the latest"

LEFT_BEHIND: Final = {
    "normalize": _READS,
    "replay": _HERE,
    "demo": _HERE,
    "dev": "it was stopped at once; what --state had at its start is still there, and what came since is not saved",
    "mailbox": _READS,
    "explore": "it has no report yet; nothing was changed, but that the files of --html and --sarif may be empty",
    "send": "each message that it has named is sent, the next may be; for the same request, give its --request-id",
    "dlq list": _LETTERS,
    "dlq show": _LETTERS,
    "dlq redrive": "each letter is sent before it is deleted, so none is lost; the same command goes on",
    "dlq drop": "each letter that it has named as DROPPED is deleted, and others of the page after them may be",
    "show": _READS,
    "tail": "nothing was changed, for it only reads; the run goes on",
    "list": _READS,
    "stats": _READS,
    "waits": _READS,
    "cancel": "the run may be cancelled, as 'flowguard show' says; the same command cancels it if it goes on",
    "reset": "the run may be reset, as 'flowguard show' says; the same command begins its work once more",
    "pause": "each stage that it has named is paused, the next may be; the same command pauses the rest",
    "resume": "each stage that it has named goes on, the next may; the same command resumes the rest",
    "forget": "without --yes nothing was changed; with it a part may be gone, and the same command removes the rest",
    "retry": "each letter is sent before it is deleted, so none is lost; the same command goes on",
    "ui": "it serves no pages any more",
    "callback": "the answer may be given; the same command gives it if it is not, and changes nothing if it is",
    "once show": _READS,
    "once forget": "without --yes nothing was changed; with it the entry may be gone, as 'flowguard once show' says",
    "init": "the project is written as a whole, or not at all",
    "graph": _READS,
    "cost": _READS,
    "iac": "what --output or --split names may be written in part; the same command writes it anew",
    "package": "the zip and its lock file are as they were, or new; the same command writes them anew",
    "check": _READS,
    "doctor": _READS,
    "probe": "what its programs had made is deleted, or named above",
}
"""By the words of the command."""


@contextmanager
def interruptions_named(words: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Say what is left where Ctrl-C ends the command. ``words`` returns what was typed.

    Who answers no to a question, or cannot answer, has let nothing be done.
    """
    try:
        yield
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            _end("nothing was done")
        complain("nobody agreed, so nothing was done")
        sys.exit(1)
    except KeyboardInterrupt:
        _end(left_behind(words()))


def left_behind(words: Sequence[str]) -> str:
    """Return what the command leaves behind. That may be one of a group."""
    return next((LEFT_BEHIND[name] for name in (" ".join(words[:2]), *words[:1]) if name in LEFT_BEHIND), _READS)


def _end(what: str) -> None:
    complain(f"interrupted; {what}")
    sys.exit(INTERRUPTED)

"""The command ``flowguard normalize``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from flowguard.cli.printing import complain, say_json
from flowguard.wire.envelope import BadRecord, Envelope
from flowguard.wire.envelope import normalize as normalize_event
from flowguard.wire.notification import to_json

BAD: Final = 2  # the exit code where something could not be read


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def normalize(files: tuple[str, ...]) -> None:
    """Print the records of each FILE in the one shape that flowguard reads.

    That is the shape of SNS to SQS, printed as JSON, one record a line.

    A FILE holds JSON: a Lambda event, one record, a list of records, what 'aws sqs receive-message' prints, or the
    payload of a direct invocation. It may hold several, each on a line of its own. A dash is standard input.

    What cannot be read is named on standard error: file, record, field and what is wrong. The rest is printed all the
    same. The exit code is 0 where everything could be read, else 2.
    """
    sys.exit(BAD if sum(_print_file(file) for file in files) else 0)


def _print_file(file: str) -> int:
    """Print the records of a file and return how many could not be read."""
    try:
        text = _read(file)
    except (OSError, ValueError) as error:
        return _complain(file, getattr(error, "strerror", None) or str(error))
    return sum(_print_event(name, part) for name, part in _events(file, text))


def _print_event(name: str, text: str) -> int:
    try:
        event = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return _complain(name, f"not JSON: {error}" if text.strip() else "empty")
    return sum(_print_record(name, read) for read in normalize_event(event))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _print_record(name: str, read: Envelope | BadRecord) -> int:
    if isinstance(read, BadRecord):
        return _complain(name, str(read.error))
    say_json(to_json(read.record))
    return 0


def _complain(name: str, problem: str) -> int:
    complain(f"{name}: {problem}")
    return 1


def _read(file: str) -> str:
    """Read a file in any UTF. Some shells write UTF-16."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return data.decode(json.detect_encoding(data))


def _events(file: str, text: str) -> list[tuple[str, str]]:
    """Split a file into texts of JSON with their names.

    The file is one text, or each of its lines is one where the first is whole by itself and others follow.
    """
    first, _, rest = text.strip().partition("\n")  # not splitlines, which also splits at U+2028 within a string
    if not rest or not _is_json(first):
        return [(file, text)]
    return [(f"{file}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

"""Printing for every command. Control characters of senders are escaped."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import Final

import click

from flowguard.text.printable import one_line, printable, printable_json


def say(text: str, *, err: bool = False) -> None:
    """Print to standard output, or to standard error. Newlines stay."""
    click.echo(printable(text), err=err)


def complain(text: str) -> None:
    """Print one line to standard error."""
    click.echo(one_line(text), err=True)


def say_json(text: str) -> None:
    """Print the text of a JSON value on one line, in UTF-8 wherever it goes."""
    click.echo(printable_json(text).encode())


@contextmanager
def code_printing_apart(*, as_json: bool) -> Iterator[None]:
    """Let what user code prints meanwhile go to standard error where standard output is JSON."""
    if not as_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def printable_errors() -> Iterator[None]:
    """Escape control characters in click's own errors, which repeat the arguments."""
    try:
        yield
    except click.ClickException as error:
        error.message = printable(error.message)  # type: ignore[misc]  # or else click would have to be subclassed
        raise


class NotWritten(click.ClickException):
    """What a command has to say cannot be written."""

    exit_code = click.UsageError.exit_code


@contextmanager
def full_disks_named() -> Iterator[None]:
    """Say so where a disk is full or broken, instead of printing Python's own lines about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        with suppress(OSError, ValueError, AttributeError):  # or Python would try to write the rest at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NotWritten(f"{error.filename or 'the output'} cannot be written: {error.strerror}") from None


_NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def take_any_text() -> None:
    """Let standard output escape characters that its encoding lacks, as standard error does."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")

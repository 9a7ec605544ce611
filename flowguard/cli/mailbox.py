"""The command ``flowguard mailbox``."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any, Final

import click

from flowguard.cli.connection import CannotRun, settings_of
from flowguard.cli.printing import say, say_json
from flowguard.dev.local_pages import MAILBOX
from flowguard.operate.moments import iso
from flowguard.wire.notification import to_json

_SECONDS: Final = 10
_FIX: Final = "is 'flowguard dev' running there? It prints the line that sets AWS_ENDPOINT_URL"


@click.command()
@click.argument("queues", metavar="[QUEUE]...", nargs=-1)
@click.option("--endpoint-url", metavar="URL", help="Where flowguard dev listens; AWS_ENDPOINT_URL by default.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
def mailbox(queues: tuple[str, ...], *, endpoint_url: str | None, as_json: bool) -> None:
    """Show what a flow has sent to queues that nobody reads in 'flowguard dev', such as mails.

    The newest message comes first. A link that was made by step.token is shown as it can be opened on this machine.
    Nothing is received: the messages stay as they are. Queues of dead letters are left out; 'flowguard dlq' has them.

    The exit code is 0 where there is a message, 1 where there is none, and 2 where no flowguard dev answers.
    """
    url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or ""
    names = settings_of({"table": None}).at_aws
    wanted = {*queues, *map(names.queue, queues)}
    messages = [message for message in _messages(url) if not queues or message["queue"] in wanted]
    for message in messages:
        shown = {**message, "sent_at": iso(message["sent_at"]), "due_at": iso(message["due_at"])}
        say_json(to_json(shown)) if as_json else _show(shown)
    if not messages:
        if not as_json:
            say("no message lies there")
        click.get_current_context().exit(1)


def is_dev(url: str | None) -> bool:
    """Answer whether ``flowguard dev`` is what answers under the URL."""
    try:
        _messages(url or os.environ.get("AWS_ENDPOINT_URL") or "")
    except CannotRun:
        return False
    return True


def _messages(url: str) -> list[dict[str, Any]]:
    if not url.startswith(("http://", "https://")):
        raise CannotRun(f"no --endpoint-url, and AWS_ENDPOINT_URL is not set; {_FIX}")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}{MAILBOX}.json", timeout=_SECONDS) as answer:  # noqa: S310 - http
            messages: object = json.load(answer)
    except urllib.error.HTTPError as refused:
        refused.close()
        raise CannotRun(f"{url}: {refused.reason}; {_FIX}") from None
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise CannotRun(f"{url}: {getattr(error, 'reason', None) or error}; {_FIX}") from None
    if not isinstance(messages, list):
        raise CannotRun(f"{url}: it has no mailbox; {_FIX}")
    return messages


def _show(message: dict[str, Any]) -> None:
    say(f"{message['sent_at']}  {message['queue']}")
    body = message["body"]
    say(f"  {body if isinstance(body, str) else to_json(body)}")
    for link in message["links"]:
        say(f"  opens here: {link}")

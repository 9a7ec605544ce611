"""The live view of ``flowguard dev``: a line for each thing that happens, for people or as JSON."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from flowguard.cli.console import console, line
from flowguard.cli.printing import complain, say_json
from flowguard.dev.local_pages import STARTS
from flowguard.operate.moments import iso
from flowguard.text.printable import bounded
from flowguard.wire.notification import to_json

_STYLES: Final = {"completed": "green", "failed": "red", "retried": "yellow", "broken": "red", "fenced": "yellow"}
_CUT: Final = 60


class LiveView:
    """Prints what happens, to people by default."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._out: Console = console()
        self._url = ""

    def show(self, event: Mapping[str, Any]) -> None:
        """Print one thing that happened. ``event`` says what."""
        at = event.get("at", time.time_ns() // 1_000_000)
        if self._as_json:
            say_json(to_json({**event, "at": iso(at)}))
            return
        clock = iso(at)[11:23]
        match event["event"]:
            case "delivery":
                self._print(f"{clock}  {_delivery(event)}", _STYLES.get(event["outcome"] or "", ""))
                self._print_trace(event["raised"])
            case "listening":
                self._listening(event)
            case "loaded":
                self._loaded(clock, event)
            case "changed":
                self._print(f"{clock}  changed: {', '.join(event['files'])}; loading again", "bold")
            case "not loaded":
                for row in f"{event['why']}\nnothing is served; save a file to load again".split("\n"):
                    complain(row)
            case _:
                self._print(f"{clock}  {_other(event)}", "yellow")

    def _listening(self, event: Mapping[str, Any]) -> None:
        self._url = event["url"]
        self._print(f"AWS on {event['url']}, in {event['region']}. In another terminal:", "bold")
        self._print(f"  {_export(event['environment'])}")
        for command in event["commands"]:
            self._print(f"  {command}")
        self._print(f"In a browser: {event['mailbox']}, what nobody reads here, such as mails, with its links", "bold")

    def _loaded(self, clock: str, event: Mapping[str, Any]) -> None:
        for name, queues in event["functions"].items():
            does = (
                f"starts runs at {self._url}{STARTS}/{name}"
                if name in event["starts"]
                else f"reads {', '.join(queues) or 'no queue'}"
            )
            self._print(f"{clock}  {name} {does}", "bold")
        if event["environment"]:
            self._print("In the other terminal as well:", "bold")
            self._print(f"  {_export(event['environment'])}")
        for spell in event["weather"]:
            lasts = f"from {iso(spell['begins'])} until {iso(spell['ends'])}"
            self._print(f"{clock}  weather: {spell['name']} {lasts}", "bold")
        for note in event["notes"]:
            complain(note)

    def _print(self, text: str, style: str = "") -> None:
        self._out.print(line(text, style), soft_wrap=True)

    def _print_trace(self, trace: str | None) -> None:
        for row in (trace or "").rstrip().split("\n") if trace else ():
            self._print(f"    {row}", "dim")


def _export(variables: Mapping[str, str]) -> str:
    """Return the line that sets variables in a shell."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


def _delivery(event: Mapping[str, Any]) -> str:
    """Return the line that shows a delivery, with its stage, its object and its outcome."""
    place = "/".join(filter(None, (event["flow"], event["stage"])))  # an answer that comes late is for no stage
    where = place if event["flow"] else f"{event['function']} from {event['queue']}"
    parts = [bounded(where, _CUT)]
    if event["object_id"]:
        parts.append(bounded(event["object_id"], _CUT))
    if event["hop"]:
        parts.append(f"hop {event['hop']}, attempt {event['attempt']}")
    parts.append(", ".join(filter(None, (event["verdict"], event["outcome"]))) or _silence(event))
    parts.append(f"{event['ms']} ms")
    if event["sent"]:
        parts.append("sent to " + ", ".join(dict.fromkeys(map(_name, event["sent"]))))
    if event["why"]:
        parts.append(bounded(event["why"]))
    if not event["acked"]:
        parts.append("stays in its queue")
    return "  ".join(parts)


def _silence(event: Mapping[str, Any]) -> str:
    """Return what stands where a delivery claimed nothing and nothing came of it, in the words of a replay."""
    if event["not_due"]:
        return "deadline not due"
    return "nothing was left to do" if event["acked"] and not event["sent"] else "no verdict"


def _name(to: str) -> str:
    """Return a destination without the region and account of its ARN."""
    kind, _, name = to.partition(":")
    return bounded(f"{kind}:{name.rpartition(':')[2]}", _CUT)


def _other(event: Mapping[str, Any]) -> str:
    match event["event"]:
        case "problem":
            return f"{event['queue']}: {event['why']}"
        case "starting":
            return f"starting AWS and the functions of {', '.join(event['modules'])}"
        case "died":
            return f"the functions' process ended with code {event['code']}"
        case "answer":
            return f"a link was {'answered' if event['method'] == 'POST' else 'opened'}: status {event['status']}"
        case "start":
            did = "a run was asked for" if event["method"] == "POST" else "a run was looked at"
            return f"{did}: status {event['status']}"
        case "killed":
            return "a function did not end in time and was stopped; its message comes back after the visibility timeout"
        case "stopped":
            return "stopped" if event["state"] is None else f"stopped; the state is in {event['state']}"
        case other:
            return str(other)

"""``flowguard``, the command line. Each command is the module of its name here, imported when it is called.

So ``flowguard --help`` and ``flowguard normalize`` load neither boto3 nor the embedded engine.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

try:
    import click
except ModuleNotFoundError as missing:
    if missing.name != "click":
        raise
    print("The flowguard command needs its extra: pip install 'flowguard-aws[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

from flowguard.cli.interrupted import interruptions_named
from flowguard.cli.own_process import OwnProcess
from flowguard.cli.printing import full_disks_named, printable_errors, take_any_text

# Each command's line in the help, written here so that the help need not import them all.
COMMANDS: Final = {
    "normalize": "Print the records of events in the one shape.",
    "replay": "Run recorded envelopes through the flows, without AWS.",
    "demo": "Watch the shipped flows survive duplicates, disorder and death.",
    "dev": "Serve an AWS here, and run the functions on it.",
    "mailbox": "Show what lies in queues that nobody reads in 'dev'.",
    "explore": "Find the crash, duplicate or delay that breaks a flow.",
    "send": "Start a run, or put recorded messages into a queue.",
    "dlq": "List, show, redrive or drop dead letters.",
    "show": "Show where the run of an object stands.",
    "tail": "Follow the run of an object until it ends.",
    "list": "List runs by status, stage and age.",
    "stats": "Count runs by flow, status and stage.",
    "waits": "Show what runs wait for.",
    "cancel": "Cancel the run of an object.",
    "reset": "Begin a run's work once more, or drop its result.",
    "pause": "Stop deliveries to a flow or a stage.",
    "resume": "Start the deliveries again that were paused.",
    "forget": "Remove what an object has left.",
    "retry": "Send a run's dead letter back to its stage.",
    "ui": "Show runs, waits and dead letters in a browser.",
    "callback": "Answer by hand what a run waits for.",
    "once": "Show the entry of a key of @once.",
    "init": "Write a small project, to start from.",
    "graph": "Draw the graph of a flow.",
    "cost": "Show the price of a flow by stage.",
    "iac": "Write the template of a deployment.",
    "package": "Write the zip of the functions' code.",
    "check": "Find faults in the source of handlers.",
    "doctor": "Compare what is live with what the flows need.",
    "probe": "Ask AWS, or an engine, what flowguard assumes of it.",
}


_WORDS: Final = "flowguard.words"
"""Where the words of the command that runs are kept."""


@contextmanager
def needed_extras() -> Iterator[None]:
    """Name the extras that bring a library which is not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "flowguard").partition(".")[0] == "flowguard":
            raise
        extras = "ui,local" if missing.name in ("flask", "werkzeug", "graphviz-pure") else "cli,local"
        problem = f"this command needs {missing.name}, which its extras bring: pip install 'flowguard-aws[{extras}]'"
        raise click.UsageError(problem) from None


class LazyGroup(click.Group):
    """The command ``x`` is the attribute ``x`` of the module ``flowguard.cli.x``.

    Both are called ``x_`` where Python itself has an ``x``.
    """

    def __call__(self, *arguments: Any, **extra: Any) -> Any:
        """Run as the program of this process does, not as a part of another one."""
        process = OwnProcess()
        with process.ending():
            return self.main(*arguments, obj=process, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with needed_extras():
            name = f"{cmd_name}_" if hasattr(builtins, cmd_name) else cmd_name
            command = getattr(import_module(f"{__name__}.{name}"), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{__name__}.{name}.{name} is not a click command")
        return command

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with printable_errors():
            return super().make_context(*arguments, **extra)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[_WORDS] = args
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with printable_errors(), needed_extras(), full_disks_named(), interruptions_named(lambda: ctx.meta[_WORDS]):
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="flowguard-aws", prog_name="flowguard")
def main() -> None:
    """Idempotent flows of many Lambda functions over SQS, SNS and DynamoDB.

    Exit codes of all commands: 0 all is well; 1 something was found, or failed for some of what was asked for; 2 the
    command cannot be run like this, or something cannot be read or loaded; 130 after Ctrl-C, or 1 where it has
    ended some of the work; the last line says what was done.
    """
    take_any_text()

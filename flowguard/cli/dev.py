"""The command ``flowguard dev``."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import click

from flowguard.cli.connection import CannotRun
from flowguard.cli.dev_lines import LiveView
from flowguard.clock import SystemClock
from flowguard.dev.cannot_serve import CannotServe, StateRefused
from flowguard.dev.functions import Order
from flowguard.dev.process import FunctionsProcess
from flowguard.dev.saved_state import only_user, put_back, read_state, seconds_now, take_state, travelling, write_state
from flowguard.dev.served import LOOPBACK, ServedEngine
from flowguard.dev.sources import Sources
from flowguard.errors import SettingsError
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.weather.forecast import KINDS, forecast

PORT: Final = 4566
"""What other emulators of AWS listen on, too."""

_TICK: Final = 0.25
_AFTER_A_DEATH: Final = 1.0


@click.command()
@click.argument("modules", metavar="MODULE[:FLOW]...", nargs=-1, required=True)
@click.option("--options", type=click.Path(path_type=Path), help="A TOML file with the options of the deployment.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0 takes a free one.")
@click.option("--host", default=LOOPBACK, show_default=True, help="Another address lets other machines in.")
@click.option("--region", default=REGION, show_default=True, help="AWS's region, as in the ARNs of topics.")
@click.option("--account", metavar="ID", default=ACCOUNT_ID, show_default=True, help="AWS's account, as in ARNs.")
@click.option("--state", metavar="DIR", type=click.Path(path_type=Path), help="Keep tables and messages there.")
@click.option("--weather", metavar="NAME[=SPAN][@SPAN],…", default="", help=f"A bad day: {', '.join(KINDS)}.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each thing that happens.")
def dev(  # noqa: PLR0913 - the options of a command
    modules: tuple[str, ...],
    *,
    options: Path | None,
    port: int,
    host: str,
    region: str,
    account: str,
    state: Path | None,
    weather: str,
    as_json: bool,
) -> None:
    """Serve an AWS on this machine, and run the functions of each MODULE on its queues.

    A MODULE is where a lambda_handler(…), callback_handler(…), start_handler(…) or dlq_handler(…) is, or a function
    under @once, as for 'flowguard iac'. Their tables, queues and topics are created. When a source file below the
    current directory is saved, the functions are loaded again. boto3 and the AWS CLI use the engine by --endpoint-url.

    Under --weather AWS is as on a bad day, from when the functions are loaded: 'dynamodb-away=10m@1m' refuses their
    calls for ten minutes, after one.

    Everything is forgotten at the end, unless --state names a directory. Ctrl-C stops it.

    The exit code is 0 after Ctrl-C or SIGTERM, 2 where it cannot be run: the port is taken, or the state is damaged.
    """
    if len(account) != 12 or not (account.isascii() and account.isdigit()):
        raise click.BadParameter("an account has twelve digits", param_hint="--account")
    if options is not None and not options.is_file():
        raise click.BadParameter(f"{options} is no file", param_hint="--options")
    _check_weather(weather)
    view = LiveView(as_json=as_json)
    order = Order(modules, None if options is None else str(options), account, region, weather)
    try:
        with ExitStack() as held:
            if state is not None:
                held.enter_context(only_user(state))
            kept = read_state(state) if state is not None else None
            engine = held.enter_context(ServedEngine(host, port, region=region, account=account))
            stop = held.enter_context(_stop_signals())
            if kept is not None:
                put_back(kept, engine.client, seconds_now(), where=str(state))
            view.show({"event": "starting", "modules": list(modules)})
            order = order._replace(answers_url=engine.answers_url)
            sources = Sources(Path.cwd(), *([options] if options else []))
            _Session(engine, order, view, sources, _listening(engine, modules)).run(stop)
            if state is not None:
                write_state(state, take_state(engine.client, travelling, seconds_now()))
            view.show({"event": "stopped", "state": None if state is None else str(state)})
    except (CannotServe, StateRefused) as error:
        raise CannotRun(str(error)) from None


def _check_weather(text: str) -> None:
    """Refuse what is no weather."""
    try:
        forecast(text, SystemClock())
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint="--weather") from None


class _Session:
    """The functions of one start of the command: loaded again after each change, and after a death.

    ``listening`` is shown once they are loaded for the first time: before that their queues are not there.
    """

    def __init__(
        self, engine: ServedEngine, order: Order, view: LiveView, sources: Sources, listening: Mapping[str, Any]
    ) -> None:
        self._environment = engine.environment()
        self._order = order
        self._view = view
        self._sources = sources
        self._listening: Mapping[str, Any] | None = listening
        self._said: Queue[dict[str, Any]] = Queue()
        self._mailbox = engine.pages.mailbox
        self._process = self._started()
        self._again_at: float | None = None
        engine.pages.ask = self._ask
        self._loaded = False

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set."""
        try:
            while not stop.is_set():
                self._listen()
                if files := self._sources.changed():
                    self._view.show({"event": "changed", "files": files})
                    self._restart()
                elif self._again_at is not None and time.monotonic() >= self._again_at:
                    self._restart()
        finally:
            self._stop()

    def _started(self) -> FunctionsProcess:
        return FunctionsProcess(self._order, self._environment, self._said)

    def _listen(self) -> None:
        """Show what is said, for a moment."""
        until = time.monotonic() + _TICK
        while (left := until - time.monotonic()) > 0:
            try:
                self._show(self._said.get(timeout=left))
            except Empty:
                return

    def _show(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "loaded" and self._listening is not None:
            self._view.show(self._listening)
            self._listening = None
        self._view.show(event)
        if event["event"] == "loaded":
            self._loaded = True
            read = [queue for queues in event["functions"].values() for queue in queues]
            self._mailbox.read_by_others = frozenset((*read, *event["dead_letters"]))
        if event["event"] == "died" and self._loaded:
            self._again_at = time.monotonic() + _AFTER_A_DEATH

    def _ask(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask the process of now, which is another one after each change."""
        return self._process.ask(event)

    def _restart(self) -> None:
        self._stop()
        self._again_at, self._loaded = None, False
        self._process = self._started()

    def _stop(self) -> None:
        in_time = self._process.stop()
        while not self._said.empty():
            self._view.show(self._said.get())
        if not in_time:
            self._view.show({"event": "killed"})


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Let Ctrl-C and SIGTERM set an event. A second Ctrl-C interrupts at once."""
    stop = threading.Event()

    def ask(number: int, _: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def commands() -> list[str]:
    """Return commands for another terminal. The inspector is an extra."""
    commands = ["flowguard send MODULE:FLOW FILE", "flowguard list", "flowguard mailbox"]
    with suppress(PackageNotFoundError):
        distribution("graphviz-pure")  # the rest of it comes with this command's own extra
        commands.append("flowguard ui")
    return commands


def _listening(engine: ServedEngine, modules: tuple[str, ...]) -> dict[str, Any]:
    """Return what another terminal needs."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    return {
        "event": "listening",
        "url": engine.url,
        "region": engine.region,
        "environment": {name: engine.environment()[name] for name in names},
        "commands": commands(),
        "mailbox": engine.mailbox_url,
        "answers": engine.answers_url,
        "modules": list(modules),
    }

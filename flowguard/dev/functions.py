"""The process of the functions.

It loads the modules, creates what they need, and serves their queues.

``python -m flowguard.dev.functions JSON`` is started by :mod:`flowguard.dev.process`, anew after each change of the
source. It stops when its standard input ends, so it never outlives the process that started it. Lines of JSON on its
standard output say what happens; what the user's code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_services
from flowguard.callback_function import CallbackHandler
from flowguard.clock import SystemClock
from flowguard.codecs.kept_keys import standing_in
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import FoundFunction, FunctionKind, find_functions
from flowguard.deploy.needs import Deployment, FunctionNeed, Role
from flowguard.deploy.options import NAMES, DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.dev.delivery import Listener
from flowguard.dev.due_schedules import DueSchedules
from flowguard.dev.local_answers import LocalAnswers
from flowguard.dev.mapping import QueueMapping, Say, as_line
from flowguard.dev.provided import Provider
from flowguard.errors import DefinitionError, SettingsError
from flowguard.events import Observer
from flowguard.observers.combined import combined
from flowguard.observers.named import named_observers
from flowguard.once_function import OnceServices
from flowguard.operate.stage_pauses import MOST_AT_ONCE
from flowguard.project.loading import NoSuchFlow
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_KEYS, SIMULATED_ROLE
from flowguard.sim.calls import intercept
from flowguard.sim.simulated_keys import SIMULATED_DATA_KEYS
from flowguard.sim.weather.forecast import forecast, passing
from flowguard.sim.weather.weather import Weather
from flowguard.start_function import StartHandler

NOT_LOADED: Final = 3
"""The exit code where the modules cannot be loaded or deployed. What is wrong was said."""

_TABLE: Final[str] = Settings.model_fields["table"].default
_KEYS: Final = ("FLOWGUARD_SIGNING_KEYS", "FLOWGUARD_TOKEN_KEYS")
_ANSWERS_URL: Final = "FLOWGUARD_ANSWERS_URL"
_OF_LETTERS: Final = (Role.DEAD_LETTERS, Role.KILLED)
_KEPT_ELSEWHERE: Final = ("ssm:", "secretsmanager:")


class Order(NamedTuple):
    """What the process is to serve."""

    modules: tuple[str, ...]
    options: str | None
    account: str
    region: str
    weather: str = ""
    answers_url: str = ""
    """The base of links that are answered here. The environment's own goes first."""

    def as_text(self) -> str:
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Order:
        modules, *others = json.loads(text)
        return cls(tuple(modules), *others)


def with_room(options: DeployOptions) -> DeployOptions:
    """Return the options with a bound that lanes share. Nothing is bounded here, so nobody has to say one."""
    if options.defaults.max_concurrency is not None:
        return options
    defaults = options.defaults.model_copy(update={"max_concurrency": MOST_AT_ONCE})
    return options.model_copy(update={"defaults": defaults})


def main(order: Order) -> int:
    """Serve until standard input ends, and return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the starter stops this process
    say = _speaker()
    try:
        read = DeployOptions.read(Path(order.options)) if order.options is not None else DeployOptions()
        options = with_room(read.of_environment(os.environ))
        base = os.environ.get(_ANSWERS_URL, order.answers_url)
        for function in (options.defaults, *options.functions.values()):
            os.environ.update(function.environment)
        os.environ[_ANSWERS_URL] = base
        sys.dont_write_bytecode = True  # what is compiled from two saves within a second would look alike
        deployment = needs_of(find_functions(order.modules), options)
    except (CannotDeploy, NoSuchFlow, DefinitionError, SettingsError) as error:
        say({"event": "not loaded", "why": str(error)})
        return NOT_LOADED
    clients, stop = Clients(), threading.Event()
    weather = forecast(order.weather, SystemClock())
    bad_spells = [*passing(order.weather, weather.now())]
    try:
        notes = Provider(clients, order.account, order.region).provide(deployment, options.settings.bucket)
        threads = [_thread(run, stop) for run in _runs(deployment, order, clients, say, weather)]
        answers = answers_of(deployment, order, clients, say)
    except (SettingsError, ClientError, BotoCoreError) as error:
        say({"event": "not loaded", "why": str(error)})
        return NOT_LOADED
    bad_day = ExitStack()
    if order.weather:
        bad_day.enter_context(intercept(weather))
    for thread in threads:
        thread.start()
    say(
        {
            "event": "loaded",
            "functions": {function.name: list(function.reads) for function in deployment.functions},
            "starts": [function.name for function in _starting(deployment)],
            "environment": outside_environment(deployment, os.environ),
            "dead_letters": sorted(queue.name for queue in deployment.queues if queue.role in _OF_LETTERS),
            "weather": [{"name": name, "begins": begins, "ends": ends} for name, begins, ends in bad_spells],
            "notes": [*notes, *deployment.notes],
        }
    )
    for line in sys.stdin.buffer:
        threading.Thread(target=answers.take, args=(json.loads(line),), daemon=True).start()
    stop.set()
    for thread in threads:
        thread.join()
    bad_day.close()
    return 0


def _speaker() -> Say:
    """Return what writes a line to standard output, and let all else that is printed go to standard error."""
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def say(event: dict[str, Any]) -> None:
        with lock:
            lines.write(f"{as_line(event)}\n")
            lines.flush()

    return say


def _thread(run: Callable[[threading.Event], None], stop: threading.Event) -> threading.Thread:
    return threading.Thread(target=run, args=(stop,), daemon=True)


def _runs(
    deployment: Deployment, order: Order, clients: Clients, say: Say, weather: Weather
) -> list[Callable[[threading.Event], None]]:
    """Return what is to run: the mapping of each queue to its function, and the scheduler."""
    pairs = [(need, queue) for need in deployment.functions for queue in need.reads]
    mappings = [replace(mapping_of(need, queue, order, clients, say), weather=weather) for need, queue in pairs]
    runs: list[Callable[[threading.Event], None]] = [mapping.run for mapping in mappings]
    if deployment.long_delays:
        runs.append(DueSchedules(clients, deployment.scheduler_group, SystemClock().now).run)
    return runs


def mapping_of(need: FunctionNeed, queue: str, order: Order, clients: Clients, say: Say) -> QueueMapping:
    listener, settings = Listener(), settings_of(need, os.environ)
    observer: Observer = listener
    if "FLOWGUARD_OBSERVERS" in {**dict(need.environment), **os.environ}:
        observer = combined((listener, named_observers(settings.observers, settings.at_aws)))
    return QueueMapping(
        function=need.name,
        queue=queue,
        region=order.region,
        account=order.account,
        handler=_handler(need.definition, settings, clients, observer),
        listener=listener,
        clients=clients,
        timeout=need.timeout,
        memory=need.memory,
        say=say,
    )


def answers_of(deployment: Deployment, order: Order, clients: Clients, say: Say) -> LocalAnswers:
    """Return the local HTTP server of answer links and of requests that start runs."""
    starts = {need.name: _start_handler(need, clients) for need in _starting(deployment)}
    needs = [function for function in deployment.functions if function.definition.kind is FunctionKind.ANSWERS]
    flows = tuple(dict.fromkeys(flow for need in needs for flow in need.definition.flows))
    if not needs:
        return LocalAnswers(None, order.region, order.account, say, starts)
    settings = settings_of(needs[0], os.environ)
    services = aws_services(settings, clients, observer=named_observers(settings.observers, settings.at_aws))
    return LocalAnswers(CallbackHandler(flows, services), order.region, order.account, say, starts)


def _starting(deployment: Deployment) -> list[FunctionNeed]:
    return [function for function in deployment.functions if function.definition.kind is FunctionKind.STARTS]


def _start_handler(need: FunctionNeed, clients: Clients) -> StartHandler:
    settings = settings_of(need, os.environ)
    services = aws_services(settings, clients, observer=named_observers(settings.observers, settings.at_aws))
    made: StartHandler = getattr(sys.modules[need.definition.module], need.definition.attribute)
    return made.using(services, ledger_of(settings, clients))


def _handler(function: FoundFunction, settings: Settings, clients: Clients, observer: Observer) -> Callable[..., Any]:
    made: Any = getattr(sys.modules[function.module], function.attribute)
    if function.once is None:
        return cast("Callable[..., Any]", made.using(aws_services(settings, observer=observer)))
    services = OnceServices(ledger_of(settings, clients, function.once.table), observer=observer)
    return cast("Callable[..., Any]", made.__self__.using(services).batch)


def settings_of(need: FunctionNeed, environment: Mapping[str, str]) -> Settings:
    """Return the settings of a function: of its deployment, and over them those of this environment.

    Keys that AWS keeps are not here; those of simulations stand for them.
    """
    variables = {name: value for name, value in need.environment if name.startswith("FLOWGUARD_")}
    variables |= {name: value for name, value in environment.items() if name.startswith("FLOWGUARD_")}
    return Settings.from_environment({"FLOWGUARD_SCHEDULER_ROLE": SIMULATED_ROLE, **variables, **_keys(variables)})


def _keys(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what stands for the keys that AWS keeps."""
    return {name: SIMULATED_KEYS for name in _KEYS if variables.get(name, "").startswith(_KEPT_ELSEWHERE)}


def outside_environment(deployment: Deployment, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that commands in another terminal need to understand these functions."""
    variables = {name: value for need in deployment.functions for name, value in need.environment}
    variables |= {name: value for name, value in environment.items() if name.startswith("FLOWGUARD_")}
    table = {"FLOWGUARD_TABLE": table} if (table := variables.get("FLOWGUARD_TABLE", _TABLE)) != _TABLE else {}
    names = {} if deployment.at_aws.are_those_of_the_code else {NAMES: str(deployment.at_aws)}
    return {**table, **names, **_keys(variables)}


if __name__ == "__main__":
    with standing_in(SIMULATED_DATA_KEYS):  # the engine has no keys of KMS
        sys.exit(main(Order.of_text(sys.argv[1])))

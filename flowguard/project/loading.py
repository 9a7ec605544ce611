"""Loads flows by their import path ``MODULE:NAME``. They may be in the current directory or anywhere on the path."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from flowguard.errors import FlowguardError
from flowguard.flow import AnyFlow, Flow
from flowguard.once_function import OnceFunction

SHIPPED: Final = (
    "flows.validate_cart.flow:ValidateCart",
    "flows.triggered_cache.flow:TriggeredCache",
    "flows.take_payment.flow:TakePayment",
    "flows.approval.flow:ApproveExpense",
    "flows.approval.flow:RemindApprover",
    "flows.appointments.flow:BookAppointment",
    "flows.orders.flow:ReceiveGoods",
    "flows.orders.flow:PlaceOrder",
    "flows.orders.flow:AddToOrder",
    "flows.page_cache.flow:PageCache",
    "flows.page_cache.flow:ChangeSource",
    "flows.page_cache.flow:SearchCache",
    "flows.nightly_recount.flow:RecountNight",
    "flows.nightly_recount.flow:CountShop",
)

_ONCE: Final = "a function under @once, which 'flowguard explore' takes by the name of its handler, with --queue"


class NoSuchFlow(FlowguardError):
    """There is no flow under that name. The message says what there is instead."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


def load_flows(names: Iterable[str] = (), *, directory: Path | None = None) -> list[AnyFlow]:
    """Load these flows, or the shipped ones. ``directory`` is searched first; it is the current one by default."""
    place = str(directory if directory is not None else Path.cwd())
    if place not in sys.path:
        sys.path.insert(0, place)
    return [_load(name) for name in dict.fromkeys(names)] or [_load(name) for name in SHIPPED]


def known_flows() -> Iterator[AnyFlow]:
    """Yield each flow of the modules that are imported."""
    ahead: list[AnyFlow] = [Flow]
    while ahead:
        below = ahead.pop().__subclasses__()
        yield from below
        ahead += below


def _load(name: str) -> AnyFlow:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise NoSuchFlow(name, "write MODULE:FLOW, such as orders.flow:ShipOrder")
    module = _module(name, module_name)
    target = getattr(module, attribute, None)
    if isinstance(target, type) and issubclass(target, Flow) and target is not Flow:
        return target
    flows = [known for known, value in vars(module).items() if isinstance(value, type) and issubclass(value, Flow)]
    there = ", ".join(flow for flow in flows if flow != "Flow") or "none"
    if target is None:
        raise NoSuchFlow(name, f"{module_name} has no {attribute!r}; its flows: {there}")
    once = isinstance(target, OnceFunction)
    raise NoSuchFlow(name, f"{attribute} is {_ONCE if once else 'not a Flow'}; the flows of {module_name}: {there}")


def load_module(name: str) -> ModuleType:
    """Import a module of a user's. Raises :class:`NoSuchFlow` with the place of what keeps it from being imported."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise NoSuchFlow(name, "this is the name of no module; write MODULE, such as orders.handlers")
    return _module(name, name)


def _module(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the module is a user's, and may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            hint = "; run it where the shipped flows are, or name your own with --flow" if name in SHIPPED else ""
            raise NoSuchFlow(name, f"there is no module {error.name!r} here{hint}") from None
        problem = f"{module} cannot be imported: {_place(error)}{type(error).__name__}: {error}"
        raise NoSuchFlow(name, problem) from None


def _place(error: BaseException) -> str:
    """Return the file and line of the user's that the error is from: ``orders.py:7: ``. Empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: "
    libraries = ("<frozen ", str(Path(__file__).parents[1]), *sysconfig.get_paths().values())
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(libraries)]
    return f"{users[-1].filename}:{users[-1].lineno}: " if users else ""

"""Runs programs on an engine, and says how what they saw compares with the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from threading import Event
from typing import Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws_facts.fact import CANNOT, MODELLED
from flowguard.aws_facts.fact_table import FACTS
from flowguard.probe import (  # noqa: F401  # each module registers its programs
    ask_expressions,
    ask_fifo,
    ask_functions,
    ask_items,
    ask_notices,
    ask_objects,
    ask_queues,
    ask_schedules,
    ask_statements,
    ask_streams,
    ask_topics,
    ask_transactions,
)
from flowguard.probe.engine_of import SERVED, ProbedEngine
from flowguard.probe.lab import Interrupted, Lab, NotWaited, code
from flowguard.probe.saw import PROBES, Probe
from flowguard.sim.memory.not_in_memory import NotInMemory

AT_ONCE: Final = 12
"""Programs at work at a time at AWS, and on an engine behind an address."""

IN_VAIN: Final = 60
"""Seconds for which a program waits on a served engine that cannot do what its row says."""


BREAKS: Final = "breaks"
"""How the table begins what it says of an engine that answers so that the program cannot go on."""


class Ended(StrEnum):
    """How a program has ended."""

    AS_DESCRIBED = "as described"
    DIFFERS = "differs"
    CANNOT = "cannot"
    BROKEN = "broken"
    INTERRUPTED = "interrupted"


class Finding(NamedTuple):
    """What a program has found on an engine.

    ``expected`` is what the table says of the engine, and ``left`` what could not be deleted.
    """

    name: str
    engine: str
    ended: Ended
    what: str
    expected: str
    left: tuple[str, ...]

    @property
    def is_expected(self) -> bool:
        """Answer whether the table says so. At AWS it says that everything is as described."""
        if self.engine == "aws" or self.expected == MODELLED:
            return self.ended is Ended.AS_DESCRIBED
        if self.expected == CANNOT:
            return self.ended in (Ended.CANNOT, Ended.DIFFERS)
        return self.ended is (Ended.BROKEN if self.expected.startswith(BREAKS) else Ended.DIFFERS)


_UNKNOWN: Final = ("UnknownOperation", "InvalidAction", "NotImplemented", "UnsupportedOperation", "501")


def can_run(probe: Probe, engine: ProbedEngine) -> bool:
    """Answer whether an engine has the services that a program calls."""
    return engine.services is None or set(probe.services) <= set(engine.services)


def run_all(probes: Iterable[Probe], engine: ProbedEngine, stop: Event | None = None) -> Iterator[Finding]:
    """Run programs and yield what each has found. Where the time is real several run at once."""
    stopping = stop if stop is not None else Event()
    with ThreadPoolExecutor(AT_ONCE if engine.together else 1) as pool:
        yield from pool.map(lambda probe: run_one(probe, engine, stopping), probes)


def run_one(probe: Probe, engine: ProbedEngine, stop: Event | None = None) -> Finding:
    """Run a program in a lab of its own. Whatever it raises is a finding."""
    expected = MODELLED if engine.name == "aws" else FACTS[probe.name].on(engine.name)
    longest = IN_VAIN if expected == CANNOT and engine.name in SERVED else math.inf
    lab = Lab(engine.clients, engine.pause, stop, engine.services, longest=longest)
    ended, what = Ended.CANNOT, "the engine has no such service"
    if can_run(probe, engine):
        with lab:
            ended, what = _tried(probe, lab)
    return Finding(probe.name, engine.name, ended, what, expected, tuple(lab.left))


def _tried(probe: Probe, lab: Lab) -> tuple[Ended, str]:
    try:
        saw = probe.run(lab)
    except Interrupted:
        return Ended.INTERRUPTED, "interrupted"
    except (NotInMemory, NotImplementedError, NotWaited) as error:
        return Ended.CANNOT, str(error)
    except ClientError as error:
        is_unknown = any(word in f"{code(error)} {error}" for word in _UNKNOWN)
        return Ended.CANNOT if is_unknown else Ended.BROKEN, str(error)
    except BotoCoreError as error:
        return Ended.BROKEN, f"{type(error).__name__}: {error}"
    except Exception as error:  # a program that an engine confuses says so, and the others go on
        return Ended.BROKEN, f"{type(error).__name__}: {error}"
    return Ended.AS_DESCRIBED if saw.as_described else Ended.DIFFERS, saw.what


def as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as a line of JSON has it."""
    return {**finding._asdict(), "ended": finding.ended.value, "is_expected": finding.is_expected}


def chosen(names: Iterable[str]) -> list[Probe]:
    """Return the programs of these names, or of those that begin with one. All where there is none."""
    wanted = tuple(names)
    return [probe for probe in PROBES.values() if not wanted or probe.name.startswith(wanted)]
